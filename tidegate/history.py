"""History in Spark: runs, attempts, events, missed fires, maintenance and the health of tables, as DataFrames.

    from tidegate import history

    failed = history.read(spark, "runs", from_day="2026-11-01", state="failed")
    failed.groupBy("namespace", "schedule").count().show()

The tables and their columns are described in docs/reference/history.md. `archive` keeps whole days as Parquet files or
in Iceberg tables, and `read(..., archive=...)` reads what PostgreSQL has and the archive together, each row once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce
from typing import TYPE_CHECKING, Any

from tidegate.domain.errors import Refused
from tidegate.domain.history import TABLES, Table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from tidegate.pipeline.history_filters import Days

__all__ = ["Archived", "archive", "export", "read", "register"]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""Without it Spark refuses a data source in Python that judges conditions."""


@dataclass(frozen=True, slots=True)
class Archived:
    """A day of a table. `rows`: that the archive holds now; `left`: why it was not written, empty when it was."""

    table: str
    day: date
    rows: int
    left: str = ""


def register(spark: SparkSession) -> None:
    """Let this session read history by `spark.read.format("tidegate")`. Safe to repeat."""
    from tidegate.pipeline.history_source import History

    spark.dataSource.register(History)


def read(
    spark: SparkSession,
    table: str,
    *,
    from_day: str | date | None = None,
    to_day: str | date | None = None,
    columns: Sequence[str] = (),
    archive: str = "",
    url: str = "",
    tasks: int | None = None,
    pushdown: bool = False,
    **only: str | int | bool | Sequence[str],
) -> DataFrame:
    """A table of history. Reading happens when the DataFrame is used.

    Rows that are not asked for do not leave PostgreSQL: `from_day` and `to_day`, both in it, and by `only` any column
    that is text, a whole number or a flag, with the value or the values that it may have (`schedule="orders"`,
    `state=["failed", "crashed"]`). `columns`: only these; naming them saves more than `select` does.

    `archive`: where `archive` put days, which are read where PostgreSQL has them no more. `url`: PostgreSQL's address,
    or where it is kept (`env:NAME`, `file:PATH`, of Spark's Python processes); left out: TIDEGATE_HISTORY_URL or
    TIDEGATE_DATABASE_URL, here or there. `tasks`: how many parts it is read in, each over a connection of its own; left
    out: as many as its size is worth, at most 8.

    `pushdown`: the conditions of a query (`where`) go to PostgreSQL, too. A DataFrame that was read so is for one
    query, and for one place in it: Spark 4.1 would answer another by the conditions of the first.

    Raises Refused for names that there are not.
    """
    chosen = {name: _written(value) for name, value in only.items()}
    days = {"from_day": str(from_day or ""), "to_day": str(to_day or "")}
    described = _described(table, {"columns": ",".join(columns), **days, **chosen})
    how = {"tasks": "" if tasks is None else str(tasks), "pushdown": "true" if pushdown else ""}
    options = {"columns": ",".join(columns), "url": url, **how, **days, **chosen}
    if pushdown:
        spark.conf.set(PUSHDOWN, "true")
    if not archive:
        return _source(spark, table, options)
    from pyspark.sql import functions as f

    from tidegate.pipeline.history_filters import number_of, together, written

    there = _source(spark, table, {"url": url, "ask": "days"}).collect()
    here = together([((number_of(row.day), number_of(row.day) + 1),) for row in there])
    live = _source(spark, table, {**options, "whole": written(here)})
    kept = Place.of(archive).read(spark, described)
    if kept is None:
        return live
    kept = kept.where(~_within(here)) if here else kept
    kept = kept.where(f.col("day") >= f.lit(days["from_day"]).cast("date")) if from_day else kept
    kept = kept.where(f.col("day") <= f.lit(days["to_day"]).cast("date")) if to_day else kept
    for name, values in chosen.items():
        kept = kept.where(f.col(name).isin(values.split(",")))
    return live.unionByName(kept.select(*(columns or [one.name for one in described.columns])))


def archive(
    spark: SparkSession,
    to: str,
    *,
    tables: Iterable[str] = TABLES,
    first: date | None = None,
    last: date | None = None,
    url: str = "",
) -> list[Archived]:
    """Put whole days into an archive: a folder or URI (Parquet, a folder a day) or `catalog.namespace` (Iceberg).

    Without `first` and `last`: every day that the archive lacks or holds otherwise. With one of them: every day of that
    span, anew. A day is replaced as a whole, so repeating changes nothing. Today is left for later, and so is a day of
    which something may still change; a day that PostgreSQL has no more stays as it is in the archive.
    """
    names = list(tables)
    place = check(to, names, first, last)
    done: list[Archived] = []
    for name in names:
        done += _archive(spark, TABLES[name], place, first, last, url)
    return done


def check(to: str, tables: Sequence[str], first: date | None, last: date | None) -> Place:
    """What `archive` is asked, before anything is done. Raises Refused."""
    if first is not None and last is not None and first > last:
        raise Refused(f"The first day ({first}) is after the last ({last}).")
    for name in tables:
        _described(name, {})
    return Place.of(to)


def export(
    run: Any,
    spark: SparkSession,
    to: str,
    tables: Sequence[str] = (),
    from_day: str | None = None,
    to_day: str | None = None,
    url: str = "",
) -> None:
    """`archive` as a program: `{type: pyspark, entry: "tidegate.history:export"}`, with these as its arguments."""
    days = {"first": _day(from_day), "last": _day(to_day)}
    for one in archive(spark, to, tables=tables or TABLES, url=url, **days):
        run.log.info("%s %s: %s", one.table, one.day, one.left or f"{one.rows} rows")


# ── one table ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _archive(
    spark: SparkSession, table: Table, place: Place, first: date | None, last: date | None, url: str
) -> list[Archived]:
    from tidegate.pipeline.history_filters import number_of, together, written

    counted = {row.day: row for row in _source(spark, table.name, {"url": url, "ask": "counts"}).collect()}
    opened = {day for day, row in counted.items() if row.open}
    if table.name == "attempts":  # a run that has not ended may get further attempts
        opened |= {row.day for row in _source(spark, "runs", {"url": url, "ask": "counts"}).collect() if row.open}
    before = place.counts(spark, table)
    asked = first is not None or last is not None
    wanted = [
        day
        for day, row in sorted(counted.items())
        if (first is None or day >= first) and (last is None or day <= last)
        if asked or before.get(day) != row.rows
    ]
    days = [day for day in wanted if day not in opened]
    if days:
        spans = together([((number_of(day), number_of(day) + 1),) for day in days])
        place.write(_source(spark, table.name, {"url": url, "whole": written(spans)}), table)
    after = place.counts(spark, table) if days else before
    left = "something of it may still change"
    return [Archived(table.name, day, after.get(day, 0), left if day in opened else "") for day in wanted]


@dataclass(frozen=True, slots=True)
class Place:
    """Where days are kept: `folder/TABLE/day=...` as Parquet, or a table of Iceberg by day."""

    name: str
    iceberg: bool

    @classmethod
    def of(cls, text: str) -> Place:
        if "/" in text:
            return cls(text.rstrip("/"), iceberg=False)
        if text.count(".") >= 1 and all(part.isidentifier() for part in text.split(".")):
            return cls(text, iceberg=True)
        raise Refused(
            f"{text!r} is no place for an archive.",
            remedy="Name a folder or URI (with a '/'), for Parquet, or catalog.namespace, for Iceberg tables.",
        )

    def of_table(self, table: Table) -> str:
        return f"{self.name}.{table.name}" if self.iceberg else f"{self.name}/{table.name}"

    def read(self, spark: SparkSession, table: Table) -> DataFrame | None:
        """None: nothing was ever put there."""
        name = self.of_table(table)
        if self.iceberg:
            return spark.read.table(name) if spark.catalog.tableExists(name) else None
        from pyspark.errors import AnalysisException

        told = ", ".join(f"{one.name} {one.kind.spark}" for one in table.columns)
        try:
            found = spark.read.schema(told).parquet(name)
            found.schema  # noqa: B018 (with Spark Connect nothing is looked at before)
        except AnalysisException as fault:
            if fault.getCondition() == "PATH_NOT_FOUND":
                return None
            raise
        return found

    def counts(self, spark: SparkSession, table: Table) -> Mapping[date, int]:
        found = self.read(spark, table)
        return {} if found is None else {row[0]: row[1] for row in found.groupBy("day").count().collect()}

    def write(self, rows: DataFrame, table: Table) -> None:
        """Each day of these rows in place of what was there of it."""
        name = self.of_table(table)
        arranged = rows.repartition("day").sortWithinPartitions("day", table.reach.column)
        if not self.iceberg:
            writer = arranged.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
            writer.partitionBy("day").parquet(name)
            return
        spark = rows.sparkSession
        if not spark.catalog.tableExists(name):
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.name}")
            told = ", ".join(f"{one.name} {one.kind.spark} COMMENT '{_quoted(one.meaning)}'" for one in table.columns)
            spark.sql(f"CREATE TABLE {name} ({told}) USING iceberg PARTITIONED BY (day)")
        known = set(spark.read.table(name).columns)
        for one in table.columns:
            if one.name not in known:
                spark.sql(f"ALTER TABLE {name} ADD COLUMN {one.name} {one.kind.spark}")
        arranged.writeTo(name).overwritePartitions()


def _source(spark: SparkSession, table: str, options: Mapping[str, str]) -> DataFrame:
    from tidegate.pipeline.history_source import PLACES

    register(spark)
    reader = spark.read.format("tidegate").option("table", table)
    here = next((os.environ[name] for name in PLACES if os.environ.get(name)), "")
    for name, value in {**options, "url": options.get("url") or here}.items():
        if value or name == "whole":
            reader = reader.option(name, value)
    return reader.load()


def _described(table: str, options: Mapping[str, str]) -> Table:
    from tidegate.pipeline.history_source import Chosen

    return Chosen.of({**options, "table": table}).table


def _written(value: str | int | bool | Sequence[str]) -> str:
    """As an option of the data source."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)


def _within(days: Days) -> Column:
    from pyspark.sql import functions as f

    from tidegate.pipeline.history_filters import day_of

    day = f.col("day")
    spans = [(day >= f.lit(day_of(first))) & (day < f.lit(day_of(end))) for first, end in days]
    return reduce(lambda one, other: one | other, spans)


def _day(text: str | None) -> date | None:
    from tidegate.pipeline.history_source import day_written

    return None if text is None else day_written(text)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
