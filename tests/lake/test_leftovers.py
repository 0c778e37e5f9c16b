"""Which files a dead run has left, by what lies there and what snapshots have."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lake.conftest import BY_DAY, SCHEMA, rows
from tidegate.domain.instants import MINUTE, SECOND
from tidegate.lake.assessing import open_table
from tidegate.lake.leftovers import Dead, Lying, known_since, left_by

FIRST, SECOND_RUN = Dead("1-7-0", 10 * MINUTE, 20 * MINUTE), Dead("2-7-0", 40 * MINUTE, 50 * MINUTE)


def write(number: int, at: int, files: int = 2) -> list[Lying]:
    """The files of one write, a second apart."""
    names = [f"/lake/raw/t/data/0000{n}-{n}-{UUID(int=number)}-00001.parquet" for n in range(files)]
    return [Lying(name, 100, at + n * SECOND) for n, name in enumerate(names)]


@pytest.mark.requirement("CARE-11")
def test_what_was_written_while_a_run_was_at_work_and_is_in_no_snapshot_is_its_own():
    ours, committed, before = write(1, 12 * MINUTE), write(2, 13 * MINUTE), write(3, 5 * MINUTE)
    going_on, later = write(4, 20 * MINUTE - SECOND, 9), write(5, 45 * MINUTE)
    found = [*ours, *committed, *before, *going_on, *later, Lying("/lake/raw/t/data/theirs.parquet", 1, 12 * MINUTE)]
    left = left_by([FIRST, SECOND_RUN], found, {committed[1].path})
    assert {one.run: one.files for one in left} == {"1-7-0": tuple(ours), "2-7-0": tuple(later)}
    assert left[0].told() == {"run": "1-7-0", "files": 2, "bytes": 200}


@pytest.mark.requirement("CARE-11")
@given(
    st.lists(st.tuples(st.integers(0, 60 * 60), st.booleans()), max_size=12),
    st.lists(st.tuples(st.integers(0, 3600), st.integers(0, 900)), max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_no_file_of_a_snapshot_is_ever_called_left_and_none_has_two_owners(writes, deaths):
    files = [(write(number, at * SECOND), committed) for number, (at, committed) in enumerate(writes)]
    dead = [Dead(str(n), at * SECOND, (at + long) * SECOND) for n, (at, long) in enumerate(deaths)]
    known = {one.path for some, committed in files if committed for one in some[:1]}
    left = left_by(dead, [one for some, _ in files for one in some], known)
    told = [one.path for whole in left for one in whole.files]
    assert len(told) == len(set(told)) and not set(told) & {one.path for some, yes in files if yes for one in some}


@pytest.mark.requirement("CARE-11")
def test_the_files_of_a_table_are_known_as_its_snapshots_have_them(catalog, tmp_path):
    """Data, manifests, their lists and the metadata files: of all that lies there, nothing is left over."""
    catalog.create_namespace("raw")
    table = catalog.create_table("raw.t", SCHEMA, partition_spec=BY_DAY)
    for day in range(3):
        table.append(rows((f"0{day}", day), ("00", day)))
    found = [
        Lying(path.as_uri(), 1, path.stat().st_mtime_ns // 1000)
        for path in Path(table.location().removeprefix("file:")).rglob("*.*")
    ]
    stray = Lying(str(table.location()) + f"/data/day=00/00000-1-{UUID(int=1)}-00001.parquet", 7, found[0].at)
    first, last = min(one.at for one in found), max(one.at for one in found)
    opened = open_table(table.metadata_location, {})
    dead = [Dead("1-7-0", first, last)]
    assert left_by(dead, found, known_since(opened, first)) == []
    [left] = left_by(dead, [*found, stray], known_since(opened, first))
    assert left.files == (stray,)
