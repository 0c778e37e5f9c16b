"""The values of collecting: what a trigger is fed, what it has collected, and what comes of it (`domain.progress`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from tidegate.domain.instants import Instant

Node: TypeAlias = int
"""A node's place in the preorder of its tree; the root is 0."""


class Topic(NamedTuple):
    """What a leaf listens to. `key` None: any; `match`: canonical JSON that the payload must contain, or None."""

    type: str
    key: str | None
    match: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One leaf listens to one topic. A `program_status` of three outcomes has three."""

    node: Node
    topic: Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How much came: events, rows, bytes, and names of partitions (added, or also changed). Also cumulative totals."""

    n: int = 0
    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """What came for one subscription since the tree last looked and before the first arrival that is given singly.

    It reaches no need, and all of it came before the earliest deadline or tick that is given with it: what came at or
    after one that is looked at late is given singly.
    """

    subscription: Subscription
    amount: Amount
    first_at: Instant
    last_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One event, for every subscription of the tree that it reaches. `pos` orders arrivals, `at` is when it arrived."""

    pos: int
    at: Instant
    subscriptions: tuple[Subscription, ...]
    amount: Amount  # n = 1
    payload: Mapping[str, Any]  # of dataset.updated and for plug-ins; may be empty for the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """The time leaves `nodes` (all that coincide) have a fire at `at`."""

    at: Instant
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """An instant at which node `node` is to be looked at although nothing came."""

    at: Instant
    node: Node


Given: TypeAlias = Arrival | Tick | Deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a tree asks beside its progress: about its schedule."""

    enabled_at: Instant  # progress was last reset: `elapsed` of a schedule that never ran counts from here
    last_start: Instant | None  # of its last launched run
    busy: bool  # a run of it waits or is active
    last_end: Instant | None = None  # when the last run of it ended: `elapsed since last_run` was silent up to then
    ticks_from: Instant | None = None  # ticks of latching leaves before it were missed and do not count (catch_up none)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What one leaf has collected since the tree last fired."""

    amount: Amount = Amount()
    first_at: Instant | None = None
    last_at: Instant | None = None
    names: tuple[str, ...] = ()  # the first `count` partitions
    state: Mapping[str, Any] | None = None  # of a plug-in
    tick: Instant | None = None  # of a time leaf: latched


NOTHING = Tally()
"""Of a leaf that has collected nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a tree has collected. The empty one is `Progress()`."""

    tallies: Mapping[Node, Tally] = field(default_factory=dict)  # of `elapsed since last_event` not consumed
    began: Mapping[Node, Instant] = field(default_factory=dict)  # `all` with max_wait: its first arrival; to be shown
    forced: frozenset[Node] = frozenset()  # `all` that waited its longest and counts as satisfied
    kept: frozenset[Node] = frozenset()  # `all` that was satisfied when its longest wait ended, and stays so
    settled: Mapping[Node, Instant] = field(default_factory=dict)  # `quiet`: since when its trigger is satisfied
    fired_at: Instant | None = None  # when the tree last fired (not consumed; `elapsed` never fires twice for one wait)
    seen: Instant | None = None  # up to here time itself has been looked at (not consumed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one fire consumed: for each leaf that collected anything, its tally."""

    at: Instant  # of the arrival, tick or deadline that completed it
    pos: int | None  # of that arrival; everything up to it (and for a deadline or tick everything before) is consumed
    fire_time: Instant | None  # the newest tick it consumed
    tallies: Mapping[Node, Tally]
    timed_out: bool  # an `all` was forced: `run.timed_out_waiting`


class Marks(NamedTuple):
    """The totals of a topic at which a tree is to be looked at again; None: no total of that measure matters."""

    n: int | None
    rows: int | None
    bytes: int | None

    def nearer_than(self, old: Marks) -> bool:
        """Whether one of them comes before the old one: then somebody may have looked at the old one in vain."""
        return any(now is not None and (was is None or now < was) for was, now in zip(old, self, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """How much more must come for a subscription before the tree can change; None: no amount of that measure can.

    The store compares each with the topic's totals, and looks when any is reached. All None: nothing that comes for it
    matters before another leaf, tick or deadline does.
    """

    n: int | None = None
    rows: int | None = None
    bytes: int | None = None

    def beyond(self, n: int, rows: int, bytes: int) -> Marks:
        """The totals at which it is reached, from the totals of now on."""
        return Marks(
            None if self.n is None else n + self.n,
            None if self.rows is None else rows + self.rows,
            None if self.bytes is None else bytes + self.bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """What came of a fold."""

    progress: Progress
    fires: tuple[Evidence, ...]
    deadlines: tuple[Deadline, ...]  # all that are to be stored now, ticks of latching leaves included
    needs: Mapping[Subscription, Need]
