"""Specs of the documents that are neither schedule nor program, and the metadata of all of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tidegate.documents.base import Document
from tidegate.documents.scalars import Name, PositiveDuration, wrong
from tidegate.domain.jsonable import say


def _labels(value: object) -> object:
    if value is None:
        return {}
    if isinstance(value, dict):
        for key, text in value.items():
            if not isinstance(text, str):
                raise wrong(f"the value of {key!r} must be text, not {say(text)}; put it in quotes")
    return value


def _empty_text(value: object) -> object:
    return "" if value is None else value


Labels = Annotated[
    dict[str, str],
    BeforeValidator(_labels),
    Field(max_length=100, description="key: text, for people and for filters"),
]
Owner = Annotated[str, BeforeValidator(_empty_text), Field(max_length=200, description="who answers for it")]
Description = Annotated[str, BeforeValidator(_empty_text), Field(max_length=10_000, description="what it is for")]


class Metadata(Document):
    """Whose it is and what is said about it; changing it resets nothing."""

    namespace: Name = Field(default="default", description="the tenancy it belongs to")
    name: Name = Field(description="its name, unique within the namespace")
    application: Name | None = Field(default=None, description="the application that owns it")
    labels: Labels = Field(default_factory=dict)
    owner: Owner = ""
    description: Description = ""


class GlobalMetadata(Document):
    """Metadata of what lies in no namespace."""

    name: Name = Field(description="its name")
    labels: Labels = Field(default_factory=dict)
    owner: Owner = ""
    description: Description = ""


class PoolMetadata(Document):
    """A pool has a name, and nothing else is said about it in this version."""

    name: Name = Field(description="its name")


class NamespaceSpec(Document):
    """A namespace says nothing but its metadata in this version."""


class ApplicationSpec(Document):
    """What an application is made of. Lists that are left out leave what is deployed as it is."""

    programs: list[Any] | None = Field(default=None, description="programs, each with metadata.name and spec")
    schedules: list[Any] | None = Field(default=None, description="schedules, each with metadata.name and spec")


class LaunchRate(Document):
    """Launches per span, with a bucket."""

    max: int = Field(description="launches per `per`, at least 1", ge=1, le=1_000_000)
    per: PositiveDuration = Field(default=1_000_000, description="the span; left out: a second")
    burst: int | None = Field(
        default=None, description="launches at once after a pause; left out: max", ge=1, le=1_000_000
    )


class DatasetSpec(Document):
    """A table that is watched, or a stream or set of files whose producer publishes what comes."""

    kind: Literal["iceberg", "stream", "files"] = Field(
        default="iceberg", description="iceberg: watched in its catalog; stream, files: told by dataset.updated events"
    )
    name: str | None = Field(
        default=None,
        min_length=1,
        max_length=255,
        description="as triggers name it, e.g. lake.raw.orders; left out: the metadata's name",
    )
    watch: PositiveDuration | None = Field(
        default=None, description="how often its catalog is asked (iceberg); left out: as the settings say"
    )


class Borrowing(Document):
    """Slots of another pool, while nobody waits for them there."""

    lender: str = Field(alias="from", min_length=1, max_length=255, description="the pool of which it borrows")
    max: int = Field(description="how many slots of it at once, at least 1", ge=1, le=1_000_000)


class PoolSpec(Document):
    """Capacity that programs share."""

    slots: int = Field(description="how many attempts at once, at least 1", ge=1, le=1_000_000)
    rate: LaunchRate | None = Field(default=None, description="how many launches per span; left out: no limit")
    borrow: Borrowing | None = Field(
        default=None,
        description="of which pool its runs take a slot when its own are taken and nobody waits for one there",
    )
