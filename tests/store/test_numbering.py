"""Events are numbered in the order of their commits: whoever publishes to a topic waits for who is publishing to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from conformance.collecting import event, landed, listen, match, publish
from conformance.worlds import World

from tidegate.store.store import PostgresStore

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(emptied_database_url: str, anyio_backend: str) -> AsyncIterator[World]:
    url = emptied_database_url
    async with await World.begin(PostgresStore(url), lambda: PostgresStore(url)) as made:
        yield made


@pytest.mark.requirement("EVENT-1", "HA-4")
async def test_nobody_reads_on_over_an_open_transaction(world: World) -> None:
    await listen(world, "orders", landed())
    other = world.another()

    async def beside() -> None:
        async with other.changing() as tx:
            await tx.publish([event()], world.start)

    async with world.store.changing() as tx:
        await tx.publish([event()], world.start)
        late = asyncio.create_task(beside())
        await asyncio.sleep(0.1)
        assert not late.done()
        await match(world)  # nothing is there to be read, and nothing is passed
    await late
    await publish(world, event())
    await match(world)
    runs, _ = await world.store.runs(None, schedule="orders", states=[], since=None, before=None, limit=10)
    assert len(runs) == 3
