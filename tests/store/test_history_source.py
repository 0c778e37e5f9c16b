"""The data source by which Spark reads history, without Spark: what PostgreSQL is asked, and what it delivers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any

import psycopg
import pytest
from history_rows import PER_DAY, fill
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pyspark.sql import datasource as spark

from tidegate.domain.errors import Refused, Unavailable
from tidegate.domain.history import RUNS, TABLES
from tidegate.domain.instants import DAY
from tidegate.pipeline.history_filters import common, each, read_days, together, translate, written
from tidegate.pipeline.history_source import Chosen, Pushing, parts, revealed

pytestmark = pytest.mark.requirement("OPS-9")
FIRST = 20_700 * DAY
DAYS = 4


@pytest.fixture(scope="module")
def filled(template: str, worker_id: str) -> Iterator[str]:
    """A database with some days of history."""
    name = f"tidegate_history_{worker_id}"
    server = make_conninfo(template, dbname="postgres")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {conninfo_to_dict(template)['dbname']}")
    url = make_conninfo(template, dbname=name)
    fill(url, FIRST, DAYS)
    yield url
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def delivered(url: str, table: str, *filters: Any, **options: str) -> tuple[list[dict[str, Any]], list[Any]]:
    """The rows that PostgreSQL delivered, and the filters that are left to Spark."""
    reader = Pushing(Chosen.of({"table": table, "url": url, **options}))
    left = list(reader.pushFilters(list(filters)))
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()], left


def day(number: int) -> date:
    return datetime.fromtimestamp((FIRST + number * DAY) / 1e6, UTC).date()


@pytest.mark.parametrize("table", list(TABLES))
@pytest.mark.parametrize("tasks", ["", "17"])
def test_every_row_comes_once_however_it_is_divided(filled: str, table: str, tasks: str) -> None:
    rows, _ = delivered(filled, table, **({"tasks": tasks} if tasks else {}))
    keys = [tuple(row[name] for name in TABLES[table].key) for row in rows]
    expected = {"runs": PER_DAY, "attempts": PER_DAY, "events": PER_DAY}.get(table, 1) * DAYS
    assert len(keys) == len(set(keys)) == expected
    assert {row["day"] for row in rows} == {day(number) for number in range(DAYS)}


def test_days_hours_schedules_and_states_are_judged_by_postgresql(filled: str) -> None:
    since = datetime.fromtimestamp(FIRST / 1e6, UTC) + timedelta(days=1, hours=6)
    rows, left = delivered(
        filled,
        "runs",
        spark.GreaterThanOrEqual(("day",), day(1)),
        spark.LessThan(("day",), day(3)),
        spark.EqualTo(("schedule",), "report"),
        spark.In(("state",), ("failed", "crashed")),
        spark.GreaterThan(("created_at",), since),
    )
    assert left == []
    assert [(row["day"], row["state"]) for row in rows] == [(day(1), "failed"), (day(2), "failed")]


def test_what_options_ask_is_judged_by_postgresql(filled: str) -> None:
    rows, _ = delivered(
        filled, "runs", from_day=str(day(1)), to_day=str(day(2)), state="failed, crashed", schedule="report", ord="0"
    )
    assert [(row["day"], row["state"]) for row in rows] == [(day(1), "failed"), (day(2), "failed")]
    assert len(delivered(filled, "maintenance", manual="false", changed="true")[0]) == DAYS
    assert delivered(filled, "maintenance", manual="true")[0] == []


def test_a_condition_on_days_reads_no_other_day(filled: str) -> None:
    for table, condition in (
        ("runs", spark.EqualTo(("day",), day(2))),
        ("events", spark.EqualTo(("at",), datetime.fromtimestamp(FIRST / 1e6, UTC) + timedelta(days=2))),
        ("health", spark.LessThanOrEqual(("measured_at",), datetime.fromtimestamp(FIRST / 1e6, UTC))),
    ):
        reader = Pushing(Chosen.of({"table": table, "url": filled}))
        assert list(reader.pushFilters([condition])) == []
        [part] = reader.partitions()
        assert len(each(part.days)) == 1


def test_what_postgresql_cannot_judge_is_left_to_spark(filled: str) -> None:
    naive = datetime(2026, 9, 1)
    odd = [
        spark.GreaterThan(("created_at",), naive),
        spark.EqualTo(("duration_seconds",), float("nan")),
        spark.EqualTo(("arguments",), "{}"),
        spark.EqualTo(("a", "b"), 1),
        spark.In(("state",), ("failed", None)),
        spark.Not(spark.EqualTo(("day",), day(1))),
    ]
    rows, left = delivered(filled, "runs", *odd)
    assert left == odd and len(rows) == PER_DAY * DAYS


TEXTS = st.sampled_from(["orders", "report", "Orders", "o", "", "re", "s"])
NUMBERS = st.sampled_from([0, 9, 10, 17, 20.5, 33, 43, 44])
CONDITIONS = st.one_of(
    st.builds(spark.EqualTo, st.just(("schedule",)), TEXTS),
    st.builds(spark.GreaterThan, st.just(("schedule",)), TEXTS),
    st.builds(spark.LessThanOrEqual, st.just(("schedule",)), TEXTS),
    st.builds(spark.StringStartsWith, st.just(("schedule",)), TEXTS),
    st.builds(spark.StringEndsWith, st.just(("schedule",)), TEXTS),
    st.builds(spark.StringContains, st.just(("schedule",)), TEXTS),
    st.builds(spark.EqualNullSafe, st.just(("application",)), TEXTS),
    st.builds(spark.IsNull, st.sampled_from([("reason",), ("schedule",)])),
    st.builds(spark.IsNotNull, st.sampled_from([("reason",), ("schedule",)])),
    st.builds(spark.LessThan, st.just(("duration_seconds",)), NUMBERS),
    st.builds(spark.GreaterThanOrEqual, st.just(("duration_seconds",)), NUMBERS),
    st.builds(spark.In, st.just(("schedule",)), st.tuples(TEXTS, TEXTS)),
    st.builds(spark.LessThan, st.just(("day",)), st.integers(-1, 5).map(day)),
    st.builds(spark.GreaterThan, st.just(("day",)), st.integers(-1, 5).map(day)),
    st.builds(spark.In, st.just(("day",)), st.lists(st.integers(-1, 5).map(day), min_size=1).map(tuple)),
)
JUDGED: dict[type, Callable[[Any, Any], bool]] = {
    spark.EqualTo: lambda a, b: a == b,
    spark.GreaterThan: lambda a, b: a > b,
    spark.GreaterThanOrEqual: lambda a, b: a >= b,
    spark.LessThan: lambda a, b: a < b,
    spark.LessThanOrEqual: lambda a, b: a <= b,
    spark.StringStartsWith: lambda a, b: a.startswith(b),
    spark.StringEndsWith: lambda a, b: a.endswith(b),
    spark.StringContains: lambda a, b: b in a,
    spark.In: lambda a, b: a in b,
}


def fulfilled(row: dict[str, Any], one: Any) -> bool | None:
    """As Spark judges: None where null is asked."""
    if isinstance(one, spark.Not):
        inner = fulfilled(row, one.child)
        return None if inner is None else not inner
    value = row[one.attribute[0]]
    if isinstance(one, spark.IsNull | spark.IsNotNull):
        return (value is None) == isinstance(one, spark.IsNull)
    if isinstance(one, spark.EqualNullSafe):
        return bool(value == one.value)
    return None if value is None else JUDGED[type(one)](value, one.value)


@cache
def whole(url: str) -> list[dict[str, Any]]:
    return delivered(url, "runs")[0]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(CONDITIONS, CONDITIONS.map(spark.Not)), max_size=4))
def test_what_postgresql_judges_it_judges_as_spark_would(filled: str, conditions: list[Any]) -> None:
    rows, left = delivered(filled, "runs", *conditions, columns="run_id")
    taken = [one for one in conditions if not any(one is other for other in left)]
    expected = [row for row in whole(filled) if all(fulfilled(row, one) is True for one in taken)]
    assert sorted(row["run_id"] for row in rows) == sorted(row["run_id"] for row in expected)


def test_a_day_that_goes_while_it_is_read_is_not_half_read(filled: str) -> None:
    """What `whole` names was there when it was planned: that it is not any more must not pass for no rows."""
    gone = (FIRST // DAY + 77, FIRST // DAY + 78)
    for table in ("runs", "events", "missed", "maintenance", "health"):
        reader = Pushing(Chosen.of({"table": table, "url": filled, "whole": written((gone,))}))
        [part] = reader.partitions()
        with pytest.raises(Unavailable, match="went with its retention"):
            list(reader.read(part))


def test_counts_are_by_day_and_say_what_may_still_change(filled: str) -> None:
    rows, _ = delivered(filled, "runs", ask="counts")
    assert [(row["rows"], row["open"]) for row in sorted(rows, key=lambda row: row["day"])] == [(PER_DAY, False)] * DAYS
    days, _ = delivered(filled, "maintenance", ask="days")
    assert [row["day"] for row in days] == [day(number) for number in range(DAYS)]


def test_columns_can_be_chosen(filled: str) -> None:
    rows, _ = delivered(filled, "attempts", spark.EqualTo(("outcome",), "failed"), columns="schedule, code")
    assert rows == [{"schedule": "report", "code": "program.exit"}] * DAYS


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"table": "run"}, "no table 'run'; did you mean 'runs'"),
        ({}, "no table ''; there are runs, attempts"),
        ({"table": "runs", "colums": "state"}, "no option 'colums'; did you mean 'columns'"),
        ({"table": "runs", "columns": "stat"}, "no column 'stat'; did you mean 'state'"),
        ({"table": "runs", "tasks": "0"}, "from 1 to 10000"),
        ({"table": "runs", "from_day": "last monday"}, "write it like 2026-11-21"),
        ({"table": "runs", "priority": "high"}, "priority cannot be 'high'"),
        ({"table": "runs", "created_at": "2026-11-21"}, "chosen by from_day"),
    ],
)
def test_wrong_options_are_told_what_is_right(options: dict[str, str], told: str) -> None:
    with pytest.raises(Refused, match=told):
        Chosen.of(options)


def test_an_address_is_found_where_it_is_kept_and_never_repeated(tmp_path: Any) -> None:
    (tmp_path / "url").write_text("postgresql://kept\n")
    assert revealed(f"file:{tmp_path}/url", {}) == "postgresql://kept"
    assert revealed("env:MINE", {"MINE": "postgresql://mine"}) == "postgresql://mine"
    assert revealed("", {"TIDEGATE_DATABASE_URL": "a", "TIDEGATE_HISTORY_URL": "b"}) == "b"
    assert revealed("postgresql://given", {"TIDEGATE_HISTORY_URL": "b"}) == "postgresql://given"
    os.mkfifo(tmp_path / "pipe")
    for url, told in (
        ("", "set TIDEGATE_HISTORY_URL"),
        ("env:MINE", "address of history is in Spark's environment variable MINE, which is not set"),
        (f"file:{tmp_path}/none", "address of history in .*/none cannot be read"),
        (f"file:{tmp_path}/pipe", "it is no regular file"),
    ):
        with pytest.raises(Refused, match=told):
            revealed(url, {})


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=6), st.integers(1, 20))
def test_days_are_sets_and_parts_cover_them_once(spans: list[tuple[int, int]], tasks: int) -> None:
    days = together([((first, first + length),) for first, length in spans if length])
    assert set(each(days)) == {one for first, length in spans for one in range(first, first + length)}
    assert read_days(written(days)) == days and common(days, days) == days
    made = list(parts(Chosen.of({"table": "runs", "tasks": str(tasks)}), dict.fromkeys(each(days), 2.0)))
    covered = sorted(span for part in made for span in part.spans)
    assert all(end == first or end < first for (_, end), (first, _) in zip(covered, covered[1:], strict=False))
    assert sum(end - first for first, end in covered) == len(each(days)) * DAY
    assert len(made) <= tasks + len(each(days))


def test_a_table_that_is_described_is_translated_by_its_own_columns() -> None:
    assert translate(spark.EqualTo(("nothing",), 1), RUNS) is None
