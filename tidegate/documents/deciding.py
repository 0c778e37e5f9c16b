"""From what a store keeps of policies and tables to what is decided about them.

The engine starts maintenance, and the doors show its status, by this one way: the same facts, read as the same values,
given to the same pure function. So what is shown and what is done cannot differ.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tidegate.documents import declared, parsing
from tidegate.domain.instants import Instant
from tidegate.domain.maintenance.budget import Spend
from tidegate.domain.maintenance.choosing import decide_all
from tidegate.domain.maintenance.clock import Clock
from tidegate.domain.maintenance.debt import Debt, debt
from tidegate.domain.maintenance.decision import Decision, Table, Terms
from tidegate.domain.maintenance.health import TableHealth
from tidegate.domain.maintenance.issues import DEFAULT_THRESHOLDS, Issue, Thresholds, issues
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.maintenance.policy import Policy, resolve
from tidegate.domain.maintenance.state import History, Prediction, Refusal, TableState, remembered
from tidegate.domain.maintenance.throttle import DEFAULT_RULING, Ruling, Switches
from tidegate.domain.maintenance.value import predict
from tidegate.domain.maintenance.wire import health_of, history_of
from tidegate.domain.runs import State
from tidegate.domain.schedules import JsonObject
from tidegate.ports.maintaining import Wish
from tidegate.ports.tables import OpenCare, PolicyRecord, Switch, TableRecord, TablesReads

WHOLE = ""
"""In place of an operation: what became of a table's maintenance as a whole, `{recent, failures, refused}`."""
_DIED = frozenset({State.CRASHED.value, State.TIMED_OUT.value})
_LOOKED_BACK = 20
MEASURING = "it is being measured after the last one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a store keeps, as of one moment."""

    policies: Sequence[PolicyRecord]
    switch: Switch
    tables: Sequence[TableRecord]
    care: Mapping[str, Mapping[str, JsonObject]]
    open: Sequence[OpenCare]
    spent: Mapping[str, Sequence[Spend]]
    ruling: Ruling = DEFAULT_RULING


class Memory:
    """Healths and predictions that were read already, since most tables are as they were."""

    def __init__(self) -> None:
        self._health: dict[str, tuple[tuple[int, int, int], TableHealth]] = {}
        self._predicted: dict[str, tuple[int, str, int, dict[Operation, Prediction]]] = {}
        self._histories: dict[str, tuple[Mapping[str, JsonObject], dict[Operation, History]]] = {}

    def health(self, table: TableRecord, thresholds: Thresholds = DEFAULT_THRESHOLDS) -> TableHealth | None:
        """What is small and large is as `thresholds` say. None while nobody has measured it; a table that cannot be
        read has a fault, and no figures."""
        if table.error:
            return TableHealth(assessed_at=table.assessed_at or 0, fault=table.error)
        if table.health is None:
            return None
        key = (table.version, thresholds.small_file, thresholds.large_file)
        known = self._health.get(table.table)
        if known is None or known[0] != key:
            known = self._health[table.table] = (key, health_of(table.health).counted(*key[1:]))
        return known[1]

    def predictions(self, table: TableRecord, policy: Policy, now: Instant) -> dict[Operation, Prediction]:
        """What each operation of the policy would do. Only expiry depends on the time."""
        health = self.health(table, policy.thresholds)
        known = self._predicted.get(table.table)
        key = (table.version, policy.name, policy.revision)
        if known is None or known[:3] != key:
            found = {one: predict(one, health, rule.options, now) for one, rule in policy.operations.items()}
            self._predicted[table.table] = (*key, found)
            return dict(found)
        found = dict(known[3])
        expiry = policy.operations.get(Operation.EXPIRE_SNAPSHOTS)
        if expiry is not None:
            found[expiry.operation] = predict(expiry.operation, health, expiry.options, now)
        return found

    def histories(self, table: str, care: Mapping[str, JsonObject]) -> dict[Operation, History]:
        """What became of each operation on a table. The same mapping has the same histories: whoever changes what is
        kept makes another one."""
        known = self._histories.get(table)
        if known is None or known[0] is not care:
            found = {one: history_of(care[one]) for one in Operation if one in care}
            known = self._histories[table] = (care, found)
        return known[1]

    def unpack(self, table: TableRecord, policy: Policy, now: Instant) -> None:
        """Keep what is decided by, and let go of the sizes of its files, which nobody asks for after that: most of
        what there is. Until its version or the policy changes it need not have its health."""
        self._health.pop(table.table, None)  # which is without the sizes that another policy asks for
        self.predictions(table, policy, now)
        known = self._health.get(table.table)
        if known is not None:
            self._health[table.table] = (known[0], replace(known[1], files=None))


async def facts(
    store: TablesReads, now: Instant, tables: Collection[str] | None = None, *, ruling: Ruling = DEFAULT_RULING
) -> Facts:
    """What is kept of these tables, or of all; and what the settings say, by which it is decided."""
    policies = await store.policies()
    return Facts(
        policies=policies,
        switch=await store.maintenance(),
        tables=await store.tables(tables),
        care=await store.care(tables),
        open=await store.open_care(),
        spent=await spent(store, policies_of(policies), now),
        ruling=ruling,
    )


async def spent(store: TablesReads, policies: Mapping[str, Policy], now: Instant) -> Mapping[str, Sequence[Spend]]:
    """By policy that has a budget: what counts in it."""
    limited = [one for one in policies.values() if not one.budget.unlimited]
    if not limited:
        return {}
    return await store.spent(now - max(one.budget.per for one in limited), [one.name for one in limited])


def decisions(given: Facts, now: Instant, memory: Memory | None = None) -> dict[str, tuple[Decision, ...]]:
    """By table: what is decided now of each operation of the policy that speaks for it. Tables without one, or that are
    not there any more, are left out."""
    remembered_ = Memory() if memory is None else memory
    found = list(judged_tables(given, now, remembered_))
    return decide_all(found, terms(given, now))


def terms(given: Facts, now: Instant) -> Terms:
    """What holds for all tables."""
    return terms_of(given.switch, given.spent, given.ruling, now)


def terms_of(switch: Switch, spent: Mapping[str, Sequence[Spend]], ruling: Ruling, now: Instant) -> Terms:
    """What holds for all tables."""
    switches = Switches(automatic=switch.automatic, conditions=ruling.conditions)
    return Terms(clock=Clock(now), switches=switches, throttles=ruling.throttles, spent=spent)


def judged_tables(given: Facts, now: Instant, memory: Memory) -> Iterable[Table]:
    """The tables that a policy speaks for, as they are decided about."""
    policies = policies_of(given.policies)
    since = {one.name: one.updated_at for one in given.policies}
    busy = {one.order.table: str(one.order.run) for one in given.open}
    for record in given.tables:
        policy = resolve(policies.values(), record.table).policy if record.location is not None else None
        if policy is not None:
            care = given.care.get(record.table, {})
            state = state_of(
                record,
                care,
                policy,
                since=since[policy.name],
                busy=busy.get(record.table),
                now=now,
                memory=memory,
            )
            yield Table(state=state, policy=policy, debt=judged(state, policy, now)[1])


# ── values ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def policies_of(records: Iterable[PolicyRecord]) -> dict[str, Policy]:
    """Stored policies by name, with the revision that the store counted."""
    return {record.name: policy_of(record) for record in records}


def policy_of(record: PolicyRecord) -> Policy:
    """A stored policy."""
    return _parsed(record.name, record.rev, json.dumps(record.document, sort_keys=True))


@lru_cache(maxsize=1000)
def _parsed(name: str, rev: int, document: str) -> Policy:
    parsed = parsing.parse({"apiVersion": "tidegate/v1", **json.loads(document)}, kind="MaintenancePolicy", name=name)
    assert isinstance(parsed, declared.MaintenancePolicy)
    return replace(parsed.policy, revision=rev)


def state_of(
    table: TableRecord,
    care: Mapping[str, JsonObject],
    policy: Policy,
    *,
    since: Instant,
    busy: str | None,
    now: Instant,
    memory: Memory,
) -> TableState:
    """A table as maintenance is decided for it. `since`: when its policy began to hold; `busy`: the run that maintains
    it now. Until it was measured after a maintenance, its figures would tell of work that is done: it stays busy."""
    whole = care.get(WHOLE, {})
    health = memory.health(table, policy.thresholds)
    if busy is None and table.assessed is None and table.health is not None:
        busy = MEASURING
    return TableState(
        table=table.table,
        since=max(since, table.known_at),
        health=health,
        histories=memory.histories(table.table, care),
        predictions=memory.predictions(table, policy, now),
        recent=tuple(whole.get("recent", ())),
        failures=whole.get("failures", 0),
        busy=busy,
        changed_at=None if health is None else health.changed_at,
        refused=Refusal(**whole["refused"]) if "refused" in whole else None,
    )


def judged(state: TableState, policy: Policy, now: Instant) -> tuple[tuple[Issue, ...], Debt]:
    """What is the matter with a table, and how much that is together."""
    found = () if state.health is None else issues(state.health, policy.thresholds, now)
    return found, debt(state.health, found, state.recent, state.failures, now, policy.weights)


async def died(store: TablesReads, table: str, care: Mapping[str, JsonObject]) -> tuple[JsonObject, ...]:
    """The runs on a table that ended without a word since one came through, as they are handed over. `care`: what is
    kept of it."""
    if not care.get(WHOLE, {}).get("failures"):
        return ()
    found: list[JsonObject] = []
    for one in await store.care_of(table, None, _LOOKED_BACK):
        if one.outcome == State.SUCCEEDED.value:
            break
        if one.outcome in _DIED:
            found.append({"run": str(one.order.run), "begun": one.at, "ended": one.settled_at})
    return tuple(found)


def wish(
    decision: Decision,
    policy: Policy,
    care: Mapping[str, JsonObject],
    *,
    keep: Sequence[int],
    who: str,
    after: Sequence[JsonObject] = (),
    manual: bool = False,
) -> Wish:
    """What is to be started by a decision. `care`: what is kept of its table."""
    rule = policy.operations[decision.operation]
    return Wish(
        table=decision.table,
        operation=decision.operation,
        options=rule.options,
        timeout=rule.schedule.timeout if rule.schedule is not None else None,
        policy=policy.name,
        policy_rev=policy.revision,
        bytes=decision.bytes or 0,
        keep=keep,
        after=after,
        history=care.get(decision.operation.value),
        manual=manual,
        who=who,
    )


def finished(whole: JsonObject, succeeded: bool | None) -> JsonObject:
    """What is kept of a table as a whole once one more operation has ended; None: neither success nor failure."""
    if succeeded is None:
        return whole
    recent = remembered(tuple(whole.get("recent", ())), succeeded)
    return {"recent": list(recent), "failures": 0 if succeeded else whole.get("failures", 0) + 1}


def refused(whole: JsonObject, refusal: Refusal) -> JsonObject:
    """What is kept of a table as a whole once its maintenance could not be started; until one has ended."""
    return {**whole, "refused": refusal._asdict()}
