"""Sinks move from where they were seen, and the log is read only as far as nothing can be added to it any more."""

from __future__ import annotations

import pytest

from conformance.worlds import World
from tidegate.domain.instants import DAY, SECOND
from tidegate.domain.sinks import SinkSpec
from tidegate.ports.collecting import NewEvent
from tidegate.ports.sinks import Moved, Refusal, SinkRecord, Spot

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("EVENT-9")]
SPEC = SinkSpec(type="webhook", url="http://example.org/x", topics=("run.*", "user.*"))
DOCUMENT = {"metadata": {"name": "a"}, "spec": {"type": "webhook", "url": SPEC.url, "topics": list(SPEC.topics)}}


async def declare(world: World, name: str = "a") -> bool:
    async with world.store.changing() as tx:
        return bool(await tx.put_sink(name, SPEC, DOCUMENT, world.at(0)))


async def sink(world: World, name: str = "a") -> SinkRecord:
    return {one.name: one for one in await world.store.sinks()}[name]


async def publish(world: World, *keys: str) -> None:
    async with world.store.transaction(world.scheduler) as tx:
        await tx.publish([NewEvent(type="user.x", key=f"sales/{key}") for key in keys], world.at(1))


async def unread(world: World, after: Spot, limit: int = 100) -> list[str]:
    upto = (await world.store.settled(world.at(2))).pos
    found = await world.store.outgoing(after, upto, world.at(2) // DAY, limit)
    assert [one.spot.pos for one in found] == sorted(one.record.pos for one in found)
    return [one.record.key.removeprefix("sales/") for one in found]


async def move(world: World, moved: Moved) -> bool:
    async with world.store.transaction(world.scheduler) as tx:
        return bool(await tx.relayed(moved, world.at(3)))


async def test_a_new_sink_begins_with_what_happens_from_now_on(world: World) -> None:
    await publish(world, "before")
    assert await declare(world)
    await publish(world, "b", "c")
    await publish(world, "d")
    begun = (await sink(world)).spot
    assert await unread(world, begun) == ["b", "c", "d"]
    assert await unread(world, begun, limit=2) == ["b", "c"]
    assert (await sink(world)).behind == 3


async def test_what_happens_to_runs_is_told_with_their_schedule(world: World) -> None:
    await declare(world)
    number = await world.schedule("orders")
    await world.manual(number, world.at(1))
    begun = (await sink(world)).spot
    upto = (await world.store.settled(world.at(2))).pos
    found = await world.store.outgoing(begun, upto, world.at(2) // DAY, 10)
    told = [one for one in found if one.record.type == "run.waiting"]
    assert [one.schedule for one in told] == ["sales/orders"]
    assert told[0].record.payload["schedule"] == "sales/orders"


async def test_nothing_is_read_behind_an_open_transaction(world: World) -> None:
    await declare(world)
    begun = (await sink(world)).spot
    async with world.store.transaction(world.scheduler) as tx:
        await tx.publish([NewEvent(type="user.x", key="sales/slow")], world.at(1))
        await publish(world, "fast")
        assert await unread(world, begun) == []
    assert await unread(world, begun) == ["slow", "fast"]


async def test_who_only_reads_holds_nothing_back(world: World) -> None:
    await declare(world)
    begun = (await sink(world)).spot
    await publish(world, "a")
    assert await unread(world, begun) == ["a"]
    assert await unread(world, begun) == ["a"]
    await publish(world, "b")
    assert await unread(world, begun) == ["a", "b"]


async def test_a_sink_moves_only_from_where_it_was_seen(world: World) -> None:
    await declare(world)
    seen = (await sink(world)).spot
    await publish(world, "a", "b")
    upto = (await world.store.settled(world.at(2))).pos
    first, second = await world.store.outgoing(seen, upto, world.at(2) // DAY, 10)
    on = Moved(sink="a", rev=1, seen=seen, spot=first.spot, delivered=1)
    assert await move(world, on)
    assert not await move(world, on), "another did it already"
    refusal = Refusal(event=second, reason="too large")
    assert await move(world, Moved(sink="a", rev=1, seen=first.spot, spot=second.spot, refused=(refusal,)))
    record = await sink(world)
    assert (record.spot, record.delivered, record.set_aside, record.behind) == (second.spot, 1, 1, 0)
    assert record.moved_at == world.at(3)
    (refused,) = await world.store.refusals("a", 5)
    assert (refused.pos, refused.key, refused.reason, refused.at) == (
        second.spot.pos, "sales/b", "too large", world.at(3)
    )  # fmt: skip


async def test_declared_otherwise_it_keeps_its_place_and_who_relayed_by_the_old_word_moves_nothing(
    world: World,
) -> None:
    await declare(world)
    seen = (await sink(world)).spot
    await publish(world, "a")
    assert not await declare(world)
    record = await sink(world)
    assert (record.spot, record.rev, record.spec) == (seen, 2, SPEC)
    assert not await move(world, Moved(sink="a", rev=1, seen=seen, spot=Spot(seen.day, seen.pos + 1)))


async def test_why_it_takes_nothing_is_kept_since_when_and_until_it_does(world: World) -> None:
    await declare(world)
    seen = (await sink(world)).spot
    silent = Moved(sink="a", rev=1, seen=seen, spot=seen, error="no answer")
    assert await move(world, silent)
    world_later = world.at(9 * SECOND)
    async with world.store.transaction(world.scheduler) as tx:
        assert await tx.relayed(silent, world_later)
    record = await sink(world)
    assert (record.error, record.error_since, record.moved_at) == ("no answer", world.at(3), None)
    assert await move(world, Moved(sink="a", rev=1, seen=seen, spot=seen))
    assert ((await sink(world)).error, (await sink(world)).error_since) == ("", None)


async def test_a_sink_that_is_deleted_begins_anew(world: World) -> None:
    await declare(world)
    await publish(world, "a")
    async with world.store.changing() as tx:
        assert await tx.delete_sink("a")
        assert not await tx.delete_sink("b")
    assert list(await world.store.sinks()) == []
    assert await declare(world)
    assert (await sink(world)).behind == 0
