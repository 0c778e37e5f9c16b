"""Starts the maintenance that is due, and takes note of what became of it.

A pass first settles what has ended: what it really cost goes into its policy's budget in place of what was reserved,
and what it changed into the history by which the next is decided. Then everything is decided anew, in slices between
which the scheduler does its other work (`documents.picture`; people are shown the same). What is to run is looked at
once more under the maintenance lock, where what any other scheduler or person has reserved is seen, and made a run of
the ledger and reserved in that transaction: budgets are not overshot, and no table is maintained twice at a time.
Nothing is thought over while the lock is held but these few tables.

What if this process dies here: before the commit nothing happened; after it the run is on record with its reservation,
and whoever leads next settles it. A stale caretaker can do no harm: it decides by the same facts under the same lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.documents import deciding
from tidegate.documents.deciding import WHOLE
from tidegate.documents.picture import Decided, Picture
from tidegate.domain.errors import Conflict, Invalid, Refused, TidegateError
from tidegate.domain.ids import Fence
from tidegate.domain.instants import MINUTE, SECOND, Duration, Instant
from tidegate.domain.leases import Lease
from tidegate.domain.maintenance.choosing import confirmed
from tidegate.domain.maintenance.decision import Decision, Verdict
from tidegate.domain.maintenance.state import NO_HISTORY, History, Refusal, TableState, ended, held, skipped
from tidegate.domain.maintenance.throttle import DEFAULT_RULING, Ruling
from tidegate.domain.maintenance.wire import history_json, history_of
from tidegate.domain.runs import ENDS, State
from tidegate.domain.schedules import JsonObject
from tidegate.engine.outcome import Outcome, Topic
from tidegate.ports.maintaining import CaretakerStore, Starter
from tidegate.ports.tables import OpenCare, Settlement

DUTY = "maintenance"
_REFUSED = 5 * MINUTE
"""How long a table that could not be started is left out."""
NOTES = 100
"""Operations on which one transaction puts something on record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaretakerSettings:
    every: Duration = 5 * SECOND
    """How often everything is decided anew."""
    most: int = 50
    """Runs that one transaction makes."""
    term: Duration = 30 * SECOND
    """Of the lease; it is renewed after a third."""
    ruling: Ruling = DEFAULT_RULING
    """The doors must have the same, or the status that they show is not what is done."""


class Caretaker:
    name = "caretaker"
    topics = frozenset({Topic.DECLARED})

    def __init__(
        self,
        store: CaretakerStore,
        start: Starter,
        fence: Fence,
        settings: CaretakerSettings = CaretakerSettings(),
    ) -> None:
        self._store, self._start, self._fence, self._settings = store, start, fence, settings
        self._lease: Lease | None = None
        self._next: Instant = 0
        self._picture = Picture(settings.ruling)
        self._stale = False

    def hear(self, topic: Topic) -> None:
        """A policy or a table has changed."""
        self._stale = True

    async def step(self, now: Instant) -> Outcome:
        """Settle what ended, decide, start what is to run."""
        if now < self._next and not self._stale:
            return Outcome(next=self._next)
        if not await self._leads(now):
            self._next = now + self._settings.every
            return Outcome(next=self._next)
        self._stale, self._next = False, now + self._settings.every

        settled = await self._settle(now)
        decided = await self._picture.decided(self._store, now)
        wanted = [one for all_of in decided.decisions.values() for one in all_of if one.verdict is Verdict.RUN]
        begun, notes = await self._begin_some(wanted[: self._settings.most], now)
        await self._note(decided, now)

        left = bool(begun) and len(wanted) > self._settings.most
        if left:
            self._next = now
        wakes = frozenset({Topic.ADMIT}) if begun else frozenset[Topic]()
        return Outcome(did=settled + begun, left=left, next=self._next, wakes=wakes, notes=notes)

    async def _leads(self, now: Instant) -> bool:
        lease, term = self._lease, self._settings.term
        if lease is not None and now < lease.asked_at + term // 3:
            return True
        token = await self._store.acquire(DUTY, self._fence, now, term)
        self._lease = None if token is None else Lease(duty=DUTY, token=token, asked_at=now, term=term)
        return token is not None

    # ── what ended ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _settle(self, now: Instant) -> int:
        if not any(one.state in ENDS for one in await self._store.open_care()):
            return 0
        async with self._store.changing() as tx:
            await tx.lock_maintenance()
            over = [one for one in await tx.open_care() if one.state in ENDS]
            care = {name: dict(one) for name, one in (await tx.care([o.order.table for o in over])).items()}
            done = await tx.settle_care([settlement(one) for one in over], now)
            for one in over:
                if one.order.run in done:
                    known = care.setdefault(one.order.table, {})
                    fresh = told(one, known, now)
                    known |= fresh
                    await tx.put_care({one.order.table: fresh})
        return len(done)

    # ── what is to run ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _begin_some(self, wanted: Sequence[Decision], now: Instant) -> tuple[int, tuple[str, ...]]:
        """Start these; how many were started, and what is to be said of those that could not be. One that is refused
        takes no other along: that it was is put on record, and it is left out for a while."""
        notes: list[str] = []
        while wanted:
            try:
                return await self._begin(wanted, now), tuple(notes)
            except _Unstartable as one:
                notes.append(f"{one.table} is not maintained for {_REFUSED // MINUTE} minutes: {one.fault}")
                await self._refuse(one, now)
                wanted = [each for each in wanted if each.table != one.table]
        return 0, tuple(notes)

    async def _refuse(self, one: _Unstartable, now: Instant) -> None:
        async with self._store.changing() as tx:
            await tx.lock_maintenance()
            whole = (await tx.care([one.table])).get(one.table, {}).get(WHOLE, {})
            refusal = Refusal(until=now + _REFUSED, why=str(one.fault))
            await tx.put_care({one.table: {WHOLE: deciding.refused(whole, refusal)}})

    async def _begin(self, wanted: Sequence[Decision], now: Instant) -> int:
        """Look at these once more, under the lock, and start them; how many were started."""
        begun = 0
        async with self._store.changing() as tx:
            switch = await tx.lock_maintenance()
            names = list(dict.fromkeys(one.table for one in wanted))
            tables, terms = await self._picture.again(tx, names, switch, now)
            chosen = [(tables[one.table], one.operation) for one in wanted if one.table in tables]
            needed = await tx.snapshots_needed(tables) if chosen else {}
            for table, one in confirmed(chosen, terms):
                care = self._picture.care_of(one.table)
                after = await deciding.died(tx, one.table, care)
                keep, who = needed.get(one.table, ()), f"policy {table.policy.name}"
                wish = deciding.wish(one, table.policy, care, keep=keep, after=after, who=who)
                try:
                    await self._start(tx, wish, now)
                except (Conflict, Refused, Invalid) as fault:
                    raise _Unstartable(one.table, fault) from fault
                begun += 1
        return begun

    async def _note(self, decided: Decided, now: Instant) -> None:
        """Put on record what would have changed nothing, and against what nothing but a budget is, since now."""
        told: list[tuple[str, str, JsonObject]] = []
        for table, all_of in decided.decisions.items():
            for one in all_of:
                if one.verdict in (Verdict.SKIP, Verdict.HOLD):
                    fresh = _noted(one, decided.tables[table].state, now)
                    told.append((table, one.operation.value, history_json(fresh)))
        for first in range(0, len(told), NOTES):
            await self._store.breathe()
            some = told[first : first + NOTES]
            async with self._store.changing() as tx:
                await tx.lock_maintenance()
                care = await tx.care({table for table, _, _ in some})
                changed: dict[str, dict[str, JsonObject]] = {}
                for table, operation, history in some:
                    known = decided.care.get(table, {}).get(operation)
                    if care.get(table, {}).get(operation) == known:  # nobody has started it meanwhile
                        changed.setdefault(table, {})[operation] = history
                if changed:
                    await tx.put_care(changed)


class _Unstartable(Exception):
    """The maintenance of a table was refused, so that nothing of its transaction may stand."""

    def __init__(self, table: str, fault: TidegateError) -> None:
        super().__init__(table)
        self.table, self.fault = table, fault


def _noted(decision: Decision, state: TableState, now: Instant) -> History:
    """What is kept of its operation after this."""
    history = state.histories.get(decision.operation, NO_HISTORY)
    if decision.verdict is Verdict.HOLD:
        return held(history, now)
    return skipped(history, state.health.snapshot if state.health is not None else None, now)


_SUCCESS: Mapping[State, bool] = {
    State.SUCCEEDED: True,
    State.FAILED: False,
    State.TIMED_OUT: False,
    State.CRASHED: False,
}


def settlement(over: OpenCare) -> Settlement:
    """What an ended run counts as. What nobody knows the cost of counts as what was reserved; what never started as
    nothing."""
    result = _result(over)
    spent = result.get("bytes_rewritten")
    unknown = over.order.bytes if over.started_at is not None else 0
    return Settlement(
        run=over.order.run,
        outcome=over.state.value,
        bytes=spent if isinstance(spent, int) and spent >= 0 else unknown,
        result=result or None,
    )


def told(over: OpenCare, care: Mapping[str, JsonObject], now: Instant) -> dict[str, JsonObject]:
    """What is kept of its operation, and of its table as a whole, once a run has ended."""
    raw, result = care.get(over.order.operation), _result(over)
    succeeded = _SUCCESS.get(over.state)
    changed, spent = result.get("changed"), result.get("bytes_rewritten")
    took = None
    if over.finished_at is not None and over.started_at is not None:
        took = over.finished_at - over.started_at
    fresh = ended(
        NO_HISTORY if raw is None else history_of(raw),
        outcome=over.state.value,
        succeeded=succeeded,
        changed=changed if isinstance(changed, bool) else None,
        at=over.finished_at or now,
        took=took,
        bytes=spent if isinstance(spent, int) else None,
    )
    whole = deciding.finished(care.get(WHOLE, {}), succeeded)
    return {over.order.operation: history_json(fresh), **({WHOLE: whole} if whole else {})}


def _result(over: OpenCare) -> JsonObject:
    """What the run said of itself, counted from the table's snapshots, with its sentence."""
    note = over.note or {}
    found = note.get("result")
    return {**found, "message": note.get("message")} if isinstance(found, Mapping) else {}
