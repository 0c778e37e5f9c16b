"""The admitter's side: waiting runs, locked counters and pools, and the verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.domain.admission import AdmissionFacts, Admit, Candidate, Discard, Hold
from tidegate.domain.constraints import Needs, Starts
from tidegate.domain.crashes import Crash
from tidegate.domain.ids import Fence, RunKey, ScheduleId
from tidegate.domain.instants import Duration, Instant
from tidegate.domain.runs import Cause
from tidegate.store.arrays import Ints, Texts
from tidegate.store.clocks import lock_after_finish, set_after_finish
from tidegate.store.codec import to_json
from tidegate.store.connection import Cursor, Row, Session
from tidegate.store.facts import MOST_QUEUED, facts_of, keep_starts, read_starts
from tidegate.store.holdings import Released, change, finish, split
from tidegate.store.partitions import day_of
from tidegate.store.queues import MOST_QUEUES, OUT_OF_TURN, POOL, Heads, limit_of
from tidegate.store.sql import Query, load
from tidegate.store.transactions import SEPARATOR, SPACE, FencedTx, I, Parts, ascending, columns

Q = load("admission")
GATES = load("gates")
COLLECTING = load("collecting")


@dataclass(frozen=True, slots=True)
class _Claimed:
    rev: int
    wake_key: str | None
    first: bool  # it had no attempt yet


class AdmissionTx(FencedTx):
    """See `ports.engine.AdmitterTx`."""

    def __init__(self, parts: Parts, session: Session, fence: Fence) -> None:
        super().__init__(parts, session, fence)
        self._claimed: dict[RunKey, _Claimed] = {}
        self._heads = Heads((), 0)
        self._kept: set[str] = set()  # counters whose starts somebody reads

    async def claim_waiting(self, now: Instant, limit: int) -> Sequence[Candidate]:
        queues = await self.session.send(Q.due_queues, now=now, limit=MOST_QUEUES)
        rows = await self.fetch(Q.claim_waiting, floor=self.parts.wake.look(now), now=now, limit=limit)
        due = await queues.fetchall()
        if due and len(rows) < limit:
            rows += await self._claim_heads(due, limit - len(rows), now)
        if not rows:
            self._heads.answer(self.instants)
            await self.instants.write(self)
            return []
        rows.sort(key=_rank)
        return await self._candidates(await self._with_their_clocks(rows))

    async def _claim_heads(self, due: Sequence[Row], room: int, now: Instant) -> list[Row]:
        """The first of queues whose instant has come: they need not be woken, they are claimed at once."""
        self._heads = Heads(due, room)
        counts = self._heads.counts
        rows = await self.fetch(Q.claim_heads, keys=Texts(counts), counts=Ints(counts.values()), now=now)
        self._heads.claimed([row[10] for row in rows])
        return rows

    async def _with_their_clocks(self, rows: list[Row]) -> list[Row]:
        """Runs whose admission or end concerns their schedule's clock, since it collects or counts from their end, are
        judged with it. It comes before them in the order of locks: where it is taken, they are left for next time."""
        wanted = sorted({row[1] for row in rows if row[25]})
        if not wanted:
            return rows
        free = {row[0] for row in await self.fetch(COLLECTING.lock_trees, schedules=Ints(wanted))}
        self._heads.passed_over(row[10] for row in rows if row[25] and row[1] not in free)
        return [row for row in rows if row[1] in free or not row[25]]

    async def _candidates(self, rows: Sequence[Row]) -> Sequence[Candidate]:
        learn = self.parts.definitions
        revisions = await learn.revisions(self.session, {(row[1], row[21]) for row in rows})
        programs = await learn.programs(self.session, {(row[22], row[23]) for row in rows})
        found = []
        for slot, schedule, order, priority, created, expires, attempts, held, given, _, wake_key, limit, *more in rows:
            cause, closed, fire_time, previous_fire, caused_by, rendered, _, backoff, restart, *newest = more
            rev, program, program_rev, deleted, _ = newest
            key = RunKey(slot, ScheduleId(schedule), order)
            self._claimed[key] = _Claimed(rev, wake_key, attempts == 0)
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
                    held_expires=revision.held_expires,
                    deleted=deleted,
                    cause=Cause(cause),
                    closed=closed,
                    fire_time=fire_time,
                    previous_fire=previous_fire,
                    caused_by=caused_by,
                    rendered=rendered,
                    queued=wake_key,
                    in_turn=limit != OUT_OF_TURN,
                    crash=None if backoff is None else Crash(retry_at=backoff, restart_at=restart),
                )
            )
        return found

    async def oldest_scheduler(self, now: Instant, patience: Duration) -> Instant:
        row = await self.session.row(I.oldest, id=self.fence.instance_id, now=now, patience=patience, space=SPACE)
        assert row is not None and row[0] is not None
        return int(row[0])

    # ── facts ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def admission_facts(self, needs: Needs, now: Instant) -> AdmissionFacts:
        keys = Texts(sorted(needs.counters))
        await self.session.send(GATES.share)
        await self.session.send(Q.lock_counters, keys=keys)
        counters = await self.session.send(Q.counters, keys=keys)
        frozen = await self.session.send(GATES.frozen)
        gauges = await self._named(GATES.gauges, resources=needs.resources)
        calendars = await self._named(GATES.calendars_named, names=needs.calendars)
        names = Texts(sorted(needs.pools))
        pools = await self.fetch(Q.lock_pools, names=names, now=now)
        loans = await self.fetch(Q.loans, names=names, most=MOST_QUEUED) if len(pools) > 1 else []
        held = await counters.fetchall()
        return facts_of(
            held,
            pools,
            loans,
            await frozen.fetchall(),
            await gauges.fetchall() if gauges else (),
            await calendars.fetchall() if calendars else (),
            await self._starts(needs, {row[0]: row[2] for row in held if row[2] is not None}, now),
        )

    async def _named(self, query: Query, **names: frozenset[str]) -> Cursor | None:
        [(parameter, wanted)] = names.items()
        return await self.session.send(query, **{parameter: Texts(sorted(wanted))}) if wanted else None

    async def _starts(self, needs: Needs, kept: Mapping[str, Duration], now: Instant) -> Mapping[str, Starts]:
        """Whose starts are asked for for the first time, or further back, is made to keep them, under its lock."""
        for key, (_, back) in sorted(needs.starts.items()):
            if kept.get(key, -1) < back:
                await keep_starts(self.session, key, back, now)
        self._kept = {*kept, *needs.starts}
        return await read_starts(self.session, needs.starts, now)

    # ── verdicts ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def settle(self, verdicts: Sequence[Admit | Hold | Discard], now: Instant) -> None:
        if not verdicts:
            return
        await self.ready_for(now)
        claimed = self._claimed
        released = Released()
        for verdict in verdicts:
            if verdict.key in claimed:
                released.look_at(claimed[verdict.key].wake_key)
            if isinstance(verdict, Hold) and verdict.wake_key is not None and verdict.wake_key.startswith(POOL):
                released.look_at(verdict.wake_key)  # it may have left a free slot to others
        admits = [verdict for verdict in verdicts if isinstance(verdict, Admit)]
        await self._admit(admits, now)
        await self._hold([verdict for verdict in verdicts if isinstance(verdict, Hold)], now)
        await self._discard([verdict for verdict in verdicts if isinstance(verdict, Discard)], released, now)
        taken = Counter(key for verdict in admits for key in verdict.take)
        await change(self, taken, Counter(verdict.pool for verdict in admits), sign=1)
        for pool in {verdict.pool for verdict in admits}:
            released.look_at(POOL + pool)
        self._heads.answer(self.instants)
        await released.apply(self, now)

    async def _admit(self, admits: Sequence[Admit], now: Instant) -> None:
        if not admits:
            return
        claimed = self._claimed
        known = [claimed.get(one.key) for one in admits]
        await self.session.send(
            Q.admit,
            **columns(one.key for one in admits)._asdict(),
            revs=Ints(one.rev if one else None for one in known),
            programs=Ints(one.program.id for one in admits),
            program_revs=Ints(one.program.rev for one in admits),
            kinds=Texts(one.program.kind for one in admits),
            pools=Texts(one.pool for one in admits),
            borrowers=Texts(one.program.pool if one.lender else None for one in admits),
            takes=Texts(SEPARATOR.join(one.take) for one in admits),
            arguments=Texts(to_json(one.arguments) for one in admits),
            window_ends=Ints(one.stop_by for one in admits),
            now=now,
            day=day_of(now),
        )
        if self._kept:
            await self._expect_starts([one for one, of in zip(admits, known, strict=True) if of is None or of.first])
        self.tell("ready")

    async def _expect_starts(self, admits: Sequence[Admit]) -> None:
        """First attempts are to come, under counters whose starts somebody reads."""
        expected = [(key, one.key) for one in admits for key in one.take if key in self._kept]
        if expected:
            await self.session.send(
                GATES.expect_starts,
                keys=Texts(key for key, _ in expected),
                **columns(run for _, run in expected)._asdict(),
            )

    async def _hold(self, holds: Sequence[Hold], now: Instant) -> None:
        if not holds:
            return
        waiting_for = {id(one.waiting_for): one.waiting_for for one in holds}  # most wait for the same
        texts = {which: to_json(value) for which, value in waiting_for.items()}
        turns = self._heads.turns
        own: list[Instant | None] = []
        for one in holds:
            own.append(one.until if one.wake_key is None else None)
            if one.wake_key is not None and (one.until is not None or one.wake_key in turns):
                self.instants.answer(one.wake_key, one.until, turns.get(one.wake_key))
        await self.session.send(
            Q.hold,
            **columns(one.key for one in holds)._asdict(),
            untils=Ints(own),
            keys=Texts(one.wake_key for one in holds),
            limits=Ints(limit_of(one.wake_key, one.limit) for one in holds),
            waiting_for=Texts(texts[id(one.waiting_for)] for one in holds),
            restarts=Ints(one.restart_at for one in holds),
            now=now,
        )
        untils = [until for until in own if until is not None]
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


def _rank(row: Row) -> tuple[int, int, int, int]:
    return row[18], row[0], row[1], row[2]


async def next_wake(parts: Parts) -> Instant | None:
    """When the next waiting run, or the first of a queue, is to be judged; also raises the floor to just below the
    earliest run."""
    row = await parts.database.row(Q.next_wake, floor=parts.wake.look())
    own, queue = row or (None, None)
    parts.wake.rise(own)
    return min((at for at in (own, queue) if at is not None), default=None)
