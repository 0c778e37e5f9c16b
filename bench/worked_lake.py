"""A lake of real tables with real data files of many shapes, for benchmarks that rewrite them.

Everything is Iceberg's usual by 1:256: files of two megabytes instead of 512, row groups of 512 KiB, pages of 4 KiB, so
that hundreds of tables fit a machine and a file is still a thousand times its footer.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

TARGET = 2 << 20
_PAYLOAD = 96
_ROW = _PAYLOAD + 10
"""Bytes of a row in a file, about."""
_PROPERTIES = {
    "write.parquet.row-group-size-bytes": str(TARGET // 4),
    "write.parquet.page-size-bytes": str(TARGET // 512),
    "write.delete.mode": "merge-on-read",
}

Commit = list[tuple[int, float]]
"""Days and how many of a target's bytes come to each."""


@dataclass(frozen=True)
class Worked:
    """A table, and with what options it is to be rewritten, as a policy says them."""

    path: str
    shape: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Shape:
    """`share`: in a hundred tables. `deletes`: by Spark, after everything was written."""

    share: int
    commits: Callable[[random.Random], list[Commit]]
    partitioned: bool = False
    version: int = 2
    deletes: bool = False
    evolves: str = ""


def make(
    catalog: Any, session: SparkSession, count: int, seed: int, *, progress: Callable[[str], None]
) -> Iterator[Worked]:
    """Tables `lake.raw.tN` of the shapes in turn, each different. The same seed makes the same lake."""
    warnings.simplefilter("ignore")  # PyIceberg's own: row groups by bytes are for Spark
    catalog.create_namespace_if_not_exists("raw")
    names = [name for name, shape in SHAPES.items() for _ in range(shape.share)]
    random.Random(seed).shuffle(names)
    for number in range(count):
        rng = random.Random(f"{seed}.{number}")
        shape = names[number % len(names)]
        yield _made(catalog, session, f"t{number}", shape, rng)
        if number % 50 == 49:
            progress(f"{number + 1} tables are written")


def _made(catalog: Any, session: SparkSession, name: str, shape: str, rng: random.Random) -> Worked:
    kind = SHAPES[shape]
    path = f"lake.raw.{name}"
    commits = kind.commits(rng)
    if kind.version == 2:
        _add(_create(catalog, name, kind.partitioned), commits, rng)
    else:
        told = ", ".join(f"'{key}' = '{value}'" for key, value in (_PROPERTIES | {"format-version": "3"}).items())
        columns = "day INT, id BIGINT, payload BINARY"
        session.sql(f"CREATE TABLE {path} ({columns}) USING iceberg PARTITIONED BY (day) TBLPROPERTIES ({told})")
        for commit in commits:
            _insert(session, path, commit)
    if kind.evolves:
        _evolve(catalog.load_table(f"raw.{name}"), kind.evolves)
        if rng.random() < 0.5:
            rows = [_rows(day, share, rng, packs=False) for commit in kind.commits(rng)[:3] for day, share in commit]
            catalog.load_table(f"raw.{name}").append(pa.concat_tables(rows))
    if kind.deletes:
        for _ in range(rng.randrange(1, 3)):
            session.sql(f"DELETE FROM {path} WHERE id % {rng.randrange(2, 9)} = 0 AND day >= {rng.randrange(3)}")
    return Worked(path, shape, _options(rng))


def _create(catalog: Any, name: str, partitioned: bool) -> Table:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import BinaryType, IntegerType, LongType, NestedField

    by_day = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="day"))
    schema = Schema(
        NestedField(1, "day", IntegerType(), required=False),
        NestedField(2, "id", LongType(), required=False),
        NestedField(3, "payload", BinaryType(), required=False),
    )
    given = {"partition_spec": by_day} if partitioned else {}
    made: Table = catalog.create_table(f"raw.{name}", schema, properties=_PROPERTIES, **given)
    return made


def _add(table: Table, commits: list[Commit], rng: random.Random) -> None:
    """A file for each day of each commit; several of those come as one snapshot, which is quicker."""
    packs = rng.random() < 0.3
    folder = Path(urlsplit(table.location()).path) / "data"
    folder.mkdir(parents=True, exist_ok=True)
    step = -(-len(commits) // rng.randrange(1, 5))
    for first in range(0, len(commits), step):
        paths = []
        for day, share in (one for commit in commits[first : first + step] for one in commit):
            paths.append(str(folder / f"{rng.randbytes(8).hex()}.parquet"))
            rows = _rows(day, share, rng, packs)
            group = TARGET // 4 // (_ROW // 2 if packs else _ROW)
            pq.write_table(rows, paths[-1], row_group_size=group, data_page_size=TARGET // 512, compression="zstd")
        table.add_files([f"file:{one}" for one in paths], check_duplicate_files=False)
        table.refresh()


def _rows(day: int, share: float, rng: random.Random, packs: bool) -> pa.Table:
    """Of noise, or of what is half as large when it is written; about so many bytes in either case."""
    wanted = max(1, int(share * TARGET / _ROW)) * (2 if packs else 1)
    noise = rng.randbytes(wanted * _PAYLOAD // (2 if packs else 1))
    text = noise.hex().encode() if packs else noise
    payload = pa.FixedSizeBinaryArray.from_buffers(pa.binary(_PAYLOAD), wanted, [None, pa.py_buffer(text)])
    first = rng.randrange(1 << 40)
    return pa.table(
        {
            "day": pa.array([day] * wanted, pa.int32()),
            "id": pa.array(range(first, first + wanted), pa.int64()),
            "payload": payload.cast(pa.binary()),
        }
    )


def _insert(session: SparkSession, path: str, commit: Commit) -> None:
    """By Spark, for tables of a format that PyIceberg does not write."""
    noise = " || ".join(f"unhex(sha2(concat(id, 'x{part}'), 256))" for part in range(_PAYLOAD // 32))
    for day, share in commit:
        rows = max(1, int(share * TARGET / _ROW))
        session.sql(
            f"INSERT INTO {path} SELECT /*+ COALESCE(1) */ {day}, id, {noise} FROM range(0, {rows}, 1, 1)"
        ).collect()


def _evolve(table: Table, how: str) -> None:
    from pyiceberg.transforms import BucketTransform, IdentityTransform

    with table.update_spec() as update:
        match how:
            case "day":
                update.add_field("day", IdentityTransform(), "by_day")
            case "bucket":
                update.add_field("id", BucketTransform(4), "by_id")
            case _:
                update.remove_field("day")


def _options(rng: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {"target-file-size-bytes": TARGET}
    if rng.random() < 0.2:
        options["min-input-files"] = rng.choice((2, 3, 8))
    if rng.random() < 0.1:
        options["max-file-group-size-bytes"] = 3 * TARGET
    if rng.random() < 0.05:
        options["rewrite-all"] = True
    if rng.random() < 0.05:
        options["max-files-to-rewrite"] = rng.randrange(5, 15)
    if rng.random() < 0.08:
        options |= {"strategy": "sort", "sort_order": "id"}
    return options


# ── shapes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _tiny(rng: random.Random) -> list[Commit]:
    return [[(0, rng.uniform(0.005, 0.1))] for _ in range(rng.randrange(8, 40))]


def _daily(rng: random.Random) -> list[Commit]:
    days = rng.randrange(2, 6)
    return [[(day, rng.uniform(0.005, 0.1)) for day in range(days)] for _ in range(rng.randrange(4, 12))]


def _skewed(rng: random.Random) -> list[Commit]:
    """Most days are closed and have few files; the newest gets all that comes."""
    closed: list[Commit] = [[(day, rng.uniform(0.2, 1.1))] for day in range(rng.randrange(3, 8))]
    return closed + [[(9, rng.uniform(0.005, 0.05))] for _ in range(rng.randrange(6, 25))]


def _mixed(rng: random.Random) -> list[Commit]:
    return [[(0, min(3.0, rng.lognormvariate(-1.6, 1.2)))] for _ in range(rng.randrange(6, 20))]


def _near(rng: random.Random) -> list[Commit]:
    """About as large as they should be."""
    return [[(0, rng.uniform(0.4, 1.2))] for _ in range(rng.randrange(3, 9))]


def _large(rng: random.Random) -> list[Commit]:
    """Some that are to be divided."""
    return [[(0, rng.uniform(1.9, 5.0))] for _ in range(rng.randrange(1, 3))] + _tiny(rng)[: rng.randrange(1, 12)]


def _few(rng: random.Random) -> list[Commit]:
    return [[(day, rng.uniform(0.05, 0.6)) for day in range(3)] for _ in range(rng.randrange(2, 5))]


SHAPES: Mapping[str, _Shape] = {
    "tiny": _Shape(16, _tiny),
    "daily": _Shape(20, _daily, partitioned=True),
    "skewed": _Shape(14, _skewed, partitioned=True),
    "mixed": _Shape(14, _mixed),
    "near": _Shape(8, _near),
    "large": _Shape(8, _large),
    "deleted": _Shape(8, _few, partitioned=True, deletes=True),
    "vectors": _Shape(4, _few, version=3, deletes=True),
    "now by day": _Shape(3, _few, evolves="day"),
    "now by bucket": _Shape(3, _few, partitioned=True, evolves="bucket"),
    "no longer by day": _Shape(2, _few, partitioned=True, evolves="none"),
}
"""So many of a hundred tables are of a shape."""
