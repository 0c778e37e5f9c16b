"""The body of `POST /events`: one event, or a list of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field, ValidationError

from tidegate.documents.base import Document
from tidegate.documents.faults import faults_of
from tidegate.documents.scalars import JsonMap, Moment
from tidegate.domain import events
from tidegate.domain.errors import Fault, Invalid
from tidegate.domain.instants import Instant
from tidegate.domain.jsonable import json_faults, say
from tidegate.ports.collecting import NewEvent

MOST = 1000
"""Events of one request."""


class Event(Document):
    """Something that happened: a past-tense fact."""

    type: str = Field(description="user.NAME, or dataset.updated of a dataset that nobody watches")
    key: str = Field(description="what it is about: namespace/name, or the dataset's name")
    time: Moment | None = Field(default=None, description="when it happened, says the publisher; left out: unsaid")
    id: str | None = Field(
        default=None,
        min_length=1,
        max_length=events.MOST_ID,
        description="the publisher's own; publishing the same id again changes nothing",
    )
    payload: JsonMap = Field(default_factory=dict, description="what is to be known about it, at most 256 KiB")


def parse_events(raw: object, now: Instant) -> Sequence[NewEvent]:
    """One event or a list of them, checked. Raises `Invalid` with every fault of all of them."""
    if not isinstance(raw, list):
        return [parse_event(raw, now)]
    if not 1 <= len(raw) <= MOST:
        raise Invalid([Fault("", f"must hold 1 to {MOST} events, not {len(raw)}")], what="the list")
    found: list[NewEvent] = []
    faults: list[Fault] = []
    for index, one in enumerate(raw):
        try:
            found.append(parse_event(one, now))
        except Invalid as invalid:
            faults += [
                Fault(f"[{index}].{one.path}" if one.path else f"[{index}]", one.reason) for one in invalid.faults
            ]
    if faults:
        raise Invalid(faults, what="the events")
    return found


def parse_event(raw: object, now: Instant) -> NewEvent:
    """Raises `Invalid`."""
    if not isinstance(raw, dict):
        raise Invalid([Fault("", f"must be a mapping with type, key and payload, not {say(raw)}")], what="the event")
    said: Any = {name: value for name, value in raw.items() if value is not None}
    faults = list(json_faults(said))
    try:
        checked = Event.model_validate(said)
    except ValidationError as error:
        known = {fault.path for fault in faults}
        faults += [fault for fault in faults_of(error, Event) if fault.path not in known]
        raise Invalid(faults, what="the event") from None
    payload = {} if faults else checked.payload  # what is no JSON cannot be measured
    faults += events.faults(checked.type, checked.key, payload, checked.time, now)
    if faults:
        raise Invalid(faults, what="the event")
    return NewEvent(
        type=checked.type,
        key=checked.key,
        payload=checked.payload,
        time=checked.time,
        id=checked.id,
        source=checked.key.partition("/")[0],
    )
