"""The rule for *when*: a closed union of values. When they fire is in `domain.fires`.

Values only: no zone is looked up and no expression parsed here. Durations and instants are integers of microseconds.
Every variant carries its YAML `type` as `TYPE`, by which documents and the store tag it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, TypeAlias

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
    the fire time itself never moves.
    """

    start: Instant | None = None
    end: Instant | None = None
    jitter: Duration = 0


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


TimeTrigger: TypeAlias = Cron | Interval | AfterFinish | At | WindowDays
Trigger: TypeAlias = TimeTrigger | Never
TRIGGERS: tuple[type[Trigger], ...] = (Cron, Interval, AfterFinish, At, WindowDays, Never)
