"""Schedules: declared, changed, enabled, disabled, deleted.

Every change is one transaction: lock the program, then the schedule with its clock, then read the time. What is in
force from then on is the new revision, valid from max(now, cursor): every fire up to there belongs to the older ones,
decided yet or not. `enabled` in a document acts at creation and when its value in the document changes; otherwise the
last word of a person stands.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tidegate.control import clocks, collecting, namespaces, ownership, removal, verifying
from tidegate.control.common import (
    LIMIT,
    Effect,
    OnUpdate,
    Page,
    bounded,
    changing,
    check_revision,
    nearest,
    not_found,
)
from tidegate.documents.declared import Schedule
from tidegate.domain import fires
from tidegate.domain.admission import SUSPENDED_MODES
from tidegate.domain.errors import Fault, Invalid, Refused
from tidegate.domain.instants import Instant
from tidegate.domain.programs import Maintenance, ProgramRef
from tidegate.domain.runs import State
from tidegate.domain.schedules import JsonObject, Mode, Revision
from tidegate.domain.triggers import Never, collects
from tidegate.ports.control import ControlStore, ControlTx
from tidegate.ports.records import Change, ScheduleRecord, Stats


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a write did, the schedule afterwards, and what contradicts itself in it."""

    effect: Effect
    record: ScheduleRecord
    warnings: tuple[Fault, ...] = ()


async def put(
    store: ControlStore,
    declaration: Schedule,
    *,
    who: str,
    on_update: OnUpdate = OnUpdate.RESET,
    expected: int | None = None,
    dry_run: bool = False,
    strict: bool = False,
) -> Written:
    """Create it or bring it to what is declared. `expected`: the revision of If-Match (0: it must not exist yet, as for
    POST). `strict`: what contradicts itself is refused. Raises Invalid (also: program unknown), Conflict (another
    application's), Stale."""
    namespace, name = declaration.metadata.namespace, declaration.metadata.name
    warnings = (await verifying.warnings(store, [declaration])).get((namespace, name), ())
    if strict:
        verifying.refuse(warnings, f"schedule {name!r}")
    async with changing(store, dry_run=dry_run) as tx:
        if declaration.metadata.application is not None:
            await tx.lock_application(namespace, declaration.metadata.application)
        found = await tx.lock_programs(namespace, [declaration.spec.program])
        stored = next(iter(await tx.lock_schedules(namespace, [name])), None)
        check_revision("schedule", name, expected, stored.rev if stored else None)
        if found:
            written = await write(tx, declaration, stored, found[0].ref, who=who, on_update=on_update)
            return replace(written, warnings=warnings)
    known = [one.ref.name for one in await store.programs(namespace, None, 1000)]
    raise Invalid([unknown_program(declaration, known)], what=f"schedule {name!r}")


async def delete(store: ControlStore, namespace: str, name: str, *, who: str, expected: int | None = None) -> None:
    """Nothing of it starts any more; attempts that run end by themselves. Raises NotFound, Stale."""
    await get(store, namespace, name)
    async with store.changing() as tx:
        stored = await _locked(tx, namespace, name)
        check_revision("schedule", name, expected, stored.rev)
        await removal.remove(tx, stored, f"The schedule was deleted by {who}.", who=who, now=await tx.now())


async def enable(
    store: ControlStore, namespace: str, name: str, *, who: str, reason: str = "", expected: int | None = None
) -> ScheduleRecord:
    """React to what comes from now on. Enabling what is enabled changes nothing. The reason stays with the revision."""
    await get(store, namespace, name)
    async with store.changing() as tx:
        stored = await _locked(tx, namespace, name)
        check_revision("schedule", name, expected, stored.rev)
        return await switch(tx, stored, Mode.ENABLED, reason, who=who)


async def disable(
    store: ControlStore,
    namespace: str,
    name: str,
    *,
    who: str,
    mode: Mode = Mode.DROP,
    reason: str = "",
    expire: bool = False,
    expected: int | None = None,
) -> ScheduleRecord:
    """Let it rest; what runs goes on. `drop`: waiting runs end, nothing is collected. `keep`: what waits starts when it
    may, nothing new comes. `backlog`: runs are made and none starts until it is enabled. `hold`: the same, merged into
    one. `expire`: held runs expire by `waiting.timeout` all the same (backlog, hold). Another mode than the present one
    takes its place. Raises Refused for `enabled`, and for `expire` where nothing is held."""
    if mode is Mode.ENABLED:
        raise Refused("enabled is no way to rest", remedy="Use :enable, or one of drop, keep, backlog, hold.")
    if expire and mode not in SUSPENDED_MODES:
        raise Refused(
            f"mode {mode.value!r} holds no runs that could expire", remedy="Leave expire out, or use backlog or hold."
        )
    await get(store, namespace, name)
    async with store.changing() as tx:
        stored = await _locked(tx, namespace, name)
        check_revision("schedule", name, expected, stored.rev)
        return await switch(tx, stored, mode, reason or f"disabled by {who}", who=who, expire=expire)


async def get(store: ControlStore, namespace: str, name: str) -> ScheduleRecord:
    """Raises NotFound, with the nearest name."""
    found = await store.schedule(namespace, name)
    if found is None:
        near = [one.metadata.name for one in await store.schedules(namespace, None, 1000)]
        raise not_found("schedule", name, near, namespace=namespace)
    return found


async def page(
    store: ControlStore, namespace: str | None, *, cursor: str | None = None, limit: int = LIMIT
) -> Page[ScheduleRecord]:
    """Newest first."""
    size = bounded(limit)
    found = await store.schedules(namespace, cursor, size + 1)
    return Page(tuple(found[:size]), str(found[size - 1].id) if len(found) > size else None)


async def revisions(
    store: ControlStore, namespace: str, name: str
) -> tuple[tuple[Revision, JsonObject, str, str], ...]:
    """Every revision, newest first, each with its document's spec, author and reason. Raises NotFound."""
    return tuple(await store.revisions((await get(store, namespace, name)).id))


async def stats(store: ControlStore, namespace: str, name: str) -> Stats:
    """Raises NotFound."""
    return await store.stats((await get(store, namespace, name)).id)


def next_fire(record: ScheduleRecord) -> Instant | None:
    """The nominal time of its next fire; None when its clock rests or nothing is to come. `next_due` is when it starts:
    later by the jitter."""
    if not record.mode.works or record.next_due is None:
        return None
    return fires.next_fire(record.spec.trigger, record.cursor, last_fire=record.last_fire) or record.next_due


# ── inside a transaction ───────────────────────────────────────────────────────────────────────────────────────────


async def write(
    tx: ControlTx,
    declaration: Schedule,
    stored: ScheduleRecord | None,
    program: ProgramRef,
    *,
    who: str,
    on_update: OnUpdate,
    prepared: Instant | None = None,
) -> Written:
    """Bring it to what is declared. Its application, program and row (when there is one) are locked. `prepared`: who
    writes many has made sure by then that namespace and application exist (`prepare`). Raises Invalid where it would
    maintain tables past policies and budgets."""
    metadata = declaration.metadata
    if isinstance(program.spec, Maintenance) and not isinstance(declaration.spec.trigger, Never):
        why = (
            f"program {program.name!r} maintains tables; when it runs is said by a MaintenancePolicy, not by a trigger"
        )
        raise Invalid([Fault("spec.trigger", why)], what=f"schedule {metadata.name!r}")
    application = ownership.owner(
        "schedule",
        metadata.name,
        metadata.application,
        stored.metadata.application if stored else None,
        exists=stored is not None,
    )
    owned = replace(declaration, metadata=replace(metadata, application=application))
    if stored is None:
        now = prepared or await prepare(tx, metadata.namespace, application, who=who)
        return await _create(tx, owned, program, now, who=who)
    return await _update(tx, owned, stored, program, who=who, on_update=on_update)


async def prepare(tx: ControlTx, namespace: str, application: str | None, *, who: str) -> Instant:
    """Make sure that there is a place for a new schedule; when."""
    now = await tx.now()
    await namespaces.ensure(tx, namespace, who=who, now=now)
    if application is not None:
        await ownership.own(tx, namespace, application, now)
    return now


async def _create(tx: ControlTx, declaration: Schedule, program: ProgramRef, now: Instant, *, who: str) -> Written:
    metadata = declaration.metadata
    mode = Mode.ENABLED if declaration.enabled else Mode.DROP
    reason = "" if declaration.enabled else "new schedules are disabled until somebody enables them"
    clock = clocks.fresh(f"{metadata.namespace}/{metadata.name}", declaration.spec, mode, now)
    number = await tx.create_schedule(
        metadata,
        declaration.spec,
        declaration.document,
        program=program.id,
        mode=mode,
        reason=reason,
        author=who,
        now=now,
        clock=clock,
    )
    if collects(declaration.spec.trigger):
        await tx.reset_progress(number, now)
    await tx.record_change(_change(who, Effect.CREATED, declaration, None, _seen(declaration)), now)
    record = ScheduleRecord(
        id=number,
        metadata=metadata,
        created_at=now,
        rev=1,
        valid_from=now,
        mode=mode,
        reason=reason,
        document=declaration.document,
        spec=declaration.spec,
        program=program,
        cursor=clock.cursor,
        cursor_rev=clock.cursor_rev,
        next_due=clock.next_due,
        last_fire=None,
    )
    return Written(effect=Effect.CREATED, record=record)


async def _update(
    tx: ControlTx,
    declaration: Schedule,
    stored: ScheduleRecord,
    program: ProgramRef,
    *,
    who: str,
    on_update: OnUpdate,
) -> Written:
    said = declaration.enabled
    acts = said is not None and said != stored.document.get("enabled")
    mode = stored.mode if not acts else Mode.ENABLED if said else _resting(stored.mode)
    respecified = declaration.spec != stored.spec or program.id != stored.program.id
    described = declaration.metadata != stored.metadata
    if not (acts or respecified or described):
        return Written(effect=Effect.UNCHANGED, record=stored)
    now = await tx.now()
    if described:
        if declaration.metadata.application is not None:
            await ownership.own(tx, declaration.metadata.namespace, declaration.metadata.application, now)
        await tx.describe_schedule(stored.id, declaration.metadata)
    if acts or respecified:
        change = _Turn(
            mode=mode,
            reason=stored.reason if mode is stored.mode else "" if mode is Mode.ENABLED else f"disabled by {who}",
            expire=mode is stored.mode and stored.held_expires,
            who=who,
            now=now,
            resets=on_update is OnUpdate.RESET and respecified,
        )
        await _revise(tx, stored, declaration, program, change)
    before = {"metadata": _told(stored.metadata), "spec": dict(stored.document), "enabled": _works(stored.mode)}
    after = {**_seen(declaration), "enabled": _works(mode)}
    await tx.record_change(_change(who, Effect.UPDATED, declaration, before, after), now)
    record = await _locked(tx, declaration.metadata.namespace, declaration.metadata.name)
    return Written(effect=Effect.UPDATED, record=record)


async def switch(
    tx: ControlTx, stored: ScheduleRecord, mode: Mode, reason: str, *, who: str, expire: bool = False
) -> ScheduleRecord:
    """Enable or disable (locked): a revision that differs in its mode only. Enabling clears the streak of failures."""
    if (stored.mode, stored.held_expires) == (mode, expire):
        return stored
    now = await tx.now()
    declaration = Schedule(metadata=stored.metadata, spec=stored.spec, enabled=None, document=stored.document)
    change = _Turn(mode=mode, reason=reason, expire=expire, who=who, now=now)
    await _revise(tx, stored, declaration, stored.program, change)
    if mode is Mode.ENABLED:
        await tx.clear_streak(stored.id)
    action = "enabled" if mode is Mode.ENABLED else "disabled"
    before: dict[str, Any] = {**_resting_as(stored.mode, stored.held_expires), "reason": stored.reason}
    after: dict[str, Any] = {**_resting_as(mode, expire), "reason": reason}
    await tx.record_change(_change(who, action, declaration, before, after), now)
    return await _locked(tx, stored.metadata.namespace, stored.metadata.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """What a revision does beside what it says. `resets`: what waits and what was collected is given up."""

    mode: Mode
    reason: str
    expire: bool
    who: str
    now: Instant
    resets: bool = False


async def _revise(
    tx: ControlTx, stored: ScheduleRecord, declaration: Schedule, program: ProgramRef, change: _Turn
) -> None:
    """Add the revision, set the clock, and end what waits where the change says so."""
    now, mode = change.now, change.mode
    valid_from = max(now, stored.cursor)
    drops = mode is Mode.DROP and stored.mode is not Mode.DROP
    if drops:
        why = f"The schedule was disabled by {change.who} before this was decided."
        await removal.supersede_undecided(tx, stored, why, until=valid_from, now=now)
    if mode is Mode.KEEP and stored.mode.works and not change.resets and collects(stored.spec.trigger):
        await collecting.stand_still(tx, stored.id, now)
    await tx.revise_schedule(
        stored.id,
        declaration.spec,
        declaration.document,
        program=program.id,
        mode=mode,
        reason=change.reason,
        author=change.who,
        valid_from=valid_from,
        clock=await clocks.revised(tx, stored, declaration.spec, mode, valid_from),
        held_expires=change.expire,
    )
    if drops or change.resets:
        what = "disabled" if drops else "updated"
        await tx.end_waiting(stored.id, State.SUPERSEDED, f"The schedule was {what} by {change.who}.", now)
    # last: what those runs give back is not owed to the new revision, whose input begins at the present
    old, new = (stored.mode, stored.spec.trigger), (mode, declaration.spec.trigger)
    await collecting.changed(tx, stored.id, old, new, resets=change.resets, now=now)


async def _locked(tx: ControlTx, namespace: str, name: str) -> ScheduleRecord:
    found = await tx.lock_schedules(namespace, [name])
    if not found:
        raise not_found("schedule", name, namespace=namespace)
    return found[0]


# ── sentences and the audit trail ──────────────────────────────────────────────────────────────────────────────────


def unknown_program(declaration: Schedule, known: list[str], path: str = "spec.program") -> Fault:
    """The fault of a schedule whose program does not exist."""
    wanted, namespace = declaration.spec.program, declaration.metadata.namespace
    return Fault(path, f"there is no program {wanted!r} in namespace {namespace!r}{nearest(wanted, known)}")


def _works(mode: Mode) -> bool:
    return mode is Mode.ENABLED


def _resting_as(mode: Mode, expire: bool) -> dict[str, Any]:
    """Its mode, as the audit log tells it."""
    if mode is Mode.ENABLED:
        return {"enabled": True}
    return {"enabled": False, "mode": mode.value, **({"expire": True} if expire else {})}


def _resting(mode: Mode) -> Mode:
    return Mode.DROP if mode is Mode.ENABLED else mode


def _told(metadata: Any) -> dict[str, Any]:
    return {
        "application": metadata.application,
        "labels": dict(metadata.labels),
        "owner": metadata.owner,
        "description": metadata.description,
    }


def _seen(declaration: Schedule) -> dict[str, Any]:
    """What the audit log keeps of a declaration."""
    return {
        "metadata": _told(declaration.metadata),
        "spec": dict(declaration.document),
        "enabled": bool(declaration.enabled),
    }


def _change(who: str, action: str, about: Schedule, before: JsonObject | None, after: JsonObject | None) -> Change:
    metadata = about.metadata
    return Change(
        who=who,
        action=str(action),
        kind="Schedule",
        namespace=metadata.namespace,
        name=metadata.name,
        before=before,
        after=after,
    )
