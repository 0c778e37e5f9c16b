"""No-op Python functions, from the second they are due in to their recorded end: scheduler, worker, pool, ledger.

All are due in the same second and go the whole way: recorded, admitted, claimed, started in a pooled process, ended,
and the end recorded with its attempt, statistics and released slot. The `default` pool is given a slot for each, since
what is measured is how fast they go and not how few may. (`bench/python_pool.py` shows the pool alone.)
"""

from __future__ import annotations

import asyncio
import time

import psycopg

from bench import ground
from bench.figures import Figure, Say, at_least
from tidegate.domain.instants import SECOND, Instant, to_datetime
from tidegate.domain.programs import Python
from tidegate.domain.triggers import Cron
from tidegate.store.store import PostgresStore


def measure(say: Say, *, runs: int = 20_000) -> list[Figure]:
    """Raises AssertionError where one is missing, doubled or did not succeed."""
    with ground.ground({"track_commit_timestamp": "on"}) as place:
        (place.home / "programs.py").write_text("def noop() -> None: ...\n")
        due, again = asyncio.run(_prepare(place, runs))
        with (
            ground.roles(place, "scheduler", "worker") as pids,
            psycopg.connect(place.url, autocommit=True) as connection,
        ):
            assert time.time() < due / SECOND - 1, "the schedules were not ready in time"
            rates = []
            for at in (due, again):  # the first brings the pool up
                time.sleep(max(0.0, at / SECOND - time.time() - 0.1))
                before = {name: ground.cpu_of(pid) for name, pid in _watched(place, pids)}
                _await_ends(connection, at, runs)
                after = {name: ground.cpu_of(pid) for name, pid in _watched(place, pids)}
                rates.append(runs / (_last_end(connection, at) - at / SECOND))
                spent = ", ".join(f"{name} {(after[name] - before[name]) / runs * 1e6:.0f}" for name in after)
                say(f"{rates[-1]:,.0f}/s; CPU in us a run: {spent}")
            attempts = connection.execute(
                "SELECT count(*), count(*) FILTER (WHERE outcome = 'succeeded') FROM attempt WHERE slot >= %s", (due,)
            ).fetchone()
            assert attempts == (2 * runs, 2 * runs), attempts
    how = f"{runs:,} schedules due in one second; from then to the commit of the last end; the pool was warm"
    return [
        at_least("no-op Python programs", rates[1], "runs/s", 5000, how),
        at_least("the same, cold pool", rates[0], "runs/s", None, "the first round, with processes to start"),
    ]


def _watched(place: ground.Ground, pids: dict[str, int]) -> list[tuple[str, int]]:
    return [*pids.items(), ("database", place.server_pid)]


def _await_ends(connection: psycopg.Connection, at: Instant, runs: int) -> None:
    deadline = time.monotonic() + 120
    question = "SELECT count(*) FILTER (WHERE outcome = 'succeeded'), count(outcome) FROM run WHERE slot = %s"
    while (found := connection.execute(question, (at,)).fetchone()) != (runs, runs):
        assert time.monotonic() < deadline, f"of {runs} succeeded, ended: {found}"
        time.sleep(0.5)


def _last_end(connection: psycopg.Connection, at: Instant) -> float:
    row = connection.execute(
        "SELECT extract(epoch FROM max(pg_xact_commit_timestamp(xid::xid))) FROM event "
        "WHERE type = 'run.succeeded' AND slot = %s",
        (at,),
    ).fetchone()
    assert row is not None
    return float(row[0])


async def _prepare(place: ground.Ground, runs: int) -> tuple[Instant, Instant]:
    """Declare them for two instants that are far enough away; which those are."""
    store = PostgresStore(place.url)
    try:
        due = (await store.now() // SECOND + 25 + runs // 5_000) * SECOND
        again = due + (20 + runs // 2500) * SECOND
        one, two = to_datetime(due), to_datetime(again)
        if one.hour != two.hour or one.minute != two.minute:  # one expression must name both, and nothing between
            shift = (60 - one.second) * SECOND
            due, again = due + shift, again + shift
            one, two = to_datetime(due), to_datetime(again)
        expression = f"{one:%-S},{two:%-S} {one:%-M} {one:%-H} * * *"
        trigger = Cron(expression=expression, timezone="UTC", seconds=True)
        program = Python(entry=f"{place.home}/programs.py:noop")
        template = await ground.declare(store, "noop", program, trigger)
        async with store.changing() as tx:
            await tx.put_pool("default", 2 * runs, None)
    finally:
        await store.close()
    ground.multiply(place.url, template, runs - 1)
    return due, again
