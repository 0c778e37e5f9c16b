"""How a schedule goes, and how what it had not decided yet is accounted for. Used wherever schedules are deleted."""

from __future__ import annotations

from tidegate.control import clocks
from tidegate.domain.instants import Instant
from tidegate.domain.runs import State
from tidegate.domain.schedules import Mode
from tidegate.domain.triggers import collects
from tidegate.ports.control import ControlTx
from tidegate.ports.records import Change, ScheduleRecord


async def remove(tx: ControlTx, stored: ScheduleRecord, why: str, *, who: str, now: Instant) -> None:
    """Delete a locked schedule: undecided fires and waiting runs end superseded; what runs ends by itself."""
    if stored.mode is not Mode.DROP:
        await supersede_undecided(tx, stored, why, until=max(now, stored.cursor), now=now)
    await tx.end_waiting(stored.id, State.SUPERSEDED, why, now)
    await tx.remove_schedule(stored.id, now)
    if collects(stored.spec.trigger):
        await tx.reset_progress(stored.id, now)
    change = Change(
        who=who,
        action="deleted",
        kind="Schedule",
        namespace=stored.metadata.namespace,
        name=stored.metadata.name,
        before={"spec": dict(stored.document), "enabled": stored.mode is Mode.ENABLED},
        after=None,
    )
    await tx.record_change(change, now)


async def supersede_undecided(tx: ControlTx, stored: ScheduleRecord, why: str, *, until: Instant, now: Instant) -> None:
    """Record the fires that were due up to `until` and that no timekeeper had decided."""
    stretches = await clocks.undecided(tx, stored, until, why)
    if stretches:
        await tx.record_stretches(stored.id, stretches, now)
