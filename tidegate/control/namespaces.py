"""Namespaces: tenancies of names. The first write to one makes it."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.control.common import LIMIT, Effect, Page, changing, not_found, sliced, taken
from tidegate.documents.declared import Namespace
from tidegate.domain.instants import Instant
from tidegate.domain.schedules import JsonObject
from tidegate.ports.control import ControlStore, ControlTx
from tidegate.ports.records import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceRecord:
    name: str
    document: JsonObject  # labels, owner, description


async def put(
    store: ControlStore, declaration: Namespace, *, who: str, dry_run: bool = False, new: bool = False
) -> Effect:
    """Create it, or change what is said about it. `new`: raises Conflict where the name is taken."""
    stored = dict(await store.namespaces()).get(declaration.metadata.name)
    async with changing(store, dry_run=dry_run) as tx:
        effect = await write(tx, declaration, stored, who=who, now=await tx.now())
        if new and effect is not Effect.CREATED:
            raise taken("namespace", declaration.metadata.name)
        return effect


async def delete(store: ControlStore, name: str, *, who: str) -> None:
    """Raises NotFound; Conflict while something lives in it."""
    before = dict(await store.namespaces()).get(name)
    async with store.changing() as tx:
        if not await tx.delete_namespace(name):
            raise not_found("namespace", name)
        await tx.record_change(_change(who, "deleted", name, before, None), await tx.now())


async def get(store: ControlStore, name: str) -> NamespaceRecord:
    """Raises NotFound."""
    known = dict(await store.namespaces())
    if name not in known:
        raise not_found("namespace", name, known)
    return NamespaceRecord(name=name, document=known[name])


async def page(store: ControlStore, *, cursor: str | None = None, limit: int = LIMIT) -> Page[NamespaceRecord]:
    """Every namespace, by name."""
    records = [NamespaceRecord(name=name, document=document) for name, document in await store.namespaces()]
    return sliced(records, lambda one: one.name, cursor, limit)


# ── inside a transaction ───────────────────────────────────────────────────────────────────────────────────────────


async def write(tx: ControlTx, declaration: Namespace, stored: JsonObject | None, *, who: str, now: Instant) -> Effect:
    """Bring it to what is declared; equal ones are not written."""
    if stored is not None and dict(stored) == dict(declaration.document):
        return Effect.UNCHANGED
    new = await tx.put_namespace(declaration.metadata.name, declaration.document, now)
    effect = Effect.CREATED if new else Effect.UPDATED
    await tx.record_change(_change(who, effect, declaration.metadata.name, stored, declaration.document), now)
    return effect


async def ensure(tx: ControlTx, name: str, *, who: str, now: Instant) -> None:
    """The first write to a namespace makes it."""
    if await tx.ensure_namespace(name, now):
        await tx.record_change(_change(who, Effect.CREATED, name, None, {}), now)


def _change(who: str, action: str, name: str, before: JsonObject | None, after: JsonObject | None) -> Change:
    return Change(who=who, action=str(action), kind="Namespace", namespace=name, name=name, before=before, after=after)
