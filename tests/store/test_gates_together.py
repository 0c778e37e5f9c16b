"""Gates under a crowd, on real PostgreSQL: admitters, workers and people at once, on the same few queues.

Nobody meets a deadlock, no rate is passed, and nothing is forgotten: once everything is open again all of it runs,
without the resync having to mend anything.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import psycopg
import pytest
from conformance.worlds import NS, World

from tidegate.domain.admission import Admit, admit, needs_of
from tidegate.domain.calendars import Calendar
from tidegate.domain.constraints import Blackout, Concurrency, Constraint, Gauge, Load, MinInterval, Rate, Window
from tidegate.domain.errors import Unavailable
from tidegate.domain.instants import HOUR, MILLISECOND, SECOND
from tidegate.domain.retry import Finish, RetryAt
from tidegate.domain.runs import Cause, State
from tidegate.domain.schedules import Mode
from tidegate.domain.triggers import Never
from tidegate.domain.windows import Span
from tidegate.ports.engine import AttemptEnd, Started
from tidegate.ports.records import ClockState
from tidegate.store.store import PostgresStore

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
SPAN = 5.0  # seconds
RATE = Rate(max=4, per=300 * MILLISECOND, scope="group:g")
WIDE = Concurrency(max=50)
GATES: tuple[tuple[Constraint, ...], ...] = (
    (RATE, WIDE),
    (RATE, Concurrency(max=2, scope="group:g"), WIDE),
    (MinInterval(duration=30 * MILLISECOND), WIDE),
    (Load(resource="cpu", below=50), WIDE),
    (Blackout(calendar="c"), Concurrency(max=3, scope="program")),
    (Window(span=Span(start=0, end=1440)), Concurrency(max=1)),
)


class Crowd:
    """Parts that share nothing but the database."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.until = asyncio.get_running_loop().time() + SPAN
        self.met: Counter[str] = Counter()
        self.did: Counter[str] = Counter()
        self.random = random.Random(11)

    async def again(self, name: str, step: Any) -> None:
        store = self.world.another()
        while asyncio.get_running_loop().time() < self.until:
            try:
                self.did[name] += await step(store, await store.now())
            except Unavailable as error:
                self.met[f"{name}: {error.code}"] += 1
            await asyncio.sleep(0)

    async def admit(self, store: Any, now: int) -> int:
        async with store.transaction(self.world.scheduler) as tx:
            found = await tx.claim_waiting(now, 7)
            verdicts: list[Any] = []
            if found:
                verdicts = admit(found, await tx.admission_facts(needs_of(found), now), now=now)
                await tx.settle(verdicts, now)
        return sum(isinstance(one, Admit) for one in verdicts)

    async def work(self, store: Any, now: int) -> int:
        async with store.transaction(self.world.worker) as tx:
            launches = await tx.claim_ready(["command"], now, 5)
        some = [one for one in launches if self.random.random() < 0.8]  # the others end without having started
        async with store.transaction(self.world.worker) as tx:
            await tx.started([Started(attempt=one.attempt, backend_id="b") for one in some], now)
        ends = []
        for one in launches:
            again = RetryAt(at=now + SECOND // 50, failures=1, lost=0)
            done = Finish(outcome=State.SUCCEEDED if one in some else State.FAILED, reason="")
            then = again if self.random.random() < 0.2 else done
            outcome = "failed" if one in some else "refused"
            ends.append(AttemptEnd(attempt=one.attempt, outcome=outcome, error=None, ago=0, ran=one in some, then=then))
        async with store.transaction(self.world.worker) as tx:
            await tx.ended(ends, now)
        return len(ends)

    async def add(self, store: Any, now: int) -> int:
        await asyncio.sleep(0.01)
        async with store.changing() as tx:
            [one] = await tx.lock_schedules(NS, [f"s{self.random.randrange(len(GATES))}"])
            await tx.add_run(
                one.id,
                cause=Cause.BACKFILL,
                caused_by="a",
                fire_time=None,
                previous_fire=None,
                given=None,
                priority=self.random.randrange(100),
                now=now,
            )
        return 1

    async def people(self, store: Any, now: int) -> int:
        await asyncio.sleep(0.02)
        match self.random.randrange(5):
            case 0:
                async with store.changing() as tx:
                    await (tx.unfreeze(now) if await store.frozen() else tx.freeze("ann", "", now))
            case 1:
                closed = ((now - SECOND, now + self.random.randrange(300) * MILLISECOND),)
                async with store.changing() as tx:
                    if self.random.random() < 0.2:
                        await tx.delete_calendar("c", now)
                    else:
                        await tx.put_calendar(Calendar(name="c", spans=closed), {}, now)
            case 2:
                gauge = Gauge(value=float(self.random.randrange(100)), at=now)
                await store.record_gauge(self.world.scheduler, "cpu", gauge, now)
            case 3:
                mode = self.random.choice([Mode.ENABLED, Mode.BACKLOG, Mode.HOLD])
                await self.turn(store, self.random.randrange(len(GATES)), mode, now)
            case _:
                async with store.changing() as tx:
                    page, _ = await store.queue(NS, None, 3)
                    for run in sorted(page, key=lambda run: run.key):
                        await tx.request_stop(run.key, "ann", now)
        return 1

    async def turn(self, store: Any, number: int, mode: Mode, now: int) -> None:
        async with store.changing() as tx:
            [one] = await tx.lock_schedules(NS, [f"s{number}"])
            await tx.revise_schedule(
                one.id,
                one.spec,
                {},
                program=one.program.id,
                mode=mode,
                reason="",
                author="a",
                valid_from=max(now, one.valid_from),
                clock=ClockState(cursor=one.cursor, cursor_rev=one.rev + 1, next_due=None),
            )

    async def open_all(self, store: Any) -> None:
        for number in range(len(GATES)):
            await self.turn(store, number, Mode.ENABLED, await store.now())
        now = await store.now()
        async with store.changing() as tx:
            await tx.unfreeze(now)
            await tx.put_calendar(Calendar(name="c"), {}, now)
        await store.record_gauge(self.world.scheduler, "cpu", Gauge(value=1.0, at=now), now)


@pytest.mark.requirement("GATE-11", "GATE-12", "GATE-3")
async def test_gates_under_a_crowd(database_url: str, anyio_backend: str) -> None:
    async with await World.begin(PostgresStore(database_url), lambda: PostgresStore(database_url)) as world:
        for number, gates in enumerate(GATES):
            said: dict[str, Any] = {"due": None, "trigger": Never(), "groups": ("g",) if RATE in gates else ()}
            await world.schedule(f"s{number}", program=f"p{number}", constraints=gates, **said)
        crowd = Crowd(world)
        parts = [("admit", crowd.admit), ("work", crowd.work), ("add", crowd.add), ("people", crowd.people)]
        await asyncio.gather(*(crowd.again(name, step) for name, step in [*parts, *parts]))
        assert min(crowd.did[name] for name, _ in parts) > 5, crowd.did
        assert not crowd.met, f"{crowd.met} among {crowd.did}"

        await crowd.open_all(world.store)
        crowd.until = asyncio.get_running_loop().time() + 60
        while asyncio.get_running_loop().time() < crowd.until:
            now = await world.store.now()
            await crowd.admit(world.store, now)
            await crowd.work(world.store, now)
            if not await world.store.live_counts():
                break
            upcoming = await world.store.next_wake()
            if upcoming is not None and upcoming > now:  # it sleeps as the engine does
                await asyncio.sleep(min((upcoming - now) / SECOND, 1))
        left, _ = await world.store.queue(None, None, 10)
        assert await world.store.live_counts() == {}, [(one.key, one.wake_key, one.waiting_for) for one in left]
        assert _most_within(database_url, RATE.per - 50 * MILLISECOND) <= RATE.max
        now = await world.store.now()
        token = await world.store.acquire("reconciler", world.scheduler, now, HOUR)
        assert list(await world.store.resync(world.scheduler, token, now)) == []


def _most_within(url: str, span: int) -> int:
    """How many first attempts of the group that started lie within a span of that length. (An attempt is on record
    from the instant that its worker read last, a little earlier than it is made.)"""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT a.created_at FROM attempt a JOIN program p ON p.name IN ('p0', 'p1')"
            " JOIN run r USING (slot, schedule_id, ord)"
            " WHERE a.number = 1 AND r.program_id = p.id AND r.started_at IS NOT NULL ORDER BY 1"
        ).fetchall()
    at = [row[0] for row in rows]
    return max((sum(first <= other < first + span for other in at) for first in at), default=0)
