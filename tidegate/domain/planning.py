"""What becomes of every fire between a clock's cursor and now."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.domain.ids import ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.programs import ProgramRef
from tidegate.domain.runs import State
from tidegate.domain.schedules import Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A found stretch of missed fires under `all`, already judged: those up to `to` are launched pass by pass."""

    to: Instant
    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Facts of one clock row. `revisions` ascend; the first is in force at the cursor, the last is the newest."""

    schedule_id: ScheduleId
    name: str  # namespace/name: with the fire time it determines the jitter
    revisions: tuple[Revision, ...]
    program: ProgramRef
    cursor: Instant  # every fire up to and including it is decided
    next_due: Instant
    last_fire: Instant | None
    gap: Gap | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """A fire that becomes a run, of the newest revision's program, arguments and constraints."""

    fire_time: Instant
    due: Instant
    previous_fire: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Consecutive fires that do not run: one ledger row. `outcome` is MISSED (policy) or SUPERSEDED (disable, delete)."""

    from_fire: Instant
    to_fire: Instant
    n: int
    rev: int  # the revision that decided them
    outcome: State
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one pass decides for one clock."""

    due: Due
    fires: tuple[Fire, ...]
    missed: tuple[Stretch, ...]
    cursor: Instant
    cursor_rev: int
    next_due: Instant | None
    last_fire: Instant | None
    gap: Gap | None
    postponed: int  # catch-up fires that this pass's cap leaves for the next
