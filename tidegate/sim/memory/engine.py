"""Transactions of the engine: fenced, and with what several parts do to a run (finish it, release, wake others)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from tidegate.domain.admission import rank
from tidegate.domain.collected import Deadline
from tidegate.domain.errors import Fenced
from tidegate.domain.evidence import returned
from tidegate.domain.fires import after_finish_due
from tidegate.domain.ids import Fence, RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.runs import State
from tidegate.domain.trees import tree_of
from tidegate.domain.triggers import AfterFinish, Elapsed, Since, collects
from tidegate.sim.memory.data import Data
from tidegate.sim.memory.event_rows import DeadlineRow, Place
from tidegate.sim.memory.loans import room
from tidegate.sim.memory.queues import POOL, QueueTransaction, is_counter
from tidegate.sim.memory.rows import CounterRow, RunRow, StatsRow

END_EVENTS = {state: f"run.{state}" for state in State}


class RunTransaction(QueueTransaction):
    """What engine and control both do to runs. Locks are taken in the one order: docs/explanation/locks.md."""

    __slots__ = ("queued", "readings", "released")

    def __init__(self, data: Data) -> None:
        super().__init__(data)
        self.readings: dict[int, list[Place]] = {}  # how far each tree was read (`collect`)
        self.released: dict[str, None] = {}  # keys (counters, `pool:NAME`) whose queue must be looked at
        self.queued: dict[str, None] = {}  # keys under which this transaction itself made runs wait

    async def lock_all(self, table_name: str, keys: Iterable[object]) -> None:
        table = getattr(self.data, table_name)
        for key in sorted(set(keys)):  # type: ignore[type-var]
            if not self.try_lock(table, key):
                await self.lock(table, key)

    async def lock_holdings(self, runs: Sequence[RunRow]) -> None:
        """Lock the counters and pools that these runs hold or wait for, in order."""
        await self.lock_all("counter", [key for run in runs for key in run.held])
        await self.lock_all("pool", [run.pool for run in runs if run.slot_held])

    async def lock_clocks_of(self, runs: Iterable[RunKey]) -> None:
        """Lock the clocks that the end of these runs concerns: those that begin to count then, and those of trees."""
        table, schedules = self.data.clock, {key.schedule_id for key in runs}
        left = schedules
        while left:  # a schedule may become such a one while another's clock is awaited
            left = {one for one in left if self._ends_matter(one) and table.locks.get(one) is not self}
            await self.lock_all("clock", left)
            left = schedules if left else set()

    def _ends_matter(self, schedule: int) -> bool:
        row = self.get(self.data.schedule, schedule)
        if row is None:
            return False
        trigger = row.newest.revision.spec.trigger
        return isinstance(trigger, AfterFinish) or collects(trigger)

    def give_back(self, run: RunRow, *, counters: bool) -> None:
        """Return the slot of this (own, locked) run and, when it ends, its counters."""
        data = self.data
        if run.slot_held:
            pool = self.get(data.pool, run.pool)
            if pool is not None:
                self.edit(data.pool, pool.name).used -= 1
                self.released[POOL + pool.name] = None
            run.slot_held = False
        if counters and run.held:
            for key in run.held:
                self.count(key, -1)
                self.released[key] = None
            run.held = ()

    def count(self, key: str, change: int) -> None:
        data = self.data
        row = self.get(data.counter, key) or CounterRow(key)
        self.put(data.counter, key, row._replace(held=row.held + change))

    def finish(self, run: RunRow, outcome: State, reason: str, now: Instant, finished_at: Instant) -> None:
        """End this (own, locked) run; what it held must be locked."""
        if run.started_at is None and run.held:
            self.never_started(run, now)
        self.give_back(run, counters=True)
        if run.wake_key is not None:
            self.released[run.wake_key] = None
        run.state = outcome
        run.reason = reason
        run.finished_at = finished_at
        run.wake_at = run.wake_key = run.wake_limit = None
        run.deadline_at = None
        run.waiting_for = ()
        self.tell(now, END_EVENTS[outcome], run.key)
        if self.get(self.data.progress, run.key.schedule_id) is not None:
            self._end_of_tree(run, finished_at)

    def _end_of_tree(self, run: RunRow, finished_at: Instant) -> None:
        """A run of a schedule that collects ended (its clock is locked): input that no program saw is owed again, and
        `elapsed since last_run` begins to count."""
        data, schedule = self.data, run.key.schedule_id
        progress = self.edit(data.progress, schedule)
        progress.last_end = max(finished_at, progress.last_end or 0)
        if run.started_at is not None:
            progress.last_start = max(run.started_at, progress.last_start or 0)
        elif run.moved:
            for dataset, given in (run.inputs or {}).items():
                owed = self.get(data.owed, (schedule, dataset))
                if owed is not None and (before := returned(owed, given)) is not None:
                    self.put(data.owed, (schedule, dataset), before)
        row = self.get(data.schedule, schedule)
        assert row is not None
        base = max(progress.enabled_at, progress.last_start or 0, progress.progress.fired_at or 0)
        found = [
            Deadline(at=max(finished_at, base + leaf.after), node=node)
            for node, leaf in enumerate(tree_of(row.newest.revision.spec.trigger).nodes)
            if isinstance(leaf, Elapsed) and leaf.since is Since.LAST_RUN
        ]
        if found:
            there = self.get(data.deadline, schedule)
            self.set_deadlines(schedule, (*found, *(there.deadlines if there else ())))
            self.topics["events"] = None

    def set_deadlines(self, schedule: int, deadlines: Iterable[Deadline]) -> None:
        order = tuple(sorted(deadlines, key=lambda one: (one.at, one.node)))
        self.put(self.data.deadline, schedule, DeadlineRow(schedule, order))

    async def stats_of(self, schedule: int) -> StatsRow:
        table = self.data.stats
        if not self.try_lock(table, schedule):
            await self.lock(table, schedule)
        return self.locked_stats(schedule)

    def locked_stats(self, schedule: int) -> StatsRow:
        table = self.data.stats
        if self.get(table, schedule) is None:
            self.put(table, schedule, StatsRow(ScheduleId(schedule)))
        return self.edit(table, schedule)

    def set_next_after_finish(self, schedule: int, finished_at: Instant) -> None:
        """A run of an after_finish schedule ended: its (locked) clock starts to count.

        Ends are recorded late and in any order, so it counts from the latest known, and never from before its cursor.
        """
        clock = self.get(self.data.clock, schedule)
        row = self.get(self.data.schedule, schedule)
        if clock is None or row is None or not clock.mode.works or row.deleted_at is not None:
            return
        trigger = row.newest.revision.spec.trigger
        if isinstance(trigger, AfterFinish) and clock.next_due is None and not self._others_live(schedule):
            stats = self.get(self.data.stats, schedule)
            ended = max(finished_at, clock.cursor + 1, (stats.last_finish or 0) if stats else 0)
            due = after_finish_due(trigger, ended, name=row.name)
            if due is not None:
                self.edit(self.data.clock, schedule).next_due = due
                self.topics["clock"] = None

    def _others_live(self, schedule: int) -> bool:
        runs = self.data.live_of.get(schedule, {})
        return any((run := self.get(self.data.run, key)) is not None and run.live for key in runs)

    # waking
    def wake_released(self, now: Instant) -> None:
        """Where something is free, let the next waiting runs be judged: as many as fit, those woken before included.

        Runs locked by others are being judged at this moment, and will lock the counters after us.
        """
        lent = {key.removeprefix(POOL) for key in self.released if key.startswith(POOL)}
        borrowers = [name for name, row in self.data.pool.rows.items() if row.borrow and row.borrow[0] in lent]
        for key in [*self.released, *(POOL + name for name in sorted(borrowers) if name not in lent)]:
            if key not in self.data.queues and key not in self.queued:
                continue
            if key.startswith(POOL):
                self._wake_pool(key, now)
            elif is_counter(key):
                self._wake_counter(key, now)
        self.released = {}

    def _wake_pool(self, key: str, now: Instant) -> None:
        own = self.own[self.data.run.number] or {}
        free = room(key.removeprefix(POOL), self.data, self.get, own, lambda other: len(self.queue_of(other)))
        if free > 0:
            for run in self.queue_of(key):
                if self._in_turn(run):
                    free -= self._wake(run, now)
                    if free <= 0:
                        break

    def _in_turn(self, key: RunKey) -> bool:
        run = self.get(self.data.run, key)
        return run is None or run.in_turn

    def _wake_counter(self, key: str, now: Instant) -> None:
        row = self.get(self.data.counter, key)
        held = row.held if row else 0
        for run in self.queue_of(key):
            waiting = self.get(self.data.run, run)
            limit = None if waiting is None else waiting.wake_limit
            if limit is None or held < limit:
                self._wake(run, now)
                held += 1
            elif key.startswith("s"):
                break  # one schedule, one limit: nobody behind may pass either

    def queue_of(self, key: str) -> list[RunKey]:
        """Waiting runs under a key as this transaction sees them, in their order."""
        queue = self.data.queues.get(key)
        found = list(queue.keys) if queue is not None else []
        own = self.own[self.data.run.number]
        if own:
            found = [item for item in found if item[1] not in own]
            found += [
                (rank(run.priority, run.created_at), run.key)
                for run in own.values()
                if run is not None and run.wake_key == key and run.state is State.WAITING
            ]
            found.sort()
        return [run for _, run in found]

    def _wake(self, key: RunKey, now: Instant) -> bool:
        """Whether it is awake; not where somebody else has it locked."""
        table = self.data.run
        if not self.try_lock(table, key):
            return False
        run = self.get(table, key)
        assert run is not None
        if run.wake_at is None or run.wake_at > now:
            self.edit(table, key).wake_at = now
            self.topics["admit"] = None
        return True


class EngineTransaction(RunTransaction):
    """A transaction under a fence: shares the instance row, so that a takeover waits for it or comes before it."""

    __slots__ = ("fence",)

    def __init__(self, data: Data, fence: Fence) -> None:
        super().__init__(data)
        self.fence = fence

    async def __aenter__(self) -> Self:
        check_fence(self.data, self.fence)
        sharers = self.data.sharers.get(self.fence.instance_id)
        if sharers is None:
            sharers = self.data.sharers[self.fence.instance_id] = {}
        sharers[self] = None
        self.shared.append(sharers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            try:
                if self.unwritten:
                    await self.flush()
                self.commit()
            finally:
                self.release()
        else:
            self.release()


def check_fence(data: Data, fence: Fence) -> None:
    """Raises Fenced when this instance was declared dead, or has left."""
    row = data.instance.rows.get(fence.instance_id)
    if row is None or row.epoch != fence.epoch or row.ended_at is not None:
        raise Fenced(
            f"instance {fence.instance_id} was declared dead while it was away.", remedy="It must register again."
        )
