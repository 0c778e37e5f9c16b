"""With a hundred thousand rows each hot statement goes by the index made for it, and an old snapshot costs nothing."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from conformance.worlds import World, plan_of

from tidegate.domain.instants import DAY, HOUR, MINUTE, SECOND
from tidegate.domain.retry import Finish
from tidegate.domain.runs import State
from tidegate.ports.engine import Started
from tidegate.store.arrays import Ints, Texts
from tidegate.store.connection import Cursor, Database, Session
from tidegate.store.floors import BOTTOM
from tidegate.store.sql import Query, load
from tidegate.store.store import PostgresStore

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ROWS = 100_000
NOW = load("instances").now
FILL = """
INSERT INTO schedule (namespace, name, program_id, created_at)
SELECT 'sales', 'bulk' || g, s.program_id, {now} FROM generate_series(1, {rows}) g, schedule s WHERE s.id = {model};
INSERT INTO revision
SELECT s.id, 1, r.valid_from, r.mode, '', '{{}}', r.spec, r.tzdata, 'ann' FROM schedule s, revision r
WHERE r.schedule_id = {model} AND s.name LIKE 'bulk%';
INSERT INTO clock (schedule_id, program_id, rev, cursor_rev, mode, cursor, next_due)
SELECT s.id, c.program_id, 1, 1, 'enabled', {now}, {now} + 3600000000 + s.id FROM schedule s, clock c
WHERE c.schedule_id = {model} AND s.name LIKE 'bulk%';
INSERT INTO schedule_stats (schedule_id) SELECT id FROM schedule WHERE name LIKE 'bulk%';
INSERT INTO limit_counter (key) SELECT 's' || id FROM schedule ON CONFLICT DO NOTHING;
INSERT INTO run (slot, schedule_id, ord, rev, program_id, fire_time, cause, priority, created_at)
SELECT {now} - 1 - s.id % 1000, s.id, 0, 1, c.program_id, {now}, 'fire', 50, {now}
FROM schedule s, clock c WHERE c.schedule_id = {model};
INSERT INTO run_live (slot, schedule_id, ord, state, rev, program_id, kind, pool, cause, priority, created_at, wake_at,
                      wake_key, wake_limit)
SELECT slot, schedule_id, ord, 'waiting', 1, program_id, 'command', 'default', 'fire', 50, {now}, {now} + 3600000000,
       's' || schedule_id, 1
FROM run WHERE schedule_id <> {model};
"""


@pytest.fixture
async def world(database_url: str, anyio_backend: str) -> AsyncIterator[World]:
    async with await World.begin(PostgresStore(database_url), lambda: PostgresStore(database_url)) as made:
        yield made


def execute(url: str, statement: str) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


async def test_hot_statements_go_by_their_indexes(
    world: World, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without statistics, since those are missing just when a table has grown in a minute."""
    model = await world.schedule("model", due=0)
    await world.store.ensure_partitions(world.start, DAY)
    execute(database_url, FILL.format(now=world.start, rows=ROWS, model=model))
    seen: dict[str, tuple[Query, dict[str, Any]]] = {}
    send = Session.send

    async def remember(self: Session, query: Query, /, **parameters: Any) -> Cursor:
        seen[query.name] = (query, parameters)
        return await send(self, query, **parameters)

    monkeypatch.setattr(Session, "send", remember)
    await one_life(world)
    monkeypatch.setattr(Session, "send", send)

    plans = await explained(world.store, seen)
    small = {"pool", "lease", "instance", "frozen"}  # tables of a few rows
    for name, plan in plans.items():
        walked = {table for table in re.findall(r"Seq Scan on (\w+)", plan) if table not in small}
        assert not walked, f"{name} walks over {walked}\n{plan}"
    for name, index in {
        "clocks.claim_due": "clock_due",
        "clocks.next_due": "clock_due",
        "clocks.advance": "clock_pkey",
        "admission.claim_waiting": "run_live_wake",
        "admission.next_wake": "run_live_wake",
        "admission.wake_counters": "run_live_key",
        "admission.wake_pools": "run_live_key",
        "admission.due_queues": "queue_wake_at",
        "attempts.start_ready": "run_live_ready",
        "attempts.started": "run_live_pkey",
        "attempts.ended": "attempt_open_pkey",
    }.items():
        assert f"using {index}" in plans[name], f"{name} does not go by {index}\n{plans[name]}"


GATES = """
UPDATE run_live SET wake_at = NULL, wake_limit = 0, wake_key = 'window:60-120:UTC:mon';
INSERT INTO queue_wake (key, at) VALUES ('window:60-120:UTC:mon', {now} + 3600000000);
INSERT INTO queue_wake (key, at) SELECT 'rate:s' || id || ':1:1', {now} + 7200000000 FROM schedule;
INSERT INTO limit_counter (key, keeps) VALUES ('p{program}', 86400000000)
ON CONFLICT (key) DO UPDATE SET keeps = excluded.keeps;
INSERT INTO start_log (schedule_id, slot, ord, key, at)
SELECT schedule_id, slot, ord, 'p{program}', {now} - schedule_id FROM run_live;
"""


@pytest.mark.requirement("GATE-12")
async def test_a_hundred_thousand_that_wait_for_a_window_cost_a_few_pages(world: World, database_url: str) -> None:
    """Nothing looks at them before it opens, then only at the first. The same for starts, and for people's pages."""
    from tidegate.store import admission, facts, reads

    model = await world.schedule("model", due=None)
    await world.store.ensure_partitions(world.start, DAY)
    execute(database_url, FILL.format(now=world.start, rows=ROWS, model=model))
    [[program]] = execute(database_url, f"SELECT program_id FROM clock WHERE schedule_id = {model}")
    execute(database_url, GATES.format(now=world.start, program=program))
    execute(database_url, "VACUUM")
    store, key = world.store, "window:60-120:UTC:mon"
    assert await store.next_wake() == world.at(HOUR)
    assert await world.waiting(world.at(HOUR) - 1) == []
    now, first, counter = world.at(HOUR), world.start - 50 * MINUTE, f"p{program}"
    looks = {
        "claim_waiting": (admission.Q.claim_waiting, {"floor": BOTTOM, "now": now - 1, "limit": 500}, 15),
        "next_wake": (admission.Q.next_wake, {"floor": BOTTOM}, 15),
        "due_queues": (admission.Q.due_queues, {"now": now, "limit": 50}, 15),
        "claim_heads": (
            admission.Q.claim_heads,
            {"keys": Texts([key]), "counts": Ints([20]), "now": now},
            20 * 40,
        ),
        "queues_between": (admission.Q.queues_between, {"low": "rate:s1:", "high": "rate:s1;"}, 15),
        "starts": (
            facts.Q.starts,
            {"keys": Texts([counter]), "manys": Ints([20]), "backs": Ints([DAY]), "now": now},
            60,
        ),
        "queue": (
            reads.LEDGER.queue,
            {"namespace": None, "rank": first - 1, "slot": 0, "schedule": 0, "ord": 0, "limit": 100},
            1000,
        ),
    }
    for name, (query, parameters, most) in looks.items():
        pages = await buffers(store, query, **parameters)
        assert pages < most, f"{name} looks at {pages} pages"


async def one_life(world: World) -> None:
    """Every hot statement once."""
    store = world.store
    await store.next_due()
    keys = await world.fire()
    await store.next_wake()
    launches = await world.begin_runs(world.at(SECOND))
    assert [one.attempt.run for one in launches] == keys
    async with store.transaction(world.worker) as tx:
        await tx.started([Started(attempt=launches[0].attempt, backend_id="x")], world.at(SECOND))
    await store.open_attempts([launches[0].attempt])
    await store.stop_requests(world.worker)
    await store.held_attempts(world.worker, world.at(MINUTE))
    await world.end(launches, world.at(MINUTE), outcome="failed", then=Finish(outcome=State.FAILED, reason=""))
    await store.run(keys[0])
    await store.runs(None, schedule=None, states=[], since=None, before=None, limit=20)
    await store.runs("sales", schedule="model", states=[State.FAILED], since=None, before=None, limit=20)


async def explained(store: PostgresStore, seen: dict[str, tuple[Query, dict[str, Any]]]) -> dict[str, str]:
    plans = {}
    async with store.parts.database.session() as session:
        for name, (query, parameters) in seen.items():
            if name.startswith("control.") or name in ("instances.notify", "instances.now"):
                continue
            asked = Query(name, "", b"EXPLAIN (COSTS OFF) " + query.sql)
            cursor = await session.connection.execute(asked.sql, parameters)
            plans[name] = "\n".join(row[0] for row in await cursor.fetchall())
    return plans


async def buffers(store: PostgresStore, query: Query, **parameters: Any) -> int:
    """How many pages a statement looks at."""
    async with store.parts.database.session() as session:
        cursor = await session.connection.execute(b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + query.sql, parameters)
        row = await cursor.fetchone()
        assert row is not None
        plan = row[0][0]["Plan"]
        return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


@pytest.mark.requirement("HA-8")
async def test_an_old_snapshot_does_not_make_looking_dear(world: World, database_url: str) -> None:
    """Thousands of fires are recorded and admitted while somebody holds a snapshot: nothing dead can be removed, and
    yet the next looks stay as cheap as before."""
    from tidegate.store import admission, clocks

    model = await world.schedule("model", due=0)
    await world.store.ensure_partitions(world.start, DAY)
    execute(database_url, FILL.format(now=world.start, rows=20_000, model=model))
    execute(database_url, f"DELETE FROM run_live; UPDATE clock SET next_due = {world.start} + schedule_id")
    execute(database_url, "VACUUM")
    with psycopg.connect(database_url) as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM clock")
        now = world.at(10 * SECOND)
        total = 0
        while recorded := await drain(world, now):
            total += recorded
        assert total == 20_001
        now = world.at(20 * SECOND)
        store = world.store
        assert await world.fire(now) == []
        assert await store.next_due() == world.at(HOUR) + 1
        due = store.parts.due
        below = await buffers(store, clocks.Q.next_due, floor=BOTTOM)
        above = await buffers(store, clocks.Q.next_due, floor=due.look(now))
        assert below > 50 and above < 15, f"{below} pages from the bottom, {above} above the mark"

        await hold_all(world, now)
        assert await store.next_wake() == world.at(HOUR)
        later = world.at(30 * SECOND)
        assert await world.waiting(later) == []
        await store.next_wake()
        below = await buffers(store, admission.Q.next_wake, floor=BOTTOM)
        above = await buffers(store, admission.Q.next_wake, floor=store.parts.wake.look(later))
        assert below > 50 and above < 15, f"{below} pages from the bottom, {above} above the mark"


async def drain(world: World, now: int) -> int:
    async with world.store.transaction(world.scheduler) as tx:
        due = await tx.claim_due(now, 1000)
        await tx.record([plan_of(one, next_in=HOUR) for one in due], now)
    return len(due)


async def hold_all(world: World, now: int) -> None:
    from tidegate.domain.admission import Hold

    while True:
        async with world.store.transaction(world.scheduler) as tx:
            found = await tx.claim_waiting(now, 1000)
            held = [Hold(key=one.key, until=world.at(HOUR), wake_key=None, waiting_for=()) for one in found]
            await tx.settle(held, now)
        if not found:
            return


async def test_a_statement_is_parsed_and_planned_once(database_url: str, anyio_backend: str) -> None:
    database = Database(database_url)
    async with database.session() as session:
        for _ in range(8):
            await session.rows(NOW)
        cursor = await session.connection.execute(
            "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement = %s", [NOW.sql.decode()]
        )
        assert await cursor.fetchall() == [(8, 0)]
    await database.close()
