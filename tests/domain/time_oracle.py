"""Brute force, on purpose: what TIME-1 and TIME-2 say, written down naively over `zoneinfo` and `datetime`.

Shares no code with `tidegate.domain`: every step of a span is converted to local time by the standard library, and
every wall-clock time is looked at one by one.
"""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


@cache
def zone(name: str) -> ZoneInfo:
    """The zone from the pinned package's file, whatever the machine has."""
    with files("tzdata").joinpath("zoneinfo", name).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@cache
def zone_names() -> tuple[str, ...]:
    return tuple(sorted(files("tzdata").joinpath("zones").read_text().split()))


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def instant(text: str) -> int:
    return micros(datetime.fromisoformat(text))


def _number(text: str, names: list[str], base: int) -> int:
    return names.index(text.upper()) + base if text.upper() in names else int(text)


@cache
def values(field: str, low: int, high: int, kind: str = "") -> frozenset[int]:
    """What a plain field allows."""
    names, base = {"month": (MONTHS, 1), "dow": (DAYS, 0)}.get(kind, ([], 0))
    found: set[int] = set()
    for item in field.split(","):
        span, _, step = item.partition("/")
        if span in ("*", "?"):
            numbers = range(low, high + 1)
        elif "-" in span:
            first, last = (_number(part, names, base) for part in span.split("-"))
            numbers = range(first, last + 1)
        else:
            first = _number(span, names, base)
            numbers = range(first, (high if step else first) + 1)
        found.update(numbers[:: int(step or 1)])
    return frozenset(number % 7 for number in found) if kind == "dow" else frozenset(found)


def _day_of_month(item: str, day: date) -> bool:
    last = calendar.monthrange(day.year, day.month)[1]
    if item == "L":
        return day.day == last
    if item == "LW":
        workdays = [d for d in range(1, last + 1) if date(day.year, day.month, d).weekday() < 5]
        return day.day == workdays[-1]
    if item.endswith("W"):
        target = int(item[:-1])
        if target > last:
            return False
        workdays = [d for d in range(1, last + 1) if date(day.year, day.month, d).weekday() < 5]
        return day.day == min(workdays, key=lambda d: (abs(d - target), d))
    return day.day in values(item, 1, 31)


def _day_of_week(item: str, day: date) -> bool:
    weekday = (day.weekday() + 1) % 7
    if "#" in item:
        wanted, nth = item.split("#")
        return weekday == _number(wanted, DAYS, 0) % 7 and (day.day - 1) // 7 + 1 == int(nth)
    if item.upper().endswith("L"):
        return weekday == _number(item[:-1], DAYS, 0) % 7 and (day + timedelta(7)).month != day.month
    return weekday in values(item, 0, 6, "dow")


@cache
def day_matches(dom: str, month: str, dow: str, day: date) -> bool:
    by_date = any(_day_of_month(item, day) for item in dom.split(",")) if dom != "?" else True
    by_week = any(_day_of_week(item, day) for item in dow.split(",")) if dow != "?" else True
    both_restricted = not (dom.startswith("*") or dom == "?" or dow.startswith("*") or dow == "?")
    right_month = day.month in values(month, 1, 12, "month")
    return right_month and ((by_date or by_week) if both_restricted else (by_date and by_week))


def matches(expression: str, wall: datetime) -> bool:
    """Whether a naive wall-clock time (to the minute) is one that a five-field expression names."""
    minute, hour, dom, month, dow = expression.split()
    return (
        wall.minute in values(minute, 0, 59)
        and wall.hour in values(hour, 0, 23)
        and day_matches(dom, month, dow, wall.date())
    )


@lru_cache(maxsize=4)
def shown_by(name: str, low: datetime, high: datetime, step: timedelta) -> tuple[list[datetime], list[datetime]]:
    """Every step of [low, high), and what a clock on the wall shows then."""
    moments: list[datetime] = []
    walls: list[datetime] = []
    moment, place = low, zone(name)
    while moment < high:
        moments.append(moment)
        walls.append(moment.astimezone(place).replace(tzinfo=None))
        moment += step
    return moments, walls


def fires(
    expression: str, name: str, low: datetime, high: datetime, step: timedelta, *, gap: str, overlap: str
) -> list[int]:
    """Every fire in (low, high), by looking at each step of the span, two days more on either side."""
    margin = timedelta(days=2)
    moments, walls = shown_by(name, low - margin, high + margin, step)
    minute, hour = expression.split()[:2]
    found: set[datetime] = set()
    if minute.startswith("*") or hour.startswith("*"):
        found.update(m for m, w in zip(moments, walls, strict=True) if matches(expression, w))
    else:
        shown: dict[datetime, list[datetime]] = {}
        for m, w in zip(moments, walls, strict=True):
            shown.setdefault(w, []).append(m)
        wall = walls[0]
        while wall <= walls[-1]:
            if matches(expression, wall):
                times = shown.get(wall, [])
                if times:
                    found.update({"first": times[:1], "last": times[-1:], "both": times}[overlap])
                elif gap == "shift":
                    jumps = [
                        m for m, w, before in zip(moments[1:], walls[1:], walls, strict=False) if before < wall < w
                    ]
                    found.update(jumps[:1])
            wall += step
    return sorted(micros(m) for m in found if low < m < high)
