"""How a running attempt is stopped, and what its end then means.

The ladder has three rungs, each with its own deadline, and no rung waits for the one before to be answered:

    asked to stop ──now──> polite ──grace later──> kill ──10 s later──> give up

Giving up does not end the process; it ends our waiting. The attempt is closed, its fencing token is void from then on,
and its slot is free. That is the honest last resort when a host no longer obeys.

Whoever asked, wins: an attempt that was asked to stop ends as what it was asked for, even if it then exits with 0. A
program that catches the polite stop and leaves tidily has not done its work. One that had ended before it was asked
keeps its own outcome, since then nobody was asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import assert_never

from tidegate.domain.instants import MINUTE, SECOND, Duration, Instant

KILL_PATIENCE = 10 * SECOND
"""How long a killed attempt may take to be gone before it is given up."""
START_ALLOWANCE = 5 * MINUTE
"""What a backend may take to get ready (a driver coming up) beyond `timeout.run`, before that counts as too long."""


class StopReason(StrEnum):
    """Why an attempt was asked to stop."""

    CANCEL = "cancel"
    """A person said so."""
    TIMEOUT = "timeout"
    """It ran longer than it may."""
    WINDOW = "window"
    """The window closed through which it was let, and which says `stop_at_end`."""
    SHUTDOWN = "shutdown"
    """Its worker is being shut down for good; the run is to be tried again."""


class Ended(StrEnum):
    """How an attempt ended, in the words of its record."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    CRASHED = "crashed"
    LOST = "lost"
    """Its worker or host is gone, and it did not run or cannot be found. Not the program's doing."""
    REFUSED = "refused"
    """The backend took nothing."""


class Rung(IntEnum):
    """How far up the ladder an attempt is."""

    NONE = 0
    POLITE = 1
    KILL = 2
    GIVE_UP = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request to stop."""

    reason: StopReason
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Climb:
    """Which rung is due now, and when the next one will be (None: there is none)."""

    rung: Rung
    next: Instant | None


def run_limit(*, timeout: Duration | None, created_at: Instant, started_at: Instant | None) -> Instant | None:
    """The instant from which the attempt has run too long. It counts from its start; while the backend is still getting
    ready, from its creation with an allowance."""
    if timeout is None:
        return None
    return created_at + START_ALLOWANCE + timeout if started_at is None else started_at + timeout


def climb(asked: Asked, *, grace: Duration, now: Instant) -> Climb:
    """Where on the ladder an attempt that was asked to stop should be now."""
    kill = asked.at + grace
    give_up = kill + KILL_PATIENCE
    if now >= give_up:
        return Climb(rung=Rung.GIVE_UP, next=None)
    if now >= kill:
        return Climb(rung=Rung.KILL, next=give_up)
    return Climb(rung=Rung.POLITE, next=kill)


def verdict(reported: Ended, asked: StopReason | None) -> Ended:
    """How an attempt ended, given what the backend says and what it had been asked to stop for, if it had been."""
    match asked:
        case None:
            return reported
        case StopReason.CANCEL | StopReason.WINDOW:
            return Ended.CANCELLED
        case StopReason.TIMEOUT:
            return Ended.TIMED_OUT
        case StopReason.SHUTDOWN:
            return Ended.LOST
        case _:
            assert_never(asked)
