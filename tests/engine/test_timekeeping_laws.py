"""From a due instant to a run on record, once and only once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
from worlds import FaultyStore, World, crank, refuses

from tidegate.domain import planning
from tidegate.domain.clocks import Due
from tidegate.domain.errors import CommitUnknown, Unavailable
from tidegate.domain.ids import AttemptKey, ScheduleId
from tidegate.domain.instants import DAY, HOUR, MINUTE, SECOND, Instant
from tidegate.domain.runs import State
from tidegate.domain.schedules import CatchUp, CatchUpPolicy
from tidegate.domain.triggers import Interval
from tidegate.engine import timekeeper as module
from tidegate.engine.outcome import Outcome, Topic
from tidegate.engine.timekeeper import SecondHand, Timekeeper, TimekeeperSettings

MINUTELY = Interval(every="PT1M")
ALL = CatchUp(policy=CatchUpPolicy.ALL, window=DAY, max=1000)


@pytest.fixture
def world() -> World:
    return World()


def minutely(world: World, name: str = "s", **spec: object) -> ScheduleId:
    return world.schedule(world.program(), name, due=world.now + MINUTE, trigger=MINUTELY, **spec)


def test_nothing_is_due_and_nothing_is_touched(world: World) -> None:
    schedule = minutely(world)
    store = FaultyStore(world.store)
    store.faults = ["lost"]
    outcome = world.step(world.timekeeper(store))
    assert (outcome.did, outcome.left, outcome.next) == (0, False, world.now + MINUTE)
    assert store.faults == ["lost"], "not even a transaction was begun"
    assert world.fires(schedule) == []


@pytest.mark.requirement("RUN-1", "CATCH-5")
def test_the_cursor_moves_in_the_transaction_that_records_the_run(world: World) -> None:
    schedule, begun = minutely(world), world.now
    store = FaultyStore(world.store)
    timekeeper = world.timekeeper(store)
    world.pass_time(MINUTE)
    store.faults = ["lost"]
    with pytest.raises(CommitUnknown):
        world.step(timekeeper)
    assert (world.fires(schedule), world.store.data.clock.rows[schedule].cursor) == ([], begun)
    outcome = world.step(timekeeper)
    assert world.fires(schedule) == [begun + MINUTE]
    assert world.store.data.clock.rows[schedule].cursor >= begun + MINUTE
    assert outcome.wakes == {Topic.ADMIT} and outcome.next == begun + 2 * MINUTE


@pytest.mark.requirement("RUN-1", "CATCH-5")
@pytest.mark.parametrize("at_a_time", [1, 7, 40])
def test_a_batch_that_takes_longer_than_a_transaction_may_is_taken_in_smaller_pieces(
    world: World, at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the database would end it each time, and nothing that is due would ever be recorded."""
    schedules = [minutely(world, f"s{number}") for number in range(80)]
    timekeeper, decide = world.timekeeper(), Timekeeper._decide

    def slow(self: Timekeeper, due: Sequence[Due], now: Instant) -> object:
        if len(due) > at_a_time:
            raise Unavailable("This process slept inside a transaction; the database rolled it back.", code="slept")
        return decide(self, due, now)

    monkeypatch.setattr(Timekeeper, "_decide", slow)
    world.pass_time(MINUTE)
    for _ in range(200):
        with suppress(Unavailable):
            world.step(timekeeper)
    assert all(world.fires(one) == [world.now] for one in schedules)


@pytest.mark.requirement("RUN-1")
def test_a_commit_without_an_answer_doubles_nothing(world: World) -> None:
    schedule, begun = minutely(world), world.now
    store = FaultyStore(world.store)
    timekeeper = world.timekeeper(store)
    world.pass_time(MINUTE)
    store.faults = ["unknown"]
    with pytest.raises(CommitUnknown):
        world.step(timekeeper)
    for _ in range(3):
        world.step(timekeeper)
    assert world.fires(schedule) == [begun + MINUTE]


@pytest.mark.requirement("RUN-1", "HA-4")
def test_two_timekeepers_share_the_work_and_record_each_fire_once(world: World) -> None:
    schedules = [minutely(world, f"s{n}") for n in range(40)]
    world.pass_time(MINUTE)
    two = [world.timekeeper(batch=10) for _ in range(2)]

    async def both() -> int:
        done = 0
        for _ in range(8):
            done += sum(one.did for one in await asyncio.gather(*(part.step(world.now) for part in two)))
        return done

    assert crank(both()) == 40
    assert all(len(world.fires(schedule)) == 1 for schedule in schedules)


@pytest.mark.requirement("RUN-1")
def test_a_second_hand_helps_while_there_is_a_backlog_and_rests_otherwise(world: World) -> None:
    schedules = [minutely(world, f"s{n}") for n in range(40)]
    first = world.timekeeper(batch=10)
    second = SecondHand(world.store, world.fence, TimekeeperSettings(batch=10))
    world.pass_time(MINUTE)
    assert world.step(second) == Outcome()  # nobody called it

    outcome = world.step(first)
    assert outcome.left and Topic.BACKLOG in outcome.wakes
    second.hear(Topic.BACKLOG)

    async def both() -> int:
        return sum(one.did for one in await asyncio.gather(first.step(world.now), second.step(world.now)))

    assert 10 + crank(both()) + crank(both()) == 40
    assert all(len(world.fires(schedule)) == 1 for schedule in schedules)
    while world.step(second).left:
        pass
    assert world.step(second) == Outcome()


@pytest.mark.requirement("CATCH-5", "FAIL-8")
def test_a_failed_launch_never_moves_the_clock(world: World) -> None:
    schedule, begun = minutely(world), world.now
    timekeeper, worker = world.timekeeper(), world.worker()
    worker.launcher.hooks["start"] = refuses()
    for _ in range(5):
        world.pass_time(MINUTE)
        for part in (timekeeper, world.admitter, worker.dispatcher, worker.supervisor):
            world.step(part)
    assert world.fires(schedule) == [begun + n * MINUTE for n in range(1, 6)]
    assert world.store.data.clock.rows[schedule].next_due == begun + 6 * MINUTE


@pytest.mark.requirement("RUN-1")
def test_from_due_to_done(world: World) -> None:
    schedule = minutely(world)
    timekeeper, worker = world.timekeeper(), world.worker()
    world.pass_time(MINUTE)
    for part in (timekeeper, world.admitter, worker.dispatcher):
        world.step(part)
    [key] = [key for key in world.store.data.run.rows if key.schedule_id == schedule]
    world.backend.finish(AttemptKey(key, 1), "succeeded")
    worker.supervise()
    run = world.run(key)
    assert (run.state, run.fire_time) == (State.SUCCEEDED, world.now)


@pytest.mark.requirement("CATCH-2")
def test_what_the_cap_cuts_comes_in_the_next_pass(world: World) -> None:
    schedules = [minutely(world, f"s{n}", catch_up=ALL) for n in range(3)]
    begun = world.now
    world.pass_time(HOUR)
    timekeeper = world.timekeeper(catch_up_per_pass=10)
    counts: list[list[int]] = []
    while sum(map(len, map(world.fires, schedules))) < 3 * 60:
        outcome = world.step(timekeeper)
        counts.append([len(world.fires(schedule)) for schedule in schedules])
        assert outcome.next is not None
        world.now = outcome.next
        assert len(counts) < 100
    assert all(world.fires(schedule) == [begun + n * MINUTE for n in range(1, 61)] for schedule in schedules)
    assert world.now < begun + HOUR + 2 * MINUTE, "passes follow each other"
    for before, after in zip([[0, 0, 0], *counts], counts, strict=False):
        assert sum(after) - sum(before) <= 10 + 3, "the cap, and what is on time"
        assert max(after) - min(after) <= 4, "no schedule starves another"


@pytest.mark.requirement("CATCH-2")
def test_what_is_due_now_finds_room_between_passes_that_catch_up(world: World) -> None:
    behind = [minutely(world, f"s{n}", catch_up=ALL) for n in range(30)]
    world.pass_time(HOUR)
    timekeeper = world.timekeeper(batch=20, catch_up_per_pass=5)
    for _ in range(4):
        world.step(timekeeper)
    prompt = minutely(world, "prompt")
    world.pass_time(MINUTE)
    passes = 0
    while not world.fires(prompt):
        world.step(timekeeper)
        passes += 1
        assert passes <= 5
    assert sum(len(world.fires(one)) for one in behind) < 30 * 60


@pytest.mark.requirement("LIFE-7")
def test_one_schedule_that_cannot_be_planned_stops_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = minutely(world, "bad"), minutely(world, "good")
    begun = world.now

    def fragile(due: object, *, now: int, cap: int) -> object:
        if any(one.schedule_id == bad for one in due):  # type: ignore[attr-defined]
            raise ZeroDivisionError
        return planning.plan(due, now=now, cap=cap)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "plan", fragile)
    timekeeper = world.timekeeper()
    world.pass_time(MINUTE)
    outcome = world.step(timekeeper)
    assert world.fires(good) == [begun + MINUTE]
    assert any("ns/bad" in note for note in outcome.notes)
    assert world.store.data.clock.rows[bad].cursor == begun, "none of its fires is lost"

    monkeypatch.undo()
    world.pass_time(MINUTE)
    world.step(timekeeper)
    assert world.fires(bad) == [begun + MINUTE, begun + 2 * MINUTE]


def test_batches_grow_with_a_backlog_and_shrink_with_it(world: World) -> None:
    for n in range(350):
        minutely(world, f"s{n}")
    world.pass_time(MINUTE)
    timekeeper = Timekeeper(world.store, world.fence, replace(TimekeeperSettings(), batch=100))
    sizes = []
    while (outcome := world.step(timekeeper)).did:
        sizes.append((outcome.did, outcome.left))
    assert sizes == [(100, True), (200, True), (50, False)]


def test_a_clock_that_was_changed_is_met_at_the_wake_up(world: World) -> None:
    timekeeper = world.timekeeper()
    assert world.step(timekeeper).next is None
    minutely(world)
    timekeeper.hear(Topic.CLOCK)
    assert world.step(timekeeper).next == world.now + MINUTE
    assert world.now % SECOND == 0
