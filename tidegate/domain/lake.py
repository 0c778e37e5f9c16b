"""What happened to a table between where a cursor stands and the newest snapshot.

A table's history is a tree of snapshots, of which one line leads to the current one. What counts as new data are the
snapshots of that line behind the cursor, except those that only arranged anew what was there (`replace`: compaction,
rewritten manifests) and those of our own maintenance. A table that was rolled back has no new data.

What a cursor cannot know is said as a gap: snapshots that expired before they were seen, a table that was dropped and
made again, a history that was rewritten. Whatever of the new line is still known counts as new after it; the cursor
goes on in each case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

REARRANGED = "replace"
"""The operation of snapshots that hold the same rows as their parent."""
MAINTENANCE = "tidegate.maintenance"
"""In the summary of snapshots that our own maintenance commits."""
MOST_NAMES = 4_000
"""Partitions that one event names; a commit that touches more gives several events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A commit, as its table's metadata tells it. `sequence` only grows along a table's life."""

    id: int
    parent: int | None
    sequence: int
    operation: str
    rows: int = 0
    bytes: int = 0
    files: int = 0
    maintenance: bool = False

    @property
    def is_news(self) -> bool:
        return self.operation != REARRANGED and not self.maintenance


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All that a table's metadata still knows. `current` None: it never had a snapshot, or was emptied of them."""

    table_uuid: str
    current: int | None
    snapshots: Mapping[int, Snapshot]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a cursor stands: up to this snapshot, that one included, everything was told.

    `table_uuid` None: there was no table; `snapshot` None: it had no snapshot.
    """

    table_uuid: str | None = None
    snapshot: int | None = None
    sequence: int = 0


ABSENT = Place()


class GapReason(StrEnum):
    EXPIRED = "expired"
    """Snapshots expired before they were seen: what they added was never told."""
    RECREATED = "recreated"
    """The table was dropped and another made under its name."""
    REWRITTEN = "rewritten"
    """What was told is not in the line of the current snapshot: rolled back and written anew, or replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Something between these two snapshots cannot be told. `snapshot`: the one after it, None: there is none."""

    reason: GapReason
    previous_snapshot: int | None
    snapshot: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """From a place to the next: a gap first, if there is one, then the news, oldest first. `left`: there is more."""

    place: Place
    gap: Gap | None = None
    news: tuple[Snapshot, ...] = ()
    left: bool = False


def walk(place: Place | None, history: History, most: int = 1_000) -> Walk:
    """What is new behind `place`, at most so many snapshots. None: a first look, which begins at the present."""
    line = _line(history)
    if place is None:
        return Walk(place=_place(history, line))
    if place.table_uuid is None:
        return _ahead(place, history, line, None, most)
    if place.table_uuid != history.table_uuid:
        gap = _gap(GapReason.RECREATED, place, line)
        return _ahead(Place(table_uuid=history.table_uuid), history, line, gap, most)
    if place.snapshot is None or place.snapshot == history.current:
        return _ahead(place, history, line if place.snapshot is None else (), None, most)
    if not line:
        return Walk(place=_place(history, line), gap=_gap(GapReason.REWRITTEN, place, ()))
    return _behind(place, history, line, most)


def _behind(place: Place, history: History, line: tuple[Snapshot, ...], most: int) -> Walk:
    """The table is the same and has moved on, or back."""
    at = {one.id: number for number, one in enumerate(line)}
    if line[0].parent == place.snapshot:
        return _ahead(place, history, line, None, most)
    ancestor: int | None = place.snapshot
    while ancestor is not None and ancestor not in at:
        known = history.snapshots.get(ancestor)
        ancestor = known.parent if known else None
    if ancestor is not None:
        new = line[at[ancestor] + 1 :]
        moved = ancestor != place.snapshot
        gap = _gap(GapReason.REWRITTEN, place, new) if moved and new else None
        return _ahead(place, history, new, gap, most)
    # What was told last is gone, or leads nowhere. What has a later sequence was committed since.
    new = tuple(one for one in line if one.sequence > place.sequence)
    if not new:  # rolled back beyond it, then expired
        return _ahead(place, history, (), None, most)
    if place.snapshot not in history.snapshots and new[0].parent is None:
        # Some writers cut the parents of what they keep; a new line would have begun while the old one was known.
        new = (replace(new[0], parent=place.snapshot), *new[1:])
    if new[0].parent == place.snapshot and new[0].sequence == place.sequence + 1:
        return _ahead(place, history, new, None, most)
    expired = new[0].parent is not None and new[0].parent not in history.snapshots
    return _ahead(place, history, new, _gap(GapReason.EXPIRED if expired else GapReason.REWRITTEN, place, new), most)


def _ahead(place: Place, history: History, new: tuple[Snapshot, ...], gap: Gap | None, most: int) -> Walk:
    taken, left = new[:most], len(new) > most
    if left:
        last = taken[-1]
        reached = Place(table_uuid=history.table_uuid, snapshot=last.id, sequence=last.sequence)
    else:
        reached = _place(history, _line(history))
    return Walk(place=reached, gap=gap, news=tuple(one for one in taken if one.is_news), left=left)


def _line(history: History) -> tuple[Snapshot, ...]:
    """From the oldest known ancestor to the current snapshot."""
    found: list[Snapshot] = []
    at = history.current
    while at is not None and (one := history.snapshots.get(at)) is not None:
        found.append(one)
        at = one.parent
    return tuple(reversed(found))


def _place(history: History, line: tuple[Snapshot, ...]) -> Place:
    if not line:
        return Place(table_uuid=history.table_uuid)
    return Place(table_uuid=history.table_uuid, snapshot=line[-1].id, sequence=line[-1].sequence)


def _gap(reason: GapReason, place: Place, new: tuple[Snapshot, ...]) -> Gap:
    return Gap(reason=reason, previous_snapshot=place.snapshot, snapshot=new[0].id if new else None)


# ── as events ──────────────────────────────────────────────────────────────────────────────────────────────────────


def gap_payload(gap: Gap, table_uuid: str) -> dict[str, Any]:
    """The payload of `dataset.gap`."""
    return {
        "reason": gap.reason.value,
        "previous_snapshot": gap.previous_snapshot,
        "snapshot": gap.snapshot,
        "table_uuid": table_uuid,
    }


def updated_payloads(
    snapshot: Snapshot, table_uuid: str, added: tuple[str, ...] = (), changed: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """The payloads of `dataset.updated` for one commit: one, or several where it touches very many partitions, of
    which the first has the amounts."""
    names = [(name, True) for name in added] + [(name, False) for name in changed]
    chunks = [names[at : at + MOST_NAMES] for at in range(0, len(names), MOST_NAMES)] or [[]]
    return [
        {
            "rows": 0 if number else snapshot.rows,
            "bytes": 0 if number else snapshot.bytes,
            "files": 0 if number else snapshot.files,
            "partitions_added": [name for name, new in chunk if new],
            "partitions_changed": [name for name, new in chunk if not new],
            "snapshot": snapshot.id,
            "previous_snapshot": snapshot.parent,
            "table_uuid": table_uuid,
        }
        for number, chunk in enumerate(chunks)
    ]
