"""The admitter's transaction: waiting runs, locked counters and pools, and the verdicts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import assert_never

from tidegate.domain.admission import AdmissionFacts, Admit, Candidate, Discard, Hold
from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.runs import State
from tidegate.domain.schedules import Waiting
from tidegate.domain.triggers import AfterFinish, collects
from tidegate.sim.memory.engine import POOL, EngineTransaction
from tidegate.sim.memory.rows import RunRow
from tidegate.sim.memory.time import program_of


class AdmitterTransaction(EngineTransaction):
    __slots__ = ()

    async def claim_waiting(self, now: Instant, limit: int) -> Sequence[Candidate]:
        self.check()
        data = self.data
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
        return found

    def _claims_clock(self, schedule: ScheduleId) -> bool:
        """Where what becomes of a waiting run concerns its schedule's clock, who judges it has claimed that first."""
        data = self.data
        row = self.get(data.schedule, schedule)
        assert row is not None
        spec = row.newest.revision.spec
        free = spec.waiting.runs is Waiting.ALL and not collects(spec.trigger) and type(spec.trigger) is not AfterFinish
        return free or self.try_lock(data.clock, schedule)

    def _judgeable(self, now: Instant) -> list[tuple[Instant, RunKey]]:
        """(order, key) of committed waiting runs whose wake or expiry has come; those this transaction has touched
        are looked at through it."""
        data = self.data
        found: dict[RunKey, Instant] = {}
        for at, key in data.wake.keys:
            if at > now:
                break
            found[key] = at
        expired = False
        for at, key in data.expiry.keys:
            if at > now:
                break
            if key not in found:
                row = data.run.rows[key]
                found[key] = row.wake_at if row.wake_at is not None else (1 << 62)
                expired = True
        own = self.own[data.run.number]
        if own:
            for key, run in own.items():
                found.pop(key, None)
                if run is not None and run.state is State.WAITING:
                    wakes = run.wake_at is not None and run.wake_at <= now
                    if wakes or (run.expires_at is not None and run.expires_at <= now):
                        found[key] = run.wake_at if run.wake_at is not None else (1 << 62)
        pairs = [(at, key) for key, at in found.items()]
        if own or expired:
            pairs.sort()
        return pairs

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
            deleted=schedule.deleted_at is not None,
            cause=run.cause,
            closed=run.inputs is not None or run.attempts > 0,
            fire_time=run.fire_time,
            previous_fire=run.previous_fire,
            caused_by=run.caused_by,
            rendered=run.arguments,
        )

    async def admission_facts(self, counters: Collection[str], pools: Collection[str]) -> AdmissionFacts:
        self.check()
        data = self.data
        await self.lock_all("counter", counters)
        await self.lock_all("pool", pools)
        held, free = {}, {}
        for key in counters:
            row = self.get(data.counter, key)
            if row is not None:
                held[key] = row.held
            self.released[key] = None
        for name in pools:
            pool = self.get(data.pool, name)
            if pool is not None:
                free[name] = pool.slots - pool.used
                self.released[POOL + name] = None
        return AdmissionFacts(held=held, free=free)

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
            match verdict:
                case Admit():
                    self._admit(run, verdict, now)
                case Hold():
                    run.wake_at, run.wake_key = verdict.until, verdict.wake_key
                    run.waiting_for = verdict.waiting_for
                    if run.expires_at is not None and run.expires_at <= now:
                        run.expires_at = None  # judged past it, and kept: it no longer expires
                    if verdict.wake_key is not None:
                        self.queued[verdict.wake_key] = None
                case Discard():
                    began = run.started_at is not None
                    self.finish(run, verdict.outcome, verdict.reason, now, now)
                    self.set_next_after_finish(run.key.schedule_id, now)
                    if began:
                        await self._count_run(run.key)
                case _:
                    assert_never(verdict)
        self.wake_released(now)

    def _admit(self, run: RunRow, verdict: Admit, now: Instant) -> None:
        data = self.data
        for key in verdict.take:
            self.count(key, 1)
        if verdict.take:
            run.held = run.held + verdict.take
        run.pool = verdict.program.pool
        pool = self.get(data.pool, run.pool)
        if pool is not None:
            self.edit(data.pool, pool.name).used += 1
            run.slot_held = True
        schedule = self.get(data.schedule, run.key.schedule_id)
        assert schedule is not None
        run.rev = schedule.newest.revision.rev
        run.program = verdict.program
        run.arguments = verdict.arguments
        run.state = State.READY
        run.ready_at = now
        run.wake_at = run.wake_key = run.expires_at = None
        run.waiting_for = ()
        self.tell(now, "run.ready", run.key)
        self.topics["ready"] = None

    async def _count_run(self, key: RunKey) -> None:
        (await self.stats_of(key.schedule_id)).total_runs += 1
