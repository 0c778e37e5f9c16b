"""A run's life: its states, who moves it on, and which moves exist.

`MOVES` is the one transition table. The database's check, the docs' picture and the simulator's laws are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class State(StrEnum):
    """Where a run stands. Each member says what is true, and which part moves it on."""

    WAITING = "waiting"
    """Triggered; a constraint, a slot, a backoff or a person holds it. Admitter."""
    READY = "ready"
    """Everything it needs is taken and its input pinned; never edited again. Dispatcher."""
    STARTING = "starting"
    """A possible crash is on record and the backend is being asked. Dispatcher."""
    RUNNING = "running"
    """The backend says so. Supervisor."""
    STOPPING = "stopping"
    """Asked to end: politely, then by force, then fenced. Supervisor."""

    SUCCEEDED = "succeeded"
    """The program said that it did its work."""
    FAILED = "failed"
    """The program said, or its exit showed, that it did not."""
    TIMED_OUT = "timed_out"
    """Stopped by us because it ran longer than it may."""
    CANCELLED = "cancelled"
    """Stopped, or never started, because a person said so."""
    CRASHED = "crashed"
    """Its start is on record and its end is not: process, driver or host died under it."""
    SKIPPED = "skipped"
    """Never started: a constraint with `unmet: skip` said no, or maintenance predicted a no-op."""
    MERGED = "merged"
    """Never started: its input joined an older waiting run, which names it."""
    EXPIRED = "expired"
    """Never started: waited longer than `waiting.timeout`, or past `waiting.max`."""
    SUPERSEDED = "superseded"
    """Never started: a newer run (`latest`) or an update of the schedule took its place."""
    MISSED = "missed"
    """Never made: due while no scheduler ran, and catch-up policy drops it."""


LIVE = frozenset({State.WAITING, State.READY, State.STARTING, State.RUNNING, State.STOPPING})
NEVER_STARTED = frozenset({State.SKIPPED, State.MERGED, State.EXPIRED, State.SUPERSEDED, State.MISSED})
STARTED_ENDS = frozenset({State.SUCCEEDED, State.FAILED, State.TIMED_OUT, State.CANCELLED, State.CRASHED})
ENDS = STARTED_ENDS | NEVER_STARTED

MOVES: Mapping[State, frozenset[State]] = {
    State.WAITING: frozenset(
        {State.READY, State.CANCELLED, State.SKIPPED, State.MERGED, State.EXPIRED, State.SUPERSEDED}
        # a retry that waits for its next attempt already has ends of its own to fall back to
        | {State.FAILED, State.TIMED_OUT, State.CRASHED}
    ),
    State.READY: frozenset({State.STARTING, State.CANCELLED}),
    State.STARTING: frozenset({State.RUNNING, State.STOPPING, State.WAITING, State.READY}) | STARTED_ENDS,
    State.RUNNING: frozenset({State.STOPPING, State.WAITING}) | STARTED_ENDS,
    State.STOPPING: frozenset({State.WAITING}) | STARTED_ENDS,
    **{end: frozenset() for end in ENDS},
}


class Cause(StrEnum):
    """What a run stands for."""

    FIRE = "fire"
    """A tick of a clock trigger."""
    EVIDENCE = "evidence"
    """Data, programs or events satisfied the trigger."""
    BACKFILL = "backfill"
    """A person asked for a past range."""
    MANUAL = "manual"
    """A person asked for it now."""
    RERUN = "rerun"
    """A person asked for an old run again, with its inputs, arguments and fire time."""


MERGING = frozenset({Cause.FIRE, Cause.EVIDENCE})
"""What a trigger made: such runs merge while they wait, and what they are given is handed out. Never what a person
asked for."""
