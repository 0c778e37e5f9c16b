"""Deadlines of live runs, in memory: when each is to be looked at, and what was told. See `ports.deadlines`."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.domain.deadlines import Telling, Watched, base, first_arrival, first_look
from tidegate.domain.instants import Instant
from tidegate.domain.schedules import ScheduleSpec
from tidegate.sim.memory.engine import EngineTransaction
from tidegate.sim.memory.rows import RunRow


def watch_deadline(run: RunRow, spec: ScheduleSpec, due: Instant) -> None:
    """Say when a new run is to be looked at, where its schedule declares a deadline."""
    if spec.deadline is not None:
        run.deadline_base = base(spec.deadline, due=due, first_arrival=first_arrival(run.evidence))
        run.deadline_at = first_look(spec.deadline, run.deadline_base)


class DeadlinesTransaction(EngineTransaction):
    """`ports.deadlines.DeadlinesTx`."""

    __slots__ = ()

    async def claim_terms(self, now: Instant, limit: int) -> Sequence[Watched]:
        self.check()
        data = self.data
        found: list[Watched] = []
        for at, key in list(data.terms):
            if at > now or len(found) >= limit:
                break
            if not self.try_lock(data.run, key):
                continue
            run, schedule = self.get(data.run, key), self.get(data.schedule, key.schedule_id)
            assert run is not None and schedule is not None
            deadline = schedule.newest.revision.spec.deadline
            if deadline is None or run.deadline_base is None:
                self.edit(data.run, key).deadline_at = None
                continue
            stats = self.get(data.stats, key.schedule_id)
            done = 0 if stats is None else stats.total_successes
            others = 0 if stats is None else stats.total_failures + stats.total_crashes + stats.total_timeouts
            found.append(
                Watched(
                    key=key,
                    namespace=schedule.metadata.namespace,
                    schedule=schedule.metadata.name,
                    deadline=deadline,
                    base=run.deadline_base,
                    started_at=run.started_at,
                    usual=stats.total_duration // (done + others) if stats is not None and done else None,
                    told=run.deadline_told,
                )
            )
        return found

    async def tell_terms(self, tellings: Sequence[Telling], now: Instant) -> None:
        self.check()
        for one in tellings:
            run = self.edit(self.data.run, one.key)
            run.deadline_at, run.deadline_told = one.next, one.told
