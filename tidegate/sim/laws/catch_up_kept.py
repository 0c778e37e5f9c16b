"""Late fires run only as their policy allows: none of them under `none`, the newest of all that is due under `latest`.

What is late by less than the grace runs under every policy. A fire is judged by the revision that ruled at its time.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.domain.runs import Cause
from tidegate.domain.schedules import CatchUpPolicy, Revision
from tidegate.domain.triggers import At, Cron, Interval
from tidegate.sim.history import History, RunFact, ScheduleFact, Violation, when
from tidegate.sim.memory.rows import PostponedRow

LAW = "catch_up_kept"


def check(history: History) -> Iterator[Violation]:
    schedules = {schedule.id: schedule for schedule in history.schedules}
    together: dict[tuple[int, int], list[RunFact]] = {}  # decided in one pass
    for run in history.runs:
        if run.cause is Cause.FIRE:
            together.setdefault((run.key.schedule_id, run.created_at), []).append(run)
    kept: dict[int, list[PostponedRow]] = {}
    for one in history.postponed:
        kept.setdefault(one.schedule_id, []).append(one)
    for (number, _), runs in together.items():
        slots = sorted(run.key.slot for run in runs)
        for run in runs:
            # A pass that had come to its cap kept it for the next one, by which time a newer one was due.
            after = next((slot for slot in slots if slot > run.key.slot), run.key.slot)
            was_newest = any(run.key.slot <= one.to and one.now < after for one in kept.get(number, ()))
            yield from _judge(schedules[number], run, run.key.slot if was_newest else slots[-1])


def _judge(schedule: ScheduleFact, run: RunFact, newest: int) -> Iterator[Violation]:
    revision = ruling(schedule, run.key.slot)
    if revision is None:
        return  # no revision owed it: one_outcome says so
    trigger = revision.spec.trigger
    if not isinstance(trigger, Cron | Interval | At):
        return
    catch_up = revision.spec.catch_up
    if run.created_at <= run.key.slot + trigger.jitter + catch_up.grace:
        return
    if catch_up.policy is CatchUpPolicy.NONE:
        yield Violation(LAW, f"{schedule.name}: {when(run.key.slot)} ran at {when(run.created_at)} under `none`")
    if catch_up.policy is CatchUpPolicy.LATEST and run.key.slot < newest:
        yield Violation(LAW, f"{schedule.name}: {when(run.key.slot)} ran under `latest` beside {when(newest)}")


def ruling(schedule: ScheduleFact, fire: int) -> Revision | None:
    """The revision in force at a fire time."""
    return next((one for one in reversed(schedule.revisions) if one.valid_from < fire), None)
