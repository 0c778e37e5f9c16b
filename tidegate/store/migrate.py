"""Bringing a database's schema up to date: SQL files in order, by yoyo-migrations, one upgrade at a time.

Safe to call from everywhere at once: an advisory lock lets one do it while the others wait and then find nothing to
do. A database that holds migrations which this version does not know was written by a newer one and is refused, since
this version cannot tell what they mean.

Processes of the version before go on meanwhile. A migration is one transaction with the note that it was applied, so
one that dies leaves nothing behind. It waits for a table's lock no longer than a second, since whoever comes after it
waits with it; then it lets go of all that it has and tries again. What it may do to tables that grow is held by
tests/store/test_upgrade.py: no rewrite, and no lock against writers that lasts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import yoyo
from psycopg.conninfo import conninfo_to_dict
from yoyo.backends.core.postgresql import PostgresqlPsycopgBackend
from yoyo.connections import DatabaseURI

from tidegate.domain.errors import Refused, Unavailable
from tidegate.domain.pools import built_in

MIGRATIONS = Path(__file__).parent / "migrations"
_TABLE = "_yoyo_migration"
_LOCK = 0x7469_6465_0000_0001  # "tide"; one upgrade per database at a time
LOCK_TIMEOUT = 1.0
"""Seconds for which a migration waits for a table, and those behind it with it."""
_PATIENCE = 60.0
"""Seconds for which one tries again."""
_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """Which migrations a database has, which it lacks, and which it has that this version does not know."""

    applied: tuple[str, ...]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def current(self) -> bool:
        return not self.missing and not self.unknown


def upgrade(url: str, patience: float = _PATIENCE, *, until: str = "") -> Sequence[str]:
    """Apply what is missing, as far as `until` where that is given (to rehearse an upgrade from there); the names of
    what was applied now. Raises Refused for a newer database, Unavailable when somebody holds a table for longer than
    `patience` seconds; then what was applied before stays."""
    with _connect(url) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        found = _status(connection)
        _refuse_newer(found)
        if found.missing:
            _apply(url, patience, until)
        make_pools(connection)
        return tuple(name for name in found.missing if not until or name <= until)


def make_pools(connection: psycopg.Connection) -> None:
    """The pools that are always there, where they are not: also after an upgrade that died, and those that are new in
    this version. What people made of them stays."""
    known = {name for (name,) in connection.execute("SELECT name FROM pool")}
    insert = "INSERT INTO pool (name, slots, rate_max, rate_per, rate_burst) VALUES (%s, %s, %s, %s, %s)"
    for name, (slots, rate) in built_in(os.cpu_count() or 1).items():
        if name not in known:
            connection.execute(f"{insert} ON CONFLICT DO NOTHING", (name, slots, *(rate or (None, None, None))))


def status(url: str) -> SchemaStatus:
    """How the database stands; changes nothing."""
    with _connect(url) as connection:
        return _status(connection)


def check(url: str) -> None:
    """Raises Refused, with the remedy, unless this version can work with the database as it is."""
    found = status(url)
    _refuse_newer(found)
    if found.missing:
        raise Refused(
            f"The database lacks {len(found.missing)} migration(s) of this version, from {found.missing[0]} on.",
            remedy="Run `tidegate db upgrade`.",
            code="database_older",
        )


def _refuse_newer(found: SchemaStatus) -> None:
    if found.unknown:
        raise Refused(
            f"The database was written by a newer Tidegate (it has {found.unknown[-1]}, which this one does not know).",
            remedy="Install that version here, or restore a backup from before its upgrade.",
            code="database_newer",
        )


def _status(connection: psycopg.Connection) -> SchemaStatus:
    known = sorted(file.stem for file in MIGRATIONS.glob("*.sql"))
    row = connection.execute("SELECT to_regclass('_yoyo_migration') IS NOT NULL").fetchone()
    applied: set[str] = set()
    if row and row[0]:
        applied = {name for (name,) in connection.execute("SELECT migration_id FROM _yoyo_migration")}
    return SchemaStatus(
        applied=tuple(sorted(applied)),
        missing=tuple(name for name in known if name not in applied),
        unknown=tuple(sorted(applied.difference(known))),
    )


class _Backend(PostgresqlPsycopgBackend):  # type: ignore[misc]
    """A migration and the note that it was applied are one commit; who has to wait too long for a table tries again."""

    patience = _PATIENCE

    def init_connection(self, connection: psycopg.Connection) -> None:
        super().init_connection(connection)
        connection.execute(f"SET lock_timeout = {int(LOCK_TIMEOUT * 1000)}".encode())

    def apply_one(self, migration: Any, force: bool = False, mark: bool = True) -> None:
        self.ensure_internal_schema_updated()
        deadline = time.monotonic() + self.patience
        while True:
            try:
                with self.transaction():
                    migration.process_steps(self, "apply", force=force)
                    self.mark_one(migration)
                return
            except psycopg.errors.LockNotAvailable as held:
                if time.monotonic() > deadline:
                    raise Unavailable(
                        f"Migration {migration.id} waits for a table that somebody holds, and was not applied: {held}",
                        remedy="End it, or wait (pg_stat_activity shows who), and run `tidegate db upgrade` again.",
                        code="contended",
                    ) from held
                time.sleep(_PAUSE)


def _apply(url: str, patience: float, until: str) -> None:
    parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    uri = DatabaseURI(
        scheme="postgresql+psycopg",
        username=parts.pop("user", None),
        password=parts.pop("password", None),
        hostname=parts.pop("host", None),
        port=parts.pop("port", None),
        database=parts.pop("dbname", ""),
        args=parts,
    )
    backend = _Backend(uri, _TABLE)
    backend.patience = patience
    with backend:
        backend.init_database()
        backend.break_lock()  # ours is the advisory lock; a row left by an upgrade that died must not lock us out
        with backend.lock(timeout=60):
            known = yoyo.read_migrations(str(MIGRATIONS))
            backend.apply_migrations(backend.to_apply(known.filter(lambda one: not until or one.id <= until)))


@contextmanager
def _connect(url: str) -> Iterator[psycopg.Connection]:
    try:
        with psycopg.connect(
            url, autocommit=True, connect_timeout=10, application_name="tidegate-upgrade"
        ) as connection:
            yield connection
    except psycopg.OperationalError as error:
        raise Unavailable(
            f"The database does not answer: {str(error).strip()}",
            remedy="Check TIDEGATE_DATABASE_URL and that the server runs.",
            code="database_unreachable",
        ) from error
