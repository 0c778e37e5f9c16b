"""What every part of the engine is: something with a `step`, and what a step says afterwards.

A part gathers facts, lets a pure function decide, and applies the decision in one transaction. It knows no clock and no
event loop; `engine.loop` calls it when its next instant or a wake-up comes, tests and the simulator crank it by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tidegate.domain.errors import Unavailable
from tidegate.domain.instants import Instant


class Topic(StrEnum):
    """What a wake-up is about. One may be lost: every part also looks by itself."""

    CLOCK = "clock"
    """A clock changed: something may be due earlier than was known."""
    DECLARED = "declared"
    """A sink, source, dataset or policy was declared otherwise, or a table measured. No fire is due for that."""
    ADMIT = "admit"
    """Something may be admitted: new runs, a released counter or slot."""
    READY = "ready"
    """Something may be launched."""
    PUBLISH = "publish"
    """Runs that only publish became ready. Never leaves the process."""
    EVENTS = "events"
    """Something was published that a trigger may wait for."""
    STOP = "stop"
    """Somebody asked an attempt to stop, or a worker was declared dead and its attempts want a new one."""
    BACKFILL = "backfill"
    """A backfill was asked for, resumed or ended."""
    BACKEND = "backend"
    """A launcher has news. Never leaves the process."""
    GONE = "gone"
    """The session of another process has ended. Never leaves the process."""
    BACKLOG = "backlog"
    """More clocks are due than one transaction takes. Never leaves the process."""


SHARED = frozenset({Topic.CLOCK, Topic.DECLARED, Topic.ADMIT, Topic.READY, Topic.STOP, Topic.EVENTS, Topic.BACKFILL})
"""Topics that other processes may listen to, and about which one that died may have told nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one step did.

    `left`: more work is there right now. `next`: when it wants to be called again at the latest (None: whenever the
    loop looks anyway). `wakes`: whom it concerns. `notes`: what an operator should read; one sentence each.
    """

    did: int = 0
    left: bool = False
    next: Instant | None = None
    wakes: frozenset[Topic] = frozenset()
    notes: tuple[str, ...] = ()


class Part(Protocol):
    """One of the engine's parts."""

    @property
    def name(self) -> str: ...
    @property
    def topics(self) -> frozenset[Topic]:
        """The wake-ups that make it look at once."""

    def hear(self, topic: Topic) -> None:
        """A wake-up came; `step` follows. Called from the loop's thread, also while a step is under way."""

    async def step(self, now: Instant) -> Outcome:
        """One pass. `now` is the database's time, read just before."""


@dataclass(slots=True)
class Batch:
    """How many rows one transaction takes: more while it comes back full, fewer again when the backlog is gone.

    Small batches answer fast, large ones cost less per row; a full batch says that there is a backlog.
    """

    size: int = 500
    least: int = 100
    most: int = 1000

    def __post_init__(self) -> None:
        self.most = max(self.most, self.size)
        self.least = min(self.least, self.size)

    def took(self, rows: int) -> bool:
        """Learn from a batch of `rows`; True when it came back full, so that more may be left."""
        full = rows >= self.size
        if full:
            self.size = min(self.most, self.size * 2)
        elif rows * 2 < self.size and self.size > self.least:
            self.size = max(self.least, self.size // 2)
        return full

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Around a transaction of this size: should it fail, the next one takes a quarter, down to a single row. The
        database ends a transaction that takes too long, and the same again would take as long again, for ever."""
        try:
            yield
        except Unavailable:
            self.size = max(1, self.size // 4)
            raise


def earliest(instants: Iterable[Instant | None]) -> Instant | None:
    """The first of some instants, of which any may be missing."""
    return min((one for one in instants if one is not None), default=None)
