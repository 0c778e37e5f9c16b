"""What one transaction has claimed no other gets, and what is handed to whom."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from conformance.worlds import World, plan_of
from tidegate.domain.instants import HOUR, MINUTE, SECOND
from tidegate.domain.runs import State
from tidegate.domain.schedules import WaitingPolicy

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("HA-4")
async def test_two_timekeepers_never_take_the_same_clock(world: World) -> None:
    for number in range(6):
        await world.schedule(f"s{number}", due=number)
    other = world.another()
    async with world.store.transaction(world.scheduler) as mine:
        first = await mine.claim_due(world.at(10), 3)
        async with other.transaction(world.worker) as theirs:
            second = await theirs.claim_due(world.at(10), 10)
            await theirs.record([plan_of(one) for one in second], world.at(10))
        await mine.record([plan_of(one) for one in first], world.at(10))
    assert [one.name for one in first] == [f"sales/s{number}" for number in range(3)]
    assert [one.name for one in second] == [f"sales/s{number}" for number in range(3, 6)]
    assert len(await world.waiting(world.at(10))) == 6


async def test_a_clock_whose_claim_was_rolled_back_is_due_again(world: World) -> None:
    await world.schedule("one")
    with pytest.raises(ZeroDivisionError):
        async with world.store.transaction(world.scheduler) as tx:
            assert await tx.claim_due(world.start, 10)
            raise ZeroDivisionError
    assert await world.store.next_due() == world.start
    assert len(await world.fire()) == 1


async def test_earliest_first_and_not_before_it_is_due(world: World) -> None:
    await world.schedule("late", due=2 * SECOND)
    await world.schedule("early", due=SECOND)
    await world.schedule("never", due=None)
    async with world.store.transaction(world.scheduler) as tx:
        assert await tx.claim_due(world.at(SECOND - 1), 10) == []
        found = await tx.claim_due(world.at(3 * SECOND), 10)
    assert [one.name for one in found] == ["sales/early", "sales/late"]


async def test_a_clock_that_moved_back_is_seen_at_once(world: World) -> None:
    """Whatever a store remembers of where the queue begins."""
    await world.schedule("far", due=HOUR)
    for span in (0, SECOND, MINUTE):
        assert await world.fire(world.at(span)) == []
        assert await world.store.next_due() == world.at(HOUR)
    await world.schedule("near", due=5)
    assert await world.store.next_due() == world.at(5)
    assert len(await world.fire(world.at(MINUTE))) == 1


async def test_two_admitters_never_judge_the_same_run(world: World) -> None:
    for number in range(4):
        await world.schedule(f"s{number}", due=number)
    await world.fire(world.at(10))
    other = world.another()
    async with world.store.transaction(world.scheduler) as mine:
        first = await mine.claim_waiting(world.at(10), 2)
        async with other.transaction(world.worker) as theirs:
            second = await theirs.claim_waiting(world.at(10), 10)
    assert len(first) == 2 and len(second) == 2
    assert {one.key for one in first}.isdisjoint({one.key for one in second})


async def test_two_dispatchers_never_start_the_same_run(world: World) -> None:
    for number in range(4):
        await world.schedule(f"s{number}")
    await world.fire()
    await world.admit(world.at(1))
    other = world.another()
    async with world.store.transaction(world.worker) as mine:
        first = await mine.claim_ready(["command"], world.at(2), 2)
        async with other.transaction(world.scheduler) as theirs:
            second = await theirs.claim_ready(["command"], world.at(2), 10)
    assert len(first) == 2 and len(second) == 2
    assert {one.identity for one in first}.isdisjoint({one.identity for one in second})
    assert len({one.fence for one in [*first, *second]}) == 4


async def test_only_the_kinds_asked_for_and_highest_priority_first(world: World) -> None:
    await world.schedule("low", priority=10)
    await world.schedule("high", priority=90)
    await world.fire()
    await world.admit(world.at(1))
    async with world.store.transaction(world.worker) as tx:
        assert await tx.claim_ready(["python"], world.at(2), 10) == []
        assert await tx.claim_ready([], world.at(2), 10) == []
        assert [one.schedule for one in await tx.claim_ready(["python", "command"], world.at(2), 1)] == ["high"]
        assert [one.schedule for one in await tx.claim_ready(["command"], world.at(2), 5)] == ["low"]


@pytest.mark.requirement("RUN-3")
async def test_a_pool_starts_no_more_than_its_launch_rate(world: World) -> None:
    async with world.store.changing() as tx:
        await tx.put_pool("default", 100, (2, SECOND, 3))
    for number in range(7):
        await world.schedule(f"s{number}")
    await world.fire()
    await world.admit(world.at(MINUTE))
    now = world.at(2 * MINUTE)
    assert len(await world.launch(now)) == 3  # the burst
    assert await world.launch(now) == []
    async with world.store.transaction(world.worker) as tx:
        token = await tx.next_token(["command"], now)
    assert token is not None and now + SECOND // 2 <= token <= now + SECOND // 2 + 2
    assert len(await world.launch(token)) == 1
    assert len(await world.launch(now + HOUR)) == 3
    async with world.store.transaction(world.worker) as tx:
        assert await tx.next_token(["command"], now + HOUR) is None


async def test_a_launch_rate_holds_back_its_own_pool_only(world: World) -> None:
    from tidegate.domain.programs import Command

    async with world.store.changing() as tx:
        await tx.put_pool("slow", 100, (1, HOUR, 1))
    for number in range(3):
        await world.schedule(f"slow{number}", program="crawl", spec=Command(argv=("true",), pool="slow"), priority=99)
    await world.schedule("quick")
    await world.fire()
    await world.admit(world.at(1))
    names = sorted(one.schedule for one in await world.launch(world.at(MINUTE)))
    assert names[0] == "quick" and len(names) == 2


@pytest.mark.requirement("GATE-12")
async def test_a_run_is_looked_at_when_it_expires(world: World) -> None:
    from tidegate.domain.admission import Discard, Hold

    await world.schedule("impatient", waiting=WaitingPolicy(timeout=MINUTE))
    [key] = await world.fire()
    [candidate] = await world.waiting(world.start)
    assert candidate.expires_at == world.at(MINUTE)
    async with world.store.transaction(world.scheduler) as tx:
        await tx.claim_waiting(world.start, 10)
        await tx.settle([Hold(key=key, until=None, wake_key="s1", waiting_for=())], world.start)
    assert await world.store.next_wake() == world.at(MINUTE)
    assert await world.waiting(world.at(MINUTE - 1)) == []
    async with world.store.transaction(world.scheduler) as tx:
        assert len(await tx.claim_waiting(world.at(MINUTE), 10)) == 1
        await tx.settle([Discard(key=key, outcome=State.EXPIRED, reason="waited too long")], world.at(MINUTE))
    run = await world.record(key)
    assert (run.state, run.reason, run.finished_at) == (State.EXPIRED, "waited too long", world.at(MINUTE))
    assert await world.store.next_wake() is None


async def test_a_run_held_past_its_expiry_is_not_looked_at_for_ever(world: World) -> None:
    from tidegate.domain.admission import Hold

    await world.schedule("patient", waiting=WaitingPolicy(timeout=MINUTE))
    [key] = await world.fire()
    async with world.store.transaction(world.scheduler) as tx:
        await tx.claim_waiting(world.at(MINUTE), 10)
        await tx.settle([Hold(key=key, until=None, wake_key="s1", waiting_for=())], world.at(MINUTE))
    assert await world.store.next_wake() is None
    assert await world.waiting(world.at(HOUR)) == []


async def test_many_at_once_each_get_their_own(world: World) -> None:
    """Four claim in the same moment, over and over, until all is taken."""
    for number in range(40):
        await world.schedule(f"s{number}", due=number)
    taken: list[str] = []

    async def take() -> None:
        store = world.another()
        while True:
            async with store.transaction(world.scheduler) as tx:
                due = await tx.claim_due(world.at(MINUTE // 2), 3)
                await tx.record([plan_of(one) for one in due], world.at(MINUTE // 2))
            if not due:
                return
            taken.extend(one.name for one in due)

    async with AsyncExitStack():
        await asyncio.gather(*(take() for _ in range(4)))
    assert len(taken) == len(set(taken)) == 40
