"""What the relay asks of sinks and of the store, and what people see of sinks.

Every change of a run writes its event in its own transaction; the relay carries the log on, at least once. It reads in
the order of positions, and only up to where the log is settled: no open transaction can add anything before that any
more. A position is drawn under the locks of whatever the event is about, so this is the order in which things happened
to each schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from tidegate.domain.ids import Fence
from tidegate.domain.instants import Instant
from tidegate.domain.schedules import JsonObject
from tidegate.domain.sinks import SinkSpec
from tidegate.ports.collecting import EventRecord
from tidegate.ports.engine import Membership

# ── sinks ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """An event on its way out.

    `id`: what to tell a repetition by; `lane`: within it the order counts (the schedule `namespace/name`, else the
    event's key); `body`: the event as JSON, in UTF-8.
    """

    id: str
    lane: str
    type: str
    at: Instant
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What became of messages: of the first `passed` each was delivered, or is among the `refused` (place, reason),
    which no repetition will deliver. `fault`: why the others were not, for now; they will be handed over again, later.
    Empty: it wants them at once, one piece after the other."""

    passed: int
    refused: tuple[tuple[int, str], ...] = ()
    fault: str = ""


class Sink(Protocol):
    """One sink, open. It is given one batch after the other."""

    def begin(self, messages: Sequence[Message]) -> None:
        """Deliver these, in the order of each lane. Does not wait."""

    def result(self) -> Delivery | None:
        """What became of what was begun, told once; None: it is still under way. Raises nothing."""

    async def close(self) -> None:
        """Leave off. What is under way may have been delivered or not."""


class Sinks(Protocol):
    """Makes sinks of what documents say."""

    def open(self, name: str, spec: SinkSpec) -> Sink:
        """Does not connect yet. Raises Refused when it cannot be one (a secret that is not there)."""


# ── the store ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, order=True)
class Spot:
    """A place in the log: everything up to `pos`. `day`: of the newest event up to there."""

    day: int
    pos: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRecord:
    """A sink as it is stored. `rev` is raised by each declaration; `error`: why it takes nothing, since when.
    `behind`: at most so many events lie after its place. `asked`: some of what it refused is to be sent again."""

    name: str
    spec: SinkSpec
    document: JsonObject
    rev: int
    spot: Spot
    delivered: int = 0
    set_aside: int = 0
    error: str = ""
    error_since: Instant | None = None
    moved_at: Instant | None = None
    behind: int = 0
    asked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """No event at or below `pos` will be added any more. `server`: which one the log is on; another may have forgotten
    the last positions and give them out again, and so may one that tells a lower `pos` than before. `held_by`: which
    transaction has kept it from moving on, empty where nothing does; `since`: since when (None: it moves)."""

    pos: int
    server: int = 0
    held_by: str = ""
    since: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """An event of the log with the schedule that it is about (`namespace/name`), if any."""

    spot: Spot
    record: EventRecord
    schedule: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An event that a sink will never take."""

    event: Outgoing
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A sink's next place, from the one that was seen, in the log as it is on `server` (see `Settled`)."""

    sink: str
    rev: int
    seen: Spot
    spot: Spot
    server: int = 0
    delivered: int = 0
    refused: tuple[Refusal, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What became of events that a sink had refused and that were sent again: positions of those it took, and of those
    it refuses again, with the reason."""

    sink: str
    rev: int
    taken: tuple[int, ...] = ()
    refused: tuple[tuple[int, str], ...] = ()


class RelayTx(Protocol):
    async def relayed(self, moved: Moved, now: Instant) -> bool:
        """Move a sink on, and keep on record what it refused. False: it does not stand where it was seen, since
        somebody else moved it or it was declared otherwise, or this is another server; then nothing is changed."""

    async def replayed(self, done: Replayed, now: Instant) -> bool:
        """Take down what became of events that were sent again. False: it was declared otherwise since; then nothing is
        changed."""


class RelayStore(Membership, Protocol):
    def transaction(self, fence: Fence) -> AbstractAsyncContextManager[RelayTx]: ...
    async def sinks(self) -> Sequence[SinkRecord]:
        """All, by name."""

    async def settled(self, now: Instant) -> Settled:
        """How far the log may be read. Each call may move it on."""

    async def outgoing(self, after: Spot, upto: int, today: int, limit: int) -> Sequence[Outgoing]:
        """The next events with `after` < position <= `upto`, by position, of whichever day up to `today`. Fewer than
        `limit`: these are all."""

    async def asked_again(self, sink: str, limit: int) -> Sequence[tuple[int, Outgoing | None]]:
        """What a sink refused and somebody asked for again, by position; None: the log does not hold it any more."""


# ── for people ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedEvent:
    """An event that a sink refused, and why."""

    sink: str
    pos: int
    type: str
    key: str
    reason: str
    at: Instant
    asked: bool = False  # to be sent again


class SinkReads(Protocol):
    async def sinks(self) -> Sequence[SinkRecord]:
        """All, by name."""

    async def refusals(self, sink: str, limit: int) -> Sequence[RefusedEvent]:
        """What a sink refused, newest first."""


class SinkTx(Protocol):
    """A person's transaction."""

    async def put_sink(self, name: str, spec: SinkSpec, document: JsonObject, now: Instant) -> bool:
        """Declare a sink, or declare it otherwise: then it keeps its place. A new one (True) begins with what happens
        from now on."""

    async def delete_sink(self, name: str) -> bool:
        """With its place and what it refused; False: there was none."""

    async def replay_sink(self, name: str, position: int | None) -> int:
        """What it refused is to be sent again: all of it, or one event. How many."""
