"""Applications: programs and schedules that are deployed together.

A deployment is one transaction under the lock of its application: programs are created, replaced or deleted; with
`update_schedules` so are schedules, and what is equal is not touched. Without it no schedule is created, changed or
deleted, save those of a removed program, which always go with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.control import namespaces, ownership, programs, removal, schedules, verifying
from tidegate.control.common import LIMIT, Effect, OnUpdate, Page, changing, not_found, sliced
from tidegate.documents.declared import Application
from tidegate.domain.errors import Fault, Invalid
from tidegate.domain.instants import Instant
from tidegate.domain.schedules import JsonObject, Mode
from tidegate.ports.control import ControlStore, ControlTx
from tidegate.ports.records import Change, Metadata, ProgramRecord, ScheduleRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Names, by what happened to them."""

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """What a deployment did (or, of a dry run, would do)."""

    schedules: Counts
    programs: Counts
    disabled: tuple[str, ...] = ()  # created schedules that are disabled: how to enable them is worth a hint
    warnings: Mapping[str, tuple[Fault, ...]] = field(default_factory=dict)  # by schedule: what contradicts itself


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationRecord:
    namespace: str
    name: str
    document: JsonObject  # {metadata: {labels, owner, description}, programs: [names], schedules: [names]}


async def deploy(
    store: ControlStore,
    application: Application,
    *,
    who: str,
    update_schedules: bool = True,
    on_update: OnUpdate = OnUpdate.RESET,
    dry_run: bool = False,
    strict: bool = False,
) -> Deployed:
    """Bring programs (and schedules) of an application to what is declared, in one transaction. A list that the
    document leaves out stays as it is. `strict`: what contradicts itself is refused. Raises Invalid, Conflict."""
    namespace = application.metadata.namespace
    written = (application.schedules or ()) if update_schedules else ()
    warned = {
        name: faults
        for (_, name), faults in (await verifying.warnings(store, written, application.programs or ())).items()
    }
    if strict:
        verifying.refuse(_placed(application, warned), f"application {application.metadata.name!r}")
    known = [one.ref.name for one in await store.programs(namespace, None, 1000)]
    async with changing(store, dry_run=dry_run) as tx:
        now = await tx.now()
        document = await tx.lock_application(namespace, application.metadata.name)
        await declare(tx, application, who=who, now=now)
        held = await _lock_programs(tx, application, ownership.programs_of(document))
        done = _Tally()
        await _write_programs(tx, application, held, done, who=who)
        if update_schedules and application.schedules is not None:
            await _write_schedules(tx, application, known, done, who=who, on_update=on_update)
        await _remove_programs(tx, application, held, done, who=who)
        return replace(done.result(), warnings=warned)


def _placed(application: Application, warned: Mapping[str, tuple[Fault, ...]]) -> list[Fault]:
    """With the place of the schedule in the document before each path."""
    places = {one.metadata.name: n for n, one in enumerate(application.schedules or ())}
    return [
        Fault(f"schedules[{places[name]}].{fault.path}", fault.reason)
        for name, faults in warned.items()
        for fault in faults
    ]


async def delete(store: ControlStore, namespace: str, name: str, *, who: str) -> Deployed:
    """Delete it with its programs and schedules. Raises NotFound."""
    async with store.changing() as tx:
        document = await tx.lock_application(namespace, name)
        if document is None:
            raise not_found("application", name, namespace=namespace)
        done = _Tally()
        held = await tx.lock_programs(namespace, sorted(ownership.programs_of(document)))
        for schedule in await tx.lock_schedules_of(namespace, application=name):
            await _remove_schedule(tx, schedule, f"Its application {name!r} was deleted by {who}.", done, who=who)
        for program in held:
            if program.application == name:
                done.schedules[Effect.DELETED] += await programs.remove(tx, program, who=who)
                done.programs[Effect.DELETED].append(program.ref.name)
        await tx.delete_application(namespace, name)
        now = await tx.now()
        await tx.record_change(_change(who, Effect.DELETED, namespace, name, document, None), now)
        return done.result()


async def get(store: ControlStore, namespace: str, name: str) -> ApplicationRecord:
    """Raises NotFound."""
    known = {one: document for _, one, document in await store.applications(namespace)}
    if name not in known:
        raise not_found("application", name, known, namespace=namespace)
    listed = await _schedule_names(store, namespace)
    return ApplicationRecord(
        namespace=namespace, name=name, document={"programs": [], **known[name], "schedules": listed.get(name, [])}
    )


async def page(
    store: ControlStore, namespace: str | None, *, cursor: str | None = None, limit: int = LIMIT
) -> Page[ApplicationRecord]:
    """Every application, by namespace and name, with the names of its programs and schedules."""
    known = await store.applications(namespace)
    listed = {ns: await _schedule_names(store, ns) for ns in {ns for ns, _, _ in known}}
    records = [
        ApplicationRecord(
            namespace=ns, name=name, document={"programs": [], **document, "schedules": listed[ns].get(name, [])}
        )
        for ns, name, document in known
    ]
    return sliced(records, lambda one: f"{one.namespace}/{one.name}", cursor, limit)


async def _schedule_names(store: ControlStore, namespace: str) -> dict[str, list[str]]:
    """application -> names of its schedules."""
    found: dict[str, list[str]] = {}
    cursor: str | None = None
    while True:
        some = await store.schedules(namespace, cursor, 1000)
        for one in some:
            if one.metadata.application is not None:
                found.setdefault(one.metadata.application, []).append(one.metadata.name)
        if len(some) < 1000:
            return {name: sorted(listed) for name, listed in found.items()}
        cursor = str(some[-1].id)


# ── inside a transaction ───────────────────────────────────────────────────────────────────────────────────────────


async def declare(tx: ControlTx, application: Application, *, who: str, now: Instant) -> Effect:
    """Put it on record that it exists, and what is said about it; its programs and schedules are not touched."""
    metadata = application.metadata
    stored = await tx.lock_application(metadata.namespace, metadata.name)
    about = described(metadata)
    if stored is not None and stored.get("metadata", {}) == about:
        return Effect.UNCHANGED
    await namespaces.ensure(tx, metadata.namespace, who=who, now=now)
    document = {**(stored or {"programs": []}), "metadata": about}
    await tx.put_application(metadata.namespace, metadata.name, document, now)
    effect = Effect.CREATED if stored is None else Effect.UPDATED
    await tx.record_change(_change(who, effect, metadata.namespace, metadata.name, stored, document), now)
    return effect


def described(metadata: Metadata) -> dict[str, Any]:
    """What is said about it, without what is not said."""
    said = {"labels": dict(metadata.labels), "owner": metadata.owner, "description": metadata.description}
    return {key: value for key, value in said.items() if value}


class _Tally:
    """Names by effect, as a deployment goes on."""

    def __init__(self) -> None:
        self.programs: dict[Effect, list[str]] = {effect: [] for effect in Effect}
        self.schedules: dict[Effect, list[str]] = {effect: [] for effect in Effect}
        self.disabled: list[str] = []

    def result(self) -> Deployed:
        return Deployed(
            schedules=_counts(self.schedules), programs=_counts(self.programs), disabled=tuple(self.disabled)
        )


def _counts(names: dict[Effect, list[str]]) -> Counts:
    return Counts(**{effect.value: tuple(sorted(set(listed))) for effect, listed in names.items()})


async def _lock_programs(tx: ControlTx, application: Application, held: Sequence[str]) -> dict[str, ProgramRecord]:
    """Every program that matters: declared, held until now, or named by a schedule."""
    named = {one.spec.program for one in application.schedules or ()}
    wanted = {one.metadata.name for one in application.programs or ()} | set(held) | named
    found = await tx.lock_programs(application.metadata.namespace, sorted(wanted))
    return {one.ref.name: one for one in found}


async def _write_programs(
    tx: ControlTx, application: Application, held: dict[str, ProgramRecord], done: _Tally, *, who: str
) -> None:
    now = await tx.now()
    for program in application.programs or ():
        written = await programs.write(
            tx, _owned(program, application), held.get(program.metadata.name), who=who, now=now
        )
        held[program.metadata.name] = written.record
        done.programs[written.effect].append(program.metadata.name)


async def _remove_programs(
    tx: ControlTx, application: Application, held: dict[str, ProgramRecord], done: _Tally, *, who: str
) -> None:
    """Programs that are its own and no longer declared, with every schedule that names them."""
    if application.programs is None:
        return
    declared = {one.metadata.name for one in application.programs}
    for name, record in sorted(held.items()):
        if record.application == application.metadata.name and name not in declared:
            gone = await programs.remove(tx, record, who=who)
            done.schedules[Effect.DELETED] += gone
            done.programs[Effect.DELETED].append(name)


async def _write_schedules(
    tx: ControlTx, application: Application, known: list[str], done: _Tally, *, who: str, on_update: OnUpdate
) -> None:
    namespace, name = application.metadata.namespace, application.metadata.name
    declared = {one.metadata.name: _owned(one, application) for one in application.schedules or ()}
    there = {
        one.ref.name: one
        for one in await tx.lock_programs(namespace, sorted({one.spec.program for one in declared.values()}))
    }
    staying = {one.metadata.name for one in application.programs or ()}
    faults = []
    for index, one in enumerate(application.schedules or ()):
        record = there.get(one.spec.program)
        goes = (
            record is not None
            and application.programs is not None
            and record.application == name
            and record.ref.name not in staying
        )
        if record is None or goes:
            faults.append(schedules.unknown_program(one, known, f"schedules[{index}].spec.program"))
    if faults:
        raise Invalid(faults, what=f"application {name!r}")
    stored = {one.metadata.name: one for one in await tx.lock_schedules(namespace, sorted(declared))}
    for schedule in await tx.lock_schedules_of(namespace, application=name):
        if schedule.metadata.name not in declared:
            await _remove_schedule(tx, schedule, f"Application {name!r} no longer declares it.", done, who=who)
    new = any(key not in stored for key in declared)
    prepared = await schedules.prepare(tx, namespace, name, who=who) if new else None
    for key, declaration in declared.items():
        ref = there[declaration.spec.program].ref
        written = await schedules.write(
            tx, declaration, stored.get(key), ref, who=who, on_update=on_update, prepared=prepared
        )
        done.schedules[written.effect].append(key)
        if written.effect is Effect.CREATED and written.record.mode is not Mode.ENABLED:
            done.disabled.append(key)


async def _remove_schedule(tx: ControlTx, schedule: ScheduleRecord, why: str, done: _Tally, *, who: str) -> None:
    await removal.remove(tx, schedule, why, who=who, now=await tx.now())
    done.schedules[Effect.DELETED].append(schedule.metadata.name)


def _owned(item: Any, application: Application) -> Any:
    """A program or schedule as the application's own."""
    return replace(item, metadata=replace(item.metadata, application=application.metadata.name))


def _change(
    who: str, action: str, namespace: str, name: str, before: JsonObject | None, after: JsonObject | None
) -> Change:
    return Change(
        who=who, action=str(action), kind="Application", namespace=namespace, name=name, before=before, after=after
    )
