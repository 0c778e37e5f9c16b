"""What `tidegate.Client` answers: the shapes of REST as frozen dataclasses, with instants as aware datetimes in UTC and
durations as timedeltas. Names are those of the JSON; what a newer server says besides is passed over, absent is None.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from tidegate.domain.errors import TidegateError
from tidegate.domain.instants import parse_duration
from tidegate.domain.runs import ENDS
from tidegate.sdk.run import Upstream

T = TypeVar("T")


def read(shape: type[T], given: Any) -> T:
    """JSON as a shape. Raises TidegateError when it is none: whoever answered is not Tidegate, or a much older one."""
    try:
        found: T = _read(shape, given)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TidegateError(
            f"The answer is not a {shape.__name__} ({error!r}).",
            remedy="Is TIDEGATE_URL the address of a Tidegate of this version?",
            code="answer",
        ) from None
    return found


@functools.cache
def _parts(shape: type[Any]) -> Mapping[str, tuple[Any, bool]]:
    """The type of each field, and whether it may be left out."""
    hints = get_type_hints(shape)
    fields = dataclasses.fields(shape)
    missing = dataclasses.MISSING
    return {f.name: (hints[f.name], f.default is not missing or f.default_factory is not missing) for f in fields}


def _read(kind: Any, given: Any) -> Any:
    if isinstance(kind, types.UnionType):
        if given is None:
            return None
        (some,) = (one for one in get_args(kind) if one is not types.NoneType)
        return _read(some, given)
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        told = {
            name: _read(of, given.get(name)) for name, (of, spare) in _parts(kind).items() if name in given or not spare
        }
        return kind(**told)
    if get_origin(kind) is tuple:
        return tuple(_read(get_args(kind)[0], one) for one in given or ())
    if kind is datetime:
        return datetime.fromisoformat(given)
    if kind is timedelta:
        return timedelta(microseconds=parse_duration(given))
    return given


# ── what is declared ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A document, as YAML has it: an application, a namespace, or what every other kind has too."""

    kind: str
    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.metadata["name"])


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """A warning of what is declared: it may be written, and can hardly be meant."""

    path: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ScheduleStatus:
    """`mode` and `reason` say how it rests, `expire` whether what it holds expires; `streak` failures in a row;
    `unsatisfiable` why it can never fire; `warnings` are told by writes."""

    enabled: bool
    mode: str | None
    expire: bool | None
    reason: str | None
    revision: int
    created_at: datetime
    updated_at: datetime
    next_fire: datetime | None
    last_fire: datetime | None
    last_run: datetime | None
    streak: int
    next_start: datetime | None
    unsatisfiable: str | None
    warnings: tuple[Contradiction, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Schedule(Declared):
    status: ScheduleStatus


@dataclass(frozen=True, kw_only=True)
class ProgramStatus:
    revision: int
    updated_at: datetime
    type: str
    pool: str | None


@dataclass(frozen=True, kw_only=True)
class Program(Declared):
    status: ProgramStatus


@dataclass(frozen=True, kw_only=True)
class PoolStatus:
    used: int
    free: int
    borrowed: int = 0
    lent: int = 0


@dataclass(frozen=True, kw_only=True)
class Pool(Declared):
    status: PoolStatus


@dataclass(frozen=True, kw_only=True)
class CalendarStatus:
    """`closed_until`: None while it is open."""

    closed_until: datetime | None


@dataclass(frozen=True, kw_only=True)
class Calendar(Declared):
    status: CalendarStatus


@dataclass(frozen=True, kw_only=True)
class Freeze:
    """Whether nothing may start; if so, by whose word, since when and why."""

    frozen: bool
    who: str | None
    since: datetime | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class DatasetStatus:
    """`declared`: by a document, not only waited for; `missing`: there is no such table; `error` of the last look."""

    declared: bool
    snapshot: str | None
    missing: bool
    error: str | None
    looked_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Dataset(Declared):
    status: DatasetStatus


@dataclass(frozen=True, kw_only=True)
class Revision:
    revision: int
    valid_from: datetime
    enabled: bool
    mode: str | None
    expire: bool | None
    reason: str | None
    author: str
    spec: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Names by what became of them."""

    created: tuple[str, ...]
    updated: tuple[str, ...]
    deleted: tuple[str, ...]
    unchanged: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Deployed(Counts):
    """Schedules by what became of them, and so the programs; `disabled` are new and wait to be enabled; `warnings` are
    by the name of the schedule, each with `path` and `reason`."""

    programs: Counts
    disabled: tuple[str, ...] = ()
    warnings: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Applied:
    kind: str
    namespace: str | None
    name: str
    result: str
    hint: str | None
    warnings: tuple[Contradiction, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Field:
    path: str
    stored: Any
    given: Any


@dataclass(frozen=True, kw_only=True)
class Difference:
    kind: str
    namespace: str | None
    name: str
    exists: bool
    same: bool
    fields: tuple[Field, ...]
    note: str | None


# ── runs, and why they run ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Error:
    code: str | None
    message: str | None
    exit_status: int | None


@dataclass(frozen=True, kw_only=True)
class Attempt:
    number: int
    state: str
    backend: str | None
    backend_id: str | None
    created_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    error: Error | None


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """What holds a run back; `verdict` is wait or never."""

    constraint: str | None
    verdict: str
    until: datetime | None
    why: str | None


@dataclass(frozen=True, kw_only=True)
class RunInput:
    """Everything in a dataset after `from_snapshot` up to `to_snapshot`."""

    dataset: str
    from_snapshot: str | None
    to_snapshot: str | None
    rows: int | None
    bytes: int | None
    events: int | None
    partitions: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Causes:
    """How many events made a run, the first ten and the last ten of them."""

    count: int
    first: tuple[Mapping[str, Any], ...]
    last: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What a run stands for: `type` is fire, evidence, backfill, manual or rerun; `by` who or what asked."""

    type: str
    by: str | None
    fire_time: datetime | None
    events: Causes


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run, or (state missed) a stretch of `count` fires that were missed."""

    id: str
    namespace: str
    schedule: str
    revision: int | None
    program: str | None
    state: str
    reason: str | None
    fire_time: datetime | None
    fire_time_to: datetime | None
    previous_fire_time: datetime | None
    count: int
    cause: Cause
    arguments: Mapping[str, Any] | None
    priority: int | None
    created_at: datetime | None
    ready_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None
    merged_into: str | None
    timed_out_waiting: bool
    upstream: Upstream | None
    inputs: tuple[RunInput, ...]
    waiting_for: tuple[Waiting, ...]
    attempts: tuple[Attempt, ...]

    @property
    def ended(self) -> bool:
        """Whether its state will never change again."""
        return self.state in ENDS

    @property
    def succeeded(self) -> bool:
        return self.state == "succeeded"


@dataclass(frozen=True, kw_only=True)
class LogPiece:
    """A piece of one attempt's log, from an offset in bytes."""

    attempt: int | None
    offset: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Node:
    """One node of what explains: a trigger, a constraint, a step of a run."""

    node: str
    satisfied: bool | None
    value: Any
    threshold: Any
    why: str | None
    decides_at: datetime | None = None
    children: tuple[Node, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Explanation:
    verdict: str
    summary: str
    blocker: str | None
    earliest: datetime | None
    release: str | None
    tree: Node


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a trigger has collected; `tree` is None when it collects nothing."""

    namespace: str
    schedule: str
    satisfied: bool
    why: str | None
    unsatisfiable: str | None
    fired_at: datetime | None
    next_check_at: datetime | None
    tree: Node | None


@dataclass(frozen=True, kw_only=True)
class QueueItem:
    """A waiting run (`kind` run), or a trigger that is partly satisfied (`kind` progress)."""

    namespace: str
    schedule: str
    kind: str
    run: str | None
    priority: int | None
    position: int | None
    tree: Node | None
    waiting_for: tuple[Waiting, ...]
    earliest: datetime | None
    next_check_at: datetime | None
    expires_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Fire:
    fire_time: datetime
    local_time: str
    note: str | None


@dataclass(frozen=True, kw_only=True)
class Stats:
    last_start: datetime | None
    last_finish: datetime | None
    last_success: datetime | None
    last_run_success: bool | None
    next_start: datetime | None
    total_runs: int
    total_successes: int
    total_failures: int
    total_crashes: int
    total_timeouts: int
    total_duration: timedelta
    consecutive_failures: int
    consecutive_crashes: int
    consecutive_unchanged: int
