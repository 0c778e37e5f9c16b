"""Sinks move from where they were seen, and the log is read only as far as nothing can be added to it any more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.worlds import World
from tidegate.domain.instants import DAY, SECOND, Instant
from tidegate.domain.sinks import SinkSpec
from tidegate.ports.collecting import NewEvent
from tidegate.ports.sinks import Moved, Refusal, Replayed, SinkRecord, Spot

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


async def move(world: World, moved: Moved, now: Instant | None = None) -> bool:
    """By somebody who has read the log on this server, unless it says another."""
    server = (await world.store.settled(world.at(3))).server
    async with world.store.transaction(world.scheduler) as tx:
        return bool(await tx.relayed(replace(moved, server=moved.server or server), now or world.at(3)))


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


async def test_a_sink_that_was_away_for_days_reads_every_event_of_each(world: World) -> None:
    """Also where transactions that met at midnight drew their positions the other way round."""
    await world.store.ensure_partitions(world.start, 30 * DAY)
    await declare(world)
    begun = (await sink(world)).spot
    days = [0, 0, 1, 2, 2, 4, 3, 5, 4, 6, 7, 9, 8, 25, 24, 26, 26]
    for place, day in enumerate(days):
        async with world.store.transaction(world.scheduler) as tx:
            await tx.publish([NewEvent(type="user.x", key=f"sales/{place}")], world.at(day * DAY))
    upto, today = (await world.store.settled(world.at(26 * DAY))).pos, world.at(26 * DAY) // DAY
    for limit in (1, 2, 3, 5, 16, 17, 18):
        place, got = begun, list[str]()
        while found := await world.store.outgoing(place, upto, today, limit):
            got += [one.record.key.removeprefix("sales/") for one in found]
            place = Spot(max(place.day, *(one.spot.day for one in found)), found[-1].spot.pos)
            assert len(found) == min(limit, len(days) - len(got) + len(found)), "fewer than asked for are all there is"
        assert got == [str(place) for place in range(len(days))]


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
    assert not await move(world, replace(on, server=7)), "the log of another server was read"
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
    assert await move(world, silent, world_later)
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


async def test_what_was_refused_is_asked_for_again_and_taken_or_refused_anew(world: World) -> None:
    await declare(world)
    seen = (await sink(world)).spot
    await publish(world, "a", "b", "c")
    upto = (await world.store.settled(world.at(2))).pos
    found = await world.store.outgoing(seen, upto, world.at(2) // DAY, 10)
    refused = tuple(Refusal(event=one, reason="too large") for one in found)
    assert await move(world, Moved(sink="a", rev=1, seen=seen, spot=found[-1].spot, refused=refused))
    one, two, three = [each.spot.pos for each in found]

    async def ask(position: int | None) -> int:
        async with world.store.changing() as tx:
            asked: int = await tx.replay_sink("a", position)
            return asked

    assert list(await world.store.asked_again("a", 10)) == [] and not (await sink(world)).asked
    assert (await ask(two), await ask(two + 1000), await ask(None)) == (1, 0, 3)
    assert (await sink(world)).asked
    assert [pos for pos, _ in await world.store.asked_again("a", 2)] == [one, two]
    again = dict(await world.store.asked_again("a", 10))
    assert again[three] == found[2]
    done = Replayed(sink="a", rev=1, taken=(one, two), refused=((three, "still"),))
    async with world.store.transaction(world.scheduler) as tx:
        assert not await tx.replayed(Replayed(sink="a", rev=9, taken=(one,)), world.at(5))
        assert await tx.replayed(done, world.at(5))
        assert await tx.replayed(done, world.at(5)), "a repeat changes nothing"
    record = await sink(world)
    assert (record.delivered, record.set_aside, record.asked) == (2, 1, False)
    (left,) = await world.store.refusals("a", 5)
    assert (left.pos, left.reason, left.at) == (three, "still", world.at(5))
