"""Sinks in memory, as in store/sinks.py: how far the log is settled is known from the transactions that are open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tidegate.domain.instants import DAY, Instant
from tidegate.domain.schedules import JsonObject
from tidegate.domain.sinks import SinkSpec
from tidegate.ports.collecting import EventRecord
from tidegate.ports.sinks import Moved, Outgoing, RefusedEvent, Replayed, Settled, SinkRecord, Spot
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
        place = (moved.rev, moved.seen.pos, moved.server)
        if row is None or (row.rev, row.spot.pos, self.data.server) != place:
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
            about = (moved.sink, event.pos)
            told = RefusedEvent(
                sink=moved.sink, pos=event.pos, type=event.type, key=event.key, reason=one.reason, at=now
            )
            await self.lock(self.data.sink_refusal, about)
            self.put(self.data.sink_refusal, about, told)
        return True

    async def replayed(self, done: Replayed, now: Instant) -> bool:
        self.check()
        data = self.data
        await self.lock(data.sink, done.sink)
        row = self.get(data.sink, done.sink)
        if row is None or row.rev != done.rev:
            return False
        taken = 0
        for pos in done.taken:
            await self.lock(data.sink_refusal, (done.sink, pos))
            if self.get(data.sink_refusal, (done.sink, pos)) is not None:
                self.delete(data.sink_refusal, (done.sink, pos))
                taken += 1
        for pos, why in done.refused:
            await self.lock(data.sink_refusal, (done.sink, pos))
            told = self.get(data.sink_refusal, (done.sink, pos))
            if told is not None:
                self.put(data.sink_refusal, (done.sink, pos), replace(told, reason=why, at=now, asked=False))
        self.put(data.sink, done.sink, replace(row, delivered=row.delivered + taken, set_aside=row.set_aside - taken))
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
        self.topics["declared"] = None
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
        self.topics["declared"] = None
        return True

    async def replay_sink(self, name: str, position: int | None) -> int:
        self.check()
        await self.lock(self.data.sink, name)
        found = [place for place, _ in self.scan(self.data.sink_refusal) if place[0] == name]
        wanted = sorted(place for place in found if position in (None, place[1]))
        for place in wanted:
            await self.lock(self.data.sink_refusal, place)
            told = self.get(self.data.sink_refusal, place)
            assert told is not None
            self.put(self.data.sink_refusal, place, replace(told, asked=True))
        self.topics["declared"] = None
        return len(wanted)


class SinkReading:
    """`ports.sinks.SinkReads`, and what the relay reads."""

    data: Data
    _event: Callable[[Event], EventRecord]

    async def sinks(self) -> Sequence[SinkRecord]:
        rows = sorted(self.data.sink.rows.items())
        asked = {place[0] for place, told in self.data.sink_refusal.rows.items() if told.asked}
        behind = self.data.event_pos
        return [replace(row, behind=max(0, behind - row.spot.pos), asked=name in asked) for name, row in rows]

    async def refusals(self, sink: str, limit: int) -> Sequence[RefusedEvent]:
        found = [row for place, row in sorted(self.data.sink_refusal.rows.items(), reverse=True) if place[0] == sink]
        return found[:limit]

    async def settled(self, now: Instant) -> Settled:
        drawing = [first - 1 for tx, first in self.data.drawing.items() if not tx.over]
        return Settled(pos=min(drawing, default=self.data.event_pos), server=self.data.server)

    async def outgoing(self, after: Spot, upto: int, today: int, limit: int) -> Sequence[Outgoing]:
        found = sorted((one for one in self.data.events if after.pos < one.pos <= upto), key=lambda one: one.pos)
        return [
            Outgoing(spot=Spot(one.at // DAY, one.pos), record=self._event(one), schedule=self._schedule_of(one))
            for one in found[:limit]
        ]

    async def asked_again(self, sink: str, limit: int) -> Sequence[tuple[int, Outgoing | None]]:
        rows = sorted(self.data.sink_refusal.rows.items())
        wanted = [place[1] for place, told in rows if place[0] == sink and told.asked][:limit]
        events = {one.pos: one for one in self.data.events}
        return [
            (
                pos,
                Outgoing(spot=Spot(one.at // DAY, pos), record=self._event(one), schedule=self._schedule_of(one))
                if one
                else None,
            )
            for pos in wanted
            for one in [events.get(pos)]
        ]

    def _schedule_of(self, event: Event) -> str | None:
        number = event.schedule_id if event.run is None else event.run.schedule_id
        if number is None:
            return None
        about = self.data.schedule.rows[number].metadata
        return f"{about.namespace}/{about.name}"
