"""A catalog in PostgreSQL with real tables that PyIceberg writes, a store, and a watcher that is cranked by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import conninfo_to_dict
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from tidegate.domain.ids import Fence
from tidegate.domain.instants import SECOND, Duration, Instant
from tidegate.engine.outcome import Outcome
from tidegate.engine.watcher import Watcher, WatcherSettings
from tidegate.lake.catalogs import JdbcCatalog
from tidegate.lake.readers import LocalReader
from tidegate.ports.collecting import NewEvent
from tidegate.ports.lake import CatalogSpec
from tidegate.store.store import PostgresStore

SCHEMA = Schema(NestedField(1, "day", StringType(), required=False), NestedField(2, "n", LongType(), required=False))
BY_DAY = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="day"))


class TellingStore(PostgresStore):
    """The store, which also tells what was published, once it is committed."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.published: list[NewEvent] = []

    @asynccontextmanager
    async def transaction(self, fence: Fence) -> AsyncIterator[Any]:
        mine: list[NewEvent] = []
        async with super().transaction(fence) as tx:
            own = getattr(tx, "publish", None)

            async def publish(events: Sequence[NewEvent], now: Instant) -> Any:
                mine.extend(events)
                return await own(events, now) if own is not None else []

            tx.publish = publish  # type: ignore[method-assign]
            yield tx
        self.published += mine


@dataclass
class Watching:
    """Tables, the store, and the watcher at one place in time."""

    catalog: SqlCatalog
    store: TellingStore
    fence: Fence
    now: Instant
    spec: CatalogSpec
    watchers: list[Watcher] = field(default_factory=list)

    def watcher(self, **settings: Any) -> Watcher:
        one = Watcher(self.store, JdbcCatalog(self.spec), LocalReader(), self.fence, WatcherSettings(**settings))
        self.watchers.append(one)
        return one

    async def declare(self, *names: str, watch: Duration | None = None) -> None:
        async with self.store.changing() as tx:
            for name in names:
                await tx.put_dataset(name, kind="iceberg", watch=watch, document={}, now=self.now)
        for one in self.watchers:
            one._stale = True

    def make(self, name: str = "raw.flights", *, partitioned: bool = True) -> Table:
        self.catalog.create_namespace_if_not_exists(name.split(".")[0])
        given = {"partition_spec": BY_DAY} if partitioned else {}
        return self.catalog.create_table(name, SCHEMA, **given)

    async def pass_(self, watcher: Watcher | None = None, after: Duration = 5 * SECOND) -> Outcome:
        """One poll later, a look, and what it found told."""
        self.now += after
        return await self.step(watcher or self.watchers[0])

    async def step(self, watcher: Watcher) -> Outcome:
        looked = await watcher.step(self.now)
        if watcher._seen is None:
            return looked
        told = await watcher.step(self.now)
        return dataclasses.replace(told, notes=looked.notes + told.notes)

    async def told(self, watcher: Watcher | None = None) -> list[tuple[str, dict[str, Any]]]:
        """What one more pass publishes."""
        before = len(self.store.published)
        await self.pass_(watcher)
        return [(one.type, dict(one.payload)) for one in self.store.published[before:]]


def rows(*pairs: tuple[str, int]) -> pa.Table:
    return pa.table(
        {"day": pa.array([day for day, _ in pairs], pa.string()), "n": pa.array([n for _, n in pairs], pa.int64())}
    )


def sqlalchemy(url: str) -> str:
    given = conninfo_to_dict(url)
    login = f"{given['user']}:{given.get('password', '')}@"
    return f"postgresql+psycopg://{login}/{given['dbname']}?host={given['host']}&port={given.get('port', 5432)}"


@pytest.fixture
def catalog(database_url: str, tmp_path: Path) -> Iterator[SqlCatalog]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA lake")
        user = conninfo_to_dict(database_url)["user"]
        connection.execute(f"ALTER ROLE {user} IN DATABASE {connection.info.dbname} SET search_path = lake, public")
    made = SqlCatalog("lake", uri=sqlalchemy(database_url), warehouse=tmp_path.as_uri())
    yield made
    made.engine.dispose()


@pytest.fixture
async def watching(catalog: SqlCatalog, database_url: str) -> AsyncIterator[Watching]:
    store = TellingStore(database_url)
    now = await store.now()
    fence = await store.register(role="scheduler", name="s", host="h", pid=1, now=now)
    spec = CatalogSpec(name="lake", kind="jdbc", url=database_url, schema="lake")
    made = Watching(catalog, store, fence, now, spec)
    made.watcher()
    yield made
    for one in made.watchers:
        await one._catalog.close()
    await store.close()
