"""A home, its embedded server, and the schema of a database."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from tidegate.store import home as homes
from tidegate.store import migrate
from tidegate.store.embedded import EmbeddedServer, running_url
from tidegate.store.home import HomeLock


def take_home(home: Path) -> HomeLock:
    """The exclusive right to a home. Raises Refused when another Tidegate has it, or a newer one wrote it."""
    return homes.acquire(home)


def embedded_server(home: Path) -> EmbeddedServer:
    """The PostgreSQL of a home, not started yet. Only for the holder of its lock."""
    return EmbeddedServer(home)


def running_server(home: Path) -> str | None:
    """The URL of the embedded server that a running Tidegate has in this home; None when there is none."""
    return running_url(home)


def upgrade(url: str) -> Sequence[str]:
    """Bring a database's schema up to date; what was applied. Raises Refused for a newer one, Unavailable."""
    return migrate.upgrade(url)


def schema_status(url: str) -> list[tuple[str, bool]]:
    """Each migration, and whether it is applied; those that only a newer version knows count as applied."""
    found = migrate.status(url)
    return sorted(
        [(name, True) for name in (*found.applied, *found.unknown)] + [(name, False) for name in found.missing]
    )


def without_password(url: str) -> str:
    """A database's URL, fit to be shown."""
    parts = conninfo_to_dict(url)
    return f"{parts.get('dbname', '')} at {parts.get('host', 'localhost')}:{parts.get('port', 5432)}"
