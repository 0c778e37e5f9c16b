"""What a scheduler costs that has nothing to do: a million schedules against a thousand, also under an old snapshot.

A step is a real one of timekeeper and admitter, with all its questions to the database and nothing due. For the old
snapshot a session holds a transaction open while many clocks become due and move on, so that none of the entries that
they leave at the head of the queue can be removed. Every few seconds a store looks below its low-water mark in spite of
that (`store/floors.py`); what such a step costs is a figure of its own. At rest is a scheduler process that runs as
always, with heartbeats, resync and all.
"""

from __future__ import annotations

import asyncio
import time
from time import perf_counter

import psutil
import psycopg

from bench import ground
from bench.figures import Figure, Say, at_most, median
from tidegate.domain.instants import MINUTE
from tidegate.domain.programs import Command
from tidegate.domain.triggers import Cron
from tidegate.engine.admitter import Admitter
from tidegate.engine.timekeeper import Timekeeper
from tidegate.store.floors import BOTTOM
from tidegate.store.store import PostgresStore

NOOP = Command(argv=("true",))
FEW = 1000


def measure(
    say: Say, *, schedules: int = 1_000_000, steps: int = 2000, dead: int = 100_000, seconds: int = 40
) -> list[Figure]:
    """Both sizes have a database on the same server, and their steps take turns, so that a ratio means something on a
    machine that others use too."""
    with ground.ground() as place:
        small = place.database("few")
        for url, number in ((small, FEW), (place.url, schedules)):
            ground.multiply(url, asyncio.run(_declare(url)), number - 1)
        few, many, _ = asyncio.run(_compare(small, place.url, steps))
        say(f"a step: {few:.0f} us with {FEW:,} schedules, {many:.0f} us with {schedules:,}")
        with psycopg.connect(place.url) as old:
            old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            old.execute("SELECT count(*) FROM pool")  # from here on nothing that dies may be removed
            _wear(place.url, dead)
            calm, pinned, sweep = asyncio.run(_compare(small, place.url, steps))
            say(f"under an old snapshot: {calm:.0f} and {pinned:.0f} us, {sweep:.0f} us when it looks below the mark")
        share, database, grown = _rest(place, seconds)
        say(f"at rest: scheduler {share:.2f} %, database {database:.2f} % of a core, {grown:.1f} MB more")
    how = f"medians of {steps:,} idle steps in turn; {schedules:,} against {FEW:,} schedules"
    below = f"with {dead:,} dead entries at the queue's head; median"
    rest = f"a process with {schedules:,} schedules, over {seconds} s with one resync"
    return [
        at_most("idle step, many / few", many / few, "x", 1.3, how),
        at_most("idle step under an old snapshot", pinned / calm, "x", 1.3, f"the same, {below}"),
        at_most("a look below the mark", sweep / 1000, "ms", None, f"every 5 s under an old snapshot, {below} of five"),
        at_most("idle scheduler", share, "% of a core", 1.0, rest),
        at_most("database of an idle scheduler", database, "% of a core", None, rest),
        at_most("idle scheduler, memory", grown, "MB more", 1.0, rest),
    ]


async def _declare(url: str) -> int:
    store = PostgresStore(url)
    try:
        return await ground.declare(store, "idle", NOOP, Cron(expression="0 0 1 1 *", timezone="UTC"))
    finally:
        await store.close()


class Idler:
    """A timekeeper and an admitter with nothing to do."""

    def __init__(self, url: str) -> None:
        self.store = PostgresStore(url)

    async def begin(self) -> None:
        fence = await ground.enlist(self.store)
        self.timekeeper, self.admitter = Timekeeper(self.store, fence), Admitter(self.store, fence)
        for _ in range(100):
            await self.step()

    async def step(self) -> float:
        """Microseconds of a step of both, with the reading of the time."""
        self.timekeeper._next = None  # or it would not even ask
        began = perf_counter()
        now = await self.store.now()
        assert (await self.timekeeper.step(now)).did == 0
        assert (await self.admitter.step(now)).did == 0
        return (perf_counter() - began) * 1e6

    async def sweep(self) -> float:
        """The same, from the bottom of the queues."""
        self.store.parts.due.lower(BOTTOM)
        self.store.parts.wake.lower(BOTTOM)
        return await self.step()


async def _compare(small: str, large: str, steps: int) -> tuple[float, float, float]:
    """Median microseconds of an idle step with few and with many schedules, and with many from the bottom."""
    both = [Idler(small), Idler(large)]
    try:
        for one in both:
            await one.begin()
        sweeps = [await both[1].sweep() for _ in range(5)]
        times = [[await one.step() for one in both] for _ in range(steps)]
        return median([one[0] for one in times]), median([one[1] for one in times]), median(sweeps)
    finally:
        for one in both:
            await one.store.close()


def _wear(url: str, dead: int) -> None:
    """So many clocks are due an hour ago, and no more: what a day's work leaves in the index of the queue."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        (kept,) = connection.execute("SELECT min(next_due) FROM clock").fetchone() or (0,)
        past = time.time_ns() // 1000 - 60 * MINUTE
        for at in (past, kept):
            connection.execute("UPDATE clock SET next_due = %s WHERE schedule_id <= %s", (at, dead))
        connection.execute("VACUUM (ANALYZE) clock")


def _rest(place: ground.Ground, seconds: int) -> tuple[float, float, float]:
    """Per cent of a core of a scheduler process and of the database, and megabytes that the former grew."""
    with ground.roles(place, "scheduler") as pids:
        time.sleep(8)
        scheduler = psutil.Process(pids["scheduler"])
        memory = scheduler.memory_info().rss
        before = ground.cpu_of(pids["scheduler"]), ground.cpu_of(place.server_pid)
        time.sleep(seconds)
        after = ground.cpu_of(pids["scheduler"]), ground.cpu_of(place.server_pid)
        grown = scheduler.memory_info().rss - memory
    return (after[0] - before[0]) / seconds * 100, (after[1] - before[1]) / seconds * 100, grown / 1e6
