"""Known mistakes of this field, put back one at a time: small broken subclasses of the store or of a part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from tidegate.domain.admission import Candidate
from tidegate.domain.clocks import Due
from tidegate.domain.constraints import AdmissionFacts, Needs, Starts
from tidegate.domain.errors import CommitUnknown
from tidegate.domain.ids import Fence, RunKey, ScheduleId
from tidegate.domain.instants import MINUTE, SECOND, Duration, Instant
from tidegate.domain.planning import Plan
from tidegate.domain.schedules import CatchUpPolicy, Mode
from tidegate.domain.stopping import Ended
from tidegate.engine.admitter import Admitter
from tidegate.engine.dispatcher import Dispatcher
from tidegate.engine.matcher import Matcher
from tidegate.engine.relay import Relay
from tidegate.engine.supervisor import Supervisor
from tidegate.engine.timekeeper import Timekeeper, TimekeeperSettings
from tidegate.ports.collecting import Collected, Collecting, NewEvent, Pin, Receipt
from tidegate.ports.engine import Instance
from tidegate.ports.sinks import Settled
from tidegate.sim.backend import ROUGH
from tidegate.sim.clock import VirtualClock
from tidegate.sim.feeds import Feeds
from tidegate.sim.memory import MemoryStore, MemoryTransaction
from tidegate.sim.memory.admission import read_facts
from tidegate.sim.memory.requests import ControlTransaction
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
    first: int = 0  # the seed to begin with: what needs a rare meeting is looked for where it is known to happen


def _store(
    transaction: type[MemoryTransaction] | None = None,
    control: type[ControlTransaction] | None = None,
    **methods: Any,
) -> Callable[[Scenario], Scenario]:
    """A scenario whose store has another transaction, or other methods."""

    class Broken(MemoryStore):
        def transaction(self, fence: Fence) -> MemoryTransaction:
            return (transaction or MemoryTransaction)(self.data, fence)

        def changing(self) -> ControlTransaction:
            return (control or ControlTransaction)(self.data)

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

    async def __aenter__(self) -> Self:
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

    async def admission_facts(self, needs: Needs, now: Instant) -> AdmissionFacts:
        facts = read_facts(lambda table, key: table.rows.get(key), self.data, needs, now)
        return replace(facts, starts={key: Starts() for key in needs.starts})


class NothingRuns(MemoryTransaction):
    """The counters are locked and kept, and not looked at."""

    async def admission_facts(self, needs: Needs, now: Instant) -> AdmissionFacts:
        return replace(await super().admission_facts(needs, now), held={})


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


class NeverRecounts(Supervisor):
    """What is on record as its own and not in its watch is left."""

    async def _recount(self, now: Instant, notes: list[str]) -> None:
        return None


def _behind(change: Callable[[Scenario], Scenario]) -> Callable[[Scenario], Scenario]:
    """Standbys that lack the last seconds take over now and then."""
    return lambda scenario: change(replace(scenario, rates=replace(scenario.rates, failover=0.0008, lag=3 * SECOND)))


async def _settled_by_the_last(self: MemoryStore, now: Instant) -> Settled:
    """The log is read up to the newest event, whoever has a transaction open."""
    return Settled(pos=self.data.event_pos, server=self.data.server)


class MovesFirst(Relay):
    """The place is moved before the sink has taken what lies before it."""

    async def _hand_over(self, post: Any, now: Instant, done: Any) -> None:
        batch = post.waiting if post.under_way is None and post.until <= now else None
        await super()._hand_over(post, now, done)
        if batch is not None and post.under_way is batch:
            await self._move(post, batch.end, now)


class NeverMeets(Relay):
    """What was read of the server that is gone counts on the one that took its place."""

    async def _meet(self, settled: Settled) -> None:
        self._server, self._upto = settled.server, settled.pos


def _told(change: Callable[[Scenario], Scenario]) -> Callable[[Scenario], Scenario]:
    """What happens is told to sinks."""
    return lambda scenario: change(replace(scenario, size=replace(scenario.size, sinks=True)))


# ── of data, events and silence ────────────────────────────────────────────────────────────────────────────────────


BUSY_FEEDS = Feeds(schedules=12, every=3 * SECOND, change=MINUTE)


def _fed(
    change: Callable[[Scenario], Scenario], *, faults: bool = True, feeds: Feeds = BUSY_FEEDS, crash: float = 0.002
) -> Callable[[Scenario], Scenario]:
    """Publishers, and many who wait for what they publish."""

    def changed(scenario: Scenario) -> Scenario:
        size, rates = Size(schedules=3, programs=3, every=MINUTE), replace(scenario.rates, crash=crash)
        made = replace(change(scenario), feeds=feeds, size=size, span=5 * MINUTE, settle=MINUTE)
        return replace(made, faults=faults, rates=rates)

    return changed


class PlacesBeforeProgress(MemoryTransaction):
    """How far subscriptions have read is written before, and apart from, what came of it."""

    async def collect(self, results: Sequence[Collected], now: Instant) -> int:
        grown = await super().collect(results, now)
        table = self.data.subscription
        table.rows.update({key: row for key, row in (self.own[table.number] or {}).items() if row is not None})
        return grown


class NeedTooHigh(MemoryTransaction):
    """A tree is looked at one event too late."""

    def _write(self, result: Collected) -> None:
        super()._write(result)
        for key in self.subscriptions_of(result.collecting.schedule_id):
            row = self.get(self.data.subscription, key)
            assert row is not None
            if row.marks.n is not None:
                self.put(self.data.subscription, key, row._replace(marks=row.marks._replace(n=row.marks.n + 1)))


class KeepsOldArrivals(ControlTransaction):
    """An update begins where the state before had read to, not at the present."""

    async def reset_progress(self, schedule: ScheduleId, now: Instant) -> None:
        old = {key: self.get(self.data.subscription, key) for key in self.subscriptions_of(schedule)}
        await super().reset_progress(schedule, now)
        for key, row in old.items():
            new = self.get(self.data.subscription, key)
            if row is not None and new is not None:
                places: dict[str, Any] = {
                    name: getattr(row, name) for name in ("base", "seen", "seen_rows", "seen_bytes")
                }
                self.put(self.data.subscription, key, new._replace(**places))


class QuietGoesOn(MemoryTransaction):
    """Silence is counted from the first of several events."""

    async def collections(self, *args: Any) -> Sequence[Collecting]:
        return [
            replace(one, bulk=tuple(replace(some, last_at=some.first_at) for some in one.bulk))
            for one in await super().collections(*args)
        ]


class SilenceForgotten(MemoryTransaction):
    """When a run ends, nobody writes down when too much time will have passed since."""

    def _end_of_tree(self, run: Any, finished_at: Instant) -> None:
        there = self.get(self.data.deadline, run.key.schedule_id)
        super()._end_of_tree(run, finished_at)
        self.set_deadlines(run.key.schedule_id, there.deadlines if there else ())


class LongestWaitForgotten(MemoryTransaction):
    """A deadline is stored when it is first known, and not again when something else comes."""

    def _write(self, result: Collected) -> None:
        super()._write(result)
        if result.collecting.bulk or result.collecting.given:
            self.set_deadlines(result.collecting.schedule_id, ())


class InboxEmptiedFirst(MemoryTransaction):
    """What is claimed of the inbox is gone at once, whatever becomes of the transaction."""

    async def claim_inbox(self, now: Instant, limit: int) -> Sequence[ScheduleId]:
        found = await super().claim_inbox(now, limit)
        for place in list(self.own[self.data.inbox.number] or {}):
            self.data.inbox.rows[place] = -1
        return found

    def release(self) -> None:
        super().release()
        rows = self.data.inbox.rows
        for place in [place for place, topic in rows.items() if topic == -1]:
            del rows[place]


class InputLost(MemoryTransaction):
    """What a run was given that never starts is given to nobody."""

    def _end_of_tree(self, run: Any, finished_at: Instant) -> None:
        run.moved, moved = False, run.moved
        super()._end_of_tree(run, finished_at)
        run.moved = moved


class InputTwice(MemoryTransaction):
    """What is owed does not move when a run is given it."""

    async def pin(self, pins: Sequence[Pin], now: Instant) -> Any:
        found = await super().pin([replace(one, moves=False) for one in pins], now)
        for one in pins:
            self.edit(self.data.run, one.key).moved = one.moves
        return found


class Unnumbered(ControlTransaction):
    """Events are numbered without locking their topics: two publishers take the same number."""

    async def publish(self, events: Sequence[NewEvent], now: Instant) -> Sequence[Receipt]:
        receipts = await super().publish(events, now)
        topics = self.data.topic.locks
        for held in [held for held in self.held if held[0] is topics]:
            self.held.remove(held)
            del topics[held[1]]
        return receipts


class Repeats(ControlTransaction):
    """A publisher's id is not looked at."""

    async def publish(self, events: Sequence[NewEvent], now: Instant) -> Sequence[Receipt]:
        for event in events:
            self.data.dedup.rows.pop((event.source, event.id or ""), None)
        return await super().publish(events, now)


class TicksTakeNothing(Timekeeper):
    """A fire of a clock leaves behind what was collected beside it."""

    async def _collect(self, tx: Any, plans: Any, now: Instant) -> Any:
        return (), ()


class MatchesWhatIsDue(Matcher):
    """The matcher does not leave to the timekeeper what has a tick due."""

    async def _advance(self, tx: Any, schedules: Any, now: Instant, notes: list[str]) -> Any:
        class Undue:
            async def collections(self, *args: Any) -> Sequence[Collecting]:
                return [replace(one, clock_due=None) for one in await tx.collections(*args)]

            def __getattr__(self, name: str) -> Any:
                return getattr(tx, name)

        return await super()._advance(Undue(), schedules, now, notes)


class Slides(Admitter):
    """Whenever a crashed run is looked at, its wait begins anew with who is up then."""

    def _undecided(self, candidates: Sequence[Candidate]) -> bool:
        return any(one.crash is not None for one in candidates)

    def _decided(self, run: Candidate, oldest: Instant) -> Candidate:
        forgotten = None if run.crash is None else replace(run.crash, restart_at=None)
        return super()._decided(replace(run, crash=forgotten), oldest)


class RestartsAtOnce(Admitter):
    """A crashed run waits for its backoff alone."""

    def _decided(self, run: Candidate, oldest: Instant) -> Candidate:
        return super()._decided(run, oldest - self._settings.crash_wait)


def _crashing(change: Callable[[Scenario], Scenario]) -> Callable[[Scenario], Scenario]:
    """Machines go down again and again, and schedulers do not live long."""

    def changed(scenario: Scenario) -> Scenario:
        return replace(change(scenario), rates=replace(scenario.rates, reboot=0.004, crash=0.02))

    return changed


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
    Bug(
        name="doubts-forgotten",
        laws=("nothing_stuck",),
        change=_parts(dispatcher=ForgetsDoubts, supervisor=NeverRecounts),
    ),
    Bug(name="never-asks", laws=("one_run_a_key", "no_attempt_unaccounted"), change=_parts(supervisor=NeverAsks)),
    Bug(name="places-before-progress", laws=("events_counted",), change=_fed(_store(PlacesBeforeProgress))),
    Bug(name="need-too-high", laws=("nothing_forgotten",), change=_fed(_store(NeedTooHigh))),
    Bug(name="old-arrivals-stay", laws=("events_counted",), change=_fed(_store(control=KeepsOldArrivals))),
    Bug(name="quiet-goes-on", laws=("fires_folded",), change=_fed(_store(QuietGoesOn), faults=False)),
    Bug(name="silence-forgotten", laws=("nothing_forgotten",), change=_fed(_store(SilenceForgotten))),
    Bug(name="longest-wait-forgotten", laws=("nothing_forgotten",), change=_fed(_store(LongestWaitForgotten))),
    Bug(
        name="inbox-emptied-first",
        laws=("nothing_forgotten",),
        change=_fed(_store(InboxEmptiedFirst), feeds=replace(BUSY_FEEDS, every=90 * SECOND), crash=0.03),
    ),
    Bug(
        name="input-lost",
        laws=("input_complete",),
        change=_fed(_store(InputLost), feeds=replace(BUSY_FEEDS, change=5 * SECOND)),
        first=124,
    ),
    Bug(name="input-twice", laws=("input_complete",), change=_fed(_store(InputTwice))),
    Bug(name="unnumbered", laws=("published_once",), change=_fed(_store(control=Unnumbered))),
    Bug(name="repeats", laws=("published_once",), change=_fed(_store(control=Repeats))),
    Bug(
        name="ticks-take-nothing",
        laws=("fires_folded",),
        change=_fed(_parts(timekeeper=TicksTakeNothing), faults=False),
    ),
    Bug(
        name="matches-what-is-due",
        laws=("fires_folded",),
        change=_fed(_parts(matcher=MatchesWhatIsDue), faults=False),
        first=28,
    ),
    Bug(name="slides", laws=("crashes_waited",), change=_crashing(_parts(admitter=Slides))),
    Bug(name="restarts-at-once", laws=("crashes_waited",), change=_crashing(_parts(admitter=RestartsAtOnce))),
    Bug(name="never-recounts", laws=("nothing_stuck",), change=_behind(_parts(supervisor=NeverRecounts))),
    Bug(name="reads-unsettled", laws=("sinks_told",), change=_told(_store(settled=_settled_by_the_last))),
    Bug(name="moves-first", laws=("sinks_told",), change=_told(_parts(relay=MovesFirst))),
    Bug(name="never-meets", laws=("sinks_told",), change=_behind(_told(_parts(relay=NeverMeets)))),
    Bug(name="never-adopts", laws=("nothing_stuck",), change=_parts(supervisor=NeverAdopts)),
)
