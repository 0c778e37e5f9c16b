"""What all tests share: one PostgreSQL for the whole session, and a fresh database for each test that asks for one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from urllib.parse import quote, urlencode

import psycopg
import pytest
import sizes
from psycopg.conninfo import conninfo_to_dict

from tidegate.store import migrate
from tidegate.store.embedded import EmbeddedServer, Shutdown

_numbers = count(1)


def pytest_configure(config: pytest.Config) -> None:
    sizes.configure(config)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Groups that pytest-xdist does not keep together would start Spark twice, and fail for all kinds of reasons."""
    if config.getoption("loadgroup", False):
        lost = [one.nodeid for one in items if one.get_closest_marker("xdist_group") and "@" not in one.nodeid]
        if lost:
            raise pytest.UsageError(f"this pytest and pytest-xdist ignore xdist_group, for one in {lost[0]}")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests (`pytest.mark.anyio`) run on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """An embedded server of this test process (of each xdist worker). Durability is off: it ends with the tests."""
    home: Path = tmp_path_factory.mktemp("home")
    server = EmbeddedServer(
        home, settings={"fsync": "off", "full_page_writes": "off", "max_connections": "200", "autovacuum": "off"}
    )
    try:
        server.start()
        yield server
    finally:
        server.stop(Shutdown.IMMEDIATE)


@pytest.fixture(scope="session")
def template(request: pytest.FixtureRequest, worker_id: str) -> Iterator[str]:
    """The URL of a database with the schema, to be copied. TIDEGATE_TEST_DATABASE_URL names another server (any
    PostgreSQL from 15 on, as a user who may create databases) to try everything against."""
    server = os.environ.get("TIDEGATE_TEST_DATABASE_URL") or request.getfixturevalue("postgres").url
    name = f"tidegate_template_{worker_id}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name}")
        connection.execute(f"CREATE DATABASE {name}")
    url = _database(server, name)
    migrate.upgrade(url)
    yield url
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name}")


@pytest.fixture
def database_url(template: str, worker_id: str) -> Iterator[str]:
    """A database of its own for one test, with the schema in place."""
    name = f"tidegate_test_{worker_id}_{next(_numbers)}"
    with psycopg.connect(_database(template, "postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {conninfo_to_dict(template)['dbname']} STRATEGY FILE_COPY")
        yield _database(template, name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def _used_again(template: str, worker_id: str) -> Iterator[str]:
    name = f"tidegate_again_{worker_id}"
    with psycopg.connect(_database(template, "postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {conninfo_to_dict(template)['dbname']}")
        yield _database(template, name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


EMPTY = """
DO $$
DECLARE
    named text;
BEGIN
    SET LOCAL session_replication_role = 'replica';  -- no order of foreign keys, no triggers
    FOR named IN SELECT oid::regclass FROM pg_class
                 WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname !~ '^_?yoyo'
    LOOP
        EXECUTE 'DELETE FROM ' || named;
    END LOOP;
END $$
"""


@pytest.fixture
def emptied_database_url(_used_again: str) -> str:
    """A database with the schema, and no rows but the pools that are always there, for tests that go through a store
    only: the same one again and again, since making one takes 200 times longer than emptying it."""
    with psycopg.connect(_used_again, autocommit=True) as connection:
        connection.execute(EMPTY)
        migrate.make_pools(connection)
    return _used_again


def _database(url: str, name: str) -> str:
    parts = {key: str(value) for key, value in conninfo_to_dict(url).items()}
    return "postgresql:///?" + urlencode({**parts, "dbname": name}, quote_via=quote)
