"""No identity is started twice, and no run, and no fire time, is under way twice at a time.

A fire time may have a run of the clock and, later, runs of backfills: never two at once.

An execution that would not even be killed counts until it was given up: from then on its fencing token is void.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.domain.ids import AttemptKey, RunKey
from tidegate.domain.instants import SECOND, Instant
from tidegate.domain.runs import Cause
from tidegate.sim.backend import Execution
from tidegate.sim.history import History, Violation, when

LAW = "one_run_a_key"
CROSSING = 30 * SECOND
"""From the commit of an attempt until it starts."""


def check(history: History) -> Iterator[Violation]:
    ends = given_up(history)
    seen: set[AttemptKey] = set()
    of_run: dict[RunKey, list[Execution]] = {}
    for one in history.executions:
        if one.attempt in seen:
            yield Violation(LAW, f"{one.attempt.identity} was started again at {when(one.started_at)}")
        seen.add(one.attempt)
        of_run.setdefault(one.attempt.run, []).append(one)
    for run, executions in of_run.items():
        executions.sort(key=lambda one: one.started_at)
        for before, after in zip(executions, executions[1:], strict=False):
            end = until(before, ends, history.end)
            if after.started_at < end:
                yield Violation(
                    LAW,
                    f"{run}: attempt {after.attempt.number} began at {when(after.started_at)}, while attempt "
                    f"{before.attempt.number} was under way until {when(end)}",
                )
            if after.fence <= before.fence and not _forgotten(history, before):
                yield Violation(LAW, f"{run}: the fencing token did not rise from one attempt to the next")
    yield from _of_fires(history, ends)


def _forgotten(history: History, one: Execution) -> bool:
    """A standby took over that may not know of its start: its fencing token may come again (exactly-once.md)."""
    return any(since <= one.started_at <= until + CROSSING for since, until in history.losses)


def _of_fires(history: History, ends: dict[AttemptKey, Instant]) -> Iterator[Violation]:
    fires = {
        run.key: (run.key.schedule_id, run.fire_time)
        for run in history.runs
        if run.cause in (Cause.FIRE, Cause.BACKFILL) and run.fire_time is not None
    }
    asked = {fires[run.key] for run in history.runs if run.cause is Cause.BACKFILL and run.key in fires}
    found: dict[tuple[int, Instant], list[Execution]] = {}
    for one in history.executions:
        if (fire := fires.get(one.attempt.run)) in asked and fire is not None:
            found.setdefault(fire, []).append(one)
    for (_, at), executions in found.items():
        executions.sort(key=lambda one: one.started_at)
        for before, after in zip(executions, executions[1:], strict=False):
            if after.started_at < until(before, ends, history.end):
                yield Violation(
                    LAW, f"{when(at)}: {before.attempt.identity} was under way when {after.attempt.identity} began"
                )


def given_up(history: History) -> dict[AttemptKey, Instant]:
    """When attempts were given up that would not end."""
    return {
        attempt.key: attempt.finished_at
        for run in history.runs
        for attempt in run.attempts
        if attempt.code == "stop.gave_up" and attempt.finished_at is not None
    }


def until(one: Execution, ends: dict[AttemptKey, Instant], end: Instant) -> Instant:
    """Up to when an execution counts."""
    real = one.ended_at if one.ended_at is not None else end
    return min(real, ends.get(one.attempt, real))
