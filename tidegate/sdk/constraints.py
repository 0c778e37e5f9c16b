"""Constraints as people write them in Python: `only=[between("22:00", "06:00"), concurrency(1)]`.

Each builds the very document that YAML would hold. `unmet`: what a run does while it does not hold, "wait" (default) or
"skip". Durations are ISO 8601, short (`"4h"`) or a timedelta. A `scope` is "schedule" (default), "program" or
"group:NAME".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from tidegate.domain.instants import format_duration

Constraint = dict[str, Any]
"""A constraint's document."""


def concurrency(max: int, *, scope: str | None = None, unmet: str | None = None) -> Constraint:
    """At most `max` runs at once, counted per `scope`."""
    return _only("concurrency", max=max, scope=scope, unmet=unmet)


def delay(duration: str | timedelta, *, unmet: str | None = None) -> Constraint:
    """Not before so long after the trigger was satisfied."""
    return _only("delay", duration=_duration(duration), unmet=unmet)


def between(
    start: str,
    end: str,
    *,
    days: Sequence[str] | None = None,
    timezone: str | None = None,
    stop_at_end: bool = False,
    unmet: str | None = None,
) -> Constraint:
    """Only between two times of day, on the days (`["MON", "TUE"]`) on which that opens; across midnight where `end`
    comes before `start`. The zone is an IANA name; left out, it is the application's. `stop_at_end`: what still runs
    when it closes is stopped."""
    return _only(
        "window",
        start=start,
        end=end,
        timezone=timezone,
        days=list(days) if days is not None else None,
        stop_at_end=stop_at_end or None,
        unmet=unmet,
    )


def min_interval(duration: str | timedelta, *, unmet: str | None = None) -> Constraint:
    """Not before so long after a run of the program last started, under any schedule."""
    return _only("min_interval", duration=_duration(duration), unmet=unmet)


def rate(max: int, per: str | timedelta, *, scope: str | None = None, unmet: str | None = None) -> Constraint:
    """At most `max` starts in any span so long, counted per `scope`: `rate(100, "1h")`."""
    return _only("rate", max=max, per=_duration(per), scope=scope, unmet=unmet)


def load(resource: str, below: float, *, unmet: str | None = None) -> Constraint:
    """Only while a reading is below a limit: of "pool:NAME", percent of its slots in use, or of a probe of the
    settings."""
    return _only("load", resource=resource, below=below, unmet=unmet)


def blackout(calendar: str, *, unmet: str | None = None) -> Constraint:
    """Not while the Calendar of that name is closed."""
    return _only("blackout", calendar=calendar, unmet=unmet)


def in_zone(constraint: Mapping[str, Any], timezone: str) -> Constraint:
    """The document, with the zone filled in where a window names none."""
    named = dict(constraint)
    if named.get("type") == "window":
        named.setdefault("timezone", timezone)
    return named


def _only(kind: str, **said: Any) -> Constraint:
    return {"type": kind, **{key: value for key, value in said.items() if value is not None}}


def _duration(given: str | timedelta) -> str:
    return format_duration(given // timedelta(microseconds=1)) if isinstance(given, timedelta) else given
