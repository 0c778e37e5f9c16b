"""What all tests share: one PostgreSQL for the whole session, and a fresh database for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest

from tidegate.store import migrate
from tidegate.store.embedded import EmbeddedServer, Shutdown

_numbers = count(1)
_TEMPLATE = "tidegate_template"


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests (`pytest.mark.anyio`) run on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """An embedded server of this test process (of each xdist worker). Durability is off: it ends with the tests."""
    home: Path = tmp_path_factory.mktemp("home")
    server = EmbeddedServer(home, settings={"fsync": "off", "full_page_writes": "off", "max_connections": "200"})
    url = server.start()
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {_TEMPLATE}")
        migrate.upgrade(_database(server, _TEMPLATE))
        yield server
    finally:
        server.stop(Shutdown.IMMEDIATE)


@pytest.fixture
def database_url(postgres: EmbeddedServer) -> Iterator[str]:
    """A database of its own for one test, with the schema in place."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE} STRATEGY FILE_COPY")
        yield _database(postgres, name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _database(server: EmbeddedServer, name: str) -> str:
    return server.url.replace("/tidegate?", f"/{name}?")
