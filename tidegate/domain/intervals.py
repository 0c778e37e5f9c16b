"""The grid of a fixed rate: every N seconds to years from an anchor, never drifting.

Hours and shorter are exact. Days, weeks, months and years follow the calendar of the zone: a daily grid stays at its
wall-clock time when clocks change (a time inside a gap moves to the first instant after it, a time that comes twice is
the first of the two), and months keep the anchor's day where it exists, else take the month's last day. The grid
reaches both ways from the anchor, which is a phase and not a beginning (`start` is that).
"""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from tidegate.domain.instants import DAY, SECOND, Duration, Instant, parse_duration
from tidegate.domain.ticks import CALENDAR, ExactTicks, LocalTicks, Ticks
from tidegate.domain.zones import BEGINNING, END, EPOCH_ORDINAL, Local, resolve

DEFAULT_ANCHOR: Local = 4 * DAY
"""Monday 1970-01-05T00:00 on the wall clock of the trigger's zone."""

_LONG = re.compile(r"^P(?:(?P<y>\d+)Y)?(?:(?P<m>\d+)M)?(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?P<clock>T.+)?$", re.ASCII)
_SHORT = re.compile(r"^(?:(?P<y>\d+)y)?(?:(?P<m>\d+)mo)?(?:(?P<w>\d+)w)?(?:(?P<d>\d+)d)?(?P<clock>.*)$", re.ASCII)


class Unit(StrEnum):
    EXACT = "exact"
    """Microseconds."""
    DAYS = "days"
    """Days of the calendar."""
    MONTHS = "months"
    """Months of the calendar."""


@dataclass(frozen=True, slots=True)
class Every:
    """What `every` says: so many of one unit."""

    unit: Unit
    number: int


def parse_every(text: str) -> Every:
    """Read `PT15M`, `P1D`, `P2W`, `P1M`, `P1Y` or the short forms `15m`, `1d`, `2w`, `1mo`, `1y`.

    Raises ValueError, saying what would be right, for what is no duration, is shorter than a second, or mixes units
    that have no common measure (a calendar day is not always 24 hours, a month not always 30 days).
    """
    value = text.strip()
    found = _LONG.match(value) or _SHORT.match(value)
    part = {name: int(found[name]) for name in "ymwd" if found[name]} if found else {}
    if found is None or not part:
        exact = _exact(text, value)
        if exact < SECOND:
            raise ValueError(f"{text!r} is shorter than a second; the shortest interval is PT1S")
        return Every(Unit.EXACT, exact)
    if found["clock"]:
        raise ValueError(
            f"{text!r} mixes days of the calendar with hours; write it in hours alone (PT36H) or in days alone (P2D)"
        )
    months, days = part.get("y", 0) * 12 + part.get("m", 0), part.get("w", 0) * 7 + part.get("d", 0)
    if months and days:
        raise ValueError(f"{text!r} mixes months with days; write it in months alone (P1M) or in days alone (P30D)")
    if not months and not days:
        raise ValueError(f"{text!r} is no time at all; the shortest interval is PT1S")
    if months > 12 * 5000 or days > 366 * 5000:
        raise ValueError(f"{text!r} is longer than 5000 years")
    return Every(Unit.MONTHS, months) if months else Every(Unit.DAYS, days)


def _exact(text: str, value: str) -> Duration:
    try:
        return parse_duration(value)
    except ValueError:
        raise ValueError(
            f"{text!r} is not an interval; write it like PT15M, P1D, P1W, P1M or 15m, 1d, 1w, 1mo"
        ) from None


def interval_ticks(every: Every, anchor: Instant | None, timezone: str) -> Ticks:
    """The grid as instants. Raises UnknownZone."""
    zone = resolve(timezone)
    wall = DEFAULT_ANCHOR if anchor is None else zone.to_local(anchor)
    match every.unit:
        case Unit.EXACT:
            return ExactTicks(zone.earliest(DEFAULT_ANCHOR) if anchor is None else anchor, every.number)
        case Unit.DAYS:
            return LocalTicks(EveryDays(wall, every.number), zone, CALENDAR)
        case Unit.MONTHS:
            return LocalTicks(EveryMonths(wall, every.number), zone, CALENDAR)


class EveryDays:
    """The anchor's time of day on every n-th day."""

    __slots__ = ("anchor", "step")

    def __init__(self, anchor: Local, days: int) -> None:
        self.anchor = anchor
        self.step = days * DAY

    def first(self, local: Local) -> Local | None:
        found = local + (self.anchor - local) % self.step
        return found if found < END else None

    def last(self, local: Local) -> Local | None:
        found = local - (local - self.anchor) % self.step
        return found if found >= BEGINNING else None

    def count(self, low: Local, high: Local) -> int:
        return max((self.anchor - low) // self.step - (self.anchor - high) // self.step, 0)


class EveryMonths:
    """The anchor's day and time of day in every n-th month; the month's last day where it has no such day."""

    __slots__ = ("months", "_month", "_day", "_clock")

    def __init__(self, anchor: Local, months: int) -> None:
        day, self._clock = divmod(anchor, DAY)
        moment = date.fromordinal(day + EPOCH_ORDINAL)
        self.months = months
        self._month = moment.year * 12 + moment.month - 1
        self._day = moment.day

    def first(self, local: Local) -> Local | None:
        index = self._index(local)
        found = self._at(index)
        if found is not None and found < local:
            found = self._at(index + 1)
        return found

    def last(self, local: Local) -> Local | None:
        index = self._index(local)
        found = self._at(index)
        if found is not None and found > local:
            found = self._at(index - 1)
        return found

    def count(self, low: Local, high: Local) -> int:
        return max(self._rank(high) - self._rank(low), 0)

    def _rank(self, local: Local) -> int:
        """The index of the first member at or after `local`."""
        index = self._index(local)
        found = self._at(index)
        return index + 1 if found is not None and found < local else index

    def _index(self, local: Local) -> int:
        """The index of the member in the month of `local`, or of the last one before that month."""
        moment = date.fromordinal(min(max(local, BEGINNING), END) // DAY + EPOCH_ORDINAL)
        return (moment.year * 12 + moment.month - 1 - self._month) // self.months

    def _at(self, index: int) -> Local | None:
        year, month = divmod(self._month + index * self.months, 12)
        if not 1 < year < 9999:
            return None
        day = min(self._day, monthrange(year, month + 1)[1])
        return (date(year, month + 1, day).toordinal() - EPOCH_ORDINAL) * DAY + self._clock
