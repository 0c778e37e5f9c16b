"""Counters, used slots and statistics equal what the runs say; nothing ever had to be mended."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.sim.history import History, StatsFact, Violation

LAW = "counters_add_up"


def check(history: History) -> Iterator[Violation]:
    held: dict[str, int] = {}
    used: dict[str, int] = {}
    for run in history.runs:
        if run.live:
            for key in run.held:
                held[key] = held.get(key, 0) + 1
            if run.slot_held:
                used[run.pool] = used.get(run.pool, 0) + 1
        elif run.held or run.slot_held:
            yield Violation(LAW, f"run {run.key} has ended and still holds {run.held or 'a slot'}")
    for key in sorted({*held, *history.counters}):
        if held.get(key, 0) != history.counters.get(key, 0):
            yield Violation(LAW, f"counter {key} says {history.counters.get(key, 0)}, runs hold {held.get(key, 0)}")
    for pool in history.pools:
        if used.get(pool.name, 0) != pool.used:
            yield Violation(LAW, f"pool {pool.name} says {pool.used} used, runs hold {used.get(pool.name, 0)}")
    for _, _, drifts in history.resyncs:
        for drift in drifts:
            yield Violation(LAW, f"a resync had to mend {drift}")
    yield from _statistics(history)


def _statistics(history: History) -> Iterator[Violation]:
    ends: dict[int, dict[str, int]] = {}
    for run in history.runs:
        mine = ends.setdefault(run.key.schedule_id, {})
        for attempt in run.attempts:
            if attempt.outcome is not None:
                mine[attempt.outcome] = mine.get(attempt.outcome, 0) + 1
        if not run.live and run.started_at is not None:
            mine["runs"] = mine.get("runs", 0) + 1
    nothing = StatsFact(total_runs=0, total_successes=0, total_failures=0, total_crashes=0, total_timeouts=0)
    for schedule, mine in sorted(ends.items()):
        said = history.stats.get(schedule, nothing)
        for name, right, there in (
            ("runs", mine.get("runs", 0), said.total_runs),
            ("successes", mine.get("succeeded", 0), said.total_successes),
            ("failures", mine.get("failed", 0), said.total_failures),
            ("crashes", mine.get("crashed", 0), said.total_crashes),
            ("timeouts", mine.get("timed_out", 0), said.total_timeouts),
        ):
            if right != there:
                yield Violation(LAW, f"schedule {schedule}: statistics say {there} {name}, its runs {right}")
