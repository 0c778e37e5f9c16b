"""Reads one changed table: from its metadata file to events.

Only metadata is read: the file that the pointer names, and for partitioned tables the manifests that a commit wrote.
Whether a partition is new is told by the manifests that the commit did not write, of which only those are opened whose
bounds admit the partition; manifests never change, so what they hold is remembered.
The same code runs in the scheduler's process and, for many tables at once, in a PySpark job.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import StaticTable, Table
from pyiceberg.table.metadata import TableMetadata

from tidegate.domain.events import DATASET_GAP, DATASET_UPDATED
from tidegate.domain.lake import MAINTENANCE, History, Snapshot, gap_payload, updated_payloads, walk
from tidegate.ports.lake import News, Order

log = logging.getLogger(__name__)

MOST = 200
"""Snapshots of one table that are read at once; the rest follow."""
_REMEMBERED = 2_000


def read(order: Order, most: int = MOST) -> News:
    """What happened to one table. Never raises: what is wrong stands in the answer."""
    try:
        table = StaticTable.from_metadata(order.location, dict(order.properties))
        return _read(order, table, most)
    except Exception as fault:  # a library reads a file that somebody else wrote
        log.debug("%s could not be read", order.dataset, exc_info=True)
        return News(dataset=order.dataset, error=f"{type(fault).__name__}: {str(fault)[:500]}")


def _read(order: Order, table: Table, most: int) -> News:
    history = history_of(table.metadata)
    found = walk(order.place, history, most)
    events: list[tuple[str, Mapping[str, Any]]] = []
    if found.gap is not None:
        events.append((DATASET_GAP, gap_payload(found.gap, history.table_uuid)))
    partitioned = any(spec.fields for spec in table.metadata.partition_specs)
    for one in found.news:
        added, changed = partitions(table, one.id) if partitioned else ((), ())
        events += [(DATASET_UPDATED, payload) for payload in updated_payloads(one, history.table_uuid, added, changed)]
    return News(dataset=order.dataset, place=found.place, events=tuple(events), left=found.left)


def history_of(metadata: TableMetadata) -> History:
    """The history as a table's metadata tells it. Tables of format 1 number no commits: their time serves."""
    return History(
        table_uuid=str(metadata.table_uuid),
        current=metadata.current_snapshot_id if metadata.current_snapshot_id != -1 else None,
        snapshots={one.snapshot_id: _snapshot(one) for one in metadata.snapshots},
    )


def _snapshot(one: Any) -> Snapshot:
    summary = one.summary
    said = summary.additional_properties if summary is not None else {}
    files = _number(said, "added-data-files")
    return Snapshot(
        id=one.snapshot_id,
        parent=one.parent_snapshot_id,
        sequence=one.sequence_number or one.timestamp_ms,
        operation=summary.operation.value if summary is not None else "append",
        rows=_number(said, "added-records"),
        bytes=_number(said, "added-files-size") if files else 0,  # without data files it is that of delete files
        files=files,
        maintenance=MAINTENANCE in said,
    )


def _number(summary: Mapping[str, str], name: str) -> int:
    try:
        return int(summary.get(name, 0))
    except ValueError:
        return 0


# ── partitions ─────────────────────────────────────────────────────────────────────────────────────────────────────


class _Memory:
    """The names of the partitions that a manifest's live files lie in, by its path."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._names: OrderedDict[str, frozenset[str]] = OrderedDict()

    def get(self, path: str) -> frozenset[str] | None:
        found = self._names.get(path)
        if found is not None:
            self._names.move_to_end(path)
        return found

    def put(self, path: str, names: frozenset[str]) -> None:
        self._names[path] = names
        while len(self._names) > self._most:
            self._names.popitem(last=False)


_memory = _Memory(_REMEMBERED)


def partitions(table: Table, snapshot_id: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The partitions that a commit added to the table (those it did not have before), and those it changed."""
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    assert snapshot is not None
    names = _Names(table.metadata)
    manifests = snapshot.manifests(table.io)
    written = [one for one in manifests if one.added_snapshot_id == snapshot_id]
    wrote: dict[str, tuple[int, Any]] = {}
    changed: set[str] = set()
    before: set[str] = set()
    for manifest in written:
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            name = names.of(manifest.partition_spec_id, entry)
            if entry.data_file.content is not DataFileContent.DATA:
                if entry.status is ManifestEntryStatus.ADDED:
                    changed.add(name)
            elif entry.status is ManifestEntryStatus.ADDED:
                wrote.setdefault(name, (manifest.partition_spec_id, entry.data_file.partition))
            else:
                before.add(name)
                if entry.status is ManifestEntryStatus.DELETED:
                    changed.add(name)
    carried = [one for one in manifests if one.added_snapshot_id != snapshot_id and one.content is ManifestContent.DATA]
    unknown = {name: place for name, place in wrote.items() if name not in before}
    added = set(unknown) - _there(table, names, carried, unknown)
    changed |= set(wrote) - added
    named = [sorted(name for name in group if name) for group in (added, changed - added)]
    return tuple(named[0]), tuple(named[1])


def _there(
    table: Table, names: _Names, manifests: Iterable[ManifestFile], wanted: Mapping[str, tuple[int, Any]]
) -> set[str]:
    """Which of the wanted partitions have live files in these manifests. Newest first, until all are found."""
    found: set[str] = set()
    for manifest in sorted(manifests, key=lambda one: -(one.sequence_number or 0)):
        missing = {name: place for name, place in wanted.items() if name not in found}
        if not missing:
            break
        if not any(_admits(table, manifest, spec, values) for spec, values in missing.values()):
            continue
        held = _memory.get(manifest.manifest_path)
        if held is None:
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            held = frozenset(names.of(manifest.partition_spec_id, entry) for entry in entries)
            _memory.put(manifest.manifest_path, held)
        found |= held & missing.keys()
    return found


def _admits(table: Table, manifest: ManifestFile, spec_id: int, values: Any) -> bool:
    """Whether a manifest's bounds leave it possible that it holds files of a partition."""
    if manifest.partition_spec_id != spec_id or not manifest.partitions:
        return True
    fields = table.specs()[spec_id].partition_type(table.schema()).fields
    try:
        for at, (field, bounds) in enumerate(zip(fields, manifest.partitions, strict=True)):
            value = values[at]
            if value is None:
                if not bounds.contains_null:
                    return False
                continue
            if bounds.lower_bound is None or bounds.upper_bound is None:
                return bool(bounds.contains_nan)
            least = from_bytes(field.field_type, bounds.lower_bound)
            most = from_bytes(field.field_type, bounds.upper_bound)
            if not least <= value <= most:
                return False
    except (TypeError, ValueError):  # of types that cannot be compared: look inside
        return True
    return True


class _Names:
    """Partitions by name, as in the paths of files: `day=2013-01-01/origin=JFK`."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        self._specs = {spec.spec_id: spec for spec in metadata.partition_specs}
        self._known: dict[tuple[int, tuple[Any, ...]], str] = {}

    def of(self, spec_id: int, entry: ManifestEntry) -> str:
        """Empty for files of an unpartitioned spec."""
        spec = self._specs[spec_id]
        record = entry.data_file.partition
        values = tuple(record[at] for at in range(len(spec.fields)))
        try:
            return self._known[spec_id, values]
        except (KeyError, TypeError):
            name = self._name(spec, record, values)
        with suppress(TypeError):  # a value that has no hash
            self._known[spec_id, values] = name
        return name

    def _name(self, spec: PartitionSpec, record: Any, values: tuple[Any, ...]) -> str:
        if not spec.fields:
            return ""
        for schema in self._schemas():
            try:
                return str(spec.partition_to_path(record, schema))
            except (KeyError, ValueError, AttributeError):  # a source column that this schema does not have
                continue
        pairs = zip(spec.fields, values, strict=True)
        return "/".join(f"{field.name}={'null' if value is None else value}" for field, value in pairs)

    def _schemas(self) -> Iterator[Any]:
        yield self._metadata.schema()
        yield from reversed(self._metadata.schemas)
