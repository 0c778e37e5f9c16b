"""Attempts in flight: their ends, their limits, who asks them to stop, and who takes them over."""

from __future__ import annotations

import threading

import pytest
from worlds import Worker, World, breaks

from tidegate.domain.errors import Fenced
from tidegate.domain.ids import AttemptKey, RunKey
from tidegate.domain.instants import HOUR, SECOND
from tidegate.domain.runs import State
from tidegate.domain.schedules import Retry, Timeout
from tidegate.domain.stopping import KILL_PATIENCE
from tidegate.ports.launching import Phase, Report, StopHow


@pytest.fixture
def world() -> World:
    return World()


def running(world: World, worker: Worker, **spec: object) -> tuple[RunKey, AttemptKey]:
    run = world.trigger(world.schedule(world.program(), **spec))
    world.step(world.admitter)
    worker.dispatch()
    worker.supervise()
    assert world.run(run).state is State.RUNNING
    return run, AttemptKey(run, 1)


# ── ends ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("said", "state"),
    [("succeeded", State.SUCCEEDED), ("failed", State.FAILED), ("cancelled", State.CANCELLED)],
)
def test_what_the_backend_says_is_what_is_recorded(world: World, said: str, state: State) -> None:
    worker = world.worker()
    run, attempt = running(world, worker)
    world.pass_time(10 * SECOND)
    world.backend.finish(attempt, said, ago=4 * SECOND, message="" if said == "succeeded" else "exit status 3")
    worker.supervise()
    assert world.run(run).state is state
    assert world.attempt(run).finished_at == world.now - 4 * SECOND
    assert world.used() == 0 and world.held("s1") == 0
    assert (world.run(run).reason == "") == (said == "succeeded")


@pytest.mark.requirement("FAIL-3")
def test_an_attempt_that_is_gone_without_a_word_crashed(world: World) -> None:
    worker = world.worker()
    run, attempt = running(world, worker)
    world.backend.set(attempt, Phase.GONE)
    worker.supervise()
    assert world.run(run).state is State.CRASHED
    assert world.store.data.stats.rows[run.schedule_id].total_crashes == 1


def test_a_retry_keeps_its_concurrency_and_gives_its_slot_back(world: World) -> None:
    worker = world.worker()
    run, attempt = running(world, worker, retry=Retry(max_attempts=2, delay=10 * SECOND))
    world.backend.finish(attempt, "failed", message="exit status 1")
    worker.supervise()
    assert world.run(run).state is State.WAITING
    assert (world.used(), world.held("s1")) == (0, 1)
    assert world.now + 8 * SECOND <= world.run(run).wake_at <= world.now + 10 * SECOND
    assert world.step(world.admitter).next == world.run(run).wake_at
    world.pass_time(10 * SECOND)
    world.step(world.admitter)
    worker.dispatch()
    assert world.backend.started == [attempt, AttemptKey(run, 2)]
    world.backend.finish(AttemptKey(run, 2), "failed", message="exit status 1")
    worker.supervise()
    assert world.run(run).state is State.FAILED
    assert "Attempt 2 of 2" in world.run(run).reason


def test_a_starting_backend_keeps_the_run_starting(world: World) -> None:
    worker = world.worker()
    run = world.trigger(world.schedule(world.program()))
    world.step(world.admitter)
    worker.dispatch()
    world.backend.set(AttemptKey(run, 1), Phase.STARTING)
    worker.supervise()
    assert world.run(run).state is State.STARTING
    world.backend.set(AttemptKey(run, 1), Phase.RUNNING)
    worker.supervise()
    assert world.run(run).state is State.RUNNING


@pytest.mark.parametrize("outcome", ["refused", "lost"])
def test_what_a_backend_took_and_could_not_begin_has_no_start_and_says_nothing_about_its_program(
    world: World, outcome: str
) -> None:
    worker = world.worker()
    run = world.trigger(world.schedule(world.program()))
    world.step(world.admitter)
    worker.dispatch()
    key = AttemptKey(run, 1)
    world.backend.reports[key] = Report(attempt=key, phase=Phase.FINISHED, outcome=outcome, ran=False)
    worker.supervise()
    assert world.attempt(run).outcome == outcome and world.run(run).state is State.WAITING
    assert world.attempt(run).started_at is None and world.run(run).started_at is None
    assert world.store.data.stats.rows[run.schedule_id].last_start is None


@pytest.mark.slow
def test_a_thousand_ends_are_recorded_in_batches(world: World) -> None:
    world = World(default=2000)
    worker, program = world.worker(), world.program()
    runs = [world.trigger(world.schedule(program, f"s{n}")) for n in range(1100)]
    while world.step(world.admitter).left or worker.dispatch().left:
        pass
    for run in runs:
        world.backend.finish(AttemptKey(run, 1), "succeeded")
    steps = 1
    while worker.supervise().left:
        steps += 1
    assert steps == 3
    assert all(world.run(run).state is State.SUCCEEDED for run in runs)
    assert worker.launcher.calls.count("poll") <= steps, "backends are asked in batches"


@pytest.mark.requirement("RUN-4")
def test_nothing_is_held_while_programs_run(world: World) -> None:
    world = World(default=300)
    worker, program = world.worker(), world.program()
    threads = threading.active_count()
    for n in range(300):
        world.trigger(world.schedule(program, f"s{n}"))
    while world.step(world.admitter).left or worker.dispatch().left:
        pass
    worker.supervise()
    assert len(worker.watch) == 300
    assert threading.active_count() == threads
    data = world.store.data
    assert not any(table.locks for table in (data.run, data.pool, data.counter, data.clock))
    assert not any(data.sharers.values()), "no transaction is open"
    worker.launcher.calls.clear()
    worker.supervise()
    assert worker.launcher.calls == ["poll"], "all of them are asked about at once"


@pytest.mark.requirement("RUN-3")
def test_a_launcher_that_fails_does_not_stop_the_others(world: World) -> None:
    worker = world.worker()
    run, attempt = running(world, worker)
    worker.launcher.hooks["poll"] = breaks(1)
    outcome = worker.supervise()
    assert any("did not answer" in note for note in outcome.notes)
    world.backend.finish(attempt, "succeeded")
    worker.supervise()
    assert world.run(run).state is State.SUCCEEDED


# ── stopping ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("RUN-9")
@pytest.mark.parametrize("when", ["waiting", "ready", "starting", "running", "backoff"])
def test_cancel_works_at_every_state(world: World, when: str) -> None:
    worker = world.worker()
    run = world.trigger(world.schedule(world.program(), retry=Retry(max_attempts=5)))
    attempt = AttemptKey(run, 1)
    for state, act in (
        ("waiting", lambda: world.step(world.admitter)),
        ("ready", lambda: worker.dispatch()),
        ("starting", lambda: worker.supervise()),
        ("running", lambda: (world.backend.finish(attempt, "failed"), worker.supervise())),
    ):
        if state == when:
            break
        act()
    world.cancel(run)
    world.pass_time(SECOND)
    for _ in range(3):
        worker.supervise()
        if (attempt, StopHow.POLITE) in world.backend.stops:
            world.backend.finish(attempt, "succeeded")
        world.pass_time(SECOND)
    assert world.run(run).state is State.CANCELLED
    assert world.used() == 0 and world.held("s1") == 0
    assert ((attempt, StopHow.POLITE) in world.backend.stops) == (when in ("starting", "running"))


@pytest.mark.requirement("RUN-9")
def test_a_polite_stop_that_ends_with_success_is_still_cancelled(world: World) -> None:
    worker = world.worker()
    run, attempt = running(world, worker)
    world.cancel(run)
    world.pass_time(SECOND)
    worker.supervise()
    assert world.backend.stops == [(attempt, StopHow.POLITE)]
    world.backend.finish(attempt, "succeeded")
    worker.supervise()
    assert world.run(run).state is State.CANCELLED


def test_what_had_ended_before_it_was_asked_keeps_its_outcome(world: World) -> None:
    worker = world.worker()
    run, attempt = running(world, worker)
    world.pass_time(5 * SECOND)
    world.cancel(run)
    world.pass_time(5 * SECOND)
    world.backend.finish(attempt, "succeeded", ago=6 * SECOND)
    worker.supervise()
    assert world.run(run).state is State.SUCCEEDED


@pytest.mark.requirement("FAIL-5")
def test_polite_then_force_then_without_it_each_at_its_own_deadline(world: World) -> None:
    worker = world.worker()
    run, attempt = running(world, worker, timeout=Timeout(run=60 * SECOND, grace=5 * SECOND))
    begun = world.now
    worker.launcher.calls.clear()
    while world.run(run).state is not State.TIMED_OUT:
        outcome = worker.supervise()
        assert outcome.next is not None
        assert world.now - begun < HOUR
        world.now = max(outcome.next, world.now + 1)
    assert world.backend.stops == [(attempt, StopHow.POLITE), (attempt, StopHow.KILL)]
    took = world.attempt(run).finished_at - begun
    assert 65 * SECOND + KILL_PATIENCE <= took <= 66 * SECOND + KILL_PATIENCE
    assert world.attempt(run).error["code"] == "stop.gave_up"
    assert world.used() == 0
    assert "longer" in world.run(run).reason or "given up" in world.run(run).reason


def test_stopping_is_on_record_before_the_backend_is_told(world: World) -> None:
    worker = world.worker()
    run, _ = running(world, worker, timeout=Timeout(run=SECOND))
    seen = []
    worker.launcher.hooks["stop"] = lambda _: seen.append((world.run(run).state, world.run(run).stop))
    world.pass_time(SECOND)
    worker.supervise()
    assert seen == [(State.STOPPING, "timeout")]


def test_a_backend_that_does_not_take_the_stop_is_told_again_and_holds_up_nobody(world: World) -> None:
    worker = world.worker()
    run, attempt = running(world, worker)
    worker.launcher.hooks["stop"] = breaks(2)
    world.cancel(run)
    for _ in range(4):
        world.pass_time(SECOND)
        worker.supervise()
    assert world.backend.stops == [(attempt, StopHow.POLITE)]


@pytest.mark.requirement("FAIL-3")
def test_a_shutdown_is_no_crash_and_the_run_goes_on_at_the_next_start(world: World) -> None:
    worker = world.worker()
    run, attempt = running(world, worker)
    worker.supervisor.stop_all()
    worker.supervise()
    assert world.backend.stops == [(attempt, StopHow.POLITE)]
    world.backend.finish(attempt, "failed", message="terminated")
    worker.supervise()
    found = world.run(run)
    assert (found.state, found.failures, found.lost, found.wake_at) == (State.WAITING, 0, 0, world.now)
    stats = world.store.data.stats.rows[run.schedule_id]
    assert (stats.total_crashes, stats.total_failures, stats.total_runs) == (0, 0, 0)
    world.step(world.admitter)
    successor = world.worker("w2")
    successor.dispatch()
    assert world.backend.started == [attempt, AttemptKey(run, 2)]


# ── adoption ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("RUN-5")
def test_what_runs_is_adopted_and_not_started_again(world: World) -> None:
    worker = world.worker()
    run, attempt = running(world, worker)
    worker.die()
    world.step(world.membership)
    successor = world.worker("w2")
    successor.supervise()
    assert world.backend.started == [attempt]
    assert world.run(run).state is State.RUNNING
    world.backend.finish(attempt, "succeeded")
    successor.supervise()
    assert world.run(run).state is State.SUCCEEDED


@pytest.mark.requirement("RUN-5", "FAIL-3")
def test_an_end_while_no_worker_lived_is_still_known(world: World) -> None:
    worker = world.worker()
    run, attempt = running(world, worker)
    worker.die()
    world.step(world.membership)
    world.backend.finish(attempt, "failed", message="exit status 3", ago=0)
    successor = world.worker("w2")
    successor.supervise()
    assert world.run(run).state is State.FAILED
    assert "exit status 3" in world.run(run).reason


@pytest.mark.requirement("RUN-1", "RUN-5")
def test_what_was_claimed_and_never_started_runs_again_at_once_and_the_zombie_cannot(world: World) -> None:
    worker = world.worker()
    run = world.trigger(world.schedule(world.program()))
    world.step(world.admitter)
    frozen = []
    worker.launcher.hooks["start"] = lambda launch: (_ for _ in ()).throw(KeyboardInterrupt(frozen.append(launch)))
    with pytest.raises(KeyboardInterrupt):
        worker.dispatch()
    worker.die()
    world.step(world.membership)

    successor = world.worker("w2")
    successor.supervise()
    assert world.attempt(run).outcome == "lost"
    assert world.run(run).wake_at == world.now
    world.step(world.admitter)
    successor.dispatch()
    assert world.backend.started == [AttemptKey(run, 2)]

    worker.launcher.hooks.clear()
    with pytest.raises(Fenced):
        import asyncio

        asyncio.run(worker.launcher.start(frozen[0]))
    assert world.backend.started == [AttemptKey(run, 2)], "the identity is sealed"


def test_orphans_of_another_host_are_left_to_its_workers(world: World) -> None:
    worker = world.worker(host="far")
    run, _ = running(world, worker)
    worker.die()
    world.step(world.membership)
    stranger = world.worker("w2", host="near")
    assert stranger.supervise().did == 0
    assert world.run(run).state is State.RUNNING


@pytest.mark.requirement("RUN-9")
def test_a_stop_goes_on_where_the_dead_worker_left_it(world: World) -> None:
    worker = world.worker()
    run, attempt = running(world, worker, timeout=Timeout(run=60 * SECOND, grace=5 * SECOND))
    world.pass_time(60 * SECOND)
    worker.supervise()
    worker.die()
    world.step(world.membership)
    world.pass_time(5 * SECOND)
    successor = world.worker("w2")
    successor.supervise()
    assert world.backend.stops == [(attempt, StopHow.POLITE), (attempt, StopHow.KILL)]
    world.backend.set(attempt, Phase.GONE)
    successor.supervise()
    assert world.run(run).state is State.TIMED_OUT


@pytest.mark.requirement("HA-9", "RUN-5")
def test_what_is_a_workers_on_record_and_not_in_its_watch_is_taken_up(world: World) -> None:
    """A standby that lacked the last commits has forgotten an end that this worker recorded."""
    worker = world.worker()
    run, attempt = running(world, worker)
    worker.watch.attempts.clear()
    world.backend.finish(attempt, "succeeded", ago=0)
    world.pass_time(25 * SECOND)
    worker.supervise()
    assert world.run(run).state is State.RUNNING, "it may be on its way into the watch"
    world.pass_time(40 * SECOND)
    assert "does not know it; taken up" in worker.supervise().notes[0]
    worker.supervise()
    assert world.run(run).state is State.SUCCEEDED
    assert world.used() == 0
