"""What is measured of tables, against what PyIceberg says of the same files, and what happens when files are broken."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType, TimestampType

from tidegate.domain.instants import DAY, SECOND
from tidegate.domain.maintenance.wire import health_of
from tidegate.lake import assessing
from tidegate.lake.assessing import Memory, assess
from tidegate.lake.manifests import Names
from tidegate.lake.surveying import LocalSurveyor
from tidegate.ports.tables import SurveyOrder

pytestmark = pytest.mark.requirement("CARE-5")
SCHEMA = Schema(
    NestedField(1, "day", StringType(), required=False),
    NestedField(2, "n", LongType(), required=False),
    NestedField(3, "at", TimestampType(), required=False),
)
BY_DAY = PartitionSpec(
    PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="day"),
    PartitionField(source_id=3, field_id=1001, transform=DayTransform(), name="at_day"),
)


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    made = SqlCatalog("lake", uri="sqlite:///:memory:", warehouse=tmp_path.as_uri())
    made.create_namespace("raw")
    yield made
    made.engine.dispose()


def make(catalog: SqlCatalog, name: str = "flights", *, partitioned: bool = True, **properties: str) -> Table:
    given = {"partition_spec": BY_DAY} if partitioned else {}
    return catalog.create_table(f"raw.{name}", SCHEMA, properties=properties, **given)


def rows(*days: str) -> pa.Table:
    at = pa.array([1_700_000_000_000_000 + number * DAY for number in range(len(days))], pa.timestamp("us"))
    return pa.table({"day": pa.array(days, pa.string()), "n": pa.array(range(len(days)), pa.int64()), "at": at})


def now_of(table: Table) -> int:
    return table.metadata.last_updated_ms * 1000 + SECOND


def test_every_figure_is_what_the_files_are(catalog):
    table = make(catalog)
    for days in (("a", "b", "b"), ("b", "c"), ("a",)):
        table.append(rows(*days))
    table.delete(EqualTo("day", "c"))
    found = assess(table.metadata_location, {}, now_of(table), Memory())
    files = table.inspect.data_files()
    sizes = files["file_size_in_bytes"].to_pylist()
    assert (found.data_files, found.data_bytes, found.rows) == (len(sizes), sum(sizes), 5)
    assert (found.smallest_file, found.largest_file) == (min(sizes), max(sizes))
    assert (found.small_files, found.large_files, found.delete_files) == (len(sizes), 0, 0)
    assert found.manifests == len(table.inspect.manifests()) and found.snapshots == 4
    assert found.manifest_bytes == sum(table.inspect.manifests()["length"].to_pylist())
    partitions = Counter(json.dumps(one, default=str, sort_keys=True) for one in files["partition"].to_pylist())
    assert found.partitions == len(partitions) and found.most_files_in_partition == max(partitions.values())
    assert found.files is not None
    assert sorted(size for one in found.files for size in one.sizes) == sorted(sizes)
    assert {one.partition for one in found.files} >= {"day=a/at_day=2023-11-14", "day=b/at_day=2023-11-15"}
    assert found.row_delete_commits == 1, "the commit that took rows away is one that a rewrite may collide with"


def test_what_a_manifest_held_is_read_once_and_stays_true(catalog, monkeypatch):
    table = make(catalog)
    memory = Memory()
    for number in range(3):
        table.append(rows("a", f"b{number}"))
        kept = assess(table.metadata_location, {}, now_of(table), memory)
        assert kept == assess(table.metadata_location, {}, now_of(table), Memory())
    read: list[str] = []
    plain = assessing.entries
    monkeypatch.setattr(assessing, "entries", lambda io, one, *how: read.append(one.path) or plain(io, one, *how))
    assess(table.metadata_location, {}, now_of(table), memory)
    assert not read
    table.append(rows("z"))
    assess(table.metadata_location, {}, now_of(table), memory)
    assert len(read) == 1


@pytest.mark.requirement("CARE-7")
def test_where_files_of_an_older_spec_go_is_told_by_their_bounds(catalog):
    table = make(catalog, partitioned=False)
    table.append(rows("a", "b", "b"))
    table.append(rows("a", "a"))
    memory = Memory()
    assert all(one.boxes is None for one in assess(table.metadata_location, {}, now_of(table), memory).files or ())
    with table.update_spec() as update:
        update.add_field("at", DayTransform(), "at_day")
    table.append(rows("c"))
    older, newer = sorted(
        assess(table.metadata_location, {}, now_of(table), memory).files or (), key=lambda one: one.spec
    )
    day = 1_700_000_000_000_000 // DAY
    assert newer.boxes is None and set((older.boxes or {}).values()) == {((day, day + 2),), ((day, day + 1),)}
    with table.update_spec() as update:
        update.add_field("day", IdentityTransform(), "day")
    older, newer = sorted(
        assess(table.metadata_location, {}, now_of(table), memory).files or (), key=lambda one: one.spec
    )
    assert [len(one.boxes or {}) for one in (older, newer)] == [1, 1], "of a text only one value can be counted"


def test_row_groups_of_a_file_are_known(catalog):
    table = make(catalog, partitioned=False, **{"write.parquet.row-group-limit": "4"})
    table.append(rows(*"abcdefghij"))
    table.append(rows("a"))
    [files] = assess(table.metadata_location, {}, now_of(table), Memory()).files or ()
    [pieces] = files.pieces.values()
    assert len(pieces) == 3 and 0 < max(files.sizes) - sum(pieces) < 10, "all but the magic number before the first"


@settings(max_examples=25, deadline=None)
@given(st.none() | st.text(max_size=8), st.none() | st.integers(-1_000_000, 1_000_000))
def test_partitions_are_called_as_in_the_paths_of_files(day, at_day):
    record = Record(day, at_day)
    names = Names(
        {"partition-specs": [BY_DAY.model_dump(by_alias=True)], "schemas": [SCHEMA.model_dump(by_alias=True)]}
    )
    try:
        path = BY_DAY.partition_to_path(record, SCHEMA)
    except (ValueError, OverflowError):  # a day that Python does not know
        path = f"day={'null' if day is None else day}/at_day={at_day}"
    assert names.of(BY_DAY.spec_id, record) == path


def test_a_small_memory_forgets_and_is_still_right(catalog):
    table = make(catalog)
    memory = Memory(most=3)
    for number in range(4):
        table.append(rows("a", f"b{number}"))
    truth = assess(table.metadata_location, {}, now_of(table), Memory())
    assert [assess(table.metadata_location, {}, now_of(table), memory) for _ in range(3)] == [truth] * 3


@pytest.mark.parametrize("partitioned", [True, False])
def test_an_empty_table_has_no_files_and_nothing_unknown(catalog, partitioned):
    table = make(catalog, partitioned=partitioned)
    found = assess(table.metadata_location, {}, now_of(table), Memory())
    assert found.fault is None and found.snapshot is None
    assert (found.data_files, found.manifests, found.snapshots, found.files) == (0, 0, 0, ())


def test_a_table_with_broken_metadata_is_set_aside_and_others_go_on(catalog, tmp_path):
    tables = [make(catalog, name) for name in ("fine", "cut", "no_list", "no_manifest", "also_fine")]
    for one in tables:
        one.append(rows("a"))
    fine, cut, no_list, no_manifest, also = tables
    path(cut.metadata_location).write_text(path(cut.metadata_location).read_text()[:100])
    path(no_list.current_snapshot().manifest_list).unlink()
    manifest = path(no_manifest.current_snapshot().manifests(no_manifest.io)[0].manifest_path)
    manifest.write_bytes(manifest.read_bytes()[:300])
    gone = f"{tmp_path.as_uri()}/gone.metadata.json"
    places = {name: one.metadata_location for name, one in zip("abcde", tables, strict=True)} | {"f": gone}
    orders = [SurveyOrder(table=name, location=place, now=now_of(fine)) for name, place in places.items()]
    found = {one.table: one for one in asyncio.run(LocalSurveyor().survey(orders))}
    assert {name for name, one in found.items() if one.error} == set("bcdf")
    assert all(one.health is None for one in found.values() if one.error)
    assert "FileNotFoundError" in found["f"].error and "gone.metadata.json" in found["f"].error
    assert found["e"].health is not None and health_of(found["e"].health).rows == 1


def path(location: str) -> Path:
    return Path(urlsplit(location).path)
