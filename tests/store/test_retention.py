"""What is past retention goes, whoever reads and however much it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from conformance.worlds import World

from tidegate.domain.errors import Unavailable
from tidegate.domain.instants import DAY
from tidegate.store import connection, partitions, retention
from tidegate.store.store import PostgresStore

pytestmark = pytest.mark.anyio
KEEP = {"runs": 5 * DAY, "events": 5 * DAY}


@pytest.fixture
async def world(database_url: str, anyio_backend: str) -> AsyncIterator[World]:
    async with await World.begin(PostgresStore(database_url), lambda: PostgresStore(database_url)) as made:
        yield made


def ask(url: str, statement: str, *given: object) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as one:
        cursor = one.execute(statement, given)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


def of(names: Any) -> set[str]:
    return {name.partition("_p")[0] for name in names}


@pytest.mark.requirement("EVENT-8")
async def test_who_reads_a_table_holds_up_the_removal_of_its_days_only_and_for_as_long(
    world: World, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long removing takes: what it may take in all is not what others' transactions may."""
    await world.store.ensure_partitions(world.at(-10 * DAY), DAY)
    await world.store.ensure_partitions(world.start, DAY)
    monkeypatch.setattr(connection, "_LONGEST", b"SET transaction_timeout = '300ms'")
    monkeypatch.setattr(partitions, "OLD_READERS", 1)
    with psycopg.connect(database_url) as reader:
        reader.execute("SELECT FROM event")
        for dropped in ({"arrival", "attempt", "run"}, set()):  # the second time finds one that is half detached
            assert of(await world.store.drop_expired(world.start, KEEP)) == dropped
    assert of(await world.store.drop_expired(world.start, KEEP)) == {"event"}
    assert list(await world.store.drop_expired(world.start, KEEP)) == []


FILL = """
INSERT INTO idempotency (key, request, status, answer, at)
SELECT 'k' || g, '', 200, '{}', g FROM generate_series(1, 10) g;
INSERT INTO event_dedup (source, id, digest, pos, at) SELECT 's', g, '', g, g FROM generate_series(1, 10) g;
INSERT INTO table_health (name, at, health) SELECT 't', g, '{}' FROM generate_series(1, 10) g
"""


def left(url: str) -> list[int]:
    return [ask(url, f"SELECT count(*) FROM {name}")[0][0] for name in ("idempotency", "event_dedup", "table_health")]


@pytest.mark.requirement("EVENT-8")
async def test_what_is_past_its_time_goes_in_bites_that_are_committed_one_by_one(
    world: World, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What holds up one of them costs neither those before it nor other tables."""
    ask(database_url, FILL)
    ask(database_url, "INSERT INTO idempotency VALUES ('new', '', 200, '{}', %s)", world.start)
    await world.store.ensure_partitions(world.at(-10 * DAY), DAY)
    monkeypatch.setattr(retention, "BITE", 3)
    monkeypatch.setattr(retention, "LONGEST", 1)
    with psycopg.connect(database_url) as other:
        other.execute("SELECT FROM event_dedup WHERE at = 8 FOR UPDATE")
        assert "run" in of(await world.store.drop_expired(world.start, KEEP))
        assert left(database_url) == [1, 4, 0]
    monkeypatch.setattr(retention, "BITES", 1)
    await world.store.drop_expired(world.start, KEEP)
    assert left(database_url) == [1, 1, 0]
    await world.store.drop_expired(world.start, KEEP)
    assert left(database_url) == [1, 0, 0]


async def test_a_transaction_that_took_too_long_is_said_to_have(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_LONGEST", b"SET transaction_timeout = '100ms'")
    async with world.another().parts.database.session() as session:
        if session.connection.info.server_version < 170000:
            pytest.skip("it does not end transactions for that")
        with pytest.raises(Unavailable, match="took longer than it may"):
            try:
                await session.connection.execute("SELECT pg_sleep(10)")
            except psycopg.Error as error:
                raise connection.translate(error) from error
