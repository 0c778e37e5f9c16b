"""Migrations add up to the schema that is checked in, once, whoever runs them."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tidegate.domain.errors import Refused, Unavailable
from tidegate.domain.pools import built_in
from tidegate.store import binaries, migrate
from tidegate.store.embedded import EmbeddedServer

SCHEMA = Path(migrate.__file__).parent / "schema.sql"


@pytest.fixture
def empty_url(postgres: EmbeddedServer) -> str:
    """A database without a schema."""
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS empty WITH (FORCE)")
        connection.execute("CREATE DATABASE empty")
    return postgres.url.replace("/tidegate?", "/empty?")


def dump(url: str) -> str:
    """The schema as pg_dump writes it, without what differs from run to run, and without yoyo's own tables."""
    command = [str(binaries.locate() / "pg_dump"), "--schema-only", "--no-owner", "--no-privileges"]
    command += ["--exclude-table=*yoyo*", "--dbname", url]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    skipped = ("--", "\\", "SET ", "SELECT pg_catalog.set_config")
    lines = [line for line in text.splitlines() if line and not line.startswith(skipped)]
    return "\n".join(lines) + "\n"


def test_migrations_add_up_to_the_schema(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    found = dump(empty_url)
    if os.environ.get("TIDEGATE_WRITE_SCHEMA"):
        SCHEMA.write_text(found)
    assert found == SCHEMA.read_text(), "changed on purpose? run this test with TIDEGATE_WRITE_SCHEMA=1"


def test_an_upgrade_is_done_once(empty_url: str) -> None:
    assert not migrate.status(empty_url).current
    with pytest.raises(Refused, match="tidegate db upgrade"):
        migrate.check(empty_url)
    assert migrate.upgrade(empty_url) == migrate.status(empty_url).applied != ()
    assert migrate.upgrade(empty_url) == ()
    assert migrate.status(empty_url).current
    migrate.check(empty_url)


@pytest.mark.requirement("OPS-12")
def test_upgrades_at_the_same_moment_do_not_collide(empty_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(migrate.upgrade, [empty_url] * 4))
    assert sorted(map(len, done)) == [0, 0, 0, len(migrate.status(empty_url).applied)]


@pytest.mark.slow
def test_an_upgrade_that_died_does_not_lock_out_the_next(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute("INSERT INTO yoyo_lock (locked, ctime, pid) VALUES (1, now(), 1)")
        connection.execute("DELETE FROM _yoyo_migration")
        connection.execute("DROP SCHEMA public, tidegate_history CASCADE; CREATE SCHEMA public")
    assert migrate.upgrade(empty_url) != ()


def test_a_newer_database_is_refused(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO _yoyo_migration (migration_hash, migration_id, applied_at_utc)"
            " VALUES ('x', '9999_later', now())"
        )
    for act in (migrate.upgrade, migrate.check):
        with pytest.raises(Refused) as refusal:
            act(empty_url)
        assert "9999_later" in refusal.value.message and refusal.value.remedy


def test_a_database_that_does_not_answer_is_said_so() -> None:
    with pytest.raises(Unavailable, match="does not answer"):
        migrate.status("postgresql://nobody@127.0.0.1:1/x")


def test_a_new_database_has_its_pools(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    with psycopg.connect(empty_url) as connection:
        rows = connection.execute("SELECT name, slots, rate_max, rate_per, rate_burst FROM pool").fetchall()
    pools = {name: (slots, None if rate[0] is None else tuple(rate)) for name, slots, *rate in rows}
    assert pools == built_in(os.cpu_count() or 1)


def test_an_upgrade_makes_the_pools_that_are_missing_and_leaves_the_others_as_people_made_them(
    empty_url: str,
) -> None:
    migrate.upgrade(empty_url)
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute("DELETE FROM pool WHERE name = 'http'")  # an upgrade that died before it made them
        connection.execute("UPDATE pool SET slots = 77 WHERE name = 'default'")
    assert migrate.upgrade(empty_url) == ()
    with psycopg.connect(empty_url) as connection:
        found = dict(connection.execute("SELECT name, slots FROM pool").fetchall())
    assert found == {name: slots for name, (slots, _) in built_in(os.cpu_count() or 1).items()} | {"default": 77}


def test_people_s_views_show_times(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        for view in ("schedules", "runs", "missed", "attempts", "events"):
            assert connection.execute(f"SELECT * FROM tidegate_{view}").fetchall() == []  # type: ignore[arg-type]
        row = connection.execute("SELECT as_time(0)::text").fetchone()
        assert row == ("1970-01-01 00:00:00+00",)
