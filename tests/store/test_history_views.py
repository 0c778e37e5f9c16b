"""The views of `tidegate_history`: what people and Spark ask, in PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conformance.worlds import NS, World
from psycopg.rows import dict_row

from tidegate.control import backfills
from tidegate.domain.backfills import Wish
from tidegate.domain.history import SCHEMA, TABLES
from tidegate.domain.instants import DAY, HOUR, SECOND
from tidegate.domain.runs import State
from tidegate.domain.triggers import Cron
from tidegate.engine.backfiller import Backfiller, BackfillerSettings
from tidegate.ports.tables import CareOrder, Measured, Seen, Settlement
from tidegate.store.store import PostgresStore

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OPS-9")]


@pytest.fixture
async def world(emptied_database_url: str, anyio_backend: str) -> AsyncIterator[World]:
    url = emptied_database_url
    async with await World.begin(PostgresStore(url), lambda: PostgresStore(url)) as made:
        yield made


def ask(url: str, statement: str, **given: Any) -> list[dict[str, Any]]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        connection.execute("SET timezone = 'Asia/Tokyo'")  # what a view says does not hang on it
        return connection.execute(statement, given).fetchall()  # type: ignore[arg-type]


def test_views_are_as_their_description_says_and_say_it_themselves(emptied_database_url: str) -> None:
    rows = ask(
        emptied_database_url,
        "SELECT c.relname AS view, a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type,"
        " col_description(c.oid, a.attnum) AS said, obj_description(c.oid) AS whole"
        " FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
        " WHERE c.relnamespace = %(schema)s::regnamespace AND c.relkind = 'v' ORDER BY c.relname, a.attnum",
        schema=SCHEMA,
    )
    found = [(row["view"], row["whole"], row["name"], row["type"], row["said"]) for row in rows]
    assert found == [
        (table.name, table.meaning, one.name, one.kind.postgres, one.meaning)
        for _, table in sorted(TABLES.items())
        for one in table.columns
    ]


@pytest.mark.slow
async def test_runs_and_attempts_are_told_in_instants_and_seconds(world: World, emptied_database_url: str) -> None:
    await world.schedule("one", due=0)
    await world.fire(world.at(1 * SECOND))
    launches = await world.begin_runs(world.at(3 * SECOND))
    [run] = ask(emptied_database_url, "SELECT * FROM tidegate_history.runs")
    assert (run["state"], run["finished_at"], run["duration_seconds"]) == ("running", None, None)
    await world.end(launches, world.at(10 * SECOND))
    [run] = ask(emptied_database_url, "SELECT * FROM tidegate_history.runs")
    record = await world.store.run(launches[0].attempt.run)
    assert record is not None and record.started_at is not None and record.finished_at is not None
    assert run["run_id"] == str(launches[0].attempt.run)
    assert (run["schedule"], run["cause"], run["state"]) == ("one", "fire", State.SUCCEEDED.value)
    assert run["fire_time"] == datetime.fromtimestamp(record.key.slot / SECOND, UTC)
    assert run["day"] == run["fire_time"].astimezone(UTC).date()
    assert run["duration_seconds"] == (record.finished_at - record.started_at) / SECOND
    assert run["waited_seconds"] == (record.started_at - record.created_at) / SECOND
    [attempt] = ask(emptied_database_url, "SELECT * FROM tidegate_history.attempts")
    assert (attempt["run_id"], attempt["number"], attempt["outcome"]) == (run["run_id"], 1, "succeeded")
    events = ask(emptied_database_url, "SELECT type, run_id, day, at FROM tidegate_history.events ORDER BY pos")
    assert ("run.succeeded", run["run_id"]) in [(one["type"], one["run_id"]) for one in events]
    assert all(one["day"] == one["at"].astimezone(UTC).date() for one in events)


async def test_a_run_of_a_backfill_is_of_the_day_on_which_it_was_made(world: World, emptied_database_url: str) -> None:
    """Retention drops it, and archives keep it, by that day: what is filled in today is not dropped tomorrow."""
    await world.schedule("one", due=None, trigger=Cron(expression="0 2 * * *"))
    long_ago = world.start // DAY * DAY - 30 * DAY
    wish = Wish(start=long_ago, end=long_ago + DAY)
    await backfills.create(world.store, NS, "one", wish, who="ann")
    part = Backfiller(world.store, world.scheduler, BackfillerSettings(pause=0))
    while (await part.step(world.at(SECOND))).did:
        pass
    [run] = ask(emptied_database_url, "SELECT day, slot, fire_time, created_at FROM tidegate_history.runs")
    made = run["created_at"].astimezone(UTC)
    assert run["day"] == made.date() and run["slot"] == round(made.timestamp() * SECOND)
    assert run["fire_time"] == datetime.fromtimestamp((long_ago + 2 * HOUR) / SECOND, UTC)
    [day] = [column for table in TABLES.values() if table.name == "runs" for column in table.columns][:1]
    assert "made the run" in day.meaning and "backfill" in day.meaning


async def test_maintenance_and_health_are_told_with_what_they_changed(world: World, emptied_database_url: str) -> None:
    schedule = await world.schedule("care", due=None)
    run = await world.manual(schedule, world.at(1))
    order = CareOrder(
        run=run, table="lake.raw.t", operation="rewrite_data_files", policy="", policy_rev=0, manual=True, bytes=900
    )
    async with world.store.changing() as tx:
        await tx.see_tables([Seen(table="lake.raw.t", location="a")], world.start)
        health = {"data_files": 12, "snapshot": 77, "changed_at": world.start, "files": []}
        await tx.record_health([Measured(table="lake.raw.t", location="a", health=health, score=55.5)], world.start)
        await tx.reserve([order], world.at(1))
    [open_one] = ask(emptied_database_url, "SELECT * FROM tidegate_history.maintenance")
    assert (open_one["outcome"], open_one["budget_bytes"], open_one["policy"]) == (None, 900, None)
    told = {"changed": True, "bytes_rewritten": 700, "files_removed": 11, "message": "12 became 1."}
    async with world.store.changing() as tx:
        await tx.settle_care([Settlement(run=run, outcome="succeeded", bytes=700, result=told)], world.at(9))
    [one] = ask(emptied_database_url, "SELECT * FROM tidegate_history.maintenance")
    assert {name: one[name] for name in told} == told
    assert (one["run_id"], one["outcome"], one["files_before"]) == (str(run), "succeeded", None)
    [measured] = ask(emptied_database_url, "SELECT * FROM tidegate_history.health")
    assert (measured["debt"], measured["data_files"], measured["snapshot_id"]) == (55.5, 12, "77")
    assert measured["rows"] is None  # unknown is not zero


async def test_a_reader_needs_no_right_on_anything_but_the_views(world: World, emptied_database_url: str) -> None:
    await world.schedule("one", due=0)
    await world.fire(world.at(1))
    with psycopg.connect(emptied_database_url) as connection:
        connection.execute("CREATE ROLE reader_of_history")
        connection.execute("GRANT USAGE ON SCHEMA tidegate_history TO reader_of_history")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA tidegate_history TO reader_of_history")
        connection.execute("SET ROLE reader_of_history")
        for name in TABLES:
            connection.execute(f"SELECT * FROM tidegate_history.{name}")  # type: ignore[arg-type]
        assert connection.execute("SELECT count(*) FROM tidegate_history.runs").fetchone() == (1,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM run")
        connection.rollback()


@pytest.mark.slow
async def test_a_span_reads_only_the_days_it_needs(world: World, emptied_database_url: str) -> None:
    await world.store.ensure_partitions(world.start, 4 * DAY)
    day = datetime.fromtimestamp(world.start / SECOND, UTC).date() + timedelta(days=3)
    for table, base, condition in (
        ("runs", "run", f"slot >= tidegate_history.micros('{day} 00:00Z')"),
        ("attempts", "attempt", f"slot >= tidegate_history.micros('{day} 00:00Z')"),
        ("events", "event", f"day_number >= tidegate_history.day_number('{day}')"),
    ):
        rows = ask(emptied_database_url, f"EXPLAIN SELECT * FROM tidegate_history.{table} WHERE {condition}")
        plan = "\n".join(row["QUERY PLAN"] for row in rows)
        scanned = set(re.findall(rf"\b{base}_p(\d+)\b", plan))
        assert f"{day:%Y%m%d}" in scanned and f"{day - timedelta(days=1):%Y%m%d}" not in scanned, plan


def test_a_run_s_id_is_the_one_that_doors_show(emptied_database_url: str) -> None:
    from tidegate.domain.ids import RunKey, ScheduleId

    keys = [(0, 1, 0), (35, 36, 1295), (1296, 46655, 46656), (1795219200000000, 7, 12), (2**63 - 1, 2**62, 1)]
    for slot, schedule, order in keys:
        [row] = ask(
            emptied_database_url,
            "SELECT tidegate_history.run_id(%(a)s, %(b)s, %(c)s) AS id",
            a=slot, b=schedule, c=order,
        )  # fmt: skip
        assert row["id"] == str(RunKey(slot, ScheduleId(schedule), order))


async def test_what_the_page_asks_in_sql_is_answered(world: World, emptied_database_url: str) -> None:
    await world.schedule("one", due=0)
    await world.fire(world.at(1 * SECOND))
    launches = await world.begin_runs(world.at(3 * SECOND))
    await world.end(launches, world.at(10 * SECOND), outcome="failed")
    page = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "query-history.md").read_text()
    failing, pace, rewritten, filled = re.findall(r"```sql\n(SELECT.*?)```", page, re.DOTALL)
    [row] = ask(emptied_database_url, failing.replace("now()", "timestamptz '2026-11-22'"))
    assert (row["schedule"], row["runs"], row["failures"]) == ("one", 1, 1)
    assert (
        ask(emptied_database_url, pace)
        == ask(emptied_database_url, rewritten)
        == ask(emptied_database_url, filled)
        == []
    )
