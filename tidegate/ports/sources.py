"""What the intake asks of sources and of the store, and what people see of sources.

Where each partition is read on is stored beside the events that were made of what lies before it, and moves in the
transaction that publishes them: so each message is one event, whatever dies in between. The source's own memory of who
read what (a consumer group) is not asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from tidegate.domain.ids import Fence
from tidegate.domain.instants import Instant
from tidegate.domain.schedules import JsonObject
from tidegate.domain.sources import Record, SourceSpec
from tidegate.ports.collecting import PublishTx
from tidegate.ports.engine import Membership

ABSENT = -1
"""The partition of a topic that was looked for and is not there: when it comes, it is read from its beginning."""

# ── sources ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a partition is read on. `generation`: which topic of this name it is, as its broker tells them apart
    (empty: it does not); `end`: behind its last message, when that was last seen."""

    topic: str
    partition: int
    generation: str
    next: int
    end: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Messages that were gone before they were read, of a partition from `first` on. `count` 0: how many is not
    known."""

    topic: str
    partition: int
    first: int
    count: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Haul:
    """What a source gives at once: messages, in order within each partition, and where every partition stands after
    them that stood elsewhere before. `fault`: what is wrong with it now, also where it gives something (one topic of
    two is not there). `ended`: it must be opened anew."""

    records: Sequence[Record] = ()
    places: Sequence[Place] = ()
    lost: tuple[Lost, ...] = ()
    fault: str = ""
    ended: bool = False


class Feed(Protocol):
    """One source, open. It is asked for one haul after the other."""

    def begin(self) -> None:
        """Get the next haul, once there is something to tell. Does not wait."""

    def result(self) -> Haul | None:
        """What was got, told once; None: there is nothing yet. Raises nothing."""

    async def close(self) -> None:
        """Leave off. What was not taken down is given again by the next one."""


class Feeds(Protocol):
    """Opens sources as documents say."""

    def open(self, name: str, spec: SourceSpec, places: Sequence[Place]) -> Feed:
        """Read on from these places. Does not connect yet. Raises Refused when it cannot be one (a secret that is not
        there)."""


# ── the store ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """A source as it is stored. `version` is raised by each declaration and each time it moves; `received`: messages
    read, those set aside among them; `missed`: that were gone before; `error`: what is wrong with it, since when."""

    name: str
    spec: SourceSpec
    document: JsonObject
    version: int
    places: tuple[Place, ...] = ()
    received: int = 0
    set_aside: int = 0
    missed: int = 0
    error: str = ""
    error_since: Instant | None = None
    moved_at: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A message that is no event, or messages that were lost (`Lost`): at a place, and why."""

    topic: str
    partition: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A haul that is taken down: by the holder (`token`) of its lease, of the version that was seen."""

    source: str
    version: int
    token: int
    places: Sequence[Place]
    received: int = 0
    missed: int = 0
    error: str = ""


class IntakeTx(PublishTx, Protocol):
    async def took(self, taken: Taken, now: Instant) -> int | None:
        """Move a source on; its new version. None: it was moved or declared otherwise since, or another holds its
        lease; then nothing is changed, and nothing must be published."""

    async def set_aside_messages(self, source: str, misfits: Sequence[Misfit], refused: int, now: Instant) -> None:
        """Keep on record what could not be an event, of a source that was moved in this transaction; `refused` of them
        count as set aside. Of each source the latest `KEPT` are kept."""


KEPT = 1000
"""So many of the messages that a source set aside are kept on record."""


class IntakeStore(Membership, Protocol):
    def transaction(self, fence: Fence) -> AbstractAsyncContextManager[IntakeTx]: ...
    async def sources(self) -> Sequence[SourceRecord]:
        """All, by name, with their places."""


# ── for people ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAsideMessage:
    """A message that is no event, and why."""

    topic: str
    partition: int
    offset: int
    reason: str
    at: Instant


class SourceReads(Protocol):
    async def sources(self) -> Sequence[SourceRecord]:
        """All, by name, with their places."""

    async def set_aside_of(self, source: str, limit: int) -> Sequence[SetAsideMessage]:
        """What a source set aside, newest first."""


class SourceTx(Protocol):
    """A person's transaction."""

    async def put_source(self, name: str, spec: SourceSpec, document: JsonObject, now: Instant) -> bool:
        """Declare a source, or declare it otherwise: then it keeps its place in the topics that it still has. True: it
        is new."""

    async def delete_source(self, name: str) -> bool:
        """With its places; False: there was none."""
