"""What the files of a table are, read from its manifests: sizes and deletes by partition, and nothing else.

A manifest never changes, so what was read of one is a `Tally` that may be kept by its path for ever. Of an entry only
a few fields are read, and what it takes to read a schema is prepared once for each schema: taking a schema apart costs
PyIceberg ten times what reading a small manifest does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any
from urllib.parse import quote_plus

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import META_SCHEMA, AvroFileHeader
from pyiceberg.avro.reader import NoneReader, Reader, StructReader
from pyiceberg.avro.resolver import construct_reader
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import Transform
from pyiceberg.typedef import Record
from pyiceberg.types import MapType, NestedField, StringType, StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from tidegate.lake.reaching import Box, Reach

DATA, POSITION, EQUALITY = 0, 1, 2
"""What a file of a manifest is: rows, deletes by position (deletion vectors too), deletes by equal values."""
DELETED = 2
"""The status of an entry whose file is no longer in the table."""
_FILE_PATH = 2147483546
"""The column of position deletes that names the data file; its bounds tell which one when there is only one."""

_LIST = (500, 501, 502, 517, 503, 515, 504, 505)
"""path, length, spec, content, added_snapshot_id, sequence_number, added_files_count, existing_files_count"""
_ENTRY = (0, 2, 1, 3)
"""status, data_file, snapshot_id, sequence_number"""
_FILE = (134, 100, 103, 104, 143, 145, 102, 132)
"""content, file_path, record_count, file_size_in_bytes, referenced_data_file, content_size_in_bytes, partition,
split_offsets"""
_BOUNDS = (125, 128)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A line of a snapshot's manifest list. `files`: its live ones, None where the writer did not say (format 1)."""

    path: str
    length: int
    spec: int
    deletes: bool
    snapshot: int | None
    sequence: int
    files: int | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A live file. `snapshot`: what added it; `sequence`: what deletes compare themselves with. `scope`: the one data
    file that a file of position deletes is about, None when it is many. `vector`: it is a deletion vector. `pieces`:
    the bytes of each row group where there are several; empty where the writer did not say; None: it is one. `box`:
    where its rows go in the current partition spec, None: not asked, or not known."""

    spec: int
    partition: str
    content: int
    path: str
    rows: int
    size: int
    snapshot: int | None
    sequence: int
    scope: str | None = None
    vector: bool = False
    pieces: tuple[int, ...] | None = None
    box: Box | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """The live files of one manifest in one partition. `sizes`: bytes of data files, in the manifest's order;
    `snapshots`: those that added any of them; then delete files by kind, their bytes, and the rows they name.
    `pieces`: (place in `sizes`, row groups) of files that are not one row group; `boxes`: (place, box) where known."""

    spec: int
    partition: str
    sizes: tuple[int, ...] = ()
    snapshots: tuple[int, ...] = ()
    rows: int = 0
    position: int = 0
    vectors: int = 0
    equality: int = 0
    delete_bytes: int = 0
    deleted_rows: int = 0
    pieces: tuple[tuple[int, tuple[int, ...]], ...] = ()
    boxes: tuple[tuple[int, Box], ...] = ()


Tally = tuple[Group, ...]
"""All that is kept of a manifest."""


def opener(properties: Mapping[str, str], location: str) -> FileIO:
    """What opens a table's files; one for all tables of a catalog."""
    return _opener(tuple(sorted(properties.items())), location.partition("://")[0])


@lru_cache(64)
def _opener(properties: tuple[tuple[str, str], ...], scheme: str) -> FileIO:
    return load_file_io(dict(properties), f"{scheme}://x" if scheme and ":" not in scheme else scheme)


# ── reading ────────────────────────────────────────────────────────────────────────────────────────────────────────


def manifest_list(io: FileIO, location: str) -> list[Manifest]:
    """The manifests of a snapshot."""
    found = []
    for path, length, spec, content, snapshot, sequence, added, existing, *_ in _records(io, location, "list"):
        files = None if added is None or existing is None else added + existing
        found.append(Manifest(path, length, spec, content == 1, snapshot, sequence or 0, files))
    return found


def entries(io: FileIO, manifest: Manifest, names: Names, reach: Reach) -> Iterator[Entry]:
    """The live files of a manifest."""
    divided = reach.asks(manifest.spec) and not manifest.deletes
    what = "bounds" if divided or manifest.deletes else "data"
    for status, file, snapshot, sequence, *_ in _records(io, manifest.path, what):
        if status == DELETED:
            continue
        content, path, rows, size, scope, part, partition, offsets, *bounds = file._data
        vector = scope is not None
        if content == POSITION and scope is None:
            scope = _scope(*bounds[:2])
        yield Entry(
            spec=manifest.spec,
            partition=names.of(manifest.spec, partition),
            content=content or DATA,
            path=path,
            rows=rows,
            size=part if vector and part is not None else size,  # many vectors lie in one file
            snapshot=manifest.snapshot if snapshot is None else snapshot,
            sequence=manifest.sequence if sequence is None else sequence,
            scope=scope,
            vector=vector,
            pieces=None if content else _pieces(offsets, size),
            box=reach.box(*bounds[:2]) if divided else None,
        )


def _pieces(offsets: Sequence[int] | None, size: int) -> tuple[int, ...] | None:
    """How Iceberg cuts a file: where its row groups begin. Without that it cuts anywhere."""
    if not offsets:
        return ()
    if len(offsets) == 1:
        return None
    return tuple(end - begin for begin, end in pairwise((*offsets, size)))


def tally(found: Iterable[Entry]) -> Tally:
    """What is kept of a manifest's entries."""
    groups: dict[tuple[int, str], _Counting] = {}
    for one in found:
        key = (one.spec, one.partition)
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Counting()
        group.add(one)
    return tuple(group.done(*key) for key, group in groups.items())


class _Counting:
    """A group that grows."""

    __slots__ = ("boxes", "bytes", "deleted", "kinds", "pieces", "rows", "sizes", "snapshots")

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.pieces: list[tuple[int, tuple[int, ...]]] = []
        self.boxes: list[tuple[int, Box]] = []
        self.snapshots: dict[int, None] = {}
        self.kinds = [0, 0, 0]
        self.rows = self.bytes = self.deleted = 0

    def add(self, one: Entry) -> None:
        if one.snapshot is not None:
            self.snapshots[one.snapshot] = None
        if one.content == DATA:
            if one.pieces is not None:
                self.pieces.append((len(self.sizes), one.pieces))
            if one.box is not None:
                self.boxes.append((len(self.sizes), one.box))
            self.sizes.append(one.size)
            self.rows += one.rows
        else:
            self.kinds[2 if one.content == EQUALITY else int(one.vector)] += 1
            self.bytes += one.size
            self.deleted += one.rows

    def done(self, spec: int, partition: str) -> Group:
        position, vectors, equality = self.kinds
        return Group(
            spec=spec,
            partition=partition,
            sizes=tuple(self.sizes),
            snapshots=tuple(self.snapshots),
            rows=self.rows,
            position=position,
            vectors=vectors,
            equality=equality,
            delete_bytes=self.bytes,
            deleted_rows=self.deleted,
            pieces=tuple(self.pieces),
            boxes=tuple(self.boxes),
        )


def _scope(lower: Mapping[int, bytes] | None, upper: Mapping[int, bytes] | None) -> str | None:
    least, most = (lower or {}).get(_FILE_PATH), (upper or {}).get(_FILE_PATH)
    return least.decode() if least is not None and least == most else None


def _records(io: FileIO, location: str, what: str) -> Iterator[Any]:
    """The records of an Avro file, as tuples of the fields that are wanted of this kind of file."""
    with io.new_input(location).open() as stream:
        raw = stream.read()
    decoder = new_decoder(raw)
    header = _header().read(decoder)
    read = _reader(header.meta["avro.schema"], what).read
    codec = header.compression_codec()
    while True:
        try:
            count = decoder.read_int()
        except EOFError:
            return
        block = decoder.read_bytes()
        inner = new_decoder(codec.decompress(block) if codec else block)
        for _ in range(count):
            yield read(inner)._data
        if decoder.read(16) != header.sync:
            raise ValueError(f"{location} is damaged: a block does not end where it should")


@lru_cache(1)
def _header() -> Any:
    """Reads how any Avro file begins."""
    return construct_reader(META_SCHEMA, {-1: AvroFileHeader})


@lru_cache(256)
def _reader(schema: str, what: str) -> Reader:
    found = AvroSchemaConversion().avro_to_iceberg(json.loads(schema))
    whole = construct_reader(found)
    if what == "list":
        return _only(whole, found.as_struct(), _LIST)
    file = found.find_field(2).field_type
    ids = (*_FILE, *_BOUNDS) if what == "bounds" else _FILE
    at = [field.field_id for field in found.fields].index(2)
    place, files = whole.field_readers[at]
    readers = list(whole.field_readers)
    readers[at] = (place, _only(files, file, ids))
    return _only(StructReader(tuple(readers), Record, found.as_struct()), found.as_struct(), _ENTRY)


def _only(reader: Any, struct: StructType, ids: tuple[int, ...]) -> StructReader:
    """A reader of these fields, in this order; a field that the file does not have is None."""
    at = {field.field_id for field in struct.fields}
    places = {one: number for number, one in enumerate(ids)}
    readers = [
        # PyIceberg reads a map in C and skips one in Python: what is not wanted goes to a place that nobody looks at.
        (places.get(field.field_id, len(ids) if isinstance(field.field_type, MapType) else None), one)
        for field, (_, one) in zip(struct.fields, reader.field_readers, strict=True)
    ]
    readers += [(places[one], NoneReader()) for one in ids if one not in at]
    # What is made has a place for each of the ids: their types do not matter here.
    shape = StructType(*(NestedField(one, str(one), StringType(), required=False) for one in ids))
    return StructReader(tuple(readers), Record, shape)


# ── partitions ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Names:
    """Partitions by name, as in the paths of files: `day=2013-01-01/origin=JFK`. Empty where there are none."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        """`metadata`: a table's metadata file, as JSON."""
        specs = metadata.get("partition-specs") or [
            {"spec-id": metadata.get("default-spec-id", 0), "fields": metadata.get("partition-spec", [])}
        ]
        self._fields = {one["spec-id"]: one["fields"] for one in specs}
        self._schemas = metadata.get("schemas") or [metadata["schema"]]
        self._current = metadata.get("current-schema-id", 0)
        self._known: dict[tuple[int, tuple[Any, ...]], str] = {}
        self._texts: list[str] = []
        self._specs: dict[int, str] = {}

    def of(self, spec: int, record: Any) -> str:
        fields = self._fields.get(spec)
        if not fields or record is None:
            return ""
        key = (spec, tuple(record._data))
        try:
            found = self._known.get(key)
        except TypeError:  # a value that has no hash
            return self._name(fields, spec, record)
        if found is None:
            found = self._known[key] = self._name(fields, spec, record)
        return found

    def _name(self, fields: list[dict[str, Any]], spec: int, record: Any) -> str:
        text = self._specs.get(spec)
        if text is None:
            text = self._specs[spec] = json.dumps({"spec-id": spec, "fields": fields}, sort_keys=True)
        if not self._texts:
            ordered = sorted(self._schemas, key=lambda one: one.get("schema-id", 0) != self._current)
            self._texts = [json.dumps(schema, sort_keys=True) for schema in ordered]
        for schema in self._texts:
            try:
                shown = [
                    f"{name}={quote_plus(transform.to_human_string(kind, value=record[place]), safe='')}"
                    for place, (name, transform, kind) in enumerate(_parts(text, schema))
                ]
                return "/".join(shown)
            # A source column that this schema does not have, or a day beyond those that Python knows.
            except (KeyError, ValueError, AttributeError, OverflowError):
                continue
        pairs = zip(fields, record._data, strict=False)
        return "/".join(f"{field['name']}={'null' if value is None else value}" for field, value in pairs)


@lru_cache(1024)
def _parts(spec: str, schema: str) -> list[tuple[str, Transform[Any, Any], Any]]:
    """Name, transform and type of each field: what `PartitionSpec.partition_to_path` works out anew for each name."""
    found = PartitionSpec.model_validate_json(spec)
    types = found.partition_type(_schema(schema)).fields
    fields = zip(found.fields, types, strict=True)
    return [(quote_plus(one.name, safe=""), one.transform, field.field_type) for one, field in fields]


@lru_cache(1024)
def _schema(text: str) -> Schema:
    return Schema.model_validate_json(text)
