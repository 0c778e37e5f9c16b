"""A schedule's clock: how far its fires are decided, and when it is due next. The facts that planning starts from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tidegate.domain.ids import ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.programs import ProgramRef
from tidegate.domain.schedules import Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A found stretch of missed fires under `all`, already judged: those up to `to` are launched pass by pass."""

    to: Instant
    left: int


class Due(NamedTuple):
    """Facts of one clock row. `revisions` ascend; the first is in force at the cursor, the last is the newest.

    Like `planning.Fire` and `Plan` a named tuple, made in a quarter of a frozen dataclass's time: midnight makes a
    hundred thousand.
    """

    schedule_id: ScheduleId
    name: str  # namespace/name: with the fire time it determines the jitter
    revisions: tuple[Revision, ...]
    program: ProgramRef
    cursor: Instant  # every fire up to and including it is decided
    next_due: Instant
    last_fire: Instant | None
    gap: Gap | None
