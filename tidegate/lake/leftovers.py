"""Which files a maintenance run that died has left: written while it was at work, and part of no snapshot.

All that one write brings carries one number in its names (a UUID), so files are judged by write: where one of them is
in a snapshot, the write was committed, and none is left over. What another program that died in the same minutes has
written cannot be told apart. Nothing is removed by this: that is what the removal of orphan files does, when they are
old enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.domain.instants import SECOND, Instant
from tidegate.lake.assessing import TableFiles
from tidegate.lake.manifests import Manifest, Names, entries
from tidegate.lake.reaching import Reach

_WRITE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SLACK = 2 * SECOND
"""Clocks of storages and databases differ a little."""


@dataclass(frozen=True, slots=True)
class Dead:
    """A run, or an attempt of one, that ended without a word, and when it can have written."""

    run: str
    begun: Instant
    ended: Instant


@dataclass(frozen=True, slots=True)
class Lying:
    """A file in a table's place. `at`: when it was written."""

    path: str
    size: int
    at: Instant


@dataclass(frozen=True, slots=True)
class Left:
    """What a dead run has left."""

    run: str
    files: tuple[Lying, ...]

    @property
    def bytes(self) -> int:
        return sum(one.size for one in self.files)

    def told(self) -> dict[str, Any]:
        """For the ledger."""
        return {"run": self.run, "files": len(self.files), "bytes": self.bytes}


def left_by(dead: Sequence[Dead], found: Iterable[Lying], known: set[str]) -> list[Left]:
    """What each of the dead has left. `known`: the files of snapshots, as `known_since` gives them."""
    writes: dict[str, list[Lying]] = {}
    for one in found:
        writes.setdefault(_write_of(one.path), []).append(one)
    committed = {_write_of(path) for path in known} | {""}
    left: dict[str, list[Lying]] = {}
    for number, files in writes.items():
        first, last = min(one.at for one in files), max(one.at for one in files)
        who = [one for one in dead if one.begun - _SLACK <= first and last <= one.ended + _SLACK]
        if who and number not in committed:
            left.setdefault(max(who, key=lambda one: one.begun).run, []).extend(files)
    return [Left(run, tuple(sorted(files, key=lambda one: (one.at, one.path)))) for run, files in left.items()]


def _write_of(path: str) -> str:
    """The number of the write that brought a file; empty where its name has none."""
    number = _WRITE.search(path.rpartition("/")[2])
    return "" if number is None else number[0]


def known_since(table: TableFiles, since: Instant) -> set[str]:
    """The files that snapshots from then on have brought, with their lists and manifests, and the metadata files.
    Raises what reading them raises."""
    names, whole = Names(table.metadata), Reach({})  # where rows would go does not matter here
    recent = {
        number: one for number, one in table.snapshots.items() if int(one["timestamp-ms"]) * 1000 >= since - _SLACK
    }
    found = {table.location, *(one["metadata-file"] for one in table.metadata.get("metadata-log") or ())}
    for what in ("statistics", "partition-statistics"):
        found |= {one["statistics-path"] for one in table.metadata.get(what) or ()}
    manifests: dict[str, Manifest] = {}
    for one in recent.values():
        found.add(one.get("manifest-list", ""))
        manifests |= {manifest.path: manifest for manifest in table.manifests(one)}
    found |= set(manifests)
    for manifest in manifests.values():
        if manifest.snapshot in recent:
            found |= {entry.path for entry in entries(table.io, manifest, names, whole)}
    return found
