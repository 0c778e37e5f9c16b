"""Starts the maintenance that is due, and takes note of what became of it.

A pass first settles what has ended: what it really cost goes into its policy's budget in place of what was reserved,
and what it changed into the history by which the next is decided. Then everything is decided anew (`decide_all`, which
is also what people are shown), and what is to run is made a run of the ledger and reserved in one transaction, under
the maintenance lock. The facts are read under that lock, so that what any other scheduler or person has reserved
is seen: budgets are not overshot, and no table is maintained twice at a time.

What if this process dies here: before the commit nothing happened; after it the run is on record with its reservation,
and whoever leads next settles it. A stale caretaker can do no harm: it decides by the same facts under the same lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.documents import deciding
from tidegate.documents.deciding import WHOLE, Facts, Memory
from tidegate.domain.ids import Fence
from tidegate.domain.instants import SECOND, Duration, Instant
from tidegate.domain.leases import Lease
from tidegate.domain.maintenance.decision import Decision, Verdict
from tidegate.domain.maintenance.policy import resolve
from tidegate.domain.maintenance.state import NO_HISTORY, ended, held, skipped
from tidegate.domain.maintenance.wire import history_json, history_of
from tidegate.domain.runs import ENDS, State
from tidegate.domain.schedules import JsonObject
from tidegate.engine.outcome import Outcome, Topic
from tidegate.ports.control import ControlTx
from tidegate.ports.maintaining import CaretakerStore, Starter
from tidegate.ports.tables import OpenCare, Settlement

DUTY = "maintenance"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaretakerSettings:
    every: Duration = 5 * SECOND
    """How often everything is decided anew."""
    most: int = 50
    """Runs that one transaction makes."""
    term: Duration = 30 * SECOND
    """Of the lease; it is renewed after a third."""


class Caretaker:
    name = "caretaker"
    topics = frozenset({Topic.CLOCK})

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
        self._memory = Memory()
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
        given = await deciding.facts(self._store, now)
        decided = deciding.decisions(given, now, self._memory)

        begun = await self._begin(now) if _acts(decided) else 0
        left = begun >= self._settings.most
        wakes = frozenset({Topic.ADMIT}) if begun else frozenset[Topic]()
        return Outcome(did=settled + begun, left=left, next=self._next, wakes=wakes)

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
            over = [one for one in await self._store.open_care() if one.state in ENDS]
            care = {name: dict(one) for name, one in (await self._store.care([o.order.table for o in over])).items()}
            done = await tx.settle_care([settlement(one) for one in over], now)
            for one in over:
                if one.order.run in done:
                    known = care.setdefault(one.order.table, {})
                    fresh = told(one, known, now)
                    known |= fresh
                    await tx.put_care(one.order.table, fresh)
        return len(done)

    # ── what is to run ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _begin(self, now: Instant) -> int:
        """Decide once more, under the lock, and do it; how many were started."""
        async with self._store.changing() as tx:
            await tx.lock_maintenance()
            given = await deciding.facts(self._store, now)
            decided = deciding.decisions(given, now, self._memory)
            policies = deciding.policies_of(given.policies)
            wanted = [one for all_of in decided.values() for one in all_of if one.verdict is Verdict.RUN]
            wanted = wanted[: self._settings.most]
            needed = await self._store.snapshots_needed({one.table for one in wanted})
            for one in wanted:
                policy = resolve(policies.values(), one.table).policy
                assert policy is not None
                wish = deciding.wish(one, policy, given, keep=needed.get(one.table, ()), who=f"policy {policy.name}")
                await self._start(tx, wish, now)
            for all_of in decided.values():
                for one in all_of:
                    if one.verdict in (Verdict.SKIP, Verdict.HOLD):
                        await self._note(tx, one, given, now)
        return len(wanted)

    async def _note(self, tx: ControlTx, decision: Decision, given: Facts, now: Instant) -> None:
        """Put on record that it would have changed nothing, or that since now only a budget is against it."""
        table = next(one for one in given.tables if one.table == decision.table)
        health = self._memory.health(table)
        raw = given.care.get(decision.table, {}).get(decision.operation.value)
        history = NO_HISTORY if raw is None else history_of(raw)
        if decision.verdict is Verdict.HOLD:
            fresh = held(history, now)
        else:
            fresh = skipped(history, health.snapshot if health is not None else None, now)
        await tx.put_care(decision.table, {decision.operation.value: history_json(fresh)})


def _acts(decided: Mapping[str, Sequence[Decision]]) -> bool:
    return any(one.verdict is not Verdict.WAIT for all_of in decided.values() for one in all_of)


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
