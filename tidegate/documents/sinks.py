"""Specs of sinks: where the event log is delivered to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, TypeAdapter, field_validator

from tidegate.documents.base import Document
from tidegate.documents.scalars import wrong
from tidegate.domain.events import OWN_EVENTS
from tidegate.domain.sinks import EVERYTHING, SinkSpec

_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/.+")
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\.[A-Za-z_][A-Za-z0-9_]{0,62}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SECRET = re.compile(r"password|secret|key\.pem|\.key$|token|credential", re.IGNORECASE)
_HOW = "name where it is kept: env:NAME, an environment variable of the scheduler, or file:/PATH"


def _reference(text: str) -> str:
    if not _REFERENCE.fullmatch(text):
        raise wrong(f"is no reference to a secret; {_HOW}")  # the text is not repeated: it may be the secret
    return text


def _reaches(pattern: str) -> bool:
    """Whether any event can be of such a type."""
    if pattern == EVERYTHING or pattern.startswith("user.") or pattern in OWN_EVENTS:
        return True
    return pattern.endswith(".*") and any(one.startswith(pattern[:-1]) for one in (*OWN_EVENTS, "user."))


class SinkBase(Document):
    """What all sinks have."""

    topics: list[str] = Field(
        default=[EVERYTHING],
        min_length=1,
        max_length=100,
        description="types of events: run.failed, run.*, user.NAME, dataset.updated, ...; left out: all",
    )
    secret: Annotated[str, AfterValidator(_reference)] | None = Field(
        default=None, description="where its secret is kept: env:NAME or file:/PATH, read where schedulers run"
    )

    @field_validator("topics")
    @classmethod
    def _can_be(cls, topics: list[str]) -> list[str]:
        for one in topics:
            if not _reaches(one):
                known = ", ".join(sorted(OWN_EVENTS))
                raise wrong(f"{one!r} is no type of event; write *, run.*, user.*, user.NAME, or one of {known}")
        return topics


class KafkaSink(SinkBase):
    """A Kafka topic. The key of each message is the schedule that it is about, so their order is kept by partition."""

    type: Literal["kafka"]
    servers: str = Field(description="its bootstrap servers, `host:port, host:port`", min_length=1, max_length=4000)
    topic: str = Field(default="tidegate.events", description="the topic that gets all of its messages")
    options: dict[str, str] = Field(
        default_factory=dict,
        max_length=100,
        description="settings of librdkafka, e.g. security.protocol; what is secret as env:NAME or file:/PATH. "
        "`secret` is its sasl.password",
    )

    @field_validator("topic")
    @classmethod
    def _is_topic(cls, topic: str) -> str:
        if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
            raise wrong(f"{topic!r} is no name of a Kafka topic: 1 to 249 letters, digits, '.', '_' and '-'")
        return topic

    @field_validator("options")
    @classmethod
    def _hide_nothing(cls, options: dict[str, str]) -> dict[str, str]:
        for key, value in options.items():
            if _SECRET.search(key) and not _REFERENCE.fullmatch(value) and not key.endswith("location"):
                raise wrong(f"{key!r} holds a secret; {_HOW}")
            if key in OURS:
                raise wrong(f"{key!r} is not for options: {OURS[key]}")
        return options


class WebhookSink(SinkBase):
    """An address that gets each event as a POST. With `secret` it is signed."""

    type: Literal["webhook"]
    url: str = Field(description="an address http://… or https://…", max_length=4000)

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise wrong("must be an address http://… or https://…")
        if parts.username or parts.password:
            raise wrong("must hold no user and password: requests are signed with `secret`")
        return url


class TableSink(SinkBase):
    """A table in PostgreSQL, one row for each event; made when it is not there. `secret` is the password."""

    type: Literal["table"]
    table: str = Field(description="its name, `schema.table`")
    url: str | None = Field(
        default=None, max_length=4000, description="postgresql://USER@HOST/NAME; left out: Tidegate's own database"
    )

    @field_validator("table")
    @classmethod
    def _is_table(cls, table: str) -> str:
        if not _TABLE.fullmatch(table):
            raise wrong(f"{table!r} is no name of a table; write schema.table, e.g. audit.tidegate_events")
        return table

    @field_validator("url")
    @classmethod
    def _is_database(cls, url: str | None) -> str | None:
        if url is None:
            return url
        parts = urlsplit(url)
        if parts.scheme not in ("postgresql", "postgres"):
            raise wrong("must be the address of a database, postgresql://USER@HOST/NAME")
        if parts.password or "password" in parts.query:
            raise wrong("must hold no password; name where it is kept by `secret`")
        return url


OURS = {
    "bootstrap.servers": "it is `servers`",
    "acks": "all replicas acknowledge",
    "enable.idempotence": "it is always on, for the order",
    "enable.gapless.guarantee": "it is always on, for the order",
    "transactional.id": "messages are told apart by their id",
}
"""What a sink does not leave to options."""
SinkDocument: TypeAlias = Annotated[KafkaSink | WebhookSink | TableSink, Field(discriminator="type")]
_ADAPTER: TypeAdapter[KafkaSink | WebhookSink | TableSink] = TypeAdapter(SinkDocument)


def spec_of(document: KafkaSink | WebhookSink | TableSink) -> SinkSpec:
    """The domain's value of a sink document."""
    return SinkSpec(
        type=document.type,
        topics=tuple(document.topics),
        secret=document.secret or "",
        servers=getattr(document, "servers", ""),
        topic=getattr(document, "topic", ""),
        url=getattr(document, "url", None) or "",
        table=getattr(document, "table", ""),
        options=dict(getattr(document, "options", {})),
    )


def sink_of(spec: Mapping[str, Any]) -> SinkSpec:
    """The same of a spec that was checked when it was stored."""
    return spec_of(_ADAPTER.validate_python(dict(spec)))
