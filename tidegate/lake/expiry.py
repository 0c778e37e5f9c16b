"""Which snapshots may go: Iceberg's own rules, and beside them what Tidegate and its users still read from.

Iceberg's procedure knows ages and branches. It does not know that a cursor or a run's pinned input stands at a snapshot
and reads on from there, so we choose the snapshots ourselves and hand them over by their number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.domain.instants import DAY, Instant
from tidegate.domain.maintenance.options import Options
from tidegate.lake.assessing import MAX_AGE, MIN_SNAPSHOTS, TableFiles

MOST = 5_000
"""Snapshots that one call is handed; the rest go with the next."""
_OLDER = 5 * DAY


@dataclass(frozen=True, slots=True)
class Expiry:
    """`expire`: the snapshots to go, oldest first. `kept`: those that would go but for who still reads from them."""

    expire: tuple[int, ...]
    kept: tuple[int, ...]


def choose(table: TableFiles, options: Options, keep: Collection[int], now: Instant) -> Expiry:
    """`keep`: snapshots that somebody goes on reading from: each of them stays, and everything after it.

    Branches keep what the rules say of each, and their tips; tags keep their snapshot. `snapshot_ids` of the options
    go whatever their age, where nothing needs them.
    """
    snapshots = table.snapshots
    line = _lines(table, options, now)
    named = options.get("snapshot_ids")
    asked = {one for one in named if isinstance(one, int)} if isinstance(named, tuple) else set[int]()
    aged = set(snapshots) - line.retained if not asked or "older_than" in options else set()
    going = (aged | (asked & set(snapshots))) - line.needed
    held = _read_from(table, keep) & going
    times = {one: int(snapshots[one]["timestamp-ms"]) for one in going}
    ordered = sorted(going - held, key=lambda one: (times[one], one))
    return Expiry(tuple(int(one) for one in ordered[:MOST]), tuple(sorted(int(one) for one in held)))


@dataclass(frozen=True, slots=True)
class _Lines:
    """`retained`: what the rules keep; `needed`: what a branch or tag points at."""

    retained: set[int]
    needed: set[int]


def _lines(table: TableFiles, options: Options, now: Instant) -> _Lines:
    older = options.get("older_than")
    age = older if isinstance(older, int) else _number(table.properties, MAX_AGE, _OLDER // 1000) * 1000
    last = options.get("retain_last")
    count = last if isinstance(last, int) else _number(table.properties, MIN_SNAPSHOTS, 1)
    refs = dict(table.metadata.get("refs") or {})
    if table.current is not None:
        refs.setdefault("main", {"snapshot-id": table.current["snapshot-id"], "type": "branch"})
    retained: set[int] = set()
    in_branches: set[int] = set()
    for ref in refs.values():
        if ref.get("type", "branch") == "tag":
            retained.add(ref["snapshot-id"])
            continue
        own_age = int(ref.get("max-snapshot-age-ms", age // 1000)) * 1000
        own_count = int(ref.get("min-snapshots-to-keep", count))
        for place, one in enumerate(_back_from(table, ref["snapshot-id"])):
            in_branches.add(one["snapshot-id"])
            if place < own_count or int(one["timestamp-ms"]) * 1000 >= now - own_age:
                retained.add(one["snapshot-id"])
    # Those that no branch leads to any more stay as long as their age lets them.
    for number, one in table.snapshots.items():
        if number not in in_branches and int(one["timestamp-ms"]) * 1000 >= now - age:
            retained.add(number)
    return _Lines(retained, {ref["snapshot-id"] for ref in refs.values()})


def _back_from(table: TableFiles, snapshot: int) -> Iterator[Mapping[str, Any]]:
    """A snapshot and those before it, newest first, as far as they are known."""
    known = table.snapshots
    seen: set[int] = set()
    at = known.get(snapshot)
    while at is not None and at["snapshot-id"] not in seen:
        seen.add(at["snapshot-id"])
        yield at
        at = known.get(at.get("parent-snapshot-id", -1))


def _read_from(table: TableFiles, keep: Collection[int]) -> set[int]:
    """What is kept for those who go on reading behind these snapshots."""
    found = {one for one in keep if one in table.snapshots}
    line = [one["snapshot-id"] for one in table.line()]
    first = next((place for place, one in enumerate(line) if one in found), len(line))
    return found | set(line[first:])


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(properties[name])
    except (KeyError, ValueError):
        return default
