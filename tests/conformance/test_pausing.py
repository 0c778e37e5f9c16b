"""A run that used up its attempts pauses its schedule where that says so; people have the last word."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.worlds import NS, World
from tidegate.control import schedules
from tidegate.control.pausing import pause
from tidegate.domain.instants import SECOND
from tidegate.domain.retry import Finish, after_attempt
from tidegate.domain.retry import Tally as Tries
from tidegate.domain.schedules import Mode, Retry, ThenFailed
from tidegate.domain.stopping import Ended
from tidegate.engine.pauser import Pauser

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("FAIL-2")]

PAUSES = Retry(max_attempts=2, then=ThenFailed.PAUSE)


async def fail(world: World, name: str = "orders", retry: Retry = PAUSES, tries: int = 1) -> None:
    """A run of a new schedule fails for the last time."""
    schedule = await world.schedule(name, due=None, retry=retry)
    key = await world.manual(schedule, world.at(0))
    launches = await world.begin_runs(world.at(SECOND))
    [mine] = [one for one in launches if one.attempt.run == key]
    tally = Tries(failures=tries, lost=0)
    then = after_attempt(
        mine.attempt, Ended.FAILED, stop=None, retry=retry, tally=tally, now=world.at(2 * SECOND), why="No disk."
    )
    assert isinstance(then, Finish) is (tries + 1 >= retry.max_attempts)
    await world.end([mine], world.at(2 * SECOND), outcome="failed", then=then)


async def schedule_of(world: World, name: str = "orders") -> Any:
    return await schedules.get(world.store, NS, name)


async def test_the_end_of_the_last_attempt_pauses_the_schedule_with_the_reason(world: World) -> None:
    await fail(world)
    [asked] = await world.store.asked_to_pause()
    assert (asked.namespace, asked.name, asked.reason) == (NS, "orders", "Attempt 2 of 2: No disk.")
    pauser = Pauser(world.another(), lambda one: pause(world.store, one))
    outcome = await pauser.step(world.at(3 * SECOND))
    assert outcome.did == 1 and "paused" in outcome.notes[0]
    found = await schedule_of(world)
    assert found.mode is Mode.HOLD and found.reason.endswith("Attempt 2 of 2: No disk.")
    assert (await pauser.step(world.at(4 * SECOND))).did == 0, "once"
    assert (await world.store.stats(found.id)).consecutive_failures == 1, "the streak is shown"


async def test_enabling_it_again_clears_the_streak(world: World) -> None:
    await fail(world)
    [asked] = await world.store.asked_to_pause()
    assert await pause(world.store, asked)
    enabled = await schedules.enable(world.store, NS, "orders", who="ann")
    assert enabled.mode is Mode.ENABLED
    stats = await world.store.stats(enabled.id)
    assert (stats.consecutive_failures, stats.total_failures) == (0, 1)
    assert await world.store.asked_to_pause() == []


async def test_who_disabled_it_meanwhile_had_the_last_word(world: World) -> None:
    await fail(world)
    await schedules.disable(world.store, NS, "orders", who="ann", mode=Mode.DROP)
    [asked] = await world.store.asked_to_pause()
    assert not await pause(world.store, asked)
    assert (await schedule_of(world)).mode is Mode.DROP
    assert await world.store.asked_to_pause() == []


async def test_a_deleted_schedule_is_not_paused(world: World) -> None:
    await fail(world)
    await schedules.delete(world.store, NS, "orders", who="ann")
    for asked in await world.store.asked_to_pause():
        assert not await pause(world.store, asked)
    assert await world.store.asked_to_pause() == []


@pytest.mark.parametrize(
    ("retry", "tries"),
    [(Retry(max_attempts=2), 1), (Retry(max_attempts=3, then=ThenFailed.PAUSE), 1)],
    ids=["continue", "attempts are left"],
)
async def test_nothing_else_pauses(world: World, retry: Retry, tries: int) -> None:
    await fail(world, retry=retry, tries=tries)
    assert await world.store.asked_to_pause() == []
