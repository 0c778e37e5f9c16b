"""From publishing an event over REST to a started command, beside 100,000 subscriptions that have not enough yet.

API, scheduler and worker run as processes, as they always do. Each of a few schedules waits for one event of its own
key; one client publishes to each of them once a second, spread over the second, one event in a request. The span begins
just before the client sends, and ends with what the command itself reads from the clock (`date`), fork, exec and all.
"""

from __future__ import annotations

import asyncio
import re
import socket
import time
from pathlib import Path

import httpx
import psycopg

from bench import ground
from bench.events import TYPE, spread
from bench.figures import Figure, Say, at_most, percentile
from tidegate.domain.ids import AttemptKey, RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.programs import Command
from tidegate.domain.triggers import Happened
from tidegate.launchers.logs import FileLogs
from tidegate.store.store import PostgresStore

COMMAND = Command(argv=("date", "+started=%s%N"))
WARM = 10
"""Seconds that are not counted: connections, caches and nursery come up in them."""


def measure(say: Say, *, subscriptions: int = 100_000, active: int = 8, seconds: int = 40) -> list[Figure]:
    """Spans of every publication after the first ten seconds."""
    with ground.ground({"track_commit_timestamp": "on"}) as place:
        say(f"making {subscriptions:,} subscriptions")
        schedules = asyncio.run(_prepare(place, subscriptions, active))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with ground.roles(place, "scheduler", "worker", "api", environment={"TIDEGATE_API__PORT": str(port)}):
            say(f"{active} publications a second for {WARM + seconds} s")
            spans = asyncio.run(_publish(f"http://127.0.0.1:{port}", active, WARM + seconds))
            time.sleep(2)
            found = asyncio.run(_read(place, schedules, spans))
    how = f"{len(found)} events over REST in {seconds} s, beside {subscriptions:,} subscriptions"
    figures = []
    names = ("publish to answered", "publish to a recorded run", "publish to a command started")
    for column, (name, goal) in enumerate(zip(names, (None, None, 100.0), strict=True)):
        took = [one[column] / 1000 for one in found]
        half, most = percentile(took, 0.5), percentile(took, 0.99)
        say(f"{name}: p50 {half:.1f} ms, p99 {most:.1f} ms, worst {max(took):.1f} ms")
        figures.append(at_most(f"{name}, p50", half, "ms", None, how))
        figures.append(at_most(f"{name}, p99", most, "ms", goal, how))
    return figures


async def _prepare(place: ground.Ground, subscriptions: int, active: int) -> list[int]:
    store = PostgresStore(place.url)
    try:
        await ground.enlist(store)
        await spread(store, place.url, subscriptions, 1, 1000)
        return [
            await ground.declare(store, f"live{number}", COMMAND, Happened(event=TYPE, key=f"bench/live{number}"))
            for number in range(active)
        ]
    finally:
        await store.close()


async def _publish(url: str, active: int, seconds: int) -> list[list[tuple[Instant, Instant]]]:
    """For each schedule: when each of its events was sent and answered, in order."""
    spans: list[list[tuple[Instant, Instant]]] = [[] for _ in range(active)]

    async def one(client: httpx.AsyncClient, number: int) -> None:
        began = time.time_ns() // 1000
        answer = await client.post("/api/v1/events", json={"type": TYPE, "key": f"bench/live{number}", "payload": {}})
        spans[number].append((began, time.time_ns() // 1000))
        assert answer.status_code == 202, answer.text

    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        start = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as tasks:
            for turn in range(seconds * active):
                await asyncio.sleep(start + turn / active - asyncio.get_running_loop().time())
                tasks.create_task(one(client, turn % active))
    return spans


async def _read(
    place: ground.Ground, schedules: list[int], spans: list[list[tuple[Instant, Instant]]]
) -> list[tuple[int, int, int]]:
    """For each event after the first seconds: microseconds from sending to the answer, to the commit of its run, and to
    the command's own word. A schedule's runs are its events, one for one and in order."""
    logs = FileLogs(Path(place.home))
    found = []
    with psycopg.connect(place.url) as connection:
        for schedule, sent in zip(schedules, spans, strict=True):
            rows = connection.execute(
                "SELECT r.slot, r.ord, (extract(epoch FROM pg_xact_commit_timestamp(e.xid::xid)) * 1000000)::bigint, "
                "r.outcome FROM run r JOIN event e ON e.slot = r.slot AND e.schedule_id = r.schedule_id "
                "AND e.ord = r.ord AND e.type = 'run.waiting' WHERE r.schedule_id = %s ORDER BY r.slot, r.ord",
                (schedule,),
            ).fetchall()
            assert len(rows) == len(sent), f"{len(sent)} events, {len(rows)} runs"
            for (slot, order, recorded, outcome), (began, answered) in list(zip(rows, sent, strict=True))[WARM:]:
                assert outcome == "succeeded", (slot, schedule, outcome)
                said = (await logs.read(AttemptKey(RunKey(slot, ScheduleId(schedule), order), 1), 0)).text
                started = re.search(r"started=(\d+)", said)
                assert started is not None, said
                found.append((answered - began, recorded - began, int(started[1]) // 1000 - began))
    return found
