"""What a maintenance attempt asks beside its own table: the time, who reads from it, and where the other tables lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from psycopg import Connection, OperationalError
from psycopg.sql import SQL, Identifier

from tidegate.domain.errors import Refused, Unavailable
from tidegate.domain.instants import Instant
from tidegate.lake.catalogs import place_of
from tidegate.lake.needed import NEEDED
from tidegate.lake.orphans import table_location
from tidegate.ports.spark import DriverSpec

_MOST = 2_000
"""Tables of a REST catalog that are asked for their location, one by one."""


def database_now(spec: DriverSpec) -> Instant:
    """The time by which everybody decides."""
    with _connected(spec) as connection:
        row = connection.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").fetchone()
    assert row is not None
    return int(row[0])


def snapshots_needed(spec: DriverSpec, table: str) -> frozenset[int]:
    """The snapshots of a table from which somebody reads at this moment: cursors, and what runs were given."""
    with _connected(spec) as connection:
        return frozenset(int(one) for _, one in connection.execute(NEEDED, {"names": [table]}))


@contextmanager
def _connected(spec: DriverSpec) -> Iterator[Connection]:
    """Raises Unavailable where the database does not answer."""
    try:
        with Connection.connect(spec.catalog_url, autocommit=True, connect_timeout=10) as connection:
            yield connection
    except OperationalError as fault:
        said = " ".join(str(fault).split())[:300]
        raise Unavailable(f"The database of the catalog does not answer: {said}", code="lake.catalog") from fault


def neighbours(spec: DriverSpec, table: str) -> Mapping[str, str]:
    """The locations of a catalog's other tables, by name. Raises Refused where they cannot be known."""
    catalog, _, _ = place_of(table)
    if catalog == spec.settings.catalog:
        found = _in_database(spec)
    else:
        found = _in_rest(catalog, spec.further_catalogs().get(catalog, {}))
    return {name: location for name, location in found.items() if name != table}


def _in_database(spec: DriverSpec) -> dict[str, str]:
    query = SQL(
        "SELECT table_namespace, table_name, metadata_location FROM {}"
        " WHERE catalog_name = %s AND metadata_location IS NOT NULL"
    ).format(Identifier(spec.settings.catalog_schema, "iceberg_tables"))
    with _connected(spec) as connection:
        rows = connection.execute(query, [spec.settings.catalog]).fetchall()
    return {f"{spec.settings.catalog}.{space}.{name}": table_location(where) for space, name, where in rows}


def _in_rest(catalog: str, properties: Mapping[str, str]) -> dict[str, str]:
    if properties.get("type") != "rest":
        raise Refused(
            f"Where the other tables of {catalog} lie is not known, so none of its files can be called orphans.",
            remedy="Orphan files are removed in the catalog of Tidegate's database and in REST catalogs.",
            code="maintenance.orphans",
        )
    from pyiceberg.catalog import load_catalog

    opened = load_catalog(catalog, **{**properties, "snapshot-loading-mode": "refs"})
    spaces, todo = [], list(opened.list_namespaces())
    while todo:
        space = todo.pop()
        spaces.append(space)
        todo += [one for one in opened.list_namespaces(space) if len(one) > len(space)]
    names = [name for space in spaces for name in opened.list_tables(space)]
    if len(names) > _MOST:
        raise Refused(
            f"{catalog} has {len(names)} tables: too many to ask each for its location.",
            remedy=f"Orphan files are removed in REST catalogs of at most {_MOST} tables.",
            code="maintenance.orphans",
        )
    return {".".join((catalog, *name)): opened.load_table(name).location() for name in names}
