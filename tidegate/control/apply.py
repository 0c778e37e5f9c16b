"""Apply: many documents in one transaction; diff: how they differ from what is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tidegate.control import (
    applications,
    calendars,
    datasets,
    namespaces,
    policies,
    pools,
    programs,
    schedules,
    sinks,
    sources,
    verifying,
)
from tidegate.control.common import Effect, OnUpdate, changing
from tidegate.documents import encode
from tidegate.documents.declared import (
    Application,
    Calendar,
    Dataset,
    Declaration,
    MaintenancePolicy,
    Namespace,
    Pool,
    Program,
    Schedule,
    Sink,
    Source,
)
from tidegate.domain.errors import Fault, Invalid
from tidegate.domain.naming import command
from tidegate.domain.schedules import Mode
from tidegate.ports.control import ControlStore, ControlTx
from tidegate.ports.records import ProgramRecord, ScheduleRecord

D = TypeVar("D", bound=Declaration)


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What became of one document. `hint` says what a person may want to do next (how to enable), `warnings` what
    contradicts itself."""

    kind: str
    namespace: str
    name: str
    effect: Effect
    hint: str = ""
    warnings: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDifference:
    """`stored` or `given` None: not there."""

    path: str
    stored: Any
    given: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How one document differs. Not `exists`: applying would create it. `note`: drift that applying does not change."""

    kind: str
    namespace: str
    name: str
    exists: bool
    fields: tuple[FieldDifference, ...]
    note: str = ""

    @property
    def same(self) -> bool:
        return self.exists and not self.fields


# ── apply ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def apply(
    store: ControlStore,
    documents: Sequence[Declaration],
    *,
    who: str,
    on_update: OnUpdate = OnUpdate.RESET,
    dry_run: bool = False,
    strict: bool = False,
) -> tuple[Applied, ...]:
    """Write all of them or none: namespaces, pools, applications, programs, schedules, calendars, whatever their order.
    `strict`: what contradicts itself is refused. Raises Invalid (also: every schedule whose program is neither stored
    nor declared), Conflict."""
    flat, paths = list(_flat(documents)), list(_paths(documents))
    _refuse_twice(flat, paths)
    warned = await verifying.warnings(store, [one for _, one in _of(flat, Schedule)], flat)
    if strict:
        verifying.refuse(_placed(warned), "the documents")
    stored_namespaces, stored_pools = dict(await store.namespaces()), {one.name: one for one in await store.pools()}
    stored_sinks, stored_sources = await sinks.known(store), await sources.known(store)
    for place, pool in _of(flat, Pool):
        pools.refuse_strangers(pool, {*stored_pools, *(one.metadata.name for _, one in _of(flat, Pool))}, paths[place])
    stored_calendars = {one[0].name: one for one in await store.calendars()}
    known = {ns: [one.ref.name for one in await store.programs(ns, None, 1000)] for ns in _namespaces(flat)}
    stored_datasets = {place: await datasets.stored_as(store, dataset) for place, dataset in _of(flat, Dataset)}
    done: dict[int, Applied] = {}
    async with changing(store, dry_run=dry_run) as tx:
        await _lock_applications(tx, flat)
        if any(isinstance(one, MaintenancePolicy) for one in flat):
            await tx.lock_maintenance()
        now = await tx.now()
        stored_policies = await policies.known(tx)
        for place, policy in _of(flat, MaintenancePolicy):
            known_policy = stored_policies.get(policy.metadata.name)
            effect, _ = await policies.write(tx, policy, known_policy, who=who, now=now)
            done[place] = _applied(policy, effect)
        for place, namespace in _of(flat, Namespace):
            stored = stored_namespaces.get(namespace.metadata.name)
            effect = await namespaces.write(tx, namespace, stored, who=who, now=now)
            done[place] = _applied(namespace, effect)
        for place, pool in _of(flat, Pool):
            effect = await pools.write(tx, pool, stored_pools.get(pool.metadata.name), who=who, now=now)
            done[place] = _applied(pool, effect)
        for place, dataset in _of(flat, Dataset):
            effect = await datasets.write(tx, dataset, stored_datasets[place], who=who, now=now)
            done[place] = _applied(dataset, effect)
        for place, sink in _of(flat, Sink):
            effect = await sinks.write(tx, sink, stored_sinks.get(sink.metadata.name), who=who, now=now)
            done[place] = _applied(sink, effect)
        for place, source in _of(flat, Source):
            effect = await sources.write(tx, source, stored_sources.get(source.metadata.name), who=who, now=now)
            done[place] = _applied(source, effect)
        for place, application in _of(flat, Application):
            effect = await applications.declare(tx, application, who=who, now=now)
            done[place] = _applied(application, effect)
        refs = await _write_programs(tx, flat, done, who=who)
        await _write_schedules(tx, flat, paths, refs, known, done, who=who, on_update=on_update)
        for place, calendar in _of(flat, Calendar):  # last: they come late in the order of locks
            stored_calendar = stored_calendars.get(calendar.metadata.name)
            done[place] = _applied(calendar, await calendars.write(tx, calendar, stored_calendar, who=who, now=now))
    return tuple(replace(done[place], warnings=_warnings(flat[place], warned)) for place in sorted(done))


def _warnings(document: Declaration, warned: Mapping[tuple[str, str], tuple[Fault, ...]]) -> tuple[Fault, ...]:
    about = document.metadata
    return warned.get((about.namespace, about.name), ()) if isinstance(document, Schedule) else ()


def _placed(warned: Mapping[tuple[str, str], tuple[Fault, ...]]) -> list[Fault]:
    """With the name of the schedule before each path."""
    return [
        Fault(f"Schedule {namespace}/{name} {fault.path}", fault.reason)
        for (namespace, name), faults in warned.items()
        for fault in faults
    ]


def _flat(documents: Iterable[Declaration]) -> Iterable[Declaration]:
    """Applications that list programs and schedules are applied as these; what they do not list stays."""
    for document in documents:
        yield document
        if isinstance(document, Application):
            yield from document.programs or ()
            yield from document.schedules or ()


def _paths(documents: Iterable[Declaration]) -> Iterable[str]:
    """Where each of the flat ones stands."""
    for index, document in enumerate(documents):
        yield f"documents[{index}]"
        if isinstance(document, Application):
            yield from (f"documents[{index}].spec.programs[{at}]" for at, _ in enumerate(document.programs or ()))
            yield from (f"documents[{index}].spec.schedules[{at}]" for at, _ in enumerate(document.schedules or ()))


def _refuse_twice(documents: Sequence[Declaration], paths: Sequence[str]) -> None:
    """Raises Invalid: of two declarations of one thing, which would hold?"""
    first: dict[tuple[str, str, str], str] = {}
    faults = []
    for one, path in zip(documents, paths, strict=True):
        metadata = one.metadata
        known = first.setdefault((one.KIND, metadata.namespace, metadata.name), path)
        if known != path:
            reason = f"{one.KIND.lower()} {metadata.name!r} is declared twice; also at {known}"
            faults.append(Fault(f"{path}.metadata.name", reason))
    if faults:
        raise Invalid(faults, what="the documents")


def _of(documents: Sequence[Declaration], kind: type[D]) -> list[tuple[int, D]]:
    """Those of a kind with their places, by name: people who write in different orders wait in a circle."""
    mine = [(place, one) for place, one in enumerate(documents) if isinstance(one, kind)]
    return sorted(mine, key=lambda each: (each[1].metadata.namespace, each[1].metadata.name))


def _namespaces(documents: Iterable[Declaration]) -> list[str]:
    return sorted({one.metadata.namespace for one in documents if isinstance(one, Program | Schedule)})


async def _lock_applications(tx: ControlTx, documents: Sequence[Declaration]) -> None:
    named = {
        (one.metadata.namespace, one.metadata.application)
        for one in documents
        if isinstance(one, Program | Schedule) and one.metadata.application is not None
    }
    named |= {(one.metadata.namespace, one.metadata.name) for one in documents if isinstance(one, Application)}
    for namespace, name in sorted((namespace, name or "") for namespace, name in named):
        await tx.lock_application(namespace, name)


async def _write_programs(
    tx: ControlTx, documents: Sequence[Declaration], done: dict[int, Applied], *, who: str
) -> dict[tuple[str, str], ProgramRecord]:
    """Programs, and every program that a schedule names: (namespace, name) -> record."""
    records: dict[tuple[str, str], ProgramRecord] = {}
    for namespace in _namespaces(documents):
        mine = [(place, one) for place, one in _of(documents, Program) if one.metadata.namespace == namespace]
        named = {one.spec.program for _, one in _of(documents, Schedule) if one.metadata.namespace == namespace}
        wanted = sorted(named | {one.metadata.name for _, one in mine})
        for record in await tx.lock_programs(namespace, wanted):
            records[namespace, record.ref.name] = record
        now = await tx.now()
        for place, program in mine:
            key = (namespace, program.metadata.name)
            written = await programs.write(tx, program, records.get(key), who=who, now=now)
            records[key] = written.record
            done[place] = _applied(program, written.effect)
    return records


async def _write_schedules(
    tx: ControlTx,
    documents: Sequence[Declaration],
    paths: Sequence[str],
    records: dict[tuple[str, str], ProgramRecord],
    known: dict[str, list[str]],
    done: dict[int, Applied],
    *,
    who: str,
    on_update: OnUpdate,
) -> None:
    all_mine = _of(documents, Schedule)
    faults = []
    for place, one in all_mine:
        namespace = one.metadata.namespace
        if (namespace, one.spec.program) not in records:
            faults.append(schedules.unknown_program(one, known[namespace], f"{paths[place]}.spec.program"))
    if faults:
        raise Invalid(faults, what="the documents")
    for namespace in _namespaces(documents):
        mine = [(place, one) for place, one in all_mine if one.metadata.namespace == namespace]
        found = await tx.lock_schedules(namespace, [one.metadata.name for _, one in mine])
        stored = {one.metadata.name: one for one in found}
        for place, schedule in mine:
            ref = records[namespace, schedule.spec.program].ref
            written = await schedules.write(
                tx, schedule, stored.get(schedule.metadata.name), ref, who=who, on_update=on_update
            )
            hint = how_to_enable(written.effect, written.record)
            done[place] = _applied(schedule, written.effect, hint)


def how_to_enable(effect: Effect, record: ScheduleRecord) -> str:
    """The command that enables a schedule which was created disabled."""
    if effect is not Effect.CREATED or record.mode is Mode.ENABLED:
        return ""
    metadata = record.metadata
    return f"It is disabled. To enable it: {command(f'enable {metadata.name}', metadata.namespace)}"


def _applied(document: Declaration, effect: Effect, hint: str = "") -> Applied:
    metadata = document.metadata
    return Applied(kind=document.KIND, namespace=metadata.namespace, name=metadata.name, effect=effect, hint=hint)


# ── diff ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def diff(store: ControlStore, documents: Sequence[Declaration]) -> tuple[Difference, ...]:
    """Field by field against what is stored, normalised: what is only written differently is no difference. `enabled`
    against the mode a person set is a note, since applying does not change it."""
    return tuple([await _difference(store, one) for one in _flat(documents)])


async def _difference(store: ControlStore, given: Declaration) -> Difference:
    metadata = given.metadata
    stored, note = None, ""
    match given:
        case Schedule():
            found = await store.schedule(metadata.namespace, metadata.name)
            if found is not None:
                stored = _schedule(found, given)
                note = _drift(found, given)
            wanted = _wanted_schedule(given, found)
        case Program():
            program = await store.program(metadata.namespace, metadata.name)
            if program is not None:
                stored = {
                    "metadata": _owned(program.application, given, program.document.get("metadata", {})),
                    "spec": encode.program(program.ref.spec),
                }
            wanted = {
                "metadata": _owned(metadata.application, given, _described(given)),
                "spec": encode.program(given.spec),
            }
        case Namespace():
            document = dict(await store.namespaces()).get(metadata.name)
            stored = None if document is None else {"metadata": dict(document)}
            wanted = {"metadata": dict(given.document)}
        case Pool():
            pool = {one.name: one for one in await store.pools()}.get(metadata.name)
            stored = None if pool is None else {"spec": encode.pool(pool.slots, pools.rate_of(pool), pool.borrow)}
            wanted = {"spec": encode.pool(given.slots, given.rate, given.borrow)}
        case Dataset():
            watched = next(iter(await store.datasets([given.name])), None)
            stored = None if watched is None or watched.document is None else dict(watched.document)
            wanted = dict(given.document)
        case Sink():
            known = (await sinks.known(store)).get(metadata.name)
            stored = None if known is None else dict(known.document)
            wanted = dict(given.document)
        case Source():
            read = (await sources.known(store)).get(metadata.name)
            stored = None if read is None else dict(read.document)
            wanted = dict(given.document)
        case Calendar():
            closed = {one.name: document for one, document in await store.calendars()}.get(metadata.name)
            stored = None if closed is None else dict(closed)
            wanted = dict(given.document)
        case MaintenancePolicy():
            policy = (await policies.known(store)).get(metadata.name)
            stored = None if policy is None else dict(policy.document)
            wanted = dict(given.document)
        case Application():
            held = {name: one for _, name, one in await store.applications(metadata.namespace)}
            about = held.get(metadata.name)
            stored = None if about is None else {"metadata": dict(about.get("metadata", {}))}
            wanted = {"metadata": _described(given)}
    return Difference(
        kind=given.KIND,
        namespace=metadata.namespace,
        name=metadata.name,
        exists=stored is not None,
        fields=tuple(_fields("", stored, wanted)) if stored is not None else (),
        note=note,
    )


def _described(given: Declaration) -> dict[str, Any]:
    metadata = given.metadata
    said = {"labels": dict(metadata.labels), "owner": metadata.owner, "description": metadata.description}
    return {key: value for key, value in said.items() if value}


def _owned(application: str | None, given: Declaration, said: Any) -> dict[str, Any]:
    """With the application only where the document names one: left out, it stays what it is."""
    return {**said, **({"application": application} if given.metadata.application is not None else {})}


def _schedule(found: ScheduleRecord, given: Schedule) -> dict[str, Any]:
    known = encode.metadata_of(found.metadata)
    said = {key: known[key] for key in ("labels", "owner", "description") if key in known}
    enabled = found.document.get("enabled")
    return {
        "metadata": _owned(found.metadata.application, given, said),
        "spec": encode.schedule(found.spec, enabled=enabled if given.enabled is not None else None),
    }


def _wanted_schedule(given: Schedule, found: ScheduleRecord | None) -> dict[str, Any]:
    return {
        "metadata": _owned(given.metadata.application, given, _described(given)),
        "spec": encode.schedule(given.spec, enabled=given.enabled),
    }


def _drift(found: ScheduleRecord, given: Schedule) -> str:
    """What a person said by hand since, against the document."""
    works = found.mode is Mode.ENABLED
    if given.enabled is None or given.enabled != found.document.get("enabled") or given.enabled == works:
        return ""
    now = "enabled" if works else "disabled"
    why = f" ({found.reason})" if found.reason else ""
    return f"The document says enabled: {str(given.enabled).lower()}, but a person {now} it{why}; applying leaves that."


def _fields(path: str, stored: Any, given: Any) -> Iterable[FieldDifference]:
    if isinstance(stored, dict) and isinstance(given, dict):
        for key in list(dict.fromkeys([*stored, *given])):
            yield from _fields(f"{path}.{key}" if path else str(key), stored.get(key), given.get(key))
    elif isinstance(stored, list) and isinstance(given, list) and len(stored) == len(given):
        for index, (one, other) in enumerate(zip(stored, given, strict=True)):
            yield from _fields(f"{path}[{index}]", one, other)
    elif type(stored) is not type(given) or stored != given:
        yield FieldDifference(path=path, stored=stored, given=given)
