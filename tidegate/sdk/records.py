"""What `tidegate.Client` answers of events and of what is on record (see `answers`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, kw_only=True)
class LoggedEvent:
    """`at` is when it arrived, `time` what its publisher says."""

    position: str
    at: datetime
    type: str
    key: str
    time: datetime | None
    id: str | None
    source: str | None
    payload: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """`repeated`: the id was published before, and nothing changed."""

    position: str
    type: str
    key: str
    id: str | None
    repeated: bool


@dataclass(frozen=True, kw_only=True)
class Subscriber:
    namespace: str
    schedule: str
    leaf: str
    type: str


@dataclass(frozen=True, kw_only=True)
class SetAside:
    """What a schedule could not take."""

    id: str
    namespace: str
    schedule: str
    at: datetime
    count: int
    error: str


@dataclass(frozen=True, kw_only=True)
class Change:
    """A line of the audit log."""

    id: str
    at: datetime
    who: str
    action: str
    kind: str
    namespace: str | None
    name: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class Finding:
    kind: str
    namespace: str
    schedule: str
    first: datetime
    last: datetime
    count: int
    why: str


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What the ledger was found to hold; `holds` when each fire that was due is in it exactly once."""

    holds: bool
    since: datetime | None
    until: datetime | None
    schedules: int
    owed: int
    recorded: int
    lost: int
    doubled: int
    unexplained: int
    not_yet_decided: int
    late: int
    outcomes: Mapping[str, int]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, kw_only=True)
class Instance:
    id: str
    role: str
    name: str
    host: str
    pid: int
    epoch: int
    up_since: datetime
    heartbeat: datetime


@dataclass(frozen=True, kw_only=True)
class Lease:
    duty: str
    instance_id: str | None
    token: int
    expires: datetime | None


@dataclass(frozen=True, kw_only=True)
class Health:
    """What is missing for work to get done, by part: database, scheduler, worker."""

    missing: Mapping[str, str]

    @property
    def ready(self) -> bool:
        return not self.missing
