"""Datasets: named data that triggers wait for, declared or not."""

from __future__ import annotations

from typing import Any

from tidegate.control.common import LIMIT, Effect, Page, changing, not_found, sliced
from tidegate.documents.declared import Dataset
from tidegate.domain.errors import Conflict
from tidegate.domain.instants import Instant
from tidegate.domain.schedules import JsonObject
from tidegate.ports.control import ControlStore, ControlTx
from tidegate.ports.lake import DatasetRecord
from tidegate.ports.records import Change


async def put(store: ControlStore, declaration: Dataset, *, who: str, dry_run: bool = False) -> Effect:
    """Declare it, or declare it otherwise."""
    stored = await stored_as(store, declaration)
    async with changing(store, dry_run=dry_run) as tx:
        return await write(tx, declaration, stored, who=who, now=await tx.now())


async def delete(store: ControlStore, name: str, *, who: str) -> None:
    """Take the declaration back: who waits for it goes on waiting. Raises NotFound."""
    record = await get(store, name)
    async with store.changing() as tx:
        now = await tx.now()
        if not await tx.delete_dataset(record.name, now):
            raise not_found("dataset", name)
        await tx.record_change(_change(who, "deleted", name, record.document, None), now)


async def get(store: ControlStore, name: str) -> DatasetRecord:
    """By the name that triggers use, or by the one of its document. Raises NotFound."""
    known = await store.datasets()
    found = next((one for one in known if name in (one.name, called(one))), None)
    if found is None:
        raise not_found("dataset", name, [one.name for one in known])
    return found


async def page(store: ControlStore, *, cursor: str | None = None, limit: int = LIMIT) -> Page[DatasetRecord]:
    """Every dataset that is declared or waited for, by name."""
    return sliced(list(await store.datasets()), lambda one: one.name, cursor, limit)


def called(record: DatasetRecord) -> str:
    """What its document calls it."""
    metadata: dict[str, Any] = (record.document or {}).get("metadata", {})
    return str(metadata.get("name", record.name))


async def stored_as(store: ControlStore, declaration: Dataset) -> DatasetRecord | None:
    """What there is of it. Raises Conflict when its document's name stands for another dataset already: one address
    would be two."""
    name = declaration.metadata.name
    for one in await store.datasets():
        if one.document is not None and called(one) == name and one.name != declaration.name:
            raise Conflict(
                f"dataset {name!r} stands for {one.name!r}, not for {declaration.name!r}",
                remedy=f"Give this one another metadata.name, or first: tidegate delete dataset {name}",
            )
    return next(iter(await store.datasets([declaration.name])), None)


async def write(tx: ControlTx, declaration: Dataset, stored: DatasetRecord | None, *, who: str, now: Instant) -> Effect:
    """Bring it to what is declared; equal ones are not written."""
    before = None if stored is None else stored.document
    if before == declaration.document:
        return Effect.UNCHANGED
    await tx.put_dataset(
        declaration.name, kind=declaration.kind, watch=declaration.watch, document=declaration.document, now=now
    )
    effect = Effect.CREATED if before is None else Effect.UPDATED
    await tx.record_change(_change(who, effect, declaration.metadata.name, before, declaration.document), now)
    return effect


def _change(who: str, action: str, name: str, before: JsonObject | None, after: JsonObject | None) -> Change:
    return Change(who=who, action=str(action), kind="Dataset", namespace="", name=name, before=before, after=after)
