"""Sinks in PostgreSQL, and how far the event log is settled (`store.tide`). See `ports.sinks`."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.documents.sinks import sink_of
from tidegate.domain.instants import SECOND, Duration, Instant
from tidegate.domain.schedules import JsonObject
from tidegate.domain.sinks import SinkSpec
from tidegate.ports.sinks import Moved, Outgoing, RefusedEvent, Replayed, Settled, SinkRecord, Spot
from tidegate.store.arrays import Ints, Texts
from tidegate.store.codec import to_json
from tidegate.store.connection import Row
from tidegate.store.events import logged, logged_event
from tidegate.store.partitions import day_of
from tidegate.store.sql import load
from tidegate.store.transactions import FencedTx, Parts, Tx

Q = load("sinks")
STALLED: Duration = 30 * SECOND
"""A log that is held back for so long is worth a word."""
_DAYS, _DAYS_MOST = 4, 16
"""So many days of the log are read at once, first and at most."""


class RelayingTx(FencedTx):
    """`ports.sinks.RelayTx`."""

    async def relayed(self, moved: Moved, now: Instant) -> bool:
        done = await self.fetch(
            Q.relayed,
            sink=moved.sink,
            rev=moved.rev,
            seen=moved.seen.pos,
            server=moved.server,
            day=moved.spot.day,
            pos=moved.spot.pos,
            delivered=moved.delivered,
            refused=len(moved.refused),
            error=moved.error,
            now=now,
        )
        if done and moved.refused:
            events = [one.event for one in moved.refused]
            await self.session.send(
                Q.refuse,
                sink=moved.sink,
                positions=Ints(one.spot.pos for one in events),
                days=Ints(one.spot.day for one in events),
                types=Texts(one.record.type for one in events),
                keys=Texts(one.record.key for one in events),
                reasons=Texts(one.reason for one in moved.refused),
                now=now,
            )
        return bool(done)

    async def replayed(self, done: Replayed, now: Instant) -> bool:
        if not await self.fetch(Q.hold, sink=done.sink, rev=done.rev):
            return False
        if done.taken:
            await self.session.send(Q.taken_after_all, sink=done.sink, positions=Ints(done.taken))
        if done.refused:
            await self.session.send(
                Q.refused_again,
                sink=done.sink,
                positions=Ints(pos for pos, _ in done.refused),
                reasons=Texts(why for _, why in done.refused),
                now=now,
            )
        return True


class SinksTx(Tx):
    """A person's side: `ports.sinks.SinkTx`."""

    async def put_sink(self, name: str, spec: SinkSpec, document: JsonObject, now: Instant) -> bool:
        self.tell("declared")  # the relay looks at whom it serves
        row = await self.session.row(Q.put, name=name, document=to_json(document), day=day_of(now), now=now)
        return row is not None and row[0] == 1

    async def delete_sink(self, name: str) -> bool:
        self.tell("declared")
        return await self.session.row(Q.delete, name=name) is not None

    async def replay_sink(self, name: str, position: int | None) -> int:
        self.tell("declared")
        await self.session.send(Q.hold, sink=name, rev=None)
        return len(await self.session.rows(Q.ask, sink=name, pos=position))


class SinkReading:
    """`ports.sinks.SinkReads`, and what the relay reads."""

    parts: Parts

    async def sinks(self) -> Sequence[SinkRecord]:
        return [
            SinkRecord(
                name=name,
                spec=sink_of(document["spec"]),
                document=document,
                rev=rev,
                spot=Spot(day, pos),
                delivered=delivered,
                set_aside=set_aside,
                error=error,
                error_since=error_since,
                moved_at=moved_at,
                behind=behind,
                asked=asked,
            )
            for name, document, rev, day, pos, delivered, set_aside, error, error_since, moved_at, behind, asked
            in await self.parts.database.rows(Q.sinks)
        ]  # fmt: skip

    async def refusals(self, sink: str, limit: int) -> Sequence[RefusedEvent]:
        rows = await self.parts.database.rows(Q.refusals, sink=sink, limit=limit)
        return [
            RefusedEvent(**dict(zip(("sink", "pos", "type", "key", "reason", "at"), row, strict=True))) for row in rows
        ]

    async def asked_again(self, sink: str, limit: int) -> Sequence[tuple[int, Outgoing | None]]:
        async with self.parts.database.session() as session:
            places = [(row[0], row[1]) for row in await session.rows(Q.asked, sink=sink, limit=limit)]
            found = await logged(session, places)
        return [
            (pos, Outgoing(spot=Spot(day, pos), record=one.record, schedule=one.schedule) if one else None)
            for day, pos in places
            for one in [found.get((day, pos))]
        ]

    async def settled(self, now: Instant) -> Settled:
        tide, database = self.parts.tide, self.parts.database
        drawn = await database.row(Q.drawn)
        assert drawn is not None
        if drawn == (tide.pos, tide.server) and not tide.marks:
            return Settled(pos=tide.pos, server=tide.server)
        async with database.transaction() as session:
            last = await session.send(Q.drawn)
            number = await session.send(Q.number)  # after the position was read, before the others are looked at
            oldest = await session.rows(Q.oldest)
            pos, server = (await last.fetchall())[0]
            mark = pos, (await number.fetchall())[0][0]
        tide.meet(server, *mark)
        if not tide.marks or tide.marks[-1][0] != mark[0]:
            tide.note(*mark)
        tide.rise(oldest[0][0], now)
        if tide.since is None or now < tide.since + STALLED:
            return Settled(pos=tide.pos, server=tide.server)
        held = await database.row(Q.holder)
        by = "a prepared transaction, or one that this user may not see"
        if held is not None:
            by = f"process {held[0]} of the server ({held[2] or 'unnamed'}, database {held[1]}, {held[3]})"
        return Settled(pos=tide.pos, server=tide.server, held_by=by, since=tide.since)

    async def outgoing(self, after: Spot, upto: int, today: int, limit: int) -> Sequence[Outgoing]:
        if upto <= after.pos:
            return []
        first, end, width = after.day - 1, max(today, after.day) + 1, _DAYS
        found: list[Row] = []
        async with self.parts.database.session() as session:
            # By days, some at a time: a sink that was away for weeks does not read all of them for each batch. Days
            # that meet may share a stretch of positions, so what is there counts once the day behind it was read.
            while first <= end:
                days = range(first, min(first + width, end + 1))
                found += await session.rows(Q.outgoing, days=Ints(days), after=after.pos, upto=upto, limit=limit)
                found = sorted(found, key=_position)[:limit]
                if len(found) == limit and max(row[0] for row in found) < days[-1]:
                    break
                first, width = days[-1] + 1, min(2 * width, _DAYS_MOST)
        return [_outgoing(row) for row in found]


def _position(row: Row) -> int:
    return int(row[1])


def _outgoing(row: Row) -> Outgoing:
    found = logged_event(row)
    return Outgoing(spot=Spot(row[0], row[1]), record=found.record, schedule=found.schedule)
