"""Programs that only publish: event and end of the run are one, in every store."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import Any

import pytest

from conformance.collecting import KEY, collected, landed, listen
from conformance.worlds import World
from tidegate.domain.ids import RunKey
from tidegate.domain.instants import SECOND
from tidegate.domain.programs import Publish
from tidegate.domain.runs import State
from tidegate.engine.admitter import Admitter
from tidegate.engine.publisher import Publisher
from tidegate.ports.collecting import EventRecord

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("RUN-10")]
LANDED = Publish(
    event="user.landed", key="{{ arguments.region }}", payload={"at": "{{ fire_time }}"}, arguments={"region": "eu"}
)


async def ready(world: World, spec: Publish = LANDED, *, slots: int = 10, rate: Any = None) -> RunKey:
    """A fire of such a program, admitted by the engine's own admitter."""
    async with world.store.changing() as tx:
        await tx.put_pool("publish", slots, rate)
    await world.schedule("tells", program="tell", spec=spec)
    [key] = await world.fire()
    await Admitter(world.store, world.scheduler).step(world.start)
    assert await world.state(key) is State.READY
    return key


async def told(world: World) -> list[EventRecord]:
    found, _ = await world.store.events(type="user.landed", key=None, since=None, before=None, limit=10)
    return list(found)


async def test_event_and_end_of_the_run_are_on_record_together(world: World) -> None:
    listener = await listen(world, "counts", landed(100))
    key = await ready(world)
    assert not await told(world)
    outcome = await Publisher(world.store, world.scheduler).step(world.start)
    assert outcome.did == 1
    [event] = await told(world)
    assert (event.key, event.id, event.source, event.time) == (KEY, str(key), "sales", world.start)
    assert list(event.payload) == ["at"]
    record = await world.record(key)
    assert record.state is State.SUCCEEDED and [one.backend for one in record.attempts] == ["publish"]
    assert await collected(world, listener) == 1
    assert (await world.pool("publish"))[1] == 0
    stats = await world.store.stats(key.schedule_id)
    assert (stats.total_runs, stats.total_successes) == (1, 1)


async def test_neither_is_when_the_commit_fails(world: World) -> None:
    key = await ready(world)

    class Breaks:
        @asynccontextmanager
        async def transaction(self, fence: Any) -> Any:
            async with world.store.transaction(fence) as tx:
                yield tx
                raise ConnectionError

    with pytest.raises(ConnectionError):
        await Publisher(Breaks(), world.scheduler).step(world.start)
    assert not await told(world) and await world.state(key) is State.READY
    await Publisher(world.store, world.scheduler).step(world.at(SECOND))
    assert len(await told(world)) == 1 and await world.state(key) is State.SUCCEEDED
    await Publisher(world.store, world.scheduler).step(world.at(2 * SECOND))
    assert len(await told(world)) == 1


async def test_an_event_that_may_not_be_published_fails_its_run_with_the_reason(world: World) -> None:
    key = await ready(world, Publish(event="user.landed", key="{{ inputs.orders.rows }}"))
    await Publisher(world.store, world.scheduler).step(world.start)
    record = await world.record(key)
    assert record.state is State.FAILED and "cannot be published" in record.reason
    assert not await told(world) and (await world.pool("publish"))[1] == 0


async def test_a_launch_rate_holds_events_back(world: World) -> None:
    await ready(world, rate=(1, 10 * SECOND, 1))
    publisher = Publisher(world.store, world.scheduler)
    await publisher.step(world.start)
    first = len(await told(world))
    await world.fire(world.at(60 * SECOND))
    await Admitter(world.store, world.scheduler).step(world.at(60 * SECOND))
    await publisher.step(world.at(60 * SECOND))
    assert (first, len(await told(world))) == (1, 2)
