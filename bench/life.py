"""What people wait for: a deployment of which little differs, a page of a long queue, and why something has not run.

The queue holds runs of one schedule that wait for its window, copied by SQL from one that the admitter held; the pages
are asked for through `control`, as REST does, from the first on and from places in the middle.
"""

from __future__ import annotations

import asyncio
import random
from time import perf_counter

import psycopg

from bench import ground
from bench.figures import Figure, Say, at_most, percentile
from tidegate.control import applications, explain, runs, schedules
from tidegate.documents import parse_application
from tidegate.domain.constraints import Window
from tidegate.domain.instants import DAY, MINUTE
from tidegate.domain.programs import Command
from tidegate.domain.runs import Cause, State
from tidegate.domain.schedules import Concurrency
from tidegate.domain.triggers import Never
from tidegate.domain.windows import Span
from tidegate.engine.admitter import Admitter
from tidegate.store.store import PostgresStore

CHANGED = 10


def measure(
    say: Say, *, deployed: int = 1000, waiting: int = 100_000, declared: int = 10_000, looks: int = 200
) -> list[Figure]:
    """On a durable server; percentiles of `looks` questions one after another."""
    with ground.ground() as place:
        took, writes = asyncio.run(_deploy(place.database("deploy"), deployed))
        say(f"deployed {deployed:,} schedules, {CHANGED} changed: {took:.0f} ms, {writes} others written")
        template = asyncio.run(_declare(place.url))
        ground.multiply(place.url, template, declared)
        asyncio.run(_hold(place.url))
        _queue(place.url, waiting)
        pages, schedule, run = asyncio.run(_look(place.url, looks, declared))
        say(f"queue page {pages:.1f} ms, explain of a schedule {schedule:.1f} ms, of a waiting run {run:.1f} ms")
    many = f"p95 of {looks}, one after another"
    return [
        at_most("deployment, little differs", took, "ms", 1000, f"{deployed:,} schedules, {CHANGED} differ"),
        at_most("schedules written that do not differ", writes, "rows", 0, "the same"),
        at_most("queue page", pages, "ms", 50, f"{many}; 100 of {waiting:,} entries"),
        at_most("explain a schedule", schedule, "ms", 50, f"{many}; {declared:,} schedules"),
        at_most("explain a waiting run", run, "ms", 50, f"{many}; {waiting:,} wait for the same window"),
    ]


async def _deploy(url: str, count: int) -> tuple[float, int]:
    def application(changed: int) -> object:
        spec = {"program": "p", "trigger": {"type": "cron", "expression": "0 2 * * *"}, "enabled": True}
        listed = [
            {"metadata": {"name": f"s{number}"}, "spec": {**spec, "priority": 60 if number < changed else 50}}
            for number in range(count)
        ]
        programs = [{"metadata": {"name": "p"}, "spec": {"type": "command", "argv": ["true"]}}]
        return parse_application({"programs": programs, "schedules": listed}, namespace="bench", name="app")

    store = PostgresStore(url)
    try:
        await applications.deploy(store, application(0), who="bench")  # type: ignore[arg-type]
        before = _versions(url)
        differing = application(CHANGED)
        began = perf_counter()
        await applications.deploy(store, differing, who="bench")  # type: ignore[arg-type]
        took = (perf_counter() - began) * 1000
        changed = sum(before[row] != version for row, version in _versions(url).items())
        return took, changed - CHANGED
    finally:
        await store.close()


def _versions(url: str) -> dict[int, tuple[str, str, int]]:
    """What every write of a schedule would change."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT s.id, s.xmin::text, c.xmin::text, (SELECT count(*) FROM revision r WHERE r.schedule_id = s.id) "
            "FROM schedule s JOIN clock c ON c.schedule_id = s.id"
        ).fetchall()
    return {row[0]: (row[1], row[2], row[3]) for row in rows}


async def _declare(url: str) -> int:
    store = PostgresStore(url)
    try:
        now = await store.now()
        minutes = (now % DAY) // MINUTE
        closed = Span(start=(minutes + 600) % 1440, end=(minutes + 660) % 1440 or 1440)
        constraints = (Concurrency(max=1), Window(span=closed))
        return await ground.declare(store, "nightly", Command(argv=("true",)), Never(), constraints)  # type: ignore[arg-type]
    finally:
        await store.close()


async def _hold(url: str) -> None:
    """One run of it waits for its window, as the admitter leaves it."""
    store = PostgresStore(url)
    try:
        fence = await ground.enlist(store)
        now = await store.now()
        record = await schedules.get(store, ground.NAMESPACE, "nightly")
        async with store.changing() as tx:
            await tx.add_run(
                record.id, cause=Cause.EVIDENCE, caused_by="", fire_time=None, previous_fire=None, given=None,
                priority=50, now=now,
            )  # fmt: skip
        await Admitter(store, fence).step(now)
        (held,) = (await runs.queue(store, None)).items
        assert held.state is State.WAITING and held.wake_key is not None, held
    finally:
        await store.close()


def _queue(url: str, count: int) -> None:
    """That run so many times more, each a microsecond later."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        for table in ("run", "run_live"):
            found = connection.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 "
                "AND NOT attisdropped AND attgenerated = '' AND attname <> 'slot'",
                (table,),
            )
            names = [str(name) for (name,) in found]
            values = [f"t.{name}{' + g' if name == 'created_at' else ''}" for name in names]
            connection.execute(
                f"INSERT INTO {table} (slot, {', '.join(names)}) SELECT t.slot + g, {', '.join(values)} "
                f"FROM {table} t, generate_series(1, %s) g".encode(),
                (count - 1,),
            )
        connection.execute("VACUUM (ANALYZE) run, run_live")


async def _look(url: str, looks: int, declared: int) -> tuple[float, float, float]:
    """p95 of a queue page, of explaining a schedule, of explaining a waiting run; milliseconds."""
    rng = random.Random(1)
    store = PostgresStore(url)
    try:
        await schedules.get(store, ground.NAMESPACE, "nightly")
        pages, found, explained = [], [], []
        cursor: str | None = None
        seen = []
        for _ in range(looks):
            began = perf_counter()
            page = await runs.queue(store, None, cursor=cursor)
            pages.append(perf_counter() - began)
            seen += [one.key for one in page.items]
            cursor = page.next
        for _ in range(looks):
            name = f"copy{rng.randrange(1, declared)}"
            began = perf_counter()
            await explain.of_schedule(store, ground.NAMESPACE, name)
            found.append(perf_counter() - began)
            began = perf_counter()
            await explain.of_run(store, str(rng.choice(seen)))
            explained.append(perf_counter() - began)
        return tuple(percentile(took, 0.95) * 1000 for took in (pages, found, explained))  # type: ignore[return-value]
    finally:
        await store.close()
