"""Cron expressions: read with errors that name field and position, as bit sets.

Five fields (minute, hour, day of month, month, day of week), or six with leading seconds where a trigger opts in.
Numbers, names, lists, ranges, steps, `?`, and for days `L`, `LW`, `15W` (day of month), `5L`, `2#1` (day of week,
0 and 7 are Sunday). Day of month and day of week are ORed when both are restricted, that is when neither begins with
`*` nor is `?`, as cron has always done; else both must hold.

Reading is here; what a read expression matches is in `domain.cron_times`.
"""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from functools import lru_cache

from tidegate.domain.cron_times import CronTimes, DayRule, clock_of

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
def _times(expression: Expression) -> CronTimes:
    return CronTimes(clock_of(expression.seconds, expression.minutes, expression.hours), expression.days)


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
