"""Measures a table by its metadata: from the metadata file to every figure of its health.

One table costs its metadata file, its manifest list, and the manifests that were not read before; no data file is
opened. Where there are row-level deletes, all manifests are read again, since which data file a delete is about is not
kept. The same code runs in one process and, for many tables at once, in a PySpark job.
"""

from __future__ import annotations

import gzip
import json
import logging
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyiceberg.io import FileIO

from tidegate.domain.instants import DAY, MILLISECOND, Instant
from tidegate.domain.lake import MAINTENANCE, REARRANGED
from tidegate.domain.maintenance.health import LARGE_FILE, SMALL_FILE, PartitionFiles, TableHealth
from tidegate.lake.manifests import (
    DATA,
    EQUALITY,
    Entry,
    Manifest,
    Names,
    Tally,
    entries,
    manifest_list,
    opener,
    tally,
)
from tidegate.lake.reaching import Box, Reach

log = logging.getLogger(__name__)

MAX_AGE = "history.expire.max-snapshot-age-ms"
MIN_SNAPSHOTS = "history.expire.min-snapshots-to-keep"
_TAKES_ROWS = ("delete", "overwrite")
_REMEMBERED = 400_000
"""Groups of files (a manifest has at least one) that a process keeps: about a hundred megabytes."""


class Memory:
    """What was read of manifests, by their path. They never change; the ones not asked for the longest go first."""

    def __init__(self, most: int = _REMEMBERED) -> None:
        self._most = most
        self._held = 0
        self._known: OrderedDict[str, Tally] = OrderedDict()

    def get(self, path: str) -> Tally | None:
        found = self._known.get(path)
        if found is not None:
            self._known.move_to_end(path)
        return found

    def put(self, path: str, found: Tally) -> None:
        self._known[path] = found
        self._held += 1 + len(found)
        while self._held > self._most and len(self._known) > 1:
            _, gone = self._known.popitem(last=False)
            self._held -= 1 + len(gone)


_memory = Memory()


@dataclass(frozen=True, slots=True)
class TableFiles:
    """A table's metadata file, opened: `metadata` as JSON, `length` its bytes."""

    location: str
    metadata: Mapping[str, Any]
    length: int
    io: FileIO

    @property
    def snapshots(self) -> dict[int, Mapping[str, Any]]:
        return {one["snapshot-id"]: one for one in self.metadata.get("snapshots") or ()}

    @property
    def current(self) -> Mapping[str, Any] | None:
        """The snapshot that readers see."""
        return self.snapshots.get(self.metadata.get("current-snapshot-id", -1))

    @property
    def properties(self) -> Mapping[str, str]:
        return self.metadata.get("properties") or {}

    def line(self) -> list[Mapping[str, Any]]:
        """The snapshots that lead to the current one, oldest first, as far as they are known."""
        found: list[Mapping[str, Any]] = []
        known = self.snapshots
        at = self.current
        while at is not None and len(found) <= len(known):
            found.append(at)
            at = known.get(at.get("parent-snapshot-id", -1))
        return found[::-1]

    def manifests(self, snapshot: Mapping[str, Any]) -> list[Manifest]:
        """Format 1 may name them in the snapshot itself, without a list: such are no longer written, and refused."""
        if "manifest-list" not in snapshot:
            raise ValueError(f"snapshot {snapshot['snapshot-id']} has no manifest list; rewrite the table's manifests")
        return manifest_list(self.io, snapshot["manifest-list"])

    def columns(self) -> tuple[str, ...]:
        """Of the current schema, by name; nested ones with their path."""
        current = self.metadata.get("current-schema-id", 0)
        schemas = self.metadata.get("schemas") or ()
        found = next((one for one in schemas if one.get("schema-id") == current), self.metadata.get("schema"))
        return tuple(_columns(found, "")) if found is not None else ()


def _columns(kind: Any, path: str) -> Iterator[str]:
    """What is below a type of a schema, and itself where it has a path."""
    if path:
        yield path
    if not isinstance(kind, dict):
        return
    below = [(one["name"], one["type"]) for one in kind.get("fields") or ()]
    below += [(name, kind[name]) for name in ("element", "key", "value") if name in kind]
    for name, one in below:
        yield from _columns(one, f"{path}.{name}" if path else name)


def open_table(location: str, properties: Mapping[str, str]) -> TableFiles:
    """Raises what the storage or the format raises: OSError, ValueError, KeyError."""
    io = opener(properties, location)
    with io.new_input(location).open() as stream:
        raw = stream.read()
    text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    metadata = json.loads(text)
    if not isinstance(metadata, dict) or "format-version" not in metadata:
        raise ValueError(f"{location} is not the metadata of a table")
    return TableFiles(location, metadata, len(raw), io)


def assess(location: str, properties: Mapping[str, str], now: Instant, memory: Memory | None = None) -> TableHealth:
    """Every figure of a table's health. Never raises for what is wrong with the table: that is its `fault`."""
    try:
        return health_of(open_table(location, properties), now, memory)
    except Exception as fault:  # a library reads files that somebody else wrote
        log.debug("%s could not be read", location, exc_info=True)
        said = " ".join(str(fault).split())[:400]
        return TableHealth(assessed_at=now, fault=f"{type(fault).__name__}: {said}")


def health_of(table: TableFiles, now: Instant, memory: Memory | None = None) -> TableHealth:
    """The health of a table that is open. Raises what reading it raises."""
    current = table.current
    manifests = table.manifests(current) if current is not None else []
    return TableHealth(
        assessed_at=now,
        snapshot=None if current is None else current["snapshot-id"],
        table_uuid=table.metadata.get("table-uuid"),
        format_version=table.metadata["format-version"],
        **_of_history(table, now),
        **_of_files(table, manifests, memory or _memory),
        manifests=len(manifests),
        manifest_bytes=sum(one.length for one in manifests),
        metadata_bytes=table.length,
        refs=len(table.metadata.get("refs") or ()) or int(current is not None),
        spec=table.metadata.get("default-spec-id", 0),
        target_file_bytes=_number(table.properties.get("write.target-file-size-bytes")),
        max_snapshot_age=None if (age := _number(table.properties.get(MAX_AGE))) is None else age * MILLISECOND,
        min_snapshots=_number(table.properties.get(MIN_SNAPSHOTS)),
        columns=table.columns() or None,
        stats_snapshot=_newest(table, "statistics"),
        partition_stats_snapshot=_newest(table, "partition-statistics"),
    )


# ── history ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_history(table: TableFiles, now: Instant) -> dict[str, Any]:
    all_times = [_at(one) for one in table.snapshots.values()]
    line = table.line()
    took = [
        one
        for one in line
        if (one.get("summary") or {}).get("operation") in _TAKES_ROWS and _at(one) > now - DAY and not _ours(one)
    ]
    return {
        "changed_at": max((_at(one) for one in line if _is_news(one)), default=None),
        "snapshots": len(all_times),
        "oldest_snapshot_at": min(all_times, default=None),
        "newest_snapshot_at": max(all_times, default=None),
        "snapshot_times": tuple(sorted(_at(one) for one in line)),
        "row_delete_commits": len(took),
    }


def _at(snapshot: Mapping[str, Any]) -> Instant:
    return int(snapshot["timestamp-ms"]) * 1000


def _ours(snapshot: Mapping[str, Any]) -> bool:
    return MAINTENANCE in (snapshot.get("summary") or {})


def _is_news(snapshot: Mapping[str, Any]) -> bool:
    return (snapshot.get("summary") or {}).get("operation", "append") != REARRANGED and not _ours(snapshot)


def _newest(table: TableFiles, what: str) -> int | None:
    """Of which snapshot the newest statistics are."""
    have = {one["snapshot-id"] for one in table.metadata.get(what) or ()}
    line = [one["snapshot-id"] for one in table.line()]
    return next((one for one in reversed(line) if one in have), None)


def _number(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


# ── files ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_files(table: TableFiles, manifests: list[Manifest], memory: Memory) -> dict[str, Any]:
    names, reach = Names(table.metadata), Reach(table.metadata)
    # A manifest of deletes without a live file in it happens: it need not be looked at.
    with_deletes = any(one.deletes and one.files != 0 for one in manifests)
    found: Iterable[Tally]
    if with_deletes:
        whole = [list(entries(table.io, one, names, reach)) for one in manifests]
        found = [tally(one) for one in whole]
        files = tuple(_with_deletes(table, whole, reach))
    else:
        found = [_remembered(table.io, one, names, reach, memory) for one in manifests if one.files != 0]
        files = tuple(_without_deletes(table, found, reach))
    groups = [group for one in found for group in one]
    sizes = [size for group in groups for size in group.sizes]
    fullest = max((len(one.sizes) for one in files), default=0)
    position, vectors, equality = (sum(getattr(group, kind) for group in groups) for kind in _KINDS)
    return {
        "rows": sum(group.rows for group in groups),
        "data_files": len(sizes),
        "data_bytes": sum(sizes),
        "smallest_file": min(sizes, default=None),
        "largest_file": max(sizes, default=None),
        "small_files": sum(size < SMALL_FILE for size in sizes),
        "large_files": sum(size > LARGE_FILE for size in sizes),
        "delete_files": position + vectors + equality,
        "position_delete_files": position,
        "equality_delete_files": equality,
        "deletion_vectors": vectors,
        "delete_bytes": sum(group.delete_bytes for group in groups),
        "deleted_rows": sum(group.deleted_rows for group in groups),
        "partitions": sum(1 for one in files if one.sizes),
        "most_files_in_partition": fullest,
        "files": files,
    }


_KINDS = ("position", "vectors", "equality")


def _remembered(io: FileIO, manifest: Manifest, names: Names, reach: Reach, memory: Memory) -> Tally:
    # What a file of an older spec is divided into depends on the newest: such is remembered for that one.
    name = f"{manifest.path}#{reach.spec}" if reach.asks(manifest.spec) else manifest.path
    found = memory.get(name)
    if found is None:
        found = tally(entries(io, manifest, names, reach))
        memory.put(name, found)
    return found


def _without_deletes(table: TableFiles, found: Iterable[Tally], reach: Reach) -> Iterator[PartitionFiles]:
    sizes: dict[tuple[int, str], list[int]] = {}
    added: dict[tuple[int, str], set[int]] = {}
    pieces: dict[tuple[int, str], dict[int, tuple[int, ...]]] = {}
    boxes: dict[tuple[int, str], dict[int, Box]] = {}
    for group in (group for one in found for group in one):
        key = (group.spec, group.partition)
        before = sizes.setdefault(key, [])
        if group.pieces:
            pieces.setdefault(key, {}).update((len(before) + place, some) for place, some in group.pieces)
        if group.boxes:
            boxes.setdefault(key, {}).update((len(before) + place, box) for place, box in group.boxes)
        before.extend(group.sizes)
        added.setdefault(key, set()).update(group.snapshots)
    times = _times(table)
    for key, some in sizes.items():
        yield PartitionFiles(
            partition=key[1],
            sizes=tuple(some),
            spec=key[0],
            pieces=pieces.get(key, {}),
            boxes=boxes.get(key, {}) if reach.asks(key[0]) else None,
            changed_at=_last(added[key], times),
        )


def _times(table: TableFiles) -> dict[int, Instant]:
    """When snapshots that brought or took rows were committed."""
    return {number: _at(one) for number, one in table.snapshots.items() if _is_news(one)}


def _last(snapshots: Iterable[int], times: Mapping[int, Instant]) -> Instant | None:
    return max((times[one] for one in snapshots if one in times), default=None)


def _with_deletes(table: TableFiles, whole: list[list[Entry]], reach: Reach) -> Iterator[PartitionFiles]:
    """Partitions with what deletes do to each file. A delete is about what is not younger than itself; an equality
    delete only about what is older; one of an unpartitioned spec, if by equality, about the whole table."""
    scoped: Counter[str] = Counter()
    scoped_bytes: Counter[str] = Counter()
    rows_gone: Counter[str] = Counter()
    broad: dict[tuple[int, str], list[Entry]] = {}
    everywhere: list[Entry] = []
    for one in (one for found in whole for one in found if one.content != DATA):
        if one.scope is not None:
            scoped[one.scope] += 1
            scoped_bytes[one.scope] += one.size
            rows_gone[one.scope] += one.rows
        elif one.content == EQUALITY and not one.partition:
            everywhere.append(one)
        else:
            broad.setdefault((one.spec, one.partition), []).append(one)
    groups: dict[tuple[int, str], list[Entry]] = {}
    touched: dict[tuple[int, str], set[int]] = {}
    for one in (one for found in whole for one in found):
        key = (one.spec, one.partition)
        if one.content == DATA:
            groups.setdefault(key, []).append(one)
        if one.snapshot is not None:
            touched.setdefault(key, set()).add(one.snapshot)
    times = _times(table)
    for key, files in groups.items():
        near = broad.get(key, []) + everywhere
        broadly = [[delete.size for delete in near if _applies(delete, one)] for one in files] if near else None
        counts = [scoped[one.path] + (len(broadly[place]) if broadly else 0) for place, one in enumerate(files)]
        weights = [scoped_bytes[one.path] + (sum(broadly[place]) if broadly else 0) for place, one in enumerate(files)]
        shares = [min(rows_gone[one.path], one.rows) / one.rows if one.rows else 0.0 for one in files]
        yield PartitionFiles(
            partition=key[1],
            sizes=tuple(one.size for one in files),
            spec=key[0],
            pieces={place: one.pieces for place, one in enumerate(files) if one.pieces is not None},
            boxes=_boxes(files) if reach.asks(key[0]) else None,
            deletes={place: count for place, count in enumerate(counts) if count},
            delete_bytes={place: weight for place, weight in enumerate(weights) if weight},
            deleted={place: share for place, share in enumerate(shares) if share},
            changed_at=_last(touched.get(key, ()), times),
        )


def _boxes(files: list[Entry]) -> dict[int, Box]:
    return {place: one.box for place, one in enumerate(files) if one.box is not None}


def _applies(delete: Entry, file: Entry) -> bool:
    return file.sequence < delete.sequence + (delete.content != EQUALITY)
