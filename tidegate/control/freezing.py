"""The freeze: while it lasts nothing starts, whoever asks for it. What runs goes on."""

from __future__ import annotations

from tidegate.ports.control import ControlStore
from tidegate.ports.records import Change, Freeze


async def freeze(store: ControlStore, *, who: str, reason: str = "") -> Freeze:
    """Nothing starts from when this is answered. Frozen already: by whom, since when and why stays as it was."""
    async with store.changing() as tx:
        now = await tx.now()
        if await tx.freeze(who, reason, now):
            await tx.record_change(_change(who, "frozen", reason), now)
    return await store.frozen() or Freeze(who=who, since=now, reason=reason)  # lifted again in between


async def unfreeze(store: ControlStore, *, who: str) -> bool:
    """What waited starts, in order of rank; False when nothing was frozen."""
    async with store.changing() as tx:
        now = await tx.now()
        lifted = await tx.unfreeze(now)
        if lifted:
            await tx.record_change(_change(who, "unfrozen", ""), now)
    return lifted


def _change(who: str, action: str, reason: str) -> Change:
    after = {"reason": reason} if action == "frozen" else None
    return Change(who=who, action=action, kind="Freeze", namespace="", name="", before=None, after=after)
