"""The wall-clock times that a cron expression matches, as a set that can be stepped through and counted.

What matches a day depends only on how long the month is and on which weekday it begins, so each pair is worked out
once. Matching days are kept as bit sets of 512 days, the times of day as one sorted array: a step is two look-ups.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from tidegate.domain.instants import DAY, HOUR, MINUTE, SECOND
from tidegate.domain.zones import BEGINNING, END, EPOCH_ORDINAL, Local

_CHUNK_BITS = 9
_CHUNK = 1 << _CHUNK_BITS
_FIRST_DAY, _LAST_DAY = BEGINNING // DAY, END // DAY


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


@lru_cache(maxsize=1024)
def clock_of(seconds: int, minutes: int, hours: int) -> Sequence[int]:
    """The times of day of three bit sets (bit n = n), ascending, in microseconds. Packed when there are many."""
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
