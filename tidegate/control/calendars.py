"""Calendars: when work that names one does not start."""

from __future__ import annotations

from tidegate.control.common import LIMIT, Effect, Page, changing, not_found, sliced, taken
from tidegate.documents.declared import Calendar
from tidegate.domain import calendars
from tidegate.domain.instants import Instant
from tidegate.domain.schedules import JsonObject
from tidegate.ports.control import ControlStore, ControlTx
from tidegate.ports.records import Change

Stored = tuple[calendars.Calendar, JsonObject]


async def put(
    store: ControlStore, declaration: Calendar, *, who: str, dry_run: bool = False, new: bool = False
) -> Effect:
    """Create it, or declare it otherwise: what waits for it is judged by the new one at once.
    `new`: raises Conflict where the name is taken."""
    stored = (await _known(store)).get(declaration.metadata.name)
    async with changing(store, dry_run=dry_run) as tx:
        effect = await write(tx, declaration, stored, who=who, now=await tx.now())
        if new and effect is not Effect.CREATED:
            raise taken("calendar", declaration.metadata.name)
        return effect


async def delete(store: ControlStore, name: str, *, who: str) -> None:
    """What names it waits until there is one again. Raises NotFound."""
    known = await _known(store)
    async with store.changing() as tx:
        now = await tx.now()
        if name not in known or not await tx.delete_calendar(name, now):
            raise not_found("calendar", name, known)
        await tx.record_change(_change(who, "deleted", name, known[name][1], None), now)


async def get(store: ControlStore, name: str) -> Stored:
    """With its document. Raises NotFound."""
    known = await _known(store)
    if name not in known:
        raise not_found("calendar", name, known)
    return known[name]


async def page(store: ControlStore, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Stored]:
    """Every calendar, by name."""
    return sliced(list(await store.calendars()), lambda one: one[0].name, cursor, limit)


async def _known(store: ControlStore) -> dict[str, Stored]:
    return {calendar.name: (calendar, document) for calendar, document in await store.calendars()}


# ── inside a transaction ───────────────────────────────────────────────────────────────────────────────────────────


async def write(tx: ControlTx, declaration: Calendar, stored: Stored | None, *, who: str, now: Instant) -> Effect:
    """Bring it to what is declared; equal ones are not written."""
    if stored is not None and (stored[0], dict(stored[1])) == (declaration.calendar, dict(declaration.document)):
        return Effect.UNCHANGED
    new = await tx.put_calendar(declaration.calendar, declaration.document, now)
    effect = Effect.CREATED if new else Effect.UPDATED
    before = None if stored is None else stored[1]
    await tx.record_change(_change(who, effect, declaration.metadata.name, before, declaration.document), now)
    return effect


def _change(who: str, action: str, name: str, before: JsonObject | None, after: JsonObject | None) -> Change:
    return Change(who=who, action=str(action), kind="Calendar", namespace="", name=name, before=before, after=after)
