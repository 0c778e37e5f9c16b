"""From the domain's values back to documents, normalised: what is a default is left out, durations are ISO 8601.

Free of pydantic: the SDK, World and the doors use it. `parse(encode(x)) == x` for every x that a document can say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from enum import Enum
from typing import Any

from tidegate.domain import constraints, schedules, triggers
from tidegate.domain.constraints import Constraint, Unmet, clock
from tidegate.domain.instants import format_duration, format_instant
from tidegate.domain.programs import ProgramSpec
from tidegate.domain.schedules import Deadline, DeadlineFrom, ScheduleSpec
from tidegate.domain.triggers import Trigger
from tidegate.domain.windows import Span
from tidegate.ports.records import Metadata

API_VERSION = "tidegate/v1"
_INSTANTS = frozenset({"start", "end", "anchor", "time"})
_DURATIONS = frozenset(
    {
        *("jitter", "delay", "grace", "window", "timeout", "max_delay", "run", "latch", "after", "silence", "max_wait"),
        *("duration", "per"),
    }
)
_TIMES_OF_DAY = frozenset({"earliest", "latest"})


def document(kind: str, metadata: Metadata, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A whole document of a spec."""
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata_of(metadata), "spec": dict(spec)}


def metadata_of(metadata: Metadata) -> dict[str, Any]:
    """Metadata with what is said only."""
    said = {
        "namespace": metadata.namespace or None,
        "name": metadata.name,
        "application": metadata.application,
        "labels": dict(metadata.labels) or None,
        "owner": metadata.owner or None,
        "description": metadata.description or None,
    }
    return {key: value for key, value in said.items() if value is not None}


def schedule(spec: ScheduleSpec, *, enabled: bool | None = None) -> dict[str, Any]:
    """The `spec` of a Schedule document."""
    said: dict[str, Any] = {} if enabled is None else {"enabled": enabled}
    said["program"] = spec.program
    if spec.arguments:
        said["arguments"] = dict(spec.arguments)
    if spec.priority != 50:
        said["priority"] = spec.priority
    if spec.groups:
        said["groups"] = list(spec.groups)
    said["trigger"] = trigger(spec.trigger)
    if spec.constraints != (schedules.Concurrency(max=1),):
        said["constraints"] = [constraint(one) for one in spec.constraints]
    for name, policy in (
        ("waiting", spec.waiting),
        ("catch_up", spec.catch_up),
        ("retry", spec.retry),
        ("timeout", spec.timeout),
    ):
        told = _said(policy)
        if name == "waiting":
            told.pop("runs", None)
            if spec.waiting.runs is not schedules.waiting_by_default(spec.trigger):
                told["runs"] = spec.waiting.runs.value
        if told:
            said[name] = told
    if spec.deadline is not None:
        said["deadline"] = deadline(spec.deadline)
    return said


def deadline(value: Deadline) -> dict[str, Any]:
    """A deadline's document."""
    spans = {"start": value.start, "finish": value.finish}
    said = {name: format_duration(span) for name, span in spans.items() if span is not None}
    return said if value.since is DeadlineFrom.DUE else {**said, "from": value.since.value}


def constraint(value: Constraint) -> dict[str, Any]:
    """A constraint's document."""
    unmet = {"unmet": value.unmet.value} if value.unmet is not Unmet.WAIT else {}
    match value:
        case constraints.CustomConstraint():
            return {"type": value.plugin, **value.parameters, **unmet}
        case constraints.Window(span=span):
            said = {"type": value.TYPE, **hours(span)}
            return {**said, **({"stop_at_end": True} if value.stop_at_end else {}), **unmet}
        case _:
            return {"type": value.TYPE, **_said(value)}


def hours(span: Span) -> dict[str, Any]:
    """A window's hours."""
    said: dict[str, Any] = {"start": clock(span.start), "end": clock(span.end)}
    if span.timezone != "UTC":
        said["timezone"] = span.timezone
    if span.days != tuple(triggers.Weekday):
        said["days"] = [day.value for day in span.days]
    return said


def trigger(value: Trigger) -> dict[str, Any]:
    """A trigger's document."""
    match value:
        case triggers.Custom():
            return {"type": value.plugin, **value.parameters}
        case triggers.Quiet():
            inner = {"trigger": trigger(value.trigger), "for": format_duration(value.silence)}
            return {"type": value.TYPE, **inner, **_without(_said(value), "trigger", "silence")}
        case triggers.All() | triggers.AnyOf() | triggers.NOf():
            legs = [trigger(one) for one in value.triggers]
            return {"type": value.TYPE, **_without(_said(value), "triggers"), "triggers": legs}
        case triggers.WindowDays() if value.days == tuple(triggers.Weekday):
            return {"type": value.TYPE, **_without(_said(value), "days")}
    return {"type": value.TYPE, **_said(value)}


def _without(said: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: told for name, told in said.items() if name not in names}


def program(spec: ProgramSpec) -> dict[str, Any]:
    """The `spec` of a Program document."""
    return {"type": spec.TYPE, **_said(spec)}


def pool(slots: int, rate: tuple[int, int, int] | None, borrow: tuple[str, int] | None = None) -> dict[str, Any]:
    """The `spec` of a Pool document."""
    said: dict[str, Any] = {"slots": slots}
    if rate is not None:
        said["rate"] = {"max": rate[0], "per": format_duration(rate[1]), "burst": rate[2]}
    if borrow is not None:
        said["borrow"] = {"from": borrow[0], "max": borrow[1]}
    return said


def _said(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults, as a document writes them."""
    told = {}
    for one in fields(value):
        given = getattr(value, one.name)
        default = one.default if one.default_factory is MISSING else one.default_factory()
        if given != default:
            told[one.name] = _written(one.name, given)
    return told


def _written(name: str, given: Any) -> Any:
    match given:
        case Enum():
            return given.value
        case tuple():
            return [_written(name, one) for one in given]
        case Mapping():
            return dict(given)
        case bool() | None | str() | float():
            return given
        case int() if name in _INSTANTS:
            return format_instant(given)
        case int() if name in _DURATIONS:
            return format_duration(given)
        case int() if name in _TIMES_OF_DAY:
            return clock(given)
    return given
