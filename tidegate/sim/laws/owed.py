"""The brute-force answer to which fires a schedule owed: every second or minute is tried, nothing is computed ahead.

Slow, obvious and independent of `domain.cron` and `domain.fires`. It knows the triggers that the workload makes: cron
whose hour or minute is a wildcard (so that it follows real time) or in a zone without jumps, intervals of fixed
length, single instants. Of others it says None: it cannot tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from tidegate.domain.instants import DAY, MINUTE, SECOND, Duration, Instant, parse_duration
from tidegate.domain.triggers import At, Cron, Interval, Trigger
from tidegate.sim.history import ScheduleFact

MONDAY = 4 * DAY
"""1970-01-05, where grids begin."""


def owed(schedule: ScheduleFact, until: Instant) -> list[Instant] | None:
    """Every fire time up to `until` that some revision owed, ascending; None when this oracle cannot tell."""
    found: list[Instant] = []
    ends = [one.valid_from for one in schedule.revisions[1:]] + [until]
    for revision, end in zip(schedule.revisions, ends, strict=True):
        if not revision.mode.works:
            continue
        last = min(end, until, schedule.deleted_at if schedule.deleted_at is not None else until)
        fires = _fires(revision.spec.trigger, revision.valid_from, last)
        if fires is None:
            return None
        found.extend(fires)
    return found


def _fires(trigger: Trigger, after: Instant, until: Instant) -> list[Instant] | None:
    match trigger:
        case Cron():
            fires = _cron(trigger, after, until)
        case Interval():
            fires = _grid(parse_duration(trigger.every), trigger.anchor or MONDAY, after, until)
        case At():
            fires = iter([trigger.time])
        case _:
            return None
    first, last = trigger.start, trigger.end
    return [
        fire
        for fire in fires
        if after < fire <= until and (first is None or fire >= first) and (last is None or fire <= last)
    ]


def _grid(every: Duration, anchor: Instant, after: Instant, until: Instant) -> Iterator[Instant]:
    fire = after - (after - anchor) % every
    while fire <= until:
        yield fire
        fire += every


def _cron(trigger: Cron, after: Instant, until: Instant) -> Iterator[Instant]:
    fields = trigger.expression.split()
    step = SECOND if trigger.seconds else MINUTE
    if not trigger.seconds:
        fields = ["0", *fields]
    allowed = [_field(text, low, high) for text, (low, high) in zip(fields, _RANGES, strict=True)]
    seconds, minutes, hours, days, months, weekdays = allowed
    either = _restricted(fields[3]) and _restricted(fields[5])
    zone = UTC if trigger.timezone == "UTC" else ZoneInfo(trigger.timezone)
    fire = after - after % step
    while fire <= until:
        local = datetime.fromtimestamp(fire // SECOND, zone)
        day, week = local.day in days, local.isoweekday() % 7 in weekdays
        if (
            local.second in seconds
            and local.minute in minutes
            and local.hour in hours
            and local.month in months
            and ((day or week) if either else (day and week))
        ):
            yield fire
        fire += step


_RANGES = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def _restricted(text: str) -> bool:
    return not text.startswith("*")


def _field(text: str, low: int, high: int) -> frozenset[int]:
    """`*`, `*/5`, `3`, `1,4`, `10-20`, `10-50/7` and lists of them."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\*|\d+)(?:-(\d+))?(?:/(\d+))?", part)
        assert match is not None, f"the oracle does not read {text!r}"
        begin, end, step = match.groups()
        first = low if begin == "*" else int(begin)
        last = int(end) if end else high if begin == "*" or step else first
        found.update(range(first, last + 1, int(step or 1)))
    return frozenset(found)
