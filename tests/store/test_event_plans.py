"""With a hundred thousand subscriptions nothing that publishes or matches looks at more than what it is about."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from conformance.collecting import ALL_RUNS, KEY, admit, commit, event, landed, listen, match, publish, reset, runs
from conformance.worlds import World

from tidegate.domain.instants import DAY, HOUR, SECOND
from tidegate.domain.triggers import All, AnyOf, DataSize, Elapsed, Partition, ProgramStatus, Since
from tidegate.store.connection import Cursor, Session
from tidegate.store.sql import Query
from tidegate.store.store import PostgresStore

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
ROWS = 100_000
FILL = """
INSERT INTO schedule (namespace, name, program_id, created_at)
SELECT 'sales', 'bulk' || g, s.program_id, {now} FROM generate_series(1, {rows}) g, schedule s WHERE s.id = {model};
INSERT INTO revision
SELECT s.id, 1, r.valid_from, r.mode, '', '{{}}', r.spec, r.tzdata, 'ann' FROM schedule s, revision r
WHERE r.schedule_id = {model} AND s.name LIKE 'bulk%';
INSERT INTO clock (schedule_id, program_id, rev, cursor_rev, mode, cursor, collects)
SELECT s.id, c.program_id, 1, 1, 'enabled', {now}, true FROM schedule s, clock c
WHERE c.schedule_id = {model} AND s.name LIKE 'bulk%';
INSERT INTO schedule_stats (schedule_id) SELECT id FROM schedule WHERE name LIKE 'bulk%';
INSERT INTO event_key (type, key) SELECT 'user.bulk', 'sales/' || g / 10 FROM generate_series(1, {rows}) g
ON CONFLICT DO NOTHING;
INSERT INTO subscription
    (schedule_id, node, key_id, base, seen, seen_rows, seen_bytes, seen_day, need, need_rows, need_bytes)
SELECT s.id, 0, k.id, 0, 0, 0, 0, {now} / 86400000000, 1000, 1000, 1000
FROM schedule s JOIN event_key k ON k.type = 'user.bulk' AND k.key = 'sales/' || s.id / 10 WHERE s.name LIKE 'bulk%';
INSERT INTO progress (schedule_id, enabled_at, elapsed, doc)
SELECT id, {now}, false, '{{}}' FROM schedule WHERE name LIKE 'bulk%';
INSERT INTO deadline (schedule_id, node, at)
SELECT id, 0, {now} + 30 * 86400000000 + id FROM schedule WHERE name LIKE 'bulk%';
INSERT INTO owed (schedule_id, dataset, n, day) SELECT id, 'lake.bulk', 0, 0 FROM schedule WHERE name LIKE 'bulk%';
INSERT INTO event_dedup (source, id, digest, pos, at)
SELECT 'bulk', g::text, '', g, {now} FROM generate_series(1, {rows}) g;
INSERT INTO event (day, at, type, key, payload)
SELECT {now} / 86400000000, {now}, 'user.bulk', 'sales/' || g, '{{}}' FROM generate_series(1, {rows}) g;
INSERT INTO arrival (day, key_id, n, pos, at, rows, bytes, sum_rows, sum_bytes, event_day, event_pos)
SELECT {now} / 86400000000, 1000000, g, 0, {now}, 0, 0, 0, 0, {now} / 86400000000, g FROM generate_series(1, {rows}) g;
"""
SMALL = {"event_inbox", "event_told"}
"""Empty but for what waits this instant: the inbox is asked for its head, and whether there is anything."""


@pytest.fixture
async def world(database_url: str, anyio_backend: str) -> AsyncIterator[World]:
    async with await World.begin(PostgresStore(database_url), lambda: PostgresStore(database_url)) as made:
        yield made


@pytest.mark.requirement("DATA-12")
async def test_events_go_by_their_indexes(world: World, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every statement that publishing, matching, admitting and looking sends, explained without statistics."""
    model = await world.schedule("model", due=None)
    await world.store.ensure_partitions(world.start, DAY)
    with psycopg.connect(database_url, autocommit=True) as connection:
        for statement in FILL.format(now=world.start, rows=ROWS, model=model).split(";\n"):
            connection.execute(statement)  # type: ignore[arg-type]
    seen: dict[str, tuple[Query, dict[str, Any]]] = {}
    send = Session.send

    async def remember(self: Session, query: Query, /, **parameters: Any) -> Cursor:
        seen.setdefault(query.name, (query, parameters))
        return await send(self, query, **parameters)

    monkeypatch.setattr(Session, "send", remember)
    await one_day(world)
    monkeypatch.setattr(Session, "send", send)

    walks = {}
    async with world.store.parts.database.session() as session:
        for name, (query, parameters) in seen.items():
            if not name.startswith(("events.", "collecting.")) or name in PEOPLES:
                continue
            cursor = await session.connection.execute(b"EXPLAIN (COSTS OFF) " + query.sql, parameters)
            plan = "\n".join(row[0] for row in await cursor.fetchall())
            walked = {table for table in re.findall(r"Seq Scan on (\w+)", plan) if table not in SMALL}
            walked |= set(
                re.findall(r"Index (?:Only )?Scan using (\w+) on \w+(?: \w+)?\n(?!\s+(?:Index Cond|Filter))", plan)
            )
            if walked - WHOLE.get(name, set()):
                walks[name] = f"{walked}\n{plan}"
    assert {"collecting.claim_inbox", "collecting.crossings", "events.topics", "collecting.move_owed"} <= set(seen)
    assert not walks, "\n\n".join(f"{name} walks over {found}" for name, found in walks.items())


PEOPLES = {"events.page_of_key", "events.set_asides"}
WHOLE = {
    # ordered reads of the head, with a limit
    "collecting.claim_inbox": {"event_inbox_pkey"},
    "collecting.next_deadline": {"deadline_at"},
}


async def one_day(world: World) -> None:
    """Everything that happens to events, once."""
    store = world.store
    tree = All(
        triggers=(landed(2), landed(key=None, match={"a": 1}), DataSize(dataset="lake.a", rows=10)), max_wait=HOUR
    )
    schedule = await listen(world, "tree", AnyOf(triggers=(tree, Elapsed(since=Since.LAST_RUN, after=DAY))))
    await listen(world, "parts", Partition(dataset="lake.a", count=1))
    await listen(world, "after", ProgramStatus(program="sales/job", outcomes=("succeeded",)), waiting=ALL_RUNS)
    for _ in range(2):
        await publish(world, event(a=1, id="1"), event(), commit("lake.a", 5, before=4))
        await match(world)
    await admit(world, world.at(SECOND))
    launches = await world.launch(world.at(SECOND))
    await world.end(launches, world.at(2 * SECOND))
    await match(world, world.at(2 * SECOND))
    await match(world, world.at(2 * DAY))
    assert len(await runs(world, "after")) > 1
    await store.collected([schedule], world.start)
    await store.subscribers("user.landed", KEY, None)
    await store.events(type=None, key=None, since=None, before=None, limit=20)
    async with store.transaction(world.scheduler) as tx:
        await tx.collections([schedule], world.start)
        await tx.set_aside(schedule, "why", world.start)
    [aside] = await store.set_asides(None, None, 10)
    async with store.changing() as tx:
        await tx.replay(aside.id, world.start)
        await tx.end_waiting(schedule, type(await world.state(launches[0].attempt.run)).SUPERSEDED, "", world.start)
    await reset(world, schedule, world.start)
