"""Audit: recompute from the revisions which fires were due, and prove the ledger against it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tidegate.domain.instants import Instant
from tidegate.ports.control import ControlStore


class Kind(StrEnum):
    LOST = "lost"
    """Due by its revision and decided by the clock, and not in the ledger."""
    DOUBLED = "doubled"
    """In the ledger more than once."""
    UNEXPLAINED = "unexplained"
    """In the ledger, and no revision owed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`count` consecutive fires from `first` to `last`."""

    kind: Kind
    namespace: str
    schedule: str
    first: Instant
    last: Instant
    count: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """So far."""

    schedules: int
    fires: int
    findings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The proof. `findings` are at most `MOST_FINDINGS`; the counts are complete."""

    since: Instant
    until: Instant
    schedules: int
    owed: int
    recorded: int
    outcomes: dict[str, int]
    lost: int
    doubled: int
    unexplained: int
    not_yet_decided: int
    late: int  # of those: due longer than the grace ago although a scheduler lives
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        return not (self.lost or self.doubled or self.unexplained)


async def audit(
    store: ControlStore,
    *,
    namespace: str | None = None,
    since: Instant | None = None,
    until: Instant | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Audit:
    """Compare `since` (left out: everything) to `until` (left out, or later: now). Reads only."""
    raise NotImplementedError
