"""Instants, durations and sizes: how time and amounts are written down everywhere in Tidegate.

An `Instant` is a whole number of microseconds since 1970-01-01T00:00:00Z, a `Duration` a whole number of
microseconds. Integers, because one cron step must cost microseconds, because PostgreSQL, the in-memory store and
JSON carry them unchanged, and because arithmetic on them cannot meet a time zone by accident. Zones enter in
`domain.zones` only. (docs/decisions/0001-instants-are-integers.md)
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

Instant: TypeAlias = int
Duration: TypeAlias = int

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

FIRST, LAST = -2_208_988_800 * SECOND, 7_258_118_400 * SECOND
"""The beginning of 1900 and of 2200: what people and programs say lies between them."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ISO = re.compile(
    r"^P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+)(?:[.,](?P<f>\d{1,6}))?S)?)?$",
    re.ASCII,
)
_SHORT = re.compile(r"^(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?$", re.ASCII)
_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*(B|[kKMGTP]i?B|[kKMGTP])?$", re.ASCII)
_POWERS = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def to_datetime(instant: Instant) -> datetime:
    """The same instant as an aware `datetime` in UTC."""
    return _EPOCH + timedelta(microseconds=instant)


def from_datetime(moment: datetime) -> Instant:
    """The instant of an aware `datetime`. Raises ValueError for a naive one, since it names no instant."""
    if moment.tzinfo is None:
        raise ValueError("a time without a zone names no instant; write it with an offset, e.g. 2026-03-29T00:00:00Z")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def format_instant(instant: Instant) -> str:
    """RFC 3339 in UTC, e.g. `2026-03-29T00:00:00Z`, with as many fraction digits as are needed (0, 3 or 6)."""
    second, fraction = divmod(instant, SECOND)
    if not fraction:
        return f"{_whole(second)}Z"
    if fraction % MILLISECOND:
        return f"{_whole(second)}.{fraction:06}Z"
    return f"{_whole(second)}.{fraction // MILLISECOND:03}Z"


@lru_cache(maxsize=4096)
def _whole(second: int) -> str:
    """A whole second of UTC, without its zone: what happens at once is told within the same few."""
    return to_datetime(second * SECOND).isoformat(timespec="seconds").removesuffix("+00:00")


def parse_instant(text: str) -> Instant:
    """Read RFC 3339 (an offset or Z is required). Raises ValueError that says what would be right."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is not an instant; write it like 2026-03-29T00:00:00Z") from None
    return from_datetime(moment)


def parse_duration(text: str) -> Duration:
    """Read an exact ISO 8601 duration (`PT4H`, `P1DT2H`, `PT0.5S`) or its short form (`4h`, `1d12h`, `500ms`).

    To the microsecond. A day is 24 hours and a week 7 days here; months and years have no fixed length and are only
    accepted where a calendar is at hand (the `every` of an interval, see `domain.intervals`).
    """
    value = text.strip()
    if match := _ISO.match(value):
        if value not in ("P", "PT") and not value.endswith("T"):
            part = {name: int(found) for name, found in match.groupdict().items() if found and name != "f"}
            micros = int((match["f"] or "0").ljust(6, "0"))
            days = part.get("w", 0) * 7 + part.get("d", 0)
            clock = part.get("h", 0) * HOUR + part.get("m", 0) * MINUTE + part.get("s", 0) * SECOND
            return days * DAY + clock + micros
    elif value and (match := _SHORT.match(value)):
        units = (7 * DAY, DAY, HOUR, MINUTE, SECOND, MILLISECOND)
        return sum(int(found) * unit for found, unit in zip(match.groups(), units, strict=True) if found)
    raise ValueError(f"{text!r} is not a duration; write it like PT4H, P1D, PT0.5S or 4h, 1d, 500ms")


def format_duration(duration: Duration) -> str:
    """The ISO 8601 form, e.g. `P1DT2H`, `PT0.5S`, `PT0S`; a negative duration has a leading minus sign."""
    if duration < 0:
        return "-" + format_duration(-duration)
    days, rest = divmod(duration, DAY)
    hours, rest = divmod(rest, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    seconds = f"{rest / SECOND:.6f}".rstrip("0").rstrip(".") if rest % SECOND else str(rest // SECOND)
    clock = "".join(
        f"{n}{unit}" for n, unit in ((hours, "H"), (minutes, "M"), (seconds if rest else 0, "S")) if n not in (0, "0")
    )
    if not days and not clock:
        return "PT0S"
    return "P" + (f"{days}D" if days else "") + (f"T{clock}" if clock else "")


def parse_size(text: str | int) -> int:
    """Read a size in bytes: `1 GB` is 10^9, `1 GiB` is 2^30, a bare number is bytes."""
    if isinstance(text, int):
        return text
    if match := _SIZE.match(text.strip()):
        unit = match[2] or "B"
        factor = 1 if unit == "B" else (1024 if "i" in unit else 1000) ** _POWERS[unit[0]]
        return round(float(match[1]) * factor)
    raise ValueError(f"{text!r} is not a size; write it like 500 MB, 1 GB, 1 GiB or a number of bytes")
