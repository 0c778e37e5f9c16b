"""The schema is upgraded under the feet of the version before: it goes on, and waits for nothing that lasts."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from conformance.worlds import World

from bench.before import BASE, BIG, Before, Locks, files, make
from tidegate.domain.errors import Refused, Unavailable
from tidegate.domain.instants import SECOND
from tidegate.domain.runs import State
from tidegate.store import migrate
from tidegate.store.embedded import EmbeddedServer
from tidegate.store.store import PostgresStore

RUNS, LIVE = 20_000, 2_000


@pytest.fixture
def before(postgres: EmbeddedServer) -> Iterator[str]:
    """A database of the version before, with runs."""
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS before WITH (FORCE)")
        connection.execute("CREATE DATABASE before")
    url = postgres.url.replace("/tidegate?", "/before?")
    make(url, RUNS, LIVE)
    yield url
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("DROP DATABASE before WITH (FORCE)")


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.requirement("OPS-12", "HA-9")
async def test_the_version_before_works_on_while_the_schema_is_upgraded_and_afterwards(before: str) -> None:
    stored = files(before)
    with Before(before) as old:
        old.more(3)
        with Locks(before) as locks:
            assert migrate.upgrade(before), "there is something to upgrade"
        old.more(3)
        assert migrate.status(before).current
        async with await World.begin(PostgresStore(before), lambda: PostgresStore(before)) as new:
            await new.schedule("orders")
            with old.between():
                [key] = await new.fire()
                launches = await new.begin_runs(new.at(SECOND))
                assert [one.attempt.run for one in launches] == [key]
                await new.end(launches, new.at(2 * SECOND))
            assert await new.state(key) is State.SUCCEEDED
        old.more(3)
    assert old.faults == []
    kept = files(before)
    assert {name: kept.get(name) for name in stored} == stored, "a table was written anew"
    assert locks.looks > 3 and locks.longest < 1.0, locks.held
    assert max(old.lives) < 3 * migrate.LOCK_TIMEOUT


@pytest.mark.slow
@pytest.mark.requirement("OPS-12")
def test_an_upgrade_that_has_to_wait_for_a_table_lets_the_others_work_meanwhile(before: str) -> None:
    """Somebody reads for long, a backup say: a migration that waited on would make everybody wait behind it."""
    done: list[object] = []
    with psycopg.connect(before) as reader, Before(before) as old:
        for table in BIG:
            reader.execute(f"SELECT FROM {table} LIMIT 1".encode())
        upgrading = threading.Thread(target=lambda: done.append(migrate.upgrade(before)))
        upgrading.start()
        time.sleep(2.5 * migrate.LOCK_TIMEOUT)
        assert not done
        old.more(3)
        reader.rollback()
        upgrading.join(60)
    assert done and migrate.status(before).current
    assert old.faults == [] and max(old.lives) < 3 * migrate.LOCK_TIMEOUT


@pytest.mark.slow
@pytest.mark.requirement("OPS-12")
def test_an_upgrade_that_waits_in_vain_names_its_migration_and_leaves_nothing_half_done(before: str) -> None:
    with psycopg.connect(before) as reader:
        reader.execute("SELECT FROM run_live LIMIT 1")
        with pytest.raises(Unavailable) as waited:
            migrate.upgrade(before, patience=0.0)
        assert "0011_crashes" in waited.value.message and "tidegate db upgrade" in (waited.value.remedy or "")
        assert "0011_crashes" in migrate.status(before).missing
    assert "0011_crashes" in migrate.upgrade(before)


@pytest.mark.slow
@pytest.mark.requirement("OPS-12", "HA-9")
def test_a_start_of_the_version_before_is_refused_with_what_to_do(
    before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate.upgrade(before)
    for file in migrate.MIGRATIONS.glob("*.sql"):
        if file.stem <= BASE:
            shutil.copy(file, tmp_path)
    monkeypatch.setattr(migrate, "MIGRATIONS", tmp_path)
    with pytest.raises(Refused) as refused:
        migrate.check(before)
    assert "newer Tidegate" in refused.value.message and refused.value.remedy
