"""Sinks as the client answers them: where the event log is delivered to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidegate.sdk.answers import Declared


@dataclass(frozen=True, kw_only=True)
class RefusedEvent:
    """An event that a sink refused, and why."""

    position: str
    type: str
    key: str
    at: datetime
    reason: str


@dataclass(frozen=True, kw_only=True)
class SinkStatus:
    """`position`: up to there everything was delivered, set aside or is not for it; `behind`: at most so many events
    lie after it; `error`: why it takes nothing now; `refused`: the latest of what was set aside."""

    position: str
    delivered: int
    set_aside: int
    behind: int
    error: str | None
    error_since: datetime | None
    moved_at: datetime | None
    refused: list[RefusedEvent]


@dataclass(frozen=True, kw_only=True)
class Sink(Declared):
    status: SinkStatus
