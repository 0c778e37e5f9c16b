"""What people said is obeyed: a cancelled run starts no further attempt, a schedule at rest starts none at all.

What was under way in the very transaction that crossed the request is allowed its few seconds. Runs asked for by hand
work while their schedule is disabled, not when it is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.domain.instants import SECOND, Instant
from tidegate.domain.runs import MERGING, State
from tidegate.domain.schedules import Mode
from tidegate.sim.history import History, ScheduleFact, Violation, when

LAW = "people_obeyed"
CROSSING = 15 * SECOND


def check(history: History) -> Iterator[Violation]:
    runs = {run.key: run for run in history.runs}
    for key, at in history.cancels:
        run = runs[key]
        for attempt in run.attempts:
            if attempt.created_at > at:
                yield Violation(
                    LAW, f"{attempt.key.identity} began at {when(attempt.created_at)}, cancelled {when(at)}"
                )
        crossed = run.finished_at is not None and run.finished_at <= at + CROSSING  # it ended while it was cancelled
        if not (run.live or crossed or run.state in (State.CANCELLED, State.SUCCEEDED, State.CRASHED)):
            yield Violation(LAW, f"run {key} was cancelled at {when(at)}, and is {run.state}")
    schedules = {schedule.id: schedule for schedule in history.schedules}
    for run in history.runs:
        schedule = schedules[run.key.schedule_id]
        for attempt in run.attempts:
            at = attempt.created_at
            if attempt is run.attempts[-1] and run.ready_at is not None:
                at = max(at, run.ready_at)  # a step's `now` may be older than what it then finds
            if _rested(schedule, at, by_hand=run.cause not in MERGING):
                yield Violation(LAW, f"{attempt.key.identity} of {schedule.name} began at {when(at)}, while it rests")


def _rested(schedule: ScheduleFact, at: Instant, *, by_hand: bool) -> bool:
    if schedule.deleted_at is not None and at > schedule.deleted_at + CROSSING:
        return True
    ends = [one.valid_from for one in schedule.revisions[1:]] + [1 << 62]
    return not by_hand and any(
        one.mode is Mode.DROP and one.valid_from + CROSSING < at <= end
        for one, end in zip(schedule.revisions, ends, strict=True)
    )
