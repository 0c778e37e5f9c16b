"""Cron expressions: read with errors that name field and position, compiled to bit sets.

Five fields (minute, hour, day of month, month, day of week), or six with leading seconds where a trigger opts in.
Numbers, names, lists, ranges, steps, `?`, and for days `L`, `LW`, `15W` (day of month), `5L`, `2#1` (day of week,
0 and 7 are Sunday). Day of month and day of week are ORed when both are restricted, that is when neither begins with
`*` nor is `?`, as cron has always done; else both must hold.

What matches a day depends only on how long the month is and on which weekday it begins, so each pair is worked out
once. Matching days are kept as bit sets of 512 days, the times of day as one sorted array: a step is two look-ups.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from tidegate.domain.instants import DAY, HOUR, MINUTE, SECOND
from tidegate.domain.zones import BEGINNING, END, EPOCH_ORDINAL, Local

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class CronError(ValueError):
    """What is wrong with an expression: `field` by name, `position` in characters from 1, `reason` with remedy."""

    def __init__(self, field: str, position: int, reason: str) -> None:
        self.field = field
        self.position = position
        self.reason = reason
        super().__init__(f"{field}, position {position}: {reason}" if field else reason)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = f" or {self.names[0]} to {self.names[-1]}" if self.names else ""
        return f"{self.name} is {self.low} to {self.high}{words}"


_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_SECOND = _Field("second", 0, 59)
_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_DOM = _Field("day of month", 1, 31)
_MONTH = _Field("month", 1, 12, _MONTHS)
_DOW = _Field("day of week", 0, 7, _DAYS)


@dataclass(frozen=True, slots=True)
class DayRule:
    """Which days match. Bit n of `days` is day n, of `months` month n, of `weekdays` weekday n (0 = Sunday)."""

    days: int
    months: int
    weekdays: int
    last_day: bool  # L
    last_workday: bool  # LW
    near_workday: tuple[int, ...]  # 15W
    last_weekdays: int  # 5L
    nth_weekdays: tuple[tuple[int, int], ...]  # 2#1
    either: bool  # OR day of month and day of week

    def mask(self, length: int, first: int) -> int:
        """The matching days of a month (bit 0 = the 1st) by its length and the weekday of its 1st; months aside."""
        whole = (1 << length) - 1
        by_date = (self.days >> 1) & whole
        if self.last_day:
            by_date |= 1 << (length - 1)
        if self.last_workday:
            by_date |= 1 << (_workday_near(length, length, first) - 1)
        for day in self.near_workday:
            if day <= length:
                by_date |= 1 << (_workday_near(day, length, first) - 1)
        by_week = 0
        for day in range(1, length + 1):
            weekday = (first + day - 1) % 7
            if (
                self.weekdays >> weekday & 1
                or (self.last_weekdays >> weekday & 1 and day + 7 > length)
                or (weekday, (day + 6) // 7) in self.nth_weekdays
            ):
                by_week |= 1 << (day - 1)
        return by_date | by_week if self.either else by_date & by_week


def _workday_near(day: int, length: int, first: int) -> int:
    """The day from Monday to Friday nearest to a day, within its month."""
    match (first + day - 1) % 7:
        case 6:
            return day - 1 if day > 1 else day + 2
        case 0:
            return day + 1 if day < length else day - 2
        case _:
            return day


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression. `real_time`: minute or hour begins with `*`, so it fires whenever the clock matches."""

    text: str
    seconds: int
    minutes: int
    hours: int
    days: DayRule
    real_time: bool

    @property
    def times(self) -> CronTimes:
        """The wall-clock times that it matches."""
        return _times(self)


@lru_cache(maxsize=16384)
def parse_cron(text: str, *, seconds: bool = False) -> Expression:
    """Read an expression; `seconds` is whether six fields, seconds first, are wanted. Raises CronError."""
    fields = _split(text, seconds)
    second = _numbers(*fields[0], _SECOND)
    minute = _numbers(*fields[1], _MINUTE)
    hour = _numbers(*fields[2], _HOUR)
    month = _numbers(*fields[4], _MONTH)
    day_text, week_text = fields[3][0], fields[5][0]
    either = not any(part.startswith("*") or part == "?" for part in (day_text, week_text))
    rule = _day_rule(fields[3], fields[5], month, either)
    expression = Expression(text, second, minute, hour, rule, fields[1][0][0] == "*" or fields[2][0][0] == "*")
    if not any(
        rule.mask(length, first)
        for number in range(1, 13)
        if month >> number & 1
        for length in ((28, 29) if number == 2 else (monthrange(2001, number)[1],))
        for first in range(7)
    ):
        raise CronError("day of month", fields[3][1], f"{text.strip()!r} never fires: no month it names has such a day")
    return expression


def _split(text: str, seconds: bool) -> list[tuple[str, int]]:
    """Six fields, each with its position from 1; a missing seconds field is `0`."""
    value = text.strip()
    if value.startswith("@"):
        if value.lower() not in ALIASES:
            raise CronError(
                "", 1, f"{value!r} is no alias; there are {', '.join(ALIASES)} (for a fixed rate use an interval)"
            )
        return [("0", 1)] + [(part, 1) for part in ALIASES[value.lower()].split()]
    fields = [(found[0].upper(), found.start() + 1) for found in re.finditer(r"\S+", text)]
    wanted = 6 if seconds else 5
    names = ("second " if seconds else "") + "minute hour day-of-month month day-of-week"
    if len(fields) == 6 and not seconds:
        raise CronError("", 1, f"{value!r} has six fields; say `seconds: true`, or leave out the seconds: {names}")
    if len(fields) != wanted:
        raise CronError("", 1, f"{value!r} has {len(fields)} fields instead of {wanted}: {names}")
    return fields if seconds else [("0", 1), *fields]


def _items(text: str, position: int, field: _Field) -> list[tuple[str, int]]:
    """The elements of a list, each with its position."""
    items = []
    for item in text.split(","):
        if not item:
            raise CronError(field.name, position, "an element of the list is empty; take out the surplus comma")
        items.append((item, position))
        position += len(item) + 1
    return items


def _numbers(text: str, position: int, field: _Field) -> int:
    """The bits of a field that holds nothing but numbers, names, ranges and steps."""
    bits = 0
    for item, at in _items(text, position, field):
        bits |= _element(item, at, field)
    return bits


def _element(item: str, at: int, field: _Field) -> int:
    """The bits of one element: `*`, `*/5`, `7`, `7/5`, `1-5`, `1-9/2`."""
    if item == "?":
        raise CronError(field.name, at, "`?` is for day of month and day of week only; write *")
    span, slash, step_text = item.partition("/")
    step = 1
    top = 6 if field is _DOW else field.high
    if slash:
        size = top - field.low + 1
        if not (step_text.isascii() and step_text.isdecimal()) or not 1 <= int(step_text) <= size:
            raise CronError(field.name, at, f"the step {step_text!r} of {item!r} must be a number from 1 to {size}")
        step = int(step_text)
    if span == "*":
        low, high = field.low, top
    elif "-" in span:
        first, _, last = span.partition("-")
        low, high = _value(first, item, at, field), _value(last, item, at, field)
        if field is _DOW and high == 0 and low > 0:
            high = 7
        if low > high:
            raise CronError(
                field.name,
                at,
                f"the range {span!r} runs backwards; write it as two, "
                f"{first}-{_spelt(top, first, field)},{_spelt(field.low, last, field)}-{last}",
            )
    else:
        low = _value(span, item, at, field)
        high = max(top, low) if slash else low
    bits = 0
    for number in range(low, high + 1, step):
        bits |= 1 << (number % 7 if field is _DOW else number)
    return bits


def _spelt(number: int, like: str, field: _Field) -> str:
    """A number as a name where its neighbour is one."""
    return field.names[number - (1 if field is _MONTH else 0)] if like.isalpha() else str(number)


def _value(text: str, item: str, at: int, field: _Field) -> int:
    """A number or name within the field's limits."""
    if text in field.names:
        return field.names.index(text) + (1 if field is _MONTH else 0)
    if text.isascii() and text.isdecimal() and field.low <= int(text) <= field.high:
        return int(text)
    inside = f" in {item!r}" if text != item else ""
    raise CronError(field.name, at, f"{text!r}{inside} is not allowed: {field}")


def _day_rule(day_field: tuple[str, int], week_field: tuple[str, int], months: int, either: bool) -> DayRule:
    """Both day fields, with what only they can hold: `L`, `LW`, `15W`, `5L`, `2#1`, `?`."""
    days = weekdays = last_weekdays = 0
    last_day = last_workday = False
    near: list[int] = []
    nth: list[tuple[int, int]] = []
    for item, at in _items(*day_field, _DOM):
        if item == "?" == day_field[0]:
            days |= 0xFFFFFFFE
        elif item == "L":
            last_day = True
        elif item in ("LW", "WL"):
            last_workday = True
        elif item.endswith("W"):
            near.append(_value(item[:-1], item, at, _DOM))
        elif item.startswith("L"):
            raise CronError(_DOM.name, at, f"{item!r} is not known; there are L (last day) and LW (last workday)")
        else:
            days |= _element(item, at, _DOM)
    for item, at in _items(*week_field, _DOW):
        weekday, hash_sign, count = item.partition("#")
        if item == "?" == week_field[0]:
            weekdays |= 0x7F
        elif item == "L":
            raise CronError(_DOW.name, at, "a lone L is ambiguous here; write SAT, or 5L for the last Friday")
        elif hash_sign:
            if count not in ("1", "2", "3", "4", "5"):
                raise CronError(_DOW.name, at, f"{item!r}: after # comes 1 to 5, as in 2#1, the first Tuesday")
            nth.append((_value(weekday, item, at, _DOW) % 7, int(count)))
        elif item.endswith("L"):
            last_weekdays |= 1 << (_value(item[:-1], item, at, _DOW) % 7)
        else:
            weekdays |= _element(item, at, _DOW)
    return DayRule(days, months, weekdays, last_day, last_workday, tuple(near), last_weekdays, tuple(nth), either)


# ── matching ───────────────────────────────────────────────────────────────────────────────────────────────────────

_CHUNK_BITS = 9
_CHUNK = 1 << _CHUNK_BITS
_FIRST_DAY, _LAST_DAY = BEGINNING // DAY, END // DAY


@lru_cache(maxsize=16384)
def _times(expression: Expression) -> CronTimes:
    return CronTimes(_clock(expression.seconds, expression.minutes, expression.hours), expression.days)


@lru_cache(maxsize=1024)
def _clock(seconds: int, minutes: int, hours: int) -> Sequence[int]:
    """The matching times of day, ascending, in microseconds. Packed when there are many."""
    found = [
        hour * HOUR + minute * MINUTE + second * SECOND
        for hour in range(24)
        if hours >> hour & 1
        for minute in range(60)
        if minutes >> minute & 1
        for second in range(60)
        if seconds >> second & 1
    ]
    return found if len(found) <= 1440 else array("q", found)


class CronTimes:
    """Every time of day in `clock` on every day that `rule` matches, as a set of wall-clock times."""

    __slots__ = ("clock", "rule", "_chunks", "_masks")

    def __init__(self, clock: Sequence[int], rule: DayRule) -> None:
        self.clock = clock
        self.rule = rule
        self._chunks: dict[int, int] = {}
        self._masks: dict[tuple[int, int], int] = {}

    def first(self, local: Local) -> Local | None:
        day, time = divmod(local, DAY)
        clock = self.clock
        number = day >> _CHUNK_BITS
        chunk = self._chunks.get(number)
        if chunk is None:
            chunk = self._chunk(number)
        rest = chunk >> (day & (_CHUNK - 1))
        if rest & 1:
            if time <= clock[-1]:
                return day * DAY + clock[bisect_left(clock, time)]
            rest ^= 1
        while not rest:
            number += 1
            day = number << _CHUNK_BITS
            if day > _LAST_DAY:
                return None
            rest = self._chunks.get(number) or self._chunk(number)
        return (day + (rest & -rest).bit_length() - 1) * DAY + clock[0]

    def last(self, local: Local) -> Local | None:
        day, time = divmod(local, DAY)
        clock = self.clock
        number = day >> _CHUNK_BITS
        rest = self._chunk(number) & ((2 << (day & (_CHUNK - 1))) - 1)
        if rest >> (day & (_CHUNK - 1)):
            if time >= clock[0]:
                return day * DAY + clock[bisect_right(clock, time) - 1]
            rest ^= 1 << (day & (_CHUNK - 1))
        while not rest:
            number -= 1
            if number << _CHUNK_BITS < _FIRST_DAY - _CHUNK:
                return None
            rest = self._chunk(number)
        return ((number << _CHUNK_BITS) + rest.bit_length() - 1) * DAY + clock[-1]

    def count(self, low: Local, high: Local) -> int:
        if low >= high:
            return 0
        (day, time), (last_day, last_time) = divmod(low, DAY), divmod(high, DAY)
        clock = self.clock
        if day == last_day:
            return (bisect_left(clock, last_time) - bisect_left(clock, time)) if self._has(day) else 0
        total = self._days(day + 1, last_day) * len(clock)
        if self._has(day):
            total += len(clock) - bisect_left(clock, time)
        if self._has(last_day):
            total += bisect_left(clock, last_time)
        return total

    def _has(self, day: int) -> int:
        return self._chunk(day >> _CHUNK_BITS) >> (day & (_CHUNK - 1)) & 1

    def _days(self, low: int, high: int) -> int:
        """How many days in [low, high) match."""
        total = 0
        for number in range(low >> _CHUNK_BITS, (high >> _CHUNK_BITS) + 1):
            chunk, start = self._chunk(number), number << _CHUNK_BITS
            if start + _CHUNK > high:
                chunk &= (1 << (high - start)) - 1
            if start < low:
                chunk >>= low - start
            total += chunk.bit_count()
        return total

    def _chunk(self, number: int) -> int:
        """The matching days of one stretch of 512 as bits."""
        found = self._chunks.get(number)
        if found is None:
            found = self._chunks[number] = self._build(number << _CHUNK_BITS)
        return found

    def _build(self, start: int) -> int:
        bits = 0
        moment = date.fromordinal(min(max(start, _FIRST_DAY), _LAST_DAY) + EPOCH_ORDINAL)
        year, month = moment.year, moment.month
        while True:
            first = date(year, month, 1).toordinal() - EPOCH_ORDINAL
            if first >= start + _CHUNK or first > _LAST_DAY:
                return bits & ((1 << _CHUNK) - 1)
            if self.rule.months >> month & 1:
                shape = (monthrange(year, month)[1], (first + 4) % 7)
                mask = self._masks.get(shape)
                if mask is None:
                    mask = self._masks[shape] = self.rule.mask(*shape)
                bits |= mask << (first - start) if first >= start else mask >> (start - first)
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
