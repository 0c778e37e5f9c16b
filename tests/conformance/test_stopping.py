"""Stopping what waits and what runs, and adopting what its worker left behind."""

from __future__ import annotations

import pytest

from conformance.worlds import HOST, World, at_most
from tidegate.domain.errors import NotFound
from tidegate.domain.ids import Fence, RunKey, ScheduleId
from tidegate.domain.instants import HOUR, MINUTE, SECOND
from tidegate.domain.retry import Finish, RetryAt
from tidegate.domain.runs import State

pytestmark = pytest.mark.anyio


async def stop(world: World, key: RunKey, now: int, by: str = "ann") -> State:
    async with world.store.changing() as tx:
        state: State = await tx.request_stop(key, by, now)
        return state


@pytest.mark.requirement("RUN-9")
async def test_a_waiting_run_ends_at_once(world: World) -> None:
    await world.schedule("orders")
    [key] = await world.fire()
    assert await stop(world, key, world.at(SECOND)) is State.CANCELLED
    run = await world.record(key)
    assert (run.state, run.finished_at, "ann" in run.reason) == (State.CANCELLED, world.at(SECOND), True)
    assert await world.waiting(world.at(HOUR)) == []
    assert await stop(world, key, world.at(MINUTE)) is State.CANCELLED


@pytest.mark.requirement("RUN-9")
async def test_a_ready_run_gives_back_what_it_took(world: World) -> None:
    await world.schedule("orders", constraints=at_most(1))
    [key] = await world.fire()
    second = await world.manual(key.schedule_id, world.at(1))
    assert await world.admit(world.at(SECOND)) == [key]
    assert await stop(world, key, world.at(2 * SECOND)) is State.CANCELLED
    assert await world.pool() == (8, 0)
    assert await world.launch(world.at(3 * SECOND)) == []
    assert await world.admit(world.at(3 * SECOND)) == [second]


@pytest.mark.requirement("RUN-9")
async def test_a_running_one_is_asked_and_its_worker_hears(world: World) -> None:
    await world.schedule("orders")
    [key] = await world.fire()
    [launch] = await world.begin_runs(world.at(SECOND))
    assert list(await world.store.stop_requests(world.worker)) == []
    assert await stop(world, key, world.at(2 * SECOND)) is State.STOPPING
    [request] = await world.store.stop_requests(world.worker)
    assert request.launch.attempt == launch.attempt
    assert (request.stop, request.stop_at, request.state) == ("cancel", world.at(2 * SECOND), State.STOPPING)
    assert list(await world.store.stop_requests(world.scheduler)) == []
    assert (await world.record(key)).stop == "cancel"
    await world.end([launch], world.at(3 * SECOND), outcome="cancelled")
    assert await world.state(key) is State.CANCELLED
    assert list(await world.store.stop_requests(world.worker)) == []


@pytest.mark.requirement("RUN-9")
async def test_a_starting_one_is_asked_too_and_stays_asked_when_it_starts(world: World) -> None:
    from tidegate.ports.engine import Started

    await world.schedule("orders")
    [key] = await world.fire()
    await world.admit(world.at(1))
    [launch] = await world.launch(world.at(2))
    assert await stop(world, key, world.at(3)) is State.STOPPING
    async with world.store.transaction(world.worker) as tx:
        await tx.started([Started(attempt=launch.attempt, backend_id="x")], world.at(4))
    run = await world.record(key)
    assert (run.state, run.started_at) == (State.STOPPING, world.at(4))


async def test_one_that_ended_stays_as_it_ended(world: World) -> None:
    await world.schedule("orders")
    [key] = await world.fire()
    await world.end(await world.begin_runs(world.at(1)), world.at(2))
    assert await stop(world, key, world.at(3)) is State.SUCCEEDED
    assert (await world.record(key)).stop is None


async def test_what_is_not_there_cannot_be_stopped(world: World) -> None:
    with pytest.raises(NotFound):
        await stop(world, RunKey(world.start, ScheduleId(99), 0), world.start)


async def test_the_first_reason_of_the_engine_stands_and_a_person_s_word_above_it(world: World) -> None:
    await world.schedule("orders")
    [key] = await world.fire()
    [launch] = await world.begin_runs(world.at(1))
    for now, why in ((2, "timeout"), (3, "shutdown")):
        async with world.store.transaction(world.worker) as tx:
            await tx.stopping([(launch.attempt, why)], world.at(now))
    [one] = await world.store.open_attempts([launch.attempt])
    assert (one.stop, one.stop_at, one.state) == ("timeout", world.at(2), State.STOPPING)
    await stop(world, key, world.at(4))
    [one] = await world.store.open_attempts([launch.attempt])
    assert one.stop == "cancel"


async def test_what_was_cancelled_meanwhile_is_not_tried_again(world: World) -> None:
    await world.schedule("orders")
    [key] = await world.fire()
    launches = await world.begin_runs(world.at(1))
    await stop(world, key, world.at(2))
    again = RetryAt(at=world.at(MINUTE), failures=1, lost=0)
    await world.end(launches, world.at(3), outcome="failed", then=again)
    run = await world.record(key)
    assert (run.state, "ann" in run.reason) == (State.CANCELLED, True)
    assert await world.pool() == (8, 0)


async def test_a_waiting_retry_can_be_cancelled_and_gives_back_its_counters(world: World) -> None:
    schedule = await world.schedule("orders", constraints=at_most(1))
    [key] = await world.fire()
    second = await world.manual(schedule, world.at(1))
    again = RetryAt(at=world.at(HOUR), failures=1, lost=0)
    await world.end(await world.begin_runs(world.at(1)), world.at(2), outcome="failed", then=again)
    assert await stop(world, key, world.at(3)) is State.CANCELLED
    assert await world.admit(world.at(4)) == [second]
    assert (await world.store.stats(schedule)).total_runs == 1


async def test_a_retry_forgets_why_the_last_attempt_was_stopped(world: World) -> None:
    await world.schedule("orders")
    [key] = await world.fire()
    [launch] = await world.begin_runs(world.at(1))
    async with world.store.transaction(world.worker) as tx:
        await tx.stopping([(launch.attempt, "timeout")], world.at(2))
    again = RetryAt(at=world.at(MINUTE), failures=1, lost=0)
    await world.end([launch], world.at(3), outcome="timed_out", then=again)
    assert (await world.record(key)).stop is None
    assert len(await world.begin_runs(world.at(MINUTE))) == 1


# ── adoption ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def adopt(world: World, fence: Fence, host: str = HOST, limit: int = 10) -> list[str]:
    async with world.store.transaction(fence) as tx:
        found = await tx.adopt(host, ["command"], world.at(MINUTE), limit)
    assert all(one.instance_id == fence.instance_id for one in found)
    return sorted(one.launch.identity for one in found)


async def newcomer(world: World) -> Fence:
    fence: Fence = await world.store.register(role="worker", name="n", host=HOST, pid=9, now=world.at(SECOND))
    return fence


@pytest.mark.requirement("RUN-5")
async def test_what_a_dead_worker_left_is_adopted_by_one(world: World) -> None:
    for number in range(3):
        await world.schedule(f"s{number}")
    await world.fire()
    launches = await world.begin_runs(world.at(SECOND))
    new = await newcomer(world)
    assert await adopt(world, new) == []
    await world.store.retire(await world.instance(world.worker), world.at(2 * SECOND))
    assert await adopt(world, new, host="elsewhere") == []
    first = await adopt(world, new, limit=2)
    second = await adopt(world, new)
    assert sorted([*first, *second]) == sorted(one.identity for one in launches)
    assert await adopt(world, new) == []
    await world.end(launches, world.at(HOUR), fence=new)
    assert await world.pool() == (8, 0)


async def test_what_a_worker_left_behind_cleanly_is_adopted_too(world: World) -> None:
    await world.schedule("orders")
    await world.fire()
    [launch] = await world.begin_runs(world.at(SECOND))
    await world.store.leave(world.worker, world.at(2 * SECOND))
    new = await newcomer(world)
    assert await adopt(world, new) == [launch.identity]
    assert await stop(world, launch.attempt.run, world.at(HOUR)) is State.STOPPING
    assert [one.launch.identity for one in await world.store.stop_requests(new)] == [launch.identity]


async def test_two_never_adopt_the_same(world: World) -> None:
    for number in range(4):
        await world.schedule(f"s{number}")
    await world.fire()
    await world.begin_runs(world.at(SECOND))
    await world.store.leave(world.worker, world.at(2 * SECOND))
    one, two = await newcomer(world), await newcomer(world)
    other = world.another()
    async with world.store.transaction(one) as mine:
        first = await mine.adopt(HOST, ["command"], world.at(MINUTE), 2)
        async with other.transaction(two) as theirs:
            second = await theirs.adopt(HOST, ["command"], world.at(MINUTE), 10)
    assert len(first) == 2 and len(second) == 2
    assert {each.launch.identity for each in first}.isdisjoint({each.launch.identity for each in second})


async def test_an_adopted_attempt_keeps_its_fence_and_its_story(world: World) -> None:
    await world.schedule("orders")
    await world.fire()
    [launch] = await world.begin_runs(world.at(SECOND))
    await world.store.leave(world.worker, world.at(2 * SECOND))
    new = await newcomer(world)
    async with world.store.transaction(new) as tx:
        [open_one] = await tx.adopt(HOST, ["command"], world.at(MINUTE), 10)
    assert open_one.launch == launch
    assert (open_one.state, open_one.started_at) == (State.RUNNING, world.at(SECOND))
    await world.end(
        [launch], world.at(MINUTE), outcome="crashed", fence=new, then=Finish(outcome=State.CRASHED, reason="")
    )
    assert await world.state(launch.attempt.run) is State.CRASHED
