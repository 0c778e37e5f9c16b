"""What people read of runs: pages, the queue, the books that the audit compares."""

from __future__ import annotations

import pytest

from conformance.worlds import NS, World, at_most, plan_of
from tidegate.domain.ids import RunKey
from tidegate.domain.instants import DAY, HOUR, MINUTE, SECOND
from tidegate.domain.planning import Stretch
from tidegate.domain.runs import LIVE, Cause, State
from tidegate.ports.records import RunRecord

pytestmark = pytest.mark.anyio


async def pages(world: World, size: int, **wanted: object) -> list[RunRecord]:
    """Everything, page by page."""
    found: list[RunRecord] = []
    before: str | None = None
    asked = {"schedule": None, "states": [], "since": None, **wanted}
    namespace = asked.pop("namespace", None)
    while True:
        page, before = await world.store.runs(namespace, before=before, limit=size, **asked)
        assert len(page) <= size
        found.extend(page)
        if before is None:
            return found


async def miss(world: World, schedule: int, first: int, last: int, count: int) -> None:
    stretch = Stretch(
        from_fire=world.at(first), to_fire=world.at(last), n=count, rev=1, outcome=State.MISSED, reason="away"
    )
    async with world.store.changing() as tx:
        await tx.record_stretches(schedule, [stretch], world.at(last))


@pytest.mark.parametrize("size", [1, 2, 3, 100])
async def test_pages_hold_everything_once_newest_first(world: World, size: int) -> None:
    one = await world.schedule("one", due=0)
    await world.schedule("two", due=SECOND)
    for number in range(3):
        await world.fire(world.at(number * MINUTE + SECOND))
    await miss(world, one, 3 * MINUTE, 5 * MINUTE, 3)
    await world.manual(one, world.at(6 * MINUTE))
    found = await pages(world, size)
    assert len(found) == 8
    assert len({run.key for run in found}) == 8
    slots = [run.fire_time_to or run.key.slot for run in found]
    assert slots == sorted(slots, reverse=True)
    assert [run.count for run in found if run.state is State.MISSED] == [3]
    assert [run.cause for run in found[:1]] == [Cause.MANUAL]


async def test_pages_are_chosen_by_schedule_state_and_time(world: World) -> None:
    one = await world.schedule("one", due=0)
    await world.schedule("two", due=0)
    await world.fire()
    await world.end(await world.begin_runs(world.at(SECOND)), world.at(2 * SECOND))
    await world.fire(world.at(MINUTE))
    await miss(world, one, 5 * MINUTE, 6 * MINUTE, 2)
    assert len(await pages(world, 2, schedule="one")) == 3
    assert len(await pages(world, 2, namespace=NS)) == 5
    assert await pages(world, 2, namespace="elsewhere") == []
    assert {run.state for run in await pages(world, 1, states=[State.SUCCEEDED])} == {State.SUCCEEDED}
    assert len(await pages(world, 1, states=sorted(LIVE))) == 2
    assert len(await pages(world, 1, states=[State.MISSED], namespace=NS)) == 1
    assert len(await pages(world, 1, states=[State.WAITING, State.SUCCEEDED], schedule="two")) == 2
    assert len(await pages(world, 9, since=world.at(MINUTE))) == 3
    assert len(await pages(world, 9, since=world.at(MINUTE), schedule="two")) == 1


async def test_a_stretch_is_found_by_its_first_fire(world: World) -> None:
    one = await world.schedule("one", due=None)
    await miss(world, one, 0, HOUR, 60)
    run = await world.record(RunKey(world.start, one, 0))
    assert (run.state, run.count, run.fire_time, run.fire_time_to) == (State.MISSED, 60, world.start, world.at(HOUR))
    assert await world.store.run(RunKey(world.at(1), one, 0)) is None


async def test_runs_made_by_hand_are_told_apart(world: World) -> None:
    one = await world.schedule("one", due=0)
    [fired] = await world.fire()
    first, second = await world.manual(one, world.start), await world.manual(one, world.start)
    assert len({fired, first, second}) == 3
    assert (first.slot, first.ord, second.ord) == (world.start, 1, 2)
    run = await world.record(second)
    assert (run.cause, run.caused_by, run.fire_time) == (Cause.MANUAL, "ann", None)


async def test_the_queue_is_in_the_order_of_priority(world: World) -> None:
    one = await world.schedule("one", due=None)
    low = await world.manual(one, world.at(0), priority=10)
    late = await world.manual(one, world.at(2), priority=50)
    early = await world.manual(one, world.at(1), priority=50)
    page, rest = await world.store.queue(NS, None, 2)
    assert [run.key for run in page] == [early, late]
    page, rest = await world.store.queue(None, rest, 2)
    assert [run.key for run in page] == [low] and rest is None
    assert (await world.store.queue("elsewhere", None, 2))[0] == []


async def test_counts_by_state(world: World) -> None:
    one = await world.schedule("one", due=None, constraints=at_most(1))
    for number in range(3):
        await world.manual(one, world.at(number))
    await world.begin_runs(world.at(SECOND))
    assert await world.store.live_counts() == {(NS, "waiting"): 2, (NS, "running"): 1}


@pytest.mark.requirement("CATCH-8")
async def test_books_hold_what_the_ledger_says_of_a_span(world: World) -> None:
    one = await world.schedule("one", due=0)
    gone = await world.schedule("gone", due=None)
    for number in range(4):
        await world.fire(world.at(number * MINUTE))
    await world.end(await world.begin_runs(world.at(4 * MINUTE)), world.at(4 * MINUTE))
    await world.manual(one, world.at(MINUTE))
    await miss(world, one, 10 * MINUTE, 20 * MINUTE, 11)
    async with world.store.changing() as tx:
        await tx.remove_schedule(gone, world.at(5))
    [book] = await world.store.books(NS, world.at(MINUTE), world.at(15 * MINUTE), None, 1)
    assert (book.schedule_id, book.name, [each.rev for each in book.revisions]) == (one, "one", [1])
    assert [(row.from_fire, row.n) for row in book.rows] == [
        (world.at(MINUTE), 1),
        (world.at(2 * MINUTE), 1),
        (world.at(3 * MINUTE), 1),
        (world.at(10 * MINUTE), 11),
    ]
    [other] = await world.store.books(NS, world.start, world.at(DAY), one, 10)
    assert (other.name, other.deleted_at, list(other.rows)) == ("gone", world.at(5), [])
    assert list(await world.store.books("elsewhere", world.start, world.at(DAY), None, 10)) == []


async def test_a_stretch_that_reaches_into_the_span_is_in_the_book(world: World) -> None:
    one = await world.schedule("one", due=None)
    await miss(world, one, 0, HOUR, 61)
    [book] = await world.store.books(NS, world.at(MINUTE), world.at(2 * MINUTE), None, 10)
    assert [row.n for row in book.rows] == [61]


@pytest.mark.requirement("CATCH-7")
async def test_old_and_far_fires_find_their_place(world: World) -> None:
    """Whatever days they belong to, without anybody having prepared for them."""
    await world.schedule("one", due=0)
    async with world.store.transaction(world.scheduler) as tx:
        [due] = await tx.claim_due(world.start, 1)
        plan = plan_of(due._replace(next_due=world.at(-400 * DAY)), fires=1)
        far = plan_of(due._replace(next_due=world.at(40 * DAY)), fires=2)
        await tx.record([far._replace(fires=(*plan.fires, *far.fires))], world.start)
    assert len(await pages(world, 10)) == 3
    launches = await world.begin_runs(world.at(SECOND))
    await world.end(launches, world.at(2 * SECOND))
    launches = [*launches, *await world.begin_runs(world.at(3 * SECOND))]
    await world.end(launches[1:], world.at(4 * SECOND))


async def test_retention_drops_whole_days_in_which_nothing_is_open(world: World) -> None:
    one = await world.schedule("one", due=0)
    old = await world.manual(one, world.at(-10 * DAY))
    waiting = await world.manual(one, world.at(-12 * DAY))
    async with world.store.changing() as tx:
        await tx.request_stop(old, "ann", world.start)
    await world.store.ensure_partitions(world.start, 2 * DAY)
    assert await world.store.drop_expired(world.start, {"runs": 5 * DAY})
    assert await world.store.run(old) is None
    assert await world.state(waiting) is State.WAITING
    assert list(await world.store.drop_expired(world.start, {"runs": 5 * DAY})) == []
    assert list(await world.store.drop_expired(world.start, {})) == []
    assert len(await world.fire()) == 1
