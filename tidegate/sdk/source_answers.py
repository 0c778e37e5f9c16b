"""Sources as the client answers them: where events come from outside."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidegate.sdk.answers import Declared


@dataclass(frozen=True, kw_only=True)
class SourcePartition:
    """`next_offset`: of the next message that is read; `end_offset`: behind the last one, when that was last seen."""

    topic: str
    partition: int
    next_offset: int
    end_offset: int


@dataclass(frozen=True, kw_only=True)
class SetAsideMessage:
    """A message that was no event, and why."""

    topic: str
    partition: int
    offset: int
    at: datetime
    reason: str


@dataclass(frozen=True, kw_only=True)
class SourceStatus:
    """`received`: messages read; `set_aside`: of these no events, `refused` the latest of them; `missed`: messages that
    were gone before they were read; `error`: what is wrong with it now."""

    received: int
    set_aside: int
    missed: int
    error: str | None
    error_since: datetime | None
    moved_at: datetime | None
    partitions: list[SourcePartition]
    refused: list[SetAsideMessage]


@dataclass(frozen=True, kw_only=True)
class Source(Declared):
    status: SourceStatus
