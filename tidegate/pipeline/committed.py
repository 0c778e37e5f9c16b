"""Looks whether a run has committed to the lake already, before it is tried again (RUN-7).

A crash between an Iceberg commit and the record of its success leaves a run that did its work and looks as if it had
not. Every commit carries the run's key, so a retry looks for it first. Only tables whose metadata changed since the
run's first attempt can hold one; their metadata files are read as they are, without a JVM.

Only the catalog in Tidegate's own database is looked into: a commit to a table of a further catalog is not found.

What this cannot know: whether a program that commits several times did all of them. A SQL program's statements are
numbered in the stamp, so a retry goes on behind the last one. A PySpark program that commits more than once is taken
as done when any of its commits is found: let it make one commit, or merge by the run's key. A commit whose snapshot
was expired since is not found; expiry keeps days of snapshots, a retry comes within minutes.
"""

from __future__ import annotations

import gzip
import json
import logging
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from psycopg import Connection
from psycopg.sql import SQL, Identifier

from tidegate.domain.ids import AttemptKey
from tidegate.domain.instants import MINUTE, Instant
from tidegate.pipeline.session import iceberg_catalog
from tidegate.pipeline.stamps import STEP
from tidegate.ports.spark import ATTEMPT, RUN_KEY, DriverSpec

logger = logging.getLogger("tidegate.committed")
_SLACK = 5 * MINUTE
"""Clocks of a file system, a table's writer and the database may differ by this much."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A snapshot that an attempt of the run has committed."""

    table: str
    snapshot: int
    attempt: int
    step: int | None

    def __str__(self) -> str:
        return f"{self.table} snapshot {self.snapshot} (attempt {self.attempt})"


def find_commits(spec: DriverSpec, attempt: AttemptKey, *, since: Instant) -> Sequence[Commit]:
    """What earlier attempts of this run have committed to Tidegate's own catalog since then, in every branch, oldest
    first.

    A table whose metadata is gone or garbled is passed over, with a warning: nobody can write to it any more, and it
    must not hold up the retries of all others. Whatever else goes wrong, as a store that does not answer, fails the
    look, rather than let a program run twice.
    """
    found: list[tuple[int, Commit]] = []
    for table, location in _tables(spec):
        try:
            metadata = _changed_metadata(spec, table, location, since - _SLACK)
        except _Broken as fault:
            logger.warning("%s is passed over: %s", table, fault)
            continue
        for snapshot in (metadata or {}).get("snapshots") or ():
            summary = snapshot.get("summary") or {}
            if summary.get(RUN_KEY) == str(attempt.run):
                step = summary.get(STEP)
                made = int(summary.get(ATTEMPT, "0"))
                commit = Commit(table, int(snapshot["snapshot-id"]), made, int(step) if step else None)
                found.append((int(snapshot.get("timestamp-ms", 0)), commit))
    return [commit for _, commit in sorted(found, key=lambda pair: pair[0])]


class _Broken(Exception):
    """A table's metadata is not there, or is no metadata."""


def _tables(spec: DriverSpec) -> Iterator[tuple[str, str]]:
    """Each table of Tidegate's own catalog with its metadata file."""
    schema, catalog = spec.settings.catalog_schema, spec.settings.catalog
    with Connection.connect(spec.catalog_url, autocommit=True, connect_timeout=10) as connection:
        there = connection.execute("SELECT to_regclass(format('%%I.iceberg_tables', %s::text))", [schema]).fetchone()
        if not there or there[0] is None:
            return
        query = SQL(
            "SELECT table_namespace, table_name, metadata_location FROM {}"
            " WHERE catalog_name = %s AND coalesce(iceberg_type, 'TABLE') = 'TABLE' AND metadata_location IS NOT NULL"
        ).format(Identifier(schema, "iceberg_tables"))
        for namespace, name, location in connection.execute(query, [catalog]).fetchall():
            yield f"{catalog}.{namespace}.{name}", location


def _changed_metadata(spec: DriverSpec, table: str, location: str, since: Instant) -> dict[str, Any] | None:
    """The table's metadata, or None when the file is older than `since`. Raises `_Broken`."""
    raw = None
    while raw is None:
        try:
            raw = _file(spec, location, since)
            if raw is None:
                return None
        except FileNotFoundError:
            # A commit since the catalog was asked may have tidied it away.
            moved = dict(_tables(spec)).get(table)
            if moved is None:
                return None
            if moved == location:
                raise _Broken(f"its metadata file {location} is not there") from None
            location = moved
    try:
        text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        metadata: dict[str, Any] = json.loads(text)
        return metadata if int(metadata.get("last-updated-ms", 0)) * 1000 >= since else None
    except (ValueError, AttributeError, EOFError, gzip.BadGzipFile, zlib.error) as fault:
        raise _Broken(f"its metadata file {location} cannot be understood: {fault}") from fault


def _file(spec: DriverSpec, location: str, since: Instant) -> bytes | None:
    """What is in the file, or None when it is older than `since`."""
    from pyiceberg.io import load_file_io

    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        path = Path(unquote(parts.path) if parts.scheme else location)
        return path.read_bytes() if path.stat().st_mtime_ns // 1000 >= since else None
    files = load_file_io(iceberg_catalog(spec).properties, location)
    with files.new_input(location).open() as stream:
        return bytes(stream.read())
