"""Spans of local time of day on days of the week: whether one is open, when it opens next, when it closes.

A window is [start, end) on the wall clock of its zone. Where `end` <= `start` it crosses midnight and belongs to the
day on which it opened: Monday 22:00 to 06:00 is Monday's until Tuesday 06:00. It follows the wall clock, whatever that
does: a window inside a gap does not open that day, and what an overlap shows twice is open twice.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from tidegate.domain.instants import DAY, MINUTE, Instant
from tidegate.domain.triggers import Weekday
from tidegate.domain.zones import EPOCH_ORDINAL, Local, Zone, resolve

FULL_DAY = 1440
_WEEK = tuple(Weekday)
_AHEAD = 16
"""Days that are looked at: each day of the week comes twice, so that one opening may fall into a gap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """`start` (0 to 1439) and `end` (1 to 1440) are minutes since local midnight, `days` those on which it opens."""

    start: int
    end: int
    timezone: str = "UTC"
    days: tuple[Weekday, ...] = _WEEK

    @property
    def minutes(self) -> int:
        """Its length on the wall clock, 1 to 1440."""
        return (self.end - self.start - 1) % FULL_DAY + 1


def is_open(span: Span, now: Instant) -> bool:
    """Whether the wall clock of its zone shows a time inside at `now`."""
    return _shows(span, resolve(span.timezone).to_local(now))


def opens(span: Span, now: Instant) -> Instant | None:
    """The first instant from `now` on at which it is open; None when it does not open within two weeks."""
    return now if is_open(span, now) else _turns(span, now, open=True)


def closes(span: Span, now: Instant) -> Instant | None:
    """The first instant from `now` on at which it is closed; None when it does not close within two weeks."""
    return _turns(span, now, open=False) if is_open(span, now) else now


def _shows(span: Span, local: Local) -> bool:
    today = local // DAY
    for day in (today, today - 1):
        begin = day * DAY + span.start * MINUTE
        if begin <= local < begin + span.minutes * MINUTE and _WEEK[(day + EPOCH_ORDINAL - 1) % 7] in span.days:
            return True
    return False


def _turns(span: Span, now: Instant, *, open: bool) -> Instant | None:
    """The first instant after `now` at which it is open (or closed), of all at which that can change."""
    zone = resolve(span.timezone)
    today = zone.to_local(now) // DAY
    changes = set(changes_of(zone, now, now + (_AHEAD + 1) * DAY))
    for day in range(today - 1, today + _AHEAD):
        begin = day * DAY + span.start * MINUTE
        changes.update(zone.instants(begin), zone.instants(begin + span.minutes * MINUTE))
    return next((one for one in sorted(changes) if one > now and is_open(span, one) is open), None)


def changes_of(zone: Zone, after: Instant, until: Instant) -> tuple[Instant, ...]:
    """When the zone's clocks are put forward or back, after an instant and up to another."""
    starts = zone.segments(until).starts
    return starts[bisect_right(starts, after) : bisect_right(starts, until)]
