"""The event log: published once, listed, and who hears what, as every store keeps it."""

from __future__ import annotations

import pytest

from conformance.collecting import KEY, LANDED, collected, counted, event, landed, listen, match, publish, runs
from conformance.worlds import World
from tidegate.domain.instants import DAY, SECOND
from tidegate.domain.triggers import All

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("EVENT-1")
async def test_the_publishers_id_makes_it_once(world: World) -> None:
    schedule = await listen(world, "counts", landed(100))
    [first] = await publish(world, event(id="1", source="sales", a=1))
    assert not first.repeated
    same, changed, elsewhere, anonymous = await publish(
        world,
        event(id="1", source="sales", a=1),
        event(id="1", source="sales", a=2),
        event(id="1", source="other", a=1),
        event(a=1),
    )
    assert (same.pos, same.repeated, same.conflict) == (first.pos, True, False)
    assert (changed.pos, changed.repeated, changed.conflict) == (first.pos, False, True)
    assert not elsewhere.repeated and not elsewhere.conflict and elsewhere.pos != first.pos
    assert not anonymous.repeated
    assert await collected(world, schedule) == 3


@pytest.mark.requirement("EVENT-1")
async def test_the_same_id_twice_in_one_call_is_one_event(world: World) -> None:
    schedule = await listen(world, "counts", landed(100))
    found = await publish(world, event(id="1"), event(id="2"), event(id="1"), event(id="2", b=1))
    assert [one.repeated for one in found] == [False, False, True, False]
    assert [one.conflict for one in found] == [False, False, False, True]
    assert found[2].pos == found[0].pos
    assert await collected(world, schedule) == 2


@pytest.mark.requirement("EVENT-1")
async def test_nothing_of_a_call_that_fails_is_published(world: World) -> None:
    schedule = await listen(world, "counts", landed(100))
    with pytest.raises(LookupError):
        async with world.store.changing() as tx:
            await tx.publish([event(id="1"), event()], world.start)
            raise LookupError
    assert await collected(world, schedule) == 0
    [receipt] = await publish(world, event(id="1"))
    assert not receipt.repeated


@pytest.mark.requirement("EVENT-4")
async def test_the_log_is_read_newest_first_by_type_key_and_time(world: World) -> None:
    told = event("sales/0", time=world.start - SECOND, id="x", source="s", a={"b": [1]})
    receipts = list(await publish(world, told, now=world.start))
    for number in range(1, 6):
        type = LANDED if number % 2 else "user.other"
        now = world.at(number * SECOND)
        receipts += await publish(world, event(f"sales/{number % 3}", type=type), now=now)

    async def page(**said: object) -> list[int]:
        found: list[int] = []
        before = None
        asked = {"type": None, "key": None, "since": None, "limit": 2, **said}
        while True:
            records, before = await world.store.events(before=before, **asked)
            found += [one.pos for one in records if one.type.startswith("user.")]
            if before is None:
                return found

    places = [one.pos for one in receipts]
    assert await page() == places[::-1]
    assert await page(type=LANDED) == [places[number] for number in (5, 3, 1, 0)]
    assert await page(key="sales/0") == [places[3], places[0]]
    assert await page(since=world.at(4 * SECOND)) == [places[5], places[4]]
    records, _ = await world.store.events(type=LANDED, key="sales/0", since=None, before=None, limit=10)
    assert [one.pos for one in records] == [places[3], places[0]]
    first = records[-1]
    assert (first.time, first.id, first.source) == (world.start - SECOND, "x", "s")
    assert first.payload == {"a": {"b": [1]}}


@pytest.mark.requirement("OPS-6")
async def test_who_hears_an_event_is_known(world: World) -> None:
    await listen(world, "one", landed())
    await listen(world, "tree", All(triggers=(landed(key="sales/us"), landed(key=None, match={"a": 1}))))

    async def who(key: str, payload: dict[str, int] | None) -> list[tuple[str, int]]:
        return sorted((one.schedule, one.node) for one in await world.store.subscribers(LANDED, key, payload))

    assert await who(KEY, {"a": 1}) == [("one", 0), ("tree", 2)]
    assert await who(KEY, {"a": 2}) == [("one", 0)]
    assert await who(KEY, None) == [("one", 0), ("tree", 2)]
    assert await who("sales/us", {}) == [("tree", 1)]
    assert await who("sales/xx", {}) == []


async def test_who_has_a_part_of_what_it_waits_for_is_listed(world: World) -> None:
    names = {await listen(world, name, landed(3)): name for name in ("a", "b", "c")}
    await listen(world, "us", landed(3, key="sales/us"))
    assert await world.store.partly(None, None, 10) == ([], None)
    await publish(world, event())
    found: list[str] = []
    before = None
    while True:
        page, before = await world.store.partly("sales", before, 2)
        found += [names[one] for one in page]
        if before is None:
            break
    assert sorted(found) == ["a", "b", "c"]
    assert await world.store.partly("elsewhere", None, 10) == ([], None)
    await publish(world, event(), event())
    await match(world)
    assert await world.store.partly(None, None, 10) == ([], None)
    assert len(await runs(world, "a")) == 1


@pytest.mark.requirement("EVENT-8")
async def test_retention_drops_whole_days_of_the_log_and_forgets_nothing_that_was_counted(world: World) -> None:
    await listen(world, "orders", landed(3), now=world.at(-20 * DAY))
    await publish(world, event(), now=world.at(-10 * DAY))
    await publish(world, event(), now=world.start)
    await match(world, world.start)
    assert await world.store.drop_expired(world.start, {"events": 5 * DAY})
    page, _ = await world.store.events(type=LANDED, key=KEY, since=None, before=None, limit=10)
    assert len(page) == 1
    assert list(await world.store.drop_expired(world.start, {"events": 5 * DAY})) == []
    await publish(world, event(), now=world.at(1))
    await match(world, world.at(1))
    [run] = await runs(world, "orders")
    assert counted(run) == 3
