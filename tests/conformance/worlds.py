"""A small vocabulary for the laws: declare, let fire, admit, start, end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from tidegate.domain.admission import Admit, Candidate, Discard, Hold
from tidegate.domain.clocks import Due
from tidegate.domain.constraints import AdmissionFacts, Needs
from tidegate.domain.ids import Fence, RunKey, ScheduleId
from tidegate.domain.instants import MINUTE, SECOND, Duration, Instant
from tidegate.domain.planning import Fire, Plan
from tidegate.domain.programs import Command, ProgramRef, ProgramSpec
from tidegate.domain.retry import Finish, RetryAt
from tidegate.domain.runs import Cause, State
from tidegate.domain.schedules import Concurrency, Mode, ScheduleSpec
from tidegate.domain.triggers import Interval, Trigger
from tidegate.ports.engine import AttemptEnd, Instance, Started
from tidegate.ports.launching import Launch
from tidegate.ports.records import ClockState, Metadata, RunRecord

NS = "sales"
HOST = "machine:/home"
TRUE = Command(argv=("true",))


@dataclass
class World:
    """A store, two members, and the instant from which a test counts."""

    store: Any
    again: Callable[[], Any]
    start: Instant
    scheduler: Fence
    worker: Fence
    time: list[Instant] = field(default_factory=list)
    others: list[Any] = field(default_factory=list)

    @classmethod
    async def begin(cls, store: Any, again: Callable[[], Any]) -> World:
        now = await store.now()
        scheduler = await store.register(role="scheduler", name="s", host=HOST, pid=1, now=now)
        worker = await store.register(role="worker", name="w", host=HOST, pid=2, now=now)
        async with store.changing() as tx:
            await tx.ensure_namespace(NS, now)
            await tx.put_pool("default", 8, None)
        return cls(store, again, now, scheduler, worker)

    async def __aenter__(self) -> World:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for store in [self.store, *self.others]:
            if hasattr(store, "close"):
                await store.close()

    def at(self, span: Duration) -> Instant:
        """An instant of this test."""
        return self.start + span

    def another(self) -> Any:
        """The same database through a store of another process."""
        self.others.append(self.again())
        return self.others[-1]

    # ── declaring ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def program(self, name: str = "job", spec: ProgramSpec = TRUE) -> ProgramRef:
        async with self.store.changing() as tx:
            found: ProgramRef = await tx.write_program(about(name), spec, {"type": "command"}, "ann", self.start)
            return found

    async def schedule(
        self,
        name: str,
        *,
        program: str = "job",
        spec: ProgramSpec = TRUE,
        due: Duration | None = 0,
        trigger: Trigger = Interval(every="PT1M"),
        mode: Mode = Mode.ENABLED,
        **said: Any,
    ) -> ScheduleId:
        """An enabled schedule that is due `due` after the start; its program is made where it is missing."""
        declared = ScheduleSpec(program=program, trigger=trigger, **said)
        async with self.store.changing() as tx:
            there = await tx.lock_programs(NS, [program])
            ref = there[0].ref if there else await tx.write_program(about(program), spec, {}, "ann", self.start)
            number: ScheduleId = await tx.create_schedule(
                about(name),
                declared,
                {"program": program},
                program=ref.id,
                mode=mode,
                reason="",
                author="ann",
                now=self.start,
                clock=ClockState(
                    cursor=self.start - MINUTE, cursor_rev=1, next_due=None if due is None else self.at(due)
                ),
            )
            return number

    # ── the engine's steps, by hand ────────────────────────────────────────────────────────────────────────────────

    async def fire(self, now: Instant | None = None, limit: int = 100) -> list[RunKey]:
        """Record every clock that is due as one run at its next_due; each is due again a minute later."""
        now = self.start if now is None else now
        async with self.store.transaction(self.scheduler) as tx:
            due = await tx.claim_due(now, limit)
            await tx.record([plan_of(one) for one in due], now)
        return [RunKey(one.next_due, one.schedule_id, 0) for one in due]

    async def waiting(self, now: Instant) -> Sequence[Candidate]:
        """What would be judged now; nothing is settled."""
        async with self.store.transaction(self.scheduler) as tx:
            found: Sequence[Candidate] = await tx.claim_waiting(now, 100)
            return found

    async def admit(self, now: Instant, *, limit: int = 100) -> list[RunKey]:
        """Judge by the simplest rule: one run of a schedule at a time where it says so, and a slot of its pool."""
        async with self.store.transaction(self.scheduler) as tx:
            found = await tx.claim_waiting(now, limit)
            verdicts = await judged(tx, found)
            await tx.settle(verdicts, now)
        return [verdict.key for verdict in verdicts if isinstance(verdict, Admit)]

    async def launch(self, now: Instant, *, fence: Fence | None = None, limit: int = 100) -> Sequence[Launch]:
        async with self.store.transaction(fence or self.worker) as tx:
            found: Sequence[Launch] = await tx.claim_ready(["command"], now, limit)
            return found

    async def begin_runs(self, now: Instant) -> Sequence[Launch]:
        """Admit what may, launch it, and let the backend have it."""
        await self.admit(now)
        launches = await self.launch(now)
        async with self.store.transaction(self.worker) as tx:
            await tx.started([Started(attempt=one.attempt, backend_id="pid:1") for one in launches], now)
        return launches

    async def end(
        self,
        launches: Sequence[Launch],
        now: Instant,
        *,
        outcome: str = "succeeded",
        then: RetryAt | Finish | None = None,
        ago: Duration = 0,
        ran: bool = True,
        fence: Fence | None = None,
    ) -> None:
        follow = then or Finish(outcome=State(outcome), reason="")
        async with self.store.transaction(fence or self.worker) as tx:
            await tx.ended(
                [
                    AttemptEnd(attempt=one.attempt, outcome=outcome, error=None, ago=ago, ran=ran, then=follow)
                    for one in launches
                ],
                now,
            )

    async def record(self, key: RunKey) -> RunRecord:
        found: RunRecord | None = await self.store.run(key)
        assert found is not None
        return found

    async def state(self, key: RunKey) -> State:
        return (await self.record(key)).state

    async def instance(self, fence: Fence) -> Instance:
        return next(one for one in await self.store.alive() if one.id == fence.instance_id)

    async def pool(self, name: str = "default") -> tuple[int, int]:
        """(slots, used)"""
        found = next(one for one in await self.store.pools() if one.name == name)
        return found.slots, found.used

    async def manual(self, schedule: ScheduleId, now: Instant, priority: int = 50) -> RunKey:
        async with self.store.changing() as tx:
            key: RunKey = await tx.add_run(
                schedule,
                cause=Cause.MANUAL,
                caused_by="ann",
                fire_time=None,
                previous_fire=None,
                given=None,
                priority=priority,
                now=now,
            )
            return key


def about(name: str, **said: Any) -> Metadata:
    return Metadata(namespace=NS, name=name, labels=said.pop("labels", {}), **said)


def plan_of(due: Due, *, fires: int = 1, next_in: Duration | None = MINUTE) -> Plan:
    """Fires at its next_due and every second after it."""
    times = [due.next_due + SECOND * number for number in range(fires)]
    return Plan(
        due=due,
        fires=tuple(
            Fire(fire_time=at, due=at, previous_fire=before)
            for at, before in zip(times, [due.last_fire, *times], strict=False)
        ),
        missed=(),
        cursor=times[-1],
        cursor_rev=due.revisions[-1].rev,
        next_due=None if next_in is None else times[-1] + next_in,
        last_fire=times[-1],
        gap=None,
        postponed=0,
    )


async def judged(tx: Any, found: Sequence[Candidate]) -> list[Admit | Hold | Discard]:
    """The admission rule of these tests, on locked facts, used up as it goes."""
    counters = {key for one in found for key in keys_of(one)}
    facts = await facts_of(tx, counters, {one.program.pool for one in found})
    held, free = dict(facts.held), dict(facts.free)
    verdicts: list[Admit | Hold | Discard] = []
    for one in found:
        take = tuple(key for key in keys_of(one) if key not in one.held)
        full = next((key for key in take if held.get(key, 0) >= limit_of(one.spec, key)), None)
        if full is None and free.get(one.program.pool, 0) < 1:
            full = f"pool:{one.program.pool}"
        if full is not None:
            limit = None if full.startswith("pool:") else limit_of(one.spec, full)
            why = ({"constraint": full},)
            verdicts.append(Hold(key=one.key, until=None, wake_key=full, waiting_for=why, limit=limit))
            continue
        for key in take:
            held[key] = held.get(key, 0) + 1
        free[one.program.pool] -= 1
        verdicts.append(Admit(key=one.key, take=take, program=one.program, arguments={"n": 1}))
    return verdicts


async def facts_of(
    tx: Any, counters: Collection[str] = (), pools: Collection[str] = (), now: Instant = 0
) -> AdmissionFacts:
    """Counters and pools, locked; nothing else is asked for."""
    needs = Needs(frozenset(counters), frozenset(pools), {}, frozenset(), frozenset())
    found: AdmissionFacts = await tx.admission_facts(needs, now)
    return found


def keys_of(one: Candidate) -> tuple[str, str]:
    return (f"s{one.key.schedule_id}", f"p{one.program.id}")


def limit_of(spec: ScheduleSpec, key: str) -> int:
    scope = "schedule" if key.startswith("s") else "program"
    limits = [one.max for one in spec.constraints if isinstance(one, Concurrency) and one.scope == scope]
    return min(limits, default=1 << 30)


def at_most(most: int, scope: str = "schedule") -> tuple[Concurrency, ...]:
    return (Concurrency(max=most, scope=scope),)
