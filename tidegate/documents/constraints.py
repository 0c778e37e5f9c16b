"""Constraints as people write them: the rules for *may it now*, each a type with its own fields."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias, assert_never

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema, field_validator

from tidegate.documents import plugged, refusals
from tidegate.documents.base import Document
from tidegate.documents.scalars import (
    JsonMap,
    Name,
    PositiveDuration,
    TimeOfDay,
    Weekdays,
    Zone,
    choice,
    is_name,
    wrong,
)
from tidegate.domain import constraints
from tidegate.domain.constraints import GROUP, POOL, Unmet
from tidegate.domain.jsonable import say
from tidegate.domain.triggers import Weekday
from tidegate.domain.windows import Span

MANY = 1_000_000
"""No count of a document is larger."""
SCOPES = ("schedule", "program", "group:NAME")
_RESOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def _scope(value: object) -> str:
    if isinstance(value, str) and value.startswith(GROUP):
        if not is_name(value.removeprefix(GROUP)):
            raise wrong(f"{value!r} names no group; write group:NAME, e.g. group:nightly")
        return value
    if not isinstance(value, str) or value not in SCOPES:
        raise wrong(refusals.unknown(str(value), "a scope", SCOPES))
    return value


Scope = Annotated[
    str,
    BeforeValidator(_scope),
    WithJsonSchema({"type": "string", "pattern": "^(schedule|program|group:.+)$", "examples": list(SCOPES)}),
]


class Unmeetable(Document):
    """What every constraint also takes."""

    unmet: Annotated[Literal["wait", "skip"], choice("a meaning of unmet", Unmet)] = Field(
        default="wait", description="what a run does while it does not hold: wait, or end as skipped"
    )


class Concurrency(Unmeetable):
    """At most `max` runs at once, from when they are admitted to their end."""

    type: Literal["concurrency"]
    max: int = Field(description="how many runs at once, at least 1", ge=1, le=MANY)
    scope: Scope = Field(
        default="schedule",
        description="what is counted: runs of the schedule, of its program, or of a group of the namespace",
    )


class Delay(Unmeetable):
    """Not before a while after the trigger was satisfied."""

    type: Literal["delay"]
    duration: PositiveDuration = Field(description="how long after its trigger was satisfied")


class Hours(Document):
    """Between two times of day, on the days on which that opens."""

    start: TimeOfDay = Field(description="when it opens, local time of day")
    end: TimeOfDay = Field(
        description='when it closes, up to "24:00", also written "00:00"; before `start`: on the next day'
    )
    timezone: Zone = Field(default="UTC", description="an IANA time zone")
    days: Weekdays = Field(
        default=["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"],
        min_length=1,
        description="the weekdays on which it opens",
    )

    @field_validator("start")
    @classmethod
    def _opens_in_the_day(cls, start: int) -> int:
        if start == 1440:
            raise wrong('"24:00" can only end a window; one that opens at midnight has start: "00:00"')
        return start

    @field_validator("end")
    @classmethod
    def _differs(cls, end: int, info: ValidationInfo) -> int:
        if end == info.data.get("start"):
            raise wrong('must differ from start, or it would never be open; the whole day is "00:00" to "24:00"')
        return end or 1440  # "until 00:00" is until the day ends

    def span(self) -> Span:
        """The domain's value."""
        days = tuple(day for day in Weekday if day in self.days)
        return Span(start=self.start, end=self.end, timezone=self.timezone, days=days)


class Window(Unmeetable, Hours):
    """Only between two times of day, on the days on which that opens."""

    type: Literal["window"]
    stop_at_end: bool = Field(default=False, description="whether what still runs when it closes is stopped")


class MinInterval(Unmeetable):
    """Not before a while after a run of the program last started, under any schedule."""

    type: Literal["min_interval"]
    duration: PositiveDuration = Field(description="how long after the last start")


class Rate(Unmeetable):
    """At most so many starts in any span of that length."""

    type: Literal["rate"]
    max: int = Field(description="how many starts, at least 1", ge=1, le=10_000)
    per: PositiveDuration = Field(description="the length of the sliding span, e.g. PT1H or 1d")
    scope: Scope = Field(default="schedule", description="as for concurrency")


def _resource(value: object) -> str:
    if not isinstance(value, str):
        raise wrong(f"must be the name of a resource, not {say(value)}")
    name = value.removeprefix(POOL)
    if not (is_name(name) if value.startswith(POOL) else _RESOURCE.fullmatch(value)):
        raise wrong(f"{value!r} is not a resource; write pool:NAME or the name of a probe of the settings")
    return value


class Load(Unmeetable):
    """Only while a reading is below a limit."""

    type: Literal["load"]
    resource: Annotated[str, BeforeValidator(_resource)] = Field(
        description="pool:NAME (percent of its slots in use) or a probe of the settings ([probes.NAME])"
    )
    below: float = Field(description="the reading must be less than this", allow_inf_nan=False)

    @field_validator("below")
    @classmethod
    def _can_be(cls, below: float, info: ValidationInfo) -> float:
        if str(info.data.get("resource", "")).startswith(POOL) and not 0 < below <= 100:
            raise wrong(f"must lie between 0 and 100, a share of the pool's slots in percent, not {below:g}")
        return below


class Blackout(Unmeetable):
    """Not while a calendar is closed."""

    type: Literal["blackout"]
    calendar: Name = Field(description="the name of a Calendar document")


class Plugged(Unmeetable):
    """A constraint of a plug-in: its `type` is the plug-in's, everything beside it and `unmet` are its parameters."""

    type: Literal["custom"]
    plugin: str = Field(description="the type of constraint, as its package calls it")
    parameters: JsonMap = Field(default_factory=dict, description="what stands beside `type` and `unmet`")


TYPES = ("concurrency", "delay", "window", "min_interval", "rate", "load", "blackout")


def _known_type(value: object) -> object:
    """One sentence for a constraint of another type, instead of one for each of its keys."""
    if not isinstance(value, dict):
        return value
    tag = value.get("type")
    if tag is None:
        raise wrong(f"has no `type`; it is a type of constraint, one of {', '.join(TYPES)}")
    if tag in TYPES:
        return value
    plugged.load()
    known = constraints.known()
    plugin = known.get(str(tag))
    if plugin is None:
        raise wrong(refusals.unknown(str(tag), "a type of constraint", [*TYPES, *known]))
    parameters: dict[Any, Any] = {key: said for key, said in value.items() if key not in ("type", "unmet")}
    if faults := plugin.faults(parameters):
        raise wrong("; ".join(faults))
    unmet = {"unmet": value["unmet"]} if "unmet" in value else {}
    return {"type": "custom", "plugin": tag, "parameters": parameters, **unmet}


ConstraintDocument: TypeAlias = Concurrency | Delay | Window | MinInterval | Rate | Load | Blackout | Plugged
Constraint: TypeAlias = Annotated[
    Concurrency | Delay | Window | MinInterval | Rate | Load | Blackout | Plugged,
    Field(discriminator="type"),
    BeforeValidator(_known_type),
]


def constraint_of(document: ConstraintDocument) -> constraints.Constraint:
    """The domain's value of a constraint document."""
    unmet = Unmet(document.unmet)
    match document:
        case Concurrency():
            return constraints.Concurrency(max=document.max, scope=document.scope, unmet=unmet)
        case Delay():
            return constraints.Delay(duration=document.duration, unmet=unmet)
        case Window():
            return constraints.Window(span=document.span(), stop_at_end=document.stop_at_end, unmet=unmet)
        case MinInterval():
            return constraints.MinInterval(duration=document.duration, unmet=unmet)
        case Rate():
            return constraints.Rate(max=document.max, per=document.per, scope=document.scope, unmet=unmet)
        case Load():
            return constraints.Load(resource=document.resource, below=document.below, unmet=unmet)
        case Blackout():
            return constraints.Blackout(calendar=document.calendar, unmet=unmet)
        case Plugged():
            return constraints.CustomConstraint(plugin=document.plugin, parameters=document.parameters, unmet=unmet)
        case _:
            assert_never(document)


def twice(given: list[Any]) -> str | None:
    """What is wrong with constraints that say the same twice; None: nothing."""
    limits = [(one.type, one.scope, one.unmet) for one in given if isinstance(one, Concurrency)]
    if double := next((one for one in limits if limits.count(one) > 1), None):
        return f"limits the runs of one {double[1]} twice; keep the lower limit"
    for kind in (Delay, MinInterval):
        if sum(isinstance(one, kind) for one in given) > 1:
            name = next(one.type for one in given if isinstance(one, kind))
            return f"has more than one {name}; keep the longer"
    return None
