"""History as a data source of Spark: `spark.read.format("tidegate").option("table", "runs").load()`.

Spark asks a Python process of the driver which parts there are, and Python processes of its workers read them, each
over a connection of its own; both need `tidegate` installed and PostgreSQL in reach. Conditions that are options are
judged in PostgreSQL, so that only rows that fulfil them leave it. A part is some days of one table, or hours of one
when days are few.

With `pushdown` the conditions of a query go to PostgreSQL as well (`history_filters`). That is off unless asked for:
Spark 4.1 keeps what it pushed with the DataFrame that was loaded, so a second query made of the same one, or the same
one twice in a query, would be answered by the conditions of another. `history.read` makes a new one each time.

Where `whole` is given, the days that are named are read wholly or not at all: when retention takes one of them away
meanwhile, the part fails and says so. That is how live rows and archived ones are joined, with none lost or doubled.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThanOrEqual,
)

from tidegate.domain.errors import Refused, Unavailable
from tidegate.domain.history import SCHEMA, TABLES, Kind, Table
from tidegate.pipeline.history_filters import EVER, Days, common, day_of, each, read_days, together, translate

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

NAME = "tidegate"
PLACES = ("TIDEGATE_HISTORY_URL", "TIDEGATE_DATABASE_URL")
OPTIONS = ("table", "url", "columns", "from_day", "to_day", "tasks", "pushdown", "ask", "whole")
ASKS = {"days": "day date", "counts": "day date, rows bigint, open boolean"}
TASKS = 8
ROWS_A_TASK = 100_000
"""About as many are read in a second or two, which is as long as it takes to begin."""
BATCH = 5000
_ROW = 200  # bytes, more or less, without indices
_ATTACHED = """
SELECT pg_get_expr(c.relpartbound, c.oid), pg_relation_size(c.oid)
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
WHERE p.relname = %s AND p.relkind = 'p' AND NOT i.inhdetachpending
"""
_BOUNDS = re.compile(r"FROM \('?(-?\d+)'?\) TO \('?(-?\d+)'?\)")


class History(DataSource):  # type: ignore[misc]  # PySpark has no types that mypy could follow
    """Options: `table`; `url`, PostgreSQL's address (also `env:NAME` or `file:PATH`, read where it is needed; left out:
    TIDEGATE_HISTORY_URL or TIDEGATE_DATABASE_URL there); `columns`, some of them by name; `tasks`, how many parts it
    is divided into (left out: as many as its size is worth, at most 8);
    `from_day` and `to_day`, both in it, as 2026-11-21; the name of a column, with the values it may have, divided by
    commas; `pushdown`, true or false. `ask` and `whole` are for `tidegate.history` only."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        chosen = Chosen.of(self.options)
        if chosen.ask:
            return ASKS[chosen.ask]
        return ", ".join(f"{one} {_kind(chosen.table, one).spark}" for one in chosen.columns)

    def reader(self, schema: Any) -> DataSourceReader:
        chosen = Chosen.of(self.options)
        return Pushing(chosen) if chosen.pushdown else Reader(chosen)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The options, checked."""

    table: Table
    columns: tuple[str, ...]
    url: str
    tasks: int
    """0: as many as the rows are worth."""
    ask: str
    whole: Days | None
    pushdown: bool = False
    conditions: tuple[Any, ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Chosen:
        """Raises Refused, naming the option and what would be right."""
        name = options.get("table", "")
        if name not in TABLES:
            raise Refused(f"History has no table {name!r}; {_nearest(name, list(TABLES))}.")
        table = TABLES[name]
        known = [one.name for one in table.columns]
        for option in options:
            if option.lower() not in OPTIONS and option.lower() not in known:
                raise Refused(f"History has no option {option!r}; {_nearest(option, [*OPTIONS[:7], *known])}.")
        columns = [one.strip() for one in options.get("columns", "").split(",") if one.strip()]
        for column in columns:
            if column not in known:
                raise Refused(f"{name} has no column {column!r}; {_nearest(column, known)}.")
        tasks = options.get("tasks", "")
        if tasks and not (tasks.isdecimal() and 1 <= int(tasks) <= 10_000):
            raise Refused(f"tasks must be a whole number from 1 to 10000, not {tasks!r}.")
        whole = options.get("whole")
        return cls(
            table=table,
            columns=tuple(columns or known),
            url=options.get("url", ""),
            tasks=int(tasks or 0),
            ask=options.get("ask", ""),
            whole=None if whole is None else read_days(whole),
            pushdown=options.get("pushdown", "").lower() == "true",
            conditions=tuple(_conditions(table, options)),
        )


class Part(InputPartition):  # type: ignore[misc]
    """Spans of the number by which rows are found, and the days that must be there when they have been read."""

    def __init__(self, spans: Sequence[tuple[int, int]], days: Days) -> None:
        self.spans, self.days = tuple(spans), days


class Reader(DataSourceReader):  # type: ignore[misc]
    """One reading of one table."""

    def __init__(self, chosen: Chosen) -> None:
        self.chosen = chosen
        self.conditions: list[tuple[str, tuple[Any, ...]]] = []
        self.days: Days = EVER
        for one in chosen.conditions:
            taken = self.take(one)
            assert taken, one

    def take(self, one: Any) -> bool:
        """Have a condition judged by PostgreSQL; False: it cannot."""
        found = translate(one, self.chosen.table)
        if found is None:
            return False
        self.days = common(self.days, found.days)
        if found.sql:
            self.conditions.append((found.sql, found.values))
        return True

    def partitions(self) -> list[InputPartition]:
        """Parts of about equal size."""
        chosen = self.chosen
        if chosen.ask == "days":
            return [Part((), ())]
        with connected(chosen.url) as connection:
            there = live(connection, chosen.table)
        asked = chosen.whole if chosen.whole is not None else together([((day, day + 1),) for day in there])
        return list(parts(chosen, {day: there.get(day, 1.0) for day in each(common(asked, self.days))}))

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a part. Raises Unavailable when a day that was to be read wholly is gone."""
        if part is None:
            return
        chosen = self.chosen
        with connected(chosen.url) as connection:
            if chosen.ask == "days":
                yield self._batch([(day_of(day),) for day in live(connection, chosen.table)])
                return
            yield from self._rows(connection, part)
            if chosen.whole is not None:
                there = live(connection, chosen.table)
                gone = [day for day in each(part.days) if day not in there]
                if gone:
                    raise Unavailable(
                        f"{day_of(gone[0])} of {chosen.table.name} went with its retention while it was read.",
                        remedy="Ask again: it is read from the archive then.",
                        code="history.moved",
                    )

    def _rows(self, connection: psycopg.Connection, part: Part) -> Iterator[pa.RecordBatch]:
        statement, values = self.statement(part)
        with connection.cursor(name="history") as cursor:
            cursor.execute(statement.encode(), values)
            while rows := cursor.fetchmany(BATCH):
                yield self._batch(rows)

    def _batch(self, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
        import pyarrow as pa

        fields = list(self._fields())
        arrays = [pa.array([row[place] for row in rows], kind) for place, (_, kind) in enumerate(fields)]
        return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in fields])

    def statement(self, part: Part) -> tuple[str, list[Any]]:
        """What PostgreSQL is asked for a part."""
        table, reach = self.chosen.table, self.chosen.table.reach.column
        spans = " OR ".join(f"{reach} >= {first} AND {reach} < {end}" for first, end in part.spans)
        where = [f"({spans})", *(sql for sql, _ in self.conditions)]
        match self.chosen.ask:
            case "counts":  # today goes on
                is_open = f"bool_or({table.open}) OR day >= (current_timestamp AT TIME ZONE 'UTC')::date"
                what, more = f"day, count(*), {is_open}", " GROUP BY day"
            case _:
                what, more = ", ".join(_selected(table, one) for one in self.chosen.columns), ""
        text = f"SELECT {what} FROM {SCHEMA}.{table.name} WHERE {' AND '.join(where)}{more}"
        return text, [value for _, values in self.conditions for value in values]

    def _fields(self) -> Iterator[tuple[str, pa.DataType]]:
        import pyarrow as pa

        types = {
            "string": pa.string(),
            "timestamp": pa.timestamp("us", "UTC"),
            "date": pa.date32(),
            "double": pa.float64(),
            "bigint": pa.int64(),
            "int": pa.int32(),
            "boolean": pa.bool_(),
        }
        if self.chosen.ask:
            for field in ASKS[self.chosen.ask].split(", "):
                name, kind = field.split()
                yield name, types[kind]
        else:
            for name in self.chosen.columns:
                yield name, types[_kind(self.chosen.table, name).spark]


class Pushing(Reader):
    """One reading for one query: its conditions go to PostgreSQL."""

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:
        """Keep what PostgreSQL judges; yield what Spark has to."""
        for one in filters:
            if self.chosen.ask or not self.take(one):
                yield one


def _conditions(table: Table, options: Mapping[str, str]) -> Iterator[Any]:
    """What options ask, as Spark's filters. Raises Refused."""
    for option, made in (("from_day", GreaterThanOrEqual), ("to_day", LessThanOrEqual)):
        if options.get(option):
            yield made(("day",), day_written(options[option]))
    for column in table.columns:
        if column.name in OPTIONS or not options.get(column.name):
            continue
        values = [one.strip() for one in options[column.name].split(",") if one.strip()]
        match column.kind:
            case Kind.TEXT:
                yield In((column.name,), tuple(values))
            case Kind.COUNT | Kind.INTEGER if all(one.lstrip("-").isdecimal() for one in values):
                yield In((column.name,), tuple(int(one) for one in values))
            case Kind.FLAG if set(values) <= {"true", "false"}:
                yield In((column.name,), tuple(one == "true" for one in values))
            case Kind.COUNT | Kind.INTEGER | Kind.FLAG:
                raise Refused(f"{column.name} cannot be {options[column.name]!r}.")
            case _:
                raise Refused(
                    f"{column.name} is no column to choose rows by when reading.",
                    remedy="Days are chosen by from_day and to_day; for all else say it to Spark, by where.",
                )


def day_written(text: str) -> date:
    """Raises Refused."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise Refused(f"{text!r} is no day; write it like 2026-11-21.") from None


# ── which days there are ───────────────────────────────────────────────────────────────────────────────────────────


def live(connection: psycopg.Connection, table: Table) -> Mapping[int, float]:
    """The days that PostgreSQL has of a table, with about how many rows each; up to today."""
    row = connection.execute("SELECT current_timestamp AT TIME ZONE 'UTC'").fetchone()
    assert row is not None
    today = row[0].toordinal() - day_of(0).toordinal()
    if table.partitioned is not None:
        found: dict[int, float] = {}
        for bounds, size in connection.execute(_ATTACHED, [table.partitioned]).fetchall():
            match = _BOUNDS.search(bounds)
            if match is not None and (day := int(match[1]) // table.reach.per_day) <= today:
                found[day] = max(size / _ROW, 1.0)
        return dict(sorted(found.items()))
    column = table.reach.column
    row = connection.execute(f"SELECT min({column}), max({column}) FROM {SCHEMA}.{table.name}".encode()).fetchone()
    assert row is not None
    if row[0] is None:
        return {}
    return dict.fromkeys(range(row[0] // table.reach.per_day, row[1] // table.reach.per_day + 1), 1.0)


def parts(chosen: Chosen, days: Mapping[int, float]) -> Iterator[Part]:
    """These days as parts of about as many rows; few days are divided into hours."""
    unit, whole = chosen.table.reach.per_day, sum(days.values())
    tasks = chosen.tasks or min(TASKS, math.ceil(whole / ROWS_A_TASK))
    if 0 < len(days) < tasks and unit > 1 and not chosen.ask:
        pieces = -(-tasks // len(days))
        for day in days:
            marks = [day * unit + unit * place // pieces for place in range(pieces + 1)]
            for first, end in zip(marks, marks[1:], strict=False):
                yield Part([(first, end)], ((day, day + 1),))
        return
    before, place = 0.0, {}
    for day, rows in days.items():
        place[day] = int(before / whole * tasks)
        before += rows
    for _, near in groupby(days, key=lambda day: place[day]):
        mine = together([((day, day + 1),) for day in near])
        yield Part([(first * unit, end * unit) for first, end in mine], mine)


# ── the connection ─────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def connected(url: str) -> Iterator[psycopg.Connection]:
    """One transaction that can only read. Raises Refused without an address, Unavailable without an answer."""
    import psycopg

    address = revealed(url)
    try:
        with psycopg.connect(address, connect_timeout=10, application_name="tidegate-history") as connection:
            connection.execute("SET TRANSACTION READ ONLY")
            connection.execute("SET LOCAL TimeZone = 'UTC'")
            yield connection
    except psycopg.OperationalError as error:
        raise Unavailable(
            f"History cannot be read: {str(error).strip()}",
            remedy="Check the address, and that PostgreSQL is in reach of Spark's driver and workers.",
            code="history.unreachable",
        ) from None


def revealed(url: str, environ: Mapping[str, str] = os.environ) -> str:
    """The address behind an option. Raises Refused, never repeating a secret."""
    if url.startswith(("env:", "file:")):
        from tidegate.documents.references import (
            revealed as kept,  # late: few need it, and it brings all documents along
        )

        return kept(url, environ, what="The address of history", who="Spark").strip()
    found = url or next((environ[name] for name in PLACES if environ.get(name)), "")
    if not found:
        raise Refused(
            "Nobody says where history is.",
            remedy=f"Give the option url, or set {PLACES[0]} where Spark's Python runs.",
        )
    return found


def _kind(table: Table, name: str) -> Kind:
    column = table.column(name)
    assert column is not None
    return column.kind


def _selected(table: Table, name: str) -> str:
    return f"{name}::text" if _kind(table, name) is Kind.JSON else name


def _nearest(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?".rstrip("?") if near else f"there are {', '.join(known)}"
