"""Backfills in PostgreSQL. See `ports.backfills`.

A claimed backfill's row is locked first, then its schedule's clock: whoever makes a run of a schedule, a rerun or
another backfill, holds that clock too, so what is on record of an instant stays so until the commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from tidegate.domain.backfills import (
    PRIORITY,
    Asked,
    Backfill,
    BackfillState,
    Counts,
    Item,
    Move,
    Order,
    Reprocess,
    Span,
    Standing,
    identity,
    standing,
)
from tidegate.domain.ids import Fence, RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.programs import ProgramRef
from tidegate.domain.runs import State
from tidegate.ports.backfills import BackfillRecord, Standings
from tidegate.store.arrays import Bools, Ints, Texts
from tidegate.store.connection import Row, Session
from tidegate.store.partitions import day_of
from tidegate.store.sql import Query, load
from tidegate.store.transactions import FencedTx, Parts, Tx

Q = load("backfills")
_TOP = (1 << 63) - 1
SHOWN = 100
"""Of what a backfill has in hand, shown to people."""


class BackfillsTx(FencedTx):
    """See `ports.backfills.BackfillTx`."""

    def __init__(self, parts: Parts, session: Session, fence: Fence) -> None:
        super().__init__(parts, session, fence)
        self._makers: Mapping[int, tuple[int, int, ProgramRef]] = {}  # schedule -> last ord, revision, program

    async def claim_backfills(self, now: Instant, limit: int) -> Sequence[Backfill]:
        rows = await self.fetch(Q.claim, now=now, limit=limit)
        if not rows:
            return []
        heads = await self.session.rows(Q.heads, schedules=Ints(sorted({row[1] for row in rows})))
        learn = self.parts.definitions
        revisions = await learn.revisions(self.session, {(row[1], row[2]) for row in rows})
        programs = await learn.programs(self.session, {(row[3], row[4]) for row in heads})
        self._makers = {row[0]: (row[1], row[2], programs[row[3], row[4]]) for row in heads}
        deleted = {row[0] for row in heads if row[5]}
        items = await items_of(self.session, [row[0] for row in rows], _TOP)
        return [
            Backfill(
                id=row[0],
                schedule_id=ScheduleId(row[1]),
                trigger=revisions[row[1], row[2]].spec.trigger,
                asked=_asked(row[4:10]),
                state=BackfillState(row[3]),
                cursor=row[10],
                counts=_counts(row[11:16]),
                items=tuple(items.get(row[0], ())),
                deleted=row[1] in deleted,
            )
            for row in rows
        ]

    async def standings(self, spans: Collection[tuple[ScheduleId, Span]]) -> Standings:
        return _standings(await self.session.rows(Q.standings, **_of(spans))) if spans else {}

    async def record_backfills(self, moves: Sequence[Move], now: Instant) -> None:
        if not moves:
            return
        moves = sorted(moves, key=lambda move: (move.schedule_id, move.id))
        await self._in_hand(Q.close, [(move.schedule_id, fire) for move in moves for fire in move.close])
        await self._in_hand(Q.release, [(move.schedule_id, fire) for move in moves for fire in move.release])
        await self._make_backfilled([move for move in moves if move.make], now)
        await self.session.send(
            Q.advance,
            ids=Ints(move.id for move in moves),
            states=Texts(move.state.value for move in moves),
            reasons=Texts(move.reason for move in moves),
            cursors=Ints(move.cursor for move in moves),
            considered=Ints(move.counts.considered for move in moves),
            passed=Ints(move.counts.passed for move in moves),
            succeeded=Ints(move.counts.succeeded for move in moves),
            failed=Ints(move.counts.failed for move in moves),
            cancelled=Ints(move.counts.cancelled for move in moves),
            wakes=Ints(now if move.more else None for move in moves),
            overs=Bools(move.over for move in moves),
            now=now,
        )

    async def _in_hand(self, query: Query, items: Sequence[tuple[int, Instant]]) -> None:
        if items:
            await self.session.send(query, schedules=Ints(one[0] for one in items), fires=Ints(one[1] for one in items))

    async def _make_backfilled(self, moves: Sequence[Move], now: Instant) -> None:
        if not moves:
            return
        await self.ready_for(now, [now])
        used: Counter[int] = Counter()
        made = []
        for move in moves:
            last, rev, program = self._makers[move.schedule_id]
            for one in move.make:
                used[move.schedule_id] += 1
                made.append((move, one, last + used[move.schedule_id], rev, program))
        await self.session.send(
            Q.make,
            schedules=Ints(move.schedule_id for move, *_ in made),
            ords=Ints(order for _, _, order, _, _ in made),
            fires=Ints(one.fire_time for _, one, *_ in made),
            previous=Ints(one.previous_fire for _, one, *_ in made),
            ids=Ints(move.id for move, *_ in made),
            bys=Texts(identity(move.id) for move, *_ in made),
            revs=Ints(rev for *_, rev, _ in made),
            programs=Ints(program.id for *_, program in made),
            kinds=Texts(program.kind for *_, program in made),
            pools=Texts(program.pool for *_, program in made),
            priority=PRIORITY,
            now=now,
            day=day_of(now),
        )
        self.parts.wake.lower(now)
        self.tell("admit")


class BackfillRequests(Tx):
    """See `ports.backfills.BackfillControlTx`."""

    async def add_backfill(
        self, schedule: ScheduleId, rev: int, asked: Asked, *, total: int, by: str, now: Instant
    ) -> int:
        row = await self.session.row(
            Q.add,
            schedule=schedule,
            rev=rev,
            by=by,
            start=asked.start,
            end=asked.end,
            keys=Ints(asked.keys) if asked.keys else None,
            walk=asked.order.value,
            reprocess=asked.reprocess.value,
            concurrency=asked.concurrency,
            total=total,
            cursor=asked.beginning,
            now=now,
        )
        assert row is not None
        self.tell("backfill")
        return int(row[0])

    async def lock_backfill(self, number: int) -> BackfillRecord | None:
        await self.session.rows(Q.lock, id=number)
        return next(iter(await _records(self.session, [number])), None)

    async def set_backfill(self, number: int, state: BackfillState, reason: str, now: Instant) -> None:
        await self.session.send(Q.set, id=number, state=state.value, reason=reason, now=now)
        self.tell("backfill")

    async def backfill_items(self, number: int, limit: int) -> Sequence[Item]:
        return (await items_of(self.session, [number], limit)).get(number, [])


class BackfillReading:
    """See `ports.backfills.BackfillReads`."""

    parts: Parts

    async def backfills_live(self) -> bool:
        row = await self.parts.database.row(Q.live)
        return bool(row and row[0])

    async def backfill(self, number: int) -> tuple[BackfillRecord, Sequence[Item]] | None:
        async with self.parts.database.session() as session:
            found = await _records(session, [number])
            items = await items_of(session, [number], SHOWN)
        return (found[0], items.get(number, [])) if found else None

    async def backfills(
        self,
        namespace: str | None,
        *,
        schedule: str | None,
        states: Collection[BackfillState],
        before: str | None,
        limit: int,
    ) -> Sequence[BackfillRecord]:
        async with self.parts.database.session() as session:
            rows = await session.rows(
                Q.page,
                before=_TOP if before is None else int(before),
                namespace=namespace,
                schedule=schedule,
                states=Texts(sorted(states)),
                limit=limit,
            )
            return await _records(session, [row[0] for row in rows])

    async def standings_in(self, schedule: ScheduleId, spans: Collection[Span]) -> Mapping[Instant, Standing]:
        rows = await self.parts.database.rows(Q.standings, **_of([(schedule, span) for span in spans]))
        return {place[1]: there for place, there in _standings(rows).items()}


async def items_of(session: Session, backfills: Sequence[int], limit: int) -> Mapping[int, list[Item]]:
    """What backfills have in hand, by fire time."""
    found: dict[int, list[Item]] = {}
    for number, fire, slot, schedule, order, state in await session.rows(Q.items, ids=Ints(backfills), limit=limit):
        run = None if slot is None else RunKey(slot, ScheduleId(schedule), order)
        found.setdefault(number, []).append(Item(fire, run, None if state is None else State(state)))
    return found


async def _records(session: Session, numbers: Sequence[int]) -> list[BackfillRecord]:
    return [
        BackfillRecord(
            id=row[0],
            schedule_id=ScheduleId(row[1]),
            namespace=row[2],
            schedule=row[3],
            rev=row[4],
            asked=_asked(row[5:11]),
            state=BackfillState(row[11]),
            reason=row[12],
            by=row[13],
            total=row[14],
            cursor=row[15],
            counts=_counts(row[16:21]),
            created_at=row[21],
            finished_at=row[22],
            paused_at=row[23],
            paused_for=row[24],
        )
        for row in (await session.rows(Q.records, ids=Ints(numbers)) if numbers else ())
    ]


def _asked(row: Row) -> Asked:
    """From (start_at, end_at, keys, walk, reprocess, concurrency)."""
    start, end, keys, walk, reprocess, concurrency = row
    return Asked(
        start=start,
        end=end,
        keys=tuple(keys or ()),
        order=Order(walk),
        reprocess=Reprocess(reprocess),
        concurrency=concurrency,
    )


def _counts(row: Row) -> Counts:
    considered, passed, succeeded, failed, cancelled = row
    return Counts(considered=considered, passed=passed, succeeded=succeeded, failed=failed, cancelled=cancelled)


def _of(spans: Collection[tuple[ScheduleId, Span]]) -> dict[str, Ints]:
    return {
        "schedules": Ints(schedule for schedule, _ in spans),
        "firsts": Ints(span.first for _, span in spans),
        "lasts": Ints(span.last for _, span in spans),
    }


def _standings(rows: Sequence[Row]) -> Standings:
    states: dict[tuple[ScheduleId, Instant], set[State]] = {}
    for schedule, fire, state in rows:
        states.setdefault((ScheduleId(schedule), fire), set()).add(State(state))
    return {place: there for place, said in states.items() if (there := standing(said)) is not None}
