"""iCalendar files as days and spans in which a calendar is closed.

Every event closes: a whole-day one its local days, any other the instants from its beginning to its end. What repeats
is written out from 1970 to the end of 2050, since a calendar is plain values that nobody has to compute with.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from tidegate.documents.scalars import wrong
from tidegate.domain.calendars import apart
from tidegate.domain.instants import Instant, from_datetime

BEGINNING = "BEGIN:VCALENDAR"
FIRST, END = date(1970, 1, 1), date(2051, 1, 1)
MOST = 20_000
"""Events, written out, that one calendar may hold."""

Closed = tuple[frozenset[int], tuple[tuple[Instant, Instant], ...]]
"""Days since 1970-01-01; spans [start, end), ascending, apart from each other."""


def is_content(text: str) -> bool:
    """Whether this is a calendar, and not the path of one."""
    return text.lstrip("\ufeff \t\r\n")[: len(BEGINNING)].upper() == BEGINNING


@lru_cache(maxsize=4)  # a document is checked, and then made a value of
def closed(text: str, timezone: str) -> Closed:
    """What a file closes. Times that name no zone are those of `timezone`. Raises a fault with our sentence."""
    days: set[int] = set()
    spans: list[tuple[Instant, Instant]] = []
    zone = ZoneInfo(timezone)
    for number, event in enumerate(_events(text)):
        if number >= MOST:
            raise wrong(f"has more than {MOST} events from {FIRST.year} to {END.year - 1}, repeated ones counted each")
        try:
            start, end = event.start, event.end
        except (ValueError, TypeError, KeyError, AttributeError) as fault:
            raise wrong(f"has an event that cannot be read: {_reason(fault)}") from None
        if isinstance(start, datetime) and isinstance(end, datetime):
            begin, over = _instant(start, zone), _instant(end, zone)
            if begin < over:
                spans.append((begin, over))
        else:
            first = (_day(start) - FIRST).days
            days.update(range(first, max(first + 1, (_day(end) - FIRST).days)))
    return frozenset(days), apart(spans)


def _events(text: str) -> Iterator[Any]:
    """Every event that is not cancelled, repeated ones each by itself. They have `start` and `end`."""
    import icalendar  # a fifth of a second: only who reads such a file
    import recurring_ical_events

    try:
        calendar: Any = icalendar.Calendar.from_ical(text.lstrip("\ufeff \t\r\n"))
        for event in calendar.walk("VEVENT"):
            _check(event)
        found = recurring_ical_events.of(calendar, components=["VEVENT"]).between(FIRST, END)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError) as fault:
        raise wrong(f"is not an iCalendar file that can be read: {_reason(fault)}") from None
    return (one for one in found if str(one.get("STATUS", "")).upper() != "CANCELLED")


def _check(event: Any) -> None:
    """Raises ValueError saying what is wrong with an event."""
    name = f"event {str(event.get('SUMMARY') or event.get('UID', ''))!r}"
    if "DTSTART" not in event:
        raise ValueError(f"{name} has no DTSTART")
    if event.errors:
        raise ValueError("; ".join(f"{key} of {name}: {fault}" for key, fault in event.errors))
    for key in ("DTSTART", "DTEND"):
        when = event.get(key)
        zone = None if when is None else when.params.get("TZID")
        if zone and isinstance(when.dt, datetime) and when.dt.tzinfo is None:
            raise ValueError(f"{key} of {name} is in a zone that nobody knows, {zone}")
    if "DTEND" in event and event.start > event.end:
        raise ValueError(f"{name} ends before it begins")
    rules = event.get("RRULE", [])
    for rule in rules if isinstance(rules, list) else [rules]:
        often = str(next(iter(rule.get("FREQ", [])), "")).upper()
        if often in ("SECONDLY", "MINUTELY"):
            raise ValueError(f"{name} repeats {often.lower()}; a blackout that often is not meant, is it?")


def _reason(fault: Exception) -> str:
    text = " ".join(str(fault).split())
    return text if len(text) <= 200 else text[:197] + "..."


def _instant(when: datetime, zone: ZoneInfo) -> Instant:
    return from_datetime(when if when.tzinfo is not None else when.replace(tzinfo=zone))


def _day(when: date) -> date:
    return when.date() if isinstance(when, datetime) else when
