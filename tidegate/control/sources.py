"""Sources: where events come from outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.control.common import LIMIT, Effect, Page, changing, not_found, sliced, taken
from tidegate.documents.declared import Source
from tidegate.domain.instants import Instant
from tidegate.domain.schedules import JsonObject
from tidegate.ports.control import ControlStore, ControlTx
from tidegate.ports.records import Change
from tidegate.ports.sources import SetAsideMessage, SourceRecord

LATEST = 10
"""So many of the messages that a source set aside are shown with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A source, and the latest of what it set aside."""

    record: SourceRecord
    refused: Sequence[SetAsideMessage]


async def put(
    store: ControlStore, declaration: Source, *, who: str, dry_run: bool = False, new: bool = False
) -> Effect:
    """Declare it, or declare it otherwise: then it keeps its places in the topics that it still has.
    `new`: raises Conflict where the name is taken."""
    stored = (await known(store)).get(declaration.metadata.name)
    async with changing(store, dry_run=dry_run) as tx:
        effect = await write(tx, declaration, stored, who=who, now=await tx.now())
        if new and effect is not Effect.CREATED:
            raise taken("source", declaration.metadata.name)
        return effect


async def delete(store: ControlStore, name: str, *, who: str) -> None:
    """With its places: one of the same name that is declared later begins anew. Raises NotFound."""
    stored = await known(store)
    async with store.changing() as tx:
        if name not in stored or not await tx.delete_source(name):
            raise not_found("source", name, stored)
        await tx.record_change(_change(who, "deleted", name, stored[name].document, None), await tx.now())


async def get(store: ControlStore, name: str) -> Shown:
    """Raises NotFound."""
    stored = await known(store)
    if name not in stored:
        raise not_found("source", name, stored)
    return await _shown(store, stored[name])


async def page(store: ControlStore, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Shown]:
    """Every source, by name."""
    found = sliced(list(await store.sources()), lambda one: one.name, cursor, limit)
    return Page(items=tuple([await _shown(store, one) for one in found.items]), next=found.next)


async def known(store: ControlStore) -> dict[str, SourceRecord]:
    return {one.name: one for one in await store.sources()}


async def _shown(store: ControlStore, record: SourceRecord) -> Shown:
    return Shown(record=record, refused=await store.set_aside_of(record.name, LATEST))


# ── inside a transaction ───────────────────────────────────────────────────────────────────────────────────────────


async def write(tx: ControlTx, declaration: Source, stored: SourceRecord | None, *, who: str, now: Instant) -> Effect:
    """Bring it to what is declared; equal ones are not written."""
    if stored is not None and dict(stored.document) == dict(declaration.document):
        return Effect.UNCHANGED
    name = declaration.metadata.name
    effect = (
        Effect.CREATED if await tx.put_source(name, declaration.spec, declaration.document, now) else Effect.UPDATED
    )
    before = None if stored is None else stored.document
    await tx.record_change(_change(who, effect, name, before, declaration.document), now)
    return effect


def _change(who: str, action: str, name: str, before: JsonObject | None, after: JsonObject | None) -> Change:
    return Change(who=who, action=str(action), kind="Source", namespace="", name=name, before=before, after=after)
