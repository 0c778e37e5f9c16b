"""A lake of many tables with real Iceberg metadata: a few tables are written by PyIceberg, the others are copies of
their metadata under names of their own. Manifests are written uncompressed, so that a name of the same length can take
the other's place; data files are only named.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

COMMITS = 8
SHAPES = 12
"""Tables that are really written: of one to so many partitions a commit, some without any."""


@dataclass(frozen=True)
class Lake:
    """`first`: each table's metadata file, after its commits; `second`: after one commit more, of as many as asked."""

    first: list[str]
    second: list[str]


@dataclass(frozen=True)
class _Shape:
    """A table that was really written: its newest two metadata files by name, and what is in all of its files."""

    name: str
    first: str
    second: str
    files: dict[str, bytes]


def generate(folder: Path, tables: int, changed: int) -> Lake:
    """Tables of eight commits, so of eight manifests, and one to 96 data files."""
    warnings.simplefilter("ignore")  # PyIceberg's own, of every catalog that it makes
    shapes = [_written(folder, number) for number in range(SHAPES)]
    first, second = [], []
    for number in range(tables):
        shape = shapes[number % SHAPES]
        name = f"copy{number:07}"
        first.append(_copied(folder, shape, name, newer=number < changed))
        if number < changed:
            second.append(str(folder / "raw" / name / "metadata" / shape.second))
    return Lake(first, second)


def _written(folder: Path, number: int) -> _Shape:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import LongType, NestedField

    catalog = SqlCatalog("lake", uri="sqlite:///:memory:", warehouse=str(folder))
    catalog.create_namespace("raw")
    fields = [NestedField(at + 1, f"column_{at}", LongType(), required=False) for at in range(10)]
    by_day = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="day"))
    given: dict[str, Any] = {"partition_spec": by_day} if number else {}
    name = f"real{number:07}"
    place = folder / "raw" / name
    table = catalog.create_table(
        f"raw.{name}",
        Schema(*fields),
        location=str(place),
        properties={"write.avro.compression-codec": "null"},
        **given,
    )
    metadata = []
    for commit in range(COMMITS + 1):
        days = pa.array([commit + day for day in range(max(1, number))], pa.int64())
        table.append(pa.table({f"column_{at}": days for at in range(10)}))
        metadata.append(Path(urlsplit(table.metadata_location).path))
    catalog.engine.dispose()
    files = {path.name: path.read_bytes() for path in (place / "metadata").iterdir()}
    return _Shape(name, metadata[-2].name, metadata[-1].name, files)


def _copied(folder: Path, shape: _Shape, name: str, *, newer: bool) -> str:
    """What a reader of the newest snapshot opens: the metadata file, its manifest list, all manifests."""
    target = folder / "raw" / name / "metadata"
    target.mkdir(parents=True)
    newest = {shape.first, shape.second} if newer else {shape.first}
    for path, content in shape.files.items():
        if path.endswith(".avro") or path in newest:
            (target / path).write_bytes(content.replace(shape.name.encode(), name.encode()))
    return str(target / shape.first)
