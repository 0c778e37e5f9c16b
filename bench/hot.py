"""How much of a rewrite is done in vain while a writer takes rows away from the table all the time.

The table has many partitions; a writer deletes a few rows of one of them, chosen at random, again and again, each time
a commit that replaces a data file: one a minute, as the goal has it, or each `pause` seconds. Meanwhile the table is
rewritten, one run after the other. Wasted is what was rewritten and could not be committed.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress

import psycopg

from bench import ground
from bench.cancels import ALL, JARS, PARTITIONS, Rows, once
from bench.figures import Figure, Say, at_least, at_most
from tidegate.domain.programs import Maintenance
from tidegate.domain.triggers import Never
from tidegate.pipeline.session import iceberg_catalog
from tidegate.ports.spark import DriverSpec, SparkSettings
from tidegate.store.store import PostgresStore

BEFORE = 25
"""Commits that take rows away before the first rewrite: from 24 a day on a table counts as hot."""
EACH = 400


class Taker:
    """Takes rows out of the table."""

    def __init__(self, spec: DriverSpec, rows: Rows, rng: random.Random) -> None:
        self.catalog = iceberg_catalog(spec)
        self.rows, self.rng = rows, rng
        self.gone: set[int] = set()

    def take(self) -> None:
        """One row less, by one commit; again when the rewrite was faster."""
        from pyiceberg.exceptions import CommitFailedException, ValidationException

        number = self.rng.choice(sorted(set(range(self.rows.written)) - self.gone))
        while True:
            with suppress(CommitFailedException, ValidationException):
                self.catalog.load_table("bench.cancelled").delete(f"part = {number % PARTITIONS} and n = {number}")
                break
        self.gone.add(number)

    def lost(self) -> int:
        """Rows that are gone and were not taken, or that are there again."""
        found = self.catalog.load_table("bench.cancelled").scan().to_arrow()["n"].to_pylist()
        wanted = set(range(self.rows.written)) - self.gone
        return len(wanted ^ set(found)) + len(found) - len(set(found))


def measure(say: Say, *, seconds: int = 360, pause: int = 60, seed: int = 1) -> list[Figure]:
    """Needs Java and the jars, which a first run fetches."""
    environment = {"TIDEGATE_SPARK__JARS_DIR": str(JARS)}
    with ground.ground() as place, ground.roles(place, "scheduler", "worker", environment=environment):
        spec = DriverSpec(home=str(place.home), catalog_url=place.server.tcp_url, settings=SparkSettings())
        rows = Rows(spec)
        taker = Taker(spec, rows, random.Random(seed))
        try:
            return asyncio.run(_measure(say, place, taker, seconds, pause))
        finally:
            taker.catalog.engine.dispose()
            rows.catalog.engine.dispose()


async def _measure(say: Say, place: ground.Ground, taker: Taker, seconds: int, pause: int) -> list[Figure]:
    store = PostgresStore(place.url)
    done = asyncio.Event()

    async def go_on() -> int:
        commits = 0
        while not done.is_set():
            await asyncio.to_thread(taker.take)
            commits += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), pause)
        return commits

    try:
        await ground.declare(store, "care", Maintenance(), Never())
        for _ in range(3):
            taker.rows.append(PARTITIONS * EACH // 3)
        for _ in range(BEFORE):
            await asyncio.to_thread(taker.take)
        await once(store, None, ("rewrite_manifests", {}), None)  # Spark comes up
        writer = asyncio.create_task(go_on())
        until, runs = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            await once(store, None, ("rewrite_data_files", ALL), None)
            runs += 1
        done.set()
        commits = await writer
        lost = await asyncio.to_thread(taker.lost)
    finally:
        await store.close()
    with psycopg.connect(place.url) as connection:
        row = connection.execute(
            "SELECT sum((r->>'files_rewritten')::bigint), sum((r->>'files_defeated')::bigint),"
            " sum((r->>'conflicts')::bigint), bool_and((r->>'small_steps')::boolean)"
            " FROM attempt, LATERAL (SELECT error->'result' AS r) one WHERE r->>'statement' LIKE '%rewrite_data_files%'"
        ).fetchone()
    assert row is not None
    kept, vain, conflicts = (int(one or 0) for one in row[:3])
    assert row[3], "a table with so many commits that take rows is rewritten in small steps"
    say(f"{runs} rewrites, {commits} commits of the writer, {conflicts} met; {vain} of {kept + vain} files in vain")
    how = f"{commits} commits that each replace a file, each {pause} s after the last, during {runs} rewrites of it all"
    return [
        at_most("rewritten in vain", 100 * vain / max(1, kept + vain), "%", 2, how),
        at_most("rows lost or back", lost, "rows", 0, how),
        at_least("files rewritten", kept, "files", None, "that were committed"),
    ]
