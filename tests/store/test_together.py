"""Everybody at once, on real PostgreSQL: several of each part and people besides, on the same few rows.

Afterwards nothing is out of step, no limit was ever passed, and nobody met a deadlock: that there is one order of locks
is a law, not a hope.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from conformance.worlds import NS, World, at_most, judged, plan_of

from tidegate.domain.admission import Admit
from tidegate.domain.clocks import Due
from tidegate.domain.errors import Unavailable
from tidegate.domain.instants import HOUR, SECOND
from tidegate.domain.retry import Finish, RetryAt
from tidegate.domain.runs import State
from tidegate.domain.triggers import AfterFinish, Interval
from tidegate.ports.engine import AttemptEnd, Started
from tidegate.ports.records import ClockState
from tidegate.store.store import PostgresStore

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
SPAN = 5.0  # seconds


class Crowd:
    """Parts that share nothing but the database."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.until = asyncio.get_running_loop().time() + SPAN
        self.met: Counter[str] = Counter()
        self.did: Counter[str] = Counter()
        self.random = random.Random(7)

    async def again(self, name: str, step: Any) -> None:
        """Repeat a step until the time is over, on a store of its own."""
        store = self.world.another()
        while asyncio.get_running_loop().time() < self.until:
            try:
                self.did[name] += await step(store, await store.now())
            except Unavailable as error:
                self.met[f"{name}: {error.code}"] += 1
            await asyncio.sleep(0)

    async def fire(self, store: Any, now: int) -> int:
        async with store.transaction(self.world.scheduler) as tx:
            due = await tx.claim_due(now, 5)
            await tx.record([plan_of(one, next_in=following(one)) for one in due], now)
        return len(due)

    async def admit(self, store: Any, now: int) -> int:
        async with store.transaction(self.world.scheduler) as tx:
            verdicts = await judged(tx, await tx.claim_waiting(now, 7))
            await tx.settle(verdicts, now)
        return sum(isinstance(one, Admit) for one in verdicts)

    async def work(self, store: Any, now: int) -> int:
        """Launch some, start some, end all in one or two transactions."""
        async with store.transaction(self.world.worker) as tx:
            launches = await tx.claim_ready(["command"], now, 5)
        self.random.shuffle(launches)
        async with store.transaction(self.world.worker) as tx:
            await tx.started([Started(attempt=one.attempt, backend_id="b") for one in launches], now)
        ends = []
        for one in launches:
            again = RetryAt(at=now + SECOND // 50, failures=1, lost=0)
            done = Finish(outcome=State.SUCCEEDED, reason="")
            then = again if self.random.random() < 0.2 else done
            ends.append(AttemptEnd(attempt=one.attempt, outcome="failed", error=None, ago=0, ran=True, then=then))
        async with store.transaction(self.world.worker) as tx:
            await tx.ended(ends, now)
        return len(ends)

    async def people(self, store: Any, now: int) -> int:
        """Revise, drop what waits, stop, resize: in transactions that hold several locks."""
        await asyncio.sleep(0.02)
        name = f"s{self.random.randrange(6)}"
        async with store.changing() as tx:
            [one] = await tx.lock_schedules(NS, [name])
            match self.random.randrange(4):
                case 0:
                    clock = ClockState(cursor=one.cursor, cursor_rev=one.rev + 1, next_due=one.next_due or now)
                    await tx.revise_schedule(
                        one.id,
                        one.spec,
                        {},
                        program=one.program.id,
                        mode=one.mode,
                        reason="",
                        author="a",
                        valid_from=now,
                        clock=clock,
                    )
                    await tx.end_waiting(one.id, State.SUPERSEDED, "", now)
                case 1:
                    await tx.end_waiting(one.id, State.SUPERSEDED, "", now)
                case 2:
                    await tx.put_pool("default", self.random.randrange(2, 5), None)
                case _:
                    page, _ = await store.runs(NS, schedule=name, states=[], since=None, before=None, limit=5)
                    for run in sorted(page, key=lambda run: run.key):
                        await tx.request_stop(run.key, "ann", now)
        return 1


@pytest.mark.requirement("GATE-11", "HA-4")
async def test_everybody_at_once(database_url: str, anyio_backend: str) -> None:
    async with await World.begin(PostgresStore(database_url), lambda: PostgresStore(database_url)) as world:
        for number in range(6):
            trigger = AfterFinish(delay=SECOND // 50) if number == 5 else Interval(every="PT1S")
            limits = at_most(2) if number % 2 else at_most(3, "program")
            await world.schedule(
                f"s{number}", program=f"p{number % 2}", trigger=trigger, constraints=limits, due=number
            )
        async with world.store.changing() as tx:
            await tx.put_pool("default", 4, None)
        crowd = Crowd(world)
        parts = [("fire", crowd.fire), ("admit", crowd.admit), ("work", crowd.work), ("people", crowd.people)]
        watch = asyncio.create_task(limits_hold(database_url))
        await asyncio.gather(*(crowd.again(name, step) for name, step in [*parts, *parts]))
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
        assert min(crowd.did[name] for name, _ in parts) > 5, crowd.did
        assert not crowd.met, f"{crowd.met} among {crowd.did}"

        now = await world.store.now()
        while await world.admit(now) or await world.waiting(now):
            pass
        token = await world.store.acquire("reconciler", world.scheduler, now, HOUR)
        assert list(await world.store.resync(world.scheduler, token, now)) == []


@pytest.mark.requirement("GATE-1")
@pytest.mark.parametrize("pool", [False, True])
async def test_who_was_locked_while_it_was_to_be_woken_is_woken_all_the_same(database_url: str, pool: bool) -> None:
    """Whoever joins a waiting run has it locked and does not judge it: an end must not pass it by meanwhile."""
    async with await World.begin(PostgresStore(database_url), lambda: PostgresStore(database_url)) as world:
        schedule = await world.schedule("orders", due=None, constraints=() if pool else at_most(1))
        if pool:
            async with world.store.changing() as tx:
                await tx.put_pool("default", 1, None)
        _, waiting = [await world.manual(schedule, world.at(number)) for number in range(2)]
        launches = await world.begin_runs(world.at(SECOND))
        assert len(launches) == 1
        async with await psycopg.AsyncConnection.connect(database_url) as other:
            await other.execute("SELECT FROM run_live WHERE state = 'waiting' FOR UPDATE")
            ending = asyncio.create_task(world.end(launches, world.at(2 * SECOND)))
            await asyncio.sleep(0.2)
        await ending
        assert [one.key for one in await world.waiting(await world.store.now())] == [waiting]


def following(due: Due) -> int | None:
    return None if isinstance(due.revisions[-1].spec.trigger, AfterFinish) else SECOND // 20


async def limits_hold(url: str) -> None:
    """Look again and again from outside."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while True:
            cursor = await connection.execute(
                "SELECT key, count(*) FROM run_live, unnest(held) AS key, program p WHERE p.name = 'p0'"
                " GROUP BY key, p.id"
                " HAVING count(*) > CASE WHEN key = 'p' || p.id THEN 3 WHEN key LIKE 's%' THEN 3 ELSE 6 END"
                " UNION ALL SELECT name, used FROM pool WHERE used > 4"
            )
            assert await cursor.fetchall() == []
            await asyncio.sleep(0.005)
