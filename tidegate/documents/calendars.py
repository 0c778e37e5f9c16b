"""The Calendar document: days, rules and iCalendar files in which work that names it does not start."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WithJsonSchema, field_validator

from tidegate.documents import icalendar
from tidegate.documents.base import Document
from tidegate.documents.scalars import Zone, wrong
from tidegate.domain import triggers, validation
from tidegate.domain.calendars import Calendar
from tidegate.domain.jsonable import say

_EPOCH = date(1970, 1, 1)
MANY = 10_000


def _day(value: object) -> int:
    if not isinstance(value, str):
        raise wrong(f'must be a date such as "2026-12-25", not {say(value)}')
    try:
        found = date.fromisoformat(value) if len(value) == 10 else None
    except ValueError:
        found = None
    if found is None:
        raise wrong(f'{value!r} is not a date; write it like "2026-12-25"')
    if not 1900 <= found.year < 2200:
        raise wrong(f"must lie between the years 1900 and 2199, not {value!r}")
    return (found - _EPOCH).days


Day = Annotated[
    int, BeforeValidator(_day), WithJsonSchema({"type": "string", "format": "date", "examples": ["2026-12-25"]})
]
"""Days since 1970-01-01."""


def _rule(rule: str) -> str:
    for fault in validation.validate(triggers.Cron(expression=rule)):
        raise wrong(fault.reason)
    return rule


class CalendarSpec(Document):
    """When it is closed: on `days`, on the days of `rules`, and during the events of `ics`."""

    timezone: Zone = Field(default="UTC", description="whose days are meant: an IANA time zone")
    days: list[Day] = Field(default_factory=list, max_length=MANY, description="dates, each closed as a whole")
    rules: list[Annotated[str, AfterValidator(_rule)]] = Field(
        default_factory=list,
        max_length=100,
        description='cron expressions of five fields; each day on which one fires is closed as a whole: "0 0 1 1 *"',
    )
    ics: str | None = Field(
        default=None,
        description="an iCalendar file, every event of which closes: for the command line its path beside this file, "
        "over REST its content",
        max_length=2_000_000,
    )

    @field_validator("ics")
    @classmethod
    def _is_calendar(cls, ics: str | None, info: ValidationInfo) -> str | None:
        if ics is None:
            return None
        if not icalendar.is_content(ics):
            raise wrong(
                f"must be the content of an iCalendar file (it begins with {icalendar.BEGINNING}), not {say(ics)}; "
                "a path can only be read by `tidegate apply -f FILE`, beside that file"
            )
        if "timezone" in info.data:
            icalendar.closed(ics, info.data["timezone"])
        return ics


def calendar_of(name: str, document: CalendarSpec) -> Calendar:
    """The domain's value of a Calendar document."""
    days, spans = icalendar.closed(document.ics, document.timezone) if document.ics is not None else (frozenset(), ())
    return Calendar(
        name=name,
        timezone=document.timezone,
        days=frozenset(document.days) | days,
        rules=tuple(document.rules),
        spans=spans,
    )
