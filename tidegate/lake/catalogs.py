"""Catalogs, asked for one thing: which of many tables have another metadata file than the one seen last.

The JDBC catalog in PostgreSQL answers for thousands of tables in one query; a REST catalog is asked table by table, as
its protocol has no other way, with a few requests at a time and without the snapshots of the past.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg.sql import SQL, Identifier

from tidegate.domain.errors import Refused, Unavailable
from tidegate.lake.rest import load_bounded
from tidegate.ports.lake import Catalog, CatalogSpec, Pointer
from tidegate.ports.postgres import cut, watchful

_T = TypeVar("_T")
_NO_TABLE = (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName)
_SEPARATOR = "\x1f"
_AT_ONCE = 8
"""Requests to a REST catalog under way."""
PATIENCE = 30.0
"""Seconds after which a catalog counts as silent."""
REQUEST = 30.0
"""Seconds without a word after which a request to a REST catalog ends by itself."""

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
        self._line = _Line(spec)
        self._names: dict[str, str] = {}

    async def compare(self, seen: Mapping[str, str | None]) -> Sequence[Pointer]:
        if not seen:
            return []
        try:
            rows = await self._asked(_COMPARE, partial(self._compared, seen))
        except _NO_TABLE:  # nobody has made one yet
            rows = [(dataset, None, "TABLE") for dataset, pointer in seen.items() if pointer is not None]
        return [
            Pointer(dataset=dataset, location=location if kind == "TABLE" else None, properties=self._spec.properties)
            for dataset, location, kind in rows
            if kind == "TABLE" or seen[dataset] is not None
        ]

    async def tables(self) -> Sequence[Pointer]:
        try:
            rows = await self._asked(_TABLES, lambda: {"catalog": self._spec.name})
        except _NO_TABLE:
            return []
        return [
            Pointer(dataset=f"{self.name}.{path}", location=location, properties=self._spec.properties)
            for path, location in rows
        ]

    async def _asked(self, query: str, given: Callable[[], Mapping[str, str]]) -> list[Any]:
        line = self._line
        try:
            asked = asyncio.get_running_loop().run_in_executor(line.thread, line.ask, query, given)
            return await asyncio.wait_for(asked, PATIENCE)
        except _NO_TABLE:
            raise
        except TimeoutError:
            self._renew(line)
            raise Unavailable(f"Catalog {self._spec.name!r} does not answer.", code="lake.catalog") from None
        except psycopg.errors.InsufficientPrivilege as error:
            raise Refused(f"Catalog {self._spec.name!r} may not be read: {error}", code="lake.catalog") from error
        except psycopg.Error as error:
            self._renew(line)
            said = str(error).strip().splitlines()[:1]
            raise Unavailable(
                f"Catalog {self._spec.name!r} does not answer: {' '.join(said)}", code="lake.catalog"
            ) from error

    def _renew(self, line: _Line) -> None:
        """Who asks next begins anew, unless somebody else who asked over this line has seen to it."""
        if self._line is line:
            self._line = _Line(self._spec)
            line.end()

    def _compared(self, seen: Mapping[str, str | None]) -> Mapping[str, str]:
        datasets = _SEPARATOR.join(seen)
        if datasets != self._names.get("datasets"):  # they seldom change, and are dear to take apart
            places = [place_of(dataset) for dataset in seen]
            self._names = {
                "datasets": datasets,
                "namespaces": _SEPARATOR.join([".".join(namespace) for _, namespace, _ in places]),
                "names": _SEPARATOR.join([name for _, _, name in places]),
            }
        return {
            "catalog": self._spec.name,
            "separator": _SEPARATOR,
            "seen": _SEPARATOR.join([pointer or "" for pointer in seen.values()]),
            **self._names,
        }

    async def close(self) -> None:
        self._line.end()


class _Line:
    """One connection and the thread that asks over it, its own: what may hang takes none of those few threads that all
    of the process shares. Once it has ended nobody waits on it any more, and it is not used again."""

    def __init__(self, spec: CatalogSpec) -> None:
        self._spec = spec
        self._connection: psycopg.Connection[Any] | None = None
        self._ended = False
        self.thread = ThreadPoolExecutor(1, thread_name_prefix=f"catalog-{spec.name}")

    def ask(self, query: str, given: Callable[[], Mapping[str, str]]) -> list[Any]:
        """In its thread. Raises psycopg.Error."""
        table = Identifier(self._spec.schema, "iceberg_tables")
        return self._connected().execute(SQL(query).format(table), given()).fetchall()

    def end(self) -> None:
        """Who waits for an answer hears that the connection is lost. From any thread."""
        if not self._ended:
            self._ended = True
            if self._connection is not None:
                cut(self._connection)
            self.thread.submit(self._part)
            self.thread.shutdown(wait=False)

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None and not self._ended:
            url = self._spec.url
            self._connection = psycopg.connect(
                url, autocommit=True, application_name="tidegate-watcher", **watchful(url)
            )
            if not self._ended:  # who ended it may have come before there was anything to cut
                self._connection.execute("SET statement_timeout = '20s'")
        if self._connection is None or self._ended:
            raise psycopg.OperationalError("it was given up")
        return self._connection

    def _part(self) -> None:
        if self._connection is not None:
            self._connection.close()


class RestCatalog:
    """Any REST catalog, through PyIceberg."""

    def __init__(self, spec: CatalogSpec) -> None:
        self._spec = spec
        self.name = spec.name
        self._threads = self._new_threads()
        self._catalog: Any = None

    async def compare(self, seen: Mapping[str, str | None]) -> Sequence[Pointer]:
        if not seen:
            return []
        catalog = await self._connected()
        asked = [partial(self._ask, catalog, *one) for one in seen.items()]
        found = await self._within(PATIENCE + len(seen) / _AT_ONCE, *asked)
        return [one for one in found if one is not None]

    async def tables(self) -> Sequence[Pointer]:
        catalog = await self._connected()
        [names] = await self._within(4 * PATIENCE, partial(self._names, catalog))
        return [one for one in await self.compare(dict.fromkeys(names)) if one.location is not None]

    async def _connected(self) -> Any:
        if self._catalog is None:
            [self._catalog] = await self._within(PATIENCE, self._connect)
        return self._catalog

    async def _within(self, seconds: float, *asked: Callable[[], _T]) -> Sequence[_T]:
        """The answers to what is asked side by side. After a silence threads and catalog are left to themselves: the
        next question begins anew."""
        threads = self._threads
        try:
            loop = asyncio.get_running_loop()
            return await asyncio.wait_for(
                asyncio.gather(*(loop.run_in_executor(threads, ask) for ask in asked)), seconds
            )
        except TimeoutError:
            if self._threads is threads:
                self._threads, self._catalog = self._new_threads(), None
                threads.shutdown(wait=False)
            raise Unavailable(f"Catalog {self._spec.name!r} does not answer.", code="lake.catalog") from None

    def _new_threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_AT_ONCE, thread_name_prefix=f"catalog-{self.name}")

    def _names(self, catalog: Any) -> list[str]:
        """The paths of all tables, namespaces within namespaces included."""
        found: list[str] = []
        spaces: list[tuple[str, ...]] = [()]
        try:
            while spaces:
                space = spaces.pop()
                spaces += [tuple(one) for one in catalog.list_namespaces(space) if len(one) > len(space)]
                if space:
                    found += [".".join((self.name, *table)) for table in catalog.list_tables(space)]
        except Exception as error:
            raise self._away(error) from error
        return sorted(found)

    def _connect(self) -> Any:
        given = {**self._spec.properties, "type": "rest", "snapshot-loading-mode": "refs"}
        try:
            return load_bounded(self._spec.name, given, REQUEST)
        except Exception as error:
            raise self._away(error) from error

    def _ask(self, catalog: Any, dataset: str, seen: str | None) -> Pointer | None:
        from pyiceberg.exceptions import (
            ForbiddenError,
            NoSuchIdentifierError,
            NoSuchNamespaceError,
            NoSuchTableError,
        )

        _, namespace, name = place_of(dataset)
        try:
            table = catalog.load_table((*namespace, name))
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
