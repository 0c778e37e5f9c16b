"""Publishers, matchers, admitters and people at once, on real PostgreSQL, while somebody kills their backends.

Transactions commit in another order than they began, connections are lost at every moment, and who lost one does it
again. Afterwards every event that was acknowledged is in exactly one place of each schedule that listens to it: in the
evidence of a run, in progress, or not looked at yet.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import psycopg
import pytest
from conformance.collecting import ALL_RUNS, KEY, MERGING, event, landed, listen, match
from conformance.worlds import NS, World, at_most

from tidegate.domain.errors import Unavailable
from tidegate.domain.instants import SECOND
from tidegate.domain.triggers import All, NOf, ProgramStatus, Trigger
from tidegate.engine.admitter import Admitter
from tidegate.engine.matcher import Matcher
from tidegate.ports.collecting import NewEvent
from tidegate.store.store import PostgresStore

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.requirement("EVENT-1", "HA-4")]
SPAN = 6.0  # seconds
TREES: dict[str, tuple[Trigger, Any]] = {
    "one": (landed(), ALL_RUNS),
    "seven": (landed(7), ALL_RUNS),
    "merging": (landed(3), MERGING),
    "any": (landed(5, key=None), ALL_RUNS),
    "matching": (landed(4, key=None, match={"odd": True}), ALL_RUNS),
    "both": (All(triggers=(landed(2), landed(3, key="sales/us"))), MERGING),
    "two of three": (NOf(n=2, triggers=(landed(9), landed(4, key="sales/us"), landed(6, key=None))), ALL_RUNS),
}


class Crowd:
    def __init__(self, world: World, url: str) -> None:
        self.world, self.url = world, url
        self.until = asyncio.get_running_loop().time() + SPAN
        self.random = random.Random(11)
        self.did: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        self.published: Counter[str] = Counter()

    @property
    def goes_on(self) -> bool:
        return asyncio.get_running_loop().time() < self.until

    async def publisher(self, name: str) -> None:
        """Publishes under ids of its own until it is answered; now and then it takes its time before the commit."""
        store, number = self.world.another(), 0
        while self.goes_on:
            events: list[NewEvent] = []
            for _ in range(self.random.choice((1, 1, 2, 30))):
                number += 1
                key = self.random.choice((KEY, "sales/us", "sales/nobody"))
                events.append(event(key, id=str(number), source=name, odd=bool(number % 2)))
            while True:
                try:
                    async with store.changing() as tx:
                        await tx.publish(events, await store.now())
                        if self.random.random() < 0.2:
                            await asyncio.sleep(self.random.random() / 50)
                    break
                except Unavailable as error:
                    self.met[f"publish: {error.code}"] += 1
            self.published.update(one.key for one in events)
            self.published.update("odd" for one in events if one.payload["odd"])
            await asyncio.sleep(self.random.random() / 100)

    async def engine(self, name: str, part: Any) -> None:
        store = self.world.another()
        worker = part(store, self.world.scheduler)
        while self.goes_on:
            try:
                outcome = await worker.step(await store.now())
                assert not outcome.notes, outcome.notes
                self.did[name] += outcome.did
            except Unavailable as error:
                self.met[f"{name}: {error.code}"] += 1
            await asyncio.sleep(0.002)

    async def work(self) -> None:
        """Runs start and end, so that others are admitted. What was launched is ended in the end."""
        launches: list[Any] = []
        while self.goes_on:
            try:
                now = await self.world.store.now()
                launches += await self.world.launch(now)
                await self.world.end(launches, now, ran=True)
                self.did["work"] += len(launches)
                launches.clear()
            except Unavailable as error:
                self.met[f"work: {error.code}"] += 1
            await asyncio.sleep(0.01)

    async def killer(self) -> None:
        """Ends some backend, whatever it is doing."""
        async with await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection:
            while self.goes_on:
                await asyncio.sleep(0.15)
                await connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND pid <> pg_backend_pid() AND state <> 'idle' AND backend_type = 'client backend'"
                    " ORDER BY random() LIMIT 1"
                )
                self.did["kill"] += 1


async def test_every_acknowledged_event_counts_once_for_everybody(database_url: str, anyio_backend: str) -> None:
    async with await World.begin(PostgresStore(database_url), lambda: PostgresStore(database_url)) as world:
        names = {
            await listen(world, name, trigger, waiting=how, constraints=at_most(20)): name
            for name, (trigger, how) in TREES.items()
        }
        follower = ProgramStatus(program=f"{NS}/job", outcomes=("succeeded",), count=2)
        names[await listen(world, "follows", follower, program="other")] = "follows"
        async with world.store.changing() as tx:
            await tx.put_pool("default", 60, None)
        crowd = Crowd(world, database_url)
        await asyncio.gather(
            *(crowd.publisher(f"p{number}") for number in range(4)),
            *(crowd.engine("matcher", Matcher) for _ in range(2)),
            *(crowd.engine("admitter", Admitter) for _ in range(2)),
            crowd.work(),
            crowd.killer(),
        )
        deadlocked = {name: count for name, count in crowd.met.items() if "contended" in name}
        assert not deadlocked, crowd.met
        assert sum(crowd.met.values()) > 3, "nobody was ever disturbed"
        assert min(crowd.did[name] for name in ("matcher", "admitter", "work")) > 5, crowd.did
        await match(world, await world.store.now() + SECOND)
        _adds_up(database_url, names, crowd.published)


def _adds_up(url: str, names: dict[int, str], published: Counter[str]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        gaps = connection.execute(
            "SELECT k.id FROM event_key k LEFT JOIN arrival a ON a.key_id = k.id GROUP BY k.id"
            " HAVING count(a.n) <> max(k.n) OR coalesce(max(a.n), 0) <> max(k.n) OR count(DISTINCT a.n) <> count(a.n)"
        ).fetchall()
        assert gaps == [], "numbers have gaps"
        topics = connection.execute("SELECT type, key, match IS NOT NULL, n FROM event_key").fetchall()
        everything = sum(count for key, count in published.items() if key != "odd")
        for type, key, matches, n in topics:
            if type.startswith("user."):
                assert n == (published["odd"] if matches else published[key] if key else everything), (type, key)
            else:
                assert n == connection.execute(
                    "SELECT count(*) FROM event e JOIN run r USING (slot, schedule_id, ord) JOIN program p"
                    " ON p.id = r.program_id WHERE e.type = %s AND p.namespace || '/' || p.name = %s",
                    (type, key),
                ).fetchone()[0]  # fmt: skip  # type: ignore[index]
        found = connection.execute(
            "SELECT u.schedule_id, u.node, k.n,"
            " coalesce((doc::jsonb->'tallies'->(u.node::text)->>'n')::bigint, 0) + k.n - u.seen"
            " + (SELECT coalesce(sum((leaf->>'n')::bigint), 0)"
            "    FROM run r, jsonb_array_elements(evidence->'leaves') leaf"
            "    WHERE r.schedule_id = u.schedule_id AND (leaf->>'node')::int = u.node)"
            " FROM subscription u JOIN event_key k ON k.id = u.key_id JOIN progress g USING (schedule_id)"
        ).fetchall()
        assert found
        wrong = [(names[schedule], node, came, counted) for schedule, node, came, counted in found if came != counted]
        assert wrong == [], "leaf, how many came, how many are accounted for"
        overlaps = connection.execute(
            "WITH ranges AS (SELECT r.schedule_id, leaf->'node' AS node, topic->'key_id' AS key,"
            " (topic->>'from_n')::bigint AS low, (topic->>'to_n')::bigint AS high"
            " FROM run r, jsonb_array_elements(evidence->'leaves') leaf, jsonb_array_elements(leaf->'topics') topic)"
            " SELECT * FROM (SELECT *, lag(high) OVER (PARTITION BY schedule_id, node, key ORDER BY high) AS before"
            " FROM ranges) AS r WHERE before > low"
        ).fetchall()
        assert overlaps == [], "two runs tell of the same events"
