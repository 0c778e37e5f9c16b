"""Who is alive, who holds a duty, what is mended and tidied."""

from __future__ import annotations

import pytest
from worlds import World, crank

from tidegate.domain.errors import Fenced
from tidegate.domain.ids import Fence
from tidegate.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant
from tidegate.engine.janitor import Janitor
from tidegate.engine.membership import Membership
from tidegate.engine.outcome import SHARED, Topic
from tidegate.engine.reconciler import Reconciler


@pytest.fixture
def world() -> World:
    return World()


def member(world: World, name: str) -> tuple[Fence, Membership]:
    fence = crank(world.store.register(role="scheduler", name=name, host="h", pid=2, now=world.now))
    return fence, Membership(world.store, fence)


def test_a_dead_process_is_retired_at_once_and_those_who_care_are_told(world: World) -> None:
    fence, _ = member(world, "two")
    assert world.step(world.membership).did == 0
    world.store.lose_session(fence.instance_id)
    outcome = world.step(world.membership)
    assert outcome.did == 1 and outcome.wakes == SHARED, "whatever it had in hand is looked for"
    assert "two" in outcome.notes[0] and "fenced" in outcome.notes[0]
    assert world.step(world.membership).did == 0, "once"


@pytest.mark.requirement("HA-2")
def test_the_end_of_a_session_is_heard_by_the_instance_before_it_in_the_ring(world: World) -> None:
    heard: list[int] = []
    world.store.data.told_of_end = heard.append
    first, second, third = (member(world, name)[0].instance_id for name in ("one", "two", "three"))
    world.store.lose_session(second)
    world.store.lose_session(third)
    assert heard == [first, first], "the next one that lives is watched"
    world.store.lose_session(third)
    assert heard == [first, first], "once"
    world.store.lose_session(world.fence.instance_id)
    assert heard[2:] == [first], "the first of the ring by the last"


def test_a_frozen_process_is_retired_when_it_was_silent_for_too_long_and_can_never_come_back(world: World) -> None:
    _, frozen = member(world, "frozen")
    world.step(frozen)
    for _ in range(5):
        world.pass_time(SECOND)
        assert world.step(world.membership).did == 0
    world.pass_time(SECOND)
    assert world.step(world.membership).did == 1
    with pytest.raises(Fenced):
        world.step(frozen)


def test_a_heartbeat_is_said_once_a_second_and_others_are_looked_for_as_often(world: World) -> None:
    beats = []
    for _ in range(100):
        outcome = world.step(world.membership)
        beats.append(world.store.data.instance.rows[world.fence.instance_id].heartbeat)
        assert outcome.next is not None and world.now < outcome.next <= world.now + SECOND
        world.now = outcome.next
    span = (beats[-1] - beats[0]) // SECOND
    assert len(set(beats)) - 1 == span


def test_only_one_of_two_reconcilers_works_and_a_stale_leader_cannot_renew(world: World) -> None:
    other, _ = member(world, "two")
    tokens: list[tuple[Fence, int]] = []
    resync = world.store.resync

    async def seen(fence: Fence, token: int, now: Instant) -> object:
        tokens.append((fence, token))
        return await resync(fence, token, now)

    world.store.resync = seen  # type: ignore[method-assign, assignment]
    first, second = Reconciler(world.store, world.fence), Reconciler(world.store, other)
    for _ in range(3):
        world.step(first)
        world.step(second)
        world.pass_time(30 * SECOND)
    assert [fence for fence, _ in tokens] == [world.fence] * 3
    assert len({token for _, token in tokens}) == 1

    world.pass_time(2 * MINUTE)  # the first sleeps past its lease
    world.step(second)
    world.step(first)
    assert tokens[-1][0] == other and tokens[-1][1] > tokens[0][1]


def test_what_was_out_of_step_is_mended_and_told(world: World) -> None:
    world.store.data.pool.rows["default"].used = 3
    outcome = world.step(Reconciler(world.store, world.fence))
    assert outcome.did == 1 and "pool default" in outcome.notes[0]
    assert world.used() == 0
    assert Topic.ADMIT in outcome.wakes


class Partitions:
    """A store whose janitor's calls take time."""

    def __init__(self, world: World, takes: Duration) -> None:
        self.world = world
        self.takes = takes
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self.world.store, name)

    async def ensure_partitions(self, now: Instant, ahead: Duration) -> list[str]:
        self.calls.append("ensure")
        assert ahead == 14 * DAY
        self.world.pass_time(self.takes)
        return ["run_1", "run_2"]

    async def drop_expired(self, now: Instant, retention: object) -> list[str]:
        self.calls.append("drop")
        return []


def test_the_janitor_goes_round_once_an_hour(world: World) -> None:
    store = Partitions(world, 0)
    janitor = Janitor(store, world.fence)  # type: ignore[arg-type]
    outcome = world.step(janitor)
    assert outcome.next == world.now + HOUR and "Made 2 partitions" in outcome.notes[0]
    world.step(janitor)
    assert store.calls == ["ensure", "drop"]


def test_a_holder_that_no_longer_trusts_its_lease_stops_in_the_middle(world: World) -> None:
    store = Partitions(world, 10 * MINUTE)
    world.step(Janitor(store, world.fence))  # type: ignore[arg-type]
    assert store.calls == ["ensure"]
