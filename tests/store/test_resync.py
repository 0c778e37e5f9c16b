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


@pytest.mark.requirement("LIFE-7", "GATE-12")
async def test_what_waits_in_a_queue_that_could_move_on_is_not_forgotten(world: World, database_url: str) -> None:
    """One run in each queue; nobody told those that a queue could move on."""
    schedule = await world.schedule("a", due=None)
    stuck = [f"s{schedule}", "pool:default", "window:60-120:UTC:mon", "rate:s1:1:5", "calendar:open", "freeze"]
    stuck += [f"resume:{schedule}"]
    rightly = ["calendar:none", "load:cpu:50", "min:p1:60"]
    keys = {key: await world.manual(schedule, world.at(number)) for number, key in enumerate([*stuck, *rightly])}
    with psycopg.connect(database_url) as connection:
        connection.execute("INSERT INTO calendar VALUES ('open', '{}', '{}')")
        connection.execute("INSERT INTO queue_wake (key, at) VALUES ('min:p1:60', 4000000000000000)")
        for key, run in keys.items():
            connection.execute(
                "UPDATE run_live SET wake_at = NULL, wake_key = %s, wake_limit = %s WHERE slot = %s AND ord = %s",
                (key, int(key == f"s{schedule}"), run.slot, run.ord),
            )
        connection.execute("UPDATE pool SET used = 0 WHERE name = 'default'")
    now = world.at(SECOND)
    token = await world.store.acquire("resync", world.scheduler, now, MINUTE)
    assert token is not None
    drifts = [one for one in await world.store.resync(world.scheduler, token, now) if one.what == "run"]
    assert {one.name for one in drifts} == {str(keys[key]) for key in stuck}
    assert {one.key for one in await world.waiting(now)} == {keys[key] for key in stuck}
