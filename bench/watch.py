"""Ten thousand watched tables of the JDBC catalog: their pointers compared, and one in a hundred changed and told.

The hundred tables that change are real ones, partitioned, each with a history of ten commits; the others are rows of
the catalog. Events go to a database that keeps its word (fsync).
"""

from __future__ import annotations

import asyncio
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import psycopg
import pyarrow as pa

from bench.figures import Figure, Say, at_most, median
from bench.ground import ground
from tidegate.domain.instants import SECOND
from tidegate.engine.watcher import Watcher
from tidegate.lake.catalogs import JdbcCatalog
from tidegate.lake.readers import LocalReader
from tidegate.pipeline.session import iceberg_catalog
from tidegate.ports.lake import CatalogSpec
from tidegate.ports.spark import DriverSpec, SparkSettings
from tidegate.store.store import PostgresStore

TABLES = 10_000
CHANGED = 100
HISTORY = 10
ROUNDS = 9
FILL = """
INSERT INTO lake.iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)
SELECT 'lake', 'raw', 'row' || n, 'file:///warehouse/raw/row' || n || '/metadata/00000-0.metadata.json', 'TABLE'
FROM generate_series(1, {rows}) AS n;
INSERT INTO dataset (name, kind, document, updated_at)
SELECT 'lake.raw.' || table_name, 'iceberg', '{{}}', 0 FROM lake.iceberg_tables;
INSERT INTO dataset_cursor (dataset, pointer, table_uuid, snapshot, sequence, moved_at)
SELECT 'lake.raw.' || table_name, metadata_location, 'u', 1, 1, 0 FROM lake.iceberg_tables
WHERE table_name LIKE 'row%';
ANALYZE;
"""


@dataclass(frozen=True)
class Measured:
    compared: list[float]
    told: list[float]
    events: int


def measure(say: Say) -> list[Figure]:
    """Raises AssertionError when a commit is not told, or told twice."""
    with ground() as base, tempfile.TemporaryDirectory(prefix="tidegate-lake-") as warehouse:
        say(f"{CHANGED} tables with {HISTORY} commits each, among {TABLES:,}")
        tables = _make(base.home, base.server.tcp_url, warehouse)
        with psycopg.connect(base.url, autocommit=True) as connection:
            connection.execute(FILL.format(rows=TABLES - CHANGED))
        found = asyncio.run(_watch(base.url, tables, say))
    compared, told = median(found.compared), median(found.told)
    how = "median; one query, over an open connection, nothing changed"
    return [
        at_most(f"pointers of {TABLES:,} tables compared", compared * 1000, "ms", 50, how),
        at_most(
            f"{CHANGED} of {TABLES:,} tables changed, told",
            told,
            "s",
            2,
            f"median; pointers, {CHANGED} tables with partitions read, {found.events:,} events committed",
        ),
    ]


def _make(home: Path, url: str, warehouse: str) -> list[Any]:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import LongType, NestedField

    warnings.simplefilter("ignore")  # PyIceberg's own, of every catalog that it makes
    schema = Schema(NestedField(1, "day", LongType(), required=False), NestedField(2, "n", LongType(), required=False))
    by_day = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="day"))
    catalog = iceberg_catalog(
        DriverSpec(home=str(home), catalog_url=url, settings=SparkSettings(warehouse=Path(warehouse).as_uri()))
    )
    catalog.create_namespace("raw")
    tables = [catalog.create_table(f"raw.real{number}", schema, partition_spec=by_day) for number in range(CHANGED)]
    for commit in range(HISTORY):
        _append(tables, commit)
    return tables


def _append(tables: list[Any], day: int) -> None:
    rows = pa.table({"day": pa.array([day, day + 1], pa.int64()), "n": pa.array([1, 2], pa.int64())})
    for table in tables:
        table.append(rows)


async def _watch(url: str, tables: list[Any], say: Say) -> Measured:
    store = PostgresStore(url)
    now = await store.now()
    fence = await store.register(role="scheduler", name="bench", host="bench", pid=1, now=now)
    await store.ensure_partitions(now, 0)
    catalog = JdbcCatalog(CatalogSpec(name="lake", kind="jdbc", url=url, schema="lake"))
    watcher = Watcher(store, catalog, LocalReader(), fence)
    try:
        while (await watcher.step(now)).left:
            pass  # the first look at the real ones
        seen = {name: cursor.pointer for name, cursor in watcher._cursors.items() if cursor}
        assert len(seen) == TABLES
        compared = []
        for _ in range(ROUNDS):
            began = perf_counter()
            assert not await catalog.compare(seen)
            compared.append(perf_counter() - began)
        told, events = [], 0
        for number in range(3):
            await asyncio.to_thread(_append, tables, HISTORY + number)
            now = max(await store.now(), now + 6 * SECOND)
            began = perf_counter()
            while (outcome := await watcher.step(now)).left:
                pass
            told.append(perf_counter() - began)
            events = outcome.did
            say(f"{outcome.did} events in {told[-1]:.2f} s")
            assert outcome.did == CHANGED, outcome
        return Measured(compared, told, events)
    finally:
        await catalog.close()
        await store.close()
