"""The scalars of the documents: durations, instants, zones, times of day, names. Strict: 22 is not "22".

Each is a pydantic annotation that reads the text people write and gives the domain's value, with a sentence of our own
where it is wrong and a tidy JSON schema. Durations and instants become integers of microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from tidegate.documents import refusals
from tidegate.domain.instants import DAY, FIRST, LAST, format_duration, parse_duration, parse_instant, parse_size
from tidegate.domain.jsonable import say, shortened
from tidegate.domain.triggers import Weekday
from tidegate.domain.zones import UnknownZone, resolve

LONGEST = 36_525 * DAY
"""A hundred years: no duration of a document is longer."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):([0-5]\d)|24:00", re.ASCII)
_EXPLAINED = "wrong"

T = TypeVar("T")


def wrong(reason: str) -> PydanticCustomError:
    """A fault whose sentence is already ours."""
    told = reason.encode("utf-8", "backslashreplace").decode()  # half a character must not stop the telling of it
    return PydanticCustomError(_EXPLAINED, "{reason}", {"reason": told})


def _text(value: object, example: str) -> str:
    if not isinstance(value, str):
        raise wrong(f"must be text such as {example}, not {say(value)}")
    return value


def _sentence(parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as fault:
        raise wrong(str(fault)) from None


# ── durations and instants ─────────────────────────────────────────────────────────────────────────────────────────


def _duration(least: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        duration = _sentence(parse_duration, _text(value, '"PT4H" or "4h"'))
        if duration < least:
            raise wrong(f"must be at least {format_duration(least)}, not {format_duration(duration)}")
        if duration > LONGEST:
            raise wrong(f"must be at most {format_duration(LONGEST)} (a hundred years)")
        return duration

    return read


def _instant(value: object) -> int:
    instant = _sentence(parse_instant, _text(value, '"2026-03-29T00:00:00Z"'))
    if not FIRST <= instant < LAST:
        raise wrong(f"must lie between the years 1900 and 2199, not {shortened(str(value))}")
    return instant


_DURATION_SCHEMA = WithJsonSchema({"type": "string", "format": "duration", "examples": ["PT4H", "4h", "P1D"]})

Duration = Annotated[int, BeforeValidator(_duration(0)), _DURATION_SCHEMA]
"""Zero or more."""
PositiveDuration = Annotated[int, BeforeValidator(_duration(1_000)), _DURATION_SCHEMA]
"""A millisecond or more."""
Moment = Annotated[
    int,
    BeforeValidator(_instant),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-03-29T00:00:00Z"]}),
]


def _size(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise wrong(f'must be a size such as "1 GB" or a number of bytes, not {say(value)}')
    size = _sentence(parse_size, value) if isinstance(value, str) else value
    if not 1 <= size < 1 << 62:
        raise wrong("must be at least 1 byte" if size < 1 else "must be less than 4 EiB")
    return size


Size = Annotated[
    int,
    BeforeValidator(_size),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}], "examples": ["1 GB", "500 MiB", 1000]}),
]
"""Bytes: `1 GB` is 10^9, `1 GiB` is 2^30, a bare number is bytes."""


# ── zones, times of day, names ─────────────────────────────────────────────────────────────────────────────────────


def _zone(value: object) -> str:
    text = _text(value, '"Europe/Berlin"')
    try:
        resolve(text)
    except UnknownZone as fault:
        raise wrong(str(fault)) from None
    return text


Zone = Annotated[str, BeforeValidator(_zone), WithJsonSchema({"type": "string", "examples": ["Europe/Berlin", "UTC"]})]


def _time_of_day(value: object) -> int:
    text = _text(value, '"22:00"')
    if not (match := _TIME_OF_DAY.fullmatch(text)):
        raise wrong(f'{text!r} is not a time of day; write it like "06:30", from "00:00" up to "24:00"')
    return 1440 if match[1] is None else int(match[1]) * 60 + int(match[2])


TimeOfDay = Annotated[
    int,
    BeforeValidator(_time_of_day),
    WithJsonSchema({"type": "string", "pattern": f"^(?:{_TIME_OF_DAY.pattern})$", "examples": ["22:00", "24:00"]}),
]


def _name(value: object) -> str:
    text = _text(value, '"orders-daily"')
    if not _NAME.fullmatch(text):
        raise wrong(
            f"{shortened(text)} is not a name; a name has 1 to 100 letters (a-z, A-Z), digits, '.', '_' or '-' "
            "and begins with a letter or digit"
        )
    return text


Name = Annotated[
    str, BeforeValidator(_name), WithJsonSchema({"type": "string", "pattern": f"^{_NAME.pattern}$", "maxLength": 100})
]


def is_name(text: str) -> bool:
    """Whether a text may be the name of something."""
    return bool(_NAME.fullmatch(text))


# ── closed choices ─────────────────────────────────────────────────────────────────────────────────────────────────


def choice(what: str, available: Iterable[str]) -> BeforeValidator:
    """Reads one of a closed set of words, before a Literal. `what` completes "'x' is not ..."."""
    words = [str(one) for one in available]

    def read(value: object) -> str:
        text = _text(value, repr(words[0]))
        if text not in words:
            raise wrong(refusals.unknown(text, what, words))
        return text

    return BeforeValidator(read)


def _once_each(days: list[str]) -> list[str]:
    if twice := sorted({day for day in days if days.count(day) > 1}):
        raise wrong(f"names {', '.join(twice)} more than once")
    return days


Weekdays = Annotated[
    list[Annotated[Literal["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"], choice("a day", Weekday)]],
    AfterValidator(_once_each),
]
"""Days of the week, each once."""


# ── free JSON ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise wrong(f"must be a mapping (key: value), not {say(value)}")
    return value


JsonMap = Annotated[dict[str, Any], BeforeValidator(_object), WithJsonSchema({"type": "object"})]
