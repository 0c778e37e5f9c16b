"""Both stores, given the same requests in the same order, tell the same story.

A seeded walk over everything that engine and people do; after every step all that can be read is compared.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from conformance.worlds import HOST, NS, World, about, at_most
from sizes import first

from tidegate.domain.errors import Fenced
from tidegate.domain.ids import RunKey
from tidegate.domain.instants import MINUTE, SECOND
from tidegate.domain.retry import Finish, RetryAt
from tidegate.domain.runs import State
from tidegate.domain.schedules import ScheduleSpec
from tidegate.domain.triggers import Interval
from tidegate.ports.engine import AttemptEnd, Started
from tidegate.ports.launching import Launch
from tidegate.ports.records import ClockState
from tidegate.store.declarations import DeclarationsTx
from tidegate.store.store import PostgresStore

pytestmark = pytest.mark.anyio

memory = pytest.importorskip("tidegate.sim.memory")
STEPS = 120


class Walk:
    """One store's half. Every choice comes from the seed, so that the other half makes the same ones."""

    def __init__(self, world: World, seed: int, clock: list[int]) -> None:
        self.world = world
        self.clock = clock
        self.random = random.Random(seed)
        self.schedules: list[int] = []
        self.keys: list[RunKey] = []
        self.launches: list[Launch] = []
        self.now = world.start
        self.workers = [world.worker]

    async def prepare(self) -> None:
        async with self.world.store.changing() as tx:
            await tx.put_pool("default", 3, None)
        for number in range(4):
            limits = (at_most(1), at_most(2), at_most(2, "program"), ())[number]
            schedule = await self.world.schedule(
                f"s{number}",
                program=f"p{number}",
                due=number * SECOND,
                constraints=limits,
                priority=self.random.choice([10, 50, 90]),
            )
            self.schedules.append(schedule)

    def steps(self) -> list[Callable[[], Any]]:
        often = [self.fire, self.admit, self.admit, self.launch, self.start, self.end, self.end, self.manual]
        return [*often, self.stop, self.stopping, self.limit, self.pool, self.drop, self.worker]

    async def step(self) -> object:
        self.now += self.random.randrange(1, 20 * SECOND)
        self.clock[0] = self.now
        return await self.random.choice(self.steps())()

    async def fire(self) -> object:
        found = await self.world.fire(self.now, limit=self.random.randrange(1, 5))
        self.keys += found
        return ("fire", found)

    async def manual(self) -> object:
        schedule = self.random.choice(self.schedules)
        key = await self.world.manual(schedule, self.now, priority=self.random.randrange(100))  # type: ignore[arg-type]
        self.keys.append(key)
        return ("manual", key)

    async def admit(self) -> object:
        return ("admit", await self.world.admit(self.now))

    async def launch(self) -> object:
        fence = self.random.choice(self.workers)
        found = list(await self.world.launch(self.now, fence=fence, limit=self.random.randrange(1, 5)))
        self.launches += found
        return ("launch", [(one.identity, one.arguments, one.previous_fire_time) for one in found])

    def some(self) -> list[Launch]:
        return [one for one in self.launches if self.random.random() < 0.5]

    async def start(self) -> object:
        some = self.some()
        async with self.world.store.transaction(self.workers[-1]) as tx:
            await tx.started([Started(attempt=one.attempt, backend_id="b") for one in some], self.now)
        return ("start", len(some))

    async def end(self) -> object:
        ends = []
        for one in self.some():
            outcome = self.random.choice(["succeeded", "failed", "timed_out", "crashed", "lost", "refused"])
            final = State(outcome) if outcome not in ("lost", "refused") else State.FAILED
            then: Finish | RetryAt = Finish(outcome=final, reason=outcome)
            if self.random.random() < 0.4:
                then = RetryAt(at=self.now + self.random.randrange(MINUTE), failures=1, lost=0)
            ran = outcome != "refused"
            ago = self.random.randrange(SECOND)
            ends.append(AttemptEnd(attempt=one.attempt, outcome=outcome, error=None, ago=ago, ran=ran, then=then))
        async with self.world.store.transaction(self.workers[-1]) as tx:
            await tx.ended(ends, self.now)
        return ("end", len(ends))

    async def stop(self) -> object:
        if not self.keys:
            return None
        key = self.random.choice(self.keys)
        async with self.world.store.changing() as tx:
            return ("stop", key, await tx.request_stop(key, "ann", self.now))

    async def stopping(self) -> object:
        some = [(one.attempt, "timeout") for one in self.some()]
        async with self.world.store.transaction(self.workers[-1]) as tx:
            await tx.stopping(some, self.now)
        return ("stopping", len(some))

    async def limit(self) -> object:
        number = self.random.randrange(2)
        most = self.random.randrange(1, 4)
        async with self.world.store.changing() as tx:
            [old] = await tx.lock_schedules(NS, [f"s{number}"])
            clock = ClockState(cursor=old.cursor, cursor_rev=old.cursor_rev, next_due=old.next_due)
            spec = ScheduleSpec(program=f"p{number}", trigger=Interval(every="PT1M"), constraints=at_most(most))
            rev = await tx.revise_schedule(
                old.id,
                spec,
                {},
                program=old.program.id,
                mode=old.mode,
                reason="",
                author="ann",
                valid_from=self.now,
                clock=clock,
            )
            await tx.describe_schedule(old.id, about(f"s{number}", labels={"rev": str(rev)}))
        return ("limit", number, most, rev)

    async def pool(self) -> object:
        slots = self.random.randrange(1, 6)
        async with self.world.store.changing() as tx:
            return ("pool", slots, await tx.put_pool("default", slots, None))

    async def drop(self) -> object:
        schedule = self.random.choice(self.schedules)
        async with self.world.store.changing() as tx:
            return ("drop", schedule, await tx.end_waiting(schedule, State.SUPERSEDED, "dropped", self.now))

    async def worker(self) -> object:
        """A worker dies, the next adopts what it left."""
        store = self.world.store
        await store.retire(await self.world.instance(self.workers[-1]), self.now)
        with pytest.raises(Fenced):
            await self.world.launch(self.now, fence=self.workers[-1])
        new = await store.register(role="worker", name="n", host=HOST, pid=1, now=self.now)
        self.workers = [new]
        async with store.transaction(new) as tx:
            found = await tx.adopt(HOST, ["command"], self.now, 100)
        return ("adopt", sorted((one.launch.identity, one.state, one.failures, one.stop) for one in found))

    async def seen(self) -> object:
        """All that can be read, without what may differ: tokens, who is awake, a start that is still under way."""
        store = self.world.store
        runs, _ = await store.runs(None, schedule=None, states=[], since=None, before=None, limit=1000)
        queue, _ = await store.queue(None, None, 1000)
        return {
            "runs": [
                replace(
                    run, wake_at=None, attempts=tuple(replace(one, fence=0) for one in run.attempts), expires_at=None
                )
                for run in runs
            ],
            "pools": await store.pools(),
            "stats": [replace(await store.stats(one), last_start=None) for one in self.schedules],
            "due": await store.next_due(),
            "queue": [run.key for run in queue],
            "counts": await store.live_counts(),
            "holders": [await store.holders(f"s{schedule}", 100) for schedule in self.schedules],
            "stops": sorted(one.launch.identity for one in await store.stop_requests(self.workers[-1])),
        }


@pytest.mark.parametrize("seed", first(1, range(40)))
async def test_both_stores_tell_the_same_story(
    database_url: str, anyio_backend: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = await World.begin(PostgresStore(database_url), lambda: None)
    clock = [real.start]
    false = await World.begin(memory.MemoryStore(lambda: clock[0]), lambda: None)

    async def virtual(_: object) -> int:
        return clock[0]

    monkeypatch.setattr(DeclarationsTx, "now", virtual)
    async with real:
        walks = [Walk(real, seed, clock), Walk(false, seed, clock)]
        for walk in walks:
            await walk.prepare()
        for number in range(STEPS):
            said = [await walk.step() for walk in walks]
            assert said[0] == said[1], f"seed {seed}, step {number}"
            first, second = [await walk.seen() for walk in walks]
            assert isinstance(first, dict) and isinstance(second, dict)
            for part, found in first.items():
                assert found == second[part], f"seed {seed}, step {number}, after {said[0]}: {part}"
