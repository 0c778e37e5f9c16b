"""What triggers collect and when they fire, as every store keeps it."""

from __future__ import annotations

import pytest

from conformance.collecting import (
    KEY,
    MERGING,
    collected,
    commit,
    counted,
    event,
    landed,
    listen,
    match,
    publish,
    reset,
    runs,
    switch,
    tick,
)
from conformance.worlds import World
from tidegate.domain.instants import MINUTE, SECOND
from tidegate.domain.runs import Cause, State
from tidegate.domain.schedules import Mode, Waiting, WaitingPolicy
from tidegate.domain.triggers import All, AnyOf, DataSize, Elapsed, Interval, Partition, ProgramStatus, Quiet, Since

pytestmark = pytest.mark.anyio


# ── counting ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("DATA-3", "EVENT-1")
@pytest.mark.parametrize("batches", [(7,), (1, 1, 1, 1, 1, 1, 1), (3, 4), (2, 2, 3)])
async def test_every_third_event_is_a_run_however_they_came(world: World, batches: tuple[int, ...]) -> None:
    schedule = await listen(world, "thirds", landed(3))
    for size in batches:
        await publish(world, *[event() for _ in range(size)])
        await match(world)
    found = await runs(world, "thirds")
    assert [counted(run) for run in found] == [3, 3]
    assert [run.cause for run in found] == [Cause.EVIDENCE] * 2
    assert await collected(world, schedule) == 1
    ranges = [run.evidence["leaves"][0]["topics"][0] for run in found if run.evidence]
    assert [(one["from_n"], one["to_n"]) for one in ranges] == [(0, 3), (3, 6)]


@pytest.mark.requirement("DATA-12")
async def test_nobody_looks_before_it_matters(world: World) -> None:
    await listen(world, "thousand", landed(1000))
    await publish(world, event())
    await match(world)
    async with world.store.transaction(world.scheduler) as tx:
        await tx.publish([event()] * 900, world.start)
    async with world.store.transaction(world.scheduler) as tx:
        assert list(await tx.claim_inbox(world.start, 100)) == []
    assert not await world.store.inbox_waits()
    await publish(world, *[event()] * 99)
    assert await match(world) == 1
    assert [counted(run) for run in await runs(world, "thousand")] == [1000]


@pytest.mark.requirement("DATA-3", "EVENT-4")
async def test_only_what_matches_counts(world: World) -> None:
    await listen(world, "eu", landed(key=KEY))
    await listen(world, "any", landed(key=None))
    await listen(world, "big", landed(key=None, match={"file": {"kind": "csv"}, "tags": ["x"]}))
    await publish(
        world,
        event("sales/us", file={"kind": "csv", "size": 3}, tags=["y", "x"]),
        event("sales/us", file={"kind": "json"}, tags=["x"]),
        event(KEY, file={"kind": "csv"}),
        event(KEY, type="user.other", file={"kind": "csv"}, tags=["x"]),
    )
    await match(world)
    assert {name: len(await runs(world, name)) for name in ("eu", "any", "big")} == {"eu": 1, "any": 3, "big": 1}


@pytest.mark.requirement("DATA-2")
async def test_new_data_is_counted_by_bytes_and_rows(world: World) -> None:
    await listen(world, "size", DataSize(dataset="lake.a", bytes=3000, rows=25))
    for snapshot in range(1, 8):
        await publish(world, commit("lake.a", snapshot))
        await match(world)
    found = await runs(world, "size")
    assert [
        (run.evidence["leaves"][0]["rows"], run.evidence["leaves"][0]["bytes"]) for run in found if run.evidence
    ] == [(30, 3000)] * 2


@pytest.mark.requirement("DATA-1")
async def test_partitions_count_by_their_names(world: World) -> None:
    await listen(world, "days", Partition(dataset="lake.a", count=2))
    for snapshot in (1, 1, 1, 2, 3):
        await publish(world, commit("lake.a", snapshot))
        await match(world)
    [run] = await runs(world, "days")
    assert run.evidence is not None
    assert run.evidence["leaves"][0]["names"] == ["d=1", "d=2"]


@pytest.mark.requirement("DATA-5")
async def test_a_fire_takes_all_that_was_collected_in_the_order_of_arrival(world: World) -> None:
    both = All(triggers=(landed(2), landed(key="sales/us")))
    schedule = await listen(world, "both", both)
    await publish(world, event(), event(), event(), event("sales/us"), event())
    await match(world)
    [run] = await runs(world, "both")
    assert run.evidence is not None
    assert [leaf["n"] for leaf in run.evidence["leaves"]] == [3, 1]
    assert await collected(world, schedule) == 1


@pytest.mark.requirement("EVENT-2")
async def test_one_event_reaches_every_leaf_that_listens(world: World) -> None:
    await listen(world, "twice", All(triggers=(landed(), landed(key=None), landed(match={"a": 1}))))
    await publish(world, event(a=2))
    await match(world)
    assert await runs(world, "twice") == []
    await publish(world, event(a=1))
    await match(world)
    [run] = await runs(world, "twice")
    assert run.evidence is not None
    assert [leaf["n"] for leaf in run.evidence["leaves"]] == [2, 2, 1]


# ── waiting runs ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("GATE-10")
async def test_what_comes_while_a_run_waits_joins_it(world: World) -> None:
    await listen(world, "merging", landed(2), waiting=MERGING, priority=60)
    await publish(world, *[event()] * 5)
    await match(world)
    await publish(world, event())
    await match(world)
    [run] = await runs(world, "merging")
    assert counted(run) == 6
    assert run.priority == 60
    assert run.evidence is not None
    assert run.evidence["leaves"][0]["topics"][0] | {"key_id": 0} == {
        "key_id": 0, "type": "user.landed", "key": KEY, "from_n": 0, "to_n": 6,
    }  # fmt: skip


@pytest.mark.requirement("GATE-10")
async def test_nothing_joins_what_a_person_asked_for(world: World) -> None:
    schedule = await listen(world, "merging", landed(), waiting=MERGING)
    manual = await world.manual(schedule, world.start)
    await publish(world, event())
    await match(world, world.at(SECOND))
    found = await runs(world, "merging")
    assert len(found) == 2
    assert [run.evidence is None for run in found if run.key == manual] == [True]


@pytest.mark.requirement("GATE-10")
@pytest.mark.parametrize(
    ("policy", "left", "state"),
    [
        (WaitingPolicy(runs=Waiting.LATEST), 1, "superseded"),
        (WaitingPolicy(runs=Waiting.ALL, max=2), 2, "expired"),
    ],
)
async def test_room_is_made_for_the_newest(world: World, policy: WaitingPolicy, left: int, state: str) -> None:
    await listen(world, "many", landed(), waiting=policy)
    for number in range(4):
        await publish(world, event(), now=world.at(number * SECOND))
        await match(world, world.at(number * SECOND))
    states = [run.state.value for run in await runs(world, "many")]
    assert states == [state] * (4 - left) + ["waiting"] * left


@pytest.mark.requirement("GATE-10")
@pytest.mark.parametrize("together", [True, False])
async def test_the_run_that_others_join_keeps_its_fire_time(world: World, together: bool) -> None:
    tree = AnyOf(triggers=(landed(9), Interval(every="PT1S", anchor=world.start)))
    schedule = await world.schedule("joined", due=SECOND, trigger=tree, waiting=MERGING)
    await reset(world, schedule, world.start)
    now = world.at(3 * SECOND)
    for fires in (3,) if together else (1, 1, 1):
        await tick(world, tree, now, fires)
    first, *rest = await runs(world, "joined")
    assert [run.merged_into for run in rest] == [str(first.key)] * 2
    assert first.fire_time == world.at(SECOND)
    assert first.evidence is not None
    assert first.evidence["fire_time"] == now


@pytest.mark.requirement("GATE-10")
async def test_what_a_tick_collected_stays_with_its_run_even_where_a_newer_one_takes_its_place(world: World) -> None:
    tree = AnyOf(triggers=(landed(9), Interval(every="PT1S", anchor=world.start)))
    schedule = await world.schedule("newest", due=SECOND, trigger=tree, waiting=WaitingPolicy(runs=Waiting.LATEST))
    await reset(world, schedule, world.start)
    await publish(world, event(), event())
    await tick(world, tree, world.at(2 * SECOND), fires=2)
    old, new = await runs(world, "newest")
    assert (old.state, new.state) == (State.SUPERSEDED, State.WAITING)
    assert (counted(old), counted(new)) == (2, 0)


# ── old and new states ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("GATE-16")
async def test_what_came_before_belongs_to_the_old_state(world: World) -> None:
    schedule = await listen(world, "anew", landed(2))
    await publish(world, event())
    await reset(world, schedule, world.at(SECOND))
    await publish(world, event())
    await match(world, world.at(SECOND))
    assert await runs(world, "anew") == []
    await publish(world, event())
    await match(world, world.at(SECOND))
    assert len(await runs(world, "anew")) == 1


@pytest.mark.parametrize("mode", [Mode.DROP, Mode.KEEP])
async def test_who_rests_hears_nothing(world: World, mode: Mode) -> None:
    schedule = await listen(world, "rests", AnyOf(triggers=(landed(2), Elapsed(since=Since.LAST_RUN, after=MINUTE))))
    await publish(world, event())
    await switch(world, "rests", mode, world.at(SECOND))
    assert await world.store.next_deadline() is None
    assert list(await world.store.subscribers("user.landed", KEY, None)) == []
    await publish(world, event(), event())
    await match(world, world.at(2 * SECOND))
    assert list(await world.store.collected([schedule], world.start)) == []
    await switch(world, "rests", Mode.ENABLED, world.at(3 * SECOND))
    await publish(world, event())
    await match(world, world.at(3 * SECOND))
    assert await runs(world, "rests") == []
    assert await collected(world, schedule, world.at(3 * SECOND)) == 1
    assert await world.store.next_deadline() == world.at(3 * SECOND + MINUTE)


# ── silence ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("DATA-6")
async def test_a_longest_wait_is_a_stored_instant(world: World) -> None:
    await listen(world, "waits", All(triggers=(landed(), landed(key="sales/us")), max_wait=MINUTE))
    assert await world.store.next_deadline() is None
    await publish(world, event(), now=world.at(SECOND))
    await match(world, world.at(2 * SECOND))
    due = world.at(SECOND + MINUTE)
    assert await world.store.next_deadline() == due
    assert await match(world, due - 1) == 0
    assert await match(world, due) == 1
    [run] = await runs(world, "waits")
    assert run.evidence is not None
    assert run.evidence["timed_out_waiting"] is True
    assert await world.store.next_deadline() is None


@pytest.mark.requirement("DATA-8")
async def test_quiet_begins_anew_with_each_event(world: World) -> None:
    await listen(world, "quiet", Quiet(trigger=landed(), silence=10 * SECOND))
    for second in (0, 4, 8):
        await publish(world, event(), now=world.at(second * SECOND))
        await match(world, world.at(second * SECOND))
    assert await match(world, world.at(10 * SECOND)) <= 1
    assert await runs(world, "quiet") == []
    await match(world, world.at(18 * SECOND))
    [run] = await runs(world, "quiet")
    assert counted(run) == 3


@pytest.mark.requirement("DATA-7")
async def test_time_since_the_last_run_counts_from_its_start_and_is_silent_until_its_end(world: World) -> None:
    await listen(world, "since", AnyOf(triggers=(landed(), Elapsed(since=Since.LAST_RUN, after=MINUTE))))
    assert await world.store.next_deadline() == world.at(MINUTE)
    await publish(world, event())
    await match(world)
    assert await world.store.next_deadline() is None
    launches = await world.begin_runs(world.at(10 * SECOND))
    await match(world, world.at(11 * SECOND))
    assert await world.store.next_deadline() is None
    await world.end(launches, world.at(20 * SECOND))
    await match(world, world.at(20 * SECOND))
    assert await world.store.next_deadline() == world.at(70 * SECOND)
    await match(world, world.at(70 * SECOND))
    assert len(await runs(world, "since")) == 2


# ── programs ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("DATA-4", "EVENT-7")
async def test_the_outcome_of_a_program_starts_another(world: World) -> None:
    await listen(world, "after", ProgramStatus(program="sales/first", outcomes=("succeeded", "failed")), program="then")
    await listen(world, "begun", ProgramStatus(program="sales/first", outcomes=("started",)), program="then")
    await world.schedule("first", program="first")
    await world.schedule("other", program="other")
    await world.fire()
    launches = await world.begin_runs(world.at(SECOND))
    await match(world, world.at(SECOND))
    assert len(await runs(world, "begun")) == 1
    assert await runs(world, "after") == []
    await world.end(launches, world.at(2 * SECOND))
    await match(world, world.at(2 * SECOND))
    [run] = await runs(world, "after")
    assert counted(run) == 1


@pytest.mark.requirement("DATA-4")
async def test_a_run_that_a_person_asked_for_counts_too(world: World) -> None:
    await listen(world, "after", ProgramStatus(program="sales/first", outcomes=("succeeded",)), program="then")
    first = await world.schedule("first", program="first", due=None)
    await world.manual(first, world.start)
    await world.end(await world.begin_runs(world.at(SECOND)), world.at(2 * SECOND))
    await match(world, world.at(2 * SECOND))
    assert len(await runs(world, "after")) == 1


# ── what cannot be taken ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("EVENT-3")
async def test_an_event_that_is_set_aside_counts_once_however_many_leaves_heard_it(world: World) -> None:
    schedule = await listen(world, "poisoned", All(triggers=(landed(3), landed(4), landed(5, key=None))))
    await publish(world, event(), event(), event(key="sales/us"))
    for _ in range(2):  # the same mistake again with nothing new is no news, until somebody replays it
        for _ in range(2):
            async with world.store.transaction(world.scheduler) as tx:
                await tx.collections([schedule], world.start)
                await tx.set_aside(schedule, "ValueError: no", world.start)
        [aside] = await world.store.set_asides(None, None, 10)
        assert aside.count == 3
        async with world.store.changing() as tx:
            await tx.replay(aside.id, world.start)


@pytest.mark.requirement("EVENT-3")
async def test_what_was_set_aside_is_kept_and_given_again(world: World) -> None:
    schedule = await listen(world, "poisoned", landed(3))
    other = await listen(world, "fine", landed(3))
    await publish(world, event(), event())
    async with world.store.transaction(world.scheduler) as tx:
        await tx.collections([schedule], world.start)
        await tx.set_aside(schedule, "ValueError: no", world.start)
    assert await collected(world, schedule) == 0
    assert await collected(world, other) == 2
    [aside] = await world.store.set_asides(None, None, 10)
    assert (aside.schedule, aside.count, aside.error) == ("poisoned", 2, "ValueError: no")
    assert list(await world.store.set_asides("elsewhere", None, 10)) == []

    for _ in range(2):  # a second time gives nothing more
        async with world.store.changing() as tx:
            await tx.replay(aside.id, world.start)
        await match(world)
    assert list(await world.store.set_asides(None, None, 10)) == []
    await publish(world, event())
    await match(world)
    for name in ("poisoned", "fine"):
        [run] = await runs(world, name)
        assert counted(run) == 3
