"""Roles that are started while the database is away: they say so, wait, and begin when it is there."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from waiting import until

from tidegate.domain.errors import Refused
from tidegate.settings import load
from tidegate.store import migrate
from tidegate.store.embedded import EmbeddedServer, Shutdown
from tidegate.store.store import PostgresStore
from tidegate.wiring import open_doors

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@contextmanager
def role(name: str, home: Path, url: str, *more: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A process of that role, and what it says."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("TIDEGATE_")}
    said = home.parent / f"{name}.log"
    home.mkdir(exist_ok=True, mode=0o700)
    with said.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tidegate.cli.main", name, "--home", str(home), *more],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**inherited, "TIDEGATE_DATABASE_URL": url},
        )
    try:
        yield process, said
    finally:
        process.kill()
        process.wait(10)


@pytest.mark.requirement("HA-8", "OPS-11")
@pytest.mark.parametrize(("name", "silent"), [("scheduler", False), ("worker", True)])
def test_a_role_waits_for_the_database_and_leaves_at_once_when_asked(tmp_path: Path, name: str, silent: bool) -> None:
    """Nobody listens there; or somebody takes the connection and never answers."""
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        if silent:
            hole.listen()
        url = f"postgresql://nobody@127.0.0.1:{hole.getsockname()[1]}/none"
        with role(name, tmp_path / "home", url) as (process, said):
            until(lambda: b"waiting for the database: " in said.read_bytes(), 60)
            text = said.read_text()
            assert "TIDEGATE_DATABASE_URL" in text and "Traceback" not in text
            time.sleep(0.2)
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
            assert time.monotonic() - began < 3, "the machine is busy; a time-out is 5 s"


@pytest.mark.requirement("HA-8", "OPS-11")
def test_what_was_started_before_the_database_begins_with_it(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "database", settings={"shared_buffers": "16MB"})
    try:
        migrate.upgrade(server.start())
        url = server.url
        server.stop(Shutdown.FAST)
        with role("scheduler", tmp_path / "home", url) as (process, said):
            until(lambda: b"waiting for the database: " in said.read_bytes(), 60)
            server.start()
            with psycopg.connect(url, autocommit=True) as connection:
                registered = "SELECT count(*) FROM instance WHERE role = 'scheduler' AND ended_at IS NULL"
                until(lambda: connection.execute(registered).fetchone() == (1,), 30)
            assert "the database answers" in said.read_text()
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
    finally:
        server.stop(Shutdown.IMMEDIATE)


@pytest.mark.requirement("HA-9", "OPS-11")
@pytest.mark.parametrize("name", ["scheduler", "worker", "api"])
def test_a_role_that_a_newer_database_refuses_says_so_and_ends(tmp_path: Path, database_url: str, name: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO _yoyo_migration (migration_hash, migration_id, applied_at_utc)"
            " VALUES ('x', '9999_later', now())"
        )
    more = ("--port", "0") if name == "api" else ()
    with role(name, tmp_path / "home", database_url, *more) as (process, said):
        assert process.wait(60) == 1
        assert "written by a newer Tidegate" in said.read_text() and "Traceback" not in said.read_text()


@pytest.mark.anyio
async def test_the_doors_of_an_api_that_is_refused_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its presence ends by an exception; the connections of its store are given up all the same."""
    closed: list[PostgresStore] = []

    async def refused(*given: object) -> None:
        raise Refused("not by this version")

    async def close(store: PostgresStore) -> None:
        closed.append(store)

    monkeypatch.setattr("tidegate.wiring.doors.for_good", refused)
    monkeypatch.setattr(PostgresStore, "close", close)
    stop = asyncio.Event()
    with pytest.raises(Refused, match="not by this version"):
        async with open_doors(load(home=tmp_path, environ={}), stop) as (store, _):
            await stop.wait()
    assert closed == [store]
