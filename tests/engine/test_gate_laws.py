"""Gates as the engine works them: windows that close over what runs, rates that count starts, cheap queues."""

from __future__ import annotations

from typing import Any

import pytest
from worlds import START, Worker, World, crank

from tidegate.domain.calendars import Calendar
from tidegate.domain.constraints import (
    Blackout,
    Concurrency,
    Constraint,
    Delay,
    Gauge,
    Load,
    MinInterval,
    Rate,
    Unmet,
    Window,
)
from tidegate.domain.ids import AttemptKey, RunKey, ScheduleId
from tidegate.domain.instants import HOUR, MINUTE, SECOND
from tidegate.domain.runs import Cause, State
from tidegate.domain.schedules import Mode, Timeout, WaitingPolicy
from tidegate.domain.windows import Span, closes, opens
from tidegate.ports.launching import StopHow
from tidegate.ports.records import ClockState

NIGHT = Span(start=23 * 60 + 30, end=6 * 60)


@pytest.fixture
def world() -> World:
    return World(default=8)


def made(world: World, schedule: ScheduleId, count: int = 1, priority: int = 50) -> list[RunKey]:
    """Runs that no person asked for, each a microsecond after the one before."""

    async def add() -> RunKey:
        async with world.store.changing() as tx:
            return await tx.add_run(
                schedule, cause=Cause.RERUN, caused_by="", fire_time=None, previous_fire=None, given=None,
                priority=priority, now=world.now,
            )  # fmt: skip

    found = []
    for _ in range(count):
        world.pass_time(1)
        found.append(crank(add()))
    return found


def gated(world: World, *constraints: Constraint, name: str = "s", **spec: Any) -> ScheduleId:
    return world.schedule(world.program(name), name, constraints=constraints, **spec)


def switch(world: World, schedule: ScheduleId, mode: Mode, *, expire: bool = False) -> None:
    async def revise() -> None:
        async with world.store.changing() as tx:
            [one] = await tx.lock_schedules_of("ns")
            await tx.revise_schedule(
                schedule, one.spec, {}, program=one.program.id, mode=mode, reason="", author="me",
                valid_from=world.now, clock=ClockState(cursor=one.cursor, cursor_rev=one.rev + 1, next_due=None),
                held_expires=expire,
            )  # fmt: skip

    crank(revise())


def judged(world: World) -> int:
    """How many runs were looked at until nobody was left."""
    count = 0
    while True:
        outcome = world.step(world.admitter)
        count += outcome.did
        if not outcome.left and (outcome.next is None or outcome.next > world.now):
            return count


def states(world: World, runs: list[RunKey]) -> list[State]:
    return [world.run(run).state for run in runs]


def serve(world: World, worker: Worker, outcome: str = "succeeded") -> None:
    """Whatever is ready runs and ends."""
    worker.dispatch()
    worker.supervise()
    for key in list(worker.watch.attempts):
        world.backend.finish(key, outcome)
    worker.supervise()


# ── windows ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.requirement("GATE-5", "GATE-13")
def test_a_thousand_runs_that_wait_for_a_window_are_looked_at_once_and_open_in_order_of_rank(world: World) -> None:
    schedule = gated(world, Window(span=NIGHT))
    begin = opens(NIGHT, world.now)
    assert begin is not None and begin > world.now
    low = made(world, schedule, 500, priority=10)
    high = made(world, schedule, 500, priority=90)
    assert judged(world) == 1000
    outcome = world.step(world.admitter)
    assert (outcome.did, outcome.next) == (0, begin), "nothing is looked at before the window opens"
    world.now = begin
    world.step(world.admitter)
    assert set(states(world, low)) == {State.WAITING}
    assert states(world, high[:8]) == [State.READY] * 8, "slots go to the first in rank"
    assert world.run(high[8]).wake_key == "pool:default"


@pytest.mark.requirement("GATE-5")
def test_what_runs_when_its_window_closes_is_stopped_politely_and_ends_cancelled(world: World) -> None:
    world.now = opens(NIGHT, world.now) or 0
    schedule = gated(world, Window(span=NIGHT, stop_at_end=True), timeout=Timeout(grace=20 * SECOND))
    [run], worker = made(world, schedule), world.worker()
    judged(world)
    worker.dispatch()
    worker.supervise()
    end = closes(NIGHT, world.now)
    assert end is not None
    world.now = end - 1
    assert (worker.supervise().next or 0) == end
    assert world.backend.stops == []
    world.now = end
    worker.supervise()
    assert (world.run(run).state, world.run(run).stop) == (State.STOPPING, "window")
    assert world.backend.stops == [(AttemptKey(run, 1), StopHow.POLITE)]
    world.pass_time(20 * SECOND)
    worker.supervise()
    assert world.backend.stops[-1] == (AttemptKey(run, 1), StopHow.KILL)

    world.backend.finish(AttemptKey(run, 1), "failed")
    worker.supervise()
    assert world.run(run).state is State.CANCELLED
    assert "window" in world.run(run).reason
    assert world.used() == 0 and world.held("s1") == 0


@pytest.mark.requirement("GATE-5")
def test_who_takes_over_stops_it_all_the_same_and_a_window_without_stop_lets_it_run(world: World) -> None:
    world.now = opens(NIGHT, world.now) or 0
    stopped = made(world, gated(world, Window(span=NIGHT, stop_at_end=True), name="a"))
    left = made(world, gated(world, Window(span=NIGHT), name="b"))
    first = world.worker()
    judged(world)
    first.dispatch()
    first.supervise()
    first.die()
    world.step(world.membership)
    second = world.worker("w2")
    world.now = closes(NIGHT, world.now) or 0
    second.supervise()
    second.supervise()
    assert states(world, stopped + left) == [State.STOPPING, State.RUNNING]


# ── starts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("GATE-3", "GATE-13")
def test_a_rate_lets_so_many_start_in_any_span_and_looks_at_a_few(world: World) -> None:
    schedule = gated(world, Rate(max=3, per=HOUR))
    runs, worker = made(world, schedule, 300), world.worker()
    judged(world)
    began = []
    for _ in range(4):
        serve(world, worker)
        began.append(world.now)
        outcome = world.step(world.admitter)
        assert outcome.next == began[-1] + HOUR
        world.now = outcome.next
        assert judged(world) <= 40, "a few are looked at, not all that wait"
    assert states(world, runs[:12]) == [State.SUCCEEDED] * 12
    assert states(world, runs[15:]) == [State.WAITING] * 285
    assert began[1] - began[0] >= HOUR


@pytest.mark.requirement("GATE-3")
def test_a_start_that_never_was_gives_its_place_to_the_next(world: World) -> None:
    schedule = gated(world, Rate(max=1, per=HOUR))
    [first] = made(world, schedule)
    judged(world)
    [second] = made(world, schedule)
    judged(world)  # the first has not begun, and counts
    assert states(world, [first, second]) == [State.READY, State.WAITING]
    world.pass_time(MINUTE)
    assert world.cancel(first) is State.CANCELLED
    judged(world)
    assert world.run(second).state is State.READY


@pytest.mark.requirement("GATE-6")
def test_min_interval_counts_starts_of_the_program_under_any_schedule_also_those_before_it_was_declared(
    world: World,
) -> None:
    program, worker = world.program(), world.worker()
    plain = world.schedule(program, "plain", constraints=())
    [before] = made(world, plain)
    judged(world)
    serve(world, worker)
    start = world.run(before).started_at
    careful = world.schedule(program, "careful", constraints=(MinInterval(duration=HOUR),))
    world.pass_time(MINUTE)
    [run] = made(world, careful)
    judged(world)
    assert world.run(run).state is State.WAITING
    assert world.step(world.admitter).next == start + HOUR
    made(world, plain)
    judged(world)
    serve(world, worker)
    later = world.now
    world.now = start + HOUR
    judged(world)
    assert world.run(run).state is State.WAITING, "another one started meanwhile"
    world.now = later + HOUR
    judged(world)
    assert world.run(run).state is State.READY


# ── delay, blackout, freeze, load, groups ──────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("GATE-4", "GATE-9")
def test_a_skip_is_judged_when_the_delay_is_over(world: World) -> None:
    schedule = gated(world, Delay(duration=MINUTE), Concurrency(max=1, unmet=Unmet.SKIP))
    [first] = made(world, schedule)
    world.pass_time(30 * SECOND)
    [second] = made(world, schedule)
    judged(world)
    assert states(world, [first, second]) == [State.WAITING] * 2
    world.pass_time(MINUTE)
    judged(world)
    assert states(world, [first, second]) == [State.READY, State.SKIPPED]


@pytest.mark.requirement("GATE-8")
def test_a_blackout_ends_when_its_calendar_says_or_is_changed(world: World) -> None:
    def put(*spans: tuple[int, int]) -> None:
        async def change() -> None:
            async with world.store.changing() as tx:
                await tx.put_calendar(Calendar(name="moves", spans=spans), {}, world.now)

        crank(change())

    [run] = made(world, gated(world, Blackout(calendar="moves"), name="a"))
    judged(world)
    assert "no calendar moves" in world.run(run).waiting_for[0]["why"]
    put((START, START + HOUR))
    judged(world)
    assert world.run(run).state is State.WAITING
    assert world.step(world.admitter).next == START + HOUR
    put((START, START + MINUTE))
    judged(world)
    assert world.step(world.admitter).next == START + MINUTE
    world.now = START + MINUTE
    judged(world)
    assert world.run(run).state is State.READY


@pytest.mark.requirement("GATE-8", "GATE-19")
def test_a_freeze_holds_everything_also_what_a_person_asks_for_until_it_is_lifted(world: World) -> None:
    async def freeze(on: bool) -> bool:
        async with world.store.changing() as tx:
            return await (tx.freeze("ann", "moving house", world.now) if on else tx.unfreeze(world.now))

    schedule = gated(world)
    assert crank(freeze(True)) and not crank(freeze(True))
    runs = [*made(world, schedule, 3), world.trigger(schedule)]
    judged(world)
    assert set(states(world, runs)) == {State.WAITING}
    assert "moving house" in world.run(runs[0]).waiting_for[0]["why"]
    world.pass_time(HOUR)
    assert judged(world) == 0
    assert crank(freeze(False)) and not crank(freeze(False))
    judged(world)
    assert set(states(world, runs)) == {State.READY}


@pytest.mark.requirement("GATE-7")
def test_a_reading_lets_go_whom_it_concerns_whoever_waits_before_them(world: World) -> None:
    def read(value: float | None) -> None:
        gauge = Gauge(value, world.now, "" if value is not None else "no answer")
        crank(world.store.record_gauge(world.fence, "cores", gauge, world.now))

    strict = made(world, gated(world, Load(resource="cores", below=10), name="a"), 50)
    mild = made(world, gated(world, Load(resource="cores", below=80), name="b"), 2)
    judged(world)
    assert crank(world.store.awaited()) == ["cores"]
    read(None)
    judged(world)
    assert "no answer" in world.run(mild[0]).waiting_for[0]["why"]
    read(50)
    judged(world)
    assert states(world, mild) == [State.READY] * 2 and set(states(world, strict)) == {State.WAITING}
    read(50)
    assert judged(world) <= 20


@pytest.mark.requirement("GATE-2")
def test_a_group_counts_runs_of_every_schedule_and_program_in_it(world: World) -> None:
    limit, worker = Concurrency(max=2, scope="group:crm"), world.worker()
    schedules = [gated(world, limit, name=name, groups=("crm",)) for name in "abc"]
    runs = [run for schedule in schedules for run in made(world, schedule, 2)]
    judged(world)
    assert [state.value for state in states(world, runs)].count("ready") == 2
    assert world.held("gns/crm") == 2
    serve(world, worker)
    judged(world)
    assert states(world, runs) == [State.SUCCEEDED] * 2 + [State.READY] * 2 + [State.WAITING] * 2


# ── suspended ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("LIFE-3", "GATE-12")
@pytest.mark.parametrize("mode", [Mode.BACKLOG, Mode.HOLD])
def test_the_waiting_time_of_held_runs_stands_still_unless_they_expire(world: World, mode: Mode) -> None:
    schedule = gated(world, Window(span=NIGHT), waiting=WaitingPolicy(timeout=10 * MINUTE))
    [run] = made(world, schedule)
    judged(world)
    world.pass_time(4 * MINUTE)
    switch(world, schedule, mode)
    judged(world)
    world.pass_time(HOUR)
    judged(world)
    assert world.run(run).state is State.WAITING
    switch(world, schedule, Mode.ENABLED)
    judged(world)
    world.pass_time(6 * MINUTE - 10)
    judged(world)
    assert world.run(run).state is State.WAITING
    world.pass_time(10)
    judged(world)
    assert world.run(run).state is State.EXPIRED


@pytest.mark.requirement("LIFE-3")
def test_held_runs_expire_where_that_is_declared_and_all_start_when_it_is_enabled(world: World) -> None:
    schedule = gated(world, waiting=WaitingPolicy(timeout=10 * MINUTE))
    switch(world, schedule, Mode.BACKLOG, expire=True)
    old = made(world, schedule, 2)
    judged(world)
    world.pass_time(8 * MINUTE)
    new = made(world, schedule, 3)
    judged(world)
    world.pass_time(3 * MINUTE)
    judged(world)
    assert states(world, old) == [State.EXPIRED] * 2 and states(world, new) == [State.WAITING] * 3
    by_hand = world.trigger(schedule)
    judged(world)
    assert world.run(by_hand).state is State.READY, "what a person asks for works while it rests"
    switch(world, schedule, Mode.ENABLED)
    judged(world)
    assert states(world, new) == [State.READY] * 3
