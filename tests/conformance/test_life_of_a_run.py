"""From due to ended, as every store keeps it."""

from __future__ import annotations

import pytest

from conformance.worlds import NS, World, at_most, plan_of
from tidegate.domain.errors import Fenced
from tidegate.domain.instants import HOUR, MINUTE, SECOND
from tidegate.domain.retry import Finish, RetryAt
from tidegate.domain.runs import State

pytestmark = pytest.mark.anyio


async def test_a_fire_goes_through_its_whole_life(world: World) -> None:
    schedule = await world.schedule("orders", arguments={"a": 1})
    assert await world.store.next_due() == world.start
    [key] = await world.fire()
    assert await world.store.next_due() == world.at(MINUTE)
    run = await world.record(key)
    assert (run.state, run.fire_time, run.namespace, run.schedule) == (State.WAITING, world.start, NS, "orders")

    assert await world.store.next_wake() == world.start
    assert await world.admit(world.at(1)) == [key]
    assert await world.store.next_wake() is None
    assert (await world.record(key)).arguments == {"n": 1}
    assert await world.pool() == (8, 1)

    [launch] = await world.launch(world.at(2))
    run = await world.record(key)
    assert (run.state, len(run.attempts), run.attempts[0].state) == (State.STARTING, 1, "starting")
    assert launch.identity == f"{key}.1"
    assert (launch.schedule, launch.fire_time, launch.arguments) == ("orders", world.start, {"n": 1})

    from tidegate.ports.engine import Started

    async with world.store.transaction(world.worker) as tx:
        await tx.started([Started(attempt=launch.attempt, backend_id="pid:7")], world.at(3))
    run = await world.record(key)
    assert (run.state, run.started_at, run.attempts[0].backend_id) == (State.RUNNING, world.at(3), "pid:7")

    await world.end([launch], world.at(10), ago=2)
    run = await world.record(key)
    assert (run.state, run.finished_at, run.attempts[0].state) == (State.SUCCEEDED, world.at(8), "succeeded")
    assert await world.pool() == (8, 0)
    stats = await world.store.stats(schedule)
    assert (stats.total_runs, stats.total_successes, stats.total_duration) == (1, 1, 5)
    assert (stats.last_run_success, stats.last_success) == (True, world.at(8))


@pytest.mark.requirement("RUN-1")
async def test_a_fire_that_is_on_record_is_not_recorded_again(world: World) -> None:
    await world.schedule("orders")
    async with world.store.transaction(world.scheduler) as tx:
        [due] = await tx.claim_due(world.start, 10)
        await tx.record([plan_of(due)], world.start)
    [launch] = await world.begin_runs(world.at(1))
    async with world.store.transaction(world.scheduler) as tx:
        await tx.record([plan_of(due)], world.at(2))
    assert await world.waiting(world.at(HOUR)) == []
    await world.end([launch], world.at(3))
    async with world.store.transaction(world.scheduler) as tx:
        await tx.record([plan_of(due)], world.at(4))
    assert await world.waiting(world.at(HOUR)) == []
    page, _ = await world.store.runs(None, schedule=None, states=[], since=None, before=None, limit=10)
    assert [one.state for one in page] == [State.SUCCEEDED]


async def test_what_is_rolled_back_never_was(world: World) -> None:
    await world.schedule("orders")
    with pytest.raises(ZeroDivisionError):
        async with world.store.transaction(world.scheduler) as tx:
            due = await tx.claim_due(world.start, 10)
            await tx.record([plan_of(one) for one in due], world.start)
            raise ZeroDivisionError
    assert await world.store.next_due() == world.start
    assert len(await world.fire()) == 1


@pytest.mark.requirement("FAIL-3")
async def test_a_start_is_on_record_before_any_backend_is_touched(world: World) -> None:
    await world.schedule("orders")
    await world.fire()
    await world.admit(world.at(1))
    [launch] = await world.launch(world.at(2))
    [open_one] = await world.store.open_attempts([launch.attempt])
    assert (open_one.state, open_one.started_at, open_one.created_at) == (State.STARTING, None, world.at(2))
    assert open_one.instance_id == world.worker.instance_id
    assert await world.launch(world.at(3)) == []


async def test_an_instance_finds_its_open_attempts(world: World) -> None:
    await world.schedule("orders")
    await world.fire()
    [launch] = await world.begin_runs(world.at(1))
    assert list(await world.store.held_attempts(world.worker, world.at(1))) == []
    assert list(await world.store.held_attempts(world.worker, world.at(2))) == [launch.attempt]
    assert list(await world.store.held_attempts(world.scheduler, world.at(2))) == []
    await world.end([launch], world.at(5))
    assert list(await world.store.held_attempts(world.worker, world.at(9))) == []


async def test_an_attempt_ends_once(world: World) -> None:
    schedule = await world.schedule("orders")
    await world.fire()
    launches = await world.begin_runs(world.at(1))
    await world.end(launches, world.at(5))
    await world.end(launches, world.at(6), outcome="crashed")
    stats = await world.store.stats(schedule)
    assert (stats.total_runs, stats.total_crashes) == (1, 0)
    assert await world.pool() == (8, 0)
    assert await world.store.open_attempts([one.attempt for one in launches]) == []


async def test_the_end_of_an_earlier_attempt_does_not_end_the_one_that_runs(world: World) -> None:
    await world.schedule("orders")
    [key] = await world.fire()
    first = await world.begin_runs(world.at(1))
    retry = RetryAt(at=world.at(MINUTE), failures=1, lost=0)
    await world.end(first, world.at(2), outcome="failed", then=retry)
    [second] = await world.begin_runs(world.at(MINUTE))
    await world.end(first, world.at(MINUTE + 1), outcome="crashed")
    assert await world.state(key) is State.RUNNING
    assert [one.launch.attempt for one in await world.store.open_attempts([second.attempt])] == [second.attempt]


async def test_an_end_without_a_start_on_record_counts_as_started(world: World) -> None:
    await world.schedule("orders")
    [key] = await world.fire()
    await world.admit(world.at(1))
    launches = await world.launch(world.at(2))
    await world.end(launches, world.at(4))
    run = await world.record(key)
    assert (run.started_at, run.finished_at) == (world.at(2), world.at(4))
    assert (run.attempts[0].started_at, run.attempts[0].finished_at) == (world.at(2), world.at(4))


async def test_each_attempt_that_ran_says_when_it_started_also_when_it_was_over_before_anybody_looked(
    world: World,
) -> None:
    await world.schedule("orders")
    [key] = await world.fire()
    first = await world.begin_runs(world.at(1))
    await world.end(first, world.at(2), outcome="failed", then=RetryAt(at=world.at(MINUTE), failures=1, lost=0))
    await world.admit(world.at(MINUTE))
    quick = await world.launch(world.at(MINUTE + 1))
    retry = RetryAt(at=world.at(2 * MINUTE), failures=1, lost=0)
    await world.end(quick, world.at(MINUTE + 3), outcome="failed", then=retry)
    await world.admit(world.at(2 * MINUTE))
    lost = await world.launch(world.at(2 * MINUTE + 1))
    retry = RetryAt(at=world.at(3 * MINUTE), failures=0, lost=1)
    await world.end(lost, world.at(2 * MINUTE + 2), outcome="lost", ran=False, then=retry)
    attempts = (await world.record(key)).attempts
    assert [one.started_at is None for one in attempts] == [False, False, True]
    assert attempts[1].started_at == world.at(MINUTE + 1)


async def test_a_launch_that_was_refused_never_started(world: World) -> None:
    schedule = await world.schedule("orders")
    [key] = await world.fire()
    await world.admit(world.at(1))
    launches = await world.launch(world.at(2))
    await world.end(
        launches, world.at(4), outcome="refused", ran=False, then=Finish(outcome=State.FAILED, reason="refused")
    )
    run = await world.record(key)
    assert (run.state, run.started_at, run.attempts[0].state) == (State.FAILED, None, "refused")
    assert run.attempts[0].started_at is None
    assert (await world.store.stats(schedule)).total_runs == 0


async def test_a_retry_keeps_its_counters_and_gives_back_its_slot(world: World) -> None:
    await world.schedule("orders", constraints=at_most(1))
    [key] = await world.fire()
    launches = await world.begin_runs(world.at(1))
    retry = RetryAt(at=world.at(MINUTE), failures=1, lost=0)
    await world.end(launches, world.at(2), outcome="failed", then=retry)
    assert await world.state(key) is State.WAITING
    assert await world.pool() == (8, 0)
    assert await world.store.next_wake() == world.at(MINUTE)
    assert list(await world.store.holders(f"s{key.schedule_id}")) == [key]

    [candidate] = await world.waiting(world.at(MINUTE))
    assert (candidate.attempts, set(candidate.held)) == (1, {f"s{key.schedule_id}", f"p{candidate.program.id}"})
    [launch] = await world.begin_runs(world.at(MINUTE))
    assert launch.attempt.number == 2
    [open_one] = await world.store.open_attempts([launch.attempt])
    assert (open_one.failures, open_one.lost) == (1, 0)
    await world.end([launch], world.at(MINUTE + 5))
    assert list(await world.store.holders(f"s{key.schedule_id}")) == []
    run = await world.record(key)
    assert [one.state for one in run.attempts] == ["failed", "succeeded"]
    assert run.started_at == world.at(1)


async def test_streaks_count_attempts_and_a_success_ends_them(world: World) -> None:
    schedule = await world.schedule("orders")
    for number, outcome in enumerate(["failed", "timed_out", "crashed", "cancelled", "lost"]):
        await world.fire(world.at(number * MINUTE))
        launches = await world.begin_runs(world.at(number * MINUTE + 1))
        ends = Finish(outcome=State(outcome) if outcome != "lost" else State.CRASHED, reason="")
        await world.end(launches, world.at(number * MINUTE + 2), outcome=outcome, then=ends)
    stats = await world.store.stats(schedule)
    assert (stats.total_runs, stats.total_failures, stats.total_timeouts, stats.total_crashes) == (5, 1, 1, 1)
    assert (stats.consecutive_failures, stats.consecutive_crashes, stats.last_run_success) == (3, 1, False)
    await world.fire(world.at(HOUR))
    await world.end(await world.begin_runs(world.at(HOUR)), world.at(HOUR + 1))
    stats = await world.store.stats(schedule)
    assert (stats.consecutive_failures, stats.consecutive_crashes, stats.last_run_success) == (0, 0, True)


async def test_a_stale_epoch_writes_nothing(world: World) -> None:
    await world.schedule("orders")
    assert await world.store.retire(await world.instance(world.scheduler), world.at(1))
    with pytest.raises(Fenced):
        await world.fire()
    assert await world.store.next_due() == world.start


async def test_every_part_is_fenced(world: World) -> None:
    await world.schedule("orders")
    await world.fire()
    await world.admit(world.at(1))
    launches = await world.launch(world.at(2))
    assert await world.store.retire(await world.instance(world.worker), world.at(3))
    assert await world.store.retire(await world.instance(world.scheduler), world.at(3))
    with pytest.raises(Fenced):
        await world.end(launches, world.at(4))
    with pytest.raises(Fenced):
        await world.launch(world.at(4))
    with pytest.raises(Fenced):
        await world.admit(world.at(4))
    with pytest.raises(Fenced):
        await world.store.acquire("janitor", world.worker, world.at(4), SECOND)
    with pytest.raises(Fenced):
        await world.store.beat(world.worker, world.at(4))
    assert await world.state(launches[0].attempt.run) is State.STARTING
