"""Triggers as people write them in Python. Each builds the very document that YAML would hold.

A trigger is a value: composing it does not fire it, and asking whether it is "true" is always a mistake
(`cron(...) and every(...)` would silently drop one of them), so that raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NoReturn

from tidegate.domain.instants import format_duration, format_instant, from_datetime

ZONED = frozenset({"cron", "interval", "window_days"})
"""Types of triggers that follow a time zone."""


@dataclass(frozen=True)
class When:
    """A trigger's document. Compose with `&` (all), `|` (any), `n_of`, `.max_wait` and `.quiet`."""

    document: Mapping[str, Any] = field(default_factory=dict)

    def in_zone(self, timezone: str) -> dict[str, Any]:
        """The document, with the zone filled in wherever a time trigger names none."""
        return _in_zone(self.document, timezone)

    def __and__(self, other: When) -> When:
        """Both of them: `orders.new() & customers.new()`."""
        return self._joined("all", other)

    def __or__(self, other: When) -> When:
        """Either of them: `orders.new(bytes="1 GB") | since_last_run("4h")`."""
        return self._joined("any", other)

    def max_wait(self, span: str | timedelta, *, then: str | None = None) -> When:
        """But at most this long after the first arrival; then `run` (default) with what is there, or `discard`."""
        whole = self.document if self._is_plain("all") else {"type": "all", "triggers": [self.document]}
        return When({**whole, **_told({"max_wait": _duration(span), "then": then})})

    def quiet(self, span: str | timedelta, *, max_wait: str | timedelta | None = None) -> When:
        """Only after nothing more has come for so long; but wait at most `max_wait` once it could have fired."""
        return _when("quiet", trigger=self.document, **{"for": _duration(span)}, max_wait=_duration(max_wait))

    def _is_plain(self, kind: str) -> bool:
        return set(self.document) == {"type", "triggers"} and self.document["type"] == kind

    def _joined(self, kind: str, other: When) -> When:
        """Flat where that means the same, so that `a & b & c` is one `all` of three."""
        if not isinstance(other, When):
            return NotImplemented
        legs: list[Any] = []
        for one in (self, other):
            legs += one.document["triggers"] if one._is_plain(kind) else [one.document]
        return When({"type": kind, "triggers": legs})

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a trigger is neither true nor false: 'and', 'or' and 'not' would drop one of them; combine triggers with "
            "& (all of them) and | (any of them)"
        )


def n_of(n: int, *triggers: When) -> When:
    """`n` of several triggers."""
    return _when("n_of", n=n, triggers=[one.document for one in triggers])


def since_last_run(span: str | timedelta) -> When:
    """So long since the start of this schedule's last run, while none waits or works."""
    return _when("elapsed", since="last_run", after=_duration(span))


def since_last_event(span: str | timedelta, event: str, *, key: str | None = None) -> When:
    """So long since the last event of a type (and key); once for each silence."""
    return _when("elapsed", since="last_event", after=_duration(span), event=event, key=key)


def event(
    type: str, *, key: str | None = None, match: Mapping[str, Any] | None = None, count: int | None = None
) -> When:
    """`count` events of a type, e.g. `event("user.file_landed", key="eu")`.

    `key` is `namespace/name`, the namespace left out inside one's own; left out, any key. `match`: only events whose
    payload contains these members.
    """
    return _when("event", event=type, key=key, match=dict(match) if match is not None else None, count=count)


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
    latch: str | timedelta | None = None,
) -> When:
    """Fire by a cron expression of five fields, or six with leading seconds when `seconds` is true.

    The zone is an IANA name; left out, it is the application's. `dst_gap`: shift or skip; `dst_overlap`: first, last
    or both; they matter to fixed times only. `start` and `end` bound the fire times; `jitter` spreads the starts.
    `latch` (inside `&` and `n_of`): how long a tick stays satisfied while the others are awaited; left out, until the
    whole fires; "0s", only at that very instant.
    """
    return _when(
        "cron",
        expression=expression,
        timezone=timezone,
        seconds=seconds or None,
        dst_gap=dst_gap,
        dst_overlap=dst_overlap,
        latch=_duration(latch),
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
    latch: str | timedelta | None = None,
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
        latch=_duration(latch),
        **_bounds(start, end, jitter),
    )


def at(time: str | datetime, *, jitter: str | timedelta | None = None, latch: str | timedelta | None = None) -> When:
    """Fire once, at an instant (RFC 3339 with an offset, or an aware datetime)."""
    return _when("at", time=_instant(time), latch=_duration(latch), **_bounds(None, None, jitter))


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
    latch: str | timedelta | None = None,
) -> When:
    """Fire every so many days since the last run, on some weekdays (`["MON", "TUE"]`), between two times of day."""
    return _when(
        "window_days",
        every_days=every_days,
        days=list(days) if days is not None else None,
        earliest=earliest,
        latest=latest,
        timezone=timezone,
        latch=_duration(latch),
        **_bounds(start, end, jitter),
    )


def never() -> When:
    """Fire by hand only (`tidegate trigger`)."""
    return _when("never")


def _when(kind: str, **said: Any) -> When:
    return When(_told({"type": kind, **said}))


def _in_zone(document: Mapping[str, Any], timezone: str) -> dict[str, Any]:
    named = dict(document)
    if named.get("type") in ZONED:
        named.setdefault("timezone", timezone)
    if "triggers" in named:
        named["triggers"] = [_in_zone(one, timezone) for one in named["triggers"]]
    if "trigger" in named:
        named["trigger"] = _in_zone(named["trigger"], timezone)
    return named


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
