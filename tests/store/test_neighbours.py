"""Several databases on one server have nothing to do with each other; a promoted replica goes on where it stands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from conformance.worlds import World
from waiting import until

from tidegate.domain.errors import Refused, Unavailable
from tidegate.domain.instants import HOUR, MILLISECOND, MINUTE
from tidegate.store import binaries, migrate
from tidegate.store.embedded import EmbeddedServer, Shutdown
from tidegate.store.store import PostgresStore

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(database_url: str, anyio_backend: str) -> AsyncIterator[World]:
    async with await World.begin(PostgresStore(database_url), lambda: PostgresStore(database_url)) as made:
        yield made


@pytest.mark.requirement("HA-9")
async def test_databases_of_one_server_are_independent(world: World, emptied_database_url: str) -> None:
    """Instances of the same number live in both; the death of the one is not that of the other, nor heard there."""
    with psycopg.connect(emptied_database_url, autocommit=True) as connection:
        connection.execute("SELECT setval(pg_get_serial_sequence('instance', 'id'), %s, false)", (1,))
    url = emptied_database_url
    async with await World.begin(PostgresStore(url), lambda: PostgresStore(url)) as beside:
        assert beside.worker.instance_id == world.worker.instance_id
        await beside.schedule("orders", due=0)
        assert await world.fire() == []
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity WHERE datname = current_database()"
                " AND application_name = %s",
                (f"tidegate instance {beside.worker.instance_id}",),
            )
        silent = await beside.store.silent(beside.start, MILLISECOND)
        assert [one.id for one in silent] == [beside.worker.instance_id]
        assert list(await world.store.silent(world.start, MILLISECOND)) == []
        assert await world.store.acquire("resync", world.scheduler, world.start, HOUR) is not None
        assert await beside.store.acquire("resync", beside.scheduler, beside.start, HOUR) is not None


@pytest.mark.requirement("HA-2", "HA-9")
async def test_who_lost_its_own_lock_goes_by_heartbeats_until_the_others_had_time_to_take_theirs_again(
    world: World, database_url: str
) -> None:
    """A promoted replica has no locks, and has been up for long."""
    other = world.another()
    there = await other.register(role="worker", name="w", host="elsewhere", pid=3, now=world.start)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name LIKE 'tidegate instance %'"
        )

    async def silent(at: int) -> set[int]:
        return {one.id for one in await world.store.silent(world.at(at), MILLISECOND)}

    await world.store.beat(world.scheduler, world.at(1))
    assert there.instance_id not in await silent(2)
    await other.beat(there, world.at(3))
    assert there.instance_id not in await silent(MILLISECOND + 2)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = %s",
            (f"tidegate instance {there.instance_id}",),
        )
    assert there.instance_id in await silent(MILLISECOND + 3)  # by then it is a sign again


@pytest.mark.requirement("HA-9", "OPS-12")
async def test_who_runs_goes_on_while_the_next_version_adds_to_the_schema(world: World, database_url: str) -> None:
    """Statements are prepared by then, and connections open; only a start of the older version is refused."""

    async def a_whole_life(at: int) -> None:
        assert len(await world.fire(world.at(at))) == 1
        launches = await world.begin_runs(world.at(at + 1))
        assert len(launches) == 1
        await world.end(launches, world.at(at + 2))
        await world.store.beat(world.scheduler, world.at(at + 3))
        assert await world.store.acquire("resync", world.scheduler, world.at(at), HOUR) is not None

    await world.schedule("orders", due=0)
    await a_whole_life(0)
    with psycopg.connect(database_url, autocommit=True) as connection:
        tables = connection.execute(
            "SELECT oid::regclass::text FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition"
            " AND relnamespace = 'public'::regnamespace AND relname !~ 'yoyo'"
        ).fetchall()
        for (table,) in tables:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN of_the_next_version text DEFAULT 'x'")
        connection.execute(
            "INSERT INTO _yoyo_migration (migration_hash, migration_id) VALUES ('next', '9999_next_version')"
        )
    await a_whole_life(MINUTE)
    with pytest.raises(Refused, match="newer Tidegate"):
        migrate.check(database_url)


# ── a replica ──────────────────────────────────────────────────────────────────────────────────────────────────────


def replica_of(primary: EmbeddedServer, home: Path) -> EmbeddedServer:
    """A standby that follows by streaming, asynchronously."""
    standby = EmbeddedServer(home, settings={"shared_buffers": "16MB"})
    standby.start()
    standby.stop(Shutdown.IMMEDIATE)
    for name in ("password",):
        (standby.directory / name).write_text((primary.directory / name).read_text())
    aside = standby._run(["sh", "-c", f"rm -rf {standby.data}"])
    assert aside.returncode == 0, aside.stderr
    copied = standby._run(
        [str(binaries.locate() / "pg_basebackup"), "-d", primary.tcp_url, "-D", str(standby.data), "-R", "-c", "fast"]
    )
    assert copied.returncode == 0, copied.stderr.decode()
    standby.start()
    return standby


def runs_at(server: EmbeddedServer) -> int:
    with psycopg.connect(server.url, autocommit=True) as connection:
        row = connection.execute("SELECT count(*) FROM run").fetchone()
        assert row is not None
        return int(row[0])


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.requirement("HA-9", "OPS-11")
async def test_a_promoted_replica_goes_on_and_decides_again_what_replication_lost(tmp_path: Path) -> None:
    primary = EmbeddedServer(tmp_path / "a", settings={"shared_buffers": "16MB"})
    standby = None
    try:
        migrate.upgrade(primary.start())
        standby = replica_of(primary, tmp_path / "b")
        url = (
            f"postgresql://tidegate:{primary.password}@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/tidegate"
            "?target_session_attrs=read-write"
        )
        async with await World.begin(PostgresStore(url), lambda: PostgresStore(url)) as world:
            await world.schedule("orders", due=0)
            assert len(await world.fire()) == 1
            until(lambda: standby is not None and runs_at(standby) == 1)

            with psycopg.connect(standby.url, autocommit=True) as connection:  # from here on nothing is replicated
                connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
                connection.execute("SELECT pg_reload_conf()")
            with psycopg.connect(primary.url, autocommit=True) as connection:
                until(lambda: connection.execute("SELECT 1 FROM pg_stat_replication").fetchone() is None)
            lost = await world.fire(world.at(MINUTE))
            assert len(lost) == 1
            primary.stop(Shutdown.IMMEDIATE)
            with pytest.raises(Unavailable):
                await world.fire(world.at(MINUTE))
            with psycopg.connect(standby.url, autocommit=True) as connection:
                connection.execute("SELECT pg_promote()")

            again = None
            for _ in range(20):  # nobody is restarted by hand, and no address changes
                with suppress(Unavailable):
                    again = await world.fire(world.at(MINUTE))
                    break
            assert again == lost  # the same run, so the same attempt: who has it already is not started twice
            assert runs_at(standby) == 2
            assert await world.fire(world.at(MINUTE)) == []
    finally:
        primary.stop(Shutdown.IMMEDIATE)
        if standby is not None:
            standby.stop(Shutdown.IMMEDIATE)
