"""A run reads exactly what is new: the rows that its table has at the end of the range and had not at its beginning."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tidegate.domain.programs import PySpark, SparkSql
from tidegate.pipeline.session import iceberg_catalog
from tidegate.ports.spark import DriverSpec

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PROGRAMS = Path(__file__).with_name("programs.py")
COPY = "'write.delete.mode'='copy-on-write', 'write.update.mode'='copy-on-write', 'write.merge.mode'='copy-on-write'"
MERGE = COPY.replace("copy-on-write", "merge-on-read")


def history(lake, table: str) -> list[int]:
    """The snapshots of the table's line, oldest first."""
    spec = DriverSpec(home=str(lake.home), catalog_url=lake.url, settings=lake.settings)
    catalog = iceberg_catalog(spec)
    metadata = catalog.load_table(table).metadata
    catalog.engine.dispose()
    parents = {one.snapshot_id: one.parent_snapshot_id for one in metadata.snapshots}
    line, at = [], metadata.current_snapshot_id
    while at in parents:
        line.append(at)
        at = parents[at]
    return line[::-1]


def reads(lake, table: str, ranges: list[tuple[int | None, int | None]], isolation: str = "shared") -> list[Any]:
    """What a program reads for each range; the first one is its own input."""
    (begin, end), *others = ranges
    report, log = lake.run(
        PySpark(entry=f"{PROGRAMS}:inputs", isolation=isolation),
        arguments={"ranges": others},
        inputs={table: {"from_snapshot": begin, "to_snapshot": end, "rows": 1, "bytes": 1, "partitions": ["day=1"]}},
    )
    assert report.outcome == "succeeded", log
    [line] = [line for line in log.splitlines() if "INPUTS " in line]
    return json.loads(line.partition("INPUTS ")[2])


def less(rows: list[Any], before: list[Any]) -> list[Any]:
    """The rows of a multiset that are not in the other."""
    left = list(rows)
    for one in before:
        if one in left:
            left.remove(one)
    return sorted(left, key=str)


@pytest.mark.requirement("DATA-11", "LAKE-1")
@pytest.mark.parametrize("mode", [COPY, MERGE], ids=["copy-on-write", "merge-on-read"])
def test_every_range_of_any_history_reads_what_the_table_gained(lake, mode):
    """The oracle is the table itself at both ends. Appends, updates, deletes, overwrites and compaction, in a row."""
    name = f"raw.history_{'copy' if mode is COPY else 'merge'}"
    lake.sql(
        f"CREATE NAMESPACE IF NOT EXISTS lake.raw; CREATE TABLE lake.{name} (id bigint, day int) USING iceberg "
        f"PARTITIONED BY (day) TBLPROPERTIES ({mode});"
        f"INSERT INTO lake.{name} VALUES (1, 1), (2, 1);"
        f"INSERT INTO lake.{name} VALUES (3, 2), (3, 2);"
        f"UPDATE lake.{name} SET id = 20 WHERE id = 2;"
        f"INSERT INTO lake.{name} VALUES (5, 1);"
        f"DELETE FROM lake.{name} WHERE id = 1;"
        f"INSERT OVERWRITE lake.{name} VALUES (9, 9)"
    )
    line = history(lake, name)
    assert len(line) == 6
    whole = reads(lake, f"lake.{name}", [(None, at) for at in line])
    at = {None: [], **{one: told["rows"] for one, told in zip(line, whole, strict=True)}}
    assert [told["whole"] for told in whole] == [len(at[one]) for one in line]
    ranges = list(itertools.combinations([None, *line], 2))
    found = reads(lake, f"lake.{name}", ranges)
    for (begin, end), told in zip(ranges, found, strict=True):
        assert told["rows"] == less(at[end], at[begin]), (line.index(end), begin and line.index(begin))
        assert told["columns"] == ["id", "day"]


@pytest.mark.requirement("DATA-11")
def test_a_rerun_reads_the_identical_rows_although_the_table_moved_on(lake):
    lake.sql(
        "CREATE NAMESPACE IF NOT EXISTS lake.raw; CREATE TABLE lake.raw.moving (id bigint, day int) USING iceberg;"
        "INSERT INTO lake.raw.moving VALUES (1, 1); INSERT INTO lake.raw.moving VALUES (2, 1);"
        "INSERT INTO lake.raw.moving VALUES (3, 1)"
    )
    first, second, third = history(lake, "raw.moving")
    ranges = [(first, third), (second, third), (first, second), (None, second), (third, third), (None, None)]
    before = reads(lake, "lake.raw.moving", ranges)
    assert [told["rows"] for told in before] == [[[2, 1], [3, 1]], [[3, 1]], [[2, 1]], [[1, 1], [2, 1]], [], []]
    report, log = lake.run(
        SparkSql(
            sql="CALL lake.system.rewrite_data_files(table => 'raw.moving', options => map('rewrite-all', 'true'));"
            "ALTER TABLE lake.raw.moving ADD COLUMN more string; ALTER TABLE lake.raw.moving RENAME COLUMN day TO d;"
            "INSERT INTO lake.raw.moving VALUES (4, 2, 'x'); DELETE FROM lake.raw.moving WHERE id = 2",
            isolation="process",
        )
    )
    assert report.outcome == "succeeded", log
    for isolation in ("shared", "process"):
        after = reads(lake, "lake.raw.moving", ranges[:-1], isolation)
        assert after == before[:-1]
    # The compaction itself brought nothing.
    line = history(lake, "raw.moving")
    [told] = reads(lake, "lake.raw.moving", [(third, line[3])])
    assert told["rows"] == []


@pytest.mark.requirement("DATA-11")
def test_an_expired_range_says_what_to_do(lake):
    lake.sql(
        "CREATE NAMESPACE IF NOT EXISTS lake.raw; CREATE TABLE lake.raw.short (id bigint) USING iceberg;"
        "INSERT INTO lake.raw.short VALUES (1); INSERT INTO lake.raw.short VALUES (2);"
        "INSERT INTO lake.raw.short VALUES (3); INSERT INTO lake.raw.short VALUES (4)"
    )
    first, second, third, fourth = history(lake, "raw.short")
    report, log = lake.run(
        SparkSql(
            sql="CALL lake.system.expire_snapshots(table => 'raw.short', older_than => current_timestamp(),"
            " retain_last => 2)",
            isolation="process",
        )
    )
    assert report.outcome == "succeeded", log
    lost, kept, end = reads(lake, "lake.raw.short", [(first, fourth), (second, fourth), (first, second)])
    assert "input.expired" in lost["rows"] and "history.expire" in lost["rows"]
    assert lost["whole"] == 4
    assert kept["rows"] == [[3], [4]]  # its beginning expired, but nothing behind it
    assert "input.expired" in end["rows"] and end["whole"] == "input.expired"


@pytest.mark.requirement("DATA-11")
def test_a_script_reads_its_input_and_other_names_are_told_what_there_is(lake):
    lake.sql(
        "CREATE NAMESPACE IF NOT EXISTS lake.raw; CREATE TABLE lake.raw.feed (id bigint) USING iceberg;"
        "INSERT INTO lake.raw.feed VALUES (1); INSERT INTO lake.raw.feed VALUES (2), (3)"
    )
    first, second = history(lake, "raw.feed")
    given = {"from_snapshot": first, "to_snapshot": second, "rows": 2, "bytes": 1, "partitions": ["day=2"]}
    report, log = lake.run(PySpark(entry=str(PROGRAMS.with_name("script_inputs.py"))), inputs={"lake.raw.feed": given})
    assert report.outcome == "succeeded", log
    assert "script reads lake.raw.feed ('day=2',) 2 3" in log
    [stream] = reads(lake, "clicks", [(None, 5)])
    assert stream["rows"].startswith("input.no_table")
