"""Maintenance of real tables while something breaks: no live row is lost, the fault is said, the next run is clean."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pyiceberg.exceptions import CommitFailedException

from tidegate.domain.programs import Maintenance, SparkSql
from tidegate.pipeline.session import iceberg_catalog
from tidegate.ports.launching import Launch, Phase, StopHow
from tidegate.ports.spark import DriverSpec

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PARTITIONS = 16
HALF = PARTITIONS // 2
SLOW: dict[str, Any] = {"max-concurrent-file-group-rewrites": 1, "min-input-files": 2}
"""One partition after the other, and one commit when all are done."""


def slow_table(lake, name: str, partitions: int = PARTITIONS) -> tuple[str, Path]:
    """A table whose rewrite takes some seconds, by its partitions; its name and where its data files are."""
    insert = f"INSERT INTO lake.broken.{name} SELECT id, id % {partitions} FROM range(0, 160, 1, 1);"
    make = f"CREATE TABLE lake.broken.{name} (id BIGINT, part BIGINT) PARTITIONED BY (part);"
    lake.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.broken; {make} {insert} {insert}")
    table = f"broken.{name}"
    return table, Path(lake.metadata(table)["location"].removeprefix("file:")) / "data"


def files(folder: Path) -> set[Path]:
    return set(folder.rglob("*.parquet"))


def in_the_middle(
    lake, table: str, folder: Path, strike: Callable[..., Awaitable[Any]], *phases: Phase, **options: Any
) -> Any:
    """Rewrite it, strike when it has written some of its files, and wait for its end."""
    before = files(folder)

    async def scenario() -> Any:
        async with lake.worker() as launcher:
            arguments = {"table": f"lake.{table}", "operation": "rewrite_data_files", "options": SLOW | options}
            launch = lake.launch(Maintenance(), arguments=arguments)
            await launcher.start(launch)

            async def written() -> bool:
                return len(files(folder) - before) >= 3

            await lake.eventually(written, seconds=120)
            await strike(launcher, launch)
            return await lake.until(launcher, launch, *phases), lake.log(launch)

    return asyncio.run(scenario())


@pytest.mark.requirement("CARE-10", "CARE-11")
def test_a_driver_that_is_killed_in_the_middle_costs_no_row_and_what_it_left_is_told(lake):
    table, folder = slow_table(lake, "killed")
    before, live = lake.content(table), files(folder)
    begun = time.time_ns() // 1000

    async def kill(launcher: Any, _: Launch) -> None:
        (pid,) = lake.driver_pids()
        for one in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
            one.kill()  # the JVM, too: it would tidy up before it ends

    report, _ = in_the_middle(lake, table, folder, kill, Phase.GONE)
    assert report.error["code"] == "spark.driver_died"
    left = files(folder) - live
    died = {"run": "1-2-3", "begun": begun, "ended": time.time_ns() // 1000}
    done = lake.care(table, "rewrite_data_files", options={"min-input-files": 2}, after=[died])
    assert (done["changed"], done["files_after"]) == (True, PARTITIONS)
    [told] = done["leftovers"]
    assert (
        told["run"] == "1-2-3"
        and told["files"] == len(left)
        and told["bytes"] == sum(one.stat().st_size for one in left)
    )
    assert lake.content(table) == before
    assert "leftovers" not in lake.care(table, "rewrite_manifests")


@pytest.mark.requirement("CARE-10")
def test_a_table_that_is_dropped_while_it_is_rewritten_is_told_so_and_nothing_is_brought_back(lake):
    table, folder = slow_table(lake, "dropped")

    async def drop(launcher: Any, _: Launch) -> None:
        launch = lake.launch(SparkSql(sql=f"DROP TABLE lake.{table}"))
        await launcher.start(launch)
        assert (await lake.until(launcher, launch, Phase.FINISHED)).outcome == "succeeded"

    report, log = in_the_middle(lake, table, folder, drop, Phase.FINISHED)
    assert (report.outcome, report.error["code"]) == ("failed", "maintenance.no_table"), log
    with pytest.raises(AssertionError, match="there is no"):
        lake.metadata(table)


@contextmanager
def away(url: str) -> Iterator[None]:
    """The database that has the catalog takes no connection and ends all it has."""
    name = conninfo_to_dict(url)["dbname"]
    with psycopg.connect(make_conninfo(url, dbname="template1"), autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        try:
            yield
        finally:
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


@pytest.mark.requirement("CARE-10", "CARE-11")
def test_a_catalog_that_is_away_fails_the_run_and_the_next_is_clean(lake):
    table, folder = slow_table(lake, "offline")
    before = lake.content(table)
    down = away(lake.url)

    async def leave(launcher: Any, _: Launch) -> None:
        down.__enter__()

    try:
        report, log = in_the_middle(lake, table, folder, leave, Phase.FINISHED)
        assert (report.outcome, report.error["code"]) == ("failed", "lake.catalog"), log
        begun = lake.care(table, "rewrite_data_files", outcome="failed")
        assert begun["code"] == "lake.catalog" and "does not answer" in begun["message"]
    finally:
        down.__exit__(None, None, None)
    done = lake.care(table, "rewrite_data_files", options={"min-input-files": 2})
    assert (done["changed"], done["files_after"]) == (True, PARTITIONS) and lake.content(table) == before


@pytest.mark.requirement("CARE-10")
def test_files_that_are_gone_are_named_and_hold_up_no_other_table(lake):
    table, folder = slow_table(lake, "gone", 1)
    shutil.rmtree(folder)
    gone = lake.care(table, "rewrite_data_files", outcome="failed", options=SLOW)
    assert gone["code"] == "maintenance.unreadable" and ".parquet" in gone["message"], gone
    shutil.rmtree(folder.parent)
    gone = lake.care(table, "rewrite_data_files", outcome="failed", options=SLOW)
    assert gone["code"] == "maintenance.unreadable" and "metadata" in gone["message"], gone
    garbled, folder = slow_table(lake, "garbled", 1)
    with psycopg.connect(lake.url) as connection:
        [where] = connection.execute(
            "SELECT metadata_location FROM lake.iceberg_tables WHERE table_name = 'garbled'"
        ).fetchone()
    Path(where.removeprefix("file:")).write_text("{ no longer")
    broken = lake.care(garbled, "rewrite_data_files", outcome="failed", options=SLOW)
    assert broken["code"] == "maintenance.unreadable", broken
    whole, _ = slow_table(lake, "whole", 1)
    assert lake.care(whole, "rewrite_data_files", options=SLOW)["changed"]


@contextmanager
def writer(lake) -> Iterator[Any]:
    """Another program's way to the tables, without Spark: what it commits is there at once."""
    catalog = iceberg_catalog(DriverSpec(home=str(lake.home), catalog_url=lake.url, settings=lake.settings))
    try:
        yield catalog
    finally:
        catalog.engine.dispose()


@pytest.mark.requirement("CARE-11")
@pytest.mark.parametrize("steps", [False, True], ids=["whole", "in-parts"])
def test_a_rewrite_that_a_writer_of_deletes_defeats_is_done_in_smaller_steps_and_no_row_comes_back(lake, steps):
    table, folder = slow_table(lake, f"raced_{steps}".lower())

    async def delete(launcher: Any, _: Launch) -> None:
        def commit() -> None:
            with writer(lake) as catalog:  # half of the partitions: whatever of them is not committed yet collides
                while True:
                    with suppress(CommitFailedException):
                        return catalog.load_table(table).delete(f"part >= {HALF}")

        await asyncio.to_thread(commit)

    parts = {"partial-progress.enabled": True, "partial-progress.max-commits": 2} if steps else {}
    report, log = in_the_middle(lake, table, folder, delete, Phase.FINISHED, **parts)
    assert report.outcome == "succeeded", (report, log)
    result = report.error["result"]
    assert result["conflicts"] >= 1 and "A writer was faster" in log and "max-file-group-size-bytes" in log, log
    assert (result["files_defeated"] > 0) == steps, "of a rewrite as a whole it is only known that it failed"
    assert result["changed"] and result["files_after"] == HALF, result
    ids = [one for one in range(160) if one % PARTITIONS < HALF]
    assert lake.content(table) == f"rows={2 * len(ids)} sum={2 * sum(ids)}"


@pytest.mark.requirement("CARE-10", "RUN-9")
def test_a_rewrite_that_is_cancelled_is_quiet_soon_keeps_what_it_committed_and_counts_it(lake):
    table, folder = slow_table(lake, "cancelled")
    before = lake.content(table)

    async def cancel(launcher: Any, launch: Launch) -> None:
        await launcher.stop(launch.attempt, StopHow.POLITE)

    parts = {"partial-progress.enabled": True, "partial-progress.max-commits": PARTITIONS}
    report, log = in_the_middle(lake, table, folder, cancel, Phase.FINISHED, **parts)
    assert report.outcome == "cancelled", (report, log)
    metadata = lake.metadata(table)
    replaced = [one for one in metadata["snapshots"] if one["summary"]["operation"] == "replace"]
    assert report.error["result"]["commits"] == len(replaced) < PARTITIONS
    assert lake.content(table) == before
    assert lake.metadata(table)["current-snapshot-id"] == metadata["current-snapshot-id"], "nothing comes after its end"
    done = lake.care(table, "rewrite_data_files", options={"min-input-files": 2})
    assert done["files_after"] == PARTITIONS and lake.content(table) == before
