"""`workday`: only on the n-th working day of a month (Monday to Friday), by the calendar of a time zone.

    constraints:
      - {type: workday, n: 3, timezone: Europe/Berlin}

holds back until the third working day begins, and again once it is over, until that of the next month. With
`unmet: skip` a run that comes on another day is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from tidegate.domain.constraints import MET, Subject, Verdict, Wait
from tidegate.domain.instants import Instant, from_datetime, to_datetime

Parameters = Mapping[str, Any]
KNOWN = ("n", "timezone")


class Workday:
    """Pure: it is told the time and reads nothing."""

    def faults(self, parameters: Parameters) -> Sequence[str]:
        """What is wrong with a declaration."""
        found = [f"{name!r} is not a key here (known: {', '.join(KNOWN)})" for name in parameters if name not in KNOWN]
        n = parameters.get("n")
        if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= 20:
            found.append("`n` must be a whole number from 1 to 20: every month has 20 working days")
        if parameters.get("timezone", "UTC") not in available_timezones():
            found.append("`timezone` must be an IANA name such as Europe/Berlin")
        return found

    def judge(self, parameters: Parameters, subject: Subject, now: Instant) -> Verdict:
        """Met on that day; else wait for the next one."""
        zone = ZoneInfo(parameters.get("timezone", "UTC"))
        today = to_datetime(now).astimezone(zone).date()
        day = next(one for one in _days(today, parameters["n"]) if one >= today)
        if day == today:
            return MET
        midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
        return Wait(until=from_datetime(midnight), why=f"Working day {parameters['n']} is {day:%A, %d %B %Y}.")


def _days(today: date, n: int) -> Iterator[date]:
    """The n-th working day of this month and of those that follow."""
    first = today.replace(day=1)
    while True:
        month = (first + timedelta(days=offset) for offset in range(31))
        yield [one for one in month if one.weekday() < 5][n - 1]
        first = (first + timedelta(days=32)).replace(day=1)
