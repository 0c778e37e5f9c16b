"""What an operator may meet, made to happen on a real server; the table of it is docs/explanation/outages.md."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from conformance.worlds import HOST, World

from tidegate.domain.errors import Fenced, Unavailable
from tidegate.domain.instants import DAY, HOUR, MINUTE, SECOND
from tidegate.store.store import PostgresStore

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OPS-11")]


@pytest.fixture
async def world(database_url: str, anyio_backend: str) -> AsyncIterator[World]:
    async with await World.begin(PostgresStore(database_url), lambda: PostgresStore(database_url)) as made:
        yield made


def by_hand(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)  # type: ignore[call-overload]


@pytest.mark.requirement("HA-1")
async def test_a_lease_row_that_was_deleted_by_hand_lets_nobody_write_under_the_old_token(
    world: World, database_url: str
) -> None:
    first = await world.store.acquire("reconciler", world.scheduler, world.start, HOUR)
    by_hand(database_url, "DELETE FROM lease")
    second = await world.store.acquire("reconciler", world.worker, world.at(SECOND), HOUR)
    assert second is not None and second > first
    with pytest.raises(Fenced):
        await world.store.resync(world.scheduler, first, world.at(2 * SECOND))
    assert await world.store.acquire("reconciler", world.scheduler, world.at(2 * SECOND), HOUR) is None


async def test_two_instances_with_one_name_are_two(world: World) -> None:
    twin = await world.another().register(role="scheduler", name="s", host=HOST, pid=1, now=world.start)
    assert twin.instance_id != world.scheduler.instance_id
    await world.schedule("orders")
    one = await world.fire()
    assert await world.fire() == [] and len(one) == 1, "what one has recorded the other does not"
    await world.store.retire(await world.instance(twin), world.at(SECOND))
    assert world.scheduler.instance_id in {each.id for each in await world.store.alive()}, "its death is its own"
    assert await world.admit(world.at(SECOND)) == one


@pytest.mark.requirement("HA-6")
@pytest.mark.parametrize("wrong", [DAY, -DAY], ids=["a day ahead", "a day behind"])
async def test_a_process_whose_clock_is_a_day_off_goes_by_the_databases(
    world: World, monkeypatch: pytest.MonkeyPatch, wrong: int
) -> None:
    real = time.time
    before = int(real() * 1_000_000)
    monkeypatch.setattr(time, "time", lambda: real() + wrong / 1_000_000)
    monkeypatch.setattr(time, "time_ns", lambda: int((real() + wrong / 1_000_000) * 1e9))
    other = world.another()
    assert abs(await other.now() - before) < MINUTE
    fence = await other.register(role="worker", name="w", host=HOST, pid=3, now=await other.now())
    silent = await world.store.silent(await world.store.now(), 30 * SECOND)
    assert fence.instance_id not in {one.id for one in silent}, "its heartbeat is not a day old"


FULL = """
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$;
CREATE TRIGGER full_disk BEFORE INSERT ON run_live EXECUTE FUNCTION full_disk();
"""


@pytest.mark.requirement("HA-8")
async def test_while_the_databases_disk_is_full_nothing_is_decided_and_nothing_is_lost(
    world: World, database_url: str
) -> None:
    await world.schedule("orders")
    by_hand(database_url, FULL)
    try:
        with pytest.raises(Unavailable) as told:
            await world.fire()
        fault: Any = told.value
        assert fault.code == "disk_full" and "Make room" in str(fault.remedy)
    finally:
        by_hand(database_url, "DROP FUNCTION full_disk CASCADE")
    assert len(await world.fire()) == 1
