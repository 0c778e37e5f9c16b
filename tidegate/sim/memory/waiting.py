"""Several waiting runs of one schedule, in memory: they merge, replace each other, or are too many."""

from __future__ import annotations

from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.runs import MERGING, Cause, State
from tidegate.domain.schedules import WaitingPolicy
from tidegate.domain.waiting import crowded_out
from tidegate.sim.memory.engine import RunTransaction
from tidegate.sim.memory.queues import POOL, is_counter
from tidegate.sim.memory.rows import ClockRow, RunRow


class WaitingTransaction(RunTransaction):
    """The clock of the schedule is locked in every call."""

    __slots__ = ()

    def waiting_of(self, schedule: int) -> list[RunRow]:
        """Its waiting runs that never had an attempt, oldest first."""
        data = self.data
        keys = set(data.live_of.get(schedule, ()))
        keys |= {key for key in self.own[data.run.number] or {} if key.schedule_id == schedule}
        runs = [run for run in (self.get(data.run, key) for key in keys) if run is not None]
        found = [run for run in runs if run.state is State.WAITING and run.attempts == 0]
        return sorted(found, key=lambda run: (run.created_at, run.key))

    async def survivor(self, schedule: int) -> RunRow | None:
        """The waiting run that evidence and further fires join, locked."""
        while True:
            oldest = next((run for run in self.waiting_of(schedule) if run.cause in MERGING), None)
            if oldest is None or self.try_lock(self.data.run, oldest.key):
                return oldest
            await self.lock(self.data.run, oldest.key)

    async def new_run(
        self, schedule: int, cause: Cause, by: str, fire_time: Instant | None, previous: Instant | None, now: Instant
    ) -> RunRow:
        """A waiting run that is no clock fire: slot = now, ord = next of the clock."""
        data = self.data
        clock: ClockRow = self.edit(data.clock, schedule)
        clock.gen += 1
        row, program = self.get(data.schedule, schedule), self.get(data.program, clock.program_id)
        assert row is not None and program is not None
        spec = row.newest.revision.spec
        key = RunKey(now, ScheduleId(schedule), clock.gen)
        await self.lock(data.run, key)
        run = RunRow(key, clock.rev, program.ref, cause, by, fire_time, previous, spec.priority, now)
        if spec.waiting.timeout is not None:
            run.expires_at = now + spec.waiting.timeout
        self.put(data.run, key, run)
        self.tell(now, "run.waiting", key)
        self.topics["admit"] = None
        return run

    async def make_room(self, new: RunRow, policy: WaitingPolicy, now: Instant) -> None:
        """A run was added: those end that have to make room."""
        waiting = [(run.key, run.cause) for run in self.waiting_of(new.key.schedule_id)]
        for key, outcome, reason in crowded_out(policy, waiting):
            await self.lock(self.data.run, key)
            there = self.get(self.data.run, key)
            if there is not None and there.state is State.WAITING and there.attempts == 0:
                self.finish(self.edit(self.data.run, key), outcome, reason, now, now)

    async def wake_others(self, now: Instant) -> None:
        """What runs that ended had waited for may now be another's turn."""
        if self.released:
            await self.lock_all("counter", [key for key in self.released if is_counter(key)])
            await self.lock_all("pool", [key.removeprefix(POOL) for key in self.released if key.startswith(POOL)])
            self.wake_released(now)
