"""Passes of the caretaker over ten thousand tables in PostgreSQL, from the reading of what is known of them on.

Each table has 600 files in 20 partitions and a history of every operation. While the caretaker works, a ticker beside
it asks for a turn every five milliseconds: how long it does not get one is how long the scheduler would stand still.
"""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import dataclass
from time import perf_counter, process_time

from bench.figures import Figure, Say, at_most
from bench.ground import ground
from tidegate.control import care, policies
from tidegate.documents import parsing
from tidegate.documents.declared import MaintenancePolicy
from tidegate.domain.instants import HOUR, Instant
from tidegate.domain.maintenance.health import MIB, PartitionFiles, TableHealth
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.maintenance.state import History
from tidegate.domain.maintenance.wire import health_json, history_json
from tidegate.engine.caretaker import Caretaker
from tidegate.ports.tables import Measured, Seen
from tidegate.store.store import PostgresStore

FILES, PARTITIONS, BATCH, LATER = 600, 20, 250, 3
_SPEC = {
    "tables": "lake.**",
    "budget": {"operations": 200, "bytes": "100 GiB"},
    "operations": {
        "rewrite_data_files": {"when": {"small_file_percent": 20}},
        "rewrite_position_delete_files": {"when": {"delete_file_count": 20}},
        "rewrite_manifests": {"when": {"manifest_count": 50}},
        "expire_snapshots": {"schedule": {"trigger": {"type": "interval", "every": "PT6H"}}},
        "remove_orphan_files": {"schedule": {"trigger": {"type": "window_days", "every_days": 7}}},
        "compute_partition_stats": {"schedule": {"trigger": {"type": "cron", "expression": "30 6 * * *"}}},
        "compute_table_stats": {"schedule": {"trigger": {"type": "cron", "expression": "0 7 * * SUN"}}},
    },
}


@dataclass
class _Ticker:
    """`longest`: without a turn, in seconds; `busiest`: of processor time meanwhile."""

    longest: float = 0.0
    busiest: float = 0.0

    async def run(self) -> None:
        while True:
            began, used = perf_counter(), process_time()
            await asyncio.sleep(0.005)
            self.longest = max(self.longest, perf_counter() - began - 0.005)
            self.busiest = max(self.busiest, process_time() - used)


def measure(say: Say, tables: int) -> list[Figure]:
    """Raises AssertionError when nothing was started, or more than the budget holds."""
    with ground() as base:
        return asyncio.run(_measure(base.url, tables, say))


async def _measure(url: str, tables: int, say: Say) -> list[Figure]:
    store = PostgresStore(url)
    try:
        now = await store.now()
        await _fill(store, tables, now)
        fence = await store.register(role="scheduler", name="bench", host="h", pid=os.getpid(), now=now)
        caretaker = Caretaker(store, care.begin, fence)
        passes = []
        for number in range(1 + LATER):
            ticker, at = _Ticker(), now + number * HOUR // 60
            watch = asyncio.create_task(ticker.run())
            began, used = perf_counter(), process_time()
            outcome = await caretaker.step(at)
            passes.append((perf_counter() - began, process_time() - used, ticker.longest, ticker.busiest))
            watch.cancel()
            said = ", ".join(f"{one:.2f}" for one in passes[-1])
            say(f"pass {number + 1}: {outcome.did} started; seconds, of processor, longest stretch, the same: {said}")
        assert 0 < len(await store.open_care()) <= 200
    finally:
        await store.close()
    first, later = passes[0], passes[1:]
    how = f"{tables:,} tables of {FILES} files in {PARTITIONS} partitions, PostgreSQL"
    return [
        at_most("caretaker, longest stretch of a first pass", 1000 * first[2], "ms", 300, how),
        at_most("the same, of later passes", 1000 * max(one[2] for one in later), "ms", 300, how),
        at_most("of processor time, the longest of all", 1000 * max(one[3] for one in passes), "ms", None, how),
        at_most("a first pass, processor time", first[1], "s", None, f"{how}; nothing is known of them"),
        at_most("a later pass, processor time", min(one[1] for one in later), "s", None, how),
    ]


async def _fill(store: PostgresStore, tables: int, now: Instant) -> None:
    rng = random.Random(7)
    document = {"kind": "MaintenancePolicy", "apiVersion": "tidegate/v1", "metadata": {"name": "lake"}, "spec": _SPEC}
    policy = parsing.parse(document)
    assert isinstance(policy, MaintenancePolicy)
    await policies.put(store, policy, who="bench")
    names = [f"lake.raw.t{number}" for number in range(tables)]
    for first in range(0, tables, BATCH):
        some = names[first : first + BATCH]
        async with store.changing() as tx:
            await tx.see_tables([Seen(table=one, location="a") for one in some], now)
            measured = [Measured(table=one, location="a", health=_health(rng, now)) for one in some]
            await tx.record_health(measured, now)
        async with store.changing() as tx:
            await tx.lock_maintenance()
            await tx.put_care({one: {each.value: _history(rng, now) for each in Operation} for one in some})


def _health(rng: random.Random, now: Instant) -> dict[str, object]:
    files = tuple(
        PartitionFiles(
            partition=f"day={number}", sizes=tuple(rng.randrange(MIB, 600 * MIB) for _ in range(FILES // PARTITIONS))
        )
        for number in range(PARTITIONS)
    )
    sizes = [size for one in files for size in one.sizes]
    return health_json(
        TableHealth(
            assessed_at=now,
            snapshot=1,
            changed_at=now - rng.randrange(HOUR),
            rows=1,
            data_files=FILES,
            data_bytes=sum(sizes),
            small_files=sum(size < 100 * MIB for size in sizes),
            large_files=0,
            delete_files=rng.randrange(60),
            position_delete_files=rng.randrange(30),
            delete_bytes=MIB,
            manifests=rng.randrange(100),
            manifest_bytes=rng.randrange(1 << 24),
            snapshots=50,
            newest_snapshot_at=now,
            oldest_snapshot_at=now - 50 * HOUR,
            snapshot_times=tuple(now - (50 - number) * HOUR for number in range(50)),
            partitions=PARTITIONS,
            most_files_in_partition=FILES // PARTITIONS,
            files=files,
        )
    )


def _history(rng: random.Random, now: Instant) -> dict[str, object]:
    at = now - rng.randrange(200 * HOUR)
    return history_json(History(run="1/1/1", started_at=at, finished_at=at + 1, succeeded_at=at + 1))
