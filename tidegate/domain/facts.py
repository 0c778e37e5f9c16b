"""What was read for constraints and slots to be judged by: starts, readings of resources, what a pool may borrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tidegate.domain.instants import Instant


@dataclass(frozen=True, slots=True)
class Starts:
    """First attempts under a counter: `newest` instants, newest first, and how many runs are admitted and have not
    started yet."""

    newest: tuple[Instant, ...] = ()
    pending: int = 0


@dataclass(frozen=True, slots=True)
class Gauge:
    """A reading of a resource, or why there is none."""

    value: float | None
    at: Instant
    error: str = ""
    stale_at: Instant | None = None  # from when on it counts as none; None: never


class Loan(NamedTuple):
    """What a pool may still borrow: of which other, and how many slots beside those that it has of it."""

    lender: str
    left: int
