"""The rows of the in-memory store: the tables of store/migrations, as plain objects.

A committed row is never changed: a transaction edits its own copy, which takes the row's place when it commits. `run`
and `run_live` are one row here, since nothing is partitioned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from tidegate.domain.backfills import Asked, BackfillState, Counts
from tidegate.domain.calendars import Calendar
from tidegate.domain.constraints import Gauge
from tidegate.domain.crashes import Crash
from tidegate.domain.ids import AttemptKey, ProgramId, RunKey, ScheduleId
from tidegate.domain.instants import Duration, Instant
from tidegate.domain.programs import ProgramRef
from tidegate.domain.runs import LIVE, Cause, State
from tidegate.domain.schedules import JsonObject, Mode, Revision
from tidegate.domain.statistics import Tally
from tidegate.ports.lake import Cursor
from tidegate.ports.records import Metadata

R = TypeVar("R")


def copied(row: R) -> R:
    """A shallow copy, made the fast way: values inside rows are immutable or replaced whole."""
    twin: R = row.__class__.__new__(row.__class__)
    twin.__dict__ = row.__dict__.copy()
    return twin


@dataclass(eq=False)
class InstanceRow:
    id: int
    role: str
    name: str
    host: str
    pid: int
    epoch: int
    up_since: Instant
    heartbeat: Instant
    ended_at: Instant | None = None


@dataclass(eq=False)
class LeaseRow:
    duty: str
    instance_id: int
    epoch: int
    token: int
    expires: Instant


@dataclass(eq=False)
class PoolRow:
    name: str
    slots: int
    used: int = 0
    rate_max: int | None = None
    rate_per: Duration | None = None
    rate_burst: int | None = None
    tokens: float = 0.0
    refilled_at: Instant = 0
    borrow: tuple[str, int] | None = None  # of which pool, and how many slots at most

    def refill(self, now: Instant) -> None:
        """Add the tokens that have come since the last look, never above the burst."""
        if self.rate_max is not None and self.rate_per:
            gained = max(0, now - self.refilled_at) * self.rate_max / self.rate_per
            self.tokens = min(float(self.rate_burst or self.rate_max), self.tokens + gained)
            self.refilled_at = max(now, self.refilled_at)


@dataclass(eq=False)
class ProgramRow:
    """A program and its newest revision (older ones are pinned by value in the runs)."""

    ref: ProgramRef
    application: str | None
    document: JsonObject
    valid_from: Instant
    author: str
    deleted_at: Instant | None = None


@dataclass(eq=False)
class Written:
    """One revision of a schedule, with what the engine does not need of it."""

    revision: Revision
    document: JsonObject
    author: str
    reason: str


@dataclass(eq=False)
class ScheduleRow:
    id: ScheduleId
    metadata: Metadata
    created_at: Instant
    revisions: tuple[Written, ...]  # ascending
    deleted_at: Instant | None = None

    @property
    def newest(self) -> Written:
        return self.revisions[-1]

    @property
    def name(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"


@dataclass(eq=False)
class ClockRow:
    schedule_id: ScheduleId
    program_id: ProgramId
    rev: int
    cursor_rev: int
    mode: Mode
    cursor: Instant
    next_due: Instant | None
    gen: int = 0
    last_fire: Instant | None = None
    gap_to: Instant | None = None
    gap_left: int | None = None


class RunRow:
    """A run, live or ended (`run` and `run_live` in PostgreSQL).

    What has a default is an attribute of the class until it is set, so that making and copying rows stays cheap.
    """

    given: JsonObject | None = None
    state: State = State.WAITING
    wake_at: Instant | None = None
    wake_key: str | None = None
    wake_limit: int | None = None
    """Of a counter's queue: how many may hold that counter."""
    in_turn: bool = True
    """It was not woken for another reason than what its queue waits for."""
    first_at: Instant | None = None
    """When its first attempt was made."""
    deadline_at: Instant | None = None
    """When its deadlines are to be looked at."""
    deadline_base: Instant | None = None
    deadline_told: frozenset[str] = frozenset()
    expires_at: Instant | None = None
    overdue: bool = False
    """It was judged past its `expires_at` and kept: not looked at again because of that."""
    waiting_for: tuple[JsonObject, ...] = ()
    held: tuple[str, ...] = ()
    slot_held: bool = False
    arguments: JsonObject | None = None
    ready_at: Instant | None = None
    started_at: Instant | None = None
    finished_at: Instant | None = None
    reason: str = ""
    merged_into: str | None = None
    attempts: int = 0
    failures: int = 0
    lost: int = 0
    stop: str | None = None
    stop_by: str = ""
    stop_at: Instant | None = None
    window_end: Instant | None = None
    """What still runs then is stopped."""
    crash: Crash | None = None
    """Waiting: its last attempt crashed."""
    evidence: JsonObject | None = None
    inputs: Mapping[str, JsonObject] | None = None
    """None: its input is not closed yet, or it has none."""
    input_rev: int | None = None  # newest when its input was closed; a retry may be of a newer one
    borrower: str | None = None  # whose run it is that has a slot of `pool`; None: one of its own
    moved: bool = False
    """What is owed was moved when its input was closed."""

    def __init__(
        self,
        key: RunKey,
        rev: int,
        program: ProgramRef,
        cause: Cause,
        caused_by: str,
        fire_time: Instant | None,
        previous_fire: Instant | None,
        priority: int,
        now: Instant,
    ) -> None:
        self.key = key
        self.rev = rev  # newest when it was made; pinned when ready
        self.program = program  # newest when it was made; pinned when ready
        self.pool = program.pool
        self.cause = cause
        self.caused_by = caused_by
        self.fire_time = fire_time
        self.previous_fire = previous_fire
        self.priority = priority
        self.created_at = now
        self.wake_at = now

    @property
    def live(self) -> bool:
        return self.state in LIVE


class AttemptRow:
    backend_id: str | None = None
    started_at: Instant | None = None
    finished_at: Instant | None = None
    outcome: str | None = None
    error: JsonObject | None = None

    def __init__(
        self, key: AttemptKey, instance_id: int, epoch: int, host: str, fence: int, backend: str, created_at: Instant
    ) -> None:
        self.key = key
        self.instance_id = instance_id
        self.epoch = epoch
        self.host = host
        self.fence = fence
        self.backend = backend
        self.created_at = created_at


class CounterRow(NamedTuple):
    """Replaced whole, as the smallest and most often written row."""

    key: str
    held: int = 0
    keeps: Duration | None = None
    """How far back the starts under it are read; None: nobody reads them."""


class QueueRow(NamedTuple):
    """A queue of waiting runs that has an instant: when it comes, the first of them are judged."""

    key: str
    at: Instant


class CalendarRow(NamedTuple):
    calendar: Calendar
    document: JsonObject


class GaugeRow(NamedTuple):
    """The last reading of a resource."""

    resource: str
    gauge: Gauge


class StartRow(NamedTuple):
    """A run that counts under a counter whose starts are read. `at`: its first attempt; None: admitted, not begun."""

    counter: str
    run: RunKey
    at: Instant | None


class DecisionRow(NamedTuple):
    """What the admitter said of a run, for the laws of the simulator. `what`: admit, a state, or hold."""

    now: Instant
    run: RunKey
    what: str
    wake_key: str | None = None
    rev: int = 0
    late: bool = False
    attempts: int = 0
    counters: tuple[str, ...] = ()
    pool: str = ""  # whose slot it took
    borrower: str | None = None  # which pool borrowed that
    crashed: bool = False  # its last attempt crashed while nobody looked after it
    restart_at: Instant | None = None  # of such a one that is held: when it may start again
    written: Instant = 0  # by the server's clock; a process may have been frozen after it read `now`


class PostponedRow(NamedTuple):
    """What the cap of a pass left for later ones, for the laws of the simulator."""

    schedule_id: ScheduleId
    to: Instant
    """The newest fire of it."""
    now: Instant


@dataclass(eq=False)
class BackfillRow:
    id: int
    schedule_id: ScheduleId
    rev: int
    asked: Asked
    by: str
    total: int
    cursor: Instant
    created_at: Instant
    wake_at: Instant | None
    state: BackfillState = BackfillState.RUNNING
    reason: str = ""
    counts: Counts = Counts()
    finished_at: Instant | None = None
    paused_at: Instant | None = None
    paused_for: Duration = 0


class BackfillItemRow(NamedTuple):
    """A fire time that a backfill has in hand. `run` None: it is to be made (again)."""

    schedule_id: int
    fire_time: Instant
    backfill: int
    run: RunKey | None


@dataclass(eq=False)
class StatsRow:
    schedule_id: ScheduleId
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

    def add(self, more: Tally) -> None:
        """As `add_stats` in store/queries/attempts.sql."""
        self.last_start = _later(self.last_start, more.last_start)
        self.last_finish = _later(self.last_finish, more.last_finish)
        self.last_success = _later(self.last_success, more.last_success)
        if more.last_run_success is not None:
            self.last_run_success = more.last_run_success
        self.total_runs += more.runs
        self.total_successes += more.successes
        self.total_failures += more.failures
        self.total_crashes += more.crashes
        self.total_timeouts += more.timeouts
        self.total_duration += more.duration
        self.consecutive_failures = more.failing + (0 if more.broken else self.consecutive_failures)
        self.consecutive_crashes = more.crashing + (0 if more.broken else self.consecutive_crashes)


def _later(one: Instant | None, other: Instant | None) -> Instant | None:
    return max((at for at in (one, other) if at is not None), default=None)


@dataclass(frozen=True, slots=True)
class StretchRow:
    """A row of fire_range."""

    schedule_id: ScheduleId
    from_fire: Instant
    to_fire: Instant
    rev: int
    n: int
    outcome: State
    reason: str
    decided_at: Instant


class Event(NamedTuple):
    at: Instant
    type: str
    run: RunKey | None
    schedule_id: ScheduleId | None
    payload: JsonObject | None = None
    pos: int = 0
    key: str = ""
    time: Instant | None = None
    id: str | None = None
    source: str = ""


@dataclass(eq=False)
class DocumentRow:
    """A namespace's or an application's."""

    document: JsonObject
    at: Instant


@dataclass(eq=False)
class Answer:
    """An Idempotency-Key's."""

    request: str
    status: int
    answer: Any
    at: Instant = field(default=0)


@dataclass(eq=False)
class DatasetRow:
    name: str
    kind: str
    watch: Duration | None
    document: Mapping[str, Any]


@dataclass(eq=False)
class CursorRow:
    cursor: Cursor
    moved_at: Instant


@dataclass(eq=False)
class FaultRow:
    error: str
    since: Instant
