"""What a schedule says: program, arguments, trigger, constraints and policies, as values with their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from tidegate.domain.constraints import CONSTRAINTS as CONSTRAINTS
from tidegate.domain.constraints import Concurrency as Concurrency
from tidegate.domain.constraints import Constraint as Constraint
from tidegate.domain.constraints import Unmet as Unmet
from tidegate.domain.ids import ScheduleId
from tidegate.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant
from tidegate.domain.triggers import Custom, DataSize, Happened, Partition, ProgramStatus, Trigger, nodes

JsonObject: TypeAlias = Mapping[str, Any]


class CatchUpPolicy(StrEnum):
    """What becomes of fires that are first decided more than the grace after they were due."""

    NONE = "none"
    """Missed fires do not run."""
    LATEST = "latest"
    """The newest of all that is due runs."""
    ALL = "all"
    """All run, within the window, then the newest `max`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    policy: CatchUpPolicy = CatchUpPolicy.LATEST
    grace: Duration = MINUTE
    window: Duration = DAY
    max: int = 100


class Waiting(StrEnum):
    """Several waiting runs of one schedule."""

    ALL = "all"
    """All start, in order."""
    MERGE = "merge"
    """They merge into the oldest."""
    LATEST = "latest"
    """Only the newest starts."""


def waiting_by_default(trigger: Trigger) -> Waiting:
    """`merge` where a leaf waits for data, events or programs: a run carries all that came. Else `all`."""
    data = (Partition, DataSize, Happened, ProgramStatus, Custom)
    return Waiting.MERGE if any(isinstance(node, data) for node in nodes(trigger)) else Waiting.ALL


class ThenWaiting(StrEnum):
    DISCARD = "discard"
    RUN = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPolicy:
    runs: Waiting = Waiting.ALL
    max: int = 1000
    timeout: Duration | None = None
    then: ThenWaiting = ThenWaiting.DISCARD


class ThenFailed(StrEnum):
    CONTINUE = "continue"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Attempt k+1 starts after min(max_delay, delay * factor^(k-1)) * u, u in [0.8, 1]."""

    max_attempts: int = 1
    delay: Duration = MINUTE
    factor: float = 2.0
    max_delay: Duration = HOUR
    then: ThenFailed = ThenFailed.CONTINUE


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeout:
    """Per attempt: after `run` a polite stop, `grace` later a kill. `run` None: no limit."""

    run: Duration | None = None
    grace: Duration = 30 * SECOND


class DeadlineFrom(StrEnum):
    """What a deadline counts from."""

    DUE = "due"
    """The fire time; of a run without one, when its trigger was satisfied."""
    ARRIVAL = "arrival"
    """The arrival of the first thing that its trigger collected; of a run that collected nothing, as `due`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """How long after that a run must have started, and finished; None: no such deadline."""

    start: Duration | None = None
    finish: Duration | None = None
    since: DeadlineFrom = DeadlineFrom.DUE


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """The `spec` of a Schedule document, without `enabled` (that is the schedule's mode)."""

    program: str
    trigger: Trigger
    arguments: JsonObject = field(default_factory=dict)
    priority: int = 50
    groups: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = (Concurrency(max=1),)
    waiting: WaitingPolicy = WaitingPolicy()
    catch_up: CatchUp = CatchUp()
    retry: Retry = Retry()
    timeout: Timeout = Timeout()
    deadline: Deadline | None = None


class Mode(StrEnum):
    """Whether a schedule works, and if not, how it rests."""

    ENABLED = "enabled"
    DROP = "drop"
    """Disabled: pending runs and progress are dropped, events ignored."""
    KEEP = "keep"
    """Disabled, but what waits starts when it may. Nothing new is collected, no fire makes a run."""
    BACKLOG = "backlog"
    """Goes on collecting and making runs; none of them starts until it is enabled, then all do."""
    HOLD = "hold"
    """As backlog, but everything merges into one run."""

    @property
    def works(self) -> bool:
        """Whether its clock ticks and its trigger collects: runs are made, though they may not start."""
        return self in (Mode.ENABLED, Mode.BACKLOG, Mode.HOLD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """What a schedule said and whether it worked, from `valid_from` (exclusive for fires) until the next revision."""

    schedule_id: ScheduleId
    rev: int
    valid_from: Instant
    mode: Mode
    spec: ScheduleSpec
    held_expires: bool = False  # while it is suspended (backlog, hold), runs expire all the same
