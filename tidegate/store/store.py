"""The store in PostgreSQL: every port of engine and control, composed of one file per subject.

    async with store.transaction(fence) as tx: ...     # the engine's, under a fence
    async with store.changing() as tx: ...             # people's

A store connects when it is first used and may be used from one event loop at a time. It needs a database that
`migrate.upgrade` has brought up to date.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

import psycopg

from tidegate.domain.errors import Refused, Unavailable
from tidegate.domain.ids import AttemptKey, Fence, RunKey, ScheduleId
from tidegate.domain.instants import SECOND, Duration, Instant
from tidegate.ports.engine import Drift, OpenAttempt
from tidegate.ports.pausing import Pausing
from tidegate.store import admission, clocks, deadlines, resync
from tidegate.store import retention as expiry
from tidegate.store.admission import AdmissionTx
from tidegate.store.arrays import Ints, Texts
from tidegate.store.attempts import AttemptsTx, open_attempts
from tidegate.store.backfills import BackfillReading, BackfillsTx
from tidegate.store.clocks import ClocksTx
from tidegate.store.connection import Connection, Database, Session, bounded, translate
from tidegate.store.deadlines import DeadlinesTx
from tidegate.store.definitions import Definitions
from tidegate.store.event_reads import EventReading
from tidegate.store.gates import GatesReading
from tidegate.store.holdings import wake_overlooked
from tidegate.store.instances import MembershipCalls
from tidegate.store.lake import DatasetReading, WatchTx
from tidegate.store.neighbours import NeighbourCalls
from tidegate.store.partitions import Partitions, day_of
from tidegate.store.pinning import PinningTx
from tidegate.store.reads import Reading
from tidegate.store.requests import ControlTransaction
from tidegate.store.sinks import RelayingTx, SinkReading
from tidegate.store.sources import IntakeTx, SourceReading
from tidegate.store.sql import load
from tidegate.store.tables import TablesReading
from tidegate.store.transactions import I, Parts, Tx, columns

log = logging.getLogger(__name__)

ATTEMPTS = load("attempts")
SINKS = load("sinks")


class EngineTransaction(
    ClocksTx, AdmissionTx, BackfillsTx, AttemptsTx, WatchTx, DeadlinesTx, PinningTx, RelayingTx, IntakeTx
):
    """An engine transaction: whichever part began it finds its own methods."""


class PostgresStore(
    MembershipCalls,
    NeighbourCalls,
    BackfillReading,
    DatasetReading,
    SinkReading,
    SourceReading,
    TablesReading,
    EventReading,
    GatesReading,
    Reading,
):
    """All of it. Its sessions are its own: no pooler may give them to others between two transactions."""

    def __init__(self, url: str, *, name: str = "tidegate", size: int = 8) -> None:
        database = Database(url, name=name, size=size)
        self.parts = Parts(database, Definitions(), Partitions(database))
        self._presence: dict[int, Connection] = {}
        self._lost_at: Instant | None = None
        self._announcer: Connection | None = None

    async def close(self) -> None:
        """Part with every connection. Instances that have not left are seen as gone by then."""
        held = [*self._presence.values(), *([self._announcer] if self._announcer else [])]
        self._presence.clear()
        self._announcer = None
        for connection in held:
            with suppress(psycopg.Error, OSError):
                await connection.close()
        await self.parts.database.close()

    async def now(self) -> Instant:
        """The database's time."""
        row = await self.parts.database.row(I.now)
        assert row is not None
        self.parts.due.seen(row[0])
        self.parts.wake.seen(row[0])
        return int(row[0])

    # ── transactions ───────────────────────────────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def transaction(self, fence: Fence) -> AsyncIterator[EngineTransaction]:
        """An engine transaction under a fence. Whom it wakes is for the engine's loop to announce."""
        with self._looking_anew():
            async with self.parts.database.transaction() as session:
                tx = EngineTransaction(self.parts, session, fence)
                await tx.begin()
                yield tx
                await tx.verify()
        await self._wake_overlooked(tx)

    async def asked_to_pause(self) -> Sequence[Pausing]:
        rows = await self.parts.database.rows(ATTEMPTS.asked_to_pause)
        return [Pausing(schedule=ScheduleId(row[0]), namespace=row[1], name=row[2], reason=row[3]) for row in rows]

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[ControlTransaction]:
        """A person's transaction. Those who have to know are told after the commit."""
        with self._looking_anew():
            async with self.parts.database.transaction(patient=True) as session:
                await session.send(SINKS.number)  # before it can draw a position in the log (`store.sinks`)
                tx = ControlTransaction(self.parts, session)
                yield tx
                await tx.settle_up()
        await self._wake_overlooked(tx)
        if topics := tx.told():
            try:
                await self.parts.database.execute(I.notify, topics=Texts(sorted(topics)))
            except Unavailable as error:  # what was asked is done; who was not told looks within a second
                log.warning("a change could not be announced: %s", error)

    async def _wake_overlooked(self, tx: Tx) -> None:
        """Runs that a committed transaction was to wake and found locked; else the reconciler would, much later."""
        keys = [key for cursor in tx.overlooked for (key,) in await cursor.fetchall()]
        if keys:
            with suppress(Unavailable):
                await wake_overlooked(self.parts, keys, await self.now())

    @contextmanager
    def _looking_anew(self) -> Iterator[None]:
        """A partition that was there may have been dropped by another process since."""
        try:
            yield
        except (psycopg.errors.CheckViolation, Refused) as error:
            if "no partition of relation" not in str(error) and 'relation "event_p' not in str(error):
                raise
            self.parts.partitions.forget()
            raise Unavailable("A partition was dropped meanwhile; it is made anew.", code="contended") from error

    # ── single questions ───────────────────────────────────────────────────────────────────────────────────────────

    async def next_due(self) -> Instant | None:
        return await clocks.next_due(self.parts)

    async def next_wake(self) -> Instant | None:
        return await admission.next_wake(self.parts)

    async def next_term(self) -> Instant | None:
        return await deadlines.next_term(self.parts)

    async def open_attempts(self, attempts: Collection[AttemptKey]) -> Sequence[OpenAttempt]:
        if not attempts:
            return []
        keys = columns(key.run for key in attempts)._asdict()
        async with self.parts.database.session() as session:
            rows = await session.rows(ATTEMPTS.open, **keys, numbers=Ints(key.number for key in attempts))
            return await open_attempts(self.parts.definitions, session, rows)

    async def stop_requests(self, fence: Fence) -> Sequence[OpenAttempt]:
        async with self.parts.database.session() as session:
            rows = await session.rows(ATTEMPTS.stop_requests, instance=fence.instance_id, epoch=fence.epoch)
            return await open_attempts(self.parts.definitions, session, rows)

    async def held_attempts(self, fence: Fence, before: Instant) -> Sequence[AttemptKey]:
        about = {"instance": fence.instance_id, "epoch": fence.epoch, "before": before}
        rows = await self.parts.database.rows(ATTEMPTS.held, **about)
        return [AttemptKey(RunKey(*row[:3]), row[3]) for row in rows]

    # ── upkeep ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def resync(self, fence: Fence, token: int, now: Instant) -> Sequence[Drift]:
        return await resync.resync(self.parts, fence, token, now)

    async def ensure_partitions(self, now: Instant, ahead: Duration) -> Sequence[str]:
        days = range(day_of(now) - 1, day_of(now + ahead) + 1)
        return await self.parts.partitions.ensure(
            (table, day) for day in days for table in ("arrival", "attempt", "event", "run")
        )

    async def drop_expired(self, now: Instant, retention: Mapping[str, Duration]) -> Sequence[str]:
        return await expiry.drop_expired(self.parts, now, retention)

    # ── wake-ups between processes ─────────────────────────────────────────────────────────────────────────────────

    async def announce(self, topics: Collection[str]) -> None:
        """Tell the other processes; `listen` of this very store does not hear it."""
        if self._announcer is None or self._announcer.closed:
            self._announcer = await self.parts.database.connect("announce")
        try:
            await Session(self._announcer).send(I.notify, topics=Texts(sorted(topics)))
        except psycopg.Error as error:
            announcer, self._announcer = self._announcer, None
            await announcer.close()
            raise translate(error) from error

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Call `heard` with every topic that others announce, and with "" once it listens. Returns only by an
        exception: Unavailable when the connection is lost."""
        connection = await self.parts.database.connect("listen")
        try:
            with bounded(connection):
                await connection.execute("LISTEN tidegate")
            self._heard("")
            heard("")
            async for told in connection.notifies():
                if self._announcer is None or told.pid != self._announcer.info.backend_pid:
                    self._heard(told.payload)
                    heard(told.payload)
        except psycopg.Error as error:
            raise translate(error) from error
        finally:
            with suppress(psycopg.Error, OSError):
                await connection.close()
        raise Unavailable("The connection that listens was closed.")

    def _heard(self, topic: str) -> None:
        """What others have written may lie below our marks."""
        if topic in ("", "clock"):
            self.parts.due.lower()
        if topic == "":
            self.parts.wake.lower()
        elif topic == "admit":
            self.parts.wake.lower_by(10 * SECOND)


if TYPE_CHECKING:
    from tidegate.ports import backfills, collecting, control, engine, lake, probing, sinks, sources

    def _satisfies(store: PostgresStore) -> None:
        """Checked by mypy: every port is implemented."""
        timekeeper: collecting.KeepingStore = store
        matcher: collecting.MatcherStore = store
        admitter: collecting.AdmittingStore = store
        courier: collecting.PublishingStore = store
        worker: engine.WorkerStore = store
        watcher: lake.WatcherStore = store
        relay: sinks.RelayStore = store
        intake: sources.IntakeStore = store
        members: engine.Membership = store
        neighbours: engine.Neighbours = store
        reporter: engine.Reports = store
        reconciler: engine.ReconcilerStore = store
        janitor: engine.JanitorStore = store
        wakes: engine.Wakes = store
        prober: probing.ProberStore = store
        backfiller: backfills.BackfillStore = store
        people: control.ControlStore = store
        del timekeeper, matcher, admitter, courier, worker, watcher, relay, intake
        del members, neighbours, reporter, reconciler, janitor, wakes, prober, backfiller, people
