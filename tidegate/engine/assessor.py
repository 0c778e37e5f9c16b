"""Measures the tables of one catalog that a policy speaks for, when they have changed.

A pass asks the catalog for all of its tables and their metadata files, puts on record what moved, and has those
measured whose newest metadata file was not measured yet: by the scheduler itself when they are few, by a Spark job when
they are many (the surveyor's business). A table that is written all the time is measured at most once in every
`rest`. What the health is goes on record with its history.

What if this process dies here: nothing is kept but what was measured, and a table counts as measured only when its
health was committed. Two assessors at once measure twice and record the same; the lease saves the work. A table that
cannot be read says why and holds up no other; it is tried again when its metadata file changes, and ever more rarely
until then. A catalog that does not answer leaves everything as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tidegate.documents.deciding import WHOLE, Memory, judged, policies_of, state_of
from tidegate.domain.errors import Refused, Unavailable
from tidegate.domain.events import TABLE_HEALTH
from tidegate.domain.ids import Fence
from tidegate.domain.instants import HOUR, MINUTE, SECOND, Duration, Instant
from tidegate.domain.leases import Lease
from tidegate.domain.maintenance.debt import Debt
from tidegate.domain.maintenance.issues import Issue, Severity
from tidegate.domain.maintenance.policy import Policy, resolve
from tidegate.domain.schedules import JsonObject
from tidegate.engine.outcome import Outcome, Topic
from tidegate.ports.collecting import NewEvent
from tidegate.ports.lake import Catalog, Pointer
from tidegate.ports.maintaining import AssessorStore
from tidegate.ports.tables import Measured, Seen, Survey, Surveyor, SurveyOrder, TableRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class AssessorSettings:
    every: Duration = 10 * SECOND
    """How often the catalog is asked."""
    rest: Duration = 30 * SECOND
    """The least span between two measurements of one table."""
    batch: int = 1000
    """Tables of one survey."""
    term: Duration = 20 * MINUTE
    """Of the lease; it is renewed after a third, between steps only: what is left is more than a surveyor's patience
    (10 minutes). Who dies or leaves has no lease any more, so nobody waits for its end."""
    backoff_most: Duration = HOUR


@dataclass(slots=True)
class _Unreadable:
    location: str
    failures: int
    until: Instant


class Assessor:
    """A part of the scheduler: one for each catalog, so that one that is down holds up no other."""

    topics = frozenset({Topic.DECLARED})

    def __init__(
        self,
        store: AssessorStore,
        catalog: Catalog,
        surveyor: Surveyor,
        fence: Fence,
        settings: AssessorSettings = AssessorSettings(),
    ) -> None:
        self.name = f"assessor {catalog.name}"
        self._duty = f"assess {catalog.name}"
        self._store, self._catalog, self._surveyor, self._fence = store, catalog, surveyor, fence
        self._settings = settings
        self._lease: Lease | None = None
        self._next: Instant = 0
        self._fault = ""
        self._known: dict[str, TableRecord] = {}
        self._version = 0
        self._unreadable: dict[str, _Unreadable] = {}
        self._policies = 0
        self._spoken: Mapping[str, Policy] = {}

    def hear(self, topic: Topic) -> None:
        """A policy may have changed: that is looked at in the next step, which is cheap."""

    async def step(self, now: Instant) -> Outcome:
        """Ask the catalog, have measured what is new, put it on record."""
        records = await self._store.policies()
        stamp = hash(tuple((one.name, one.rev) for one in records))
        if stamp == self._policies and now < self._next:
            return Outcome(next=self._next)
        if not await self._leads(now):
            return Outcome(next=now + self._settings.every)
        self._policies, self._next = stamp, now + self._settings.every
        if not records:
            return Outcome(next=self._next)
        try:
            found = {one.dataset: one for one in await self._catalog.tables()}
        except (Unavailable, Refused) as fault:
            return self._silent(str(fault))
        notes = [f"Catalog {self._catalog.name!r} answers again."] if self._fault else []
        self._fault = ""
        await self._see(found, now)

        policies = policies_of(records)
        orders = self._orders(found, policies, now)
        surveys = await self._surveyor.survey(orders) if orders else ()

        done = await self._record(orders, surveys, policies, now)
        notes += [f"{one.table} cannot be read: {one.error}" for one in surveys if self._is_new(one, now, found)]
        left = len(orders) >= self._settings.batch
        if left:
            self._next = now
        wakes = frozenset({Topic.DECLARED}) if done else frozenset[Topic]()  # the caretaker listens to it
        return Outcome(did=done, left=left, next=self._next, wakes=wakes, notes=tuple(notes))

    async def _leads(self, now: Instant) -> bool:
        lease, term = self._lease, self._settings.term
        if lease is not None and now < lease.asked_at + term // 3:
            return True
        token = await self._store.acquire(self._duty, self._fence, now, term)
        if token is None or lease is None or token != lease.token:
            self._known, self._version = {}, 0
        self._lease = None if token is None else Lease(duty=self._duty, token=token, asked_at=now, term=term)
        return token is not None

    def _silent(self, fault: str) -> Outcome:
        told, self._fault = self._fault, fault
        note = f"{fault.rstrip('.')}. Its tables are not measured meanwhile."
        return Outcome(next=self._next, notes=() if told else (note,))

    async def _see(self, found: Mapping[str, Pointer], now: Instant) -> None:
        """Put on record where each table is now."""
        prefix = f"{self._catalog.name}."
        await self._refresh(prefix)
        seen = [
            Seen(table=name, location=one.location)
            for name, one in found.items()
            if name not in self._known or self._known[name].location != one.location
        ]
        gone = [name for name, one in self._known.items() if name not in found and one.location is not None]
        seen += [Seen(table=name, location=None) for name in gone]
        if seen:
            async with self._store.changing() as tx:
                await tx.see_tables(seen, now)
            await self._refresh(prefix)

    async def _refresh(self, prefix: str) -> None:
        for one in await self._store.tables(since=self._version):
            self._version = max(self._version, one.version)
            if one.table.startswith(prefix):
                self._known[one.table] = one

    def _orders(self, found: Mapping[str, Pointer], policies: Mapping[str, Policy], now: Instant) -> list[SurveyOrder]:
        """Those that a policy speaks for and that are not as they were measured, longest not measured first."""
        orders: list[tuple[Instant, SurveyOrder]] = []
        for name, pointer in found.items():
            known = self._known.get(name)
            if known is None or pointer.location is None or pointer.location == known.assessed and not known.error:
                continue
            rests = known.assessed is not None  # else its maintenance has ended, and waits to be seen
            if rests and known.assessed_at is not None and now < known.assessed_at + self._settings.rest:
                self._next = min(self._next, known.assessed_at + self._settings.rest)
                continue
            patience = self._unreadable.get(name)
            if patience is not None and patience.location == pointer.location and now < patience.until:
                continue
            if resolve(policies.values(), name).policy is None:
                continue
            order = SurveyOrder(table=name, location=pointer.location, now=now, properties=pointer.properties)
            orders.append((known.assessed_at or 0, order))
        orders.sort(key=lambda pair: (pair[0], pair[1].table))
        return [order for _, order in orders[: self._settings.batch]]

    async def _record(
        self, orders: Sequence[SurveyOrder], surveys: Sequence[Survey], policies: Mapping[str, Policy], now: Instant
    ) -> int:
        if not orders:
            return 0
        locations = {one.table: one.location for one in orders}
        care = await self._store.care(list(locations))
        self._spoken = policies
        found: dict[str, Judged] = {}
        for one in surveys:
            known = care.get(one.table, {})
            whole = {WHOLE: known[WHOLE]} if WHOLE in known else {}
            found[one.table] = self._judged(one.table, one.health, whole, now)
        measured = [
            Measured(
                table=one.table,
                location=locations[one.table],
                health=one.health,
                score=None if (verdict := found[one.table]) is None else verdict[1].score,
                error=one.error,
            )
            for one in surveys
        ]
        async with self._store.changing() as tx:
            await tx.record_health(measured, now)
            if events := list(self._told(surveys, found, now)):
                await tx.publish(events, now)  # last: it locks topics
        return len(measured)

    def _judged(
        self, table: str, health: JsonObject | None, whole: Mapping[str, JsonObject], now: Instant
    ) -> tuple[tuple[Issue, ...], Debt] | None:
        """What is the matter with a table by this health; None: nobody measured it, or no policy speaks for it."""
        policy = resolve(self._spoken.values(), table).policy
        if health is None or policy is None:
            return None
        record = replace(self._known[table], health=health, error="")
        return judged(state_of(record, whole, policy, since=0, busy=None, now=now, memory=Memory()), policy, now)

    def _told(self, surveys: Sequence[Survey], found: Mapping[str, Judged], now: Instant) -> Iterator[NewEvent]:
        """An event for each table with which something else is the matter than when it was last measured."""
        for one in surveys:
            here = found[one.table]
            if here is None:
                continue
            before = self._judged(one.table, self._known[one.table].health, {}, now)
            was, now_is = _matters(before), _matters(here)
            if was != now_is:
                payload = {
                    "severity": _worst(here),
                    "previous": _worst(before),
                    "score": round(here[1].score, 3),
                    "issues": now_is,
                }
                yield NewEvent(type=TABLE_HEALTH, key=one.table, payload=payload, source="assessor")

    def _is_new(self, survey: Survey, now: Instant, found: Mapping[str, Pointer]) -> bool:
        """Whether this is the first time that a table cannot be read; remembers how patient to be with it."""
        if not survey.error:
            self._unreadable.pop(survey.table, None)
            return False
        location = found[survey.table].location or ""
        before = self._unreadable.get(survey.table)
        failures = before.failures + 1 if before and before.location == location else 1
        wait = min(self._settings.rest << min(failures, 12), self._settings.backoff_most)
        self._unreadable[survey.table] = _Unreadable(location, failures, now + wait)
        return before is None


Judged: TypeAlias = tuple[tuple[Issue, ...], Debt] | None


def _matters(found: Judged) -> dict[str, str]:
    """What is the matter: severity by figure."""
    return {} if found is None else {one.kind: one.severity.value for one in found[0]}


def _worst(found: Judged) -> str | None:
    order = list(Severity)
    return max(_matters(found).values(), key=lambda one: order.index(Severity(one)), default=None)
