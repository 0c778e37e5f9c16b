"""Blackout calendars: days and spans in which work that names one does not start."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from tidegate.domain.fires import next_fire
from tidegate.domain.instants import DAY, Instant
from tidegate.domain.triggers import Cron
from tidegate.domain.windows import changes_of
from tidegate.domain.zones import Local, resolve

_LONGEST = 400
"""Days in a row that are looked at; a longer blackout is looked at again then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """Closed are the local days in `days` (days since 1970-01-01), every local day on which one of the cron expressions
    in `rules` fires, and the spans [start, end) in `spans`, ascending and apart from each other."""

    name: str
    timezone: str = "UTC"
    days: frozenset[int] = frozenset()
    rules: tuple[str, ...] = ()
    spans: tuple[tuple[Instant, Instant], ...] = ()


def closed_until(calendar: Calendar, now: Instant) -> Instant | None:
    """The first instant after `now` that is not closed (or some day on the way there, in a very long blackout); None
    when `now` is not closed."""
    at, first = now, True
    for _ in range(_LONGEST):
        end = _closed_at(calendar, at)
        if end is None:
            return None if first else at
        at, first = end, False
    return at


def apart(spans: Iterable[tuple[Instant, Instant]]) -> tuple[tuple[Instant, Instant], ...]:
    """The same instants in spans that neither overlap nor touch, ascending."""
    found: list[tuple[Instant, Instant]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return tuple(found)


def _start(span: tuple[Instant, Instant]) -> Instant:
    return span[0]


def _closed_at(calendar: Calendar, at: Instant) -> Instant | None:
    """When what is closed at that instant ends, as far as one day or span says."""
    zone = resolve(calendar.timezone)
    today = zone.to_local(at) // DAY
    nearest = bisect_right(calendar.spans, at, key=_start) - 1
    ends = [calendar.spans[nearest][1]] if nearest >= 0 and at < calendar.spans[nearest][1] else []
    if today in calendar.days or any(_on(rule, calendar.timezone, today) for rule in calendar.rules):
        midnight = _midnight(calendar.timezone, today + 1, at)
        ends.append(next(iter(changes_of(zone, at, midnight)), midnight))  # clocks put back may show yesterday again
    return max(ends, default=None)


def _midnight(timezone: str, day: int, after: Instant) -> Instant:
    """The first instant of a local day, after another instant."""
    zone = resolve(timezone)
    shown = (*zone.instants(day * DAY), zone.earliest(day * DAY))  # twice, where clocks are put back over it
    return next((at for at in shown if at > after), after + 1)


@lru_cache(maxsize=4096)
def _on(rule: str, timezone: str, day: int) -> bool:
    """Whether a cron expression fires on that local day."""
    zone = resolve(timezone)
    start: Local = day * DAY
    fire = next_fire(Cron(expression=rule, timezone=timezone), zone.earliest(start) - 1)
    return fire is not None and zone.to_local(fire) // DAY == day
