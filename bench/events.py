"""Events published, matched and committed, with 100,000 subscriptions; progress of a trigger that got a million.

A few publishers (transactions of `batch` events, as the REST door makes of a list; each has keys of its own, as feeds
do) and one matcher share the machine with the server. What each tree has collected is spread evenly at the start, so
that fires come steadily: one for every hundredth event at fan-out 1, of a count of 1,000 at fan-out 100. A figure is
the time from the first publication until the inbox is empty; afterwards the events in the evidence of all runs and in
all progress add up to those published.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Sequence
from time import perf_counter, process_time

import psycopg

from bench import ground
from bench.figures import Figure, Say, at_least, at_most, median
from tidegate.domain.ids import Fence
from tidegate.domain.programs import Command
from tidegate.domain.triggers import Happened
from tidegate.engine.matcher import Matcher
from tidegate.ports.collecting import NewEvent
from tidegate.store.store import PostgresStore

NOOP = Command(argv=("true",))
TYPE = "user.bench"
MODEL = "bench/model"


def measure(
    say: Say,
    *,
    subscriptions: int = 100_000,
    single: int = 250_000,
    hundredfold: int = 50_000,
    batch: int = 2000,
    publishers: int = 2,
    rounds: int = 3,
    million: int = 1_000_000,
) -> list[Figure]:
    """The median of the rounds for each fan-out, on a server of its own."""
    figures: list[Figure] = []
    for fan_out, events, count, goal in ((1, single, 100, 50_000.0), (100, hundredfold, 1000, 8_000.0)):
        with ground.ground() as place:
            rates = asyncio.run(_matched(say, place, subscriptions, fan_out, count, events, batch, publishers, rounds))
        how = f"{events:,} events in transactions of {batch:,} of {publishers} publishers, {subscriptions:,} "
        how += f"subscriptions of count {count:,}, median of {rounds} rounds"
        figures.append(at_least(f"events matched, fan-out {fan_out}", median(rates), "events/s", goal, how))
    with ground.ground() as place:
        size, spent = asyncio.run(_million(say, place, million, batch))
    how = f"{million:,} events for one trigger of count {2 * million:,}"
    figures.append(at_most("progress of a trigger", size, "bytes", 2000, how))
    figures.append(at_most("a look at all of it", spent * 1000, "ms", None, how))
    return figures


async def _matched(
    say: Say,
    place: ground.Ground,
    subscriptions: int,
    fan_out: int,
    count: int,
    events: int,
    batch: int,
    publishers: int,
    rounds: int,
) -> list[float]:
    store = PostgresStore(place.url)
    try:
        fence = await ground.enlist(store)
        topics = subscriptions // fan_out
        await spread(store, place.url, topics, fan_out, count)
        rates = []
        for turn in range(rounds):
            batches = _batches(topics, events, batch, publishers, turn)
            before = _totals(place.url)
            spent, began = ground.cpu_of(place.server_pid), process_time()
            rates.append(events / await _round(store, fence, batches, publishers))
            spent, own = ground.cpu_of(place.server_pid) - spent, process_time() - began
            after = _totals(place.url)
            assert after[0] - before[0] == events * fan_out, f"{events * fan_out} came, {after[0] - before[0]} counted"
            say(
                f"fan-out {fan_out}: {rates[-1]:,.0f} events/s, {after[1] - before[1]:,} fires; CPU for each event: "
                f"database {spent / events * 1e6:.0f} µs, publishers and matcher {own / events * 1e6:.0f} µs"
            )
        return rates
    finally:
        await store.close()


def _batches(topics: int, events: int, batch: int, publishers: int, seed: int) -> list[list[NewEvent]]:
    """Those of publisher p are every so-manieth from p on; so are its topics."""
    chosen = random.Random(seed)
    return [
        [
            NewEvent(
                type=TYPE,
                key=f"bench/k{chosen.randrange(topics // publishers) * publishers + turn % publishers}",
                payload={"file": number},
            )
            for number in range(batch)
        ]
        for turn in range(events // batch)
    ]


async def _round(store: PostgresStore, fence: Fence, batches: Sequence[Sequence[NewEvent]], publishers: int) -> float:
    """Seconds from the first publication until everything is matched."""
    matcher = Matcher(store, fence)
    done = asyncio.Event()

    async def publish(number: int) -> None:
        for some in batches[number::publishers]:
            async with store.changing() as tx:
                await tx.publish(some, await tx.now())

    async def publish_all() -> None:
        await asyncio.gather(*(publish(number) for number in range(publishers)))
        done.set()

    async def match() -> None:
        while True:
            last = done.is_set()
            outcome = await matcher.step(await store.now())
            assert not outcome.notes, outcome.notes
            if not outcome.did:
                if last and not await store.inbox_waits():
                    return
                await asyncio.sleep(0.001)

    gc.collect()
    gc.freeze()  # a publisher does not keep hundreds of thousands of events for later, which are gone over each time
    began = perf_counter()
    await asyncio.gather(publish_all(), match())
    spent = perf_counter() - began
    gc.unfreeze()
    return spent


async def _million(say: Say, place: ground.Ground, million: int, batch: int) -> tuple[float, float]:
    """Bytes of everything that is kept for one trigger, and the seconds that one look at it takes."""
    store = PostgresStore(place.url)
    try:
        await ground.enlist(store)
        number = await ground.declare(store, "model", NOOP, Happened(event=TYPE, key=MODEL, count=2 * million))
        for _ in range(million // batch):
            async with store.changing() as tx:
                await tx.publish([NewEvent(type=TYPE, key=MODEL, payload={})] * batch, await tx.now())
        began = perf_counter()
        [one] = await store.collected([number], await store.now())  # type: ignore[list-item]
        spent = perf_counter() - began
        assert [some.amount.n for some in one.bulk] == [million]
        with psycopg.connect(place.url, autocommit=True) as connection:
            found = connection.execute(
                "SELECT (SELECT sum(pg_column_size(u.*)) FROM subscription u) + (SELECT sum(pg_column_size(g.*)) FROM"
                " progress g) + coalesce((SELECT sum(pg_column_size(d.*)) FROM deadline d), 0)"
            ).fetchone()
        assert found is not None
        say(f"{million:,} events: {found[0]} bytes")
        return float(found[0]), spent
    finally:
        await store.close()


# ── the ground ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def spread(store: PostgresStore, url: str, topics: int, fan_out: int, count: int) -> None:
    """So many topics with so many subscriptions each, of trees that have collected a share of what they wait for."""
    model = await ground.declare(store, "model", NOOP, Happened(event=TYPE, key=MODEL, count=count))
    ground.multiply(url, model, topics * fan_out)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        connection.execute(
            "INSERT INTO event_key (type, key) SELECT %s, 'bench/k' || g FROM generate_series(0, %s) g",
            (TYPE, topics - 1),
        )
        connection.execute(
            "UPDATE revision SET spec = replace(spec, %s, 'bench/k' || schedule_id %% %s) WHERE schedule_id <> %s",
            (MODEL, topics, model),
        )
        connection.execute(
            "INSERT INTO subscription (schedule_id, node, key_id, base, seen, seen_rows, seen_bytes, seen_day, need) "
            "SELECT c.schedule_id, 0, k.id, 0, 0, 0, 0, 0, "
            "%(count)s - (hashint8(c.schedule_id) & 1048575) %% %(count)s "
            "FROM clock c JOIN event_key k ON k.type = %(type)s AND k.key = 'bench/k' || c.schedule_id %% %(topics)s "
            "WHERE c.schedule_id <> %(model)s ORDER BY k.id",
            {"count": count, "type": TYPE, "topics": topics, "model": model},
        )
        connection.execute(
            "INSERT INTO progress (schedule_id, enabled_at, elapsed, doc) "
            'SELECT u.schedule_id, g.enabled_at, false, format(\'{"tallies":{"0":{"n":%%s}}}\', %s - u.need) '
            "FROM subscription u, progress g WHERE g.schedule_id = %s AND u.schedule_id <> %s",
            (count, model, model),
        )
        connection.execute("VACUUM (ANALYZE) event_key, subscription, progress, revision")
        connection.execute("CHECKPOINT")


def _totals(url: str) -> Sequence[int]:
    """(events in evidence, in progress, and not looked at yet; runs and fires that joined them)"""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT (SELECT coalesce(sum((leaf->>'n')::bigint), 0)"
            "        FROM run, jsonb_array_elements(evidence::jsonb->'leaves') leaf)"
            " + (SELECT coalesce(sum((doc::jsonb->'tallies'->'0'->>'n')::bigint), 0) FROM progress)"
            " + (SELECT sum(k.n - u.seen) FROM subscription u JOIN event_key k ON k.id = u.key_id),"
            " (SELECT count(*) FROM run)"
        ).fetchone()
    assert found is not None
    return [int(one) for one in found]
