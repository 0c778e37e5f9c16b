"""Clocks that count from the end of a run, as every store keeps them."""

from __future__ import annotations

import pytest

from conformance.worlds import NS, World, plan_of
from tidegate.domain.instants import MINUTE, SECOND
from tidegate.domain.retry import RetryAt
from tidegate.domain.runs import State
from tidegate.domain.schedules import Mode
from tidegate.domain.triggers import AfterFinish
from tidegate.ports.records import ClockState

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("TIME-4")]

TRIGGER = AfterFinish(delay=30 * SECOND)


async def fire(world: World) -> None:
    """Its fire becomes a run, and no next one is known."""
    async with world.store.transaction(world.scheduler) as tx:
        due = await tx.claim_due(world.start, 10)
        await tx.record([plan_of(one, next_in=None) for one in due], world.start)


async def test_the_next_fire_comes_its_delay_after_the_end(world: World) -> None:
    await world.schedule("sync", trigger=TRIGGER)
    await fire(world)
    assert await world.store.next_due() is None
    launches = await world.begin_runs(world.at(SECOND))
    await world.end(launches, world.at(9 * SECOND), outcome="failed", ago=SECOND)
    assert await world.store.next_due() == world.at(38 * SECOND)


async def test_an_attempt_that_is_tried_again_is_no_end(world: World) -> None:
    await world.schedule("sync", trigger=TRIGGER)
    await fire(world)
    launches = await world.begin_runs(world.at(SECOND))
    again = RetryAt(at=world.at(MINUTE), failures=1, lost=0)
    await world.end(launches, world.at(9 * SECOND), outcome="failed", then=again)
    assert await world.store.next_due() is None


async def test_it_counts_from_the_end_of_the_last_that_lives(world: World) -> None:
    schedule = await world.schedule("sync", trigger=TRIGGER, constraints=())
    await fire(world)
    await world.manual(schedule, world.at(0))
    first, second = await world.begin_runs(world.at(SECOND))
    await world.end([first], world.at(5 * SECOND))
    assert await world.store.next_due() is None
    await world.end([second], world.at(7 * SECOND))
    assert await world.store.next_due() == world.at(37 * SECOND)


async def test_an_end_that_is_recorded_late_does_not_take_it_back_before_its_cursor(world: World) -> None:
    await world.schedule("sync", trigger=AfterFinish(delay=0))
    await fire(world)
    launches = await world.begin_runs(world.at(SECOND))
    await world.end(launches, world.at(MINUTE), ago=2 * MINUTE)
    due = await world.store.next_due()
    assert due is not None and due > world.start  # where the cursor stands


async def test_a_run_that_is_cancelled_before_it_began_is_an_end(world: World) -> None:
    await world.schedule("sync", trigger=TRIGGER)
    await fire(world)
    page, _ = await world.store.runs(None, schedule=None, states=[], since=None, before=None, limit=10)
    async with world.store.changing() as tx:
        assert await tx.request_stop(page[0].key, "ann", world.at(SECOND)) is State.CANCELLED
    assert await world.store.next_due() == world.at(31 * SECOND)


@pytest.mark.requirement("LIFE-4")
async def test_a_waiting_run_that_an_update_ends_is_an_end(world: World) -> None:
    await world.schedule("sync", trigger=TRIGGER)
    await fire(world)
    async with world.store.changing() as tx:
        [record] = await tx.lock_schedules(NS, ["sync"])
        await tx.revise_schedule(
            record.id,
            record.spec,
            record.document,
            program=record.program.id,
            mode=Mode.ENABLED,
            reason="",
            author="ann",
            valid_from=world.at(SECOND),
            clock=ClockState(cursor=world.at(SECOND), cursor_rev=2, next_due=None),
        )
        assert await tx.end_waiting(record.id, State.SUPERSEDED, "updated", world.at(SECOND)) == 1
    due = await world.store.next_due()
    assert due is not None and due - world.at(31 * SECOND) in (0, 1)  # after the cursor, which stands at the update


async def test_a_disabled_schedule_does_not_go_on(world: World) -> None:
    await world.schedule("sync", trigger=TRIGGER)
    await fire(world)
    launches = await world.begin_runs(world.at(SECOND))
    async with world.store.changing() as tx:
        [record] = await tx.lock_schedules(NS, ["sync"])
        await tx.revise_schedule(
            record.id,
            record.spec,
            record.document,
            program=record.program.id,
            mode=Mode.DROP,
            reason="rest",
            author="ann",
            valid_from=world.at(2 * SECOND),
            clock=ClockState(cursor=world.at(2 * SECOND), cursor_rev=2, next_due=None),
        )
    await world.end(launches, world.at(3 * SECOND))
    assert await world.store.next_due() is None
