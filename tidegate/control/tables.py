"""Tables: how they are, what is decided about them and why, and maintenance by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from tidegate.control import care
from tidegate.control.common import LIMIT, Page, bounded, nearest, not_found, sliced
from tidegate.documents import deciding
from tidegate.documents.deciding import Facts, Memory
from tidegate.documents.picture import Picture
from tidegate.domain.errors import Conflict, Fault, Invalid, Refused
from tidegate.domain.ids import RunKey, parse_run_id
from tidegate.domain.instants import Instant, format_instant, parse_instant
from tidegate.domain.maintenance.budget import Candidate, Room
from tidegate.domain.maintenance.debt import NOTHING, Debt
from tidegate.domain.maintenance.decision import Decision
from tidegate.domain.maintenance.health import TableHealth
from tidegate.domain.maintenance.issues import DEFAULT_THRESHOLDS, Issue, issues
from tidegate.domain.maintenance.operations import ORDER, Operation
from tidegate.domain.maintenance.policy import Policy, Resolution, resolve
from tidegate.domain.maintenance.state import History, Prediction
from tidegate.domain.maintenance.throttle import DEFAULT_RULING, Ruling
from tidegate.domain.maintenance.value import cost, predict
from tidegate.domain.maintenance.wire import health_of, history_of
from tidegate.ports.control import ControlStore
from tidegate.ports.maintaining import Wish
from tidegate.ports.tables import CareRecord, TableRecord, TablesReads


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table with the policy that speaks for it, and what is the matter with it."""

    record: TableRecord
    resolution: Resolution
    health: TableHealth | None
    issues: tuple[Issue, ...]
    debt: Debt


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is decided now of each operation on a table, and what became of each so far. No decisions: no policy speaks
    for it, or it is not there any more."""

    table: Table
    decisions: tuple[Decision, ...]
    histories: Mapping[Operation, History]


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained:
    """An operation that was started by hand; a dry run has no run. `bytes`: that it may rewrite, None: unknown."""

    operation: Operation
    run: RunKey | None
    policy: str
    prediction: Prediction
    bytes: int | None


async def page(store: ControlStore, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Table]:
    """Every table of every catalog, by name."""
    now = await store.now()
    found = sliced(list(await store.table_names()), lambda name: name, cursor, limit)
    given = await deciding.facts(store, now, found.items)
    return Page(tuple(_table(one, given, now) for one in given.tables), found.next)


async def get(store: ControlStore, name: str) -> Table:
    """Raises NotFound, with the nearest name."""
    now = await store.now()
    given = await deciding.facts(store, now, [name])
    return _table(await _record(store, name, given), given, now)


async def status(store: ControlStore, name: str, *, ruling: Ruling = DEFAULT_RULING) -> Status:
    """What is decided of it at this moment: by all tables of its policy, where they share a budget. `ruling`: as the
    scheduler has it. Raises NotFound."""
    now = await store.now()
    given = await deciding.facts(store, now, [name], ruling=ruling)
    table = _table(await _record(store, name, given), given, now)
    policy = table.resolution.policy
    alone = policy is None or policy.budget.unlimited
    decided = deciding.decisions(given, now) if alone else await _decided(store, ruling, now)
    kept = given.care.get(name, {})
    histories = {one: history_of(kept[one]) for one in Operation if one in kept}
    return Status(table=table, decisions=decided.get(name, ()), histories=histories)


async def history(
    store: ControlStore, name: str, *, cursor: str | None = None, limit: int = LIMIT
) -> Page[tuple[Instant, TableHealth, float | None]]:
    """What was measured of it, newest first. Raises NotFound."""
    await _known(store, name)
    size = bounded(limit)
    before = None if cursor is None else parse_instant(cursor)
    found = list(await store.table_history(name, before, size + 1))
    onward = format_instant(found[size - 1][0]) if len(found) > size else None
    return Page(tuple((at, health_of(health), score) for at, health, score in found[:size]), onward)


async def runs(store: ControlStore, name: str, *, cursor: str | None = None, limit: int = LIMIT) -> Page[CareRecord]:
    """Its maintenance, newest first. Raises NotFound."""
    await _known(store, name)
    size = bounded(limit)
    before = None
    if cursor is not None:
        at, _, run = cursor.partition(" ")
        before = parse_instant(at), parse_run_id(run)
    found = list(await store.care_of(name, before, size + 1))
    last = found[size - 1] if len(found) > size else None
    return Page(tuple(found[:size]), None if last is None else f"{format_instant(last.at)} {last.order.run}")


# ── by hand ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def maintain(
    store: ControlStore,
    name: str,
    *,
    who: str,
    operation: str | None = None,
    policy: str | None = None,
    dry_run: bool = False,
) -> tuple[Maintained, ...]:
    """Start an operation, or all that its policy enables, whatever conditions and schedules say; one after the other,
    after what maintains the table now. The budget of the policy holds. `dry_run`: only say what it would do. Raises
    NotFound; Invalid (an unknown operation or policy); Refused, also where one is known to fail; Conflict where the
    budget is spent."""
    wanted = None if operation is None else _operation(operation)
    async with store.changing() as tx:
        await tx.lock_maintenance()
        now = await tx.now()
        given = await deciding.facts(tx, now, [name])
        record = await _record(tx, name, given)
        if record.location is None:
            raise Refused(f"table {name!r} is not in its catalog any more")
        by = _policy(given, name, policy)
        operations = [wanted] if wanted is not None else _enabled(by, name)
        found = [_plan(one, record, by, given, now) for one in operations]
        if dry_run:
            return tuple(found)
        _refuse_impossible(found, record)
        _afford(found, name, by, given, now)
        keep = (await tx.snapshots_needed([name])).get(name, ())
        after = await deciding.died(tx, name, given.care.get(name, {}))
        started = []
        for one in found:
            wish = replace(_wish(one, name, by, given, keep, who), after=after)
            run = await care.begin(tx, wish, now)
            started.append(
                Maintained(
                    operation=one.operation, run=run, policy=one.policy, prediction=one.prediction, bytes=one.bytes
                )
            )
    return tuple(started)


def _operation(text: str) -> Operation:
    known = [one.value for one in Operation]
    if text not in known:
        also = nearest(text, known)
        raise Invalid([Fault("operation", f"{text!r} is no operation{also} (known: {', '.join(known)})")])
    return Operation(text)


def _policy(given: Facts, table: str, named: str | None) -> Policy | None:
    policies = deciding.policies_of(given.policies)
    if named is None:
        return resolve(policies.values(), table).policy
    if named not in policies:
        raise Invalid([Fault("policy", f"there is no policy {named!r}{nearest(named, policies)}")])
    return policies[named]


def _enabled(policy: Policy | None, table: str) -> list[Operation]:
    if policy is None:
        raise Refused(
            f"no policy speaks for table {table!r}, so it is not known what to do",
            remedy="Name an operation, or declare a policy whose `tables` match it.",
        )
    return sorted((one for one, rule in policy.operations.items() if rule.enabled), key=ORDER.__getitem__)


def _plan(operation: Operation, record: TableRecord, policy: Policy | None, given: Facts, now: Instant) -> Maintained:
    rule = policy.operations.get(operation) if policy is not None else None
    health = Memory().health(record)
    prediction = predict(operation, health, rule.options if rule is not None else {}, now)
    return Maintained(
        operation=operation,
        run=None,
        policy=policy.name if policy is not None else "",
        prediction=prediction,
        bytes=cost(operation, prediction, health),
    )


def _refuse_impossible(found: Sequence[Maintained], record: TableRecord) -> None:
    """What is known to fail is not started. A table that changed since it was measured may have the column by now."""
    if record.location != record.assessed:
        return
    for one in found:
        if one.prediction.impossible:
            raise Refused(
                f"{one.operation.value} on {record.table} cannot be started. {one.prediction.why}",
                remedy=f"Correct the options in policy {one.policy!r}.",
                code="maintenance.no_column",
            )


def _afford(found: Sequence[Maintained], table: str, policy: Policy | None, given: Facts, now: Instant) -> None:
    """Raises Conflict where the policy's budget has no room for all of it."""
    if policy is None or policy.budget.unlimited:
        return
    room = Room(policy.budget, deciding.terms(given, now).spent.get(policy.name, ()), now)
    for one in found:
        candidate = Candidate(table=table, operation=one.operation, bytes=one.bytes, since=now)
        if not room.fits(candidate):
            refusal = room.refusal(candidate)
            after = f" There may be room at {format_instant(refusal.until)}." if refusal.until is not None else ""
            raise Conflict(
                f"the budget of policy {policy.name!r} has no room for {one.operation.value}: {refusal.why}{after}",
                remedy="Wait, or raise the budget.",
            )
        room.take(candidate)


def _wish(one: Maintained, table: str, policy: Policy | None, given: Facts, keep: Sequence[int], who: str) -> Wish:
    rule = policy.operations.get(one.operation) if policy is not None else None
    return Wish(
        table=table,
        operation=one.operation,
        options=rule.options if rule is not None else {},
        timeout=rule.schedule.timeout if rule is not None and rule.schedule is not None else None,
        policy=policy.name if policy is not None else "",
        policy_rev=policy.revision if policy is not None else 0,
        bytes=one.bytes or 0,
        keep=keep,
        history=given.care.get(table, {}).get(one.operation.value),
        manual=True,
        who=who,
    )


_SHELF: WeakKeyDictionary[ControlStore, Picture] = WeakKeyDictionary()
"""What was known of all tables when a status was last asked for, by store. Whoever asks takes it away meanwhile."""


async def _decided(store: ControlStore, ruling: Ruling, now: Instant) -> Mapping[str, tuple[Decision, ...]]:
    """What is decided of all tables, in slices, and by what is known already."""
    picture = _SHELF.pop(store, None)
    if picture is None or picture.ruling != ruling:
        picture = Picture(ruling)
    found = await picture.decided(store, now)
    _SHELF[store] = picture
    return found.decisions


# ── inside ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _record(store: TablesReads, name: str, given: Facts) -> TableRecord:
    found = next((one for one in given.tables if one.table == name), None)
    if found is None:
        raise not_found("table", name, await store.table_names())
    return found


async def _known(store: ControlStore, name: str) -> None:
    if not await store.tables([name]):
        raise not_found("table", name, await store.table_names())


def _table(record: TableRecord, given: Facts, now: Instant) -> Table:
    resolution = resolve(deciding.policies_of(given.policies).values(), record.table)
    policy, memory = resolution.policy, Memory()
    if policy is None:
        health = memory.health(record)
        found = () if health is None else issues(health, DEFAULT_THRESHOLDS, now)
        return Table(record=record, resolution=resolution, health=health, issues=found, debt=NOTHING)
    care_of = given.care.get(record.table, {})
    state = deciding.state_of(record, care_of, policy, since=0, busy=None, now=now, memory=memory)
    found, debt = deciding.judged(state, policy, now)
    return Table(record=record, resolution=resolution, health=state.health, issues=found, debt=debt)
