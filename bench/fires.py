"""Fires made durable by the timekeeper, beside pgbench that sends the same statements to the same server.

Both drain whole minutes of the same schedules, in turn. pgbench neither plans nor decides: it claims with the engine's
own statement, hands the claimed rows back as arrays, adds a minute, and commits. One scheduler (the timekeeper with its
second hand, as in `tidegate up`) stands against one client, since a client too keeps one core's worth of server busy;
two clients are shown beside them: what two cores of nothing but SQL do.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Sequence
from time import perf_counter

import psycopg

from bench import ground
from bench.figures import Figure, Say, at_least, median
from tidegate.domain.ids import Fence
from tidegate.domain.instants import MINUTE, SECOND, Instant
from tidegate.domain.programs import Command
from tidegate.domain.triggers import Cron
from tidegate.engine.outcome import Topic
from tidegate.engine.timekeeper import SecondHand, Timekeeper, TimekeeperSettings
from tidegate.store import binaries, clocks, transactions
from tidegate.store.connection import _SESSION
from tidegate.store.sql import Query
from tidegate.store.store import PostgresStore

NOOP = Command(argv=("true",))
TYPES = {"kinds": "text[]", "pools": "text[]", "now": "bigint", "day": "int", "limit": "bigint", "floor": "bigint"}


def measure(say: Say, *, schedules: int = 40_000, rounds: int = 5, batch: int = 1000) -> list[Figure]:
    """The ratio is the median of the rounds' own, since a round's two halves share the machine's mood; every fire is
    counted in the ledger afterwards, on both sides."""
    with ground.ground() as place:
        return asyncio.run(_measure(say, place, schedules, rounds, batch))


async def _measure(say: Say, place: ground.Ground, schedules: int, rounds: int, batch: int) -> list[Figure]:
    store = PostgresStore(place.url)
    try:
        fence = await ground.enlist(store)
        template = await ground.declare(store, "minutely", NOOP, Cron(expression="* * * * *", timezone="UTC"))
        ground.multiply(place.url, template, schedules - 1)
        start = (await store.now()) // MINUTE * MINUTE
        ground.make_due(place.url, start, start + MINUTE)
        hands = [part(store, fence, TimekeeperSettings(batch=batch)) for part in (Timekeeper, SecondHand)]
        ours: list[float] = []
        theirs: list[float] = []
        twice: list[float] = []
        at = start
        for _ in range(rounds + 1):  # the first round warms up
            at += MINUTE
            ours.append(schedules / await _drain(store, hands, at + SECOND))
            _check(place.url, schedules, at)
            for clients, found in ((1, theirs), (2, twice)):
                at += MINUTE
                found.append(schedules / _pgbench(place, fence, at + SECOND, schedules, batch, clients))
                _check(place.url, schedules, at)
            store.parts.due.lower()
            say(f"scheduler {ours[-1]:,.0f}/s; pgbench {theirs[-1]:,.0f}/s, with two clients {twice[-1]:,.0f}/s")
        ratios = [mine / peer for mine, peer in zip(ours, theirs, strict=True)]
        mine, peer = median(ours[1:]), median(theirs[1:])
        how = f"{schedules:,} minutely schedules due at once, {batch} in a transaction, median of {rounds} rounds"
        return [
            at_least("durable fires", mine, "fires/s", None, f"one scheduler, {how}"),
            at_least("the same SQL by pgbench", peer, "fires/s", None, f"one client, {how}"),
            at_least("the same by two clients", median(twice[1:]), "fires/s", None, "pgbench -c 2"),
            at_least("durable fires / pgbench", median(ratios[1:]), "x", 0.9, "median of each round's own ratio"),
        ]
    finally:
        await store.close()


async def _drain(store: PostgresStore, hands: Sequence[Timekeeper], now: Instant) -> float:
    """Seconds until nothing is left; the database's time is read before each step, as the loop does."""

    async def work(hand: Timekeeper) -> None:
        hand._batch.size = hand._batch.most
        hand.hear(Topic.BACKLOG)
        while True:
            await store.now()
            if not (await hand.step(now)).left:
                return

    began = perf_counter()
    await asyncio.gather(*map(work, hands))
    return perf_counter() - began


def _check(url: str, schedules: int, at: Instant) -> None:
    """Each schedule has exactly this minute's run, waiting, with its event. Then the ledger is emptied."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT (SELECT count(*) FROM run WHERE slot = %(at)s), (SELECT count(*) FROM run), "
            "(SELECT count(*) FROM run_live WHERE state = 'waiting'), (SELECT count(*) FROM event), "
            "(SELECT count(*) FROM clock WHERE cursor = %(at)s AND next_due = %(at)s + 60000000)",
            {"at": at},
        ).fetchone()
    assert found == (schedules,) * 5, f"{schedules} were due: {found}"
    ground.empty(url)


# ── pgbench ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _pgbench(place: ground.Ground, fence: Fence, now: Instant, schedules: int, batch: int, clients: int) -> float:
    """Seconds in which so many clients of pgbench drain what is due at `now`."""
    script = place.home / "fires.sql"
    script.write_text(_script())
    variables = {"now": now, "floor": 0, "limit": batch, "id": fence.instance_id, "epoch": fence.epoch}
    variables["day"] = now // (24 * 60 * MINUTE)
    command = [str(binaries.locate() / "pgbench"), "-n", "-M", "prepared", "-c", str(clients), "-j", str(clients)]
    command += ["-t", str(-(-schedules // batch // clients)), "-f", str(script)]
    command += [part for name, value in variables.items() for part in ("-D", f"{name}={value}")]
    settings = [line.removeprefix("SET ").rstrip(";") for line in _SESSION.decode().strip().splitlines()]
    options = " ".join("-c " + line.replace(" = ", "=").replace("'", "") for line in settings)
    done = subprocess.run(
        [*command, place.url], env={**os.environ, "PGOPTIONS": options}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    tps = next(line for line in done.stdout.splitlines() if line.startswith("tps"))
    return -(-schedules // batch) / float(tps.split()[2])


def _script() -> str:
    """What one step of the timekeeper sends, in the same order, with as few round trips."""
    claim = f"""
WITH claimed AS ({_statement(clocks.Q.claim_due).replace("p.rev FROM", "p.rev AS program_rev FROM")})
SELECT array_agg(schedule_id) AS schedules, array_agg(program_id) AS programs, array_agg(rev) AS revs,
       array_agg(last_fire) AS previous, array_agg(50) AS priorities, array_agg(NULL::bigint) AS nulls,
       array_agg('command'::text) AS kinds, array_agg('default'::text) AS pools,
       array_agg(next_due) AS slots, array_agg(next_due + {MINUTE}) AS next_dues
FROM claimed"""
    names = {"expires": "nulls", "gap_tos": "nulls", "gap_lefts": "nulls"}
    names |= {"cursors": "slots", "cursor_revs": "revs", "last_fires": "slots"}
    steps = [
        _statement(transactions.I.now) + ";",
        "BEGIN;",
        _statement(transactions.I.fence) + ";",
        claim + " \\gset",
        "\\startpipeline",
        _statement(clocks.Q.record_fires, names) + ";",
        _statement(clocks.Q.advance, names) + ";",
        "COMMIT;",
        "\\endpipeline",
    ]
    return "\n".join(steps) + "\n"


def _statement(query: Query, names: dict[str, str] | None = None) -> str:
    """An engine's statement with pgbench's variables in it."""

    class Variables(dict[str, str]):
        def __missing__(self, name: str) -> str:
            scalar = "bigint" if name in ("id", "epoch", "now", "floor", "limit", "day") else "bigint[]"
            return f":{(names or {}).get(name, name)}::{TYPES.get(name, scalar)}"

    return query.sql.decode() % Variables()
