"""Sinks: where the event log is delivered to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.control.common import LIMIT, Effect, Page, changing, not_found, sliced, taken
from tidegate.documents.declared import Sink
from tidegate.domain.instants import Instant
from tidegate.domain.schedules import JsonObject
from tidegate.ports.control import ControlStore, ControlTx
from tidegate.ports.records import Change
from tidegate.ports.sinks import RefusedEvent, SinkRecord

LATEST = 10
"""So many of the events that a sink refused are shown with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A sink, and the latest of what it refused."""

    record: SinkRecord
    refused: Sequence[RefusedEvent]


async def put(store: ControlStore, declaration: Sink, *, who: str, dry_run: bool = False, new: bool = False) -> Effect:
    """Declare it, or declare it otherwise: then it keeps its place in the log. A new one gets what happens from now
    on.
    `new`: raises Conflict where the name is taken."""
    stored = (await known(store)).get(declaration.metadata.name)
    async with changing(store, dry_run=dry_run) as tx:
        effect = await write(tx, declaration, stored, who=who, now=await tx.now())
        if new and effect is not Effect.CREATED:
            raise taken("sink", declaration.metadata.name)
        return effect


async def delete(store: ControlStore, name: str, *, who: str) -> None:
    """With its place: one of the same name that is declared later begins anew. Raises NotFound."""
    stored = await known(store)
    async with store.changing() as tx:
        if name not in stored or not await tx.delete_sink(name):
            raise not_found("sink", name, stored)
        await tx.record_change(_change(who, "deleted", name, stored[name].document, None), await tx.now())


async def replay(store: ControlStore, name: str, position: int | None, *, who: str) -> int:
    """What it refused is to be sent again: all of it, or one event. How many. Raises NotFound."""
    stored = await known(store)
    if name not in stored:
        raise not_found("sink", name, stored)
    async with store.changing() as tx:
        asked = await tx.replay_sink(name, position)
        if position is not None and not asked:
            raise not_found("refused event", str(position))
        if asked:
            after = {"events": asked} if position is None else {"events": asked, "position": str(position)}
            await tx.record_change(_change(who, "replayed", name, None, after), await tx.now())
    return asked


async def get(store: ControlStore, name: str) -> Shown:
    """Raises NotFound."""
    stored = await known(store)
    if name not in stored:
        raise not_found("sink", name, stored)
    return await _shown(store, stored[name])


async def page(store: ControlStore, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Shown]:
    """Every sink, by name."""
    found = sliced(list(await store.sinks()), lambda one: one.name, cursor, limit)
    return Page(items=tuple([await _shown(store, one) for one in found.items]), next=found.next)


async def known(store: ControlStore) -> dict[str, SinkRecord]:
    return {one.name: one for one in await store.sinks()}


async def _shown(store: ControlStore, record: SinkRecord) -> Shown:
    return Shown(record=record, refused=await store.refusals(record.name, LATEST) if record.set_aside else ())


# ── inside a transaction ───────────────────────────────────────────────────────────────────────────────────────────


async def write(tx: ControlTx, declaration: Sink, stored: SinkRecord | None, *, who: str, now: Instant) -> Effect:
    """Bring it to what is declared; equal ones are not written."""
    if stored is not None and dict(stored.document) == dict(declaration.document):
        return Effect.UNCHANGED
    name = declaration.metadata.name
    effect = Effect.CREATED if await tx.put_sink(name, declaration.spec, declaration.document, now) else Effect.UPDATED
    before = None if stored is None else stored.document
    await tx.record_change(_change(who, effect, name, before, declaration.document), now)
    return effect


def _change(who: str, action: str, name: str, before: JsonObject | None, after: JsonObject | None) -> Change:
    return Change(who=who, action=str(action), kind="Sink", namespace="", name=name, before=before, after=after)
