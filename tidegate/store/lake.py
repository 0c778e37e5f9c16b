"""Datasets in PostgreSQL: declarations, and the watcher's cursors. See `ports.lake`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tidegate.domain.instants import Duration, Instant
from tidegate.domain.lake import Place
from tidegate.ports.lake import CatalogFault, Cursor, DatasetRecord, Move, Watched
from tidegate.store.arrays import Ints, Texts
from tidegate.store.codec import to_json
from tidegate.store.sql import load
from tidegate.store.transactions import FencedTx, Parts, Tx

Q = load("lake")


class WatchTx(FencedTx):
    """The watcher's side of an engine transaction: `ports.lake.WatcherTx`, but for publishing."""

    async def move(self, moves: Sequence[Move], now: Instant) -> Collection[str]:
        fresh, seen = [one for one in moves if not one.version], [one for one in moves if one.version]
        moved: set[str] = set()
        if seen:
            versions = Ints(one.version for one in seen)
            moved |= {row[0] for row in await self.fetch(Q.move, **_columns(seen), versions=versions, now=now)}
        if fresh:
            moved |= {row[0] for row in await self.fetch(Q.begin, **_columns(fresh), now=now)}
        return moved

    async def forget_unwatched(self, now: Instant) -> int:
        return len(await self.fetch(Q.forget_unwatched))

    async def report_catalog(self, catalog: str, error: str, now: Instant) -> None:
        if error:
            await self.session.send(Q.catalog_silent, catalog=catalog, error=error, now=now)
        else:
            await self.session.send(Q.catalog_answers, catalog=catalog)


def _columns(moves: Sequence[Move]) -> dict[str, Any]:
    return {
        "datasets": Texts(one.dataset for one in moves),
        "pointers": Texts(one.pointer for one in moves),
        "uuids": Texts(one.place.table_uuid for one in moves),
        "snapshots": Ints(one.place.snapshot for one in moves),
        "sequences": Ints(one.place.sequence for one in moves),
        "errors": Texts(one.error for one in moves),
    }


class DatasetsTx(Tx):
    """A person's side: `ports.lake.DatasetTx`."""

    async def put_dataset(
        self, name: str, *, kind: str, watch: Duration | None, document: Mapping[str, Any], now: Instant
    ) -> None:
        await self.session.send(Q.put_dataset, name=name, kind=kind, watch=watch, document=to_json(document), now=now)
        self.tell("declared")  # the watcher looks at whom it watches

    async def delete_dataset(self, name: str, now: Instant) -> bool:
        self.tell("declared")
        return await self.session.row(Q.delete_dataset, name=name) is not None


class DatasetReading:
    """`ports.lake.DatasetReads`, and what the watcher reads."""

    parts: Parts

    async def watched(self, catalog: str) -> Sequence[Watched]:
        rows = await self.parts.database.rows(Q.watched, prefix=catalog + ".")
        return [
            Watched(
                dataset=dataset,
                every=every,
                cursor=None
                if version is None
                else Cursor(
                    version=version,
                    pointer=pointer,
                    place=Place(table_uuid=uuid, snapshot=snapshot, sequence=sequence),
                    error=error,
                ),
            )
            for dataset, every, version, pointer, uuid, snapshot, sequence, error in rows
        ]

    async def datasets(self, names: Collection[str] | None = None) -> Sequence[DatasetRecord]:
        rows = await self.parts.database.rows(Q.datasets, names=None if names is None else Texts(sorted(names)))
        fields = ("name", "kind", "watch", "document", "pointer", "snapshot", "missing", "error", "moved_at")
        return [DatasetRecord(**dict(zip(fields, row, strict=True))) for row in rows]

    async def catalog_faults(self) -> Sequence[CatalogFault]:
        rows = await self.parts.database.rows(Q.catalog_faults)
        return [CatalogFault(catalog=row[0], error=row[1], since=row[2]) for row in rows]
