"""Where a schedule's clock stands after a change: the one place where control speaks to `domain.planning`.

Three cases. A new schedule is decided up to now. A change of a working schedule leaves its undecided fires to the
revision that was in force at their time: cursor and next_due stay where they are for them. Disabling and deleting
decide them here and now: they end superseded, as one stretch.
"""

from __future__ import annotations

from tidegate.domain import planning
from tidegate.domain.ids import ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.planning import Standing, Stretch
from tidegate.domain.schedules import Mode, Revision, ScheduleSpec
from tidegate.ports.control import ControlTx
from tidegate.ports.records import ClockState, ScheduleRecord


def fresh(name: str, spec: ScheduleSpec, mode: Mode, now: Instant) -> ClockState:
    """The clock of a new schedule. `name` is namespace/name."""
    new = Revision(schedule_id=ScheduleId(0), rev=1, valid_from=now, mode=mode, spec=spec)
    return _state(planning.revise(name, None, (), new))


async def revised(
    tx: ControlTx, stored: ScheduleRecord, spec: ScheduleSpec, mode: Mode, valid_from: Instant
) -> ClockState:
    """The clock of a locked schedule once a revision with this spec and mode is in force."""
    history = await tx.revisions_from(stored.id, stored.cursor_rev)
    new = Revision(schedule_id=stored.id, rev=stored.rev + 1, valid_from=valid_from, mode=mode, spec=spec)
    return _state(planning.revise(_name(stored), stored, tuple(history), new))


async def undecided(tx: ControlTx, stored: ScheduleRecord, until: Instant, why: str) -> tuple[Stretch, ...]:
    """The fires of a locked schedule up to `until` that no timekeeper decided, as stretches to be recorded."""
    history = await tx.revisions_from(stored.id, stored.cursor_rev)
    return planning.undecided(_name(stored), stored, tuple(history), until, reason=why)


def _state(standing: Standing) -> ClockState:
    return ClockState(cursor=standing.cursor, cursor_rev=standing.cursor_rev, next_due=standing.next_due)


def _name(stored: ScheduleRecord) -> str:
    return f"{stored.metadata.namespace}/{stored.metadata.name}"
