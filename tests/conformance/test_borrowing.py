"""Pools that borrow: never more than they may, never what others there wait for, and whoever may go is woken."""

from __future__ import annotations

import pytest

from conformance.worlds import World
from tidegate.domain.admission import Admit, Decision, admit, needs_of
from tidegate.domain.ids import RunKey
from tidegate.domain.instants import HOUR, SECOND
from tidegate.domain.programs import Command
from tidegate.domain.retry import RetryAt
from tidegate.domain.runs import State

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("GATE-14")]


async def pools(world: World, *, own: int, lender: int, most: int) -> None:
    async with world.store.changing() as tx:
        await tx.put_pool("lender", lender, None)
        await tx.put_pool("reports", own, None, ("lender", most))


async def runs(world: World, pool: str, count: int, *, at: int = 0, name: str = "") -> list[RunKey]:
    """So many waiting runs of programs in a pool."""
    name = name or pool
    schedule = await world.schedule(
        name, program=name, due=None, constraints=(), spec=Command(argv=("true",), pool=pool)
    )
    return [await world.manual(schedule, world.at(at + number)) for number in range(count)]


async def judge(world: World, now: int) -> list[RunKey]:
    """What the engine would admit, admitted."""
    async with world.store.transaction(world.scheduler) as tx:
        found = await tx.claim_waiting(now, 100)
        verdicts: list[Decision] = admit(found, await tx.admission_facts(needs_of(found), now), now=now)
        await tx.settle(verdicts, now)
    return [one.key for one in verdicts if isinstance(one, Admit)]


async def loans(world: World) -> dict[str, tuple[int, int, int]]:
    """pool -> (used, borrowed, lent)"""
    return {one.name: (one.used, one.borrowed, one.lent) for one in await world.store.pools()}


async def test_a_run_takes_a_slot_of_the_other_pool_when_its_own_are_taken(world: World) -> None:
    await pools(world, own=1, lender=3, most=2)
    keys = await runs(world, "reports", 5)
    assert await judge(world, world.at(SECOND)) == keys[:3]
    found = await loans(world)
    assert found["reports"] == (1, 2, 0) and found["lender"] == (2, 0, 2)
    held = await world.record(keys[3])
    assert held.wake_key == "pool:reports"
    assert "borrows of pool lender what it may" in held.waiting_for[0]["why"]
    assert await judge(world, world.at(2 * SECOND)) == [], "nobody is woken for what he may not have"


async def test_a_borrowed_slot_goes_back_to_whom_it_belongs(world: World) -> None:
    await pools(world, own=1, lender=1, most=2)
    first, second, third = await runs(world, "reports", 3)
    assert await judge(world, world.at(SECOND)) == [first, second]
    launches = {one.attempt.run: one for one in await world.launch(world.at(SECOND))}
    [mine] = await runs(world, "lender", 1, at=10)
    assert await judge(world, world.at(2 * SECOND)) == [], "what is lent is not taken away"
    await world.end([launches[second]], world.at(3 * SECOND))
    assert await judge(world, world.at(3 * SECOND)) == [mine]
    assert "needs its own" in (await world.record(third)).waiting_for[0]["why"] or (await world.state(third)) is (
        State.WAITING
    )
    assert (await loans(world))["lender"] == (1, 0, 0)


async def test_nothing_is_borrowed_while_somebody_waits_for_it_there(world: World) -> None:
    await pools(world, own=1, lender=1, most=1)
    busy = await runs(world, "lender", 2, name="busy")
    assert await judge(world, world.at(SECOND)) == busy[:1]
    launches = await world.launch(world.at(SECOND))
    keys = await runs(world, "reports", 2)
    assert await judge(world, world.at(2 * SECOND)) == keys[:1]
    await world.end(launches, world.at(3 * SECOND))
    assert await judge(world, world.at(3 * SECOND)) == busy[1:], "the one whose pool it is goes first"
    await world.end(await world.launch(world.at(3 * SECOND)), world.at(4 * SECOND))
    assert await judge(world, world.at(4 * SECOND)) == keys[1:], "with its own slot or the other"


async def test_who_may_borrow_is_woken_when_the_last_who_waited_there_is_gone(world: World) -> None:
    await pools(world, own=1, lender=1, most=1)
    await runs(world, "lender", 2, name="busy")
    await judge(world, world.at(SECOND))
    launches = await world.launch(world.at(SECOND))
    keys = await runs(world, "reports", 2)
    await judge(world, world.at(SECOND))
    async with world.store.changing() as tx:  # a larger pool, of which the one that waits there takes one
        await tx.put_pool("lender", 3, None)
    assert len(await judge(world, world.at(2 * SECOND))) == 1
    assert await judge(world, world.at(2 * SECOND)) == keys[1:]
    assert len(launches) == 1


async def test_a_retry_gives_a_borrowed_slot_back_and_may_have_another(world: World) -> None:
    await pools(world, own=1, lender=1, most=1)
    first, second, third = await runs(world, "reports", 3)
    await judge(world, world.at(SECOND))
    launches = {one.attempt.run: one for one in await world.launch(world.at(SECOND))}
    again = RetryAt(at=world.at(HOUR), failures=1, lost=0)
    await world.end([launches[second]], world.at(2 * SECOND), outcome="failed", then=again)
    assert await judge(world, world.at(2 * SECOND)) == [third]
    await world.end([launches[first]], world.at(3 * SECOND))
    assert await judge(world, world.at(HOUR)) == [second]
    assert (await loans(world))["reports"] == (1, 1, 0)


async def test_a_pool_that_begins_to_borrow_wakes_those_who_wait(world: World) -> None:
    async with world.store.changing() as tx:
        await tx.put_pool("lender", 1, None)
        await tx.put_pool("reports", 1, None)
    keys = await runs(world, "reports", 2)
    assert await judge(world, world.at(SECOND)) == keys[:1]
    async with world.store.changing() as tx:
        await tx.put_pool("reports", 1, None, ("lender", 1))
    assert await judge(world, world.at(2 * SECOND)) == keys[1:]
