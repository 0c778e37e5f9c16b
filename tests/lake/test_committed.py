"""RUN-7: a retry looks for the commits of its run in every table, and tables that are broken do not stop it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from lake.conftest import SCHEMA, rows
from tidegate.domain.ids import AttemptKey, RunKey, ScheduleId
from tidegate.pipeline import committed
from tidegate.ports.spark import ATTEMPT, RUN_KEY, DriverSpec, SparkSettings

RUN = RunKey(1_800_000_000_000_000, ScheduleId(7), 0)


@pytest.fixture
def spec(database_url: str, tmp_path: Path) -> DriverSpec:
    return DriverSpec(home=str(tmp_path), catalog_url=database_url, settings=SparkSettings())


def make(catalog: SqlCatalog, name: str, run: RunKey | None = None) -> Path:
    """A table with a commit, of a run; its metadata file."""
    catalog.create_namespace_if_not_exists("raw")
    table = catalog.create_table(f"raw.{name}", SCHEMA)
    stamp = {} if run is None else {RUN_KEY: str(run), ATTEMPT: "1"}
    table.append(rows(("01", 1)), snapshot_properties=stamp)
    return Path(table.metadata_location.removeprefix("file://"))


@pytest.mark.requirement("RUN-7")
def test_the_commits_of_a_run_are_found_beside_tables_that_are_gone_or_garbled(
    catalog: SqlCatalog, spec: DriverSpec, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a_gone", "b_garbled", "c_empty"):
        place = make(catalog, name)
        if name == "a_gone":
            shutil.rmtree(place.parent.parent)
        else:
            place.write_text("{ no longer" if name == "b_garbled" else "")
    make(catalog, "mine", RUN)
    make(catalog, "others", RunKey(RUN.slot, ScheduleId(8), 0))
    [found] = committed.find_commits(spec, AttemptKey(RUN, 2), since=0)
    assert (found.table, found.attempt) == ("lake.raw.mine", 1)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3 and "lake.raw.a_gone is passed over: its metadata file" in said[0], said
    assert "is not there" in said[0] and "cannot be understood" in said[1]


@pytest.mark.requirement("RUN-7")
def test_a_file_that_a_later_commit_tidied_away_is_no_reason_to_pass_a_table_over(
    catalog: SqlCatalog, spec: DriverSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make(catalog, "mine", RUN)
    asked = committed._tables
    old = place.with_name("00000-away.metadata.json")
    answers = [[("lake.raw.mine", f"file://{old}")]]

    def tables(given: DriverSpec) -> Any:
        return answers.pop() if answers else asked(given)

    monkeypatch.setattr(committed, "_tables", tables)
    [found] = committed.find_commits(spec, AttemptKey(RUN, 2), since=0)
    assert found.table == "lake.raw.mine" and not answers


@pytest.mark.requirement("RUN-7")
def test_a_store_that_does_not_answer_fails_the_look(catalog: SqlCatalog, spec: DriverSpec, database_url: str) -> None:
    """Else a run that has committed there would run twice."""
    place = make(catalog, "mine", RUN)
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "UPDATE lake.iceberg_tables SET metadata_location = %s", [f"file://{place}/under-a-file.metadata.json"]
        )
    with pytest.raises(OSError, match="Not a directory"):
        committed.find_commits(spec, AttemptKey(RUN, 2), since=0)
