"""A hundred thousand schedules due in the same second, recorded by a scheduler that runs as it always does.

All of the scheduler is at work: while the timekeeper records, the admitter already lets runs go or makes them wait. An
instant of recording is the commit's, as the database itself notes it (`track_commit_timestamp`).
"""

from __future__ import annotations

import asyncio
import time

import psycopg

from bench import ground
from bench.figures import Figure, Say, at_most
from tidegate.domain.instants import MINUTE, SECOND, Instant, to_datetime
from tidegate.domain.programs import Command
from tidegate.domain.triggers import Cron
from tidegate.store.store import PostgresStore

NOOP = Command(argv=("true",))


def measure(say: Say, *, schedules: int = 100_000) -> list[Figure]:
    """Raises AssertionError where a fire is missing or doubled."""
    with ground.ground({"track_commit_timestamp": "on"}) as place:
        due = asyncio.run(_prepare(place, schedules))
        with ground.roles(place, "scheduler") as pids, psycopg.connect(place.url, autocommit=True) as connection:
            assert time.time() < due / SECOND - 2, "the schedules were not ready in time"
            say(f"{schedules:,} schedules wait for {to_datetime(due):%H:%M:%S}")
            time.sleep(due / SECOND - time.time() - 0.1)
            before = ground.cpu_of(pids["scheduler"]), ground.cpu_of(place.server_pid)
            time.sleep(1)
            deadline = time.monotonic() + 120
            while connection.execute("SELECT count(*) FROM run").fetchone() != (schedules,):
                assert time.monotonic() < deadline, "not all of them were recorded in two minutes"
                time.sleep(1)
            after = ground.cpu_of(pids["scheduler"]), ground.cpu_of(place.server_pid)
            say(f"CPU: scheduler {after[0] - before[0]:.1f} s, database {after[1] - before[1]:.1f} s")
            found = connection.execute(
                "SELECT count(*), count(DISTINCT schedule_id), count(DISTINCT slot), "
                "extract(epoch FROM max(pg_xact_commit_timestamp(xid::xid))), "
                "extract(epoch FROM percentile_disc(0.5) WITHIN GROUP (ORDER BY pg_xact_commit_timestamp(xid::xid))) "
                "FROM event WHERE type = 'run.waiting'"
            ).fetchone()
    assert found is not None and found[:3] == (schedules, schedules, 1), found
    last, half = (float(at) - due / SECOND for at in found[3:])
    how = f"one scheduler process, {schedules:,} daily schedules; from the second they were due in to the last commit"
    return [
        at_most("midnight: half recorded", half, "s", None, "of the same"),
        at_most("midnight: all recorded", last, "s", 5.0 if schedules == 100_000 else None, how),
    ]


async def _prepare(place: ground.Ground, schedules: int) -> Instant:
    """Declare them for a second that is far enough away; which one that is."""
    store = PostgresStore(place.url)
    try:
        due = (await store.now() // SECOND + 25 + schedules // 5_000) * SECOND
        at = to_datetime(due)
        trigger = Cron(expression=f"{at:%-S %-M %-H} * * *", timezone="UTC", seconds=True)
        template = await ground.declare(store, "daily", NOOP, trigger)
        await store.ensure_partitions(await store.now(), MINUTE)
    finally:
        await store.close()
    ground.multiply(place.url, template, schedules - 1)
    return due
