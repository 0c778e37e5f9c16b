"""What runs that died before this one left in a table's place, looked for in the storage by Iceberg's own FileIO."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tidegate.domain.ids import AttemptKey
from tidegate.domain.instants import MILLISECOND, Instant
from tidegate.domain.maintenance import handover
from tidegate.domain.maintenance.health import size
from tidegate.lake.assessing import TableFiles
from tidegate.lake.leftovers import Dead, Left, Lying, known_since, left_by

MOST = 20_000
"""So many files are looked at: asking for more would take longer than it is worth."""
_SHOWN = 20


class Leftovers:
    """Looked for at the beginning, told at the end: what was still being written then is in a snapshot by now."""

    def __init__(self, arguments: Mapping[str, Any], attempt: AttemptKey, now: Instant, log: Callable[[str], None]):
        self._log = log
        self._dead = _dead(arguments, attempt, now)
        self._lying: list[Lying] = []

    def look(self, table: TableFiles, io: Any) -> None:
        """`io`: the table's FileIO in the JVM."""
        if not self._dead:
            return
        since = min(one.begun for one in self._dead)
        try:
            self._lying = [one for one in _listed(io, table.metadata["location"]) if one.at >= since]
        except Exception as fault:  # a storage that cannot be listed; that must not keep anybody from work
            self._log(f"What was left behind is not known: {str(fault).splitlines()[0][:200]}")

    def told(self, after: TableFiles) -> dict[str, Any]:
        """For the run's result; empty where nobody died."""
        if not self._dead:
            return {}
        try:
            known = known_since(after, min(one.begun for one in self._dead))
        except Exception as fault:  # files that somebody else wrote
            self._log(f"What was left behind is not known: {str(fault).splitlines()[0][:200]}")
            return {}
        left = left_by(self._dead, self._lying, known)
        for one in left:
            self._tell(one)
        return {"leftovers": [one.told() for one in left]}

    def _tell(self, one: Left) -> None:
        many = f"{len(one.files)} file{'' if len(one.files) == 1 else 's'}"
        self._log(
            f"{one.run} died and left {many} ({size(one.bytes)}) that no snapshot has."
            " They harm nobody, and the removal of orphan files takes them from 3 days on:"
        )
        for file in one.files[:_SHOWN]:
            self._log(f"left: {file.path}")


def _dead(arguments: Mapping[str, Any], attempt: AttemptKey, now: Instant) -> list[Dead]:
    """Earlier attempts of this run, and earlier runs that were handed over as dead."""
    found = [Dead(str(attempt.run), attempt.run.slot, now)] if attempt.number > 1 else []
    given = arguments.get(handover.AFTER)
    for one in given if isinstance(given, list | tuple) else ():
        found.append(Dead(str(one["run"]), int(one["begun"]), int(one["ended"] or now)))
    return found


def _listed(io: Any, location: str) -> Iterator[Lying]:
    """Raises what Java raises; a FileIO without listing has no such method."""
    files = io.listPrefix(location).iterator()
    count = 0
    while files.hasNext():
        count += 1
        if count > MOST:
            raise ValueError(f"there are more than {MOST} files below {location}")
        file = files.next()
        yield Lying(str(file.location()), int(file.size()), int(file.createdAtMillis()) * MILLISECOND)
