"""Specs of sources: what other systems say that becomes events; and the event of one message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from tidegate.documents.base import Document
from tidegate.documents.events import parse_event
from tidegate.documents.kafka import Servers, Topic
from tidegate.documents.references import Reference, check_options
from tidegate.documents.scalars import wrong
from tidegate.domain import templates
from tidegate.domain.errors import Fault, Invalid
from tidegate.domain.events import faults, publish_fault, qualified
from tidegate.domain.instants import DAY, format_instant
from tidegate.domain.schedules import JsonObject
from tidegate.domain.sources import ROOTS, EventShape, Record, SourceSpec
from tidegate.ports.collecting import NewEvent

OURS = {
    "bootstrap.servers": "it is `servers`",
    "group.id": "no group is joined: places are kept in the database",
    "enable.auto.commit": "places are kept in the database",
    "enable.auto.offset.store": "places are kept in the database",
    "auto.offset.reset": "it is `begin`; what was gone before it was read is told",
    "isolation.level": "messages of transactions that were given up are no events",
    "enable.partition.eof": "it is not needed",
}
"""What a source does not leave to options."""


_LATE = 100_000 * DAY
"""An instant that no time lies ahead of."""


class EventSpec(Document):
    """The event of a message. All may hold templates: `{{ value.id }}`, `{{ key }}`, `{{ headers.NAME }}`,
    `{{ time }}`, `{{ topic }}`, `{{ partition }}`, `{{ offset }}`."""

    type: str = Field(description="user.NAME, or dataset.updated of a dataset that nobody watches")
    key: str = Field(description="what it is about: namespace/name, or the dataset's name")
    payload: Any = Field(
        default="{{ value }}",
        description="what is to be known about it; left out: the message, which is then an object",
    )
    time: str = Field(default="{{ time }}", description="when it happened; left out: the message's own time")
    id: str | None = Field(
        default=None,
        description="an id that its producer gave it: of messages with the same id only the first is an event",
    )

    @field_validator("type", "key", "payload", "time", "id")
    @classmethod
    def _can_be_filled_in(cls, value: Any) -> Any:
        if found := templates.root_faults(value, "", ROOTS):
            raise wrong("; ".join(f"{one.path}: {one.reason}" if one.path else one.reason for one in found))
        return value

    @field_validator("type")
    @classmethod
    def _may_be_published(cls, type: str) -> str:
        if not _templated(type) and (reason := publish_fault(type)):
            raise wrong(reason)
        return type

    @field_validator("time", "id")
    @classmethod
    def _fits_every_message(cls, value: str | None, info: ValidationInfo) -> str | None:
        """What is the same for all: wrong for one is wrong for each."""
        if value is None or _templated(value) or (info.field_name == "time" and not value):
            return value
        try:
            parse_event({"type": "user.x", "key": "a/b", info.field_name: value}, _LATE)
        except Invalid as invalid:
            raise wrong("; ".join(one.reason for one in invalid.faults)) from None
        return value

    @field_validator("payload")
    @classmethod
    def _is_an_object(cls, payload: Any) -> Any:
        if not isinstance(payload, dict) and not (isinstance(payload, str) and _templated(payload)):
            raise wrong("must be a mapping, or one template that stands for one: '{{ value }}'")
        return payload


class SourceSpecification(Document):
    """Topics of Kafka whose messages become events, each exactly one."""

    type: Literal["kafka"]
    servers: Servers
    topics: list[Topic] = Field(description="the topics to read", min_length=1, max_length=100)
    event: EventSpec = Field(description="what of a message is its event")
    format: Literal["json", "text"] = Field(
        default="json", description="what values are; under `json` a message that is none is set aside"
    )
    begin: Literal["newest", "oldest"] = Field(
        default="newest", description="where a topic is begun that was never read: with what comes, or with all it has"
    )
    secret: Reference | None = Field(
        default=None, description="where its sasl.password is kept: env:NAME or file:/PATH, read where schedulers run"
    )
    options: dict[str, str] = Field(
        default_factory=dict,
        max_length=100,
        description="settings of librdkafka, e.g. security.protocol; what is secret as env:NAME or file:/PATH",
    )

    @field_validator("topics")
    @classmethod
    def _are_different(cls, topics: list[str]) -> list[str]:
        if len(set(topics)) < len(topics):
            raise wrong("names a topic twice")
        return topics

    @field_validator("event")
    @classmethod
    def _has_a_whole_key(cls, event: EventSpec) -> EventSpec:
        """A source is in no namespace."""
        fixed = not _templated(event.key) and not _templated(event.type)
        if fixed and qualified(event.type, event.key, "a") != event.key:
            raise wrong(f"key: {event.key!r} is not a whole key; write namespace/name, e.g. sales/eu")
        payload = event.payload if fixed and not _templated(event.payload) else {}
        if fixed and (found := faults(event.type, event.key, payload, None, 0)):
            raise wrong("; ".join(map(str, found)))
        return event

    @field_validator("options")
    @classmethod
    def _hide_nothing(cls, options: dict[str, str]) -> dict[str, str]:
        check_options(options, OURS)
        return options


def _templated(value: Any) -> bool:
    return next(templates.templates(value), None) is not None


def spec_of(document: SourceSpecification) -> SourceSpec:
    """The domain's value of a source document."""
    event = document.event
    return SourceSpec(
        type=document.type,
        servers=document.servers,
        topics=tuple(document.topics),
        event=EventShape(type=event.type, key=event.key, payload=event.payload, time=event.time, id=event.id or ""),
        format=document.format,
        begin=document.begin,
        secret=document.secret or "",
        options=dict(document.options),
    )


def source_of(spec: Mapping[str, Any]) -> SourceSpec:
    """The same of a spec that was checked when it was stored; by rules of that time, so it is not judged again."""
    event = EventSpec.model_construct(**spec["event"])
    return spec_of(SourceSpecification.model_construct(**{**spec, "event": event}))


# ── messages ───────────────────────────────────────────────────────────────────────────────────────────────────────


def event_of(spec: SourceSpec, source: str, record: Record, now: int) -> NewEvent:
    """The event of a message. Raises Invalid: it is none."""
    shape, known = spec.event, _seen(spec, record)
    parts = {"type": shape.type, "key": shape.key, "payload": shape.payload, "time": shape.time}
    if shape.id:
        parts["id"] = shape.id
    made = templates.render(parts, known, at="", what="the source")
    if shape.id and made["id"] is not None:
        made["id"] = _as_text(made["id"])
    if isinstance(made["key"], int):
        made["key"] = str(made["key"])
    event = parse_event({**made, "time": made["time"] or None}, now)
    return NewEvent(
        type=event.type,
        key=event.key,
        payload=event.payload,
        time=event.time,
        id=event.id,
        source=f"source {source}",  # a namespace has no space in its name: their ids are apart
    )


def _seen(spec: SourceSpec, record: Record) -> JsonObject:
    """What templates see of a message. Raises Invalid."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "key": _text(record.key, "key"),
        "value": _value(spec, record.value),
        "time": None if record.at is None else format_instant(record.at),
        "headers": {name: _text(value, f"headers.{name}") for name, value in record.headers},
    }


def _value(spec: SourceSpec, value: bytes | None) -> Any:
    text = _text(value, "value")
    if text is None or spec.format == "text":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise Invalid([Fault("value", f"is no JSON: {fault}")], what="the message") from None


def _text(value: bytes | None, at: str) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Invalid([Fault(at, "is no UTF-8 text")], what="the message") from None


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
