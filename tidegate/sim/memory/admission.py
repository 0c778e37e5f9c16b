"""The admitter's transaction: waiting runs, locked counters and pools, and the verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, assert_never

from tidegate.domain.admission import SUSPENDED_MODES, Admit, Candidate, Discard, Hold, rank
from tidegate.domain.constraints import AdmissionFacts, Needs
from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import Duration, Instant
from tidegate.domain.runs import State
from tidegate.domain.schedules import Waiting
from tidegate.domain.triggers import AfterFinish, collects
from tidegate.domain.waiting import policy_under
from tidegate.sim.memory.data import Data
from tidegate.sim.memory.engine import EngineTransaction
from tidegate.sim.memory.loans import loans_of, queued_of
from tidegate.sim.memory.queues import POOL, heads, is_counter
from tidegate.sim.memory.rows import DecisionRow, RunRow
from tidegate.sim.memory.time import program_of


class AdmitterTransaction(EngineTransaction):
    __slots__ = ()

    async def claim_waiting(self, now: Instant, limit: int) -> Sequence[Candidate]:
        self.check()
        data = self.data
        self._wake_heads(now, limit)
        found: list[Candidate] = []
        for _, key in self._judgeable(now):
            if len(found) >= limit:
                break
            if not self._claims_clock(key.schedule_id):
                continue
            if self.try_lock(data.run, key):
                run = self.get(data.run, key)
                if run is not None and run.state is State.WAITING:
                    found.append(self._candidate(run))
                    data.looked.setdefault(key, []).append(data.time())
        return found

    def _wake_heads(self, now: Instant, batch: int) -> None:
        """Wake the first of every queue whose instant has come."""
        for key, runs in heads(self.data, now, batch).items():
            self.turn(key, now).claimed = True
            for run in runs:
                self._wake(run, now)

    def _claims_clock(self, schedule: ScheduleId) -> bool:
        """Where what becomes of a waiting run concerns its schedule's clock, who judges it has claimed that first. So
        has who judges one that is suspended: who ends the suspension finds it in its queue."""
        data = self.data
        row = self.get(data.schedule, schedule)
        assert row is not None
        newest = row.newest.revision
        trigger = newest.spec.trigger
        free = (
            policy_under(newest).runs is Waiting.ALL
            and newest.mode not in SUSPENDED_MODES
            and not collects(trigger)
            and type(trigger) is not AfterFinish
        )
        return free or self.try_lock(data.clock, schedule)

    def _judgeable(self, now: Instant) -> list[tuple[int, RunKey]]:
        """(rank, key) of waiting runs whose wake or expiry has come, as this transaction sees them."""
        data = self.data
        found: dict[RunKey, RunRow] = {}
        for index in (data.wake, data.expiry):
            for at, key in index:
                if at > now:
                    break
                found[key] = data.run.rows[key]
        for key, run in (self.own[data.run.number] or {}).items():
            found.pop(key, None)
            if run is not None and run.state is State.WAITING:
                wakes = run.wake_at is not None and run.wake_at <= now
                if wakes or (run.expires_at is not None and run.expires_at <= now and not run.overdue):
                    found[key] = run
        return sorted((rank(run.priority, run.created_at), key) for key, run in found.items())

    def _candidate(self, run: RunRow) -> Candidate:
        data = self.data
        schedule = self.get(data.schedule, run.key.schedule_id)
        clock = self.get(data.clock, run.key.schedule_id)
        assert schedule is not None and clock is not None
        return Candidate(
            key=run.key,
            spec=schedule.newest.revision.spec,
            program=program_of(self, clock),
            priority=run.priority,
            created_at=run.created_at,
            expires_at=run.expires_at,
            attempts=run.attempts,
            held=run.held,
            given=run.given,
            mode=schedule.newest.revision.mode,
            held_expires=schedule.newest.revision.held_expires,
            deleted=schedule.deleted_at is not None,
            cause=run.cause,
            closed=run.inputs is not None or run.attempts > 0,
            fire_time=run.fire_time,
            previous_fire=run.previous_fire,
            caused_by=run.caused_by,
            rendered=run.arguments,
            queued=run.wake_key,
            in_turn=run.in_turn,
            crash=run.crash,
        )

    async def oldest_scheduler(self, now: Instant, patience: Duration) -> Instant:
        self.check()
        data = self.data
        rows = [data.instance.rows[number] for number in data.here if number in data.sessions]
        alive = [row for row in rows if row.role in ("scheduler", "all") and row.heartbeat >= now - patience]
        return min(row.up_since for row in (*alive, data.instance.rows[self.fence.instance_id]))

    async def admission_facts(self, needs: Needs, now: Instant) -> AdmissionFacts:
        self.check()
        data = self.data
        await self.lock_all("counter", needs.counters)
        rows = [self.get(data.pool, name) for name in needs.pools]
        await self.lock_all("pool", {*needs.pools, *(row.borrow[0] for row in rows if row is not None and row.borrow)})
        await self.share(data.frozen, "")
        for name in sorted(needs.calendars):
            await self.share(data.calendar, name)
        self.released.update(dict.fromkeys(sorted(needs.counters)))
        for counter, (_, back) in needs.starts.items():
            self.keep_starts(counter, back, now)
        facts = read_facts(self.get, data, needs, now)
        loans = loans_of(needs.pools, data, self.get, self.own[data.run.number] or {})
        facts = replace(facts, loans=loans, queued=queued_of(loans, lambda key: len(self.queue_of(key))))
        self.released.update({f"{POOL}{name}": None for name in facts.free})
        starts = {key: self.read_starts(key, many, back, now) for key, (many, back) in needs.starts.items()}
        return replace(facts, starts=starts)

    async def settle(self, verdicts: Sequence[Admit | Hold | Discard], now: Instant) -> None:
        self.check()
        data = self.data
        await self.lock_clocks_of([one.key for one in verdicts if isinstance(one, Discard)])
        leaving = [data.run.rows.get(verdict.key) for verdict in verdicts if isinstance(verdict, Discard)]
        holding = [run for run in leaving if run is not None and (run.held or run.slot_held)]
        if holding:
            await self.lock_holdings(holding)
        for verdict in verdicts:
            run = self.edit(data.run, verdict.key)
            if run.wake_key is not None:
                self.released[run.wake_key] = None
            self._note(run, verdict, now)
            match verdict:
                case Admit():
                    self._admit(run, verdict, now)
                case Hold():
                    self._hold(run, verdict, now)
                case Discard():
                    began = run.started_at is not None
                    self.finish(run, verdict.outcome, verdict.reason, now, now)
                    self.set_next_after_finish(run.key.schedule_id, now)
                    if began:
                        await self._count_run(run.key)
                case _:
                    assert_never(verdict)
        self.wake_released(now)

    def _hold(self, run: RunRow, verdict: Hold, now: Instant) -> None:
        """It waits at an instant of its own, or in a queue."""
        key = verdict.wake_key
        run.wake_at, run.wake_key = (verdict.until if key is None else None), key
        run.wake_limit, run.waiting_for, run.in_turn = verdict.limit, verdict.waiting_for, True
        run.overdue = run.expires_at is not None and run.expires_at <= now
        if run.crash is not None and run.crash.restart_at is None:
            run.crash = replace(run.crash, restart_at=verdict.restart_at)
        if key is None:
            return
        self.queued[key] = None
        if key.startswith(POOL):
            self.released[key] = None  # it may have left a free slot to others
        elif not is_counter(key):
            self.held_until(key, verdict.until, now)

    def _admit(self, run: RunRow, verdict: Admit, now: Instant) -> None:
        data = self.data
        for key in verdict.take:
            self.count(key, 1)
        if verdict.take:
            run.held = run.held + verdict.take
            self.admitted(run, verdict.take)
        run.pool = verdict.pool
        run.borrower = verdict.program.pool if verdict.lender else None
        pool = self.get(data.pool, run.pool)
        if pool is not None:
            self.edit(data.pool, pool.name).used += 1
            run.slot_held = True
        schedule = self.get(data.schedule, run.key.schedule_id)
        assert schedule is not None
        run.rev = schedule.newest.revision.rev
        run.program = verdict.program
        run.arguments = verdict.arguments
        run.window_end = verdict.stop_by
        run.state = State.READY
        run.ready_at = now
        run.wake_at = run.wake_key = run.wake_limit = run.expires_at = None
        run.overdue = False
        run.waiting_for = ()
        self.tell(now, "run.ready", run.key)
        self.topics["ready"] = None

    def _note(self, run: RunRow, verdict: Admit | Hold | Discard, now: Instant) -> None:
        """For the laws of the simulator."""
        schedule = self.get(self.data.schedule, run.key.schedule_id)
        assert schedule is not None
        what = "admit" if isinstance(verdict, Admit) else "hold" if isinstance(verdict, Hold) else verdict.outcome.value
        self.append(
            self.data.decisions,
            DecisionRow(
                now=now,
                run=run.key,
                what=what,
                wake_key=verdict.wake_key if isinstance(verdict, Hold) else None,
                rev=schedule.newest.revision.rev,
                late=run.expires_at is not None and run.expires_at <= now,
                attempts=run.attempts,
                counters=verdict.take if isinstance(verdict, Admit) else (),
                pool=verdict.pool if isinstance(verdict, Admit) else "",
                borrower=verdict.program.pool if isinstance(verdict, Admit) and verdict.lender else None,
                crashed=run.crash is not None,
                restart_at=verdict.restart_at if isinstance(verdict, Hold) else None,
                written=self.data.time(),
            ),
        )

    async def _count_run(self, key: RunKey) -> None:
        (await self.stats_of(key.schedule_id)).total_runs += 1


def read_facts(get: Callable[[Any, Any], Any], data: Data, needs: Needs, now: Instant) -> AdmissionFacts:
    """Everything but starts, as `get` sees it."""
    counters = {key: row.held for key in sorted(needs.counters) if (row := get(data.counter, key)) is not None}
    pools = {name: row for name in sorted(needs.pools) if (row := get(data.pool, name)) is not None}
    lenders = sorted({row.borrow[0] for row in pools.values() if row.borrow})
    pools |= {name: row for name in lenders if (row := get(data.pool, name)) is not None}
    calendars = {name: row.calendar for name in needs.calendars if (row := get(data.calendar, name)) is not None}
    frozen = get(data.frozen, "")
    first = {name: _first(get, data, f"{POOL}{name}", now) for name in pools}
    return AdmissionFacts(
        held=counters,
        free={name: row.slots - row.used for name, row in pools.items()},
        slots={name: row.slots for name, row in pools.items()},
        first={name: rank for name, rank in first.items() if rank is not None},
        gauges={name: row.gauge for name in needs.resources if (row := get(data.gauge, name)) is not None},
        calendars=calendars,
        frozen=None if frozen is None else frozen.reason,
    )


def _first(get: Callable[[Any, Any], Any], data: Data, key: str, now: Instant) -> int | None:
    """The rank of the first in a queue whom nobody has woken."""
    for rank_, found in data.queues.get(key, ()):
        run: RunRow | None = get(data.run, found)
        if run is not None and run.wake_key == key and (run.wake_at is None or run.wake_at > now):
            return rank_
    return None
