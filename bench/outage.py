"""A year of a thousand minutely schedules, caught up after an outage and asked for as backfills: time, and memory.

Half a milliard fire times. The engine's own parts are cranked here, so that what this process needs can be seen: its
resident memory, looked at after every pass.
"""

from __future__ import annotations

import asyncio
import gc
from time import perf_counter

import psutil
import psycopg

from bench import ground
from bench.figures import Figure, Say, at_least, at_most
from tidegate.control import backfills
from tidegate.domain.backfills import Wish
from tidegate.domain.instants import DAY, MINUTE, Instant
from tidegate.domain.programs import Command
from tidegate.domain.schedules import CatchUp, CatchUpPolicy
from tidegate.domain.triggers import Cron
from tidegate.engine.backfiller import Backfiller, BackfillerSettings
from tidegate.engine.outcome import Part
from tidegate.engine.timekeeper import Timekeeper, TimekeeperSettings
from tidegate.store.codec import encode
from tidegate.store.store import PostgresStore

NOOP = Command(argv=("true",))
YEAR = 365 * DAY
MEGABYTE = 1_000_000
MEMORY_GOAL = 100.0  # MB beside what the process needs before it begins
ENDED = """
WITH gone AS (DELETE FROM run_live RETURNING slot, schedule_id, ord)
UPDATE run r SET outcome = 'succeeded', started_at = created_at, finished_at = created_at FROM gone g
WHERE r.slot = g.slot AND r.schedule_id = g.schedule_id AND r.ord = g.ord
"""


def measure(say: Say, *, schedules: int = 1000, passes: int = 100, rounds: int = 10) -> list[Figure]:
    """`passes` of a catch-up that runs everything, `rounds` in which each backfill makes a run. Raises AssertionError
    where a fire time is lost or doubled."""
    with ground.ground() as place:
        return asyncio.run(_measure(say, place, schedules, passes, rounds))


async def _measure(say: Say, place: ground.Ground, schedules: int, passes: int, rounds: int) -> list[Figure]:
    store = PostgresStore(place.url)
    try:
        template = await ground.declare(store, "minutely", NOOP, Cron(expression="* * * * *"))
        ground.multiply(place.url, template, schedules - 1)
        now = await store.now() // MINUTE * MINUTE
        await store.ensure_partitions(now, DAY)
        many = YEAR // MINUTE * schedules
        say(f"{schedules:,} schedules, {many:,} fire times")
        latest = await _catch_up(say, place, store, now, CatchUp(policy=CatchUpPolicy.LATEST), None)
        everything = CatchUp(policy=CatchUpPolicy.ALL, window=400 * DAY, max=YEAR // MINUTE)
        through = await _catch_up(say, place, store, now, everything, passes)
        asked = await _backfill(say, place, store, now, schedules, rounds)
    finally:
        await store.close()
    whole = f"{schedules:,} minutely schedules behind by a year, {many:,} fire times"
    filled = f"{schedules:,} backfills of a year, one run of each at a time; each round all their runs end"
    return [
        at_most("a year caught up, latest", latest[0], "s", None, f"{whole}; one scheduler, in PostgreSQL"),
        at_most(
            "memory meanwhile", latest[1], "MB", MEMORY_GOAL, "resident, most after any pass, beside the beginning"
        ),
        at_least("a year caught up, all", through[2] / through[0], "runs/s", None, f"{whole}; {passes} passes of 100"),
        at_most("memory meanwhile, all", through[1], "MB", MEMORY_GOAL, "the same"),
        at_most("a backfill asked for", asked[3], "ms", None, "previewed and made, one after another, by control"),
        at_least("backfilled", asked[2] / asked[0], "runs/s", None, f"{filled}; made and counted"),
        at_most("memory meanwhile, backfilled", asked[1], "MB", MEMORY_GOAL, "the same"),
    ]


async def _catch_up(
    say: Say, place: ground.Ground, store: PostgresStore, now: Instant, policy: CatchUp, passes: int | None
) -> tuple[float, float, int]:
    """Seconds, megabytes, runs: until nothing is due, or for so many passes."""
    with psycopg.connect(place.url, autocommit=True) as connection:
        (spec,) = connection.execute("SELECT spec::jsonb - 'catch_up' FROM revision LIMIT 1").fetchone() or ({},)
        said = f'{{"catch_up":{encode(policy)},{encode(spec)[1:]}'
        connection.execute("UPDATE revision SET spec = %s, valid_from = %s", (said, now - YEAR))
    ground.make_due(place.url, now - YEAR, now - YEAR + MINUTE)
    fresh = PostgresStore(place.url)  # remembers no revision
    try:
        fence = await ground.enlist(fresh)
        keeper = Timekeeper(fresh, fence, TimekeeperSettings(catch_up_pause=0))
        seconds, memory = await _crank(keeper, fresh, now, passes)
    finally:
        await fresh.close()
    with psycopg.connect(place.url, autocommit=True) as connection:
        row = connection.execute(
            "SELECT (SELECT count(*) FROM run), (SELECT coalesce(sum(n), 0)::bigint FROM fire_range), "
            "(SELECT count(*) FROM clock)"
        ).fetchone()
    assert row is not None
    ran, missed, clocks = row
    assert passes is not None or ran + missed == YEAR // MINUTE * clocks, (ran, missed)
    say(f"{policy.policy.value}: {ran:,} run, {missed:,} missed, {seconds:.1f} s, {memory:.0f} MB more")
    return seconds, memory, ran


async def _crank(part: Part, store: PostgresStore, now: Instant, passes: int | None) -> tuple[float, float]:
    """Seconds, and the most megabytes more than at the beginning."""
    gc.collect()
    process = psutil.Process()
    before = most = process.memory_info().rss
    began, done = perf_counter(), 0
    while passes is None or done < passes:
        outcome = await part.step(now)
        done += 1
        most = max(most, process.memory_info().rss)
        if not outcome.did:
            break
    return perf_counter() - began, (most - before) / MEGABYTE


async def _backfill(
    say: Say, place: ground.Ground, store: PostgresStore, now: Instant, schedules: int, rounds: int
) -> tuple[float, float, int, float]:
    """Seconds of walking, megabytes, runs, and milliseconds to ask for one."""
    ground.make_due(place.url, now, None)
    with psycopg.connect(place.url, autocommit=True) as connection:
        names = [str(name) for (name,) in connection.execute("SELECT name FROM schedule ORDER BY id")]
    began = perf_counter()
    for name in names:
        await backfills.create(store, ground.NAMESPACE, name, Wish(start=now - YEAR, end=now), who="bench")
    each = (perf_counter() - began) / len(names) * 1000
    say(f"{len(names):,} backfills asked for, {each:.1f} ms each")
    fence = await ground.enlist(store)
    part = Backfiller(store, fence, BackfillerSettings(pause=0))
    at, seconds, memory = await store.now(), 0.0, 0.0
    with psycopg.connect(place.url, autocommit=True) as connection:
        for number in range(rounds):
            took, more = await _crank(part, store, at + number, None)
            seconds, memory = seconds + took, max(memory, more)
            connection.execute(ENDED)
        row = connection.execute("SELECT count(*), count(DISTINCT (schedule_id, fire_time)) FROM run").fetchone()
    assert row == (schedules * rounds, schedules * rounds), row
    say(f"{row[0]:,} runs in {seconds:.1f} s, {memory:.0f} MB more")
    return seconds, memory, row[0], each
