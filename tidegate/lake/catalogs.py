"""Catalogs, asked for one thing: which of many tables have another metadata file than the one seen last.

The JDBC catalog in PostgreSQL answers for thousands of tables in one query; a REST catalog is asked table by table, as
its protocol has no other way, with a few requests at a time and without the snapshots of the past.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier

from tidegate.domain.errors import Refused, Unavailable
from tidegate.ports.lake import Catalog, CatalogSpec, Pointer

_SEPARATOR = "\x1f"
_AT_ONCE = 8
"""Requests to a REST catalog under way."""
PATIENCE = 30.0
"""Seconds after which a catalog counts as silent."""

# Names travel as one text each: an array of ten thousand costs more to send than the comparison.
_COMPARE = """
SELECT w.dataset, t.metadata_location, coalesce(to_jsonb(t) ->> 'iceberg_type', 'TABLE')
FROM unnest(string_to_array(%(datasets)s, %(separator)s), string_to_array(%(namespaces)s, %(separator)s),
            string_to_array(%(names)s, %(separator)s), string_to_array(%(seen)s, %(separator)s))
     AS w(dataset, namespace, name, seen)
LEFT JOIN {} AS t ON t.catalog_name = %(catalog)s AND t.table_namespace = w.namespace AND t.table_name = w.name
WHERE t.metadata_location IS DISTINCT FROM nullif(w.seen, '')
"""

_TABLES = """
SELECT table_namespace || '.' || table_name, metadata_location FROM {} AS t
WHERE catalog_name = %(catalog)s AND coalesce(to_jsonb(t) ->> 'iceberg_type', 'TABLE') = 'TABLE'
  AND metadata_location IS NOT NULL ORDER BY 1
"""


def open_catalog(spec: CatalogSpec) -> Catalog:
    """Connects when it is first asked. Raises Refused for a kind that there is not."""
    match spec.kind:
        case "jdbc":
            return JdbcCatalog(spec)
        case "rest":
            return RestCatalog(spec)
        case other:
            raise Refused(
                f"Catalog {spec.name!r} is of type {other!r}, which is not known.",
                remedy="Known are jdbc (in PostgreSQL) and rest.",
                code="lake.catalog",
            )


def place_of(dataset: str) -> tuple[str, tuple[str, ...], str]:
    """Catalog, namespace and name of a table's path; ValueError when it is none."""
    catalog, *namespace, name = dataset.split(".")
    if not namespace:
        raise ValueError(f"{dataset!r} is not the path of a table")
    return catalog, tuple(namespace), name


class JdbcCatalog:
    """Iceberg's JDBC catalog in PostgreSQL, read as the table that it is."""

    def __init__(self, spec: CatalogSpec) -> None:
        self._spec = spec
        self.name = spec.name
        self._connection: psycopg.Connection[Any] | None = None
        self._names: dict[str, str] = {}
        self._lock = threading.Lock()

    async def compare(self, seen: Mapping[str, str | None]) -> Sequence[Pointer]:
        if not seen:
            return []
        rows = await self._asked(self._compare, seen)
        return [
            Pointer(dataset=dataset, location=location if kind == "TABLE" else None, properties=self._spec.properties)
            for dataset, location, kind in rows
            if kind == "TABLE" or seen[dataset] is not None
        ]

    async def tables(self) -> Sequence[Pointer]:
        return [
            Pointer(dataset=f"{self.name}.{path}", location=location, properties=self._spec.properties)
            for path, location in await self._asked(self._tables)
        ]

    async def _asked(self, ask: Callable[..., list[Any]], *given: Any) -> list[Any]:
        try:
            return await asyncio.wait_for(asyncio.to_thread(ask, *given), PATIENCE)
        except TimeoutError:
            raise Unavailable(f"Catalog {self._spec.name!r} does not answer.", code="lake.catalog") from None
        except psycopg.errors.InsufficientPrivilege as error:
            raise Refused(f"Catalog {self._spec.name!r} may not be read: {error}", code="lake.catalog") from error
        except psycopg.Error as error:
            self._part()
            said = str(error).strip().splitlines()[:1]
            raise Unavailable(
                f"Catalog {self._spec.name!r} does not answer: {' '.join(said)}", code="lake.catalog"
            ) from error

    def _tables(self) -> list[Any]:
        with self._lock:
            try:
                query = SQL(_TABLES).format(Identifier(self._spec.schema, "iceberg_tables"))
                return self._connected().execute(query, {"catalog": self._spec.name}).fetchall()
            except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
                return []  # nobody has made a table yet

    def _compare(self, seen: Mapping[str, str | None]) -> list[tuple[str, str | None, str]]:
        datasets = _SEPARATOR.join(seen)
        if datasets != self._names.get("datasets"):  # they seldom change, and are dear to take apart
            places = [place_of(dataset) for dataset in seen]
            self._names = {
                "datasets": datasets,
                "namespaces": _SEPARATOR.join([".".join(namespace) for _, namespace, _ in places]),
                "names": _SEPARATOR.join([name for _, _, name in places]),
            }
        given = {
            "catalog": self._spec.name,
            "separator": _SEPARATOR,
            "seen": _SEPARATOR.join([pointer or "" for pointer in seen.values()]),
            **self._names,
        }
        query = SQL(_COMPARE).format(Identifier(self._spec.schema, "iceberg_tables"))
        with self._lock:
            try:
                return self._connected().execute(query, given).fetchall()
            except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
                # Nobody has made a table yet.
                return [(dataset, None, "TABLE") for dataset, pointer in seen.items() if pointer is not None]

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                self._spec.url, autocommit=True, connect_timeout=10, application_name="tidegate-watcher"
            )
            self._connection.execute("SET statement_timeout = '20s'")
        return self._connection

    async def close(self) -> None:
        await asyncio.to_thread(self._part)

    def _part(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class RestCatalog:
    """Any REST catalog, through PyIceberg."""

    def __init__(self, spec: CatalogSpec) -> None:
        self._spec = spec
        self.name = spec.name
        self._catalog: Any = None
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix=f"catalog-{spec.name}")

    async def compare(self, seen: Mapping[str, str | None]) -> Sequence[Pointer]:
        if not seen:
            return []
        loop = asyncio.get_running_loop()
        try:
            await asyncio.wait_for(loop.run_in_executor(self._threads, self._connect), PATIENCE)
            asked = [loop.run_in_executor(self._threads, self._ask, *one) for one in seen.items()]
            found = await asyncio.wait_for(asyncio.gather(*asked), PATIENCE + len(seen) / _AT_ONCE)
        except TimeoutError:
            raise Unavailable(f"Catalog {self._spec.name!r} does not answer.", code="lake.catalog") from None
        return [one for one in found if one is not None]

    async def tables(self) -> Sequence[Pointer]:
        loop = asyncio.get_running_loop()
        try:
            await asyncio.wait_for(loop.run_in_executor(self._threads, self._connect), PATIENCE)
            names = await asyncio.wait_for(loop.run_in_executor(self._threads, self._names), 4 * PATIENCE)
        except TimeoutError:
            raise Unavailable(f"Catalog {self._spec.name!r} does not answer.", code="lake.catalog") from None
        return [one for one in await self.compare(dict.fromkeys(names)) if one.location is not None]

    def _names(self) -> list[str]:
        """The paths of all tables, namespaces within namespaces included."""
        found: list[str] = []
        spaces: list[tuple[str, ...]] = [()]
        try:
            while spaces:
                space = spaces.pop()
                spaces += [tuple(one) for one in self._catalog.list_namespaces(space) if len(one) > len(space)]
                if space:
                    found += [".".join((self.name, *table)) for table in self._catalog.list_tables(space)]
        except Exception as error:
            raise self._away(error) from error
        return sorted(found)

    def _connect(self) -> None:
        if self._catalog is None:
            from pyiceberg.catalog import load_catalog

            given = {**self._spec.properties, "type": "rest", "snapshot-loading-mode": "refs"}
            try:
                self._catalog = load_catalog(self._spec.name, **given)
            except Exception as error:
                raise self._away(error) from error

    def _ask(self, dataset: str, seen: str | None) -> Pointer | None:
        from pyiceberg.exceptions import (
            ForbiddenError,
            NoSuchIdentifierError,
            NoSuchNamespaceError,
            NoSuchTableError,
        )

        _, namespace, name = place_of(dataset)
        try:
            table = self._catalog.load_table((*namespace, name))
        except (NoSuchTableError, NoSuchNamespaceError, NoSuchIdentifierError):
            return None if seen is None else Pointer(dataset=dataset, location=None)
        except ForbiddenError as error:
            return Pointer(dataset=dataset, location=None, error=f"the catalog refuses: {error}")
        except Exception as error:
            raise self._away(error) from error
        if table.metadata_location == seen:
            return None
        properties = {name: str(value) for name, value in table.io.properties.items()}
        return Pointer(dataset=dataset, location=table.metadata_location, properties=properties)

    def _away(self, error: Exception) -> Unavailable:
        said = " ".join(str(error).split())[:300]
        return Unavailable(
            f"Catalog {self._spec.name!r} does not answer: {type(error).__name__}: {said}", code="lake.catalog"
        )

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
