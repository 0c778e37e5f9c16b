"""IANA time zones as tables of integers, from the pinned `tzdata` package only.

A `Zone` answers "what is local time at this instant" by one bisection. Local times are written as an instant is:
microseconds since 1970-01-01T00:00, but on the wall clock of the zone. Beyond the explicit table of a zone its POSIX
footer rule (`CET-1CEST,M3.5.0,M10.5.0/3`) goes on; those years are added when somebody first asks for them.

`load_zone_data` is the only place that touches files, and only those of the package, so that every machine of a
cluster agrees on what 02:30 in Berlin is, whatever its operating system holds.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections.abc import Sequence
from datetime import date
from functools import cache
from importlib.resources import files
from struct import unpack, unpack_from
from typing import NamedTuple, TypeAlias

from tidegate.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant, to_datetime

Local: TypeAlias = int
"""A wall-clock time: microseconds since 1970-01-01T00:00 of the zone it is in."""

EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
BEGINNING: Instant = -(EPOCH_ORDINAL - 366) * DAY
"""0002-01-01: nothing is asked about earlier instants."""
END: Instant = (date(9999, 1, 1).toordinal() - EPOCH_ORDINAL) * DAY
"""9999-01-01: nothing fires later."""
_FIRST_HORIZON: Instant = (date(2101, 1, 1).toordinal() - EPOCH_ORDINAL) * DAY


class UnknownZone(ValueError):
    """No such zone. The message says which names come near; so does `suggestions`."""

    def __init__(self, name: str, suggestions: Sequence[str]) -> None:
        self.name = name
        self.suggestions = tuple(suggestions)
        near = f"did you mean {' or '.join(self.suggestions)}?" if suggestions else "write it like Europe/Berlin"
        super().__init__(f"{name!r} is not a time zone of the IANA database; {near}")


class Segments(NamedTuple):
    """Stretches of constant offset: `offsets[i]` holds from `starts[i]` to `starts[i + 1]`, the last to `horizon`."""

    starts: tuple[Instant, ...]
    offsets: tuple[Duration, ...]
    horizon: Instant


class Zone:
    """One zone's offsets from UTC. Immutable to those who use it; later years are added as they are asked for."""

    __slots__ = ("name", "_explicit", "_rule", "_rule_from", "_segments")

    def __init__(self, name: str, explicit: Segments, rule: Rule | None, rule_from: Instant) -> None:
        self.name = name
        self._explicit = explicit
        self._rule = rule
        self._rule_from = rule_from
        self._segments = explicit._replace(horizon=END) if rule is None else self._extended(_FIRST_HORIZON)

    def __repr__(self) -> str:
        return f"Zone({self.name!r})"

    def segments(self, until: Instant = _FIRST_HORIZON) -> Segments:
        """The table, complete up to `until` at least (no further than `END`)."""
        if self._segments.horizon < min(until, END):
            self._segments = self._extended(min(until + (until - _FIRST_HORIZON) // 2 + 3660 * DAY, END))
        return self._segments

    def offset_at(self, instant: Instant) -> Duration:
        """Local time minus UTC at an instant."""
        table = self._segments
        if instant >= table.horizon:
            table = self.segments(instant + DAY)
        return table.offsets[max(bisect_right(table.starts, instant) - 1, 0)]

    def to_local(self, instant: Instant) -> Local:
        """The wall clock at an instant."""
        return instant + self.offset_at(instant)

    def instants(self, local: Local) -> tuple[Instant, ...]:
        """When the wall clock shows `local`: once as a rule, twice in an overlap, never inside a gap; ascending."""
        table = self.segments(local + 3 * DAY)
        found = []
        for i in range(max(bisect_right(table.starts, local - 2 * DAY) - 1, 0), len(table.starts)):
            if table.starts[i] > local + 2 * DAY:
                break
            end = table.starts[i + 1] if i + 1 < len(table.starts) else table.horizon
            if table.starts[i] <= local - table.offsets[i] < end:
                found.append(local - table.offsets[i])
        return tuple(found)

    def earliest(self, local: Local) -> Instant:
        """The first instant at which the wall clock shows `local`; inside a gap the first instant after the gap."""
        if found := self.instants(local):
            return found[0]
        table = self.segments(local + 3 * DAY)
        first = bisect_right(table.starts, local - 2 * DAY)
        return next(
            start
            for start, before, after in zip(
                table.starts[first:], table.offsets[first - 1 :], table.offsets[first:], strict=False
            )
            if start + before <= local < start + after
        )

    def _extended(self, horizon: Instant) -> Segments:
        assert self._rule is not None
        starts, offsets = list(self._explicit.starts), list(self._explicit.offsets)
        first_year = to_datetime(self._rule_from).year
        for year in range(first_year, to_datetime(min(horizon, END)).year + 1):
            for at, offset in self._rule.transitions(year):
                if self._rule_from < at < horizon and offset != offsets[-1]:
                    starts.append(at)
                    offsets.append(offset)
        return Segments(tuple(starts), tuple(offsets), horizon)


@cache
def resolve(name: str) -> Zone:
    """The zone of that IANA name. Raises UnknownZone, which suggests the nearest names."""
    if name not in zone_names():
        raise UnknownZone(name, _nearest(name))
    return parse_tzif(name, load_zone_data(name))


@cache
def zone_names() -> frozenset[str]:
    """Every name that the pinned package knows, aliases included."""
    return frozenset(load_zone_data("../zones").decode().split())


def load_zone_data(name: str) -> bytes:
    """The bytes of one file of the pinned package. The only input of this module; `name` is one of `zone_names`."""
    root = files("tzdata")
    return root.joinpath("zones").read_bytes() if name == "../zones" else root.joinpath("zoneinfo", name).read_bytes()


def format_local(zone: Zone, instant: Instant) -> str:
    """The wall clock with its offset, e.g. `2026-03-29T03:00:00+02:00`."""
    offset = zone.offset_at(instant)
    clock = to_datetime(instant + offset).replace(tzinfo=None)
    spec = "microseconds" if instant % 1000 else "milliseconds" if instant % SECOND else "seconds"
    return clock.isoformat(timespec=spec) + format_offset(offset)


def format_offset(offset: Duration) -> str:
    """`+02:00`, `-03:30`, with seconds where old local mean times have them."""
    minutes, seconds = divmod(abs(offset) // SECOND, 60)
    tail = f":{seconds:02}" if seconds else ""
    return f"{'-' if offset < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}{tail}"


def _nearest(name: str) -> list[str]:
    """Up to three names: another case or a bare city first, then what is spelt alike."""
    wanted = name.strip().replace(" ", "_").lower()
    known = sorted(zone_names())
    exact = [zone for zone in known if zone.lower() == wanted or zone.lower().rpartition("/")[2] == wanted]
    by_lower = {zone.lower(): zone for zone in known}
    alike = [by_lower[found] for found in difflib.get_close_matches(wanted, by_lower, n=3, cutoff=0.6)]
    return list(dict.fromkeys(exact + alike))[:3]


# ── reading TZif files (RFC 9636) ──────────────────────────────────────────────────────────────────────────────────

_HEADER = ">4sc15x6L"


def parse_tzif(name: str, data: bytes) -> Zone:
    """The zone in a TZif file of version 2 or later. Raises ValueError when it is none."""
    magic, version, isut, isstd, leap, times, types, chars = unpack_from(_HEADER, data)
    if magic != b"TZif" or version < b"2":
        raise ValueError(f"the zone data of {name} is not a TZif file of version 2 or later")
    second = 44 + times * 5 + types * 6 + chars + leap * 8 + isstd + isut
    _, _, isut, isstd, leap, times, types, chars = unpack_from(_HEADER, data, second)
    at = second + 44
    moments = unpack(f">{times}q", data[at : at + times * 8])
    kinds = data[at + times * 8 : at + times * 9]
    at += times * 9
    offsets = [unpack_from(">l", data, at + 6 * kind)[0] * SECOND for kind in range(types)]
    footer = data[at + types * 6 + chars + leap * 12 + isstd + isut :].strip(b"\n").decode("ascii")
    starts, held = [BEGINNING], [offsets[0]]
    for moment, kind in zip(moments, kinds, strict=True):
        instant = max(moment * SECOND, BEGINNING)
        if instant == starts[-1]:
            held[-1] = offsets[kind]
        elif offsets[kind] != held[-1]:
            starts.append(instant)
            held.append(offsets[kind])
    rule = parse_posix(footer) if footer else None
    if rule is not None and rule.summer is None:
        rule = None
    return Zone(name, Segments(tuple(starts), tuple(held), END), rule, max(moments[-1] * SECOND if moments else 0, 0))


class Turn(NamedTuple):
    """When a POSIX rule changes: day of the year by `kind` M, J or n, and seconds after local midnight."""

    kind: str
    month: int
    week: int
    day: int
    clock: Duration

    def local(self, year: int) -> Local:
        """The wall-clock time of the change in a year, on the clock in force before it."""
        first = date(year, 1, 1).toordinal() - EPOCH_ORDINAL
        match self.kind:
            case "M":
                start = date(year, self.month, 1)
                day = 1 + (self.day - (start.weekday() + 1)) % 7 + (self.week - 1) * 7
                length = (date(year + self.month // 12, self.month % 12 + 1, 1) - start).days
                number = start.toordinal() - EPOCH_ORDINAL + (day if day <= length else day - 7) - 1
            case "J":
                leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
                number = first + self.day - 1 + (1 if leap and self.day >= 60 else 0)
            case _:
                number = first + self.day
        return number * DAY + self.clock


class Rule(NamedTuple):
    """A POSIX TZ rule: offsets of the two halves of the year and when they begin."""

    winter: Duration
    summer: Duration | None
    to_summer: Turn | None
    to_winter: Turn | None

    def transitions(self, year: int) -> list[tuple[Instant, Duration]]:
        """The changes of one year with the offsets they bring, ascending."""
        if self.summer is None or self.to_summer is None or self.to_winter is None:
            return []
        return sorted(
            [
                (self.to_summer.local(year) - self.winter, self.summer),
                (self.to_winter.local(year) - self.summer, self.winter),
            ]
        )


_POSIX = re.compile(
    r"^(?:<[^>]+>|[A-Za-z]+)(?P<std>[-+]?[\d:]+)(?:(?:<[^>]+>|[A-Za-z]+)(?P<dst>[-+]?[\d:]+)?,(?P<from>[^,]+),(?P<to>[^,]+))?$"
)
_TURN = re.compile(r"^(?:M(\d+)\.(\d+)\.(\d+)|(J)?(\d+))(?:/([-+]?[\d:]+))?$")


def parse_posix(text: str) -> Rule:
    """A POSIX TZ string as it stands in TZif footers. Raises ValueError when it is none."""
    found = _POSIX.match(text)
    if not found:
        raise ValueError(f"{text!r} is not a POSIX time zone rule")
    winter = -_clock(found["std"])
    if found["from"] is None:
        return Rule(winter, None, None, None)
    summer = -_clock(found["dst"]) if found["dst"] else winter + HOUR
    return Rule(winter, summer, _turn(found["from"]), _turn(found["to"]))


def _turn(text: str) -> Turn:
    found = _TURN.match(text)
    if not found:
        raise ValueError(f"{text!r} is not a day of a POSIX time zone rule")
    clock = _clock(found[6]) if found[6] else 2 * HOUR
    if found[1]:
        return Turn("M", int(found[1]), int(found[2]), int(found[3]), clock)
    return Turn("J" if found[4] else "n", 0, 0, int(found[5]), clock)


def _clock(text: str) -> Duration:
    sign = -1 if text.startswith("-") else 1
    parts = [int(part) for part in text.lstrip("+-").split(":")]
    return sign * sum(part * unit for part, unit in zip(parts, (HOUR, MINUTE, SECOND), strict=False))
