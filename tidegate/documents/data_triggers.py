"""Leaves of triggers that wait for data, events and programs, as people write them."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, assert_never, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator

from tidegate.documents.base import Document
from tidegate.documents.scalars import JsonMap, PositiveDuration, Size, choice, is_name, wrong
from tidegate.domain import events, triggers
from tidegate.domain.triggers import Since

MANY = 1_000_000_000
"""No count of a trigger is larger."""
Outcome: TypeAlias = Literal["started", "succeeded", "failed", "timed_out", "cancelled", "crashed", "killed"]
_KILLED = ("cancelled", "timed_out")


class Partition(Document):
    """Fires by new partitions of a dataset, each name counted once."""

    type: Literal["partition"]
    dataset: str = Field(description="the dataset: a table's catalog.namespace.table, or a producer's name")
    count: int = Field(default=1, ge=1, le=100_000, description="how many new partitions")
    changed: bool = Field(default=False, description="whether partitions that were changed count too")


class DataSize(Document):
    """Fires by an amount of new data in a dataset or stream."""

    type: Literal["data_size"]
    dataset: str = Field(description="the dataset: a table's catalog.namespace.table, or a producer's name")
    bytes: Size | None = Field(default=None, description="at least so many new bytes")
    rows: int | None = Field(default=None, ge=1, le=MANY * MANY, description="at least so many new rows")

    @model_validator(mode="after")
    def _says_how_much(self) -> DataSize:
        if self.bytes is None and self.rows is None:
            raise wrong("says neither bytes nor rows; give at least one of them")
        return self


class Event(Document):
    """Fires by events of any type."""

    type: Literal["event"]
    event: str = Field(description="the type of event: user.NAME, dataset.updated, run.failed, ...")
    key: str | None = Field(
        default=None, description="what it is about: namespace/name (the namespace may be left out); left out: any"
    )
    match: JsonMap | None = Field(default=None, description="only events whose payload contains these members")
    count: int = Field(default=1, ge=1, le=MANY, description="how many of them")

    @field_validator("event")
    @classmethod
    def _is_type(cls, event: str) -> str:
        return _event_type(event)


class ProgramStatus(Document):
    """Fires when runs of a program start or end."""

    type: Literal["program_status"]
    program: str = Field(description="the program: a name of this namespace, or namespace/name")
    outcomes: list[Annotated[Outcome, choice("an outcome", get_args(Outcome))]] = Field(
        description="which count; killed is cancelled or timed_out", min_length=1
    )
    count: int = Field(default=1, ge=1, le=MANY, description="how many runs")
    backfill: bool = Field(default=False, description="whether runs of a backfill count")

    @field_validator("program")
    @classmethod
    def _is_program(cls, program: str) -> str:
        if not all(is_name(part) for part in program.split("/")) or program.count("/") > 1:
            raise wrong(f"{program!r} is not the name of a program; write name or namespace/name")
        return program

    @field_validator("outcomes")
    @classmethod
    def _once_each(cls, outcomes: list[str]) -> list[str]:
        if twice := sorted({one for one in outcomes if outcomes.count(one) > 1}):
            raise wrong(f"names {', '.join(twice)} more than once")
        return outcomes


class Elapsed(Document):
    """Fires when so much time has passed since the last run, or the last event."""

    type: Literal["elapsed"]
    since: Annotated[Literal["last_run", "last_event"], choice("a beginning", Since)] = Field(
        description="last_run: the start of this schedule's last run; last_event: the last such event"
    )
    after: PositiveDuration = Field(description="how long after it")
    event: str | None = Field(default=None, description="of last_event: the type of event")
    key: str | None = Field(default=None, description="of last_event: what it is about; left out: any")

    @field_validator("event")
    @classmethod
    def _is_type(cls, event: str | None, info: ValidationInfo) -> str | None:
        return None if event is None else _event_type(event)

    @model_validator(mode="after")
    def _agrees(self) -> Elapsed:
        if self.since == "last_event" and self.event is None:
            raise wrong("says no `event`; since: last_event needs the type of event")
        if self.since == "last_run" and (self.event is not None or self.key is not None):
            raise wrong("names an event, but counts since the last run; leave `event` and `key` out")
        return self


DataDocument: TypeAlias = Partition | DataSize | Event | ProgramStatus | Elapsed


def data_trigger(document: DataDocument, namespace: str) -> triggers.Trigger:
    """The domain's value of a leaf; what leaves the namespace out is in `namespace`."""
    match document:
        case Partition():
            return triggers.Partition(dataset=document.dataset, count=document.count, changed=document.changed)
        case DataSize():
            return triggers.DataSize(dataset=document.dataset, bytes=document.bytes, rows=document.rows)
        case Event():
            return triggers.Happened(
                event=document.event,
                key=None if document.key is None else events.qualified(document.event, document.key, namespace),
                match=document.match,
                count=document.count,
            )
        case ProgramStatus():
            program = document.program
            said = [one for told in document.outcomes for one in (_KILLED if told == "killed" else (told,))]
            return triggers.ProgramStatus(
                program=program if "/" in program else f"{namespace}/{program}",
                outcomes=tuple(sorted(set(said))),
                count=document.count,
                backfill=document.backfill,
            )
        case Elapsed():
            key = document.key
            if key is not None and document.event is not None:
                key = events.qualified(document.event, key, namespace)
            return triggers.Elapsed(since=Since(document.since), after=document.after, event=document.event, key=key)
        case _:
            assert_never(document)


def _event_type(event: str) -> str:
    if (fault := events.type_fault(event)) is not None:
        raise wrong(fault)
    return event
