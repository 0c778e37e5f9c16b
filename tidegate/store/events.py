"""Publishing: events into the log, numbered in the topics that somebody listens to, and these into the inbox.

The numbering is what makes consumption exact. It happens under the locks of the topics, which are taken ascending and
last of all (docs/explanation/locks.md), and held until the commit: so numbers are gapless and in the order in which
they become visible, and a subscription that has read up to a number has read everything up to it.

What if the process dies: before the commit nothing happened; after it the inbox says which topics have news. A commit
whose answer was lost is repeated under the publisher's ids and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.domain.events import amount_of, digest, run_payload
from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.schedules import JsonObject
from tidegate.ports.collecting import EventRecord, NewEvent, Receipt
from tidegate.store.arrays import Ints, Texts
from tidegate.store.codec import to_json
from tidegate.store.connection import Row, Session
from tidegate.store.partitions import day_of, partition_name
from tidegate.store.sql import load
from tidegate.store.transactions import Tx

Q = load("events")
_TOGETHER = 200
"""Topics in one entry of the inbox: few rows, and none so long that it is stored elsewhere."""


@dataclass(slots=True)
class _Topic:
    """A topic that is locked, with its totals."""

    id: int
    n: int
    rows: int
    bytes: int
    last_at: Instant


class PublishingTx(Tx):
    """See `ports.collecting.PublishTx`."""

    async def publish(self, events: Sequence[NewEvent], now: Instant) -> Sequence[Receipt]:
        if not events:
            return []
        await self.ready_for(now)
        used, claimed = await self._claim_ids(events, now)
        fresh = [
            index
            for index, event in enumerate(events)
            if event.id is None or claimed.get((event.source, event.id)) == index
        ]
        positions = await self._append([events[index] for index in fresh], now)
        at = dict(zip(fresh, positions, strict=True))
        receipts = []
        for index, event in enumerate(events):
            if index in at:
                receipts.append(Receipt(pos=at[index], repeated=False))
                continue
            place = (event.source, str(event.id))
            first = claimed.get(place)
            said, pos = (_digest(events[first]), at[first]) if first is not None else used[place]
            same = said == _digest(event)
            receipts.append(Receipt(pos=pos, repeated=same, conflict=not same))
        return receipts

    async def _claim_ids(
        self, events: Sequence[NewEvent], now: Instant
    ) -> tuple[dict[tuple[str, str], tuple[str, int]], dict[tuple[str, str], int]]:
        """Ids used before, with digest and position; and of the new ones the first event that has it."""
        first: dict[tuple[str, str], int] = {}
        for index, event in enumerate(events):
            if event.id is not None:
                first.setdefault((event.source, event.id), index)
        if not first:
            return {}, {}
        new = await self.fetch(
            Q.claim_ids,
            sources=Texts(source for source, _ in first),
            ids=Texts(id for _, id in first),
            digests=Texts(_digest(events[index]) for index in first.values()),
            now=now,
        )
        claimed = {(row[0], row[1]): first[row[0], row[1]] for row in new}
        old = [place for place in first if place not in claimed]
        if not old:
            return {}, claimed
        rows = await self.fetch(
            Q.known_ids, sources=Texts(place[0] for place in old), ids=Texts(place[1] for place in old)
        )
        return {(row[0], row[1]): (row[2], row[3]) for row in rows}, claimed

    async def _append(self, events: Sequence[NewEvent], now: Instant) -> Sequence[int]:
        """Write them; their positions in the log."""
        if not events:
            return []
        payloads = [str(to_json(one.payload)) if one.payload else "{}" for one in events]
        appended = await self.session.send(
            Q.append.at(partition_name("event", day_of(now))),
            types=Texts(one.type for one in events),
            keys=Texts(one.key for one in events),
            times=Ints(one.time for one in events),
            sources=Texts(one.source for one in events),
            ids=Texts(one.id for one in events),
            payloads=Texts(payloads),
            now=now,
            day=day_of(now),
        )
        reached = await self._reached(events, payloads)
        written = await appended.fetchall()
        if reached:
            await self._arrive(events, reached, written, now)
        placed = [(one, row[0]) for one, row in zip(events, written, strict=True) if one.id is not None]
        if placed:
            await self.session.send(
                Q.place_ids,
                sources=Texts(one.source for one, _ in placed),
                ids=Texts(one.id for one, _ in placed),
                positions=Ints(pos for _, pos in placed),
            )
        return [row[0] for row in written]

    async def _reached(self, events: Sequence[NewEvent], payloads: Sequence[str]) -> dict[int, list[int]]:
        """place of an event -> the topics that it reaches."""
        places: dict[tuple[str, str], list[int]] = {}
        types: dict[str, list[int]] = {}
        for place, one in enumerate(events):
            places.setdefault((one.type, one.key), []).append(place)
            types.setdefault(one.type, []).append(place)
        told, kinds = list(places), list(types)
        rows = await self.fetch(
            Q.topics, types=Texts(type for type, _ in told), keys=Texts(key for _, key in told), any=Texts(kinds)
        )
        found: dict[int, list[int]] = {}
        asked: list[tuple[int, int]] = []
        for index, topic, matches in rows:
            for place in places[told[index - 1]] if index > 0 else types[kinds[-index - 1]]:
                if matches:
                    asked.append((place, topic))
                else:
                    found.setdefault(place, []).append(topic)
        if asked:
            ids, texts = Ints(topic for _, topic in asked), Texts(payloads[place] for place, _ in asked)
            for (index,) in await self.fetch(Q.matching, ids=ids, payloads=texts):
                place, topic = asked[index - 1]
                found.setdefault(place, []).append(topic)
        return found

    async def _arrive(
        self,
        events: Sequence[NewEvent],
        reached: Mapping[int, Sequence[int]],
        written: Sequence[Row],
        now: Instant,
    ) -> None:
        """Number what was written in the topics that it reaches, from here on locked."""
        ids = sorted({topic for found in reached.values() for topic in found})
        locked = await self.session.send(Q.lock_topics, ids=Ints(ids))
        drawn = await self.fetch(Q.orders, count=len(reached))
        topics = {
            id: _Topic(id, n, rows, bytes, max(now, last_at)) for id, n, rows, bytes, last_at in await locked.fetchall()
        }
        arrivals = []
        for place, (order,) in zip(sorted(reached), drawn, strict=True):
            amount = amount_of(events[place].type, events[place].payload)
            rows, size = amount.rows, amount.bytes
            (pos,) = written[place]
            for number in reached[place]:
                topic = topics[number]
                topic.n += 1
                topic.rows += rows
                topic.bytes += size
                arrivals.append((number, topic.n, order, topic.last_at, rows, size, topic.rows, topic.bytes, pos))
        keys, numbers, orders, ats, amounts, sizes, sum_rows, sum_bytes, positions = zip(*arrivals, strict=True)
        await self.session.send(
            Q.arrive,
            keys=Ints(keys),
            numbers=Ints(numbers),
            orders=Ints(orders),
            ats=Ints(ats),
            rows=Ints(amounts),
            bytes=Ints(sizes),
            sum_rows=Ints(sum_rows),
            sum_bytes=Ints(sum_bytes),
            positions=Ints(positions),
            day=day_of(now),
        )
        totals = topics.values()
        await self.session.send(
            Q.total,
            ids=Ints(topics),
            numbers=Ints([one.n for one in totals]),
            rows=Ints([one.rows for one in totals]),
            bytes=Ints([one.bytes for one in totals]),
            ats=Ints([one.last_at for one in totals]),
        )
        await self.notice(topics)

    async def notice(self, topics: Iterable[int]) -> None:
        """Put topics into the inbox."""
        ids = sorted(set(topics))
        if ids:
            await self.session.send(Q.notice, ids=Ints(ids), together=_TOGETHER)
            self.tell("events")


def _digest(event: NewEvent) -> str:
    return digest(event.type, event.key, event.payload, event.time)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEvent:
    """An event of the log, and the run that it is about."""

    record: EventRecord
    run: RunKey | None
    schedule: str | None  # namespace/name of the one that it is about
    fire_time: Instant | None
    arguments: JsonObject | None


async def logged(session: Session, places: Iterable[tuple[int, int]]) -> dict[tuple[int, int], LoggedEvent]:
    """Events by (day, pos); those that retention has dropped are left out."""
    wanted = sorted(set(places))
    if not wanted:
        return {}
    rows = await session.rows(
        Q.rows,
        days=Ints(day for day, _ in wanted),
        positions=Ints(pos for _, pos in wanted),
        first_day=wanted[0][0],
        last_day=wanted[-1][0],
    )
    return {(row[0], row[1]): logged_event(row) for row in rows}


def logged_event(row: Row) -> LoggedEvent:
    """Of a row as `events.rows` has it."""
    (_, pos, at, type, key, time, source, source_id, payload) = row[:9]
    slot, schedule, order, namespace, name, program_namespace, program, cause, reason, fire_time, arguments = row[9:]
    run = None if slot is None or program is None else RunKey(slot, ScheduleId(schedule), order)
    told: Any = payload or {}
    if run is not None:
        key = f"{program_namespace}/{program}"
        outcome = type.removeprefix("run.")
        told = {**told, **run_payload(str(run), namespace, name, program, cause, outcome, reason)}
    elif key is None:
        key = f"{namespace}/{name}" if name is not None else ""
    return LoggedEvent(
        record=EventRecord(
            pos=pos, at=at, type=type, key=key, time=time, id=source_id, source=source or "", payload=told
        ),
        run=run,
        schedule=None if name is None else f"{namespace}/{name}",
        fire_time=fire_time,
        arguments=arguments,
    )
