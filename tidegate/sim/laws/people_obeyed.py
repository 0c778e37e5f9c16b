"""What people said is obeyed: a cancelled run starts no further attempt, a schedule at rest starts none at all.

An attempt that was being claimed in the very transaction that crossed the request is allowed its few seconds. Runs
asked for by hand work while their schedule is disabled, not when it is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.domain.instants import SECOND, Instant
from tidegate.domain.runs import State
from tidegate.domain.schedules import Mode
from tidegate.sim.history import History, ScheduleFact, Violation, when

LAW = "people_obeyed"
CROSSING = 15 * SECOND


def check(history: History) -> Iterator[Violation]:
    runs = {run.key: run for run in history.runs}
    for key, at in history.cancels:
        run = runs[key]
        for attempt in run.attempts:
            if attempt.created_at > at + CROSSING:
                yield Violation(
                    LAW, f"{attempt.key.identity} began at {when(attempt.created_at)}, cancelled {when(at)}"
                )
        if not run.live and run.state not in (State.CANCELLED, State.SUCCEEDED, State.CRASHED, State.SUPERSEDED):
            yield Violation(LAW, f"run {key} was cancelled at {when(at)}, and is {run.state}")
    schedules = {schedule.id: schedule for schedule in history.schedules}
    for run in history.runs:
        schedule = schedules[run.key.schedule_id]
        for attempt in run.attempts:
            if _rested(schedule, attempt.created_at, by_hand=run.key.ord > 0):
                yield Violation(LAW, f"{attempt.key.identity} of {schedule.name} began at {when(attempt.created_at)}")


def _rested(schedule: ScheduleFact, at: Instant, *, by_hand: bool) -> bool:
    if schedule.deleted_at is not None and at > schedule.deleted_at + CROSSING:
        return True
    ends = [one.valid_from for one in schedule.revisions[1:]] + [1 << 62]
    return not by_hand and any(
        one.mode is Mode.DROP and one.valid_from + CROSSING < at <= end
        for one, end in zip(schedule.revisions, ends, strict=True)
    )
