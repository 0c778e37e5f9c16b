"""Programs: what runs. An update affects later launches only; a deletion takes every schedule along that names it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.control import namespaces, ownership, removal
from tidegate.control.common import LIMIT, Effect, Page, bounded, changing, check_revision, not_found
from tidegate.documents.declared import Program
from tidegate.domain.errors import Refused
from tidegate.domain.instants import Instant
from tidegate.domain.programs import Maintenance
from tidegate.domain.schedules import JsonObject
from tidegate.ports.control import ControlStore, ControlTx
from tidegate.ports.records import Change, ProgramRecord

MAINTENANCE = ("maintenance", "maintenance")
"""Namespace and name of the program that maintains tables, which is made when first needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a write did, and the program afterwards."""

    effect: Effect
    record: ProgramRecord


async def put(
    store: ControlStore, declaration: Program, *, who: str, expected: int | None = None, dry_run: bool = False
) -> Written:
    """Create it or add a revision. `expected`: the revision of If-Match (0: it must not exist yet). Raises Conflict
    (another application's), Stale."""
    metadata = declaration.metadata
    found = await store.program(metadata.namespace, metadata.name)
    application = metadata.application or (found.application if found else None)
    async with changing(store, dry_run=dry_run) as tx:
        now = await tx.now()
        if application is not None:
            await tx.lock_application(metadata.namespace, application)
        stored = next(iter(await tx.lock_programs(metadata.namespace, [metadata.name])), None)
        check_revision("program", metadata.name, expected, stored.ref.rev if stored else None)
        return await write(tx, declaration, stored, who=who, now=now)


async def delete(
    store: ControlStore, namespace: str, name: str, *, who: str, expected: int | None = None
) -> tuple[str, ...]:
    """Delete it and every schedule that names it; the names of those schedules. Raises NotFound, Stale."""
    found = await get(store, namespace, name)
    async with store.changing() as tx:
        if found.application is not None:
            await tx.lock_application(namespace, found.application)
        stored = next(iter(await tx.lock_programs(namespace, [name])), None)
        if stored is None:
            raise not_found("program", name, namespace=namespace)
        check_revision("program", name, expected, stored.ref.rev)
        return await remove(tx, stored, who=who)


async def get(store: ControlStore, namespace: str, name: str) -> ProgramRecord:
    """Raises NotFound, with the nearest name."""
    found = await store.program(namespace, name)
    if found is None:
        near = [one.ref.name for one in await store.programs(namespace, None, 1000)]
        raise not_found("program", name, near, namespace=namespace)
    return found


async def page(
    store: ControlStore, namespace: str | None, *, cursor: str | None = None, limit: int = LIMIT
) -> Page[ProgramRecord]:
    """Newest first."""
    size = bounded(limit)
    found = await store.programs(namespace, cursor, size + 1)
    return Page(tuple(found[:size]), str(found[size - 1].ref.id) if len(found) > size else None)


# ── inside a transaction ───────────────────────────────────────────────────────────────────────────────────────────


async def write(
    tx: ControlTx, declaration: Program, stored: ProgramRecord | None, *, who: str, now: Instant
) -> Written:
    """Bring it to what is declared; an equal one is not written. Its application and its row are locked."""
    metadata = declaration.metadata
    if (metadata.namespace, metadata.name) == MAINTENANCE and not isinstance(declaration.spec, Maintenance):
        raise Refused(
            f"program {metadata.name!r} of namespace {metadata.namespace!r} is the one that maintains tables",
            remedy="Choose another name, or another namespace.",
        )
    application = ownership.owner(
        "program",
        metadata.name,
        metadata.application,
        stored.application if stored else None,
        exists=stored is not None,
    )
    document = as_stored(declaration)
    if stored is not None and _same(stored, declaration, application):
        return Written(effect=Effect.UNCHANGED, record=stored)
    await namespaces.ensure(tx, metadata.namespace, who=who, now=now)
    if application is not None:
        await ownership.own(tx, metadata.namespace, application, now, program=metadata.name)
    owned = replace(metadata, application=application)
    ref = await tx.write_program(owned, declaration.spec, document, who, now)
    effect = Effect.CREATED if stored is None else Effect.UPDATED
    before = None if stored is None else stored.document
    await tx.record_change(_change(who, effect, metadata.namespace, metadata.name, before, document), now)
    record = ProgramRecord(ref=ref, application=application, document=document, valid_from=now)
    return Written(effect=effect, record=record)


async def remove(tx: ControlTx, stored: ProgramRecord, *, who: str) -> tuple[str, ...]:
    """Delete a locked program and the schedules that name it."""
    namespace, name = stored.ref.namespace, stored.ref.name
    gone = await tx.lock_schedules_of(namespace, program=stored.ref.id)
    now = await tx.now()
    for schedule in gone:
        await removal.remove(tx, schedule, f"Its program {name!r} was deleted by {who}.", who=who, now=now)
    if stored.application is not None:
        await ownership.disown(tx, namespace, stored.application, now, program=name)
    await tx.delete_program(stored.ref.id, now)
    await tx.record_change(_change(who, Effect.DELETED, namespace, name, stored.document, None), now)
    return tuple(schedule.metadata.name for schedule in gone)


def as_stored(declaration: Program) -> JsonObject:
    """What is kept of a program's document: what is said about it, and its spec as the person wrote it."""
    metadata = declaration.metadata
    said = {"labels": dict(metadata.labels), "owner": metadata.owner, "description": metadata.description}
    return {"metadata": {key: value for key, value in said.items() if value}, "spec": declaration.document}


def _same(stored: ProgramRecord, declaration: Program, application: str | None) -> bool:
    said = as_stored(declaration)["metadata"]
    described = stored.application == application and stored.document.get("metadata", {}) == said
    return described and stored.ref.spec == declaration.spec


def _change(
    who: str, action: str, namespace: str, name: str, before: JsonObject | None, after: JsonObject | None
) -> Change:
    return Change(
        who=who, action=str(action), kind="Program", namespace=namespace, name=name, before=before, after=after
    )
