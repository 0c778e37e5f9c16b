"""Who waits for whom: seen in the server's own list of those that wait for a lock, not by how long something takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
from conformance.collecting import event, landed, listen, match, publish
from conformance.worlds import World, facts_of, plan_of

from tidegate.domain.instants import SECOND
from tidegate.store import floors
from tidegate.store.floors import BOTTOM, Floor
from tidegate.store.store import PostgresStore

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(emptied_database_url: str, anyio_backend: str) -> AsyncIterator[World]:
    url = emptied_database_url
    async with await World.begin(PostgresStore(url), lambda: PostgresStore(url)) as made:
        yield made


async def waits(url: str, task: asyncio.Task[object], *words: str) -> bool:
    """Whether it comes to wait for a lock in a statement with these words, before it ends or goes on without."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while not task.done():
            found = await connection.execute(
                "SELECT query FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            if blocked := [query for (query,) in await found.fetchall()]:
                return any(all(word in query for word in words) for query in blocked)
            await asyncio.sleep(0.01)
    return False


@pytest.mark.requirement("EVENT-1", "HA-4")
async def test_nobody_reads_on_over_an_open_transaction(world: World, emptied_database_url: str) -> None:
    await listen(world, "orders", landed())
    other = world.another()

    async def beside() -> None:
        async with other.changing() as tx:
            await tx.publish([event()], world.start)

    async with world.store.changing() as tx:
        await tx.publish([event()], world.start)
        late = asyncio.create_task(beside())
        assert await waits(emptied_database_url, late, "FROM event_key", "FOR NO KEY UPDATE")
        await match(world)  # nothing is there to be read, and nothing is passed
    await late
    await publish(world, event())
    await match(world)
    runs, _ = await world.store.runs(None, schedule="orders", states=[], since=None, before=None, limit=10)
    assert len(runs) == 3


@pytest.mark.requirement("HA-1", "HA-5")
async def test_a_takeover_waits_for_who_is_writing(world: World, emptied_database_url: str) -> None:
    await world.schedule("orders", due=0)
    other = world.another()
    victim = await world.instance(world.scheduler)
    async with world.store.transaction(world.scheduler) as tx:
        due = await tx.claim_due(world.start, 10)
        takeover = asyncio.create_task(other.retire(victim, world.at(1)))
        assert await waits(emptied_database_url, takeover, "instance", "FOR UPDATE")
        await tx.record([plan_of(one) for one in due], world.start)
    assert await takeover


@pytest.mark.requirement("GATE-11", "HA-4")
async def test_who_judges_by_a_counter_holds_it_until_the_commit(world: World, emptied_database_url: str) -> None:
    """Also where the runs are of pools that have nothing to do with each other."""
    async with world.store.transaction(world.scheduler) as tx:
        await facts_of(tx, {"gnightly"})  # it is there from now on

    async def beside() -> None:
        async with world.another().transaction(world.worker) as tx:
            await facts_of(tx, {"gnightly"})

    async with world.store.transaction(world.scheduler) as tx:
        await facts_of(tx, {"gnightly"})
        late = asyncio.create_task(beside())
        assert await waits(emptied_database_url, late, "limit_counter")
    await late


@pytest.mark.requirement("HA-8")
def test_a_mark_is_left_out_every_few_seconds_should_a_notification_have_been_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr(floors.time, "monotonic", lambda: clock[0])
    floor = Floor()
    floor.seen(100 * SECOND)
    floor.rise(None)
    assert floor.look() > BOTTOM
    clock[0] = 10.0
    assert floor.look() == BOTTOM
