"""Names of things: who a run is, who an attempt is at its backend, who may write.

A run's key is (slot, schedule, ord). A clock run's slot is its fire time and its ord 0, so that one fire can only ever
have one row; any other run's slot is the instant it was made, and ord counts up per schedule. The public id is that
key, written so that a URL, a file name and a shell take it as one word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, NewType

from tidegate.domain.instants import Instant

ScheduleId = NewType("ScheduleId", int)
ProgramId = NewType("ProgramId", int)


class RunKey(NamedTuple):
    """The unique name of a run. Ordered by slot, so that neighbours in time are neighbours on disk."""

    slot: Instant
    schedule_id: ScheduleId
    ord: int

    def __str__(self) -> str:
        """The public id, e.g. `r6bvnq2k0w-1a-0` (slot, schedule, ord in base 36)."""
        return f"r{_base36(self.slot)}-{_base36(self.schedule_id)}-{_base36(self.ord)}"


def parse_run_id(text: str) -> RunKey:
    """The key behind a public id. Raises ValueError when it is not one."""
    parts = text[1:].split("-") if text[:1] == "r" else []
    if len(parts) != 3 or not all(part.isalnum() and part.isascii() and len(part) <= 13 for part in parts):
        raise ValueError(f"{text!r} is not a run id; they look like r6bvnq2k0w-1a-0 (see `tidegate runs`)")
    slot, schedule, order = (int(part, 36) for part in parts)
    if max(slot, schedule, order) >= 1 << 63:
        raise ValueError(f"{text!r} is not a run id; they look like r6bvnq2k0w-1a-0 (see `tidegate runs`)")
    return RunKey(slot, ScheduleId(schedule), order)


class AttemptKey(NamedTuple):
    """One try of a run; numbers begin at 1."""

    run: RunKey
    number: int

    @property
    def identity(self) -> str:
        """What the backend knows it by: deterministic, so that a stranger can ask for it after a crash."""
        return f"{self.run}.{self.number}"


def parse_identity(text: str) -> AttemptKey:
    """The attempt behind a backend identity. Raises ValueError when it is not one."""
    run, dot, number = text.rpartition(".")
    if not dot or not number.isdecimal():
        raise ValueError(f"{text!r} is not the identity of an attempt")
    return AttemptKey(parse_run_id(run), int(number))


@dataclass(frozen=True, slots=True)
class Fence:
    """The right of one process to write: its instance and the epoch of its registration.

    Every engine transaction share-locks the instance row and fails with `Fenced` when the epoch there has moved on,
    which is what a takeover does. A process that was frozen and declared dead can therefore never write again.
    """

    instance_id: int
    epoch: int


_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_PAIRS = tuple(high + low for high in _DIGITS for low in _DIGITS)


def _base36(number: int) -> str:
    """Two digits at a time: every launch, log and message writes such a name."""
    if number < 36:
        return _DIGITS[number]
    text = ""
    while number >= 1296:
        text = _PAIRS[number % 1296] + text
        number //= 1296
    return (_PAIRS[number] if number >= 36 else _DIGITS[number]) + text
