"""Counters and pools: no limit is passed, nothing is kept by the dead, and whoever can go on is woken."""

from __future__ import annotations

import asyncio

import pytest

from conformance.worlds import World, at_most, facts_of, judged
from tidegate.domain.admission import Admit, Discard, Hold, admit, needs_of
from tidegate.domain.instants import HOUR, MINUTE, SECOND
from tidegate.domain.programs import Command
from tidegate.domain.runs import State

pytestmark = pytest.mark.anyio


async def backlog(world: World, name: str, count: int, **said: object) -> list:  # type: ignore[type-arg]
    """`count` runs of one schedule, all waiting."""
    schedule = await world.schedule(name, due=None, **said)  # type: ignore[arg-type]
    return [await world.manual(schedule, world.at(number)) for number in range(count)]


async def test_a_counter_that_is_not_there_is_absent(world: World) -> None:
    async with world.store.transaction(world.scheduler) as tx:
        facts = await facts_of(tx, ["s99", "p99"], ["default", "nowhere"])
    assert facts.held.get("s99", 0) == 0
    assert dict(facts.free) == {"default": 8}


@pytest.mark.requirement("GATE-1", "GATE-11")
async def test_no_two_admissions_pass_one_limit(world: World) -> None:
    """Two admitters at the same moment, on a counter that has no row yet."""
    await backlog(world, "a", 3, program="shared", constraints=at_most(1, "program"))
    await backlog(world, "b", 3, program="shared", constraints=at_most(1, "program"))
    admitted: list[object] = []

    async def one(store: object) -> None:
        async with store.transaction(world.scheduler) as tx:  # type: ignore[attr-defined]
            found = await tx.claim_waiting(world.at(MINUTE), 3)
            verdicts = await judged(tx, found)
            await asyncio.sleep(0)
            await tx.settle(verdicts, world.at(MINUTE))
            admitted.extend(verdict for verdict in verdicts if isinstance(verdict, Admit))

    await asyncio.gather(one(world.store), one(world.another()))
    assert len(admitted) == 1


@pytest.mark.requirement("GATE-1")
async def test_the_end_of_a_run_wakes_the_next_that_waits_for_its_counter(world: World) -> None:
    first, second, third = await backlog(world, "orders", 3, constraints=at_most(1))
    launches = await world.begin_runs(world.at(SECOND))
    assert [one.attempt.run for one in launches] == [first]
    assert await world.store.next_wake() is None
    held = await world.record(second)
    assert held.wake_key == f"s{first.schedule_id}"
    assert held.waiting_for == ({"constraint": f"s{first.schedule_id}"},)

    await world.end(launches, world.at(2 * SECOND))
    assert [one.key for one in await world.waiting(world.at(2 * SECOND))] == [second]
    launches = await world.begin_runs(world.at(3 * SECOND))
    assert [one.attempt.run for one in launches] == [second]
    await world.end(launches, world.at(4 * SECOND))
    assert [one.key for one in await world.waiting(world.at(4 * SECOND))] == [third]


async def test_two_ends_wake_two(world: World) -> None:
    keys = await backlog(world, "orders", 5, constraints=at_most(2))
    launches = await world.begin_runs(world.at(SECOND))
    await world.end(launches[:1], world.at(2 * SECOND))
    await world.end(launches[1:], world.at(2 * SECOND))
    assert [one.key for one in await world.waiting(world.at(2 * SECOND))] == keys[2:4]


async def test_the_end_of_a_run_wakes_the_next_that_waits_for_its_slot(world: World) -> None:
    async with world.store.changing() as tx:
        await tx.put_pool("default", 1, None)
    await backlog(world, "a", 1)
    launches = await world.begin_runs(world.at(SECOND))
    assert len(launches) == 1
    [low] = await backlog(world, "low", 1, priority=1)
    schedule = await world.schedule("high", due=None)
    high = await world.manual(schedule, world.at(5), priority=90)
    await world.admit(world.at(SECOND))
    assert (await world.record(high)).wake_key == "pool:default"
    await world.end(launches, world.at(2 * SECOND))
    assert [one.key for one in await world.waiting(world.at(2 * SECOND))] == [high]
    assert (await world.state(low)) is State.WAITING


async def test_a_retry_lets_others_have_its_slot(world: World) -> None:
    from tidegate.domain.retry import RetryAt

    async with world.store.changing() as tx:
        await tx.put_pool("default", 1, None)
    [first] = await backlog(world, "a", 1)
    [second] = await backlog(world, "b", 1)
    launches = await world.begin_runs(world.at(SECOND))
    assert [one.attempt.run for one in launches] == [first]
    again = RetryAt(at=world.at(HOUR), failures=1, lost=0)
    await world.end(launches, world.at(2 * SECOND), outcome="failed", then=again)
    assert [one.key for one in await world.waiting(world.at(2 * SECOND))] == [second]


async def test_a_freed_slot_goes_on_to_the_next_when_the_woken_run_cannot_use_it(world: World) -> None:
    """The woken run is held by something else by now; the slot must not lie idle while others wait for it."""
    async with world.store.changing() as tx:
        await tx.put_pool("default", 1, None)
    [busy] = await backlog(world, "busy", 1)
    [first] = await backlog(world, "first", 1)
    [second] = await backlog(world, "second", 1)
    launches = await world.begin_runs(world.at(SECOND))
    assert [one.attempt.run for one in launches] == [busy]
    await world.end(launches, world.at(2 * SECOND))
    async with world.store.transaction(world.scheduler) as tx:
        [woken] = await tx.claim_waiting(world.at(2 * SECOND), 10)
        assert woken.key == first
        await facts_of(tx, [], ["default"])
        held = Hold(key=first, until=world.at(HOUR), wake_key=None, waiting_for=())
        await tx.settle([held], world.at(2 * SECOND))
    assert [one.key for one in await world.waiting(world.at(2 * SECOND))] == [second]


@pytest.mark.requirement("GATE-14")
async def test_a_new_run_leaves_a_free_slot_to_who_waits_for_one(world: World) -> None:
    """Whoever was woken for it is in the hands of a process that is slow; so it is the next one's."""
    async with world.store.changing() as tx:
        await tx.put_pool("default", 1, None)
    first, second, third = [(await backlog(world, name, 1))[0] for name in ("first", "second", "third")]
    launches = await world.begin_runs(world.at(SECOND))
    assert [one.attempt.run for one in launches] == [first]
    await world.end(launches, world.at(2 * SECOND))
    new = await world.manual(await world.schedule("new", due=None), world.at(3 * SECOND))
    now = world.at(4 * SECOND)

    async def judge() -> list[Admit | Hold | Discard]:
        async with world.another().transaction(world.scheduler) as tx:
            found = await tx.claim_waiting(now, 10)
            verdicts = admit(found, await tx.admission_facts(needs_of(found), now), now=now)
            await tx.settle(verdicts, now)
            return verdicts

    async with world.store.transaction(world.scheduler) as slow:
        assert second in [one.key for one in await slow.claim_waiting(now, 1)]
        [held] = await judge()
        assert isinstance(held, Hold) and (held.key, held.wake_key) == (new, "pool:default")
        assert held.waiting_for[0]["why"] == "Others wait for a slot of pool default and come first."
        [admitted] = await judge()
        assert isinstance(admitted, Admit) and admitted.key == third
    assert (await world.record(second)).state is State.WAITING
    assert await judge() != []  # it finds the slot taken, and waits on
    await world.end(await world.begin_runs(now), now + SECOND)
    assert [one.key for one in await world.waiting(now + SECOND)] == [second]


async def test_a_freed_counter_goes_on_to_the_next_when_the_woken_run_ends(world: World) -> None:
    first, second, third = await backlog(world, "orders", 3, constraints=at_most(1))
    launches = await world.begin_runs(world.at(SECOND))
    await world.end(launches, world.at(2 * SECOND))
    async with world.store.transaction(world.scheduler) as tx:
        [woken] = await tx.claim_waiting(world.at(2 * SECOND), 10)
        assert woken.key == second
        await tx.settle([Discard(key=second, outcome=State.EXPIRED, reason="")], world.at(2 * SECOND))
    assert [one.key for one in await world.waiting(world.at(2 * SECOND))] == [third]


async def test_a_woken_run_that_is_cancelled_passes_it_on(world: World) -> None:
    _, second, third = await backlog(world, "orders", 3, constraints=at_most(1))
    await world.end(await world.begin_runs(world.at(SECOND)), world.at(2 * SECOND))
    async with world.store.changing() as tx:
        assert await tx.request_stop(second, "ann", world.at(3 * SECOND)) is State.CANCELLED
    assert [one.key for one in await world.waiting(world.at(4 * SECOND))] == [third]


async def test_a_narrow_limit_in_front_does_not_hold_up_a_wide_one(world: World) -> None:
    """Two schedules of one program: one lets a single run be, the other three."""
    shared = {"program": "shared", "due": None}
    narrow = await world.schedule("narrow", constraints=at_most(1, "program"), **shared)  # type: ignore[arg-type]
    wide = await world.schedule("wide", constraints=at_most(3, "program"), **shared)  # type: ignore[arg-type]
    running = [await world.manual(wide, world.at(number)) for number in range(3)]
    launches = await world.begin_runs(world.at(SECOND))
    assert [one.attempt.run for one in launches] == running
    front = await world.manual(narrow, world.at(2 * SECOND), priority=90)
    behind = await world.manual(wide, world.at(2 * SECOND), priority=10)
    assert await world.admit(world.at(2 * SECOND)) == []
    await world.end(launches[:1], world.at(3 * SECOND))
    assert await world.admit(world.at(3 * SECOND)) == [behind]
    assert await world.state(front) is State.WAITING


async def test_a_larger_pool_wakes_whom_it_can_now_hold(world: World) -> None:
    async with world.store.changing() as tx:
        await tx.put_pool("default", 1, None)
    keys = [key for name in "abcd" for key in await backlog(world, name, 1)]
    assert await world.admit(world.at(SECOND)) == keys[:1]
    async with world.store.changing() as tx:
        assert not await tx.put_pool("default", 3, None)
    assert await world.admit(world.at(HOUR)) == keys[1:3]
    assert await world.pool() == (3, 3)


async def test_a_run_in_a_pool_that_is_not_there_waits_for_it(world: World) -> None:
    schedule = await world.schedule("odd", program="odd", spec=Command(argv=("true",), pool="later"), due=None)
    key = await world.manual(schedule, world.start)
    assert await world.admit(world.at(SECOND)) == []
    assert (await world.record(key)).wake_key == "pool:later"
    async with world.store.changing() as tx:
        assert await tx.put_pool("later", 1, None)
    assert await world.admit(world.at(HOUR)) == [key]


async def test_what_a_rolled_back_admission_took_is_free(world: World) -> None:
    await backlog(world, "orders", 1)
    with pytest.raises(ZeroDivisionError):
        async with world.store.transaction(world.scheduler) as tx:
            await tx.settle(await judged(tx, await tx.claim_waiting(world.at(SECOND), 10)), world.at(SECOND))
            raise ZeroDivisionError
    assert await world.pool() == (8, 0)
    assert len(await world.admit(world.at(SECOND))) == 1


async def test_everything_is_given_back_after_many_runs(world: World) -> None:
    """Counters and pools add up to nothing when nothing runs, and a resync finds nothing to mend."""
    async with world.store.changing() as tx:
        await tx.put_pool("default", 3, None)
    for name in "abc":
        await backlog(world, name, 6, program="shared", constraints=at_most(2))
    now = world.at(MINUTE)
    total = 0
    for _ in range(30):
        now += SECOND
        launches = await world.begin_runs(now)
        assert len(launches) <= 3
        total += len(launches)
        await world.end(launches, now + 1)
    assert total == 18
    assert await world.pool() == (3, 0)
    token = await world.store.acquire("reconciler", world.scheduler, now, HOUR)
    assert list(await world.store.resync(world.scheduler, token, now)) == []
