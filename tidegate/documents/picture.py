"""All tables as they are decided about, kept from one time to the next: only what changed is read and unpacked again.

To read ten thousand tables with the sizes of their files takes most of a minute of processor time, and to decide about
them a second or two. So nothing here keeps the process for longer than one slice of that: between slices, all else has
its turn. What is decided is the same as of facts read at once (`deciding.decisions`): the same `decide` for each table,
then the same `spend` over all of them.

Every `WHOLE_EVERY` everything is read again, though not unpacked: a database that took over without the newest commits
may count versions a second time, and a scheduler of an earlier release wrote without the order of versions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.documents import deciding
from tidegate.documents.deciding import Memory
from tidegate.domain.collector import collector_resting
from tidegate.domain.instants import MINUTE, Instant
from tidegate.domain.maintenance.choosing import spend
from tidegate.domain.maintenance.decision import Decision, Table, Terms, Verdict, decide
from tidegate.domain.maintenance.policy import Policy, resolve
from tidegate.domain.maintenance.throttle import DEFAULT_RULING, Ruling
from tidegate.domain.schedules import JsonObject
from tidegate.ports.tables import CarePlace, PolicyRecord, Switch, TableRecord, TablesReads

PAGE = 50
"""Tables that one query reads with their health."""
CARE_PAGE = 1000
SLICE = 50
"""Tables decided about at a stretch."""
WHOLE_EVERY = 10 * MINUTE
_NOTHING: Mapping[str, JsonObject] = {}


@dataclass(frozen=True, slots=True)
class Decided:
    """What was decided at one moment, by table; and the tables that a policy speaks for, with what was kept of their
    operations, as it was decided by."""

    tables: Mapping[str, Table]
    care: Mapping[str, Mapping[str, JsonObject]]
    decisions: Mapping[str, tuple[Decision, ...]]


class Picture:
    """What is known of all tables, for one caller at a time."""

    def __init__(self, ruling: Ruling = DEFAULT_RULING) -> None:
        self.ruling = ruling
        self._memory = Memory()
        self._records: dict[str, TableRecord] = {}
        self._unpacked: dict[str, tuple[int, str, int]] = {}
        self._care: dict[str, Mapping[str, JsonObject]] = {}
        self._known: Sequence[PolicyRecord] = ()
        self._policies: Mapping[str, Policy] = {}
        self._since: dict[str, Instant] = {}
        self._speaks: dict[str, Policy | None] = {}
        self._version = 0
        self._place = CarePlace()
        self._whole_at: Instant | None = None

    async def decided(self, store: TablesReads, now: Instant) -> Decided:
        """Everything about all tables at this moment, after what changed was read."""
        await self.refresh(store, now)
        busy = {one.order.table: str(one.order.run) for one in await store.open_care()}
        terms = await self._terms(store, await store.maintenance(), now)
        care = dict(self._care)
        tables: dict[str, Table] = {}
        found: dict[str, tuple[Decision, ...]] = {}
        names = sorted(self._records)
        for first in range(0, len(names), SLICE):
            await store.breathe()
            with collector_resting():
                for table in self._tables(names[first : first + SLICE], busy, now):
                    name = table.state.table
                    found[name] = decide(table, terms)
                    tables[name] = self._ranked(table, found[name], now)
        await store.breathe()
        found.update(spend(tables.values(), found, terms))
        await store.breathe()
        return Decided(tables, care, found)

    async def again(
        self, store: TablesReads, names: Collection[str], switch: Switch, now: Instant
    ) -> tuple[Mapping[str, Table], Terms]:
        """Some tables by newer facts, under the maintenance lock: of those that are still as they were when it was
        decided about them. What was measured since, or has another policy, is left out: it is decided about anew."""
        if _revisions(await store.policies()) != _revisions(self._known):
            return {}, await self._terms(store, switch, now)
        versions = await store.versions(names)
        same = [name for name in names if versions.get(name) == self._records[name].version]
        self._care.update(await store.care(same))
        busy = {one.order.table: str(one.order.run) for one in await store.open_care()}
        terms = await self._terms(store, switch, now)
        return {one.state.table: one for one in self._tables(same, busy, now)}, terms

    def care_of(self, table: str) -> Mapping[str, JsonObject]:
        """What is kept of its operations."""
        return self._care.get(table, _NOTHING)

    # ── what changed ───────────────────────────────────────────────────────────────────────────────────────────────

    async def refresh(self, store: TablesReads, now: Instant) -> None:
        """Read what changed since the last time."""
        known = await store.policies()
        if _revisions(known) != _revisions(self._known):
            self._known, self._policies = known, deciding.policies_of(known)
            self._since = {one.name: one.updated_at for one in known}
            self._speaks.clear()
        if self._whole_at is None or not 0 <= now - self._whole_at < WHOLE_EVERY:
            self._version, self._place, self._whole_at = 0, CarePlace(), now
        while page := await store.changed_tables(self._version, PAGE):
            await self._take(page, store, now)
            self._version = page[-1].version
        while changes := await store.changed_care(self._place, CARE_PAGE):
            for place, history in changes:
                self._care[place.table] = {**self.care_of(place.table), place.operation: history}
            self._place = changes[-1].place
        other = [name for name, one in self._records.items() if self._stamp(one) != self._unpacked.get(name)]
        for first in range(0, len(other), PAGE):
            await self._take(await store.tables(other[first : first + PAGE]), store, now)

    async def _take(self, records: Iterable[TableRecord], store: TablesReads, now: Instant) -> None:
        for one in records:
            stamp, policy = self._stamp(one), self._policy(one)
            if policy is not None and stamp is not None and stamp != self._unpacked.get(one.table):
                self._memory.unpack(one, policy, now)
                self._unpacked[one.table] = stamp
                await store.breathe()
            self._records[one.table] = replace(one, health=None if one.health is None else {})

    def _stamp(self, record: TableRecord) -> tuple[int, str, int] | None:
        """By what it must have been unpacked; None: nothing is decided about it."""
        policy = self._policy(record)
        return None if policy is None else (record.version, policy.name, policy.revision)

    def _policy(self, record: TableRecord) -> Policy | None:
        if record.location is None:
            return None
        if record.table not in self._speaks:
            self._speaks[record.table] = resolve(self._policies.values(), record.table).policy
        return self._speaks[record.table]

    # ── values ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _tables(self, names: Iterable[str], busy: Mapping[str, str], now: Instant) -> Iterable[Table]:
        for name in names:
            record = self._records[name]
            policy = self._policy(record)
            if policy is not None:
                state = deciding.state_of(
                    record,
                    self.care_of(name),
                    policy,
                    since=self._since[policy.name],
                    busy=busy.get(name),
                    now=now,
                    memory=self._memory,
                )
                yield Table(state=state, policy=policy)

    def _ranked(self, table: Table, decided: Sequence[Decision], now: Instant) -> Table:
        """With its debt, where that counts: it competes for a budget."""
        if table.policy.budget.unlimited or not any(one.verdict is Verdict.RUN for one in decided):
            return table
        return replace(table, debt=deciding.judged(table.state, table.policy, now)[1])

    async def _terms(self, store: TablesReads, switch: Switch, now: Instant) -> Terms:
        spent = await deciding.spent(store, self._policies, now)
        return deciding.terms_of(switch, spent, self.ruling, now)


def _revisions(policies: Iterable[PolicyRecord]) -> list[tuple[str, int]]:
    return [(one.name, one.rev) for one in policies]
