"""The admitter's side: waiting runs, locked counters and pools, and the verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tidegate.domain.admission import AdmissionFacts, Admit, Candidate, Discard, Hold
from tidegate.domain.ids import Fence, RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.runs import Cause
from tidegate.store.arrays import Ints, Texts
from tidegate.store.clocks import lock_after_finish, set_after_finish
from tidegate.store.codec import to_json
from tidegate.store.connection import Cursor, Row, Session
from tidegate.store.holdings import POOL, Released, change, finish, split
from tidegate.store.partitions import day_of
from tidegate.store.sql import load
from tidegate.store.transactions import SEPARATOR, FencedTx, Parts, ascending, columns

Q = load("admission")
COLLECTING = load("collecting")


@dataclass(frozen=True, slots=True)
class _Claimed:
    rev: int
    wake_key: str | None


class AdmissionTx(FencedTx):
    """See `ports.engine.AdmitterTx`."""

    def __init__(self, parts: Parts, session: Session, fence: Fence) -> None:
        super().__init__(parts, session, fence)
        self._claimed: dict[RunKey, _Claimed] = {}

    async def claim_waiting(self, now: Instant, limit: int) -> Sequence[Candidate]:
        rows = await self.fetch(Q.claim_waiting, floor=self.parts.wake.look(now), now=now, limit=limit)
        if not rows:
            return []
        rows = await self._with_their_clocks(rows)
        learn = self.parts.definitions
        revisions = await learn.revisions(self.session, {(row[1], row[18]) for row in rows})
        programs = await learn.programs(self.session, {(row[19], row[20]) for row in rows})
        found = []
        for slot, schedule, order, priority, created, expires, attempts, held, given, _, wake_key, _, *more in rows:
            cause, closed, fire_time, previous_fire, caused_by, rendered, rev, program, program_rev, deleted, _ = more
            key = RunKey(slot, ScheduleId(schedule), order)
            self._claimed[key] = _Claimed(rev, wake_key)
            revision = revisions[schedule, rev]
            found.append(
                Candidate(
                    key=key,
                    spec=revision.spec,
                    program=programs[program, program_rev],
                    priority=priority,
                    created_at=created,
                    expires_at=expires,
                    attempts=attempts,
                    held=split(held),
                    given=given,
                    mode=revision.mode,
                    deleted=deleted,
                    cause=Cause(cause),
                    closed=closed,
                    fire_time=fire_time,
                    previous_fire=previous_fire,
                    caused_by=caused_by,
                    rendered=rendered,
                )
            )
        return found

    async def _with_their_clocks(self, rows: list[Row]) -> list[Row]:
        """Runs whose admission or end concerns their schedule's clock, since it collects or counts from their end, are
        judged with it. It comes before them in the order of locks: where it is taken, they are left for next time."""
        wanted = sorted({row[1] for row in rows if row[22]})
        if not wanted:
            return rows
        free = {row[0] for row in await self.fetch(COLLECTING.lock_trees, schedules=Ints(wanted))}
        return [row for row in rows if row[1] in free or not row[22]]

    async def admission_facts(self, counters: Collection[str], pools: Collection[str]) -> AdmissionFacts:
        keys, names = sorted(set(counters)), sorted(set(pools))
        await self.session.send(Q.lock_counters, keys=Texts(keys))
        held = await self.session.send(Q.counters, keys=Texts(keys))
        free = await self.fetch(Q.lock_pools, names=Texts(names))
        return AdmissionFacts(
            held={key: count for key, count in await held.fetchall() if count},
            free=dict(free),
        )

    async def settle(self, verdicts: Sequence[Admit | Hold | Discard], now: Instant) -> None:
        if not verdicts:
            return
        await self.ready_for(now)
        claimed = self._claimed
        released = Released()
        for verdict in verdicts:
            if verdict.key in claimed:
                released.look_at(claimed[verdict.key].wake_key)
        admits = [verdict for verdict in verdicts if isinstance(verdict, Admit)]
        await self._admit(admits, {key: one.rev for key, one in claimed.items()}, now)
        await self._hold([verdict for verdict in verdicts if isinstance(verdict, Hold)], now)
        await self._discard([verdict for verdict in verdicts if isinstance(verdict, Discard)], released, now)
        taken = Counter(key for verdict in admits for key in verdict.take)
        await change(self, taken, Counter(verdict.program.pool for verdict in admits), sign=1)
        for pool in {verdict.program.pool for verdict in admits}:
            released.look_at(POOL + pool)
        await released.apply(self, now)

    async def _admit(self, admits: Sequence[Admit], revs: dict[RunKey, int], now: Instant) -> None:
        if not admits:
            return
        await self.session.send(
            Q.admit,
            **columns(one.key for one in admits)._asdict(),
            revs=Ints(revs.get(one.key) for one in admits),
            programs=Ints(one.program.id for one in admits),
            program_revs=Ints(one.program.rev for one in admits),
            kinds=Texts(one.program.kind for one in admits),
            pools=Texts(one.program.pool for one in admits),
            takes=Texts(SEPARATOR.join(one.take) for one in admits),
            arguments=Texts(to_json(one.arguments) for one in admits),
            now=now,
            day=day_of(now),
        )
        self.tell("ready")

    async def _hold(self, holds: Sequence[Hold], now: Instant) -> None:
        if not holds:
            return
        waiting_for = {id(one.waiting_for): one.waiting_for for one in holds}  # most wait for the same
        texts = {which: to_json(value) for which, value in waiting_for.items()}
        await self.session.send(
            Q.hold,
            **columns(one.key for one in holds)._asdict(),
            untils=Ints(one.until for one in holds),
            keys=Texts(one.wake_key for one in holds),
            waiting_for=Texts(texts[id(one.waiting_for)] for one in holds),
            now=now,
        )
        untils = [one.until for one in holds if one.until is not None]
        if untils:
            self.parts.wake.lower(min(untils))

    async def _discard(self, discards: Sequence[Discard], released: Released, now: Instant) -> None:
        if not discards:
            return
        discards = sorted(discards, key=lambda one: ascending(one.key))
        clocks: Cursor = await lock_after_finish(self, (one.key.schedule_id for one in discards))
        gone = await finish(self, [(one.key, one.outcome, one.reason) for one in discards], now)
        released.finished(gone)
        await set_after_finish(self, clocks, {row[1]: now for row in gone})


async def next_wake(parts: Parts) -> Instant | None:
    """When the next waiting run is to be judged; also raises the floor to just below it."""
    row = await parts.database.row(Q.next_wake, floor=parts.wake.look())
    parts.wake.rise(row[0] if row else None)
    return row[0] if row else None
