"""The relay over the real store and a real table: what is committed arrives, in order, and is on record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import psycopg
import pytest

from tidegate.domain.ids import Fence
from tidegate.domain.instants import SECOND
from tidegate.domain.sinks import SinkSpec
from tidegate.engine.relay import Relay
from tidegate.ports.collecting import NewEvent
from tidegate.ports.sinks import Moved, SinkRecord, Spot
from tidegate.sinks.opening import SinkOpener
from tidegate.store.store import PostgresStore

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("EVENT-9")]
SPEC = SinkSpec(type="table", table="audit.events")
NARROW = {"type": "table", "table": SPEC.table, "topics": ["user.x"]}
DOCUMENT = {"metadata": {"name": "audit"}, "spec": {"type": "table", "table": SPEC.table}}


class Desk:
    """A store with one sink, and a relay that is cranked by hand."""

    def __init__(self, url: str, store: PostgresStore, fence: Fence) -> None:
        self.url, self.store, self.fence = url, store, fence
        self.relay = Relay(store, SinkOpener(url), fence)

    async def publish(self, first: int, end: int, *, type: str = "user.x") -> None:
        async with self.store.transaction(self.fence) as tx:
            now = await self.store.now()
            await tx.publish(
                [NewEvent(type=type, key=f"sales/{n % 3}", payload={"n": n}) for n in range(first, end)], now
            )

    async def sink(self) -> SinkRecord:
        (one,) = await self.store.sinks()
        return one

    async def relay_all(self, wanted: int) -> None:
        for _ in range(400):
            await self.relay.step(await self.store.now())
            if (await self.sink()).delivered >= wanted:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"not delivered: {await self.sink()}")

    def rows(self) -> list[int]:
        with psycopg.connect(self.url) as connection:
            found = connection.execute("SELECT event -> 'payload' -> 'n' FROM audit.events ORDER BY id::bigint")
            return [row[0] for row in found.fetchall()]


@pytest.fixture
async def desk(database_url: str, anyio_backend: str) -> AsyncIterator[Desk]:
    store = PostgresStore(database_url)
    now = await store.now()
    fence = await store.register(role="scheduler", name="s", host="h", pid=1, now=now)
    async with store.changing() as tx:
        await tx.put_sink("audit", SPEC, DOCUMENT, now)
    made = Desk(database_url, store, fence)
    yield made
    await made.relay.close()
    await store.close()


async def test_what_is_published_arrives_in_the_table_and_the_place_is_kept(desk: Desk) -> None:
    await desk.publish(0, 3000)
    await desk.relay_all(3000)
    assert desk.rows() == list(range(3000))
    record = await desk.sink()
    assert (record.behind, record.error) == (0, "")


async def test_a_transaction_that_stays_open_holds_the_log_back_and_is_named(desk: Desk) -> None:
    with psycopg.connect(desk.url, application_name="forgotten") as other:
        other.execute("SELECT pg_current_xact_id()")
        await desk.publish(0, 2)
        now = await desk.store.now()
        notes = [note for at in (0, 40) for note in (await desk.relay.step(now + at * SECOND)).notes]
        assert len(notes) == 1 and "forgotten" in notes[0] and "transaction open" in notes[0]
        assert (await desk.sink()).delivered == 0
    desk.relay = Relay(desk.store, SinkOpener(desk.url), desk.fence)
    await desk.relay_all(2)
    assert desk.rows() == [0, 1]


@pytest.mark.requirement("HA-9")
@pytest.mark.parametrize("meanwhile", [2, 50], ids=["seen-at-once", "seen-late"])
async def test_what_a_standby_gives_out_again_is_read_although_it_was_read_before(desk: Desk, meanwhile: int) -> None:
    """A standby without the last commits: positions that were read, and not for this sink, are those of others now."""
    async with desk.store.changing() as tx:
        now = await desk.store.now()
        await tx.put_sink("audit", replace(SPEC, topics=("user.x",)), DOCUMENT | {"spec": NARROW}, now)
    await desk.publish(0, 1)
    await desk.relay_all(1)
    await desk.publish(100, 140, type="user.y")
    for _ in range(3):
        await desk.relay.step(await desk.store.now())
    place = (await desk.sink()).spot.pos
    with psycopg.connect(desk.url, autocommit=True) as standby:
        standby.execute("DELETE FROM event WHERE pos > %s", [place])
        standby.execute("DELETE FROM event_inbox")
        standby.execute("SELECT setval('event_pos_seq', %s)", [place])
    desk.store.parts.tide.server -= 1  # it was another that this was read from
    desk.relay._server -= 1
    await desk.publish(1, 1 + meanwhile)
    await desk.relay_all(1 + meanwhile)
    assert desk.rows() == list(range(1 + meanwhile))


@pytest.mark.requirement("HA-9")
async def test_a_place_that_was_read_on_another_server_is_not_kept(desk: Desk) -> None:
    await desk.publish(0, 5)
    before = await desk.sink()
    there = await desk.store.settled(await desk.store.now())
    on = Moved(sink="audit", rev=1, seen=before.spot, spot=Spot(before.spot.day, there.pos), server=there.server)
    async with desk.store.transaction(desk.fence) as tx:
        assert not await tx.relayed(replace(on, server=there.server - 1), 0)
        assert not await tx.relayed(replace(on, spot=Spot(before.spot.day, there.pos + 100)), 0), "forgotten there"
        assert await tx.relayed(on, 0)


async def test_a_people_s_transaction_that_draws_late_is_waited_for(desk: Desk) -> None:
    """Its number is drawn when it begins, so nothing that it publishes can be passed over."""
    async with desk.store.changing() as tx:
        await desk.publish(0, 2)
        await desk.relay.step(await desk.store.now())
        assert (await desk.sink()).spot.pos == (await desk.store.sinks())[0].spot.pos
        now = await tx.now()
        await tx.publish([NewEvent(type="user.x", key="sales/late", payload={"n": 2})], now)
        for _ in range(3):
            await desk.relay.step(await desk.store.now())
        assert (await desk.sink()).delivered == 0
    await desk.relay_all(3)
    assert desk.rows() == [0, 1, 2]
