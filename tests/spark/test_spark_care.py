"""Maintenance of real tables, on real Spark and Iceberg: what it does, what it leaves alone, and what may break."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def written(lake, name: str, commits: int = 6, *, more: str = "") -> str:
    """A table of that many commits of ten rows."""
    rows = "INSERT INTO lake.care.{} SELECT id, id % 2 FROM range({}, {}, 1, 1);"
    inserts = "".join(rows.format(name, 10 * n, 10 * n + 10) for n in range(commits))
    make = f"CREATE NAMESPACE IF NOT EXISTS lake.care; CREATE TABLE lake.care.{name} (id BIGINT, part BIGINT) {more};"
    lake.sql(make + inserts)
    return f"care.{name}"


@pytest.mark.requirement("CARE-2", "CARE-10", "CARE-11", "CARE-12")
def test_a_table_of_small_commits_is_put_in_order_and_what_changed_is_counted_from_its_snapshots(lake):
    table = written(lake, "small")
    before = lake.content(table)
    dry = lake.care(table, "rewrite_data_files", dry_run=True)
    assert dry["code"] == "maintenance.dry_run" and len(lake.snapshots(table)) == 6
    done = lake.care(table, "rewrite_data_files")
    assert (done["code"], done["changed"], done["files_after"], done["rows_after"]) == (
        *("maintenance.done", True),
        *(1, 60),
    )
    assert (done["files_removed"], done["bytes_rewritten"]) == (dry["predicted"]["removes"], dry["predicted"]["bytes"])
    again = lake.care(table, "rewrite_data_files")
    assert (again["code"], again["changed"]) == ("maintenance.noop", False), "a predicted no-op is not launched"
    assert lake.care(table, "rewrite_manifests")["manifests_after"] == 1
    ids = [one["snapshot-id"] for one in lake.metadata(table)["snapshots"]]
    old = {"options": {"older_than": "PT1S"}}
    kept = lake.care(table, "expire_snapshots", keep_snapshots=[str(ids[5])], **old)
    assert (kept["snapshots_expired"], kept["kept_snapshots"]) == (5, 2), "a cursor at the sixth needs what follows"
    assert lake.care(table, "expire_snapshots", **old)["snapshots_after"] == 1
    assert lake.care(table, "compute_table_stats")["changed"]
    assert lake.care(table, "compute_table_stats")["code"] == "maintenance.noop"
    assert lake.content(table) == before


@pytest.mark.requirement("CARE-11")
def test_orphans_go_when_they_are_old_and_few_and_nobody_elses(lake):
    table = written(lake, "orphans", 2)
    folder = Path(lake.metadata(table)["location"].removeprefix("file:")) / "data"
    for name, age in (("old", 4), ("new", 1)):
        (folder / f"{name}.parquet").write_bytes(b"left behind")
        seen = (folder / f"{name}.parquet").stat().st_mtime - age * 86_400
        os.utime(folder / f"{name}.parquet", (seen, seen))
    dry = lake.care(table, "remove_orphan_files", dry_run=True)
    assert (dry["code"], dry["orphans"]) == ("maintenance.dry_run", 1) and (folder / "old.parquet").exists()
    many = lake.care(table, "remove_orphan_files", outcome="failed")
    assert many["code"] == "maintenance.orphans" and "max_share" in many["message"]
    done = lake.care(table, "remove_orphan_files", options={"max_share": 0.5})
    assert done["orphans_removed"] == 1
    assert not (folder / "old.parquet").exists() and (folder / "new.parquet").exists()
    lake.sql(f"CREATE TABLE lake.care.nested (id BIGINT) LOCATION '{folder.parent}/nested'")
    shared = lake.care(table, "remove_orphan_files", outcome="failed")
    assert "shares its location with lake.care.nested" in shared["message"]


@pytest.mark.requirement("CARE-2", "CARE-10")
def test_what_is_wrong_is_said_in_its_own_words(lake):
    table = written(lake, "faulty", 6)
    wrong = lake.care(table, "rewrite_data_files", outcome="failed", options={"target-file-size": 1})
    assert wrong["code"] == "invalid" and "did you mean 'target-file-size-bytes'" in wrong["message"]
    column = lake.care(table, "rewrite_data_files", outcome="failed", options={"sort_order": "nowhere ASC"})
    assert column["code"] == "maintenance.no_column" and "there is no column 'nowhere'" in column["message"]
    where = lake.care(
        table, "rewrite_data_files", outcome="failed", options={"where": "nowhere = 1", "rewrite-all": True}
    )
    assert "nowhere" in where["message"] and "\n" not in where["message"] and not where["changed"]
    missing = lake.care("care.never", "rewrite_data_files", outcome="failed")
    assert missing["code"] == "maintenance.no_table"
    snapshot = lake.metadata(table)["snapshots"][-1]
    Path(snapshot["manifest-list"].removeprefix("file:")).unlink()
    broken = lake.care(table, "rewrite_data_files", outcome="failed")
    assert broken["code"] == "maintenance.unreadable" and "snap-" in broken["message"]
