"""From a waiting run to a started one, and what a crash at each point leaves behind."""

from __future__ import annotations

import pytest
from worlds import World, breaks, refuses

from tidegate.domain.errors import CommitUnknown, Fenced
from tidegate.domain.ids import AttemptKey
from tidegate.domain.instants import MINUTE, SECOND
from tidegate.domain.runs import State
from tidegate.domain.schedules import Concurrency
from tidegate.engine.outcome import Topic


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.requirement("RUN-2")
@pytest.mark.requirement("FAIL-1")
def test_waiting_ready_and_started_are_distinct_states(world: World) -> None:
    worker = world.worker()
    run = world.trigger(world.schedule(world.program()))
    seen = [world.run(run).state]
    for part in (world.admitter, worker.dispatcher, worker.supervisor):
        world.step(part)
        seen.append(world.run(run).state)
    assert seen == [State.WAITING, State.READY, State.STARTING, State.RUNNING]


@pytest.mark.requirement("FAIL-3", "RUN-5")
def test_the_possible_crash_is_on_record_before_the_backend_is_touched(world: World) -> None:
    worker = world.worker()
    run = world.trigger(world.schedule(world.program()))
    world.step(world.admitter)
    seen = []
    worker.launcher.hooks["start"] = lambda launch: seen.append(
        (world.run(run).state, world.attempt(run).finished_at, launch.identity)
    )
    worker.dispatch()
    assert seen == [(State.STARTING, None, AttemptKey(run, 1).identity)]


@pytest.mark.requirement("GATE-11", "GATE-1")
def test_two_schedules_of_one_program_never_both_pass_its_limit(world: World) -> None:
    program = world.program()
    limit = (Concurrency(max=1, scope="program"),)
    one, two = (world.schedule(program, name, constraints=limit) for name in ("a", "b"))
    runs = [world.trigger(one), world.trigger(two)]
    world.step(world.admitter)
    assert sorted(world.run(run).state for run in runs) == [State.READY, State.WAITING]
    assert world.held(f"p{program}") == 1


@pytest.mark.requirement("FAIL-8")
def test_a_run_that_lacks_a_slot_waits_and_its_release_wakes_it() -> None:
    world = World(default=1)
    worker, program = world.worker(), world.program()
    first, second = (world.trigger(world.schedule(program, name)) for name in ("a", "b"))
    assert world.step(world.admitter).wakes == {Topic.READY}
    assert world.run(second).wake_key == "pool:default"
    assert world.step(world.admitter).did == 0, "nothing is judged again before something changed"
    worker.dispatch()
    world.backend.finish(AttemptKey(first, 1), "succeeded")
    assert Topic.ADMIT in worker.supervise().wakes
    assert world.step(world.admitter).did == 1
    assert world.run(second).state is State.READY
    assert world.run(second).created_at == world.run(first).created_at, "capacity moves no instant"


@pytest.mark.requirement("RUN-3")
def test_one_failing_launch_does_not_keep_the_next_from_starting(world: World) -> None:
    worker, program = world.worker(), world.program()
    runs = [world.trigger(world.schedule(program, name)) for name in ("a", "b", "c")]
    world.step(world.admitter)

    def hook(launch: object) -> None:
        if launch.attempt.run == runs[1]:  # type: ignore[attr-defined]
            breaks()(launch)

    worker.launcher.hooks["start"] = hook
    outcome = worker.dispatch()
    assert [key.run for key in world.backend.started] == [runs[0], runs[2]]
    assert outcome.did == 3 and len(outcome.notes) == 1


@pytest.mark.requirement("RUN-3")
def test_a_refused_launch_is_tried_again_and_its_budget_ends(world: World) -> None:
    worker = world.worker()
    run = world.trigger(world.schedule(world.program()))
    worker.launcher.hooks["start"] = refuses()
    for number in range(1, 5):
        world.step(world.admitter)
        worker.dispatch()
        worker.supervise()
        assert world.attempt(run, number).outcome == "refused"
        assert world.run(run).state is (State.WAITING if number < 4 else State.FAILED)
        world.pass_time(MINUTE)
    assert "full" in world.run(run).reason
    assert world.used() == 0 and world.held("s1") == 0
    assert world.store.data.stats.rows[run.schedule_id].total_failures == 0, "the program did not run"


def test_a_refusal_for_good_ends_the_run_at_once(world: World) -> None:
    worker = world.worker()
    run = world.trigger(world.schedule(world.program()))
    worker.launcher.hooks["start"] = refuses(retryable=False)
    world.step(world.admitter)
    worker.dispatch()
    worker.supervise()
    assert world.run(run).state is State.FAILED


@pytest.mark.requirement("RUN-5")
def test_a_start_without_an_answer_is_repeated_under_the_same_identity(world: World) -> None:
    worker = world.worker()
    run = world.trigger(world.schedule(world.program()))
    world.step(world.admitter)
    worker.launcher.hooks["start"] = breaks(2)
    worker.dispatch()
    for _ in range(4):
        worker.supervise()
        world.pass_time(SECOND)
    assert world.backend.started == [AttemptKey(run, 1)]
    assert world.run(run).state is State.RUNNING


def test_a_backend_that_never_answers_a_start_is_sealed_and_the_run_tried_again(world: World) -> None:
    worker = world.worker()
    run = world.trigger(world.schedule(world.program()))
    world.step(world.admitter)
    worker.launcher.hooks["start"] = breaks()
    worker.dispatch()
    for _ in range(8):
        worker.supervise()
        world.pass_time(SECOND)
    assert AttemptKey(run, 1) in world.backend.sealed
    assert world.attempt(run).outcome == "refused"
    assert world.run(run).state is State.WAITING


@pytest.mark.requirement("RUN-1", "FAIL-3")
@pytest.mark.parametrize("fault", ["unknown", "lost"])
def test_after_a_claim_without_an_answer_the_worker_looks_before_anything_starts(world: World, fault: str) -> None:
    worker = world.worker()
    run = world.trigger(world.schedule(world.program()))
    world.step(world.admitter)
    worker.store.faults = [fault]
    with pytest.raises(CommitUnknown):
        worker.dispatch()
    assert world.backend.started == []
    worker.supervise()
    worker.dispatch()
    worker.supervise()
    assert world.backend.started == [AttemptKey(run, 1)], "once, and under its first identity"
    assert world.run(run).state is State.RUNNING


@pytest.mark.requirement("RUN-1")
@pytest.mark.parametrize("fault", ["unknown", "lost"])
def test_an_end_without_an_answer_is_recorded_once(world: World, fault: str) -> None:
    worker = world.worker()
    run = world.trigger(world.schedule(world.program()))
    world.step(world.admitter)
    worker.dispatch()
    world.backend.finish(AttemptKey(run, 1), "succeeded")
    worker.store.faults = ["", fault]  # adopt, record
    with pytest.raises(CommitUnknown):
        worker.supervise()
    worker.supervise()
    assert world.run(run).state is State.SUCCEEDED
    assert world.store.data.stats.rows[run.schedule_id].total_runs == 1
    assert world.used() == 0 and world.held("s1") == 0
    assert world.backend.forgotten == [AttemptKey(run, 1)] and len(worker.watch) == 0


def test_a_worker_that_was_declared_dead_starts_nothing(world: World) -> None:
    worker = world.worker()
    world.trigger(world.schedule(world.program()))
    world.step(world.admitter)
    worker.die()
    world.step(world.membership)
    with pytest.raises(Fenced):
        worker.dispatch()
    assert world.backend.started == []


def test_a_launch_rate_says_when_it_will_let_the_next_one_go(world: World) -> None:
    async def limit() -> None:
        async with world.store.changing() as tx:
            await tx.put_pool("default", 8, (1, SECOND, 1))

    import asyncio

    asyncio.run(limit())
    worker, program = world.worker(), world.program()
    for name in ("a", "b"):
        world.trigger(world.schedule(program, name))
    world.step(world.admitter)
    outcome = worker.dispatch()
    assert outcome.did == 1
    assert outcome.next is not None and world.now < outcome.next <= world.now + SECOND + 1
    world.now = outcome.next
    assert worker.dispatch().did == 1


def test_a_resting_dispatcher_claims_nothing(world: World) -> None:
    worker = world.worker()
    run = world.trigger(world.schedule(world.program()))
    world.step(world.admitter)
    worker.dispatcher.rest()
    worker.dispatch()
    assert world.run(run).state is State.READY
