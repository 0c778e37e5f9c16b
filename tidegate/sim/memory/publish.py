"""Publishing in memory: the event log, topics whose rows are locked while they are numbered, and the inbox."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.domain.collected import Amount
from tidegate.domain.events import amount_of, contains, digest, run_payload
from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.runs import LIVE
from tidegate.ports.collecting import NewEvent, Receipt
from tidegate.sim.memory.data import Data
from tidegate.sim.memory.event_rows import ArrivalRow, TopicRow
from tidegate.sim.memory.rows import Event, RunRow
from tidegate.sim.memory.tables import Transaction


class PublishingTransaction(Transaction):
    """`ports.collecting.PublishTx`, and the events that runs make.

    Topics come last in the order of locks (docs/explanation/locks.md): what runs tell is numbered at the very end, by
    `flush`.
    """

    __slots__ = ("data", "told", "inboxed")

    def __init__(self, data: Data) -> None:
        super().__init__(data)
        self.data = data
        self.told: list[int] = []  # places in `log` of run events that somebody may listen to
        self.inboxed: dict[int, None] = {}

    def tell(self, now: Instant, type_: str, run: RunKey | None, schedule: int | None = None) -> None:
        data = self.data
        self._draw()
        if run is not None and type_ in data.topics_of:
            self.told.append(len(self.log))
        about = None if schedule is None else ScheduleId(schedule)
        self.log.append((data.events, Event(now, type_, run, about, None, data.event_pos)))

    def _draw(self) -> None:
        """The next position in the log; nothing is settled there while this transaction is open."""
        data = self.data
        data.event_pos += 1
        if self not in data.drawing:
            data.drawing[self] = data.event_pos
            self.on_end.append(self._drawn)

    def _drawn(self) -> None:
        del self.data.drawing[self]

    async def flush(self) -> None:
        """Number what runs told, before the commit."""
        data = self.data
        told, self.told = self.told, []
        found: list[tuple[int, Event]] = []
        for place in told:
            event: Event = self.log[place][1]
            run = self.get(data.run, event.run) if event.run is not None else None
            if run is not None:
                about = data.schedule.rows[run.key.schedule_id].metadata
                payload = payload_of(run, about.namespace, about.name, event.type)
                key = f"{run.program.namespace}/{run.program.name}"
                found.append((place, event._replace(key=key, payload=payload)))
        await self._lock_topics([event for _, event in found])
        for place, event in found:
            self.log[place] = (data.events, self._number(event, Amount(n=1), event.at))

    async def publish(self, events: Sequence[NewEvent], now: Instant) -> Sequence[Receipt]:
        self.check()
        data = self.data
        for place in sorted({(event.source, event.id) for event in events if event.id is not None}):
            await self.lock(data.dedup, place)
        fresh = [
            event for event in events if event.id is None or self.get(data.dedup, (event.source, event.id)) is None
        ]
        await self._lock_topics(fresh)
        return [self._publish(event, now) for event in events]

    async def _lock_topics(self, events: Sequence[Event | NewEvent]) -> None:
        reached = (topics_reached(self.data, event.type, event.key, event.payload or {}) for event in events)
        for number in sorted({number for ids in reached for number in ids}):
            await self.lock(self.data.topic, number)

    def _publish(self, new: NewEvent, now: Instant) -> Receipt:
        data = self.data
        said = digest(new.type, new.key, new.payload, new.time) if new.id is not None else ""
        if new.id is not None:
            known = self.get(data.dedup, (new.source, new.id))
            if known is not None:
                return Receipt(pos=known[1], repeated=known[0] == said, conflict=known[0] != said)
        self._draw()
        event = Event(
            now, new.type, None, None, dict(new.payload), data.event_pos, new.key, new.time, new.id, new.source
        )  # fmt: skip
        event = self._number(event, amount_of(new.type, new.payload), now)
        self.append(data.events, event)
        if new.id is not None:
            self.put(data.dedup, (new.source, new.id), (said, event.pos))
        return Receipt(pos=event.pos, repeated=False)

    def _number(self, event: Event, amount: Amount, now: Instant) -> Event:
        """Its number in every topic that it reaches, which are locked: so its position is drawn anew here."""
        data = self.data
        ids = topics_reached(data, event.type, event.key, event.payload or {})
        if not ids:
            return event
        rows: list[TopicRow] = []
        for number in ids:
            row = self.get(data.topic, number)
            assert row is not None
            rows.append(row)
        self._draw()
        event = event._replace(pos=data.event_pos)
        at = max(now, *[row.last_at or 0 for row in rows])
        for row in rows:
            row = row._replace(
                n=row.n + 1, rows=row.rows + amount.rows, bytes=row.bytes + amount.bytes, last_at=at
            )  # fmt: skip
            self.put(data.topic, row.id, row)
            self.append(data.arrivals[row.id], ArrivalRow(row.n, event.pos, at, row.rows, row.bytes, amount, event))
            self.notice(row.id)
        return event

    def notice(self, topic: int) -> None:
        """Put a topic into the inbox, once in a transaction."""
        if topic not in self.inboxed:
            self.inboxed[topic] = None
            self.data.inbox_pos += 1
            self.put(self.data.inbox, self.data.inbox_pos, topic)
            self.topics["events"] = None


def topics_reached(data: Data, type_: str, key: str, payload: Mapping[str, Any]) -> list[int]:
    """Topics that somebody listens to, ascending."""
    by_key = data.topics_of.get(type_)
    if by_key is None:
        return []
    found = []
    for number in (*by_key.get(key, ()), *by_key.get(None, ())):
        match = data.topic.rows[number].topic.match
        if match is None or contains(payload, json.loads(match)):
            found.append(number)
    return sorted(found)


def payload_of(run: RunRow, namespace: str, schedule: str, type_: str) -> dict[str, Any]:
    state = type_.removeprefix("run.")
    reason = run.reason if run.state == state and run.state not in LIVE else ""  # of an end, which never changes
    return run_payload(str(run.key), namespace, schedule, run.program.name, run.cause.value, state, reason)
