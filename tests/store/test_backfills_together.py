"""Two schedulers walk the same overlapping backfills of one PostgreSQL: no instant is made twice, none is lost."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from conformance.worlds import NS, World

from tidegate.control import backfills
from tidegate.domain.backfills import BackfillState, Order, Wish, identity
from tidegate.domain.instants import HOUR, MINUTE
from tidegate.domain.triggers import Cron
from tidegate.engine.backfiller import Backfiller, BackfillerSettings
from tidegate.store.store import PostgresStore

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.requirement("CATCH-6", "HA-4")]
ENDED = """
WITH gone AS (DELETE FROM run_live WHERE random() < 0.7 RETURNING slot, schedule_id, ord)
UPDATE run r SET outcome = 'succeeded', started_at = created_at, finished_at = created_at FROM gone g
WHERE r.slot = g.slot AND r.schedule_id = g.schedule_id AND r.ord = g.ord
"""


async def test_no_instant_is_made_twice_by_two_schedulers(emptied_database_url: str) -> None:
    url = emptied_database_url
    async with await World.begin(PostgresStore(url), lambda: PostgresStore(url)) as world:
        for name in ("a", "b"):
            await world.schedule(name, due=None, trigger=Cron(expression="* * * * *"))
        start = world.start // MINUTE * MINUTE - HOUR
        numbers = []
        for name in ("a", "b", "a", "b"):
            order = Order.NEWEST if numbers[1:] else Order.OLDEST
            wish = Wish(start=start, end=start + HOUR, order=order, concurrency=4)
            record, _ = await backfills.create(world.store, NS, name, wish, who="ann")
            numbers.append(identity(record.id))
        settings = BackfillerSettings(pause=0, batch=3, fires=12)
        parts = [Backfiller(world.another(), world.scheduler, settings) for _ in range(2)]
        with psycopg.connect(url, autocommit=True) as connection:
            for number in range(400):
                await asyncio.gather(*(part.step(world.at(MINUTE + number)) for part in parts))
                connection.execute(ENDED)
                states = [(await backfills.get(world.store, one)).record.state for one in numbers]
                if set(states) == {BackfillState.FINISHED}:
                    break
            found = connection.execute("SELECT count(*), count(DISTINCT (schedule_id, fire_time)) FROM run").fetchone()
        assert set(states) == {BackfillState.FINISHED}
        assert found == (120, 120)
