"""Triggers and constraints as people write them in Python. Each builds the very document that YAML would hold.

A trigger is a value: composing it does not fire it, and asking whether it is "true" is always a mistake
(`cron(...) and every(...)` would silently drop one of them), so that raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NoReturn

from tidegate.domain.instants import format_duration, format_instant, from_datetime


@dataclass(frozen=True)
class When:
    """A trigger's document. `zoned` ones take the application's time zone unless they name their own."""

    document: Mapping[str, Any] = field(default_factory=dict)
    zoned: bool = False

    def in_zone(self, timezone: str) -> dict[str, Any]:
        """The document, with the zone filled in where none was named."""
        named = dict(self.document)
        if self.zoned:
            named.setdefault("timezone", timezone)
        return named

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a trigger is neither true nor false: 'and', 'or' and 'not' cannot combine triggers, they would drop one"
        )


def cron(
    expression: str,
    *,
    timezone: str | None = None,
    seconds: bool = False,
    dst_gap: str | None = None,
    dst_overlap: str | None = None,
    start: str | datetime | None = None,
    end: str | datetime | None = None,
    jitter: str | timedelta | None = None,
) -> When:
    """Fire by a cron expression of five fields, or six with leading seconds when `seconds` is true.

    The zone is an IANA name; left out, it is the application's. `dst_gap`: shift or skip; `dst_overlap`: first, last
    or both; they matter to fixed times only. `start` and `end` bound the fire times; `jitter` spreads the starts.
    """
    return _when(
        "cron",
        expression=expression,
        timezone=timezone,
        seconds=seconds or None,
        dst_gap=dst_gap,
        dst_overlap=dst_overlap,
        **_bounds(start, end, jitter),
    )


def every(
    interval: str | timedelta,
    *,
    anchor: str | datetime | None = None,
    timezone: str | None = None,
    start: str | datetime | None = None,
    end: str | datetime | None = None,
    jitter: str | timedelta | None = None,
) -> When:
    """Fire at a fixed rate on a grid: `every("5s")`, `every("P1M")`. The grid never drifts.

    Days, weeks, months and years follow the zone's calendar; `PT24H` is exact. The grid starts at `anchor`, by default
    Monday 1970-01-05T00:00 in the zone.
    """
    text = format_duration(interval // timedelta(microseconds=1)) if isinstance(interval, timedelta) else interval
    return _when(
        "interval",
        every=text,
        anchor=_instant(anchor),
        timezone=timezone,
        **_bounds(start, end, jitter),
    )


def at(time: str | datetime, *, jitter: str | timedelta | None = None) -> When:
    """Fire once, at an instant (RFC 3339 with an offset, or an aware datetime)."""
    return _when("at", time=_instant(time), **_bounds(None, None, jitter))


def after_finish(
    delay: str | timedelta,
    *,
    start: str | datetime | None = None,
    end: str | datetime | None = None,
    jitter: str | timedelta | None = None,
) -> When:
    """Fire `delay` after the previous run ended; the first time at once on enabling, or at `start`."""
    return _when("after_finish", delay=_duration(delay), **_bounds(start, end, jitter))


def window_days(
    every_days: int = 1,
    *,
    days: Sequence[str] | None = None,
    earliest: str | None = None,
    latest: str | None = None,
    timezone: str | None = None,
    start: str | datetime | None = None,
    end: str | datetime | None = None,
    jitter: str | timedelta | None = None,
) -> When:
    """Fire every so many days since the last run, on some weekdays (`["MON", "TUE"]`), between two times of day."""
    return _when(
        "window_days",
        every_days=every_days,
        days=list(days) if days is not None else None,
        earliest=earliest,
        latest=latest,
        timezone=timezone,
        **_bounds(start, end, jitter),
    )


def never() -> When:
    """Fire by hand only (`tidegate trigger`)."""
    return _when("never")


def concurrency(max: int, *, scope: str | None = None, unmet: str | None = None) -> dict[str, Any]:
    """At most `max` runs at once, counted per `scope` (schedule, program); unmet: wait (default) or skip."""
    return _told({"type": "concurrency", "max": max, "scope": scope, "unmet": unmet})


def _when(kind: str, **said: Any) -> When:
    return When(_told({"type": kind, **said}), zoned=kind in ("cron", "interval", "window_days"))


def _bounds(
    start: str | datetime | None, end: str | datetime | None, jitter: str | timedelta | None
) -> dict[str, str | None]:
    return {"start": _instant(start), "end": _instant(end), "jitter": _duration(jitter)}


def _instant(given: str | datetime | None) -> str | None:
    return format_instant(from_datetime(given)) if isinstance(given, datetime) else given


def _duration(given: str | timedelta | None) -> str | None:
    return format_duration(given // timedelta(microseconds=1)) if isinstance(given, timedelta) else given


def _told(document: Mapping[str, Any]) -> dict[str, Any]:
    """Without what was left unsaid, so that defaults stay the server's."""
    return {key: value for key, value in document.items() if value is not None}
