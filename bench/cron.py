"""Nanoseconds per cron step with a time zone, from a trigger as the engine holds it; this file alone prints a table.

The goal is 3,000 ns for the next fire. Also: a year of minutes counted, and one on-time clock planned.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter_ns, thread_time_ns

from bench.figures import Figure, Say, at_most
from tidegate.domain.fires import count_fires, newest_fire, next_fire, ticks_of
from tidegate.domain.instants import DAY, parse_instant
from tidegate.domain.triggers import Cron

START = parse_instant("2026-01-01T00:00:00Z")
CASES = ("* * * * *", "*/15 * * * *", "30 2 * * *", "0 2 * * MON-FRI", "0 0 L * *")
ZONES = ("UTC", "Europe/Berlin", "Australia/Lord_Howe")
STEPS, ROUNDS = 500, 9


def step_times(expression: str, zone: str) -> tuple[int, int, int]:
    """Median ns of one step of the trigger, of its compiled ticks, and backwards.

    Processor time: on a machine that is shared, who is put aside for a moment would measure the neighbours.
    """
    trigger = Cron(expression=expression, timezone=zone)
    ticks = ticks_of(trigger)
    assert ticks is not None
    steps = (
        lambda at: next_fire(trigger, at),
        ticks.next,
        lambda at: newest_fire(trigger, at - 1),
    )
    found = []
    for step in steps:
        times = []
        for _ in range(ROUNDS):
            at, begin = START, thread_time_ns()
            for _ in range(STEPS):
                at = step(at) or START
            times.append((thread_time_ns() - begin) // STEPS)
        found.append(int(median(times)))
    return found[0], found[1], found[2]


def measure(say: Say) -> list[Figure]:
    """The worst of all cases, so that no expression hides behind another."""
    worst = max(step_times(expression, zone)[0] for zone in ZONES for expression in CASES)
    how = f"worst of {len(CASES)} expressions in {len(ZONES)} zones, median of {ROUNDS} rounds"
    return [at_most("next cron fire", worst / 1000, "us", 3, how)]


def main() -> None:
    print(f"{'expression':18} {'zone':20} {'next fire':>10} {'compiled':>10} {'backwards':>10}  (ns)")
    for zone in ZONES:
        for expression in CASES:
            whole, compiled, back = step_times(expression, zone)
            print(f"{expression:18} {zone:20} {whole:10,} {compiled:10,} {back:10,}")
    begin = perf_counter_ns()
    n = count_fires(Cron(expression="* * * * *", timezone="Europe/Berlin"), START, START + 365 * DAY)
    print(f"a year of minutes ({n:,}) counted in {(perf_counter_ns() - begin) / 1e3:,.0f} us")


if __name__ == "__main__":
    main()
