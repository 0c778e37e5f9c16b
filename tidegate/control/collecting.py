"""What a change of a schedule's mode does to what its trigger has collected.

`drop` forgets all of it. `keep` lets it stand: what was acknowledged before belongs to it, looked at or not, and what
came meanwhile is passed by when the schedule works again: it fires nothing, and is in the next input all the same,
since only `drop` and an update move that to the present. The other modes go on collecting.
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.domain.collected import Deadline
from tidegate.domain.ids import ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.progress import advance
from tidegate.domain.schedules import Mode
from tidegate.domain.triggers import Trigger, collects
from tidegate.ports.collecting import Collected
from tidegate.ports.control import ControlTx


async def stand_still(tx: ControlTx, schedule: ScheduleId, now: Instant) -> None:
    """Before a schedule rests by `keep`: fold in what is acknowledged by now. The schedule is locked."""
    for one in await tx.collections([schedule], now):
        try:
            done = advance(one.revision.spec.trigger, one.progress, one.bulk, one.given, one.facts)
        except Exception as fault:  # a plug-in's, or an event of another version: as the matcher does
            await tx.set_aside(schedule, f"{type(fault).__name__}: {fault}", now)
        else:
            await tx.collect([Collected(collecting=one, advance=done)], now)


async def changed(
    tx: ControlTx, schedule: ScheduleId, old: tuple[Mode, Trigger], new: tuple[Mode, Trigger], *, resets: bool, now: int
) -> None:
    """After the new revision is written: begin anew, or go on after what came while it rested."""
    (was, before), (mode, after) = old, new
    if not (collects(before) or collects(after)):
        return
    if resets or before != after or (was is not mode and Mode.DROP in (was, mode)):
        await tx.reset_progress(schedule, now)
    elif was is Mode.KEEP and mode.works:
        await _go_on(tx, schedule, now)


async def _go_on(tx: ControlTx, schedule: ScheduleId, now: Instant) -> None:
    """Everything that came up to now is passed by; what was collected before stays."""
    found = await tx.collections([schedule], now)
    if not found:  # nothing was kept, since it was updated while it rested
        await tx.reset_progress(schedule, now)
    for one in found:
        kept = replace(one.progress, seen=now)
        here = Deadline(at=now, node=0)  # a silence that is over by now counts, and may be the last thing it waits for
        done = advance(one.revision.spec.trigger, kept, (), (here,), one.facts)
        await tx.collect([Collected(collecting=one, advance=done)], now)
