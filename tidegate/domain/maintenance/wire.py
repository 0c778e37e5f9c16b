"""Health and histories as JSON and back, for stores and for the job that assesses: `health_of(told(x)) == x`.

What is unknown is left out. File sizes are packed: as differences, seven bits to a byte, compressed, so that a
partition of a thousand like files takes some tens of characters.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from tidegate.domain.maintenance.health import PartitionFiles, TableHealth
from tidegate.domain.maintenance.state import History

_LISTS = frozenset({"files", "snapshot_times", "columns"})


def health_json(health: TableHealth) -> dict[str, Any]:
    """A health as JSON."""
    said = _said(health)
    if health.snapshot_times is not None:
        said["snapshot_times"] = pack(health.snapshot_times)
    if health.columns is not None:
        said["columns"] = list(health.columns)
    if health.files is not None:
        said["files"] = [_partition_json(one) for one in health.files]
    return said


def figures(health: Mapping[str, Any]) -> dict[str, Any]:
    """A health's JSON without the sizes of files, the times of snapshots and the columns, which only the newest is
    asked for: a fiftieth of it in a large table."""
    return {name: value for name, value in health.items() if name not in _LISTS}


def health_of(raw: Mapping[str, Any]) -> TableHealth:
    """The health behind its JSON; a key that a later version wrote is read over."""
    said = _known(TableHealth, raw)
    if said.get("snapshot_times") is not None:
        said["snapshot_times"] = unpack(said["snapshot_times"])
    if said.get("columns") is not None:
        said["columns"] = tuple(said["columns"])
    if said.get("files") is not None:
        said["files"] = tuple(_partition_of(one) for one in said["files"])
    return TableHealth(**said)


def history_json(history: History) -> dict[str, Any]:
    """A history as JSON."""
    return _said(history)


def history_of(raw: Mapping[str, Any]) -> History:
    """The history behind its JSON."""
    return History(**_known(History, raw))


def pack(numbers: Sequence[int]) -> str:
    """Whole numbers in their order as a short text."""
    packed = bytearray()
    before = 0
    for number in numbers:
        step = number - before
        before = number
        left = step << 1 if step >= 0 else (-step << 1) - 1
        while left >= 0x80:
            packed.append(left & 0x7F | 0x80)
            left >>= 7
        packed.append(left)
    return base64.b64encode(zlib.compress(bytes(packed), 6)).decode()


def unpack(text: str) -> tuple[int, ...]:
    """The numbers behind `pack`. Raises ValueError when it is no such text."""
    try:
        packed = zlib.decompress(base64.b64decode(text, validate=True))
    except (ValueError, zlib.error):
        raise ValueError("these are no packed numbers") from None
    numbers: list[int] = []
    before = left = shift = 0
    for byte in packed:
        left |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            before += left >> 1 if not left & 1 else -((left + 1) >> 1)
            numbers.append(before)
            left = shift = 0
    return tuple(numbers)


def _partition_json(files: PartitionFiles) -> dict[str, Any]:
    said: dict[str, Any] = {"partition": files.partition, "sizes": pack(files.sizes)}
    if files.spec:
        said["spec"] = files.spec
    if files.deletes:
        said["deletes"] = [list(pair) for pair in files.deletes.items()]
    if files.deleted:
        said["deleted"] = [list(pair) for pair in files.deleted.items()]
    if files.delete_bytes:
        said["delete_bytes"] = [list(pair) for pair in files.delete_bytes.items()]
    if files.pieces:
        said["pieces"] = _flat(files.pieces)
    if files.boxes is not None:
        ends = {place: tuple(end for span in box for end in span) for place, box in files.boxes.items()}
        said["boxes"] = _flat(ends)
    if files.changed_at is not None:
        said["changed_at"] = files.changed_at
    return said


def _partition_of(raw: Mapping[str, Any]) -> PartitionFiles:
    return PartitionFiles(
        partition=raw["partition"],
        sizes=unpack(raw["sizes"]),
        spec=raw.get("spec", 0),
        deletes=dict(raw.get("deletes", ())),
        deleted=dict(raw.get("deleted", ())),
        delete_bytes=dict(raw.get("delete_bytes", ())),
        pieces=dict(_unflat(raw["pieces"])) if "pieces" in raw else {},
        boxes={place: tuple(zip(ends[::2], ends[1::2], strict=True)) for place, ends in _unflat(raw["boxes"])}
        if "boxes" in raw
        else None,
        changed_at=raw.get("changed_at"),
    )


def _flat(lists: Mapping[int, tuple[int, ...]]) -> str:
    return pack([number for place, some in lists.items() for number in (place, len(some), *some)])


def _unflat(text: str) -> Iterator[tuple[int, tuple[int, ...]]]:
    flat = unpack(text)
    at = 0
    while at < len(flat):
        end = at + 2 + flat[at + 1]
        yield flat[at], tuple(flat[at + 2 : end])
        at = end


def _said(value: Any) -> dict[str, Any]:
    """The fields that differ from their defaults; those without one always."""
    said = {}
    for one in fields(value):
        given = getattr(value, one.name)
        if one.default is MISSING or given != one.default:
            said[one.name] = given
    return said


def _known(kind: Any, raw: Mapping[str, Any]) -> dict[str, Any]:
    names = {one.name for one in fields(kind)}
    return {name: value for name, value in raw.items() if name in names}
