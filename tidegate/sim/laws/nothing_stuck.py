"""After the faults everything due is decided and everything that lives moves on.

Two snapshots are taken in the calm, minutes apart. A run that looks exactly the same in both must have a reason to
wait: an instant that has not come, a limit that is used up, a program that still runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tidegate.domain.admission import SUSPENDED_MODES
from tidegate.domain.instants import MINUTE
from tidegate.domain.runs import State
from tidegate.domain.schedules import Mode
from tidegate.domain.triggers import AfterFinish
from tidegate.sim.history import History, PoolFact, RunFact, ScheduleFact, Violation, when
from tidegate.sim.laws.no_attempt_unaccounted import IN_FLIGHT

LAW = "nothing_stuck"
PATIENCE = MINUTE


def check(history: History) -> Iterator[Violation]:
    if len(history.snapshots) < 2:
        return
    before, after = history.snapshots[-2:]
    schedules = {schedule.id: schedule for schedule in history.schedules}
    live = {key.schedule_id for key in after.runs}
    for schedule in history.schedules:
        late = schedule.next_due is not None and schedule.next_due < history.end - PATIENCE
        if late and schedule.deleted_at is None:
            yield Violation(LAW, f"{schedule.name} was due at {when(schedule.next_due or 0)} and is not decided")
        if _stopped(schedule, live):
            yield Violation(LAW, f"{schedule.name} works, and neither lives a run of it nor will one come")
    awake = {run.wake_key for run in after.runs.values() if run.wake_at is not None}  # whose turn comes first
    running = {one.attempt for one in history.executions if one.ended_at is None}
    for key, run in after.runs.items():
        if before.runs.get(key) != run:
            continue
        if run.state in IN_FLIGHT and run.attempts and run.attempts[-1].key in running:
            continue
        if run.wake_at is None and run.wake_key in awake:
            continue
        why = _why_stuck(history, schedules[key.schedule_id], run, after.at)
        if why:
            yield Violation(LAW, f"run {key} is {run.state} and has not moved since {when(before.at)}: {why}")


def _stopped(schedule: ScheduleFact, live: Collection[int]) -> bool:
    """Whether an endless `after_finish` schedule has come to its end."""
    newest = schedule.revisions[-1]
    trigger = newest.spec.trigger
    return (
        schedule.deleted_at is None
        and newest.mode.works
        and isinstance(trigger, AfterFinish)
        and trigger.end is None
        and schedule.next_due is None
        and schedule.id not in live
    )


def _why_stuck(history: History, schedule: ScheduleFact, run: RunFact, now: int) -> str | None:
    """None when it has a reason to wait."""
    if run.state is not State.WAITING:
        return "nothing of it runs"
    if run.wake_at is not None:
        return f"it was to be judged at {when(run.wake_at)}" if run.wake_at < now - PATIENCE else None
    if run.wake_key is None:
        return "nothing will wake it"
    return _why_queued(history, schedule.revisions[-1].mode, run, run.wake_key, now)


def _why_queued(history: History, mode: Mode, run: RunFact, key: str, now: int) -> str | None:
    """The same of one that waits in a queue."""
    kind = key.partition(":")[0]
    match kind:
        case "pool":
            pool = next((one for one in history.pools if f"pool:{one.name}" == key), None)
            if pool is not None and pool.used < pool.slots:
                return "its pool has a free slot"
            return "its pool may borrow a slot" if pool is not None and _may_borrow(history, pool) else None
        case "freeze":
            return None if history.freezes and history.freezes[-1][1] else "nothing is frozen"
        case "resume":
            return None if mode in SUSPENDED_MODES else "its schedule is not suspended"
        case "load":
            return _why_unread(history, key, now)
        case "window" | "rate" | "min" | "calendar":
            at = history.queues.get(key)
            if at is None:
                there = {f"calendar:{name}": calendar for _, name, calendar in history.calendars}
                missing = kind == "calendar" and there.get(key) is None
                return None if missing else f"queue {key} has no instant"
            return f"queue {key} was to be looked at {when(at)}" if at < now - PATIENCE else None
        case _:
            held, limit = history.counters.get(key, 0), run.wake_limit
            return None if limit is not None and held >= limit else f"{key} is at {held} of {limit}"


def _may_borrow(history: History, pool: PoolFact) -> bool:
    """Whether another pool has a slot for it that nobody there waits for."""
    if pool.borrow is None:
        return False
    name, most = pool.borrow
    lender = next((one for one in history.pools if one.name == name), None)
    has = sum(run.borrower == pool.name and run.slot_held for run in history.runs)
    waits = any(run.state is State.WAITING and run.wake_key == f"pool:{name}" for run in history.runs)
    return lender is not None and lender.used < lender.slots and has < most and not waits


def _why_unread(history: History, key: str, now: int) -> str | None:
    """A reading that lets it go came long ago (two, since one may pass by a run that is just being judged)."""
    resource, _, limit = key.removeprefix("load:").rpartition(":")
    known = [one.value for at, name, one in history.readings if name == resource and at < now - PATIENCE][-2:]
    good = [value is not None and value < float(limit) for value in known]
    return f"{resource} was read at {known}" if len(good) == 2 and all(good) else None
