"""Specs of sinks: where the event log is delivered to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from tidegate.documents.base import Document
from tidegate.documents.kafka import Servers, Topic
from tidegate.documents.references import Reference, check_options
from tidegate.documents.scalars import wrong
from tidegate.domain.addresses import http_fault, port_fault
from tidegate.domain.events import OWN_EVENTS, is_type, type_fault
from tidegate.domain.sinks import EVERYTHING, SinkSpec

_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\.[A-Za-z_][A-Za-z0-9_]{0,62}")
_NOT_THEIRS = ("information_schema", "pg_", "tidegate_history")
"""Beginnings of the schemas that belong to PostgreSQL and to Tidegate."""


def _reaches(pattern: str) -> bool:
    """Whether any event can be of such a type."""
    if pattern == EVERYTHING or any(is_type(pattern.replace("*", one)) for one in ("", "x")):
        return True
    return pattern.endswith(".*") and any(one.startswith(pattern[:-1]) for one in OWN_EVENTS)


class SinkBase(Document):
    """What all sinks have."""

    topics: list[str] = Field(
        default=[EVERYTHING],
        min_length=1,
        max_length=100,
        description="types of events: run.failed, run.*, user.NAME, dataset.updated, ...; left out: all",
    )
    secret: Reference | None = Field(
        default=None, description="where its secret is kept: env:NAME or file:/PATH, read where schedulers run"
    )

    @field_validator("topics")
    @classmethod
    def _can_be(cls, topics: list[str]) -> list[str]:
        for one in topics:
            if not _reaches(one):
                if one.startswith("user."):
                    raise wrong(type_fault(one) or "")
                known = ", ".join(sorted(OWN_EVENTS))
                raise wrong(f"{one!r} is no type of event; write *, run.*, user.*, user.NAME, or one of {known}")
        return topics


class KafkaSink(SinkBase):
    """A Kafka topic. The key of each message is the schedule that it is about, so their order is kept by partition."""

    type: Literal["kafka"]
    servers: Servers
    topic: Topic = Field(default="tidegate.events", description="the topic that gets all of its messages")
    options: dict[str, str] = Field(
        default_factory=dict,
        max_length=100,
        description="settings of librdkafka, e.g. security.protocol; what is secret as env:NAME or file:/PATH. "
        "`secret` is its sasl.password",
    )

    @field_validator("options")
    @classmethod
    def _hide_nothing(cls, options: dict[str, str]) -> dict[str, str]:
        check_options(options, OURS)
        return options


class WebhookSink(SinkBase):
    """An address that gets each event as a POST. With `secret` it is signed."""

    type: Literal["webhook"]
    url: str = Field(description="an address http://… or https://…", max_length=4000)

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        if reason := http_fault(url):
            raise wrong(reason)
        parts = urlsplit(url)
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
        if table.lower().startswith(_NOT_THEIRS):
            schema = table.partition(".")[0]
            raise wrong(f"the schema {schema!r} is not for tables of sinks; write another, e.g. audit.tidegate_events")
        return table

    @field_validator("url")
    @classmethod
    def _is_database(cls, url: str | None) -> str | None:
        if url is None:
            return url
        try:
            parts = urlsplit(url)
        except ValueError:
            raise wrong("holds brackets that are no IPv6 address; write postgresql://USER@[::1]/NAME") from None
        if parts.scheme not in ("postgresql", "postgres"):
            raise wrong("must be the address of a database, postgresql://USER@HOST/NAME")
        if parts.password or "password" in parts.query:
            raise wrong("must hold no password; name where it is kept by `secret`")
        from psycopg import ProgrammingError, conninfo  # here: documents are also read where no driver is

        try:
            given = conninfo.conninfo_to_dict(url)
        except ProgrammingError as fault:
            raise wrong(f"PostgreSQL does not understand it: {str(fault).strip()}") from None
        for port in str(given.get("port", "")).split(","):  # one for each host, or none
            if port and (reason := port_fault(port)):
                raise wrong(reason)
        return url

    @model_validator(mode="after")
    def _beside_our_own(self) -> TableSink:
        if self.url is None and self.table.startswith("public."):
            raise wrong(
                "table: Tidegate's own tables are in 'public'; write another schema, e.g. audit.tidegate_events"
            )
        return self


OURS = {
    "bootstrap.servers": "it is `servers`",
    "acks": "all replicas acknowledge",
    "enable.idempotence": "it is always on, for the order",
    "enable.gapless.guarantee": "it is always on, for the order",
    "transactional.id": "messages are told apart by their id",
}
"""What a sink does not leave to options."""
SinkDocument: TypeAlias = Annotated[KafkaSink | WebhookSink | TableSink, Field(discriminator="type")]
_TYPES: Mapping[str, type[KafkaSink | WebhookSink | TableSink]] = {
    "kafka": KafkaSink,
    "webhook": WebhookSink,
    "table": TableSink,
}


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
    """The same of a spec that was checked when it was stored; by rules of that time, so it is not judged again."""
    return spec_of(_TYPES[spec["type"]].model_construct(**spec))
