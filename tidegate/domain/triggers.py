"""The rule for *when*: a closed union of values. When time triggers fire is in `domain.fires`, how data, events and
whole trees collect and fire in `domain.folding`.

Values only: no zone is looked up and no expression parsed here. Durations and instants are integers of microseconds.
Every variant carries its YAML `type` as `TYPE`, by which documents and the store tag it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias

from tidegate.domain.instants import Duration, Instant


class Gap(StrEnum):
    """What a fixed cron time does inside a daylight-saving gap."""

    SHIFT = "shift"
    """Fire once, at the first instant after the gap."""
    SKIP = "skip"
    """Do not fire that day."""


class Overlap(StrEnum):
    """What a fixed cron time does where local time happens twice."""

    FIRST = "first"
    LAST = "last"
    BOTH = "both"


class Weekday(StrEnum):
    """Days of the week; the order of the members is the order of the week."""

    MON = "MON"
    TUE = "TUE"
    WED = "WED"
    THU = "THU"
    FRI = "FRI"
    SAT = "SAT"
    SUN = "SUN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What every time trigger also takes.

    `start` and `end` bound the fire times, both inclusive. `jitter` delays each fire by a deterministic share of it;
    the fire time itself never moves. `latch` matters inside `all` and `n_of` only: how long a tick stays satisfied
    while the others are awaited; None: until the tree fires; 0: only at that very instant.
    """

    start: Instant | None = None
    end: Instant | None = None
    jitter: Duration = 0
    latch: Duration | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron(Bounds):
    """Five fields, or six with leading seconds when `seconds` is true. Aliases such as `@hourly`."""

    TYPE: ClassVar[str] = "cron"
    expression: str
    timezone: str = "UTC"
    seconds: bool = False
    dst_gap: Gap = Gap.SHIFT
    dst_overlap: Overlap = Overlap.FIRST


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval(Bounds):
    """A fixed rate on a grid from an anchor.

    `every` keeps its text, since `P1D`, `P1W`, `P1M` and `P1Y` follow the zone's calendar while `PT24H` is exact.
    `anchor` None is Monday 1970-01-05T00:00 in the zone.
    """

    TYPE: ClassVar[str] = "interval"
    every: str
    anchor: Instant | None = None
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterFinish(Bounds):
    """`delay` after the previous run's final outcome; first at once on enabling, or at `start`."""

    TYPE: ClassVar[str] = "after_finish"
    delay: Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class At(Bounds):
    """Once."""

    TYPE: ClassVar[str] = "at"
    time: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowDays(Bounds):
    """Every `every_days` days since the last run, on `days`, between `earliest` and `latest` local time of day.

    Times of day are minutes since local midnight (0 to 1440); `latest` <= `earliest` crosses midnight, and the window
    belongs to the day on which it opens.
    """

    TYPE: ClassVar[str] = "window_days"
    every_days: int
    days: tuple[Weekday, ...] = tuple(Weekday)
    earliest: int = 0
    latest: int = 1440
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Never:
    """By hand only."""

    TYPE: ClassVar[str] = "never"


# ── data, programs, events ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """`count` new partitions of a dataset, each name once; with `changed` the changed ones count too."""

    TYPE: ClassVar[str] = "partition"
    dataset: str
    count: int = 1
    changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSize:
    """New data in a dataset: at least `bytes` and at least `rows`, whichever are given (at least one is)."""

    TYPE: ClassVar[str] = "data_size"
    dataset: str
    bytes: int | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """`count` events of a type. `key` as published (`namespace/name` for user events); None: any key.

    `match`: only events whose payload contains it (as PostgreSQL's `@>`: objects by their members, at any depth).
    """

    TYPE: ClassVar[str] = "event"
    event: str
    key: str | None = None
    match: Mapping[str, Any] | None = None
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramStatus:
    """`count` runs of a program (`namespace/name`) that started or ended so. `outcomes`: started, succeeded, failed,
    timed_out, cancelled, crashed; `killed` is resolved to cancelled and timed_out before it comes here."""

    TYPE: ClassVar[str] = "program_status"
    program: str
    outcomes: tuple[str, ...]
    count: int = 1
    backfill: bool = False


class Since(StrEnum):
    LAST_RUN = "last_run"
    """The start of this schedule's last launched run; if there is none, enabling. Silent while a run waits or works."""
    LAST_EVENT = "last_event"
    """The last event of a type (and key). Once per silence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elapsed:
    """`after` has passed since the last run or the last event."""

    TYPE: ClassVar[str] = "elapsed"
    since: Since
    after: Duration
    event: str | None = None  # of last_event
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Custom:
    """A leaf of a plug-in. `plugin` is the `type` people write, `parameters` what the plug-in made of the document."""

    TYPE: ClassVar[str] = "custom"
    plugin: str
    parameters: Mapping[str, Any]


# ── composition ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """`trigger` is satisfied, and for `silence` nothing more has come for it, or it has waited `max_wait`."""

    TYPE: ClassVar[str] = "quiet"
    trigger: Trigger
    silence: Duration
    max_wait: Duration | None = None


class Then(StrEnum):
    """What becomes of an `all` that waited its longest."""

    RUN = "run"
    """It counts as satisfied, with what is there."""
    DISCARD = "discard"
    """What it collected is given up; it begins anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class All:
    """Every one of them; but at most `max_wait` after the first arrival in any."""

    TYPE: ClassVar[str] = "all"
    triggers: tuple[Trigger, ...]
    max_wait: Duration | None = None
    then: Then = Then.RUN


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    TYPE: ClassVar[str] = "any"
    triggers: tuple[Trigger, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NOf:
    TYPE: ClassVar[str] = "n_of"
    n: int
    triggers: tuple[Trigger, ...]


TimeTrigger: TypeAlias = Cron | Interval | AfterFinish | At | WindowDays
Leaf: TypeAlias = TimeTrigger | Never | Partition | DataSize | Happened | ProgramStatus | Elapsed | Custom
Composite: TypeAlias = Quiet | All | AnyOf | NOf
Trigger: TypeAlias = Leaf | Composite
TIME_TRIGGERS: tuple[type[TimeTrigger], ...] = (Cron, Interval, AfterFinish, At, WindowDays)
TRIGGERS: tuple[type[Trigger], ...] = (
    *TIME_TRIGGERS,
    Never,
    Partition,
    DataSize,
    Happened,
    ProgramStatus,
    Elapsed,
    Custom,
    Quiet,
    All,
    AnyOf,
    NOf,
)


def collects(trigger: Trigger) -> bool:
    """Whether it needs progress: any tree that is not a single time trigger or `never`."""
    return not isinstance(trigger, Cron | Interval | AfterFinish | At | WindowDays | Never)


def below(trigger: Trigger) -> tuple[Trigger, ...]:
    """The triggers directly inside this one."""
    match trigger:
        case Quiet():
            return (trigger.trigger,)
        case All() | AnyOf() | NOf():
            return trigger.triggers
        case _:
            return ()


def nodes(trigger: Trigger) -> Iterator[Trigger]:
    """The trigger and all inside it in preorder. A node's number in the tree is its place here; the root is 0."""
    yield trigger
    for inner in below(trigger):
        yield from nodes(inner)
