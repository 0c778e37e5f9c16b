"""What publishers and the matcher ask of a store: the event log, and what triggers collect from it.

Publishing gives every event its number within each topic that somebody listens to, under that topic's row: numbers
are gapless and in the order of commits, so a subscription's place in a topic is one number, nothing can be passed over
and nothing consumed twice. A topic with news is put into the inbox; the matcher claims it, finds by index the
subscriptions whose need is reached, and advances their trees. (docs/decisions: events are numbered by topic.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidegate.domain.collected import Advance, Bulk, Evidence, Facts, Given, Progress
from tidegate.domain.ids import Fence, RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.programs import ProgramRef
from tidegate.domain.schedules import JsonObject, Revision
from tidegate.ports.engine import AdmitterTx, Clock, TimekeeperTx

# ── publishing ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event to publish, already validated. `key` is whole (`namespace/name`, a dataset's path)."""

    type: str
    key: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    time: Instant | None = None  # the publisher's; when it arrived is the database's
    id: str | None = None  # the publisher's, unique in `source`; the same again changes nothing
    source: str = ""  # who published: namespace, program or `watcher`


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What became of a published event. `pos` of the first when it was a repeat; `conflict`: the id was used before for
    another event."""

    pos: int
    repeated: bool
    conflict: bool = False


class PublishTx(Protocol):
    async def publish(self, events: Sequence[NewEvent], now: Instant) -> Sequence[Receipt]:
        """Append to the log, number them in their topics, put these into the inbox: with the transaction, all or none.
        What became of each, in the order given.

        Locks topics until the end of the transaction: publish last (docs/explanation/locks.md).
        """


class PublishingStore(Clock, Protocol):
    def transaction(self, fence: Fence) -> AbstractAsyncContextManager[PublishTx]: ...


# ── matching ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Collecting:
    """One schedule's tree, locked (its clock row), brought together with everything that is acknowledged for it."""

    schedule_id: ScheduleId
    name: str  # namespace/name
    revision: Revision  # newest; its mode says whether it collects
    program: ProgramRef
    progress: Progress
    bulk: tuple[Bulk, ...]
    given: tuple[Given, ...]  # arrivals since, and the deadlines that are due, in order
    facts: Facts
    clock_due: Instant | None = None  # the clock's next_due: a tick of a leaf that fires alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What to write: the advance of a tree. `collecting` says how far its subscriptions have been read.

    `ticks`, of the timekeeper: fires at these instants (their `pos` is None) belong to the clock's own runs (slot = the
    instant, ord 0), which `record` made in this transaction, or to what such a run was merged into. `into`, of the
    admitter: every fire joins this run, which is claimed. Which run a fire joins is said by `domain.waiting.joined`; it
    keeps its own fire time where it has one.
    """

    collecting: Collecting
    advance: Advance
    ticks: frozenset[Instant] = frozenset()
    into: RunKey | None = None

    def is_tick(self, fire: Evidence) -> bool:
        """Whether a fire belongs to the clock's own run of its instant."""
        return fire.pos is None and fire.at in self.ticks


class CollectingTx(Protocol):
    async def collections(
        self, schedules: Collection[ScheduleId], now: Instant, ticks: Mapping[ScheduleId, Instant] | None = None
    ) -> Sequence[Collecting]:
        """Lock the clocks of these schedules (ascending; waits), and read what their trees have and what came since.

        Schedules that are deleted, that do not collect by their mode, or that have no tree are left out. `ticks`: the
        first tick that will be folded in with what is read; as with a deadline, what came after it is given singly."""

    async def collect(self, results: Sequence[Collected], now: Instant) -> int:
        """Write progress, places and needs of subscriptions, deadlines; make a run of each fire, or join it to the
        schedule's waiting run that merges. How many runs were made or grew. Evidence is `domain.evidence.document`.

        Who makes a subscription's need smaller than it was (in any measure) puts its topic into the inbox: somebody who
        claimed the entry of an event in between looked at the old, larger need and passed over it. For the same reason
        `reset_progress` puts every topic that it subscribes to into the inbox."""

    async def set_aside(self, schedule: ScheduleId, error: str, now: Instant) -> None:
        """This schedule cannot be evaluated: its subscriptions move past what has come, which is kept on record
        (`tidegate events set-aside`) and can be replayed; its due deadlines are put off."""


class MatcherTx(CollectingTx, Protocol):
    async def claim_inbox(self, now: Instant, limit: int) -> Sequence[ScheduleId]:
        """Claim up to `limit` entries of the inbox (they are gone with the commit); the schedules of which a
        subscription to their topics has its need reached."""

    async def claim_deadlines(self, now: Instant, limit: int) -> Sequence[ScheduleId]:
        """Schedules with a deadline at or before now, earliest first: their clocks are claimed (a deadline's row is
        not locked, since who holds a clock replaces all of them). Not in one transaction with `claim_inbox`."""


# ── closing a run's input ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """Close the input of a run that is being admitted.

    `present`: input ends where `collections` has read to in this transaction; else where the run's own evidence ends.
    `moves`: it is handed out, and the next run's begins where this one's ends (not of a run asked for by hand).
    `shown`: progress that the run takes along as evidence although nothing consumed it.
    """

    key: RunKey
    present: bool
    moves: bool
    shown: Evidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """What a run was given: its closed evidence, and its input by dataset (see `domain.evidence`)."""

    evidence: JsonObject
    inputs: Mapping[str, JsonObject]


class PinningTx(CollectingTx, Protocol):
    async def pin(self, pins: Sequence[Pin], now: Instant) -> Mapping[RunKey, Pinned]:
        """Write evidence (with the first and last ten events, and the upstream run) and inputs of these runs; move what
        is owed. `collections` was asked for their schedules before. A run that ends without having started gives its
        range back, unless a later one was handed out."""


class AdmittingTx(AdmitterTx, PinningTx, Protocol):
    """The admitter's. Runs whose admission concerns their schedule's progress are claimed with its clock."""


class AdmittingStore(Clock, Protocol):
    def transaction(self, fence: Fence) -> AbstractAsyncContextManager[AdmittingTx]: ...
    async def next_wake(self) -> Instant | None:
        """The earliest wake_at or expires_at of a waiting run."""


class KeepingTx(TimekeeperTx, CollectingTx, PublishTx, Protocol):
    """The timekeeper's: a fire of a tree takes all progress along, a fire that never runs may miss a deadline."""


class KeepingStore(Clock, Protocol):
    def transaction(self, fence: Fence) -> AbstractAsyncContextManager[KeepingTx]: ...
    async def next_due(self) -> Instant | None:
        """The earliest next_due of all clocks; cheap, from the index."""


class MatcherStore(Clock, Protocol):
    def transaction(self, fence: Fence) -> AbstractAsyncContextManager[MatcherTx]: ...
    async def inbox_waits(self) -> bool:
        """Whether the inbox holds anything (cheap)."""

    async def next_deadline(self) -> Instant | None:
        """The earliest stored deadline."""


# ── for people ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """An event of the log as people see it."""

    pos: int
    at: Instant
    type: str
    key: str
    time: Instant | None
    id: str | None
    source: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A leaf that an event reaches."""

    namespace: str
    schedule: str
    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """Arrivals that one schedule could not take."""

    id: int
    schedule_id: ScheduleId
    namespace: str
    schedule: str
    error: str
    at: Instant
    count: int


class EventReads(Protocol):
    async def events(
        self, *, type: str | None, key: str | None, since: Instant | None, before: str | None, limit: int
    ) -> tuple[Sequence[EventRecord], str | None]:
        """A page of the log, newest first."""

    async def subscribers(self, type: str, key: str, payload: Mapping[str, Any] | None) -> Sequence[Subscriber]:
        """The leaves that such an event would reach, by schedule and node. `payload` None: whatever they match on."""

    async def collected(self, schedules: Collection[ScheduleId], now: Instant) -> Sequence[Collecting]:
        """As `collections`, without locking anything: what progress, queue and explain show."""

    async def partly(
        self, namespace: str | None, before: str | None, limit: int
    ) -> tuple[Sequence[ScheduleId], str | None]:
        """A page of schedules whose tree has collected something and has not fired: what the queue also shows."""

    async def set_asides(self, namespace: str | None, before: str | None, limit: int) -> Sequence[SetAside]:
        """A page of what was set aside and not replayed yet, newest first."""


class EventControlTx(PublishTx, CollectingTx, Protocol):
    """What a person's change does to collecting."""

    async def reset_progress(self, schedule: ScheduleId, now: Instant) -> None:
        """Begin anew by the newest revision: subscriptions at the present end of their topics (everything acknowledged
        belongs to the old state), deadlines of `begin`, no owed input. A schedule that rests by `drop`, or is deleted,
        keeps none. Call it after the revision is written."""

    async def replay(self, set_aside: int, now: Instant) -> None:
        """Give what was set aside to its schedule again: the leaves that still listen to those topics take it. One that
        was replayed already, or never was, changes nothing."""
