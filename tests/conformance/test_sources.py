"""A source moves on with the events of what it read, once, and only for who holds its lease."""

from __future__ import annotations

import pytest

from conformance.worlds import World
from tidegate.domain.ids import Fence
from tidegate.domain.instants import SECOND
from tidegate.domain.sources import EventShape, SourceSpec
from tidegate.ports.collecting import NewEvent
from tidegate.ports.sources import KEPT, Misfit, Place, SourceRecord, Taken

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("EVENT-9", "HA-5")]

DOCUMENT = {
    "spec": {
        "type": "kafka",
        "servers": "k:9092",
        "topics": ["orders"],
        "event": {"type": "user.order", "key": "sales/{{ key }}"},
    }
}
SPEC = SourceSpec(
    type="kafka", servers="k:9092", topics=("orders",), event=EventShape(type="user.order", key="sales/{{ key }}")
)
TERM = 15 * SECOND


async def declare(world: World, at: int = 0) -> bool:
    async with world.store.changing() as tx:
        new: bool = await tx.put_source("a", SPEC, DOCUMENT, world.at(at))
        return new


async def lease(world: World, fence: Fence | None = None, at: int = 0) -> int:
    token = await world.store.acquire("source a", fence or world.scheduler, world.at(at), TERM)
    assert token is not None
    return int(token)


async def source(world: World) -> SourceRecord:
    (found,) = await world.store.sources()
    return found  # type: ignore[no-any-return]


def place(next: int, partition: int = 0, topic: str = "orders", end: int = 9) -> Place:
    return Place(topic=topic, partition=partition, generation="g", next=next, end=end)


async def take(world: World, token: int, version: int, *places: Place, at: int = SECOND, events: int = 1) -> int | None:
    taken = Taken(source="a", version=version, token=token, places=places, received=events)
    async with world.store.transaction(world.scheduler) as tx:
        moved: int | None = await tx.took(taken, world.at(at))
        if moved is not None:
            await tx.publish([NewEvent(type="user.order", key="sales/eu")] * events, world.at(at))
        return moved


async def published(world: World) -> int:
    found, _ = await world.store.events(type="user.order", key=None, since=None, before=None, limit=100)
    return len(found)


async def test_places_move_with_the_events_of_what_lies_before_them(world: World) -> None:
    assert await declare(world)
    token = await lease(world)
    begun = await source(world)
    assert (begun.spec, begun.places, begun.received, begun.moved_at) == (SPEC, (), 0, None)
    moved = await take(world, token, begun.version, place(3), place(7, 1), events=2)
    assert moved is not None and moved > begun.version
    assert await take(world, token, moved, place(5)) is not None
    now = await source(world)
    assert now.places == (place(5), place(7, 1))
    assert (now.received, now.moved_at, await published(world)) == (3, world.at(SECOND), 3)


async def test_who_saw_an_older_version_moves_nothing(world: World) -> None:
    await declare(world)
    token, begun = await lease(world), await source(world)
    assert await take(world, token, begun.version, place(3)) is not None
    assert await take(world, token, begun.version, place(3)) is None, "another did it already"
    assert await published(world) == 1 and (await source(world)).received == 1


async def test_who_does_not_hold_the_lease_moves_nothing(world: World) -> None:
    await declare(world)
    begun = await source(world)
    other = await world.store.register(role="scheduler", name="t", host="h", pid=9, now=world.start)
    token = await lease(world, other)
    assert await take(world, token, begun.version, place(3)) is None, "it is another's"
    assert await take(world, token + 1, begun.version, place(3)) is None
    mine = await lease(world, at=20 * SECOND)
    assert await take(world, mine, begun.version, place(3), at=40 * SECOND) is None, "it is over"
    assert await take(world, mine, begun.version, place(3), at=21 * SECOND) is not None


async def test_a_lease_that_is_given_up_is_free_at_once_and_only_its_holder_gives_it_up(world: World) -> None:
    token = await lease(world)
    other = await world.store.register(role="scheduler", name="t", host="h", pid=9, now=world.start)
    await world.store.release("source a", other, token)
    await world.store.release("source a", world.scheduler, token + 1)
    assert await world.store.acquire("source a", other, world.at(SECOND), TERM) is None
    await world.store.release("source a", world.scheduler, token)
    assert await lease(world, other, at=SECOND) > token


async def test_what_is_set_aside_is_counted_and_the_latest_is_kept(world: World) -> None:
    await declare(world)
    token, version = await lease(world), (await source(world)).version
    for turn, many in enumerate([2, KEPT]):
        taken = Taken(source="a", version=version + turn, token=token, places=[place(many)], received=many, missed=4)
        misfits = [Misfit(topic="orders", partition=0, offset=n, reason=f"turn {turn}") for n in range(many)]
        async with world.store.transaction(world.scheduler) as tx:
            assert await tx.took(taken, world.at(SECOND)) == version + turn + 1
            await tx.set_aside_messages("a", misfits, many - 1, world.at(SECOND))
    record = await source(world)
    assert (record.received, record.set_aside, record.missed) == (2 + KEPT, KEPT, 8)
    found = await world.store.set_aside_of("a", KEPT + 5)
    assert len(found) == KEPT and {one.reason for one in found} == {"turn 1"}
    assert (found[0].offset, found[0].topic, found[0].at) == (KEPT - 1, "orders", world.at(SECOND))
    assert len(await world.store.set_aside_of("a", 3)) == 3


async def test_what_is_wrong_is_kept_since_when_and_until_it_is_not(world: World) -> None:
    await declare(world)
    token, version = await lease(world), (await source(world)).version
    for turn, fault in enumerate(["away", "away still"]):
        async with world.store.transaction(world.scheduler) as tx:
            taken = Taken(source="a", version=version + turn, token=token, places=[], error=fault)
            assert await tx.took(taken, world.at((turn + 1) * SECOND)) is not None
    record = await source(world)
    assert (record.error, record.error_since, record.moved_at) == ("away still", world.at(SECOND), None)
    assert await take(world, token, version + 2, place(1), at=4 * SECOND) is not None
    assert ((await source(world)).error, (await source(world)).error_since) == ("", None)


async def test_declared_otherwise_it_keeps_its_places_in_the_topics_that_it_still_has(world: World) -> None:
    await declare(world)
    token, begun = await lease(world), await source(world)
    moved = await take(world, token, begun.version, place(3), place(8, topic="old"))
    assert moved is not None
    assert not await declare(world, at=2)
    record = await source(world)
    assert (record.places, record.received) == ((place(3),), 1)
    assert await take(world, token, moved, place(4)) is None, "by the old word"
    async with world.store.changing() as tx:
        assert await tx.delete_source("a")
        assert not await tx.delete_source("a")
    assert await take(world, token, record.version, place(4)) is None
    assert await declare(world, at=3)
    anew = await source(world)
    assert anew.places == () and anew.version != begun.version


async def test_what_no_database_can_hold_is_told_apart(world: World) -> None:
    """So that such a message can be set aside, and nothing else is."""
    if type(world.store).__name__ == "MemoryStore":
        pytest.skip("memory holds everything")
    from tidegate.domain.errors import UNSTORABLE, Refused

    with pytest.raises(Refused) as refusal:
        async with world.store.transaction(world.scheduler) as tx:
            await tx.publish([NewEvent(type="user.x", key="a/b", payload={"text": "\0"})], world.at(1))
    assert refusal.value.code == UNSTORABLE
