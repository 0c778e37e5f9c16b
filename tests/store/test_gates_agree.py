"""Both stores tell the same story of gates: the seeded walk of `test_agreement`, with every constraint, judged by the
engine's own rule, and people who freeze, close calendars and suspend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from conformance.worlds import NS, World
from sizes import first
from store.test_agreement import STEPS, Walk, memory

from tidegate.domain.admission import Admit, Discard, admit, needs_of
from tidegate.domain.calendars import Calendar
from tidegate.domain.constraints import (
    Blackout,
    Concurrency,
    Constraint,
    Delay,
    Gauge,
    Load,
    MinInterval,
    Rate,
    Unmet,
    Window,
)
from tidegate.domain.instants import MINUTE, SECOND
from tidegate.domain.runs import Cause
from tidegate.domain.schedules import Mode, Waiting, WaitingPolicy
from tidegate.domain.windows import Span
from tidegate.ports.records import ClockState
from tidegate.store.declarations import DeclarationsTx
from tidegate.store.store import PostgresStore

pytestmark = pytest.mark.anyio


class GateWalk(Walk):
    """As `Walk`, with gates."""

    async def prepare(self) -> None:
        store = self.world.store
        async with store.changing() as tx:
            await tx.put_pool("default", 3, None)
        minute = self.now // MINUTE % 1440
        wide = Concurrency(max=9)
        spans = [Span(start=(minute + 1 + 7 * n) % 1440, end=(minute + 4 + 7 * n) % 1440 + 1) for n in range(3)]
        gates: list[tuple[Constraint, ...]] = [
            (Rate(max=2, per=2 * MINUTE, scope="group:g"), wide),
            (Window(span=spans[0], stop_at_end=True), Concurrency(max=2, scope="group:g")),
            (MinInterval(duration=MINUTE), Blackout(calendar="c"), wide),
            (Load(resource="cpu", below=50), Rate(max=1, per=MINUTE), Delay(duration=20 * SECOND)),
            (Window(span=spans[1]), Concurrency(max=1, unmet=Unmet.SKIP)),
        ]
        for number, constraints in enumerate(gates):
            schedule = await self.world.schedule(
                f"s{number}",
                program=f"p{number // 2}",
                due=number * SECOND,
                constraints=constraints,
                groups=("g",) if number < 2 else (),
                priority=self.random.choice([10, 50, 90]),
                waiting=WaitingPolicy(
                    timeout=self.random.choice([None, 3 * MINUTE]), runs=self.random.choice(list(Waiting))
                ),
            )
            self.schedules.append(schedule)

    def steps(self) -> list[Callable[[], Any]]:
        often = [self.fire, self.admit, self.admit, self.launch, self.start, self.end, self.backfill]
        return [*often, self.stop, self.pool, self.freeze, self.calendar, self.reading, self.turn, self.worker]

    async def admit(self) -> object:
        async with self.world.store.transaction(self.world.scheduler) as tx:
            found = await tx.claim_waiting(self.now, 100)
            verdicts: list[Any] = []
            if found:
                verdicts = admit(found, await tx.admission_facts(needs_of(found), self.now), now=self.now)
                await tx.settle(verdicts, self.now)
        ended = [(one.key, one.reason) for one in verdicts if isinstance(one, Discard)]
        return ("admit", [(one.key, one.stop_by) for one in verdicts if isinstance(one, Admit)], ended)

    async def backfill(self) -> object:
        schedule = self.random.choice(self.schedules)
        async with self.world.store.changing() as tx:
            key = await tx.add_run(
                schedule,
                cause=self.random.choice([Cause.BACKFILL, Cause.MANUAL]),
                caused_by="ann",
                fire_time=None,
                previous_fire=None,
                given=None,
                priority=self.random.randrange(100),
                now=self.now,
            )
        self.keys.append(key)
        return ("backfill", key)

    async def freeze(self) -> object:
        frozen = await self.world.store.frozen()
        async with self.world.store.changing() as tx:
            if frozen is None and self.random.random() < 0.4:
                return ("freeze", await tx.freeze("ann", "why", self.now))
            return ("unfreeze", await tx.unfreeze(self.now), frozen)

    async def calendar(self) -> object:
        spans = ((self.now - MINUTE, self.now + self.random.randrange(2 * MINUTE)),)
        async with self.world.store.changing() as tx:
            if self.random.random() < 0.2:
                return ("calendar", await tx.delete_calendar("c", self.now))
            return ("calendar", await tx.put_calendar(Calendar(name="c", spans=spans), {}, self.now))

    async def reading(self) -> object:
        store, value = self.world.store, float(self.random.randrange(100))
        awaited = list(await store.awaited())
        await store.record_gauge(self.world.scheduler, "cpu", Gauge(value=value, at=self.now), self.now)
        return ("reading", awaited, value)

    async def turn(self) -> object:
        number = self.random.randrange(len(self.schedules))
        mode = self.random.choice([Mode.ENABLED, Mode.ENABLED, Mode.BACKLOG, Mode.HOLD, Mode.KEEP])
        expires = self.random.random() < 0.3
        async with self.world.store.changing() as tx:
            [old] = await tx.lock_schedules(NS, [f"s{number}"])
            rev = await tx.revise_schedule(
                old.id,
                old.spec,
                {},
                program=old.program.id,
                mode=mode,
                reason="",
                author="ann",
                valid_from=self.now,
                clock=ClockState(cursor=old.cursor, cursor_rev=old.cursor_rev, next_due=old.next_due),
                held_expires=expires,
            )
        return ("turn", number, mode, rev)

    async def seen(self) -> Any:
        """Without what a run was told last: a store may look once more than it must."""
        found: Any = await super().seen()
        found["runs"] = [replace(run, wake_key=None, waiting_for=()) for run in found["runs"]]
        return found


@pytest.mark.requirement("GATE-12")
@pytest.mark.parametrize("seed", first(1, range(20)))
async def test_both_stores_tell_the_same_story_of_gates(
    database_url: str, anyio_backend: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = await World.begin(PostgresStore(database_url), lambda: None)
    clock = [real.start]
    false = await World.begin(memory.MemoryStore(lambda: clock[0]), lambda: None)

    async def virtual(_: object) -> int:
        return clock[0]

    monkeypatch.setattr(DeclarationsTx, "now", virtual)
    async with real:
        walks = [GateWalk(real, seed, clock), GateWalk(false, seed, clock)]
        for walk in walks:
            await walk.prepare()
        for number in range(STEPS):
            said = [await walk.step() for walk in walks]
            assert said[0] == said[1], f"seed {seed}, step {number}"
            one, other = [await walk.seen() for walk in walks]
            assert isinstance(one, dict) and isinstance(other, dict)
            for part, found in one.items():
                assert found == other[part], f"seed {seed}, step {number}, after {said[0]}: {part}"
