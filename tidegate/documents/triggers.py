"""Triggers as people write them. One model per `type`; `trigger_of` gives the domain's value.

Fields that another one's check needs stand before it (pydantic checks in this order), so that contradictions are found
also where something else in the trigger is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, assert_never

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from tidegate.documents.base import Document
from tidegate.documents.data_triggers import (
    DataDocument,
    DataSize,
    Elapsed,
    Event,
    Partition,
    ProgramStatus,
    data_trigger,
)
from tidegate.documents.plugged import Plugged, recognised
from tidegate.documents.scalars import Duration, Moment, PositiveDuration, TimeOfDay, Weekdays, Zone, choice, wrong
from tidegate.domain import triggers, validation
from tidegate.domain.errors import Fault
from tidegate.domain.instants import format_instant
from tidegate.domain.triggers import Gap, Overlap, Then, Weekday


class Bounded(Document):
    """What every time trigger also takes."""

    start: Moment | None = Field(default=None, description="no fire before this instant")
    end: Moment | None = Field(default=None, description="no fire after this instant")
    jitter: Duration = Field(
        default=0, description="each fire starts up to this much later, always by the same share of it"
    )

    @field_validator("end")
    @classmethod
    def _after_start(cls, end: int | None, info: ValidationInfo) -> int | None:
        start = info.data.get("start")
        if end is not None and start is not None and end < start:
            raise wrong(f"must not lie before start ({format_instant(start)}), or nothing ever fires")
        return end

    def bounds(self) -> Mapping[str, Any]:
        return {"start": self.start, "end": self.end, "jitter": self.jitter}


class Latching(Bounded):
    """What a time trigger also takes that may be part of another."""

    latch: Duration | None = Field(
        default=None,
        description="inside `all` and `n_of`: how long a tick stays satisfied; left out: until the whole fires",
    )

    def bounds(self) -> Mapping[str, Any]:
        return {**super().bounds(), "latch": self.latch}


class Cron(Latching):
    """Fires by a cron expression: five fields, or six with leading seconds."""

    type: Literal["cron"]
    timezone: Zone = Field(default="UTC", description="an IANA time zone")
    seconds: bool = Field(default=False, description="whether the expression begins with a field of seconds")
    expression: str = Field(description='minute, hour, day of month, month, day of week, e.g. "0 2 * * *"')
    dst_gap: Annotated[Literal["shift", "skip"], choice("a rule for gaps", Gap)] = Field(
        default="shift", description="a fixed time inside a daylight-saving gap: first instant after it, or not at all"
    )
    dst_overlap: Annotated[Literal["first", "last", "both"], choice("a rule for overlaps", Overlap)] = Field(
        default="first", description="a fixed time that comes twice: the first of them, the last, or both"
    )

    @field_validator("expression")
    @classmethod
    def _fires(cls, expression: str, info: ValidationInfo) -> str:
        if info.data.get("seconds") is not None:
            _raise_first(validation.validate(triggers.Cron(expression=expression, seconds=info.data["seconds"])))
        return expression


class Interval(Latching):
    """Fires at a fixed rate, on a grid from an anchor that never drifts."""

    type: Literal["interval"]
    every: str = Field(description='how often, e.g. "PT5S", "4h", "P1D", "P1M"; days and longer follow the calendar')
    anchor: Moment | None = Field(
        default=None, description="a point of the grid; left out: Monday 1970-01-05T00:00 in the zone"
    )
    timezone: Zone = Field(default="UTC", description="an IANA time zone")

    @field_validator("every")
    @classmethod
    def _is_span(cls, every: str) -> str:
        _raise_first(validation.validate(triggers.Interval(every=every)))
        return every


class AfterFinish(Bounded):
    """Fires a delay after the previous run ended; the first time at once, or at `start`."""

    type: Literal["after_finish"]
    delay: Duration = Field(description="how long after the previous run's end")


class At(Latching):
    """Fires once."""

    type: Literal["at"]
    time: Moment = Field(description="the instant, e.g. 2026-03-29T00:00:00Z")


class WindowDays(Latching):
    """Fires every so many days since the last run, on some weekdays, between two times of day."""

    type: Literal["window_days"]
    every_days: int = Field(description="days between runs, at least 1", ge=1, le=36_525)
    days: Weekdays = Field(
        default=["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"],
        min_length=1,
        description="the weekdays on which the window opens",
    )
    earliest: TimeOfDay = Field(default=0, description="the window's start, local time of day")
    latest: TimeOfDay = Field(
        default=1440, description='the window\'s end, up to "24:00"; not after `earliest`: past midnight'
    )
    timezone: Zone = Field(default="UTC", description="an IANA time zone")

    @field_validator("earliest")
    @classmethod
    def _opens_in_the_day(cls, earliest: int) -> int:
        if earliest == 1440:
            raise wrong('"24:00" can only end a window; a window that opens at midnight has earliest: "00:00"')
        return earliest

    @field_validator("latest")
    @classmethod
    def _has_length(cls, latest: int, info: ValidationInfo) -> int:
        if latest == info.data.get("earliest"):
            raise wrong('is equal to earliest, so the window has no length; a whole day is "00:00" to "24:00"')
        return latest


class Never(Document):
    """Fires by hand only."""

    type: Literal["never"]


class Quiet(Document):
    """Fires once its trigger is satisfied and nothing more has come for it for a while."""

    type: Literal["quiet"]
    trigger: Trigger = Field(description="what must be satisfied, and then fall silent")
    silence: PositiveDuration = Field(alias="for", description="how long nothing more may come")
    max_wait: PositiveDuration | None = Field(
        default=None, description="fires after this long all the same, counted from when its trigger was satisfied"
    )


class All(Document):
    """Fires when every one of its triggers is satisfied."""

    type: Literal["all"]
    triggers: list[Trigger] = Field(description="the triggers that must all be satisfied")
    max_wait: PositiveDuration | None = Field(
        default=None, description="but waits at most this long after the first arrival; left out: for ever"
    )
    then: Annotated[Literal["run", "discard"], choice("what follows", Then)] = Field(
        default="run", description="after max_wait: run with what is there, or discard it"
    )


class AnyOf(Document):
    """Fires when one of its triggers is satisfied."""

    type: Literal["any"]
    triggers: list[Trigger] = Field(description="the triggers of which one suffices")


class NOf(Document):
    """Fires when `n` of its triggers are satisfied."""

    type: Literal["n_of"]
    n: int = Field(description="how many of them suffice", ge=1, le=1000)
    triggers: list[Trigger] = Field(description="the triggers of which `n` suffice")


TimeDocument: TypeAlias = Cron | Interval | AfterFinish | At | WindowDays
TriggerDocument: TypeAlias = TimeDocument | Never | DataDocument | Quiet | All | AnyOf | NOf | Plugged
Trigger: TypeAlias = Annotated[
    Cron
    | Interval
    | AfterFinish
    | At
    | WindowDays
    | Never
    | Partition
    | DataSize
    | Event
    | ProgramStatus
    | Elapsed
    | Quiet
    | All
    | AnyOf
    | NOf
    | Plugged,
    Field(discriminator="type"),
    BeforeValidator(recognised),
]
for _recursive in (Quiet, All, AnyOf, NOf):
    _recursive.model_rebuild()


def trigger_of(document: TriggerDocument, namespace: str) -> triggers.Trigger:
    """The domain's value of a trigger document; names of programs and keys of events are made whole."""
    match document:
        case Cron() | Interval() | AfterFinish() | At() | WindowDays():
            return _time_trigger(document)
        case Never():
            return triggers.Never()
        case Quiet():
            return triggers.Quiet(
                trigger=trigger_of(document.trigger, namespace), silence=document.silence, max_wait=document.max_wait
            )
        case All():
            return triggers.All(
                triggers=tuple(trigger_of(one, namespace) for one in document.triggers),
                max_wait=document.max_wait,
                then=Then(document.then),
            )
        case AnyOf():
            return triggers.AnyOf(triggers=tuple(trigger_of(one, namespace) for one in document.triggers))
        case NOf():
            return triggers.NOf(n=document.n, triggers=tuple(trigger_of(one, namespace) for one in document.triggers))
        case Plugged():
            return triggers.Custom(plugin=document.plugin, parameters=document.parameters)
        case _:
            return data_trigger(document, namespace)


def _time_trigger(document: TimeDocument) -> triggers.TimeTrigger:
    match document:
        case Cron():
            return triggers.Cron(
                expression=document.expression,
                timezone=document.timezone,
                seconds=document.seconds,
                dst_gap=Gap(document.dst_gap),
                dst_overlap=Overlap(document.dst_overlap),
                **document.bounds(),
            )
        case Interval():
            return triggers.Interval(
                every=document.every, anchor=document.anchor, timezone=document.timezone, **document.bounds()
            )
        case AfterFinish():
            return triggers.AfterFinish(delay=document.delay, **document.bounds())
        case At():
            return triggers.At(time=document.time, **document.bounds())
        case WindowDays():
            return triggers.WindowDays(
                every_days=document.every_days,
                days=tuple(day for day in Weekday if day in document.days),
                earliest=document.earliest,
                latest=document.latest,
                timezone=document.timezone,
                **document.bounds(),
            )
        case _:
            assert_never(document)


def contradictions(trigger: triggers.Trigger) -> Sequence[Fault]:
    """Faults of a trigger whose fields are right one by one; paths begin below `trigger`."""
    if isinstance(trigger, triggers.At):
        if trigger.start is not None and trigger.time < trigger.start:
            return [Fault("time", f"must not lie before start ({format_instant(trigger.start)}), or it never fires")]
        if trigger.end is not None and trigger.time > trigger.end:
            return [Fault("time", f"must not lie after end ({format_instant(trigger.end)}), or it never fires")]
    return validation.validate(trigger)


def _raise_first(faults: Iterable[Fault]) -> None:
    for fault in faults:
        raise wrong(fault.reason)
