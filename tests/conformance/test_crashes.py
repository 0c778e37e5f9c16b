"""When a run starts again whose attempt crashed while nobody looked after it: what both stores keep of that."""

from __future__ import annotations

import pytest

from conformance.worlds import HOST, World
from tidegate.domain.ids import Fence, RunKey
from tidegate.domain.instants import HOUR, MINUTE, SECOND, Duration, Instant, parse_instant
from tidegate.domain.retry import RetryAt
from tidegate.domain.runs import State
from tidegate.engine.admitter import Admitter, AdmitterSettings

pytestmark = pytest.mark.anyio
WAIT = 5 * MINUTE


async def crashed(world: World, at: Duration, *, backoff: Duration = SECOND) -> RunKey:
    """A run whose attempt crashed then, as an adopter found."""
    await world.schedule("orders")
    [key] = await world.fire()
    launches = await world.begin_runs(world.at(SECOND))
    again = RetryAt(at=world.at(at + backoff), failures=1, lost=0, crashed=True)
    await world.end(launches, world.at(at), outcome="crashed", then=again)
    return key


async def scheduler(world: World, at: Duration) -> Fence:
    """One more, that came up then."""
    fence: Fence = await world.store.register(role="scheduler", name="t", host=HOST, pid=7, now=world.at(at))
    return fence


async def retire(world: World, fence: Fence, at: Duration) -> None:
    assert await world.store.retire(await world.instance(fence), world.at(at))


async def look(world: World, fence: Fence, at: Duration, *, patience: Duration = HOUR) -> Instant | None:
    """A pass of that scheduler; when it wants to look again, counted from the start."""
    part = Admitter(world.store, fence, AdmitterSettings(crash_wait=WAIT, patience=patience))
    upcoming = (await part.step(world.at(at))).next
    return None if upcoming is None else upcoming - world.start


async def starts(world: World, key: RunKey, fence: Fence, at: Duration) -> bool:
    await look(world, fence, at)
    return await world.state(key) is State.READY


@pytest.mark.requirement("FAIL-4")
async def test_it_waits_until_the_oldest_living_scheduler_has_been_up_for_a_while(world: World) -> None:
    key = await crashed(world, MINUTE)
    younger = await scheduler(world, 2 * MINUTE)
    assert await look(world, younger, 2 * MINUTE) == WAIT
    assert not await starts(world, key, younger, WAIT - 1)
    assert await starts(world, key, younger, WAIT)


@pytest.mark.requirement("FAIL-4")
async def test_its_restart_is_said_once_and_no_restart_of_a_scheduler_pushes_it_on(world: World) -> None:
    key = await crashed(world, MINUTE)
    assert await look(world, world.scheduler, MINUTE) == MINUTE + SECOND, "its backoff first"
    before = world.scheduler
    for minute in (2, 3, 4):
        following = await scheduler(world, minute * MINUTE)
        await retire(world, before, minute * MINUTE)
        await world.store.resync(following, await lead(world, following, minute * MINUTE), world.at(minute * MINUTE))
        assert await look(world, following, minute * MINUTE) == WAIT
        before = following
    crash = (await world.record(key)).crash
    assert crash is not None and crash.restart_at == world.at(WAIT)
    assert await starts(world, key, before, WAIT)
    assert (await world.record(key)).crash is None


async def lead(world: World, fence: Fence, at: Duration) -> int:
    token: int | None = await world.store.acquire("resync", fence, world.at(at), HOUR)
    assert token is not None
    return token


@pytest.mark.requirement("FAIL-4")
async def test_while_no_scheduler_lives_the_wait_has_not_begun(world: World) -> None:
    key = await crashed(world, MINUTE)
    await retire(world, world.scheduler, MINUTE)
    assert (await world.record(key)).crash is not None
    late = await scheduler(world, HOUR)
    assert await look(world, late, HOUR) == HOUR + WAIT


@pytest.mark.requirement("FAIL-4")
async def test_a_scheduler_that_is_silent_does_not_count_as_up(world: World) -> None:
    await crashed(world, 10 * MINUTE, backoff=0)
    young = await scheduler(world, 10 * MINUTE)
    assert await look(world, young, 10 * MINUTE, patience=MINUTE) == 10 * MINUTE + WAIT


@pytest.mark.requirement("FAIL-4", "FAIL-2")
async def test_when_the_schedulers_have_been_up_long_only_the_backoff_holds_it(world: World) -> None:
    key = await crashed(world, HOUR, backoff=MINUTE)
    await look(world, world.scheduler, HOUR)
    assert not await starts(world, key, world.scheduler, HOUR + MINUTE - 1)
    assert await starts(world, key, world.scheduler, HOUR + MINUTE)


@pytest.mark.requirement("FAIL-4", "OPS-7")
async def test_it_says_why_it_waits_and_until_when(world: World) -> None:
    key = await crashed(world, MINUTE, backoff=2 * MINUTE)
    await look(world, world.scheduler, MINUTE)
    said = {one["constraint"]: one for one in (await world.record(key)).waiting_for}
    assert {name: parse_instant(one["until"]) for name, one in said.items()} == {
        "backoff": world.at(3 * MINUTE),
        "crash_wait": world.at(WAIT),
    }
    assert "scheduler.crash_wait" in said["crash_wait"]["why"]


@pytest.mark.requirement("FAIL-4")
async def test_the_next_attempt_begins_with_a_clean_sheet(world: World) -> None:
    key = await crashed(world, MINUTE)
    await look(world, world.scheduler, WAIT)
    launches = await world.launch(world.at(WAIT))
    again = RetryAt(at=world.at(WAIT + MINUTE), failures=1, lost=0)
    await world.end(launches, world.at(WAIT), outcome="failed", then=again)
    assert (await world.record(key)).crash is None
    assert await starts(world, key, world.scheduler, WAIT + MINUTE)
    launches = await world.launch(world.at(WAIT + MINUTE))
    young = await scheduler(world, HOUR)
    await retire(world, world.scheduler, HOUR)
    await world.end(
        launches, world.at(HOUR), outcome="crashed", then=RetryAt(at=world.at(HOUR), failures=1, lost=0, crashed=True)
    )
    assert await look(world, young, HOUR) == HOUR + WAIT, "a new crash, a new wait"
