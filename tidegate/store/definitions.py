"""What schedules and programs say, remembered by revision: (id, rev) never changes its meaning.

Only engine transactions fill this memory, and they see committed rows only. A control transaction reads past it,
since what it has written itself may still be rolled back and its number given to something else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any, Generic, TypeVar

from tidegate.domain.ids import ProgramId, ScheduleId
from tidegate.domain.programs import ProgramRef
from tidegate.domain.schedules import Mode, Revision
from tidegate.store.arrays import Ints
from tidegate.store.codec import decode_program, decode_schedule
from tidegate.store.connection import Session
from tidegate.store.sql import load

Q = load("clocks")
K = TypeVar("K")
V = TypeVar("V")

_REMEMBERED = 50_000  # of each; about 20 MB in all, whatever the number of schedules


class _Memory(Generic[K, V]):
    """The newest entries, up to a number."""

    def __init__(self, size: int = _REMEMBERED) -> None:
        self._size = size
        self._entries: dict[K, V] = {}

    def split(self, wanted: Collection[K]) -> tuple[dict[K, V], list[K]]:
        """What is remembered of `wanted`, and what is not."""
        known = self._entries
        try:
            return dict(zip(wanted, map(known.__getitem__, wanted), strict=True)), []
        except KeyError:
            found = {key: known[key] for key in wanted if key in known}
            return found, [key for key in wanted if key not in found]

    def remember(self, new: Mapping[K, V]) -> None:
        self._entries.update(new)
        for key in list(islice(self._entries, max(0, len(self._entries) - self._size))):
            del self._entries[key]


class Definitions:
    """The memory of one process."""

    def __init__(self) -> None:
        self._revisions: _Memory[tuple[int, int], Revision] = _Memory()
        self._programs: _Memory[tuple[int, int], ProgramRef] = _Memory()
        self._names: _Memory[int, tuple[str, str]] = _Memory()

    async def revisions(
        self, session: Session, wanted: Collection[tuple[int, int]]
    ) -> Mapping[tuple[int, int], Revision]:
        """(schedule, rev) -> revision. What is fetched brings the names, which are asked for next, along."""
        found, missing = self._revisions.split(wanted)
        if missing:
            rows = await session.rows(
                Q.revisions, schedules=Ints(key[0] for key in missing), revs=Ints(key[1] for key in missing)
            )
            new = {(row[0], row[1]): revision(row) for row in rows}
            self._revisions.remember(new)
            self._names.remember({row[0]: (row[6], row[7]) for row in rows})
            found.update(new)
        return found

    async def programs(
        self, session: Session, wanted: Collection[tuple[int, int]]
    ) -> Mapping[tuple[int, int], ProgramRef]:
        """(program, rev) -> program."""
        found, missing = self._programs.split(wanted)
        if missing:
            rows = await session.rows(
                Q.programs, programs=Ints(key[0] for key in missing), revs=Ints(key[1] for key in missing)
            )
            new = {(row[0], row[1]): program(row) for row in rows}
            self._programs.remember(new)
            found.update(new)
        return found

    async def names(self, session: Session, wanted: Collection[int]) -> Mapping[int, tuple[str, str]]:
        """Schedule -> (namespace, name)."""
        found, missing = self._names.split(wanted)
        if missing:
            rows = await session.rows(Q.names, schedules=Ints(missing))
            new = {row[0]: (row[1], row[2]) for row in rows}
            self._names.remember(new)
            found.update(new)
        return found


_MODES = {mode.value: mode for mode in Mode}


def revision(row: tuple[Any, ...]) -> Revision:
    """From (schedule_id, rev, valid_from, mode, spec, held_expires, ...)."""
    return Revision(
        schedule_id=ScheduleId(row[0]),
        rev=row[1],
        valid_from=row[2],
        mode=_MODES[row[3]],
        spec=decode_schedule(row[4]),
        held_expires=row[5],
    )


def program(row: tuple[Any, ...]) -> ProgramRef:
    """From (program_id, rev, namespace, name, spec)."""
    return ProgramRef(id=ProgramId(row[0]), rev=row[1], namespace=row[2], name=row[3], spec=decode_program(row[4]))
