"""The control transaction: declarations and what people ask of runs. Unfenced, since people own no duties."""

from __future__ import annotations

from dataclasses import replace
from types import TracebackType

from tidegate.domain.errors import NotFound
from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.runs import Cause, State
from tidegate.domain.schedules import JsonObject
from tidegate.domain.waiting import policy_under
from tidegate.ports.records import Change
from tidegate.sim.memory.backfills import BackfillRequests
from tidegate.sim.memory.collect import CollectingTransaction
from tidegate.sim.memory.declare import Declarations
from tidegate.sim.memory.lake import DatasetsTransaction
from tidegate.sim.memory.lake_tables import TablesTransaction
from tidegate.sim.memory.rows import Answer
from tidegate.sim.memory.sinks import SinksTransaction
from tidegate.sim.memory.sources import SourcesTransaction


class ControlTransaction(
    Declarations,
    DatasetsTransaction,
    SinksTransaction,
    SourcesTransaction,
    TablesTransaction,
    CollectingTransaction,
    BackfillRequests,
):
    """The whole of `ports.control.ControlTx`."""

    __slots__ = ()

    async def settle_pause(self, schedule: ScheduleId) -> None:
        self.check()
        await self.lock(self.data.pausing, schedule)
        if self.get(self.data.pausing, schedule) is not None:
            self.delete(self.data.pausing, schedule)

    async def clear_streak(self, schedule: ScheduleId) -> None:
        self.check()
        stats = await self.stats_of(schedule)
        stats.consecutive_failures = stats.consecutive_crashes = 0

    async def __aenter__(self) -> ControlTransaction:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.release()
            return
        try:
            if self.unwritten:
                await self.flush()
            self.commit()
        finally:
            self.release()
        for topic in self.topics:
            self.database.notify(topic)

    async def now(self) -> Instant:
        self.check()
        return self.data.time()

    async def end_waiting(self, schedule: ScheduleId, outcome: State, reason: str, now: Instant) -> int:
        self.check()
        data = self.data
        keys = [
            key
            for key in sorted(data.live_of.get(schedule, {}))
            if data.run.rows[key].state in (State.WAITING, State.READY)
        ]
        own = self.own[data.run.number] or {}
        keys = sorted({*keys, *(key for key in own if key.schedule_id == schedule)})
        await self.lock_clocks_of(keys)
        await self.lock_all("run", keys)
        runs = [run for run in (self.get(data.run, key) for key in keys) if run is not None]
        runs = [run for run in runs if run.state in (State.WAITING, State.READY)]
        await self.lock_holdings(runs)
        for run in runs:
            self.finish(self.edit(data.run, run.key), outcome, reason, now, now)
            if run.started_at is not None:
                (await self.stats_of(schedule)).total_runs += 1
        if runs:
            self.set_next_after_finish(schedule, now)
        self.wake_released(now)
        return len(runs)

    async def add_run(
        self,
        schedule: ScheduleId,
        *,
        cause: Cause,
        caused_by: str,
        fire_time: Instant | None,
        previous_fire: Instant | None,
        given: JsonObject | None,
        priority: int,
        now: Instant,
        like: RunKey | None = None,
    ) -> RunKey:
        self.check()
        data = self.data
        await self.lock(data.clock, schedule)
        run = await self.new_run(schedule, cause, caused_by, fire_time, previous_fire, now)
        run.given, run.priority = given, priority
        old = self.get(data.run, like) if like is not None else None
        if old is not None:
            run.evidence, run.inputs = old.evidence, old.inputs
        row = self.get(data.schedule, schedule)
        assert row is not None
        await self.make_room(run, policy_under(row.newest.revision), now)
        await self.wake_others(now)
        return run.key

    async def request_stop(self, run: RunKey, by: str, now: Instant) -> State:
        self.check()
        data = self.data
        if self.get(data.run, run) is None:
            raise NotFound(f"there is no run {run}.", remedy="See `tidegate runs`.")
        await self.lock_clocks_of([run])
        await self.lock(data.run, run)
        row = self.get(data.run, run)
        assert row is not None
        if not row.live:
            return row.state
        row = self.edit(data.run, run)
        if row.state in (State.WAITING, State.READY):
            await self.lock_holdings([row])
            self.finish(row, State.CANCELLED, f"cancelled by {by}", now, now)
            self.set_next_after_finish(run.schedule_id, now)
            if row.started_at is not None:
                (await self.stats_of(run.schedule_id)).total_runs += 1
            self.wake_released(now)
        else:
            row.state = State.STOPPING
            if row.stop != "cancel":
                row.stop, row.stop_by, row.stop_at = "cancel", by, now
                self.tell(now, "run.stopping", run)
            self.topics["stop"] = None
        return row.state

    async def remember(self, key: str, request: str, notes: JsonObject, now: Instant) -> bool:
        self.check()
        await self.lock(self.data.idempotency, key)
        if self.get(self.data.idempotency, key) is not None:
            return False
        self.put(self.data.idempotency, key, Answer(request, 0, notes, now))
        return True

    async def record_change(self, change: Change, now: Instant) -> None:
        self.check()
        self.data.change_ids += 1
        self.append(self.data.changes, replace(change, at=now, id=self.data.change_ids))
