"""Backfills, as every store keeps them: each instant in one pair of hands, counted once, never doubled."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.worlds import NS, World, plan_of
from tidegate.control import audit, backfills, explain
from tidegate.domain.backfills import Asked, BackfillState, Order, Reach, Reprocess, Span, Standing, Wish, identity
from tidegate.domain.errors import Conflict, Invalid, NotFound
from tidegate.domain.instants import HOUR, MINUTE, SECOND, Instant
from tidegate.domain.retry import Finish
from tidegate.domain.runs import Cause, State
from tidegate.domain.triggers import Cron
from tidegate.engine.backfiller import Backfiller, BackfillerSettings
from tidegate.ports.records import RunRecord

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CATCH-6")]
QUICK = BackfillerSettings(pause=0)
EVERY = Cron(expression="* * * * *")


async def declared(world: World, name: str = "orders", **said: Any) -> int:
    """A minutely schedule whose clock has nothing to decide before the start of the test."""
    return await world.schedule(name, due=None, trigger=EVERY, **said)


async def asked(world: World, back: int, name: str = "orders", **said: Any) -> str:
    """A backfill of the last `back` minutes; its id."""
    start = world.start // MINUTE * MINUTE - back * MINUTE
    end = world.start // MINUTE * MINUTE
    wish = Wish(start=start, end=end, **said)
    record, _ = await backfills.create(world.store, NS, name, wish, who="ann")
    return identity(record.id)


async def walk(world: World, now: Instant, **settings: Any) -> None:
    """Let the part pass until it has nothing to do."""
    part = Backfiller(world.store, world.scheduler, BackfillerSettings(pause=0, **settings))
    while (await part.step(now)).did:
        pass


async def made(world: World, **said: Any) -> list[RunRecord]:
    """Its runs, in the order in which they were made."""
    found, _ = await world.store.runs(
        NS, schedule=None, states=said.get("states", ()), since=None, before=None, limit=1000
    )
    return sorted((one for one in found if one.cause is Cause.BACKFILL), key=lambda one: (one.created_at, one.key))


async def run_all(world: World, backfill: str, now: Instant, outcome: str = "succeeded") -> list[Instant]:
    """Let it go to its end; the fire times in the order in which they started."""
    begun: list[Instant] = []
    for step in range(100):
        at = now + step * SECOND
        await walk(world, at)
        launches = await world.begin_runs(at)
        begun += [one.fire_time for one in launches if one.fire_time is not None]
        await world.end(launches, at, outcome=outcome, then=Finish(outcome=State(outcome), reason=""))
        if (await backfills.get(world.store, backfill)).record.finished_at is not None:
            return begun
    raise AssertionError("it does not come to an end")


async def test_each_fire_time_of_the_range_runs_once_in_the_order_asked_for(world: World) -> None:
    await declared(world)
    start = world.start // MINUTE * MINUTE
    fires = [start - back * MINUTE for back in (5, 4, 3, 2, 1)]
    assert await run_all(world, await asked(world, 5), world.at(MINUTE)) == fires
    newest = await asked(world, 7, order=Order.NEWEST, reprocess=Reprocess.ALL)
    assert await run_all(world, newest, world.at(HOUR)) == [*reversed(fires), start - 6 * MINUTE, start - 7 * MINUTE]
    record = (await backfills.get(world.store, newest)).record
    assert (record.state, record.total, record.counts.settled) == (BackfillState.FINISHED, 7, 7)
    assert record.counts.succeeded == 7


async def test_of_keys_only_the_keys_are_looked_up_whatever_lies_between(world: World) -> None:
    schedule = await declared(world)
    start = world.start // MINUTE * MINUTE
    fires = [start - back * MINUTE for back in (5, 4, 3, 2, 1)]
    await run_all(world, await asked(world, 5), world.at(MINUTE))
    keys = (fires[0], fires[-1])
    spans = Reach(keys, last=True).spans(Asked(start=fires[0], end=start, keys=keys))
    assert await world.store.standings_in(schedule, spans) == dict.fromkeys(keys, Standing.DONE)
    whole = Reach(keys, last=True).spans(Asked(start=fires[0], end=start))
    assert await world.store.standings_in(schedule, whole) == dict.fromkeys(fires, Standing.DONE)


async def test_a_run_knows_its_fire_time_the_one_before_and_who_asked(world: World) -> None:
    await declared(world, priority=80)
    backfill = await asked(world, 2)
    await walk(world, world.at(MINUTE))
    [run] = await made(world)
    start = world.start // MINUTE * MINUTE
    assert (run.fire_time, run.previous_fire) == (start - 2 * MINUTE, start - 3 * MINUTE)
    assert (run.cause, run.caused_by, run.priority, run.expires_at) == (Cause.BACKFILL, backfill, 0, None)


async def test_no_more_live_at_a_time_than_its_own_limit(world: World) -> None:
    await declared(world)
    backfill = await asked(world, 10, concurrency=3)
    await walk(world, world.at(MINUTE))
    assert len(await made(world)) == 3
    launches = await world.begin_runs(world.at(MINUTE + 1))
    await world.end(launches[:1], world.at(MINUTE + 2))
    await walk(world, world.at(MINUTE + 3))
    assert len(await made(world)) == 4
    items = (await backfills.get(world.store, backfill)).items
    assert len(items) == 3 and all(one.run is not None for one in items)


async def test_an_instant_that_has_a_row_is_that_rows(world: World) -> None:
    schedule = await world.schedule("orders", trigger=EVERY)
    async with world.store.transaction(world.scheduler) as tx:
        due = await tx.claim_due(world.start, 10)
        await tx.record([plan_of(one, next_in=None) for one in due], world.start)
    [launch] = await world.begin_runs(world.at(MINUTE + 1))
    await world.end([launch], world.at(MINUTE + 2), outcome="failed")
    fire = launch.fire_time
    assert fire is not None
    assert await world.store.standings_in(schedule, [Span(fire - HOUR, fire + HOUR)]) == {fire: Standing.UNDONE}
    # the fires of this clock lie where the test began, not on whole minutes: its own are named as keys
    there = {reprocess: backfills.wanted(reprocess, Standing.UNDONE) for reprocess in Reprocess}
    assert there == {Reprocess.NONE: False, Reprocess.FAILED: True, Reprocess.ALL: True}


async def test_what_ran_is_left_alone_what_failed_is_run_again_if_asked(world: World) -> None:
    await declared(world)
    await run_all(world, await asked(world, 3), world.at(MINUTE), outcome="failed")
    again = await asked(world, 4)
    assert len(await run_all(world, again, world.at(HOUR))) == 1
    assert (await backfills.get(world.store, again)).record.counts.passed == 3
    assert len(await run_all(world, await asked(world, 4, reprocess=Reprocess.FAILED), world.at(2 * HOUR))) == 3
    assert len(await run_all(world, await asked(world, 4, reprocess=Reprocess.FAILED), world.at(3 * HOUR))) == 0
    assert len(await run_all(world, await asked(world, 4, reprocess=Reprocess.ALL), world.at(4 * HOUR))) == 4


async def test_two_backfills_of_one_range_never_have_an_instant_together(world: World) -> None:
    await declared(world)
    one, other = await asked(world, 6, concurrency=2), await asked(world, 6, concurrency=2, reprocess=Reprocess.ALL)
    await walk(world, world.at(MINUTE))
    fires = [run.fire_time for run in await made(world)]
    assert len(fires) == len(set(fires)) == 4
    await run_all(world, one, world.at(MINUTE))
    await run_all(world, other, world.at(HOUR))
    counts = [(await backfills.get(world.store, each)).record.counts for each in (one, other)]
    assert sum(each.succeeded for each in counts) == len(await made(world))
    assert all(each.settled == 6 for each in counts)


async def test_paused_nothing_of_it_starts_and_resumed_it_goes_on_where_it_stood(world: World) -> None:
    await declared(world)
    backfill = await asked(world, 4, concurrency=2)
    await walk(world, world.at(MINUTE))
    paused = await backfills.pause(world.store, backfill, who="ann", reason="lunch")
    assert (paused.record.state, paused.record.reason) == (BackfillState.PAUSED, "lunch")
    taken_back = await made(world)
    assert {run.state for run in taken_back} == {State.SUPERSEDED}
    assert {run.reason for run in taken_back} == {f"Backfill {backfill} was paused: lunch."}
    await walk(world, world.at(MINUTE + 1))
    assert await world.begin_runs(world.at(MINUTE + 2)) == []
    assert len((await backfills.get(world.store, backfill)).items) == 2
    told = await explain.of_schedule(world.store, NS, "orders")
    [node] = [one for one in told.tree.children if one.node == f"backfill {backfill}"]
    assert node.satisfied is False and "paused (lunch)" in node.why and "0 of 4" in node.why
    resumed = await backfills.resume(world.store, backfill, who="ann")
    assert (resumed.record.state, resumed.record.reason) == (BackfillState.RUNNING, "")
    assert len(await run_all(world, backfill, world.at(MINUTE + 3))) == 4


async def test_what_is_left_goes_by_its_own_pace_once_runs_of_it_have_ended(world: World) -> None:
    """Launching them and waiting for a slot count; the time that it was paused does not."""
    await declared(world)
    backfill = await asked(world, 4)
    assert (await backfills.get(world.store, backfill)).left is None
    now = await world.store.now()
    await walk(world, now)
    launches = await world.begin_runs(now + 1)
    await world.end(launches, now + 2)
    await walk(world, now + 3)
    seen = await backfills.get(world.store, backfill)
    assert (seen.record.counts.run, seen.record.counts.settled) == (1, 1)
    until = await world.store.now()
    assert seen.left is not None and seen.left <= 3 * (until - seen.record.created_at)
    working = seen.record.worked(seen.record.created_at + HOUR)
    assert (working, seen.record.worked(seen.record.created_at + MINUTE)) == (HOUR, MINUTE)

    async with world.store.changing() as tx:
        await tx.set_backfill(seen.record.id, BackfillState.PAUSED, "lunch", seen.record.created_at + MINUTE)
    paused = (await backfills.get(world.store, backfill)).record
    assert paused.worked(paused.created_at + HOUR) == MINUTE
    assert (await backfills.get(world.store, backfill)).left == 3 * MINUTE
    async with world.store.changing() as tx:
        await tx.set_backfill(seen.record.id, BackfillState.RUNNING, "", seen.record.created_at + 11 * MINUTE)
    going_on = (await backfills.get(world.store, backfill)).record
    assert going_on.worked(going_on.created_at + 12 * MINUTE) == 2 * MINUTE


async def test_cancelled_it_ends_with_its_runs(world: World) -> None:
    await declared(world)
    backfill = await asked(world, 6, concurrency=2)
    await walk(world, world.at(MINUTE))
    async with world.store.changing() as tx:
        await tx.put_pool("default", 1, None)
    [running] = await world.begin_runs(world.at(MINUTE + 1))
    seen = await backfills.cancel(world.store, backfill, who="ann")
    assert (seen.record.state, seen.record.finished_at) == (BackfillState.CANCELLED, None)
    assert await world.state(running.attempt.run) is State.STOPPING
    await world.end([running], world.at(MINUTE + 2), outcome="cancelled")
    await walk(world, world.at(MINUTE + 3))
    seen = await backfills.get(world.store, backfill)
    assert seen.record.finished_at is not None and seen.items == ()
    assert (seen.record.counts.considered, seen.record.counts.cancelled) == (2, 2)
    assert (await backfills.cancel(world.store, backfill, who="ann")).record.state is BackfillState.CANCELLED
    with pytest.raises(Conflict, match="over"):
        await backfills.resume(world.store, backfill, who="ann")
    # what never began does not stand in the way of another one
    assert len(await run_all(world, await asked(world, 6), world.at(HOUR))) == 5


async def test_an_update_that_ends_waiting_runs_loses_no_instant(world: World) -> None:
    schedule = await declared(world)
    backfill = await asked(world, 3, concurrency=2)
    await walk(world, world.at(MINUTE))
    async with world.store.changing() as tx:
        await tx.lock_schedules(NS, ["orders"])
        assert await tx.end_waiting(schedule, State.SUPERSEDED, "updated", world.at(MINUTE + 1)) == 2
    assert len(await run_all(world, backfill, world.at(MINUTE + 2))) == 3


async def test_a_deleted_schedule_ends_its_backfills(world: World) -> None:
    schedule = await declared(world)
    backfill = await asked(world, 3)
    async with world.store.changing() as tx:
        await tx.lock_schedules(NS, ["orders"])
        await tx.remove_schedule(schedule, world.at(MINUTE + 1))
    await walk(world, world.at(MINUTE + 2))
    record = (await backfills.get(world.store, backfill)).record
    assert (record.state, record.finished_at) == (BackfillState.CANCELLED, world.at(MINUTE + 2))
    assert "deleted" in record.reason


async def test_a_pass_looks_at_a_bounded_number_of_fire_times(world: World) -> None:
    await declared(world, constraints=())
    await run_all(world, await asked(world, 12, concurrency=12), world.at(MINUTE))
    late = await asked(world, 12)
    part = Backfiller(world.store, world.scheduler, BackfillerSettings(pause=0, fires=5))
    for seen in (5, 10, 12):
        await part.step(world.at(HOUR))
        assert (await backfills.get(world.store, late)).record.counts.considered == seen


async def test_the_audit_holds_beside_backfilled_instants(world: World) -> None:
    await declared(world)
    await run_all(world, await asked(world, 5), world.at(MINUTE))
    done = await audit.audit(world.store, since=world.start - HOUR)
    assert done.holds and done.owed == done.recorded == 0


async def test_a_preview_tells_what_would_be_made_and_changes_nothing(world: World) -> None:
    await declared(world)
    start = world.start // MINUTE * MINUTE
    wish = Wish(start=start - 5 * MINUTE, end=start, concurrency=2)
    first = await backfills.preview(world.store, NS, "orders", wish)
    assert (first.total, first.count, first.each, first.whole) == (5, 5, None, None)
    assert [one.fire_time for one in first.items] == [start - back * MINUTE for back in (5, 4, 3, 2, 1)]
    done = await asked(world, 3)
    for step in range(3):
        await walk(world, world.at(MINUTE + step * MINUTE))
        launches = await world.begin_runs(world.at(MINUTE + step * MINUTE))
        await world.end(launches, world.at(MINUTE + step * MINUTE + 10 * SECOND))
    await walk(world, world.at(HOUR))
    assert (await backfills.get(world.store, done)).record.state is BackfillState.FINISHED
    then = await backfills.preview(world.store, NS, "orders", wish)
    assert (then.total, then.count, then.each, then.whole) == (5, 2, 10 * SECOND, 20 * SECOND)
    assert then.at_a_time == 1, "the schedule's own limit"
    assert len((await backfills.page(world.store, NS)).items) == 1


async def test_what_cannot_be_meant_is_refused_with_its_place(world: World) -> None:
    await declared(world)
    start = world.start // MINUTE * MINUTE
    cases: list[tuple[Wish, str]] = [
        (Wish(), "start"),
        (Wish(start=start + HOUR), "start"),
        (Wish(start=start - HOUR, end=start - HOUR), "end"),
        (Wish(start=start - MINUTE + 1, end=start), "start"),
        (Wish(keys=(start - MINUTE, start - 1)), "keys[1]"),
        (Wish(keys=(start + HOUR,)), "keys[0]"),
    ]
    for wish, path in cases:
        with pytest.raises(Invalid) as caught:
            await backfills.create(world.store, NS, "orders", wish, who="ann")
        assert [one.path for one in caught.value.faults] == [path]
    for number in ("b1", "b999", "x"):
        with pytest.raises(NotFound):
            await backfills.get(world.store, number)


async def test_keys_are_run_and_nothing_between_them(world: World) -> None:
    await declared(world)
    start = world.start // MINUTE * MINUTE
    keys = (start - 9 * MINUTE, start - 2 * MINUTE)
    record, _ = await backfills.create(world.store, NS, "orders", Wish(keys=keys[::-1]), who="ann")
    assert await run_all(world, identity(record.id), world.at(MINUTE)) == list(keys)
