"""A comparison of the store with itself that costs the same however much there is: in stretches, all in turn."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest
from conformance.worlds import World

from tidegate.domain.instants import MINUTE, SECOND
from tidegate.store import resync
from tidegate.store.store import PostgresStore

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(database_url: str, anyio_backend: str) -> AsyncIterator[World]:
    async with await World.begin(PostgresStore(database_url), lambda: PostgresStore(database_url)) as made:
        yield made


@pytest.mark.requirement("LIFE-7")
async def test_every_clock_and_counter_has_its_turn(
    world: World, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resync, "MOST", 2)
    for number in range(5):
        await world.schedule(f"s{number}", due=MINUTE)
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE clock SET mode = 'hold'")
        connection.execute("INSERT INTO limit_counter (key, held) SELECT 'x' || g, 1 FROM generate_series(1, 5) g")
    rounds = []
    for number in range(3):
        now = world.at(number * SECOND)
        token = await world.store.acquire("resync", world.scheduler, now, MINUTE)
        assert token is not None
        drifts = await world.store.resync(world.scheduler, token, now)
        rounds.append([sum(one.what == what for one in drifts) for what in ("clock", "counter")])
    assert rounds == [[2, 2], [2, 2], [1, 1]]
    again = await world.store.acquire("resync", world.scheduler, world.at(MINUTE), MINUTE)
    assert again is not None
    assert list(await world.store.resync(world.scheduler, again, world.at(MINUTE))) == []
