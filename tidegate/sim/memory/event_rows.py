"""The rows of topics and of what triggers collect from them, as in store/migrations/0002."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tidegate.domain.collected import Amount, Deadline, Marks, Progress, Topic
from tidegate.domain.evidence import Reading
from tidegate.domain.ids import ScheduleId
from tidegate.domain.instants import Instant
from tidegate.sim.memory.rows import Event


class TopicRow(NamedTuple):
    """A topic that somebody listens to, with its totals. Replaced whole under its lock by each who publishes to it."""

    id: int
    topic: Topic
    n: int = 0
    rows: int = 0
    bytes: int = 0
    last_at: Instant | None = None


class ArrivalRow(NamedTuple):
    """An event's place in a topic; `rows` and `bytes` are totals up to and including it."""

    n: int
    pos: int
    at: Instant
    rows: int
    bytes: int
    amount: Amount
    event: Event


class SubscriptionRow(NamedTuple):
    """One leaf's place in one topic.

    `again`: ranges (from, to] that are to be read once more, since somebody replays what was set aside.
    """

    place: tuple[int, int, int]  # schedule, node, topic
    base: int
    seen: int
    seen_rows: int
    seen_bytes: int
    marks: Marks
    again: tuple[tuple[int, int], ...] = ()

    def reached(self, topic: TopicRow) -> bool:
        return bool(self.again) or any(
            mark is not None and have >= mark
            for mark, have in zip(self.marks, (topic.n, topic.rows, topic.bytes), strict=True)
        )


class Place(NamedTuple):
    """A subscription as a transaction has read it; `rows` and `bytes` are its topic's totals at the end of that."""

    row: SubscriptionRow
    reading: Reading
    rows: int
    bytes: int


class DeadlineRow(NamedTuple):
    """All deadlines of one schedule, earliest first."""

    schedule_id: int
    deadlines: tuple[Deadline, ...]


@dataclass(eq=False)
class ProgressRow:
    """`enabled_at`: since when it collects. `last_start`: of its last run that ended after having started;
    `last_end`: of its last run that ended."""

    schedule_id: ScheduleId
    progress: Progress
    enabled_at: Instant
    rev: int
    last_start: Instant | None = None
    last_end: Instant | None = None


@dataclass(eq=False)
class SetAsideRow:
    id: int
    schedule_id: ScheduleId
    error: str
    at: Instant
    count: int
    ranges: tuple[tuple[int, int, int, int], ...]  # node, topic, from, to
    replayed: bool = False


class Reset(NamedTuple):
    """For laws: a schedule began anew. `bases`: (node, topic id) -> number; `behind`: how far the state before had
    been read then."""

    at: Instant
    schedule_id: ScheduleId
    rev: int
    bases: dict[tuple[int, int], int]
    behind: dict[tuple[int, int], int]
