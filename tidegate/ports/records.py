"""What a store tells people: schedules, programs, pools, runs with their attempts, figures, the ledger, changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.domain.crashes import Crash
from tidegate.domain.ids import AttemptKey, RunKey, ScheduleId
from tidegate.domain.instants import Duration, Instant
from tidegate.domain.programs import ProgramRef
from tidegate.domain.runs import Cause, State
from tidegate.domain.schedules import JsonObject, Mode, Revision, ScheduleSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What is said about a declaration, not what it does: changing it resets nothing."""

    namespace: str
    name: str
    application: str | None = None
    labels: JsonObject
    owner: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRecord:
    """A schedule with its newest revision and its clock."""

    id: ScheduleId
    metadata: Metadata
    created_at: Instant
    rev: int
    valid_from: Instant
    mode: Mode
    reason: str
    document: JsonObject  # the spec as the person wrote it
    spec: ScheduleSpec
    program: ProgramRef
    cursor: Instant
    cursor_rev: int
    next_due: Instant | None
    last_fire: Instant | None
    held_expires: bool = False  # of the newest revision


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockState:
    """Where a schedule's clock stands after a change."""

    cursor: Instant
    cursor_rev: int
    next_due: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRecord:
    ref: ProgramRef
    application: str | None
    document: JsonObject
    valid_from: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRecord:
    name: str
    slots: int
    used: int
    rate_max: int | None
    rate_per: Duration | None
    rate_burst: int | None
    borrow: tuple[str, int] | None = None  # of which pool, and how many slots at most
    borrowed: int = 0  # slots of it that runs of this pool have now
    lent: int = 0  # of `used`, those that runs of other pools have


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """Nothing starts, by whose word, since when and why."""

    who: str
    since: Instant
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    key: AttemptKey
    state: str  # starting, running, stopping or its outcome
    backend: str
    backend_id: str | None
    fence: int
    host: str
    created_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    error: JsonObject | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run as people see it; or a stretch of missed fires (`count` > 1 or state missed, no attempts)."""

    key: RunKey
    namespace: str
    schedule: str
    rev: int
    program: str
    state: State
    reason: str
    fire_time: Instant | None
    fire_time_to: Instant | None
    previous_fire: Instant | None
    count: int
    cause: Cause
    caused_by: str
    given: JsonObject | None
    arguments: JsonObject | None
    priority: int
    created_at: Instant
    ready_at: Instant | None
    started_at: Instant | None
    finished_at: Instant | None
    expires_at: Instant | None
    wake_at: Instant | None
    wake_key: str | None
    waiting_for: tuple[JsonObject, ...]
    merged_into: str | None
    stop: str | None
    attempts: tuple[AttemptRecord, ...]
    evidence: JsonObject | None = None  # `domain.evidence`; grows until the run is ready
    inputs: Mapping[str, JsonObject] | None = None  # by dataset; None: not closed yet, or a run without
    crash: Crash | None = None  # it waits, and its last attempt crashed


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    last_start: Instant | None = None
    last_finish: Instant | None = None
    last_success: Instant | None = None
    last_run_success: bool | None = None
    total_runs: int = 0
    total_successes: int = 0
    total_failures: int = 0
    total_crashes: int = 0
    total_timeouts: int = 0
    total_duration: Duration = 0
    consecutive_failures: int = 0
    consecutive_crashes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One line of the audit log."""

    who: str
    action: str  # created, updated, enabled, disabled, deleted, triggered, cancelled, rerun, ...
    kind: str
    namespace: str
    name: str
    before: JsonObject | None
    after: JsonObject | None
    at: Instant = 0
    id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """What the ledger says of one clock fire (from = to, n = 1) or of a stretch."""

    from_fire: Instant
    to_fire: Instant
    n: int
    outcome: str  # a State, of live runs too


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """One schedule's revisions and ledger over a span: what the audit compares."""

    schedule_id: ScheduleId
    namespace: str
    name: str
    created_at: Instant
    deleted_at: Instant | None
    revisions: tuple[Revision, ...]  # all that ruled over any part of the span
    cursor: Instant
    rows: tuple[LedgerRow, ...]  # clock fires in the span, and stretches that reach into it, ascending
