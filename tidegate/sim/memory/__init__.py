"""The store in memory: every port of engine and control, with PostgreSQL's meaning at READ COMMITTED.

One thread, no copy of the world: see `tables`. It passes the conformance suite that the PostgreSQL store passes
(tests/conformance), and stands behind both the simulator and the `World` in which users test their applications.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tidegate.domain.ids import AttemptKey, Fence
from tidegate.domain.instants import Instant
from tidegate.domain.pools import built_in
from tidegate.ports.engine import OpenAttempt
from tidegate.ports.pausing import Pausing
from tidegate.sim.memory.admission import AdmitterTransaction
from tidegate.sim.memory.backfills import BackfillReading, BackfillTransaction
from tidegate.sim.memory.data import Data
from tidegate.sim.memory.deadlines import DeadlinesTransaction
from tidegate.sim.memory.event_reads import EventReading
from tidegate.sim.memory.gates import GatesReading
from tidegate.sim.memory.lake import DatasetReading, WatchTransaction
from tidegate.sim.memory.lake_tables import TablesReading
from tidegate.sim.memory.membership import MembershipCalls
from tidegate.sim.memory.pinning import PinningTransaction
from tidegate.sim.memory.read import Reading
from tidegate.sim.memory.requests import ControlTransaction
from tidegate.sim.memory.rows import PoolRow
from tidegate.sim.memory.sinks import RelayTransaction, SinkReading
from tidegate.sim.memory.sources import IntakeTransaction, SourceReading
from tidegate.sim.memory.time import TimekeeperTransaction
from tidegate.sim.memory.upkeep import Upkeep
from tidegate.sim.memory.work import WorkerTransaction, open_attempt

__all__ = ["MemoryStore", "MemoryTransaction"]


class MemoryTransaction(
    TimekeeperTransaction,
    BackfillTransaction,
    AdmitterTransaction,
    WorkerTransaction,
    WatchTransaction,
    PinningTransaction,
    DeadlinesTransaction,
    RelayTransaction,
    IntakeTransaction,
):
    """An engine transaction: whichever part began it finds its own methods."""

    __slots__ = ()


class MemoryStore(
    MembershipCalls,
    BackfillReading,
    DatasetReading,
    SinkReading,
    SourceReading,
    TablesReading,
    EventReading,
    GatesReading,
    Reading,
    Upkeep,
):
    """All of it. `time` is what `now()` answers; pools `default` and `spark` exist from the start, as after `up`."""

    def __init__(self, time: Callable[[], Instant], pools: Sequence[tuple[str, int]] = ()) -> None:
        self.data = Data(time)
        self.time = time
        for name, slots in pools:
            self.data.pool.rows[name] = PoolRow(name, slots)
        for name, (slots, rate) in ({} if pools else built_in(2)).items():
            self.data.pool.rows[name] = PoolRow(name, slots, 0, *(*rate, float(rate[2])) if rate else ())

    async def now(self) -> Instant:
        return self.time()

    def transaction(self, fence: Fence) -> MemoryTransaction:
        return MemoryTransaction(self.data, fence)

    def changing(self) -> ControlTransaction:
        return ControlTransaction(self.data)

    async def next_due(self) -> Instant | None:
        return self.data.earliest(self.data.due)

    async def next_wake(self) -> Instant | None:
        data = self.data
        found = (data.earliest(data.wake), data.earliest(data.expiry), data.earliest(data.queue_due))
        return min((at for at in found if at is not None), default=None)

    async def next_term(self) -> Instant | None:
        return self.data.earliest(self.data.terms)

    async def inbox_waits(self) -> bool:
        return bool(self.data.inbox.rows)

    async def next_deadline(self) -> Instant | None:
        return self.data.earliest(self.data.deadlines)

    async def open_attempts(self, attempts: Collection[AttemptKey]) -> Sequence[OpenAttempt]:
        return [self._open(key) for key in attempts if key in self.data.open]

    async def stop_requests(self, fence: Fence) -> Sequence[OpenAttempt]:
        data = self.data
        if not data.stops:
            return []
        mine = data.open_of.get(fence.instance_id, {})
        return [self._open(key) for key in sorted(mine) if key.run in data.stops]

    async def held_attempts(self, fence: Fence, before: Instant) -> Sequence[AttemptKey]:
        mine, rows = self.data.open_of.get(fence.instance_id, {}), self.data.attempt.rows
        return [key for key in sorted(mine) if rows[key].epoch == fence.epoch and rows[key].created_at < before]

    async def asked_to_pause(self) -> Sequence[Pausing]:
        data = self.data
        rows = [(data.schedule.rows[number], reason) for number, reason in sorted(data.pausing.rows.items())]
        return [
            Pausing(
                schedule=row.id,
                namespace=row.name.partition("/")[0],
                name=row.name.partition("/")[2],
                reason=reason,
            )
            for row, reason in rows
        ]

    def _open(self, key: AttemptKey) -> OpenAttempt:
        return open_attempt(self.data, self.data.run.rows[key.run], self.data.attempt.rows[key])
