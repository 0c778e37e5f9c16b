"""What every transaction has: a session, what the process remembers, and whom to wake afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from tidegate.domain.errors import Fenced
from tidegate.domain.ids import Fence, RunKey
from tidegate.domain.instants import Instant
from tidegate.store.arrays import Ints
from tidegate.store.connection import Cursor, Database, Row, Session
from tidegate.store.definitions import Definitions
from tidegate.store.floors import Floor
from tidegate.store.partitions import Partitions, day_of, partition_name
from tidegate.store.queues import Instants
from tidegate.store.sql import Query, load
from tidegate.store.tide import Tide

I = load("instances")  # noqa: E741
SPACE = 0x7469_6465
"""The space of our advisory locks with two numbers: this one and the instance's."""
_PARTITIONS_AT_ONCE = 40
Item = TypeVar("Item")
SEPARATOR = "\x1f"
"""Between the counters of one run, where they travel as one text."""


@dataclass(slots=True)
class Walk:
    """How far the comparison of the store with itself has come in this process."""

    clock: int = 0
    counter: str = ""


@dataclass(frozen=True, slots=True)
class Parts:
    """What one process's store consists of."""

    database: Database
    definitions: Definitions
    partitions: Partitions
    due: Floor = field(default_factory=Floor)
    wake: Floor = field(default_factory=Floor)
    walk: Walk = field(default_factory=Walk)
    tide: Tide = field(default_factory=Tide)
    hosts: dict[int, str] = field(default_factory=dict)  # of this process's own instances


class Keys(NamedTuple):
    """Run keys as columns."""

    slots: Ints
    schedules: Ints
    ords: Ints


def columns(keys: Iterable[RunKey]) -> Keys:
    keys = list(keys)
    return Keys(Ints(key.slot for key in keys), Ints(key.schedule_id for key in keys), Ints(key.ord for key in keys))


def spanning(keys: Iterable[RunKey]) -> dict[str, Any]:
    """Run keys as columns, and the slots between which they lie: a statement that is told them opens no partition
    beyond."""
    keys = list(keys)
    slots = [key.slot for key in keys]
    return {**columns(keys)._asdict(), "oldest": min(slots), "newest": max(slots)}


def ascending(key: RunKey) -> tuple[int, int, int]:
    """The order in which live runs are locked (docs/explanation/locks.md)."""
    return (key.schedule_id, key.slot, key.ord)


def by_partition(items: Sequence[Item], key: Callable[[Item], RunKey]) -> list[tuple[str, list[Item]]]:
    """Items with the partition of `run` in which each one's run lies; their order is kept."""
    groups: dict[int, list[Item]] = {}
    for item in items:
        groups.setdefault(day_of(key(item).slot), []).append(item)
    return [(partition_name("run", day), groups[day]) for day in sorted(groups)]


class Tx:
    """The base of all transactions. `topics` are told to other processes once it has committed."""

    def __init__(self, parts: Parts, session: Session) -> None:
        self.parts = parts
        self.session = session
        self.topics: set[str] = set()
        self.instants = Instants()
        self.overlooked: list[Cursor] = []  # keys under which nobody could be woken (see holdings)
        self._if_rows: list[tuple[Cursor, str]] = []

    def tell(self, topic: str, *, if_rows: Cursor | None = None) -> None:
        """Wake others after the commit; with `if_rows` only when that statement touched a row."""
        if if_rows is None:
            self.topics.add(topic)
        else:
            self._if_rows.append((if_rows, topic))

    def told(self) -> set[str]:
        """The topics, known after the commit."""
        return self.topics | {topic for cursor, topic in self._if_rows if cursor.rowcount > 0}

    async def verify(self) -> None:
        """Raises Fenced when this transaction's writer was declared dead."""

    async def settle_up(self) -> None:
        """What is left to be done just before the commit."""

    async def fetch(self, query: Query, /, **parameters: Any) -> list[Row]:
        """The rows of a statement. The fence, which was sent before it, is read with them."""
        rows = await self.session.rows(query, **parameters)
        await self.verify()
        return rows

    async def ready_for(self, now: Instant, slots: Iterable[Instant] = ()) -> None:
        """Make sure that what is written now has partitions to lie in. They are made beside this transaction, which
        meanwhile shows every now and then that it lives."""
        missing = self.parts.partitions.missing(slots=slots, now=now)
        for first in range(0, len(missing), _PARTITIONS_AT_ONCE):
            await self.parts.partitions.ensure(missing[first : first + _PARTITIONS_AT_ONCE])
            await self.session.rows(I.now)


class FencedTx(Tx):
    """A transaction of the engine. The fence travels with the first statement and is read with its rows."""

    def __init__(self, parts: Parts, session: Session, fence: Fence) -> None:
        super().__init__(parts, session)
        self.fence = fence
        self.host = ""
        self._check: Cursor | None = None

    async def begin(self) -> None:
        self._check = await self.session.send(I.fence, id=self.fence.instance_id, epoch=self.fence.epoch)

    async def verify(self) -> None:
        if self._check is None:
            return
        check, self._check = self._check, None
        row = await check.fetchone()
        if row is None:
            raise Fenced(f"Instance {self.fence.instance_id} was declared dead; its writes are refused.")
        self.host = self.parts.hosts[self.fence.instance_id] = row[0]
