"""What a run is given: its input is closed when it goes, and nothing of it is lost when it never does."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.collecting import MERGING, admit, collected, commit, event, landed, listen, match, publish, reset, runs
from conformance.worlds import World, at_most
from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import SECOND
from tidegate.domain.runs import Cause, State
from tidegate.domain.triggers import All, DataSize, Partition, ProgramStatus
from tidegate.ports.engine import Started

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("DATA-11", "GATE-16")]
TABLE = "lake.raw.a"
BIG = Partition(dataset=TABLE, count=1)


async def arrive(world: World, *snapshots: int) -> None:
    await publish(world, *[commit(TABLE, one, before=one - 1 if one > 1 else None) for one in snapshots])
    await match(world, world.at(SECOND))


async def started(world: World, now: int) -> list[Any]:
    launches = list(await world.launch(now))
    async with world.store.transaction(world.worker) as tx:
        await tx.started([Started(attempt=one.attempt, backend_id="b") for one in launches], now)
    return launches


async def given(world: World, key: RunKey) -> tuple[Any, Any, int, int]:
    """(after snapshot, up to snapshot, rows, events) of a run's input."""
    run = await world.record(key)
    assert run.inputs is not None
    one = run.inputs[TABLE]
    return one["from_snapshot"], one["to_snapshot"], one["rows"], one["events"]


async def go(world: World, schedule: str, number: int, second: int) -> RunKey:
    """The run of this number is admitted, started and ended."""
    await admit(world, world.at(second * SECOND))
    await world.end(await started(world, world.at(second * SECOND)), world.at(second * SECOND))
    return (await runs(world, schedule))[number].key


async def test_inputs_meet_without_a_gap(world: World) -> None:
    await listen(world, "mart", BIG, waiting=MERGING)
    await arrive(world, 5, 6)
    first = await go(world, "mart", 0, 2)
    await arrive(world, 7)
    second = await go(world, "mart", 1, 3)
    assert await given(world, first) == (4, 6, 20, 2)
    assert await given(world, second) == (6, 7, 10, 1)


async def test_the_input_grows_until_the_run_goes(world: World) -> None:
    schedule = await listen(world, "mart", Partition(dataset=TABLE, count=2), waiting=MERGING)
    await arrive(world, 5, 6)
    await publish(world, commit(TABLE, 7, before=6))  # no need is reached, nobody has looked
    key = await go(world, "mart", 0, 2)
    assert await given(world, key) == (4, 7, 30, 3)
    assert await collected(world, schedule) == 0
    await arrive(world, 8)
    assert len(await runs(world, "mart")) == 1


@pytest.mark.requirement("CARE-11")
async def test_a_snapshot_is_needed_as_long_as_an_input_begins_or_ends_there(world: World) -> None:
    async def needed() -> dict[str, list[int]]:
        return {name: list(one) for name, one in (await world.store.snapshots_needed([TABLE, "lake.raw.no"])).items()}

    await listen(world, "mart", Partition(dataset=TABLE, count=2), waiting=MERGING)
    assert await needed() == {}
    await arrive(world, 5)
    assert await needed() == {TABLE: [4]}, "its first input will begin behind the fourth"
    await arrive(world, 6, 7)
    await admit(world, world.at(2 * SECOND))
    assert await needed() == {TABLE: [4, 7]}, "a live run reads what lies between"
    await world.end(await started(world, world.at(2 * SECOND)), world.at(2 * SECOND))
    assert await needed() == {TABLE: [7]}, "the next one's begins there"


async def test_what_is_admitted_tells_its_first_and_last_events(world: World) -> None:
    await listen(world, "many", landed(25), waiting=MERGING)
    await publish(world, *[event(n=number) for number in range(25)])
    await match(world)
    await admit(world, world.at(SECOND))
    [run] = await runs(world, "many")
    assert run.evidence is not None
    told = [one["payload"]["n"] for one in run.evidence["events"]]
    assert told == [*range(10), *range(15, 25)]
    assert run.inputs == {}


@pytest.mark.parametrize("how", ["superseded", "cancelled"])
async def test_who_never_started_gives_its_input_to_the_next(world: World, how: str) -> None:
    schedule = await listen(world, "mart", BIG, waiting=MERGING)
    await arrive(world, 5)
    first = (await runs(world, "mart"))[0].key
    if how == "cancelled":  # after it was closed and what is owed had moved
        await admit(world, world.at(2 * SECOND))
        assert await given(world, first) == (4, 5, 10, 1)
    async with world.store.changing() as tx:
        if how == "superseded":
            await tx.end_waiting(schedule, State.SUPERSEDED, "", world.at(2 * SECOND))
        else:
            await tx.request_stop(first, "ann", world.at(2 * SECOND))
    assert await world.state(first) in (State.SUPERSEDED, State.CANCELLED)
    assert await match(world, world.at(2 * SECOND)) == 0
    assert len(await runs(world, "mart")) == 1
    await arrive(world, 6)
    second = await go(world, "mart", 1, 3)
    assert await given(world, second) == (4, 6, 20, 2)


async def test_input_of_a_run_that_started_is_spent_however_it_ends(world: World) -> None:
    await listen(world, "mart", BIG, waiting=MERGING)
    await arrive(world, 5)
    await admit(world, world.at(2 * SECOND))
    launches = await started(world, world.at(2 * SECOND))
    await world.end(launches, world.at(3 * SECOND), outcome="failed")
    await arrive(world, 6)
    second = await go(world, "mart", 1, 4)
    assert await given(world, second) == (5, 6, 10, 1)


async def test_a_later_run_that_took_its_input_already_keeps_it(world: World) -> None:
    """Two runs are closed; the first is cancelled: the second has what came after it, and the next goes on there."""
    await listen(world, "mart", BIG, constraints=at_most(5))
    await arrive(world, 5)
    await arrive(world, 6)
    await admit(world, world.at(2 * SECOND))
    first, second = [run.key for run in await runs(world, "mart")]
    assert [await given(world, one) for one in (first, second)] == [(4, 5, 10, 1), (5, 6, 10, 1)]
    async with world.store.changing() as tx:
        await tx.request_stop(first, "ann", world.at(2 * SECOND))
    await started(world, world.at(3 * SECOND))
    await arrive(world, 7)
    third = await go(world, "mart", 2, 4)
    assert await given(world, third) == (6, 7, 10, 1)


async def test_who_asks_by_hand_sees_the_present_and_moves_nothing(world: World) -> None:
    schedule = await listen(world, "mart", DataSize(dataset=TABLE, rows=25), waiting=MERGING)
    await arrive(world, 5, 6)
    manual = await world.manual(schedule, world.at(SECOND))
    await admit(world, world.at(SECOND))
    assert await given(world, manual) == (4, 6, 20, 2)
    assert await collected(world, schedule) == 2
    await world.end(await started(world, world.at(SECOND)), world.at(SECOND))
    await arrive(world, 7)
    key = await go(world, "mart", 1, 3)
    assert await given(world, key) == (4, 7, 30, 3)


async def test_a_rerun_is_given_the_same(world: World) -> None:
    schedule = await listen(world, "mart", BIG, waiting=MERGING)
    await arrive(world, 5)
    old = await go(world, "mart", 0, 2)
    await arrive(world, 6)
    async with world.store.changing() as tx:
        key = await tx.add_run(
            schedule, cause=Cause.RERUN, caused_by=str(old), fire_time=None, previous_fire=None, given={"n": 1},
            priority=50, now=world.at(3 * SECOND), like=old,
        )  # fmt: skip
    assert await given(world, key) == (4, 5, 10, 1)
    newest = (await runs(world, "mart"))[1].key
    await admit(world, world.at(4 * SECOND))
    await world.end(await started(world, world.at(4 * SECOND)), world.at(4 * SECOND))
    await admit(world, world.at(5 * SECOND))
    assert await given(world, key) == (4, 5, 10, 1)
    assert await given(world, newest) == (5, 6, 10, 1)


async def test_a_leg_without_data_is_an_empty_range(world: World) -> None:
    trigger = All(triggers=(BIG, Partition(dataset="lake.raw.b", count=1)), max_wait=SECOND)
    await listen(world, "both", trigger, waiting=MERGING)
    await publish(world, commit(TABLE, 5, before=4))
    await match(world, world.at(0))
    await match(world, world.at(2 * SECOND))
    await admit(world, world.at(2 * SECOND))
    [run] = await runs(world, "both")
    assert run.inputs is not None
    assert run.inputs["lake.raw.b"]["events"] == 0
    assert run.inputs["lake.raw.b"]["rows"] == 0
    assert await given(world, run.key) == (4, 5, 10, 1)


async def test_an_update_moves_the_range_to_the_present(world: World) -> None:
    schedule: ScheduleId = await listen(world, "mart", BIG, waiting=MERGING)
    await arrive(world, 5)
    async with world.store.changing() as tx:
        await tx.end_waiting(schedule, State.SUPERSEDED, "", world.at(2 * SECOND))
    await reset(world, schedule, world.at(2 * SECOND))
    await arrive(world, 6)
    key = await go(world, "mart", 1, 3)
    assert await given(world, key) == (5, 6, 10, 1)


async def test_the_run_upstream_is_told(world: World) -> None:
    await listen(world, "after", ProgramStatus(program="sales/first", outcomes=("succeeded",)), program="then")
    await world.schedule("first", program="first")
    await world.fire()
    await admit(world, world.at(SECOND))
    launches = await started(world, world.at(SECOND))
    [upstream] = [one.attempt.run for one in launches]
    await world.end(launches, world.at(2 * SECOND))
    await match(world, world.at(2 * SECOND))
    await admit(world, world.at(3 * SECOND))
    [run] = await runs(world, "after")
    assert run.evidence is not None
    assert run.evidence["upstream"]["id"] == str(upstream)
    assert run.evidence["upstream"]["outcome"] == "succeeded"
