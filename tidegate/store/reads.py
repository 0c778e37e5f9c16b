"""What people read: records and pages of them, newest first. Every call sees what is committed and locks nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any

from tidegate.domain.errors import Fault, Invalid
from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.runs import LIVE, State
from tidegate.domain.schedules import JsonObject, Revision
from tidegate.ports.engine import Instance
from tidegate.ports.records import Book, Change, LedgerRow, PoolRecord, ProgramRecord, RunRecord, ScheduleRecord, Stats
from tidegate.store.arrays import Ints, Texts
from tidegate.store.codec import to_json
from tidegate.store.connection import Session
from tidegate.store.definitions import revision as revision_of
from tidegate.store.instances import as_instance
from tidegate.store.records import program_record, run_records, schedule_records, stretch_records
from tidegate.store.sql import load
from tidegate.store.transactions import I, Parts

Q = load("control")
LEDGER = load("ledger")
_TOP = (1 << 63) - 1
_STATS = [field.name for field in fields(Stats)]
_STRETCHES = {State.MISSED, State.SUPERSEDED}


class Reading:
    """The reading half of `ports.control.ControlStore`."""

    parts: Parts

    async def namespaces(self) -> Sequence[tuple[str, JsonObject]]:
        return [(row[0], row[1]) for row in await self.parts.database.rows(Q.namespaces)]

    async def applications(self, namespace: str | None) -> Sequence[tuple[str, str, JsonObject]]:
        rows = await self.parts.database.rows(Q.applications, namespace=namespace)
        return [(row[0], row[1], row[2]) for row in rows]

    async def pools(self) -> Sequence[PoolRecord]:
        return [
            PoolRecord(
                name=row[0],
                slots=row[1],
                used=row[2],
                rate_max=row[3],
                rate_per=row[4],
                rate_burst=row[5],
                borrow=(row[6], row[7]) if row[6] else None,
                borrowed=row[8],
                lent=row[9],
            )
            for row in await self.parts.database.rows(Q.pools)
        ]

    async def programs(self, namespace: str | None, before: str | None, limit: int) -> Sequence[ProgramRecord]:
        rows = await self.parts.database.rows(Q.program_page, namespace=namespace, before=_number(before), limit=limit)
        return [program_record(row) for row in rows]

    async def program(self, namespace: str, name: str) -> ProgramRecord | None:
        row = await self.parts.database.row(Q.program_named, namespace=namespace, name=name)
        return program_record(row) if row else None

    async def schedule(self, namespace: str, name: str) -> ScheduleRecord | None:
        async with self.parts.database.session() as session:
            row = await session.row(Q.schedule_id, namespace=namespace, name=name)
            found = await schedule_records(session, [row[0]] if row else [])
            return found[0] if found else None

    async def schedules(self, namespace: str | None, before: str | None, limit: int) -> Sequence[ScheduleRecord]:
        async with self.parts.database.session() as session:
            rows = await session.rows(Q.schedule_ids, namespace=namespace, before=_number(before), limit=limit)
            return (await schedule_records(session, [row[0] for row in rows]))[::-1]

    async def revisions(self, schedule: ScheduleId) -> Sequence[tuple[Revision, JsonObject, str, str]]:
        rows = await self.parts.database.rows(Q.history, schedule=schedule)
        return [(revision_of(row), row[6], row[7], row[8]) for row in rows]

    async def stats(self, schedule: ScheduleId) -> Stats:
        return (await self.stats_of([schedule])).get(schedule, Stats())

    async def stats_of(self, schedules: Collection[ScheduleId]) -> Mapping[ScheduleId, Stats]:
        rows = await self.parts.database.rows(Q.stats, schedules=Ints(schedules))
        return {ScheduleId(row[0]): Stats(**dict(zip(_STATS, row[1:], strict=True))) for row in rows}

    # ── runs ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self, key: RunKey) -> RunRecord | None:
        async with self.parts.database.session() as session:
            found = await run_records(session, [key])
            if not found and key.ord == 0:
                found = await stretch_records(session, [(key.slot, key.schedule_id)])
            return found[0] if found else None

    async def runs(
        self,
        namespace: str | None,
        *,
        schedule: str | None,
        states: Collection[State],
        since: Instant | None,
        before: str | None,
        limit: int,
    ) -> tuple[Sequence[RunRecord], str | None]:
        slot, owner, order = _position(before) if before else (_TOP, _TOP, _TOP)
        where = {"slot": slot, "schedule": owner, "ord": order, "since": -_TOP if since is None else since}
        where["limit"] = limit + 1
        async with self.parts.database.session() as session:
            places = await self._places(session, namespace, schedule, frozenset(states), where)
            page = places[:limit]
            found = {one.key: one for one in await run_records(session, [one[0] for one in page if one[1] is None])}
            stretches = [one for one in page if one[1] is not None]
            records = await stretch_records(session, [(one[1] or 0, one[0].schedule_id) for one in stretches])
            found.update({one[0]: record for one, record in zip(stretches, records, strict=True)})
        last = page[-1][0] if page else None
        rest = f"{last.slot}.{last.schedule_id}.{last.ord}" if last and len(places) > limit else None
        return [found[place] for place, _ in page if place in found], rest

    async def _places(
        self,
        session: Session,
        namespace: str | None,
        schedule: str | None,
        states: frozenset[State],
        where: dict[str, int],
    ) -> list[tuple[RunKey, Instant | None]]:
        """Runs, and stretches with their first fire, newest first; a stretch stands at its last fire, below a run."""
        named = {"namespace": namespace, "name": schedule}
        wanted = Texts(sorted(states))
        if states and states <= LIVE and schedule is not None:
            ids = await session.rows(LEDGER.ids_named, **named)
            rows = await session.rows(LEDGER.page_live_of, **where, ids=Ints(row[0] for row in ids), states=wanted)
        elif states and states <= LIVE:
            rows = await session.rows(LEDGER.page_live, **where, **named, states=wanted)
        elif schedule is not None:
            ids = await session.rows(LEDGER.ids_named, **named)
            rows = await session.rows(LEDGER.page_of, **where, ids=Ints(row[0] for row in ids), states=wanted)
        elif namespace is None and not states:
            rows = await session.rows(LEDGER.page, **where)
        else:
            rows = await session.rows(LEDGER.page_where, **where, **named, states=wanted)
        places: list[tuple[RunKey, Instant | None]] = [
            (RunKey(row[0], ScheduleId(row[1]), row[2]), None) for row in rows
        ]
        if not states or states & _STRETCHES:
            rows = await session.rows(LEDGER.page_stretches, **where, **named, states=wanted)
            places += [(RunKey(row[0], ScheduleId(row[1]), -1), row[2]) for row in rows]
        return sorted(places, key=lambda place: place[0], reverse=True)

    async def live_counts(self) -> dict[tuple[str, str], int]:
        rows = await self.parts.database.rows(LEDGER.live_counts)
        return {(row[0], row[1]): row[2] for row in rows}

    async def queue(
        self, namespace: str | None, before: str | None, limit: int
    ) -> tuple[Sequence[RunRecord], str | None]:
        rank, slot, owner, order = -_TOP, -_TOP, -_TOP, -_TOP
        if before is not None:
            first, _, place = before.partition(":")
            rank, (slot, owner, order) = _number(first), _position(place)
        async with self.parts.database.session() as session:
            rows = await session.rows(
                LEDGER.queue, namespace=namespace, rank=rank, slot=slot, schedule=owner, ord=order, limit=limit + 1
            )
            keys = [RunKey(row[1], ScheduleId(row[2]), row[3]) for row in rows[:limit]]
            found = await run_records(session, keys)
        rest = None
        if len(rows) > limit:
            rest = f"{rows[limit - 1][0]}:{keys[-1].slot}.{keys[-1].schedule_id}.{keys[-1].ord}"
        return found, rest

    async def ahead(self, wake_key: str, rank: int, run: RunKey) -> int:
        row = await self.parts.database.row(
            LEDGER.ahead, key=wake_key, rank=rank, slot=run.slot, schedule=run.schedule_id, ord=run.ord
        )
        return int(row[0]) if row else 0

    async def holders(self, counter: str, limit: int = 10) -> Sequence[RunKey]:
        rows = await self.parts.database.rows(LEDGER.holders, counter=counter, limit=limit)
        return [RunKey(row[0], ScheduleId(row[1]), row[2]) for row in rows]

    # ── the rest ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def changes(self, namespace: str | None, before: int | None, limit: int) -> Sequence[Change]:
        rows = await self.parts.database.rows(
            Q.changes, namespace=namespace, before=_TOP if before is None else before, limit=limit
        )
        return [
            Change(
                who=row[0],
                action=row[1],
                kind=row[2],
                namespace=row[3],
                name=row[4],
                before=row[5],
                after=row[6],
                at=row[7],
                id=row[8],
            )
            for row in rows
        ]

    async def instances(self) -> Sequence[Instance]:
        return [as_instance(row) for row in await self.parts.database.rows(I.alive)]

    async def leases(self) -> Sequence[JsonObject]:
        rows = await self.parts.database.rows(I.leases)
        return [{"duty": row[0], "instance_id": row[1], "token": row[3], "expires": row[4]} for row in rows]

    async def books(
        self, namespace: str | None, since: Instant, until: Instant, after: ScheduleId | None, limit: int
    ) -> Sequence[Book]:
        async with self.parts.database.session() as session:
            heads = await session.rows(
                LEDGER.books, namespace=namespace, after=-1 if after is None else after, limit=limit
            )
            ids = Ints(row[0] for row in heads)
            revisions: dict[int, list[Revision]] = {row[0]: [] for row in heads}
            for row in await session.rows(LEDGER.book_revisions, ids=ids):
                revisions[row[0]].append(revision_of(row))
            lines: dict[int, list[LedgerRow]] = {row[0]: [] for row in heads}
            for row in await session.rows(LEDGER.book_fires, ids=ids, since=since, until=until):
                lines[row[0]].append(LedgerRow(from_fire=row[1], to_fire=row[2], n=row[3], outcome=row[4]))
        return [
            Book(
                schedule_id=ScheduleId(row[0]),
                namespace=row[1],
                name=row[2],
                created_at=row[3],
                deleted_at=row[4],
                revisions=_ruling(revisions[row[0]], since, until),
                cursor=row[5],
                rows=tuple(lines[row[0]]),
            )
            for row in heads
        ]

    async def remembered(self, key: str) -> tuple[str, int, Any] | None:
        row = await self.parts.database.row(Q.remembered, key=key)
        return (row[0], row[1], row[2]) if row else None

    async def remember(self, key: str, request: str, status: int, answer: Any, now: Instant) -> None:
        await self.parts.database.execute(
            Q.remember, key=key, request=request, status=status, answer=to_json(answer) or "null", now=now
        )


def _ruling(revisions: Sequence[Revision], since: Instant, until: Instant) -> tuple[Revision, ...]:
    """Those that rule over any part of the span."""
    following = [*revisions[1:], None]
    return tuple(
        one
        for one, after in zip(revisions, following, strict=True)
        if one.valid_from <= until and (after is None or after.valid_from >= since)
    )


def _number(before: str | None) -> int:
    try:
        return _TOP if before is None else int(before)
    except ValueError:
        raise _wrong(before or "") from None


def _position(text: str) -> RunKey:
    try:
        slot, schedule, order = (int(part) for part in text.split("."))
    except ValueError:
        raise _wrong(text) from None
    return RunKey(slot, ScheduleId(schedule), order)


def _wrong(text: str) -> Invalid:
    reason = f"{text!r} is not a position; take it from the answer before, as it is"
    return Invalid([Fault(path="before", reason=reason)], what="the query")
