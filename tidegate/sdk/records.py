"""What `tidegate.Client` answers of events and of what is on record (see `answers`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
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
    """`lapsed`: nobody has the duty; `instance_id` had it last."""

    duty: str
    instance_id: str | None
    token: int
    expires: datetime | None
    lapsed: bool


@dataclass(frozen=True, kw_only=True)
class Health:
    """What is missing for work to get done, by part: database, scheduler, worker."""

    missing: Mapping[str, str]

    @property
    def ready(self) -> bool:
        return not self.missing


@dataclass(frozen=True, kw_only=True)
class BackfillItem:
    """A fire time of a backfill. `state` is planned until it has a run, then the run's; `local_time` and `note` are
    told of what is only planned."""

    fire_time: datetime
    local_time: str | None
    note: str | None
    run: str | None
    state: str


@dataclass(frozen=True, kw_only=True)
class BackfillPlan:
    """What a backfill will do: `count` runs, of `total` fire times, `at_a_time` of them together; `items` are the
    first. `id` is None where it was only looked at. `expected_run` is what an attempt took so far, `expected` all of
    them; None: it has never run."""

    id: str | None
    namespace: str
    schedule: str
    start: datetime
    end: datetime
    keys: tuple[datetime, ...] | None
    order: str
    concurrency: int
    reprocess: str
    total: int
    count: int
    at_a_time: int
    expected_run: timedelta | None
    expected: timedelta | None
    items: tuple[BackfillItem, ...]


@dataclass(frozen=True, kw_only=True)
class BackfillProgress:
    """Fire times of which no more is to come (`settled`, in `percent` of all): `passed` were left to the run they have,
    the others ended as they say; `live` are in hand."""

    settled: int
    percent: float
    passed: int
    live: int
    succeeded: int
    failed: int
    cancelled: int


@dataclass(frozen=True, kw_only=True)
class Backfill:
    """A backfill as it stands. `count`: runs asked for so far; `expected`: how long the rest will take."""

    id: str
    namespace: str
    schedule: str
    revision: int
    state: str
    reason: str | None
    by: str
    start: datetime
    end: datetime
    keys: tuple[datetime, ...] | None
    order: str
    concurrency: int
    reprocess: str
    total: int
    count: int
    progress: BackfillProgress
    expected: timedelta | None
    created_at: datetime
    finished_at: datetime | None
    items: tuple[BackfillItem, ...]
