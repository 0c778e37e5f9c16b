"""Turns commits to the tables of one catalog into events.

Each table has a cursor: the snapshot up to which everything was told. A pass compares pointers (one question for all
tables that are due), reads the tables whose pointer moved, and publishes what is new in the transaction that moves
their cursors. A cursor moves only from where it was seen, so whoever else watches, each snapshot is told once; the
lease `watch CATALOG` merely saves the second watcher the work. What if this process dies here: before the commit
nothing happened, after it the next pass finds the cursor moved.

A first look at a table tells nothing of its past. A catalog that does not answer, and a table that cannot be read, are
tried ever more rarely, up to a minute; their cursors stay, so nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidegate.domain.errors import Refused, Unavailable
from tidegate.domain.events import DATASET_GAP
from tidegate.domain.ids import Fence
from tidegate.domain.instants import MINUTE, SECOND, Duration, Instant
from tidegate.domain.lake import ABSENT
from tidegate.domain.leases import Lease
from tidegate.engine.outcome import Outcome, Topic
from tidegate.ports.collecting import NewEvent
from tidegate.ports.lake import Catalog, Cursor, Move, News, Order, Pointer, Reader, WatcherStore

SOURCE = "watcher"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherSettings:
    every: Duration = 5 * SECOND
    """How often pointers are compared; a dataset may have its own."""
    refresh: Duration = 30 * SECOND
    """How often to ask whom to watch, should every wake-up be lost."""
    refresh_soonest: Duration = SECOND
    term: Duration = 15 * SECOND
    """Of the lease; it is renewed after a third."""
    again: Duration = 2 * SECOND
    """When to look again after somebody else held the lease."""
    batch: int = 500
    """Events in one transaction."""
    backoff_most: Duration = MINUTE


@dataclass(slots=True)
class _Patience:
    """Failures in a row, and when to try again."""

    failures: int = 0
    until: Instant = 0

    def failed(self, now: Instant, first: Duration, most: Duration) -> None:
        self.until = now + min(first << min(self.failures, 20), most)
        self.failures += 1


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a look at the groups that were `due` found, still to be told."""

    news: Sequence[News]
    moves: Mapping[str, Move]
    due: Sequence[Duration]


class Watcher:
    """A part of the scheduler: one for each catalog, so that one that is down holds up no other."""

    topics = frozenset({Topic.CLOCK, Topic.DECLARED})  # schedules say what is to be watched, too

    def __init__(
        self,
        store: WatcherStore,
        catalog: Catalog,
        reader: Reader,
        fence: Fence,
        settings: WatcherSettings = WatcherSettings(),
    ) -> None:
        self.name = f"watcher {catalog.name}"
        self._duty = f"watch {catalog.name}"
        self._store, self._catalog, self._reader, self._fence = store, catalog, reader, fence
        self._settings = settings
        self._lease: Lease | None = None
        self._fault: str | None = None  # why the catalog is silent; empty: it answers; None: not known
        self._silence = _Patience()
        self._unreadable: dict[str, _Patience] = {}
        self._forget()

    def _forget(self) -> None:
        """Know nothing: another may have watched since."""
        self._cursors: dict[str, Cursor | None] = {}
        self._groups: dict[Duration, dict[str, None]] = {}
        self._due: dict[Duration, Instant] = {}
        self._asked: Instant | None = None
        self._stale = True
        self._seen: _Seen | None = None

    def hear(self, topic: Topic) -> None:
        self._stale = True

    async def step(self, now: Instant) -> Outcome:
        """Compare what is due and read what changed; then, in a step of its own, publish what is new."""
        if not await self._leads(now):
            return Outcome(next=now + self._settings.again)
        if self._seen is not None:
            return await self._tell(self._seen, now, ())
        await self._refresh(now)
        due = [every for every, at in self._due.items() if at <= now]
        if now < self._silence.until or not due:
            return Outcome(next=self._next())
        names = {name: None for every in due for name in self._groups[every]}
        try:
            pointers = await self._catalog.compare({name: self._pointer(name) for name in names})
        except (Unavailable, Refused) as fault:
            return await self._silent(fault, now)
        notes = await self._answers(now)
        news, moves = await self._look(names, pointers, now)
        self._seen = _Seen(news, moves, due)
        if news:  # reading takes its time, and arrivals count from when they are told: they need a new `now`
            return Outcome(left=True, notes=tuple(notes))
        return await self._tell(self._seen, now, notes)

    # ── whom to watch ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _leads(self, now: Instant) -> bool:
        lease, term = self._lease, self._settings.term
        if lease is not None and now < lease.asked_at + term // 3:
            return True
        token = await self._store.acquire(self._duty, self._fence, now, term)
        if token is None or lease is None or token != lease.token:
            self._forget()
        self._lease = None if token is None else Lease(duty=self._duty, token=token, asked_at=now, term=term)
        return token is not None

    async def _refresh(self, now: Instant) -> None:
        """Ask whom to watch, if it is time; whoever is new is due now."""
        asked, settings = self._asked, self._settings
        if asked is not None and now < asked + (settings.refresh_soonest if self._stale else settings.refresh):
            return
        if asked is None or not self._stale:
            async with self._store.transaction(self._fence) as tx:
                await tx.forget_unwatched(now)
        self._stale = False
        known = self._cursors
        self._cursors, self._groups = {}, {}
        for one in await self._store.watched(self._catalog.name):
            if one.dataset.count(".") < 2 or not all(one.dataset.split(".")):
                continue
            every = one.every or settings.every
            self._cursors[one.dataset] = one.cursor
            self._groups.setdefault(every, {})[one.dataset] = None
            if one.dataset not in known:
                self._due[every] = now
        self._due = {every: self._due.get(every, now) for every in self._groups}
        self._asked = now

    def _pointer(self, dataset: str) -> str | None:
        cursor = self._cursors[dataset]
        return cursor.pointer if cursor else None

    def _next(self) -> Instant | None:
        soonest = min(self._due.values(), default=None)
        return soonest if soonest is None else max(soonest, self._silence.until)

    # ── the catalog ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _silent(self, fault: Unavailable | Refused, now: Instant) -> Outcome:
        self._silence.failed(now, self._settings.every, self._settings.backoff_most)
        notes: tuple[str, ...] = ()
        if self._fault != str(fault):
            said = str(fault).rstrip(".")
            notes = (f"{said}. Its tables are not watched meanwhile; nothing is lost.",) if not self._fault else ()
            self._fault = str(fault)
            async with self._store.transaction(self._fence) as tx:
                await tx.report_catalog(self._catalog.name, self._fault, now)
        return Outcome(next=self._silence.until, notes=notes)

    async def _answers(self, now: Instant) -> list[str]:
        self._silence = _Patience()
        before, self._fault = self._fault, ""
        if before == "":
            return []
        async with self._store.transaction(self._fence) as tx:
            await tx.report_catalog(self._catalog.name, "", now)
        return [f"Catalog {self._catalog.name!r} answers again."] if before else []

    # ── tables ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _look(
        self, names: Mapping[str, None], pointers: Sequence[Pointer], now: Instant
    ) -> tuple[Sequence[News], Mapping[str, Move]]:
        """Read what changed; where each cursor goes by it."""
        moves: dict[str, Move] = {}
        orders: list[Order] = []
        told = {one.dataset: one for one in pointers}
        for name in names:
            cursor, pointer = self._cursors[name], told.get(name)
            if pointer is None:
                if cursor is None:
                    moves[name] = Move(dataset=name, version=0, pointer=None, place=ABSENT)
                elif cursor.error:  # it is again as it was when all was well
                    moves[name] = self._move(name, cursor.pointer, cursor)
            elif pointer.error:
                moves |= self._failed(name, pointer.error, now)
            elif pointer.location is None:
                moves[name] = self._move(name, None, cursor)
            elif name not in self._unreadable or now >= self._unreadable[name].until:
                place = cursor.place if cursor else None
                orders.append(
                    Order(dataset=name, location=pointer.location, place=place, properties=pointer.properties)
                )
        news = await self._reader.read(orders) if orders else ()
        for one in news:
            cursor = self._cursors[one.dataset]
            if one.error:
                moves |= self._failed(one.dataset, one.error, now)
                continue
            self._unreadable.pop(one.dataset, None)
            location = told[one.dataset].location
            moves[one.dataset] = Move(
                dataset=one.dataset,
                version=cursor.version if cursor else 0,
                pointer=location if not one.left else cursor.pointer if cursor else None,
                place=one.place,
            )
        return news, moves

    def _move(self, name: str, pointer: str | None, cursor: Cursor | None) -> Move:
        if cursor is None:
            return Move(dataset=name, version=0, pointer=pointer, place=ABSENT)
        return Move(dataset=name, version=cursor.version, pointer=pointer, place=cursor.place)

    def _failed(self, name: str, error: str, now: Instant) -> dict[str, Move]:
        """A table that cannot be read keeps its cursor, which only says why. One never looked at gets none: its first
        look is still to come."""
        self._unreadable.setdefault(name, _Patience()).failed(now, self._settings.every, self._settings.backoff_most)
        cursor = self._cursors[name]
        if cursor is None or cursor.error == error:
            return {}
        move = Move(dataset=name, version=cursor.version, pointer=cursor.pointer, place=cursor.place, error=error)
        return {name: move}

    def _notes(self, news: News) -> list[str]:
        if news.error:
            first = self._unreadable[news.dataset].failures == 1
            return [f"{news.dataset} cannot be read: {news.error}"] if first else []
        gaps = [payload for kind, payload in news.events if kind == DATASET_GAP]
        return [f"{news.dataset} has a gap ({gap['reason']}) after snapshot {gap['previous_snapshot']}" for gap in gaps]

    # ── publishing ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _tell(self, seen: _Seen, now: Instant, notes: Sequence[str]) -> Outcome:
        """Publish what a look found. Should that fail it is tried again: cursors move only from where they were."""
        did, left, said = 0, False, list(notes)
        for batch in self._batches(seen.news, seen.moves):
            did += await self._publish(batch, now)
        self._seen = None
        for one in seen.news:
            said += self._notes(one)
            left |= one.left
        for every in seen.due:
            self._due[every] = now if left else now + every
        return Outcome(
            did=did,
            left=left,
            next=self._next(),
            wakes=frozenset({Topic.EVENTS}) if did else frozenset(),
            notes=tuple(said),
        )

    def _batches(self, news: Sequence[News], moves: Mapping[str, Move]) -> Iterator[list[tuple[Move, list[NewEvent]]]]:
        """Each table's move with its events, so many at a time that transactions stay short."""
        events = {one.dataset: _events(one) for one in news if not one.error}
        batch: list[tuple[Move, list[NewEvent]]] = []
        size = 0
        for name in sorted(moves):
            batch.append((moves[name], events.get(name, [])))
            size += 1 + len(batch[-1][1])
            if size >= self._settings.batch:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    async def _publish(self, batch: Sequence[tuple[Move, list[NewEvent]]], now: Instant) -> int:
        """One transaction; how many events were published."""
        async with self._store.transaction(self._fence) as tx:
            moved = await tx.move([move for move, _ in batch], now)
            events = [event for move, mine in batch if move.dataset in moved for event in mine]
            if events:
                await tx.publish(events, now)
        for move, _ in batch:
            if move.dataset in moved:
                self._cursors[move.dataset] = Cursor(
                    version=move.version + 1, pointer=move.pointer, place=move.place, error=move.error
                )
            else:  # somebody else has moved it
                self._stale = True
        return len(events)


def _events(news: News) -> list[NewEvent]:
    return [NewEvent(type=kind, key=news.dataset, payload=payload, source=SOURCE) for kind, payload in news.events]
