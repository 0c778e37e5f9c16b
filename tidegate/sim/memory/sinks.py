"""Sinks in memory, as in store/sinks.py: how far the log is settled is known from the transactions that are open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tidegate.domain.instants import DAY, Instant
from tidegate.domain.schedules import JsonObject
from tidegate.domain.sinks import SinkSpec
from tidegate.ports.collecting import EventRecord
from tidegate.ports.sinks import Moved, Outgoing, RefusedEvent, Settled, SinkRecord, Spot
from tidegate.sim.memory.data import Data
from tidegate.sim.memory.engine import EngineTransaction, RunTransaction
from tidegate.sim.memory.rows import Event


class RelayTransaction(EngineTransaction):
    """`ports.sinks.RelayTx`."""

    __slots__ = ()

    async def relayed(self, moved: Moved, now: Instant) -> bool:
        self.check()
        table = self.data.sink
        await self.lock(table, moved.sink)
        row = self.get(table, moved.sink)
        if row is None or (row.rev, row.spot.pos) != (moved.rev, moved.seen.pos):
            return False
        changed = replace(
            row,
            spot=moved.spot,
            delivered=row.delivered + moved.delivered,
            set_aside=row.set_aside + len(moved.refused),
            error=moved.error,
            error_since=(row.error_since or now) if moved.error else None,
            moved_at=now if moved.spot.pos > row.spot.pos else row.moved_at,
        )
        self.put(table, moved.sink, changed)
        for one in moved.refused:
            event = one.event.record
            place = (moved.sink, event.pos)
            told = RefusedEvent(
                sink=moved.sink, pos=event.pos, type=event.type, key=event.key, reason=one.reason, at=now
            )
            await self.lock(self.data.sink_refusal, place)
            self.put(self.data.sink_refusal, place, told)
        return True


class SinksTransaction(RunTransaction):
    """`ports.sinks.SinkTx`."""

    __slots__ = ()

    async def put_sink(self, name: str, spec: SinkSpec, document: JsonObject, now: Instant) -> bool:
        self.check()
        table = self.data.sink
        await self.lock(table, name)
        row = self.get(table, name)
        spot = row.spot if row else Spot(now // DAY, self.data.event_pos)
        rev = row.rev + 1 if row else 1
        fresh = SinkRecord(name=name, spec=spec, document=document, rev=rev, spot=spot)
        if row is not None:
            fresh = replace(row, spec=spec, document=document, rev=rev, error="", error_since=None)
        self.put(table, name, fresh)
        self.topics["clock"] = None
        return row is None

    async def delete_sink(self, name: str) -> bool:
        self.check()
        await self.lock(self.data.sink, name)
        if self.get(self.data.sink, name) is None:
            return False
        self.delete(self.data.sink, name)
        for place, _ in list(self.scan(self.data.sink_refusal)):
            if place[0] == name:
                await self.lock(self.data.sink_refusal, place)
                self.delete(self.data.sink_refusal, place)
        self.topics["clock"] = None
        return True


class SinkReading:
    """`ports.sinks.SinkReads`, and what the relay reads."""

    data: Data
    _event: Callable[[Event], EventRecord]

    async def sinks(self) -> Sequence[SinkRecord]:
        rows = sorted(self.data.sink.rows.items())
        return [replace(row, behind=max(0, self.data.event_pos - row.spot.pos)) for _, row in rows]

    async def refusals(self, sink: str, limit: int) -> Sequence[RefusedEvent]:
        found = [row for place, row in sorted(self.data.sink_refusal.rows.items(), reverse=True) if place[0] == sink]
        return found[:limit]

    async def settled(self, now: Instant) -> Settled:
        drawing = [first - 1 for tx, first in self.data.drawing.items() if not tx.over]
        return Settled(pos=min(drawing, default=self.data.event_pos))

    async def outgoing(self, after: Spot, upto: int, today: int, limit: int) -> Sequence[Outgoing]:
        found = sorted((one for one in self.data.events if after.pos < one.pos <= upto), key=lambda one: one.pos)
        return [
            Outgoing(spot=Spot(one.at // DAY, one.pos), record=self._event(one), schedule=self._schedule_of(one))
            for one in found[:limit]
        ]

    def _schedule_of(self, event: Event) -> str | None:
        number = event.schedule_id if event.run is None else event.run.schedule_id
        if number is None:
            return None
        about = self.data.schedule.rows[number].metadata
        return f"{about.namespace}/{about.name}"
