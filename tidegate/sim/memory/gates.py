"""What people change about gates, in memory: calendars, the freeze, and runs that a suspension held."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tidegate.domain.admission import SUSPENDED_MODES, AdmissionFacts
from tidegate.domain.calendars import Calendar
from tidegate.domain.constraints import FREEZE, LOAD, Gauge, Needs
from tidegate.domain.ids import Fence, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.runs import Cause, State
from tidegate.domain.schedules import JsonObject, Revision
from tidegate.ports.records import Freeze
from tidegate.sim.memory.admission import read_facts
from tidegate.sim.memory.data import Data
from tidegate.sim.memory.engine import EngineTransaction
from tidegate.sim.memory.loans import loans_of, queued_of
from tidegate.sim.memory.queues import starts_now
from tidegate.sim.memory.rows import CalendarRow, GaugeRow, RunRow, Written
from tidegate.sim.memory.waiting import WaitingTransaction


class GatesTransaction(WaitingTransaction):
    """Calendars and the freeze are changed alone: whoever judges runs by them shares them until its commit."""

    __slots__ = ()

    async def put_calendar(self, calendar: Calendar, document: JsonObject, now: Instant) -> bool:
        self.check()
        await self.lock_alone(self.data.calendar, calendar.name)
        new = self.get(self.data.calendar, calendar.name) is None
        self.put(self.data.calendar, calendar.name, CalendarRow(calendar, document))
        self.look_at(f"calendar:{calendar.name}", now)
        return new

    async def delete_calendar(self, name: str, now: Instant) -> bool:
        self.check()
        await self.lock_alone(self.data.calendar, name)
        if self.get(self.data.calendar, name) is None:
            return False
        self.delete(self.data.calendar, name)
        self.look_at(f"calendar:{name}", now)  # that it is missing is what they wait for now
        return True

    async def freeze(self, who: str, reason: str, now: Instant) -> bool:
        self.check()
        await self.lock_alone(self.data.frozen, "")
        if self.get(self.data.frozen, "") is not None:
            return False
        self.put(self.data.frozen, "", Freeze(who=who, since=now, reason=reason))
        return True

    async def unfreeze(self, now: Instant) -> bool:
        self.check()
        await self.lock_alone(self.data.frozen, "")
        if self.get(self.data.frozen, "") is None:
            return False
        self.delete(self.data.frozen, "")
        self.look_at(FREEZE, now)
        return True

    async def _waiting_of(self, schedule: ScheduleId) -> list[RunRow]:
        """Its waiting runs, locked: who is judging one by the revision before comes first."""
        data = self.data
        keys = [key for key in data.live_of.get(schedule, {}) if data.run.rows[key].state is State.WAITING]
        await self.lock_all("run", keys)
        runs = [self.get(data.run, key) for key in sorted(keys)]
        return [run for run in runs if run is not None and run.state is State.WAITING]

    async def move_expiries(self, schedule: ScheduleId, since: Instant, until: Instant) -> None:
        """A suspension ends that held its runs: their waiting time stood still meanwhile."""
        for run in await self._waiting_of(schedule):
            if is_spared(run) and run.expires_at is not None:
                run = self.edit(self.data.run, run.key)
                run.expires_at = (run.expires_at or 0) + max(0, until - max(since, run.created_at))
                run.overdue = False

    async def judge_again(self, schedule: ScheduleId, now: Instant) -> None:
        """A revision was added: its runs that wait for something may go by now."""
        held = f"resume:{schedule}"
        for run in await self._waiting_of(schedule):
            asleep = run.wake_at is None or run.wake_at > now
            if asleep and run.wake_key != held and (run.wake_key is not None or run.attempts == 0):
                run = self.edit(self.data.run, run.key)
                run.wake_at, run.in_turn = now, False
                self.topics["admit"] = None
        if held in self.data.queues:
            self.look_at(held, now)


def is_spared(run: RunRow) -> bool:
    """Whether a suspension held it."""
    return run.cause is not Cause.MANUAL and run.attempts == 0


def spares(revision: Revision) -> bool:
    """Whether runs do not expire under it."""
    return revision.mode in SUSPENDED_MODES and not revision.held_expires


def suspended_since(revisions: Sequence[Written]) -> Instant | None:
    """Since when the newest revision and those before it spare what they hold."""
    since = None
    for written in reversed(revisions):
        if not spares(written.revision):
            break
        since = written.revision.valid_from
    return since


class GatesReading:
    """`ports.probing.ProberStore`, and what people see of gates."""

    data: Data
    time: Callable[[], Instant]

    async def calendars(self) -> Sequence[tuple[Calendar, JsonObject]]:
        return [row for _, row in sorted(self.data.calendar.rows.items())]

    async def frozen(self) -> Freeze | None:
        return self.data.frozen.rows.get("")

    async def admission_facts(self, needs: Needs) -> AdmissionFacts:
        now = self.time()
        facts = read_facts(lambda table, key: table.rows.get(key), self.data, needs, now)
        loans = loans_of(needs.pools, self.data, lambda table, key: table.rows.get(key), {})
        queued = queued_of(loans, lambda key: len(self.data.queues.get(key, ())))
        return replace(facts, loans=loans, queued=queued, starts=starts_now(self.data, needs.starts, now))

    async def awaited(self) -> Sequence[str]:
        found = {key.removeprefix(LOAD).rpartition(":")[0] for key in self.data.queues if key.startswith(LOAD)}
        return sorted(found)

    async def record_gauge(self, fence: Fence, resource: str, gauge: Gauge, now: Instant) -> None:
        async with EngineTransaction(self.data, fence) as tx:
            await tx.lock(self.data.gauge, resource)
            tx.put(self.data.gauge, resource, GaugeRow(resource, gauge))
            tx.looks[f"{LOAD}{resource}:"] = now

    def queue_instants(self) -> Mapping[str, Instant]:
        """The instant of each queue that has one."""
        return {key: row.at for key, row in sorted(self.data.queue_wake.rows.items())}
