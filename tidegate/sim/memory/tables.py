"""Tables with row locks and indices, and the transactions that change them: READ COMMITTED, in one thread.

A transaction keeps what it writes to itself: an overlay of rows beside the committed ones. Rows it writes are locked
until it ends, so leaving by commit only puts the overlay in place (indices follow there), and rolling back is to let
go of it. Nothing is visible to others before the commit, which no await interrupts. Whoever needs a locked row waits
for its holder: the wait is an awaitable made by `Database.wait`, so that asyncio, a hand-driven simulation and tests
can each wait in their own way.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import Any, Generic, TypeVar

from tidegate.domain.errors import Unavailable
from tidegate.sim.memory.rows import copied

K = TypeVar("K")
R = TypeVar("R")


class Ordered(Generic[K]):
    """A sorted set of keys. A plain list: moving memory is cheaper than any tree up to tens of thousands of keys."""

    __slots__ = ("keys",)

    def __init__(self) -> None:
        self.keys: list[Any] = []

    def add(self, key: K) -> None:
        insort(self.keys, key)

    def discard(self, key: K) -> None:
        at = bisect_left(self.keys, key)
        if at < len(self.keys) and self.keys[at] == key:
            del self.keys[at]

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys)

    def __len__(self) -> int:
        return len(self.keys)


class Table(Generic[K, R]):
    """Committed rows, who holds which of them, and what follows a change of one."""

    __slots__ = ("name", "number", "rows", "locks", "sharers", "follow")

    def __init__(self, name: str, number: int, follow: Callable[[R | None, R | None], None] | None = None) -> None:
        self.name = name
        self.number = number
        self.rows: dict[K, R] = {}
        self.locks: dict[K, Transaction] = {}
        self.sharers: dict[K, dict[Transaction, None]] = {}
        self.follow = follow


class Spin:
    """Waiting in asyncio: let others go first, then look again."""

    def __await__(self) -> Generator[None, None, None]:
        yield None


def spin(holder: Transaction) -> Awaitable[None]:
    return Spin()


class Transaction:
    """What every transaction has: its overlay, its locks, its end. `killed` says that the server ended it."""

    __slots__ = (
        "database", "own", "touched", "deletes", "held", "shared", "log", "topics", "over", "killed", "blocked_by",
        "on_end",
    )  # fmt: skip

    def __init__(self, database: Database) -> None:
        self.database = database
        self.own: list[dict[Any, Any] | None] = [None] * database.tables
        self.touched: list[tuple[Table[Any, Any], dict[Any, Any]]] = []
        self.deletes = False
        self.held: list[tuple[dict[Any, Transaction], Any]] = []
        self.shared: list[dict[Transaction, None]] = []
        self.log: list[tuple[list[Any], Any]] = []
        self.topics: dict[str, None] = {}
        self.over = False
        self.killed = False
        self.blocked_by: Transaction | None = None
        self.on_end: list[Callable[[], None]] = []

    # locks
    def try_lock(self, table: Table[K, Any], key: K) -> bool:
        """Lock the row (or the place where it would be), unless somebody else holds it."""
        holder = table.locks.get(key)
        if holder is None:
            table.locks[key] = self
            self.held.append((table.locks, key))
            return True
        return holder is self

    async def lock(self, table: Table[K, Any], key: K) -> None:
        """Lock the row, waiting for its holder. Raises Unavailable where that would be a deadlock."""
        while not self.try_lock(table, key):
            await self.wait_for(table.locks[key])

    async def share(self, table: Table[K, Any], key: K) -> None:
        """Let nobody change the row (or its absence) until this transaction ends; others may do the same."""
        while (holder := table.locks.get(key)) is not None and holder is not self:
            await self.wait_for(holder)
        sharers = table.sharers.setdefault(key, {})
        if self not in sharers:
            sharers[self] = None
            self.shared.append(sharers)

    async def lock_alone(self, table: Table[K, Any], key: K) -> None:
        """Lock a row that others may share, waiting for them, too."""
        await self.lock(table, key)
        while others := [one for one in table.sharers.get(key, {}) if one is not self]:
            await self.wait_for(others[0])

    async def wait_for(self, holder: Transaction) -> None:
        other: Transaction | None = holder
        while other is not None:
            if other is self:
                self.database.deadlocks += 1
                raise Unavailable("deadlock detected", code="deadlock")
            other = other.blocked_by
        self.blocked_by = holder
        try:
            await self.database.wait(holder)
        finally:
            self.blocked_by = None
        self.check()

    # rows
    def get(self, table: Table[K, R], key: K) -> R | None:
        """The row as this transaction sees it: not to be changed."""
        own = self.own[table.number]
        if own is not None:
            row: R | None = own.get(key)
            if row is not None or key in own:
                return row
        return table.rows.get(key)

    def edit(self, table: Table[K, R], key: K) -> R:
        """This transaction's own copy of a row that it has locked, to be changed."""
        own = self.own[table.number]
        if own is None:
            own = self._touch(table)
        else:
            row: R | None = own.get(key)
            if row is not None:
                return row
        fresh = own[key] = copied(table.rows[key])
        return fresh

    def _touch(self, table: Table[Any, Any]) -> dict[Any, Any]:
        own: dict[Any, Any] = {}
        self.own[table.number] = own
        self.touched.append((table, own))
        return own

    def delete(self, table: Table[K, Any], key: K) -> None:
        """Delete a row that this transaction has locked."""
        self.deletes = True
        self.put(table, key, None)

    def put(self, table: Table[K, R], key: K, row: R | None) -> None:
        """Write a whole row under a lock that is held."""
        own = self.own[table.number]
        if own is None:
            own = self._touch(table)
        own[key] = row

    def scan(self, table: Table[K, R]) -> Iterator[tuple[K, R]]:
        """Every row that this transaction sees, committed ones first."""
        own = self.own[table.number] or {}
        for key, row in list(table.rows.items()):
            mine = own.get(key, row) if own else row
            if mine is not None:
                yield key, mine
        for key, mine in list(own.items()):
            if mine is not None and key not in table.rows:
                yield key, mine

    def append(self, log: list[R], line: R) -> None:
        self.log.append((log, line))

    # ends
    def check(self) -> None:
        if self.killed:
            raise Unavailable("the server ended this transaction: it was idle for too long", code="killed")

    def commit(self) -> None:
        self.check()
        for table, own in self.touched:
            rows, follow = table.rows, table.follow
            if follow is not None:
                for key, row in own.items():
                    follow(rows.get(key), row)
            rows.update(own)
            for key, row in own.items() if self.deletes else ():
                if row is None:
                    del rows[key]
        for log, line in self.log:
            log.append(line)
        self.release()

    def kill(self) -> None:
        """What the server does to a transaction that idles: rolled back, and its owner learns it at the next call."""
        self.killed = True
        self.release()

    def release(self) -> None:
        """Roll back (or finish a commit): let go of everything."""
        if self.over:
            return
        self.over = True
        for locks, key in self.held:
            del locks[key]
        for sharers in self.shared:
            del sharers[self]
        for call in self.on_end:
            call()


class Database:
    """The tables' common ground. `wait` makes the awaitable by which a transaction waits for another's end."""

    def __init__(self) -> None:
        self.by_number: list[Table[Any, Any]] = []
        self.wait: Callable[[Transaction], Awaitable[None]] = spin
        self.listeners: list[Callable[[str], None]] = []
        self.deadlocks = 0

    @property
    def tables(self) -> int:
        return len(self.by_number)

    def table(self, name: str, follow: Callable[[Any, Any], None] | None = None) -> Table[Any, Any]:
        table: Table[Any, Any] = Table(name, len(self.by_number), follow)
        self.by_number.append(table)
        return table

    def notify(self, topic: str) -> None:
        for listener in self.listeners:
            listener(topic)
