"""Deadlines, as every store keeps them: told once, also of work that never started."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.collecting import event, landed, listen, match, publish
from conformance.worlds import World
from tidegate.domain.instants import MINUTE, SECOND
from tidegate.domain.schedules import Deadline, DeadlineFrom
from tidegate.engine.deadlines import Deadlines
from tidegate.ports.records import ClockState

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("GATE-18")]


async def told(world: World, now: int) -> list[tuple[str, str]]:
    """Let the part look; (type, which deadline) of everything that was told so far, oldest first."""
    part = Deadlines(world.store, world.scheduler)
    while (await part.step(now)).left:
        pass
    found: list[tuple[str, str]] = []
    for type in ("deadline.at_risk", "deadline.missed"):
        page, _ = await world.store.events(type=type, key="sales/orders", since=None, before=None, limit=100)
        found += [(type.removeprefix("deadline."), one.payload["deadline"]) for one in reversed(page)]
    return found


async def test_a_start_is_at_risk_and_then_missed_and_each_is_told_once(world: World) -> None:
    await world.schedule("orders", deadline=Deadline(start=10 * MINUTE))
    [_] = await world.fire()
    assert await world.store.next_term() == world.at(8 * MINUTE)
    assert await told(world, world.at(8 * MINUTE - 1)) == []
    assert await told(world, world.at(8 * MINUTE)) == [("at_risk", "start")]
    assert await told(world, world.at(9 * MINUTE)) == [("at_risk", "start")]
    assert await told(world, world.at(10 * MINUTE)) == [("at_risk", "start"), ("missed", "start")]
    assert await told(world, world.at(60 * MINUTE)) == [("at_risk", "start"), ("missed", "start")]
    assert await world.store.next_term() is None


async def test_what_starts_and_ends_in_time_is_never_told(world: World) -> None:
    await world.schedule("orders", deadline=Deadline(start=10 * MINUTE, finish=20 * MINUTE))
    [_] = await world.fire()
    launches = await world.begin_runs(world.at(MINUTE))
    assert await told(world, world.at(15 * MINUTE)) == []
    await world.end(launches, world.at(16 * MINUTE))
    assert await told(world, world.at(60 * MINUTE)) == []
    assert await world.store.next_term() is None


async def test_a_finish_is_in_danger_where_the_usual_length_no_longer_fits(world: World) -> None:
    await world.schedule("orders", deadline=Deadline(finish=20 * MINUTE))
    [_] = await world.fire()
    await world.end(await world.begin_runs(world.at(0)), world.at(12 * MINUTE))
    [_] = await world.fire(world.at(13 * MINUTE))  # due at one minute; twelve are usual
    due = world.at(MINUTE)
    assert await told(world, due + 8 * MINUTE) == []
    assert await told(world, world.at(17 * MINUTE)) == [("at_risk", "finish")]
    assert await told(world, due + 20 * MINUTE) == [("at_risk", "finish"), ("missed", "finish")]


async def test_what_comes_late_to_be_looked_at_has_missed_and_was_not_at_risk(world: World) -> None:
    await world.schedule("orders", deadline=Deadline(start=SECOND, finish=MINUTE))
    [_] = await world.fire(world.at(30 * SECOND))
    assert await told(world, world.at(30 * SECOND)) == [("missed", "start")]


async def test_from_arrival_counts_from_the_first_event(world: World) -> None:
    since = Deadline(start=10 * MINUTE, since=DeadlineFrom.ARRIVAL)
    await listen(world, "orders", landed(2), deadline=since)
    await publish(world, event(), now=world.at(0))
    await publish(world, event(), now=world.at(4 * MINUTE))
    await match(world, world.at(5 * MINUTE))
    assert await world.store.next_term() == world.at(8 * MINUTE)


async def test_a_deadline_that_is_no_longer_declared_is_not_told(world: World) -> None:
    schedule = await world.schedule("orders", deadline=Deadline(start=10 * MINUTE))
    [_] = await world.fire()
    async with world.store.changing() as tx:
        [one] = await tx.lock_schedules("sales", ["orders"])

        await tx.revise_schedule(
            schedule, replace(one.spec, deadline=None), {}, program=one.program.id, mode=one.mode, reason="",
            author="ann", valid_from=world.at(1),
            clock=ClockState(cursor=world.at(1), cursor_rev=one.rev + 1, next_due=None),
        )  # fmt: skip
    assert await told(world, world.at(60 * MINUTE)) == []
    assert await world.store.next_term() is None
