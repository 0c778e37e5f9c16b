"""From due to recorded and from due to a started command, beside a million schedules that are not due.

Scheduler and worker run as they always do. A few schedules are due every second, spread over the second by their
anchors; a commit's instant is the database's own (`track_commit_timestamp`), and a start's is what the command itself
reads from the clock (`date`), fork, exec and all.
"""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import psycopg

from bench import ground
from bench.figures import Figure, Say, at_most, percentile
from tidegate.domain.ids import AttemptKey, RunKey, ScheduleId
from tidegate.domain.instants import DAY, SECOND, Instant
from tidegate.domain.programs import Command
from tidegate.domain.triggers import Cron, Interval
from tidegate.launchers.logs import FileLogs
from tidegate.store.store import PostgresStore

COMMAND = Command(argv=("date", "+started=%s%N"))


def measure(say: Say, *, schedules: int = 1_000_000, active: int = 8, seconds: int = 40) -> list[Figure]:
    """The first ten seconds are not counted: connections, caches and nursery come up in them."""
    with ground.ground({"track_commit_timestamp": "on"}) as place:
        say(f"making {schedules:,} schedules that are due in days")
        asyncio.run(_prepare(place, schedules, active))
        with ground.roles(place, "scheduler", "worker"):
            say(f"{active} schedules a second for {seconds + 10} s")
            time.sleep(seconds + 12)
            after = int((time.time() - seconds - 1) * SECOND)
            found = asyncio.run(_read(place, after, after + (seconds - 2) * SECOND))
    how = f"{len(found)} commands in {seconds} s beside {schedules:,} idle schedules"
    figures = []
    for column, (name, goal) in enumerate((("due to recorded", 10.0), ("due to a command started", 50.0))):
        spans = [one[column] / 1000 for one in found]
        half, most = percentile(spans, 0.5), percentile(spans, 0.99)
        say(f"{name}: p50 {half:.1f} ms, p99 {most:.1f} ms, worst {max(spans):.1f} ms")
        figures.append(at_most(f"{name}, p50", half, "ms", None, how))
        figures.append(at_most(f"{name}, p99", most, "ms", goal, how))
    return figures


async def _prepare(place: ground.Ground, schedules: int, active: int) -> None:
    store = PostgresStore(place.url)
    try:
        template = await ground.declare(store, "idle", Command(argv=("true",)), Cron(expression="0 0 1 1 *"))
        now = await store.now()
        await store.ensure_partitions(now, DAY)
        ground.multiply(place.url, template, schedules - 1)
        for number in range(active):
            anchor = now // SECOND * SECOND + number * SECOND // active
            await ground.declare(store, f"tick{number}", COMMAND, Interval(every="PT1S", anchor=anchor))
    finally:
        await store.close()


async def _read(place: ground.Ground, after: Instant, until: Instant) -> list[tuple[int, int]]:
    """For each run that was due in between: microseconds from due to its commit, and to its command's own word."""
    logs = FileLogs(Path(place.home))
    with psycopg.connect(place.url) as connection:
        rows = connection.execute(
            "SELECT r.slot, r.schedule_id, r.ord, "
            "(extract(epoch FROM pg_xact_commit_timestamp(e.xid::xid)) * 1000000)::bigint, r.outcome "
            "FROM run r JOIN event e ON e.slot = r.slot AND e.schedule_id = r.schedule_id AND e.type = 'run.waiting' "
            "WHERE r.slot > %s AND r.slot <= %s ORDER BY r.slot",
            (after, until),
        ).fetchall()
    found = []
    for slot, schedule, order, recorded, outcome in rows:
        assert outcome == "succeeded", (slot, schedule, outcome)
        said = (await logs.read(AttemptKey(RunKey(slot, ScheduleId(schedule), order), 1), 0)).text
        started = re.search(r"started=(\d+)", said)
        assert started is not None, said
        found.append((recorded - slot, int(started[1]) // 1000 - slot))
    assert found, "nothing was due"
    return found
