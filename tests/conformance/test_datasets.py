"""Cursors of watched tables move from where they were seen, and only then."""

from __future__ import annotations

import pytest

from conformance.worlds import World
from tidegate.domain.instants import SECOND
from tidegate.domain.lake import ABSENT, Place
from tidegate.domain.triggers import AnyOf, Cron, DataSize, Happened, Partition, Trigger
from tidegate.ports.collecting import NewEvent
from tidegate.ports.lake import Move

pytestmark = pytest.mark.anyio
FLIGHTS = "lake.raw.flights"


async def declare(world: World, name: str = FLIGHTS, kind: str = "iceberg", watch: int | None = None) -> None:
    async with world.store.changing() as tx:
        await tx.put_dataset(name, kind=kind, watch=watch, document={"kind": kind, "name": name}, now=world.at(0))


async def move(world: World, *moves: Move) -> set[str]:
    async with world.store.transaction(world.scheduler) as tx:
        return set(await tx.move(moves, world.at(1)))


async def test_declared_tables_of_a_catalog_are_watched(world: World) -> None:
    await declare(world, watch=2 * SECOND)
    await declare(world, "lake.raw.weather")
    await declare(world, "other.raw.weather")
    await declare(world, "lake.raw.stream", kind="stream")
    found = {one.dataset: one for one in await world.store.watched("lake")}
    assert set(found) == {FLIGHTS, "lake.raw.weather"}
    assert found[FLIGHTS].every == 2 * SECOND
    assert found[FLIGHTS].cursor is None


@pytest.mark.requirement("LAKE-1", "LAKE-2")
@pytest.mark.parametrize(
    "trigger",
    [
        Partition(dataset=FLIGHTS),
        AnyOf(triggers=(Cron(expression="0 0 * * *"), DataSize(dataset=FLIGHTS, rows=9))),
        Happened(event="dataset.updated", key=FLIGHTS),
        Happened(event="dataset.gap", key=FLIGHTS),
    ],
    ids=lambda one: one.TYPE,
)
async def test_what_a_trigger_names_is_watched_until_nobody_names_it(world: World, trigger: Trigger) -> None:
    number = await world.schedule("orders", trigger=trigger, due=None)
    async with world.store.changing() as tx:
        await tx.reset_progress(number, world.at(0))
    assert [one.dataset for one in await world.store.watched("lake")] == [FLIGHTS]
    assert list(await world.store.watched("lak")) == []
    await move(world, Move(dataset=FLIGHTS, version=0, pointer="a", place=ABSENT))
    async with world.store.transaction(world.scheduler) as tx:
        assert await tx.forget_unwatched(world.at(2)) == 0
    async with world.store.changing() as tx:
        await tx.remove_schedule(number, world.at(3))
        await tx.reset_progress(number, world.at(3))
    assert list(await world.store.watched("lake")) == []
    async with world.store.transaction(world.scheduler) as tx:
        assert await tx.forget_unwatched(world.at(4)) == 1


@pytest.mark.requirement("LAKE-1")
async def test_an_event_and_its_cursor_are_one_commit(world: World) -> None:
    await declare(world)
    event = NewEvent(type="dataset.updated", key=FLIGHTS, payload={"rows": 1}, source="watcher")
    with pytest.raises(RuntimeError):
        async with world.store.transaction(world.scheduler) as tx:
            await tx.move([Move(dataset=FLIGHTS, version=0, pointer="a", place=ABSENT)], world.at(1))
            await tx.publish([event], world.at(1))
            raise RuntimeError
    page, _ = await world.store.events(type="dataset.updated", key=FLIGHTS, since=None, before=None, limit=9)
    assert (list(page), (await world.store.watched("lake"))[0].cursor) == ([], None)
    async with world.store.transaction(world.scheduler) as tx:
        await tx.move([Move(dataset=FLIGHTS, version=0, pointer="a", place=ABSENT)], world.at(1))
        await tx.publish([event], world.at(1))
    page, _ = await world.store.events(type="dataset.updated", key=FLIGHTS, since=None, before=None, limit=9)
    assert [one.payload for one in page] == [{"rows": 1}]
    assert (await world.store.watched("lake"))[0].cursor is not None


async def test_a_cursor_begins_once_and_moves_from_where_it_was_seen(world: World) -> None:
    await declare(world)
    assert await move(world, Move(dataset=FLIGHTS, version=0, pointer=None, place=ABSENT)) == {FLIGHTS}
    assert await move(world, Move(dataset=FLIGHTS, version=0, pointer="x", place=ABSENT)) == set()
    there = Place(table_uuid="u", snapshot=1 << 62, sequence=3)
    assert await move(world, Move(dataset=FLIGHTS, version=1, pointer="m1", place=there)) == {FLIGHTS}
    assert await move(world, Move(dataset=FLIGHTS, version=1, pointer="m2", place=ABSENT)) == set()
    [one] = await world.store.watched("lake")
    assert one.cursor is not None
    assert (one.cursor.version, one.cursor.pointer, one.cursor.place) == (2, "m1", there)
    [record] = await world.store.datasets()
    assert (record.pointer, record.snapshot, record.missing, record.error) == ("m1", 1 << 62, False, "")


async def test_moves_of_one_transaction_stand_for_themselves(world: World) -> None:
    await declare(world)
    await declare(world, "lake.raw.weather")
    await move(world, Move(dataset=FLIGHTS, version=0, pointer="a", place=ABSENT))
    found = await move(
        world,
        Move(dataset=FLIGHTS, version=9, pointer="b", place=ABSENT),
        Move(dataset="lake.raw.weather", version=0, pointer="c", place=ABSENT),
    )
    assert found == {"lake.raw.weather"}


async def test_what_nobody_watches_is_forgotten(world: World) -> None:
    await declare(world)
    await move(world, Move(dataset=FLIGHTS, version=0, pointer="a", place=ABSENT))
    async with world.store.transaction(world.scheduler) as tx:
        assert await tx.forget_unwatched(world.at(2)) == 0
    async with world.store.changing() as tx:
        assert await tx.delete_dataset(FLIGHTS, world.at(3))
        assert not await tx.delete_dataset("lake.raw.none", world.at(3))
    async with world.store.transaction(world.scheduler) as tx:
        assert await tx.forget_unwatched(world.at(4)) == 1
    assert list(await world.store.datasets()) == []


async def test_a_table_that_is_not_there_or_cannot_be_read_is_told(world: World) -> None:
    await declare(world)
    await move(world, Move(dataset=FLIGHTS, version=0, pointer=None, place=ABSENT, error="torn"))
    [record] = await world.store.datasets([FLIGHTS])
    assert (record.missing, record.error, record.kind) == (True, "torn", "iceberg")
    assert list(await world.store.datasets(["lake.raw.none"])) == []


async def test_a_silent_catalog_is_on_record_until_it_answers(world: World) -> None:
    for number, error in enumerate(["refused", "timeout"]):
        async with world.store.transaction(world.scheduler) as tx:
            await tx.report_catalog("lake", error, world.at(number))
    [fault] = await world.store.catalog_faults()
    assert (fault.catalog, fault.error, fault.since) == ("lake", "timeout", world.at(0))
    async with world.store.transaction(world.scheduler) as tx:
        await tx.report_catalog("lake", "", world.at(2))
    assert list(await world.store.catalog_faults()) == []
