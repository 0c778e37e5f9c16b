"""`python -m tidegate.sim`: run seeds, say what happened, and how to see it again where a law did not hold."""

from __future__ import annotations

import argparse
import gc
import sys
from collections import Counter
from dataclasses import dataclass, field
from time import perf_counter, process_time

from tidegate.domain.instants import HOUR, SECOND
from tidegate.sim.feeds import Feeds
from tidegate.sim.run import Scenario, Verdict, simulate
from tidegate.sim.speed import measure, measure_faulted
from tidegate.sim.swarm import Coverage, mix

PROGRESS = 10.0
"""Seconds between two lines about how far it is."""


@dataclass(slots=True)
class Sum:
    """What was tried so far, over all seeds: a few numbers, however long it goes on."""

    seeds: int = 0
    runs: int = 0
    fires: int = 0
    wrong: int = 0
    """Fires without an outcome, or with two."""
    broken: list[int] = field(default_factory=list)  # seeds
    injected: Counter[str] = field(default_factory=Counter)
    coverage: Coverage = field(default_factory=Coverage)

    def add(self, verdict: Verdict) -> None:
        self.seeds += 1
        self.runs += len(verdict.history.runs)
        self.fires += verdict.decided
        self.wrong += sum(one.law == "one_outcome" for one in verdict.violations)
        if verdict.violations:
            self.broken.append(verdict.history.seed)
        self.injected.update(verdict.history.injected)
        self.coverage.add(verdict.tally)

    @property
    def faults(self) -> int:
        return sum(self.injected.values())


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0 when every law held."""
    options = _parser().parse_args(arguments)
    gc.set_threshold(50_000, 20, 50)  # histories grow and stay; looking at them often finds nothing
    if options.speed:
        return _speed(options.hours)
    feeds = None if options.no_feeds else Feeds()
    scenario = Scenario(span=int(options.hours * HOUR), faults=not options.no_faults, feeds=feeds)
    again = f"--hours {options.hours:g}" + "".join(
        f" --{name.replace('_', '-')}" for name in ("swarm", "no_faults", "no_feeds") if getattr(options, name)
    )
    began, used, told = perf_counter(), process_time(), perf_counter()
    so_far, seed = Sum(), options.seed
    try:
        for seed in range(options.seed, options.seed + options.seeds):
            verdict = simulate(seed, mix(seed, scenario.span) if options.swarm else scenario)
            so_far.add(verdict)
            if verdict.violations or options.seeds == 1:
                _tell(verdict)
            if verdict.violations:
                print(f"  again: python -m tidegate.sim --seed {seed} {again}", flush=True)
            now = perf_counter()
            if now - told >= PROGRESS:
                told = now
                print(
                    f"{now - began:,.0f} s, up to seed {seed}: {so_far.fires:,} fires, {so_far.runs:,} runs, "
                    f"{so_far.faults:,} faults, {len(so_far.broken)} seeds broke a law",
                    file=sys.stderr,
                )
            if options.minutes and now - began >= options.minutes * 60:
                break
    except KeyboardInterrupt:
        print(f"interrupted in seed {seed}; what is counted here ends before it", file=sys.stderr)
    _sum_up(so_far, so_far.seeds * options.hours, perf_counter() - began, process_time() - used)
    if so_far.seeds < options.seeds:
        print(f"to go on: python -m tidegate.sim --seed {options.seed + so_far.seeds} {again}")
    return 1 if so_far.broken else 0


def _sum_up(so_far: Sum, hours: float, took: float, used: float) -> None:
    time = f"{took:.1f} s ({used:.1f} s of one core)"
    rates = f"{hours * 3600 / used:,.0f} x real time, {so_far.runs / used:,.0f} runs a second of core"
    print(f"{so_far.seeds} seeds, {hours:g} virtual hours, {so_far.runs} runs in {time}: {rates}")
    print(f"fires decided: {so_far.fires:,}; lost or decided twice: {so_far.wrong}")
    print("faults: " + (", ".join(f"{kind} {count}" for kind, count in sorted(so_far.injected.items())) or "none"))
    if so_far.injected:
        print(so_far.coverage.told())
    broken = len(so_far.broken)
    print(f"{broken} seeds broke a law: {so_far.broken[:20]}" if broken else "every law held")


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
    for schedulers in (0, 3):
        result = measure(hours, schedulers)
        who = f"{schedulers} schedulers and a worker" if schedulers else "one process"
        print(
            f"ten minutely schedules, {who}, heartbeats every 10 s, no faults: {hours:g} virtual hours, {result.fires} "
            f"fires in {result.seconds:.2f} s of one core"
        )
        print(
            f"  {hours * HOUR / SECOND / result.seconds:,.0f} x real time, {result.fires / result.seconds:,.0f} fires/s"
        )
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
    parser.add_argument("--minutes", type=float, default=0.0, help="no seed begins after so many (0: all of them)")
    parser.add_argument("--swarm", action="store_true", help="each seed draws its own mix of faults and options")
    parser.add_argument("--no-faults", action="store_true", help="nothing goes wrong")
    parser.add_argument("--no-feeds", action="store_true", help="nothing is published, and time alone fires")
    parser.add_argument("--speed", action="store_true", help="measure the speed on a calm system instead")
    return parser


if __name__ == "__main__":
    sys.exit(main())
