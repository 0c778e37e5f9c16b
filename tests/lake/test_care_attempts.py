"""How a maintenance attempt goes about it, with Spark's part played by a test: what it asks, tries again, and tells."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tidegate.control.care import arguments_of
from tidegate.domain.ids import AttemptKey, RunKey, ScheduleId
from tidegate.domain.maintenance.operations import Operation
from tidegate.lake.assessing import open_table
from tidegate.pipeline import care
from tidegate.pipeline.care import CareAttempt
from tidegate.pipeline.sql_attempt import SqlOrder
from tidegate.pipeline.stamps import Stamp
from tidegate.ports.maintaining import Wish
from tidegate.ports.spark import DriverSpec, SparkSettings

NOW = 1_900_000_000_000_000


class Attempted(CareAttempt):
    """An attempt on a table that PyIceberg wrote; `faults` is what the procedure raises, call by call."""

    def __init__(self, location: str, tmp_path: Path, *faults: Exception, database: str = "", **arguments: Any) -> None:
        stamp = Stamp(AttemptKey(RunKey(1, ScheduleId(7), 0), 1), 1)
        given = {"table": "lake.raw.t", "operation": "rewrite_data_files", **arguments}
        spec = DriverSpec(home=str(tmp_path), catalog_url=database, settings=SparkSettings())
        self.said: list[str] = []
        super().__init__(SqlOrder(stamp, tmp_path, "", {}, given, 0, "maintenance"), spec, self.said.append)
        self._location = location
        self.session = MagicMock()
        self.session.sql.return_value.collect.side_effect = [*faults, []]

    def _open(self, table: str) -> Any:
        return open_table(self._location, {})

    def end(self) -> dict[str, Any]:
        return self.run(self.session)

    @property
    def asked(self) -> list[str]:
        return [one.args[0] for one in self.session.sql.call_args_list]


@pytest.fixture
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table of six small files."""
    monkeypatch.setattr(care, "database_now", lambda spec: NOW)
    monkeypatch.setattr(care, "snapshots_needed", lambda spec, table: frozenset())
    catalog = SqlCatalog("lake", uri="sqlite:///:memory:", warehouse=tmp_path.as_uri())
    catalog.create_namespace("raw")
    table = catalog.create_table("raw.t", Schema(NestedField(1, "n", LongType(), required=False)))
    for number in range(6):
        table.append(pa.table({"n": pa.array([number], pa.int64())}))
    catalog.engine.dispose()
    return str(table.metadata_location)


@pytest.mark.requirement("CARE-10", "CARE-12")
def test_what_is_predicted_to_do_nothing_is_not_launched_unless_it_is_forced(location, tmp_path):
    idle = {"options": {"min-input-files": 9}}
    attempt = Attempted(location, tmp_path, **idle)
    end = attempt.end()
    assert (end["outcome"], end["error"]["code"], attempt.asked) == ("succeeded", "maintenance.noop", [])
    result = end["error"]["result"]
    assert (result["changed"], result["bytes_rewritten"], result["files_before"], result["files_after"]) == (
        False,
        0,
        6,
        6,
    )
    forced = Attempted(location, tmp_path, **idle, force=True)
    assert forced.end()["error"]["code"] == "maintenance.done" and len(forced.asked) == 1


@pytest.mark.requirement("CARE-10")
def test_a_dry_run_asks_spark_for_nothing(location, tmp_path):
    attempt = Attempted(location, tmp_path, dry_run=True)
    end = attempt.end()
    assert (end["error"]["code"], attempt.asked) == ("maintenance.dry_run", [])
    assert end["error"]["result"]["predicted"]["removes"] == 5


@pytest.mark.requirement("CARE-11")
def test_what_a_writer_defeats_is_counted_and_tried_again_in_smaller_steps(location, tmp_path):
    conflict = RuntimeError("org.apache.iceberg.exceptions.CommitFailedException: stale")
    attempt = Attempted(location, tmp_path, conflict, conflict)
    end = attempt.end()
    assert (end["outcome"], end["error"]["result"]["conflicts"]) == ("succeeded", 2)
    assert "options" not in attempt.asked[0]
    assert all("'partial-progress.enabled', 'true'" in one for one in attempt.asked[1:]) and len(attempt.asked) == 3
    lost = Attempted(location, tmp_path, conflict, conflict, conflict)
    end = lost.end()
    assert (end["outcome"], end["error"]["code"]) == ("failed", "maintenance.conflict")
    assert end["error"]["result"]["conflicts"] == 3 and not end["error"]["result"]["changed"]


@pytest.mark.requirement("CARE-11")
def test_parts_whose_commits_fail_are_no_success(location, tmp_path):
    """Iceberg answers as if all had been well, unless it is told that none may fail."""
    failed = RuntimeError(
        "partial-progress.enabled is true but 2 rewrite commits failed. This is more than the maximum"
    )
    attempt = Attempted(location, tmp_path, failed, options={"partial-progress.enabled": True})
    result = attempt.end()["error"]["result"]
    assert all("'partial-progress.max-failed-commits', '0'" in one for one in attempt.asked) and len(attempt.asked) == 2
    assert (result["conflicts"], result["files_defeated"], result["changed"]) == (1, 6, False)


@pytest.mark.requirement("CARE-2", "CARE-11")
def test_what_a_person_chose_stays_also_when_a_writer_was_faster(location, tmp_path):
    conflict = RuntimeError("org.apache.iceberg.exceptions.CommitFailedException: stale")
    chosen = {"max-file-group-size-bytes": 64 << 20, "partial-progress.max-commits": 3}
    attempt = Attempted(location, tmp_path, conflict, conflict, options=chosen)
    assert attempt.end()["outcome"] == "succeeded" and len(attempt.asked) == 3
    for one in attempt.asked:
        assert "'max-file-group-size-bytes', '67108864'" in one and "'partial-progress.max-commits', '3'" in one
    assert "'partial-progress.enabled', 'true'" in attempt.asked[-1]


@pytest.mark.requirement("CARE-11")
def test_parts_that_a_writer_defeats_are_counted_and_what_is_left_is_tried_again_in_smaller_steps(location, tmp_path):
    """With partial progress nothing is raised: the answer of the procedure says it."""

    class Row(dict[str, int]):
        """As far as an answer of Spark is looked at."""

        __fields__ = ("rewritten_data_files_count", "failed_data_files_count")

    def answer(failed: int) -> list[Row]:
        return [Row(rewritten_data_files_count=4, failed_data_files_count=failed)]

    attempt = Attempted(location, tmp_path, options={"partial-progress.enabled": True})
    attempt.session.sql.return_value.collect.side_effect = [answer(3), answer(1), answer(0)]
    result = attempt.end()["error"]["result"]
    assert (result["conflicts"], result["files_defeated"], len(attempt.asked)) == (2, 4, 3)
    sizes = [int(found[1]) for one in attempt.asked if (found := re.search("group-size-bytes', '([0-9]+)'", one))]
    assert len(sizes) == 2 and sizes[1] <= sizes[0]
    whole = Attempted(location, tmp_path, options={"partial-progress.enabled": True, "rewrite-all": True})
    whole.session.sql.return_value.collect.side_effect = [answer(3)]
    assert whole.end()["error"]["result"]["files_defeated"] == 3


def test_other_faults_are_not_tried_again_and_named_by_their_kind(location, tmp_path):
    attempt = Attempted(location, tmp_path, RuntimeError("Cannot find field 'nowhere' in struct"))
    end = attempt.end()
    assert (end["outcome"], end["error"]["code"], len(attempt.asked)) == ("failed", "program.error", 1)
    down = Attempted(location, tmp_path, RuntimeError("UncheckedSQLException: Failed to connect"))
    assert down.end()["error"]["code"] == "lake.catalog"


@pytest.mark.requirement("CARE-11")
def test_the_snapshots_that_a_run_is_made_with_to_keep_are_the_ones_that_stay(location, tmp_path):
    """From what the scheduler hands over to what Spark is asked."""
    ids = [one["snapshot-id"] for one in open_table(location, {}).metadata["snapshots"]]
    wish = Wish(
        table="lake.raw.t", operation=Operation.EXPIRE_SNAPSHOTS, options={"older_than": 1_000_000}, keep=[ids[2]]
    )
    attempt = Attempted(location, tmp_path, **arguments_of(wish))
    end = attempt.end()
    assert end["error"]["result"]["kept_snapshots"] == 3
    (asked,) = attempt.asked
    assert [one for one in ids if str(one) in asked] == ids[:2]


@pytest.mark.requirement("CARE-2")
def test_wrong_options_reach_nothing(location, tmp_path):
    attempt = Attempted(location, tmp_path, options={"target-file-size": 1})
    end = attempt.end()
    assert (end["outcome"], end["error"]["code"], attempt.asked) == ("failed", "invalid", [])
    assert "did you mean 'target-file-size-bytes'" in end["error"]["message"]


@pytest.mark.requirement("CARE-2", "CARE-10")
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_sort_by_a_column_that_is_not_there_reaches_nothing(location, tmp_path, dry_run):
    attempt = Attempted(location, tmp_path, options={"strategy": "sort", "sort_order": "nope"}, dry_run=dry_run)
    end = attempt.end()
    assert (end["outcome"], end["error"]["code"], attempt.asked) == ("failed", "maintenance.no_column", [])
    assert end["error"]["message"].startswith("there is no column 'nope' in lake.raw.t (it has: n)")
