"""The admitter by itself: runs against many limits, and a window that opens for a hundred thousand.

The engine's own admitter over an embedded server with fsync on, one process, nothing beside it. What waits was made by
SQL; how it is judged, in which order and what is written is the engine's.
"""

from __future__ import annotations

import asyncio
import time

import psycopg

from bench import ground
from bench.figures import Figure, Say, at_least, at_most, median
from tidegate.domain.constraints import Concurrency as Limit
from tidegate.domain.constraints import Window
from tidegate.domain.instants import DAY, HOUR, MINUTE, Instant
from tidegate.domain.programs import Command
from tidegate.domain.schedules import ScheduleSpec
from tidegate.domain.triggers import Never
from tidegate.domain.windows import Span
from tidegate.engine.admitter import Admitter
from tidegate.store.codec import encode
from tidegate.store.store import PostgresStore

NOOP = Command(argv=("true",))
ADD = """
WITH made AS (
    INSERT INTO run (slot, schedule_id, ord, rev, program_id, fire_time, cause, priority, created_at)
    SELECT {now}, c.schedule_id, g, c.rev, c.program_id, {now}, 'backfill', g %% 100, {now} - g
    FROM clock c, generate_series(1, {each}) g
    RETURNING *
)
INSERT INTO run_live (slot, schedule_id, ord, state, rev, program_id, kind, pool, fire_time, cause, priority,
                      created_at, wake_at)
SELECT slot, schedule_id, ord, 'waiting', rev, program_id, 'command', 'default', fire_time, cause, priority, created_at,
       {now}
FROM made;
""".replace("%%", "%")


def measure(say: Say, *, runs: int = 1000, limits: int = 100, waiting: int = 100_000) -> list[Figure]:
    """Raises AssertionError where a limit is passed, or the order is not that of rank."""
    with ground.ground() as place:
        spans = asyncio.run(_limited(place, runs, limits))
        say(f"{runs:,} runs against {limits} limits: " + " ".join(f"{span * 1000:.0f}" for span in spans) + " ms")
        idle, rate = asyncio.run(_window(place, say, waiting))
    how = f"{runs:,} waiting runs of {limits} schedules with a limit each, judged and made ready; median of 5"
    opened = f"{waiting:,} runs wait for one window; from its opening to the commit that made the last one ready"
    return [
        at_most("admission: against limits", median(spans) * 1000, "ms", 100 if runs == 1000 else None, how),
        at_most("admission: a look while they wait", idle * 1000, "ms", None, f"{waiting:,} wait; mean of 100 looks"),
        at_least("admission: a window opens", rate, "runs/s", 5000 if waiting == 100_000 else None, opened),
    ]


async def _limited(place: ground.Ground, runs: int, limits: int) -> list[float]:
    """Seconds to judge `runs` of `limits` schedules, of which half pass their limit; six times, the first not counted,
    since statements are prepared in it."""
    url = place.database("limited")
    each = runs // limits
    store = PostgresStore(url)
    spans = []
    try:
        template = await ground.declare(store, "limited", NOOP, Never(), (Limit(max=max(1, each // 2)),))
        ground.multiply(url, template, limits - 1)
        fence = await ground.enlist(store)
        async with store.changing() as tx:
            await tx.put_pool("default", runs, None)
        admitter = Admitter(store, fence)
        for _ in range(6):
            ground.empty(url)
            _execute(url, "UPDATE limit_counter SET held = 0")
            _execute(url, "UPDATE pool SET used = 0")
            now = await store.now()
            _fill(url, now, each)
            began = time.perf_counter()
            while (await admitter.step(now)).left:
                pass
            spans.append(time.perf_counter() - began)
            with psycopg.connect(url) as connection:
                found = connection.execute("SELECT count(*) FILTER (WHERE ready), count(*) FROM run_live").fetchone()
            assert found == (limits * max(1, each // 2), limits * each), found
    finally:
        await store.close()
    return spans[1:]


async def _window(place: ground.Ground, say: Say, waiting: int) -> tuple[float, float]:
    """Seconds of a look while all wait, and how many a second are admitted once it is open."""
    url = place.database("night")
    store = PostgresStore(url)
    try:
        now = await store.now()
        opens = now // DAY * DAY + DAY + HOUR
        constraints = (Window(span=Span(start=60, end=120)), Limit(max=waiting))
        await ground.declare(store, "night", NOOP, Never())
        _say(url, ScheduleSpec(program="night", trigger=Never(), constraints=constraints))
        fence = await ground.enlist(store)
        async with store.changing() as tx:
            await tx.put_pool("default", waiting, None)
        await store.ensure_partitions(opens, DAY)
        _fill(url, now, waiting)
        admitter = Admitter(store, fence)
        await _until_rest(admitter, min(now + MINUTE, opens - 1))
        assert await store.next_wake() == opens
        say(f"{waiting:,} wait")
        _vacuum(url)
        began = time.perf_counter()
        for _ in range(100):
            await admitter.step(opens - 1)
        idle = (time.perf_counter() - began) / 100
        began = time.perf_counter()
        await _until_rest(admitter, opens)
        took = time.perf_counter() - began
        say(f"all admitted in {took:.1f} s")
    finally:
        await store.close()
    with psycopg.connect(url) as connection:
        out_of_order = connection.execute(
            "SELECT count(*), count(*) FILTER (WHERE rank < before) FROM ("
            "  SELECT l.rank, max(l.rank) OVER (ORDER BY e.xid::text::bigint RANGE BETWEEN UNBOUNDED PRECEDING"
            "                                   AND 1 PRECEDING) AS before"
            "  FROM event e JOIN run_live l USING (slot, schedule_id, ord) WHERE e.type = 'run.ready' AND l.ready) AS d"
        ).fetchone()
    assert out_of_order == (waiting, 0), out_of_order
    return idle, waiting / took


async def _until_rest(admitter: Admitter, now: Instant) -> None:
    """Step until nothing is to be done at that instant."""
    while True:
        outcome = await admitter.step(now)
        if not outcome.left and not outcome.did and (outcome.next is None or outcome.next > now):
            return


def _say(url: str, spec: ScheduleSpec) -> None:
    """What every schedule says from the beginning: nobody has read it yet."""
    _execute(url, "UPDATE revision SET spec = %s", (encode(spec),))


def _fill(url: str, now: Instant, each: int) -> None:
    _execute(url, "SET synchronous_commit = off")
    _execute(url, ADD.format(now=now, each=each))
    _vacuum(url)


def _vacuum(url: str) -> None:
    """As a server leaves tables that had time to clean up."""
    _execute(url, "VACUUM (ANALYZE) run_live, run, event, limit_counter, pool, queue_wake")
    _execute(url, "CHECKPOINT")


def _execute(url: str, statement: str, parameters: tuple[object, ...] | None = None) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode(), parameters)
