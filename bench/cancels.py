"""Maintenance of a real table, cancelled at random moments: no live row is lost, and it is quiet soon.

A person starts an operation, a writer appends rows meanwhile, and after a random while the run is cancelled, as
`tidegate cancel` does. Quiet is when its end is on record: the procedure has returned, and no job of it runs. After
each one all rows are read from outside, through PyIceberg, and compared with what was written.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench import ground
from bench.figures import Figure, Say, at_most, percentile
from tidegate.control import runs as control
from tidegate.domain.errors import Conflict
from tidegate.domain.ids import RunKey
from tidegate.domain.instants import SECOND
from tidegate.domain.programs import Maintenance
from tidegate.domain.runs import ENDS, Cause, State
from tidegate.domain.triggers import Never
from tidegate.pipeline.session import iceberg_catalog
from tidegate.ports.spark import DriverSpec, SparkSettings
from tidegate.store.store import PostgresStore

JARS = Path(__file__).resolve().parent.parent / ".venv" / "jars"
PARTITIONS = 24
LONGEST = 5.0
"""Seconds after its start until which an operation is cancelled."""
ALL = {"rewrite-all": True, "max-concurrent-file-group-rewrites": 1}
OPERATIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("rewrite_data_files", ALL),
    ("rewrite_data_files", {**ALL, "partial-progress.enabled": True, "partial-progress.max-commits": 24}),
    ("rewrite_data_files", {**ALL, "strategy": "sort", "sort_order": "n DESC"}),
    ("rewrite_manifests", {}),
    ("expire_snapshots", {"older_than": "PT1S"}),
    ("compute_table_stats", {}),
)


class Rows:
    """A table, and the rows that were written to it."""

    def __init__(self, spec: DriverSpec) -> None:
        from pyiceberg.partitioning import PartitionField, PartitionSpec
        from pyiceberg.schema import Schema
        from pyiceberg.transforms import IdentityTransform
        from pyiceberg.types import LongType, NestedField

        self.catalog = iceberg_catalog(spec)
        self.catalog.create_namespace_if_not_exists("bench")
        fields = (NestedField(1, "n", LongType(), required=False), NestedField(2, "part", LongType(), required=False))
        by_part = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="part"))
        self.catalog.create_table("bench.cancelled", Schema(*fields), partition_spec=by_part)
        self.written = 0

    def append(self, count: int) -> None:
        """A commit of so many rows, in several partitions; again when another one was faster."""
        from pyiceberg.exceptions import CommitFailedException

        ids = range(self.written, self.written + count)
        rows = pa.table({"n": pa.array(ids, pa.int64()), "part": pa.array([n % PARTITIONS for n in ids], pa.int64())})
        while True:
            try:
                self.catalog.load_table("bench.cancelled").append(rows)
                break
            except CommitFailedException:
                continue
        self.written += count

    def lost(self) -> int:
        """How many rows are not in the table exactly once."""
        found = Counter(self.catalog.load_table("bench.cancelled").scan().to_arrow()["n"].to_pylist())
        return sum(found[n] != 1 for n in range(self.written)) + sum(int(n) >= self.written for n in found)


def measure(say: Say, *, cancels: int = 200, seed: int = 1) -> list[Figure]:
    """Needs Java and the jars, which a first run fetches."""
    environment = {"TIDEGATE_SPARK__JARS_DIR": str(JARS)}
    with ground.ground() as place, ground.roles(place, "scheduler", "worker", environment=environment):
        spec = DriverSpec(home=str(place.home), catalog_url=place.server.tcp_url, settings=SparkSettings())
        return asyncio.run(_measure(say, place, Rows(spec), cancels, random.Random(seed)))


async def _measure(say: Say, place: ground.Ground, rows: Rows, cancels: int, rng: random.Random) -> list[Figure]:
    store = PostgresStore(place.url)
    took: list[float] = []
    lost = late = 0
    try:
        await ground.declare(store, "care", Maintenance(), Never())
        rows.append(PARTITIONS * 4)
        await once(store, rows, OPERATIONS[0], None)  # Spark comes up
        while len(took) < cancels:
            operation = rng.choice(OPERATIONS)
            found = await once(store, rows, operation, rng.uniform(0, LONGEST if operation[1] else 1.0))
            if found is None:
                late += 1
            else:
                took.append(found)
            lost += await asyncio.to_thread(rows.lost)
            if found is not None and len(took) % 20 == 0:
                say(f"{len(took)} cancelled, p95 {percentile(took, 0.95):.2f} s, {late} had ended, {lost} rows lost")
    finally:
        await store.close()
        rows.catalog.engine.dispose()
    how = f"{len(took)} of {len(took) + late} operations were cancelled before their end; {rows.written} rows"
    return [
        at_most("live rows lost in cancelled maintenance", lost, "rows", 0, how),
        at_most("cancel to quiet, p95", percentile(took, 0.95), "s", 5, f"worst {max(took):.2f} s"),
    ]


async def once(
    store: PostgresStore, rows: Rows | None, operation: tuple[str, dict[str, Any]], after: float | None
) -> float | None:
    """One operation, with a commit to `rows` meanwhile, cancelled so many seconds after its start (None: not at all):
    seconds from the request to its end on record, None when it had ended before."""
    name, options = operation
    arguments = {"table": "lake.bench.cancelled", "operation": name, "options": options, "force": True}
    run = await control.get(store, str(await _begun(store, arguments)))
    deadline = time.monotonic() + 300
    asked: int | None = None
    began = float("inf")
    while run.state not in ENDS:
        assert time.monotonic() < deadline, f"{name} does not end: {run.state}"
        if run.state is State.RUNNING and began == float("inf"):
            began = time.monotonic()
            if rows is not None:
                await asyncio.to_thread(rows.append, PARTITIONS // 4)
        if after is not None and asked is None and time.monotonic() >= began + after:
            try:
                asked = await store.now()
                await control.cancel(store, str(run.key), who="bench")
            except Conflict:
                asked = None
        await asyncio.sleep(0.02)
        run = await control.get(store, str(run.key))
    assert run.finished_at is not None
    cancelled = asked is not None and run.state is State.CANCELLED
    return (run.finished_at - asked) / SECOND if cancelled and asked is not None else None


async def _begun(store: PostgresStore, arguments: dict[str, Any]) -> RunKey:
    """A run of the schedule as maintenance makes its own; people cannot."""
    async with store.changing() as tx:
        [stored] = await tx.lock_schedules(ground.NAMESPACE, ["care"])
        return await tx.add_run(
            stored.id,
            cause=Cause.MANUAL,
            caused_by="bench",
            fire_time=None,
            previous_fire=None,
            given=arguments,
            priority=stored.spec.priority,
            now=await tx.now(),
        )
