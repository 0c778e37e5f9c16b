"""A schedule whose run has used up its attempts pauses, where it says so (`retry.then: pause`, FAIL-2).

The end of the run asks for it in the transaction that records it, so no crash forgets it; a scheduler then does here
what a person would: it suspends the schedule in mode `hold`, so that no data is lost, with the reason. Whoever has
disabled the schedule meanwhile, or has edited the policy away, had the last word.
"""

from __future__ import annotations

from tidegate.control.schedules import switch
from tidegate.domain.errors import NotFound
from tidegate.domain.schedules import Mode, ThenFailed
from tidegate.ports.collecting import NewEvent
from tidegate.ports.control import ControlStore
from tidegate.ports.pausing import Pausing

WHO = "tidegate"


async def pause(store: ControlStore, asked: Pausing) -> bool:
    """Whether it is paused now by this call."""
    async with store.changing() as tx:
        found = await tx.lock_schedules(asked.namespace, [asked.name])
        stored = next((one for one in found if one.id == asked.schedule), None)
        await tx.settle_pause(asked.schedule)
        if stored is None or stored.mode is not Mode.ENABLED or stored.spec.retry.then is not ThenFailed.PAUSE:
            return False
        reason = f"Paused, since a run used up its attempts: {asked.reason}"
        try:
            await switch(tx, stored, Mode.HOLD, reason, who=WHO)
        except NotFound:  # deleted meanwhile
            return False
        key = f"{asked.namespace}/{asked.name}"
        event = NewEvent(type="schedule.paused", key=key, payload={"reason": reason}, source="pauser")
        await tx.publish([event], await tx.now())
        return True
