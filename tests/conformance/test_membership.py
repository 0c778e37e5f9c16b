"""Who is here, who is dead, who may lead."""

from __future__ import annotations

import pytest

from conformance.worlds import HOST, World
from tidegate.domain.errors import Fenced
from tidegate.domain.instants import HOUR, MINUTE, SECOND

pytestmark = pytest.mark.anyio


async def test_members_are_seen_until_they_leave(world: World) -> None:
    assert {one.role for one in await world.store.alive()} == {"scheduler", "worker"}
    await world.store.leave(world.worker, world.at(1))
    assert {one.role for one in await world.store.alive()} == {"scheduler"}
    await world.store.leave(world.worker, world.at(2))


@pytest.mark.requirement("HA-2")
async def test_a_frozen_member_is_found_by_its_heartbeat(world: World) -> None:
    await world.store.beat(world.scheduler, world.at(MINUTE))
    silent = await world.store.silent(world.at(MINUTE), 30 * SECOND)
    assert [one.id for one in silent] == [world.worker.instance_id]
    await world.store.beat(world.worker, world.at(MINUTE))
    assert list(await world.store.silent(world.at(MINUTE), 30 * SECOND)) == []


async def test_a_heartbeat_never_goes_back(world: World) -> None:
    await world.store.beat(world.worker, world.at(MINUTE))
    await world.store.beat(world.worker, world.at(SECOND))
    assert (await world.instance(world.worker)).heartbeat == world.at(MINUTE)


async def test_one_takeover_wins(world: World) -> None:
    dead = await world.instance(world.worker)
    assert await world.store.retire(dead, world.at(1))
    assert not await world.store.retire(dead, world.at(2))
    assert [one.role for one in await world.store.alive()] == ["scheduler"]


async def test_who_was_declared_dead_registers_anew(world: World) -> None:
    await world.store.retire(await world.instance(world.worker), world.at(1))
    with pytest.raises(Fenced):
        await world.store.beat(world.worker, world.at(2))
    again = await world.store.register(role="worker", name="w", host=HOST, pid=3, now=world.at(3))
    assert again != world.worker
    await world.store.beat(again, world.at(4))


async def test_who_has_left_writes_no_more(world: World) -> None:
    await world.schedule("orders")
    await world.store.leave(world.scheduler, world.at(1))
    with pytest.raises(Fenced):
        await world.fire()


@pytest.mark.requirement("HA-1")
async def test_one_leads_at_a_time(world: World) -> None:
    token = await world.store.acquire("janitor", world.scheduler, world.start, MINUTE)
    assert token is not None
    assert await world.store.acquire("janitor", world.worker, world.at(SECOND), MINUTE) is None
    assert await world.store.acquire("other", world.worker, world.at(SECOND), MINUTE) is not None


@pytest.mark.requirement("HA-1")
async def test_a_lease_is_renewed_under_its_token(world: World) -> None:
    token = await world.store.acquire("janitor", world.scheduler, world.start, MINUTE)
    assert await world.store.acquire("janitor", world.scheduler, world.at(30 * SECOND), MINUTE) == token
    assert await world.store.acquire("janitor", world.worker, world.at(80 * SECOND), MINUTE) is None


@pytest.mark.requirement("HA-1")
async def test_an_expired_lease_is_not_renewed_but_taken_anew(world: World) -> None:
    """`expired OR mine` in one condition would let a stale leader go on under its old token for ever."""
    first = await world.store.acquire("janitor", world.scheduler, world.start, MINUTE)
    second = await world.store.acquire("janitor", world.scheduler, world.at(MINUTE), MINUTE)
    assert second is not None and second > first


@pytest.mark.requirement("HA-1")
async def test_a_stale_leader_cannot_take_back_what_another_took(world: World) -> None:
    first = await world.store.acquire("janitor", world.scheduler, world.start, MINUTE)
    second = await world.store.acquire("janitor", world.worker, world.at(MINUTE), MINUTE)
    assert second is not None and second > first
    assert await world.store.acquire("janitor", world.scheduler, world.at(MINUTE + SECOND), MINUTE) is None


@pytest.mark.requirement("HA-3")
async def test_leaving_hands_over_at_once(world: World) -> None:
    first = await world.store.acquire("janitor", world.scheduler, world.start, HOUR)
    await world.store.leave(world.scheduler, world.at(SECOND))
    second = await world.store.acquire("janitor", world.worker, world.at(SECOND), HOUR)
    assert second is not None and second > first


async def test_death_hands_over_at_once(world: World) -> None:
    await world.store.acquire("janitor", world.scheduler, world.start, HOUR)
    await world.store.retire(await world.instance(world.scheduler), world.at(SECOND))
    assert await world.store.acquire("janitor", world.worker, world.at(SECOND), HOUR) is not None


async def test_a_resync_under_a_stale_token_is_refused(world: World) -> None:
    token = await world.store.acquire("reconciler", world.scheduler, world.start, MINUTE)
    later = world.at(2 * MINUTE)
    assert await world.store.acquire("reconciler", world.worker, later, MINUTE) is not None
    with pytest.raises(Fenced):
        await world.store.resync(world.scheduler, token, later)


@pytest.mark.requirement("OPS-8")
async def test_what_a_process_counts_is_seen_while_it_lives(world: World) -> None:
    counted = {"timekeeper": {"steps": 3, "did": 7, "failures": 0, "seconds": 0.5, "longest": 0.25}}
    assert await world.store.reports() == []
    await world.store.report(world.scheduler, {"timekeeper": {"steps": 1}}, world.start)
    await world.store.report(world.scheduler, counted, world.at(SECOND))
    [(one, at, told)] = await world.another().reports()
    assert (one.id, one.role, at, told) == (world.scheduler.instance_id, "scheduler", world.at(SECOND), counted)
    await world.store.leave(world.scheduler, world.at(2 * SECOND))
    assert await world.store.reports() == []
