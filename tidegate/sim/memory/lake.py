"""Datasets in memory: declarations and the watcher's cursors, as in store/lake.py."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tidegate.domain.events import DATASET_GAP, DATASET_UPDATED
from tidegate.domain.instants import Duration, Instant
from tidegate.ports.lake import CatalogFault, Cursor, DatasetRecord, Move, Watched
from tidegate.sim.memory.data import Data
from tidegate.sim.memory.engine import EngineTransaction, RunTransaction
from tidegate.sim.memory.rows import CursorRow, DatasetRow, FaultRow

_TYPES = (DATASET_UPDATED, DATASET_GAP)


def waited_for(data: Data, dataset: str) -> bool:
    """Whether somebody waits for a dataset, or declared it, as a table."""
    declared = data.dataset.rows.get(dataset)
    if declared is not None:
        return declared.kind == "iceberg"
    topics = (topic for type_ in _TYPES for topic in data.topics_of.get(type_, {}).get(dataset, ()))
    return any(data.subscribers.get(topic) for topic in topics)


class WatchTransaction(EngineTransaction):
    """`ports.lake.WatcherTx`, but for publishing."""

    __slots__ = ()

    async def move(self, moves: Sequence[Move], now: Instant) -> Collection[str]:
        self.check()
        moved = set()
        for one in sorted(moves, key=lambda move: move.dataset):
            await self.lock(self.data.dataset_cursor, one.dataset)
            row = self.get(self.data.dataset_cursor, one.dataset)
            if (row.cursor.version if row else 0) == one.version:
                cursor = Cursor(version=one.version + 1, pointer=one.pointer, place=one.place, error=one.error)
                self.put(self.data.dataset_cursor, one.dataset, CursorRow(cursor, now))
                moved.add(one.dataset)
        return moved

    async def forget_unwatched(self, now: Instant) -> int:
        self.check()
        gone = [name for name, _ in self.scan(self.data.dataset_cursor) if not waited_for(self.data, name)]
        for name in sorted(gone):
            await self.lock(self.data.dataset_cursor, name)
            self.delete(self.data.dataset_cursor, name)
        return len(gone)

    async def report_catalog(self, catalog: str, error: str, now: Instant) -> None:
        self.check()
        await self.lock(self.data.catalog_fault, catalog)
        old = self.get(self.data.catalog_fault, catalog)
        if error:
            self.put(self.data.catalog_fault, catalog, FaultRow(error, old.since if old else now))
        elif old is not None:
            self.delete(self.data.catalog_fault, catalog)


class DatasetsTransaction(RunTransaction):
    """`ports.lake.DatasetTx`."""

    __slots__ = ()

    async def put_dataset(
        self, name: str, *, kind: str, watch: Duration | None, document: Mapping[str, Any], now: Instant
    ) -> None:
        self.check()
        await self.lock(self.data.dataset, name)
        self.put(self.data.dataset, name, DatasetRow(name, kind, watch, document))
        self.topics["declared"] = None

    async def delete_dataset(self, name: str, now: Instant) -> bool:
        self.check()
        await self.lock(self.data.dataset, name)
        if self.get(self.data.dataset, name) is None:
            return False
        self.delete(self.data.dataset, name)
        self.topics["declared"] = None
        return True


class DatasetReading:
    """`ports.lake.DatasetReads`, and what the watcher reads."""

    data: Data

    async def watched(self, catalog: str) -> Sequence[Watched]:
        data = self.data
        known = {*data.dataset.rows, *(name for type_ in _TYPES for name in data.topics_of.get(type_, {}) if name)}
        names = (name for name in known if name.startswith(f"{catalog}.") and waited_for(data, name))
        return [self._watched(name) for name in sorted(names)]

    def _watched(self, name: str) -> Watched:
        declared, row = self.data.dataset.rows.get(name), self.data.dataset_cursor.rows.get(name)
        return Watched(dataset=name, every=declared.watch if declared else None, cursor=row.cursor if row else None)

    async def datasets(self, names: Collection[str] | None = None) -> Sequence[DatasetRecord]:
        data = self.data
        known = {*data.dataset.rows, *data.dataset_cursor.rows}
        return [self._dataset_record(name) for name in sorted(known) if names is None or name in names]

    def _dataset_record(self, name: str) -> DatasetRecord:
        declared, row = self.data.dataset.rows.get(name), self.data.dataset_cursor.rows.get(name)
        told: dict[str, Any] = {}
        if declared is not None:
            told = {"kind": declared.kind, "watch": declared.watch, "document": declared.document}
        if row is not None:
            cursor = row.cursor
            told |= {"pointer": cursor.pointer, "snapshot": cursor.place.snapshot, "missing": cursor.pointer is None}
            told |= {"error": cursor.error, "moved_at": row.moved_at}
        return DatasetRecord(name=name, **told)

    async def catalog_faults(self) -> Sequence[CatalogFault]:
        rows = sorted(self.data.catalog_fault.rows.items())
        return [CatalogFault(catalog=name, error=row.error, since=row.since) for name, row in rows]
