"""History on real Spark: the page's queries, what leaves PostgreSQL, and archives that lose and double nothing."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from history_rows import PER_DAY, fill

from tidegate.domain.instants import DAY
from tidegate.domain.programs import PySpark
from tidegate.store import migrate

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.requirement("OPS-9", "LAKE-4")]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "query-history.md"
PROGRAM = Path(__file__).with_name("history_program.py")
PAST = 2
"""Days that are over; today is a third."""


@pytest.fixture(scope="module")
def days(lake) -> list[str]:
    migrate.upgrade(lake.url)
    today = time.time_ns() // 1000 // DAY * DAY
    fill(lake.url, today - PAST * DAY, PAST + 1)
    first = datetime.fromtimestamp(today / 1e6, UTC).date() - timedelta(days=PAST)
    return [str(first + timedelta(days=number)) for number in range(PAST + 1)]


@pytest.fixture(scope="module")
def told(lake, days: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All answers, from one JVM."""
    report, log = lake.run(
        PySpark(entry=f"{PROGRAM}:ask", isolation="process", environment={"TIDEGATE_HISTORY_URL": lake.url}),
        arguments={"page": str(PAGE), "archive": str(tmp_path_factory.mktemp("archive")), "day": days[0]},
    )
    assert report.outcome == "succeeded", log[-6000:]
    found: dict[str, Any] = json.loads(
        next(line for line in log.splitlines() if "HISTORY {" in line).split("HISTORY ")[1]
    )
    return found


def test_what_the_page_asks_is_answered(told: dict[str, Any]) -> None:
    pages = told["pages"]
    assert pages["worst"] == [{"namespace": "sales", "schedule": "report", "count": PAST + 1}]
    assert {row["program"] for row in pages["pace"]} == {"load"}
    assert sum(row["runs"] for row in pages["pace"]) == (PAST + 1) * (PER_DAY - 1)
    assert all(40 <= row["p95"] <= 43 for row in pages["pace"])
    assert pages["rewritten"] == [{"table_name": "lake.raw.flights", "bytes": 400 * (PAST + 1), "operations": PAST + 1}]


def test_only_rows_that_were_asked_for_leave_postgresql(told: dict[str, Any]) -> None:
    assert (told["whole"], told["chosen"], told["pushed"]) == ((PAST + 1) * PER_DAY, 1, 1)


def test_one_dataframe_may_be_asked_again_and_twice_in_a_query(told: dict[str, Any]) -> None:
    failed, rest, both = told["twice"]
    assert (failed, rest, both) == (PAST + 1, (PAST + 1) * (PER_DAY - 1), (PAST + 1) * PER_DAY)


def test_the_address_is_not_shown_in_a_plan(told: dict[str, Any]) -> None:
    assert told["secret"] is False


def test_a_day_is_archived_once_it_is_over_and_no_row_is_lost_or_doubled(told: dict[str, Any], days: list[str]) -> None:
    written = [(table, day, rows) for table, day, rows, left in told["first"] if not left]
    each = {"runs": PER_DAY, "attempts": PER_DAY, "health": 1}
    assert sorted(written) == sorted((table, day, rows) for table, rows in each.items() for day in days[:PAST])
    assert {day for _, day, _, left in told["first"] if left} == {days[PAST]}
    assert all(left for _, _, left in told["again"]), "what is there already is not written again"
    assert [(table, rows) for table, _, rows, left in told["lake"] if not left] == [
        *[("runs", PER_DAY)] * PAST,
        *[("maintenance", 1)] * PAST,
    ]
    assert told["live"] == PAST * PER_DAY and told["both"] == [True, True]
    assert "went with its retention" in told["stale"]
    assert len(told["only"]) == 1
    assert all(left for _, left in told["redone"]) and told["snapshots"] == 1
    assert told["kept"] == [PER_DAY] * PAST


def test_a_program_archives_in_a_warm_driver(lake, days: list[str], told: dict[str, Any], tmp_path: Path) -> None:
    """`told` first: it drops a day, so that the days named here are there for good."""
    report, log = lake.run(
        PySpark(entry="tidegate.history:export", environment={"TIDEGATE_HISTORY_URL": lake.url}),
        arguments={"to": str(tmp_path / "kept"), "tables": ["events"], "from_day": days[0], "to_day": days[1]},
    )
    assert report.outcome == "succeeded", log[-4000:]
    assert f"events {days[1]}: {PER_DAY} rows" in log
    assert sorted(one.name for one in (tmp_path / "kept" / "events").glob("day=*")) == [
        f"day={day}" for day in days[:2]
    ]
