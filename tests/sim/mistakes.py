"""Known mistakes of this field, put back one at a time: small broken subclasses of the store or of a part."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.domain.errors import CommitUnknown
from tidegate.domain.ids import Fence, RunKey
from tidegate.domain.instants import SECOND, Duration, Instant
from tidegate.domain.planning import Due, Plan
from tidegate.domain.schedules import CatchUpPolicy, Mode
from tidegate.domain.stopping import Ended
from tidegate.engine.dispatcher import Dispatcher
from tidegate.engine.supervisor import Supervisor
from tidegate.engine.timekeeper import Timekeeper, TimekeeperSettings
from tidegate.ports.engine import AdmissionFacts, Candidate, Instance
from tidegate.sim.backend import ROUGH
from tidegate.sim.clock import VirtualClock
from tidegate.sim.memory import MemoryStore, MemoryTransaction
from tidegate.sim.memory.rows import LeaseRow, copied
from tidegate.sim.process import Pace, Parts
from tidegate.sim.run import Scenario
from tidegate.sim.workload import Size


@dataclass(frozen=True, kw_only=True)
class Bug:
    """A mistake, the law that must find it, and what it is put into."""

    name: str
    laws: tuple[str, ...]
    change: Callable[[Scenario], Scenario]


def _store(transaction: type[MemoryTransaction] | None = None, **methods: Any) -> Callable[[Scenario], Scenario]:
    """A scenario whose store has another transaction, or other methods."""

    class Broken(MemoryStore):
        def transaction(self, fence: Fence) -> MemoryTransaction:
            return (transaction or MemoryTransaction)(self.data, fence)

    for name, method in methods.items():
        setattr(Broken, name, method)
    return lambda scenario: replace(scenario, store=lambda clock: _made(Broken, clock))


def _made(kind: type[MemoryStore], clock: VirtualClock) -> MemoryStore:
    return kind(clock)


def _parts(**parts: Any) -> Callable[[Scenario], Scenario]:
    return lambda scenario: replace(scenario, parts=replace(Parts(), **parts))


def _busy(change: Callable[[Scenario], Scenario]) -> Callable[[Scenario], Scenario]:
    """Programs that mostly fail, and people who hardly rest."""

    def changed(scenario: Scenario) -> Scenario:
        return replace(
            change(scenario),
            habits=replace(ROUGH, fails=0.8, longest=5 * SECOND),
            rates=replace(scenario.rates, slow=0.1),
            size=Size(schedules=8, every=3 * SECOND),
        )

    return changed


class CursorBeforeRuns(MemoryTransaction):
    """The cursor is moved in a transaction of its own, before the one that makes the runs."""

    async def record(self, plans: Sequence[Plan], now: Instant) -> None:
        for plan in plans:
            old = self.data.clock.rows[plan.due.schedule_id]
            moved = copied(old)
            moved.cursor, moved.cursor_rev, moved.next_due = plan.cursor, plan.cursor_rev, plan.next_due
            self.data.clock.rows[plan.due.schedule_id] = moved
            self.data._clock_changed(old, moved)
        await super().record(plans, now)


class NoFence(MemoryTransaction):
    """Nobody looks whether the writer was declared dead."""

    async def __aenter__(self) -> MemoryTransaction:
        sharers = self.data.sharers.setdefault(self.fence.instance_id, {})
        sharers[self] = None
        self.on_end.append(lambda: sharers.pop(self, None))
        return self


async def _hasty_retire(self: MemoryStore, instance: Instance, now: Instant) -> bool:
    """A takeover that does not wait for the transactions that are under way."""
    row = self.data.instance.rows[instance.id]
    if row.epoch != instance.epoch or row.ended_at is not None:
        return False
    row = copied(row)
    row.epoch += 1
    row.ended_at = now
    self.data.instance.rows[instance.id] = row
    del self.data.here[instance.id]
    return True


class UnlockedFacts(MemoryTransaction):
    """Counters and slots are read without locking them: two admitters see the same free place."""

    async def admission_facts(self, counters: Collection[str], pools: Collection[str]) -> AdmissionFacts:
        held = {key: row.held for key in counters if (row := self.data.counter.rows.get(key)) is not None}
        free = {name: pool.slots - pool.used for name in pools if (pool := self.data.pool.rows.get(name)) is not None}
        return AdmissionFacts(held=held, free=free)


class NothingRuns(MemoryTransaction):
    """The counters are locked and kept, and not looked at."""

    async def admission_facts(self, counters: Collection[str], pools: Collection[str]) -> AdmissionFacts:
        facts = await super().admission_facts(counters, pools)
        return AdmissionFacts(held={}, free=facts.free)


class DisabledGoesOn(MemoryTransaction):
    """The admitter does not look whether the schedule still works."""

    async def claim_waiting(self, now: Instant, limit: int) -> Sequence[Candidate]:
        return [replace(one, mode=Mode.ENABLED, deleted=False) for one in await super().claim_waiting(now, limit)]


class EventsOutside(MemoryTransaction):
    """Events are written at once, not with the change that they tell."""

    def tell(self, now: Instant, type_: str, run: RunKey | None, schedule: int | None = None) -> None:
        super().tell(now, type_, run, schedule)
        log, event = self.log.pop()
        log.append(event)


class NobodyWakes(MemoryTransaction):
    """What is released wakes nobody."""

    def wake_released(self, now: Instant) -> None:
        self.released = {}


class SlotKept(MemoryTransaction):
    """A run that is to be tried again keeps its slot while it waits."""

    def give_back(self, run: Any, *, counters: bool) -> None:
        if counters:
            super().give_back(run, counters=counters)


class CountersForgotten(MemoryTransaction):
    """A run that ends gives back its slot and forgets its counters."""

    def give_back(self, run: Any, *, counters: bool) -> None:
        super().give_back(run, counters=False)
        if counters:
            run.held = ()


async def _expired_or_mine(self: MemoryStore, duty: str, fence: Fence, now: Instant, term: Duration) -> int | None:
    """`expired OR mine` in one condition: a lease that ran out is taken back with its old token."""
    lease = self.data.lease.rows.get(duty)
    if lease is None:
        self.data.fencing_token += 1
        lease = LeaseRow(duty, fence.instance_id, fence.epoch, self.data.fencing_token, now)
    elif lease.instance_id != fence.instance_id and lease.expires > now:
        return None
    self.data.lease.rows[duty] = LeaseRow(duty, fence.instance_id, fence.epoch, lease.token, now + term)
    return lease.token


class CapDrops(Timekeeper):
    """What one pass may not launch is not left for the next."""

    def _decide(self, due: Sequence[Due], now: Instant) -> tuple[Sequence[Plan], tuple[str, ...]]:
        plans, notes = super()._decide(due, now)
        return [plan._replace(fires=plan.fires[-1:]) for plan in plans], notes


class NoGrace(Timekeeper):
    """Whatever is late counts as missed."""

    def _decide(self, due: Sequence[Due], now: Instant) -> tuple[Sequence[Plan], tuple[str, ...]]:
        return super()._decide([one._replace(revisions=tuple(map(_graceless, one.revisions))) for one in due], now)


class LatestIsAll(Timekeeper):
    """Every missed fire runs, whatever the policy."""

    def _decide(self, due: Sequence[Due], now: Instant) -> tuple[Sequence[Plan], tuple[str, ...]]:
        return super()._decide([one._replace(revisions=tuple(map(_greedy, one.revisions))) for one in due], now)


def _greedy(revision: Any) -> Any:
    spec = revision.spec
    return replace(revision, spec=replace(spec, catch_up=replace(spec.catch_up, policy=CatchUpPolicy.ALL)))


def _graceless(revision: Any) -> Any:
    spec = revision.spec
    return replace(revision, spec=replace(spec, catch_up=replace(spec.catch_up, grace=0)))


class StartsFirst(Dispatcher):
    """The backend is asked before the possible crash is on record."""

    async def _claim(self, now: Instant) -> Any:
        async with self._store.transaction(self._fence) as tx:
            launches = await tx.claim_ready(self._kinds, now, 10)
            for launch in launches:
                await self._launchers[launch.program.kind].start(launch)
        return launches, None


class ForgetsDoubts(Dispatcher):
    """A claim whose commit got no answer is taken for undone."""

    async def _claim(self, now: Instant) -> Any:
        try:
            return await super()._claim(now)
        except CommitUnknown:
            self._watch.doubts.clear()
            raise


class NeverAsks(Supervisor):
    """What a dead worker left is taken for lost, and tried again, without asking the backend."""

    async def _seal(self, entry: Any, launcher: Any, now: Instant) -> str | None:
        entry.close(Ended.LOST, now, ran=False)
        return None


class NeverAdopts(Supervisor):
    """What a dead worker left is left."""

    async def _look(self, now: Instant, notes: list[str]) -> int:
        for one in await self._store.stop_requests(self._fence):
            self._watch.asked(one, now)
        self._look_at = now + self._settings.look
        return 0


BUGS = (
    Bug(name="cursor-before-runs", laws=("one_outcome",), change=_store(CursorBeforeRuns)),
    Bug(name="no-fence", laws=("no_stale_writes",), change=_store(NoFence)),
    Bug(name="hasty-takeover", laws=("no_stale_writes",), change=_store(retire=_hasty_retire)),
    Bug(name="unlocked-counters", laws=("limits_kept", "counters_add_up"), change=_store(UnlockedFacts)),
    Bug(name="nothing-seems-to-run", laws=("limits_kept",), change=_store(NothingRuns)),
    Bug(name="disabled-goes-on", laws=("people_obeyed",), change=_busy(_store(DisabledGoesOn))),
    Bug(name="events-outside", laws=("events_told",), change=_store(EventsOutside)),
    Bug(name="wake-lost", laws=("nothing_stuck",), change=_store(NobodyWakes)),
    Bug(name="slot-kept-in-backoff", laws=("counters_add_up", "nothing_stuck"), change=_store(SlotKept)),
    Bug(name="counters-forgotten", laws=("counters_add_up",), change=_store(CountersForgotten)),
    Bug(name="expired-or-mine", laws=("no_stale_writes",), change=_store(acquire=_expired_or_mine)),
    Bug(
        name="cap-drops",
        laws=("one_outcome",),
        change=lambda scenario: replace(
            scenario,
            parts=Parts(timekeeper=CapDrops),
            rates=replace(scenario.rates, outage=0.002),  # there is much to catch up
            pace=Pace(timekeeper=TimekeeperSettings(catch_up_per_pass=2, catch_up_pause=SECOND)),
        ),
    ),
    Bug(name="no-grace", laws=("grace_kept",), change=_parts(timekeeper=NoGrace)),
    Bug(name="latest-is-all", laws=("catch_up_kept",), change=_parts(timekeeper=LatestIsAll)),
    Bug(name="start-before-commit", laws=("no_attempt_unaccounted",), change=_parts(dispatcher=StartsFirst)),
    Bug(name="doubts-forgotten", laws=("nothing_stuck",), change=_parts(dispatcher=ForgetsDoubts)),
    Bug(name="never-asks", laws=("one_run_a_key", "no_attempt_unaccounted"), change=_parts(supervisor=NeverAsks)),
    Bug(name="never-adopts", laws=("nothing_stuck",), change=_parts(supervisor=NeverAdopts)),
)
