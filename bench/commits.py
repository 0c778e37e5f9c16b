"""From an Iceberg commit to the start of its consumer, at a poll of one second.

Scheduler and worker run as processes, as they always do. A table of the catalog of Tidegate gets an append by PyIceberg
every now and then, at no particular part of the second; each is new data for a command. The span begins when the append
has returned, so that the commit is what others see, and ends with what the command itself reads from the clock.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
import warnings
from pathlib import Path

import psycopg
import pyarrow as pa

from bench import ground
from bench.figures import Figure, Say, at_most, percentile
from tidegate.domain.ids import AttemptKey, RunKey, ScheduleId
from tidegate.domain.programs import Command
from tidegate.domain.triggers import DataSize
from tidegate.launchers.logs import FileLogs
from tidegate.pipeline.session import iceberg_catalog
from tidegate.ports.spark import DriverSpec, SparkSettings
from tidegate.store.store import PostgresStore

COMMAND = Command(argv=("date", "+started=%s%N"))
TABLE = "lake.raw.orders"
WARM = 5
"""Appends that are not counted."""


def measure(say: Say, *, appends: int = 60) -> list[Figure]:
    """Spans of every append after the first few."""
    with ground.ground() as place:
        asyncio.run(_prepare(place))
        with ground.roles(place, "scheduler", "worker", environment={"TIDEGATE_LAKE__POLL": "PT1S"}):
            committed = _append(place, WARM + appends)
            time.sleep(4)
            spans = asyncio.run(_read(place, committed))
    half, most = percentile(spans, 0.5), percentile(spans, 0.99)
    say(f"commit to consumer: p50 {half:.2f} s, p99 {most:.2f} s, worst {max(spans):.2f} s")
    how = f"{len(spans)} appends by PyIceberg, one table, a poll of 1 s"
    return [
        at_most("commit to its consumer, p50", half, "s", None, how),
        at_most("commit to its consumer, p99", most, "s", 2.0, how),
    ]


async def _prepare(place: ground.Ground) -> None:
    store = PostgresStore(place.url)
    try:
        await ground.declare(store, "consumer", COMMAND, DataSize(dataset=TABLE, rows=1))
    finally:
        await store.close()


def _append(place: ground.Ground, appends: int) -> list[float]:
    """When each append had returned, in seconds since 1970."""
    settings = SparkSettings(warehouse=(place.home / "warehouse").as_uri())
    spec = DriverSpec(home=str(place.home), catalog_url=place.server.tcp_url, settings=settings)
    chance, done = random.Random(1), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        catalog = iceberg_catalog(spec)
        catalog.create_namespace_if_not_exists("raw")
        rows = pa.table({"n": pa.array([1, 2, 3], pa.int64())})
        table = catalog.create_table("raw.orders", rows.schema)
        for _ in range(appends):
            table.append(rows)
            done.append(time.time())
            time.sleep(1 + chance.random())
        catalog.engine.dispose()
    return done


async def _read(place: ground.Ground, committed: list[float]) -> list[float]:
    """Seconds from each counted append to the start of the run that was given it."""
    logs = FileLogs(Path(place.home))
    with psycopg.connect(place.url) as connection:
        rows = connection.execute("SELECT slot, schedule_id, ord, outcome FROM run ORDER BY slot, ord").fetchall()
    starts = []
    for slot, schedule, order, outcome in rows:
        assert outcome == "succeeded", (slot, outcome)
        said = (await logs.read(AttemptKey(RunKey(slot, ScheduleId(schedule), order), 1), 0)).text
        found = re.search(r"started=(\d+)", said)
        assert found is not None, said
        starts.append(int(found[1]) / 1e9)
    # an append is consumed by the first run that starts after it: runs merge, and a poll may see two appends at once
    spans = []
    for at in committed[WARM:]:
        later = [start - at for start in starts if start > at]
        assert later, "an append was not consumed"
        spans.append(min(later))
    return spans
