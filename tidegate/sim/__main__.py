"""`python -m tidegate.sim`: run seeds, say what happened, and how to see it again where a law did not hold."""

from __future__ import annotations

import argparse
import gc
import sys
from time import perf_counter, process_time

from tidegate.domain.instants import HOUR, SECOND
from tidegate.sim.feeds import Feeds
from tidegate.sim.run import Scenario, Verdict, simulate
from tidegate.sim.speed import measure, measure_faulted
from tidegate.sim.swarm import Coverage, mix


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0 when every law held."""
    options = _parser().parse_args(arguments)
    gc.set_threshold(50_000, 20, 50)  # histories grow and stay; looking at them often finds nothing
    if options.speed:
        return _speed(options.hours)
    feeds = None if options.no_feeds else Feeds()
    scenario = Scenario(span=int(options.hours * HOUR), faults=not options.no_faults, feeds=feeds)
    began, used = perf_counter(), process_time()
    fires = broken = 0
    injected: dict[str, int] = {}
    coverage = Coverage()
    for seed in range(options.seed, options.seed + options.seeds):
        verdict = simulate(seed, mix(seed, scenario.span) if options.swarm else scenario)
        coverage.add(verdict.points)
        fires += verdict.fires
        for kind, count in verdict.history.injected.items():
            injected[kind] = injected.get(kind, 0) + count
        if verdict.violations or options.seeds == 1:
            _tell(verdict)
        if verdict.violations:
            broken += 1
            more = (" --no-faults" if options.no_faults else "") + (" --no-feeds" if options.no_feeds else "")
            more = " --swarm" if options.swarm else more
            print(f"  again: python -m tidegate.sim --seed {seed} --hours {options.hours:g}{more}")
    took, used = perf_counter() - began, process_time() - used
    virtual = options.seeds * options.hours * 3600
    print(
        f"{options.seeds} seeds, {virtual / 3600:g} virtual hours, {fires} runs in {took:.1f} s "
        f"({used:.1f} s of one core): {virtual / used:,.0f} x real time, {fires / used:,.0f} runs a second of core"
    )
    print("faults: " + (", ".join(f"{kind} {count}" for kind, count in sorted(injected.items())) or "none"))
    if injected:
        print(coverage.told())
    print(f"{broken} seeds broke a law" if broken else "every law held")
    return 1 if broken else 0


def _tell(verdict: Verdict) -> None:
    history = verdict.history
    states: dict[str, int] = {}
    for run in history.runs:
        states[str(run.state)] = states.get(str(run.state), 0) + 1
    for stretch in history.stretches:
        states[str(stretch.outcome)] = states.get(str(stretch.outcome), 0) + stretch.n
    print(f"seed {history.seed}: {len(history.schedules)} schedules, {len(history.executions)} executions")
    print("  runs:   " + ", ".join(f"{state} {count}" for state, count in sorted(states.items())))
    print("  people: " + ", ".join(f"{what} {count}" for what, count in verdict.asked.items()))
    print("  faults: " + ", ".join(f"{kind} {count}" for kind, count in history.injected.items()))
    print(f"  digest: {history.digest}")
    for violation in verdict.violations[:20]:
        print(f"  VIOLATED {violation}")
    if len(verdict.violations) > 20:
        print(f"  and {len(verdict.violations) - 20} more")


def _speed(hours: float) -> int:
    result = measure(hours)
    print(
        f"ten minutely schedules, heartbeats every 10 s, no faults: {hours:g} virtual hours, {result.fires} fires in "
        f"{result.seconds:.2f} s of one core"
    )
    print(f"  {hours * HOUR / SECOND / result.seconds:,.0f} x real time, {result.fires / result.seconds:,.0f} fires/s")
    result = measure_faulted()
    print(
        f"a hundred schedules of every kind, faults at every call, laws checked: {result.fires} fires in "
        f"{result.seconds:.2f} s of one core"
    )
    print(f"  {result.fires / result.seconds:,.0f} faulted fires/s")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tidegate.sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many, one after the other")
    parser.add_argument("--hours", type=float, default=1.0, help="virtual hours of each")
    parser.add_argument("--swarm", action="store_true", help="each seed draws its own mix of faults and options")
    parser.add_argument("--no-faults", action="store_true", help="nothing goes wrong")
    parser.add_argument("--no-feeds", action="store_true", help="nothing is published, and time alone fires")
    parser.add_argument("--speed", action="store_true", help="measure the speed on a calm system instead")
    return parser


if __name__ == "__main__":
    sys.exit(main())
