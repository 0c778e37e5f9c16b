"""Sources in memory, as in store/sources.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate.domain.instants import Instant
from tidegate.domain.schedules import JsonObject
from tidegate.domain.sources import SourceSpec
from tidegate.ports.sources import KEPT, Misfit, SetAsideMessage, SourceRecord, Taken
from tidegate.sim.memory.data import Data
from tidegate.sim.memory.engine import EngineTransaction, RunTransaction


class IntakeTransaction(EngineTransaction):
    """`ports.sources.IntakeTx`, but for publishing."""

    __slots__ = ()

    async def took(self, taken: Taken, now: Instant) -> int | None:
        self.check()
        table = self.data.source
        await self.lock(table, taken.source)
        row, lease = self.get(table, taken.source), self.data.lease.rows.get(f"source {taken.source}")
        if row is None or row.version != taken.version:
            return None
        mine = (taken.token, self.fence.instance_id)
        if lease is None or (lease.token, lease.instance_id) != mine or lease.expires <= now:
            return None
        places = {(one.topic, one.partition): one for one in (*row.places, *taken.places)}
        changed = replace(
            row,
            version=row.version + 1,
            places=tuple(places[at] for at in sorted(places)),
            received=row.received + taken.received,
            missed=row.missed + taken.missed,
            error=taken.error,
            error_since=(row.error_since or now) if taken.error else None,
            moved_at=now if taken.received else row.moved_at,
        )
        self.put(table, taken.source, changed)
        return changed.version

    async def set_aside_messages(self, source: str, misfits: Sequence[Misfit], refused: int, now: Instant) -> None:
        self.check()
        data = self.data
        row = self.get(data.source, source)
        assert row is not None
        self.put(data.source, source, replace(row, set_aside=row.set_aside + refused))
        for one in misfits:
            data.misfit_ids += 1
            told = SetAsideMessage(
                topic=one.topic, partition=one.partition, offset=one.offset, reason=one.reason, at=now
            )
            await self.lock(data.source_misfit, (source, data.misfit_ids))
            self.put(data.source_misfit, (source, data.misfit_ids), told)
        kept = sorted(place for place, _ in self.scan(data.source_misfit) if place[0] == source)
        for place in kept[:-KEPT]:
            await self.lock(data.source_misfit, place)
            self.delete(data.source_misfit, place)


class SourcesTransaction(RunTransaction):
    """`ports.sources.SourceTx`."""

    __slots__ = ()

    async def put_source(self, name: str, spec: SourceSpec, document: JsonObject, now: Instant) -> bool:
        self.check()
        table = self.data.source
        await self.lock(table, name)
        row = self.get(table, name)
        fresh = SourceRecord(name=name, spec=spec, document=document, version=now)
        if row is not None:
            kept = tuple(one for one in row.places if one.topic in spec.topics)
            fresh = replace(
                row, spec=spec, document=document, version=row.version + 1, places=kept, error="", error_since=None
            )
        self.put(table, name, fresh)
        self.topics["declared"] = None
        return row is None

    async def delete_source(self, name: str) -> bool:
        self.check()
        await self.lock(self.data.source, name)
        if self.get(self.data.source, name) is None:
            return False
        self.delete(self.data.source, name)
        for place, _ in list(self.scan(self.data.source_misfit)):
            if place[0] == name:
                await self.lock(self.data.source_misfit, place)
                self.delete(self.data.source_misfit, place)
        self.topics["declared"] = None
        return True


class SourceReading:
    """`ports.sources.SourceReads`, and what the intake reads."""

    data: Data

    async def sources(self) -> Sequence[SourceRecord]:
        return [row for _, row in sorted(self.data.source.rows.items())]

    async def set_aside_of(self, source: str, limit: int) -> Sequence[SetAsideMessage]:
        rows = sorted(self.data.source_misfit.rows.items(), reverse=True)
        return [row for place, row in rows if place[0] == source][:limit]
