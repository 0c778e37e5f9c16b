"""A run's input: for every dataset that its trigger names, the range of snapshots that is new to it.

    new = run.inputs["lake.raw.flights"].read(spark)      # exactly the rows that came with these snapshots
    all = run.inputs[weather].table(spark)                # the whole table, as of this run

The range is fixed when the run begins. A rerun reads the same rows, although the table has moved on or was compacted
since, for as long as the table keeps the snapshots.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.domain.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.sdk.data import Dataset

_CHANGE = "concat(_change_type, '') = '{}'"
"""As an expression that Spark does not hand down to the scan, which has no such column to filter by."""
_APPENDS = frozenset({"append", "replace"})


class SnapshotExpired(Refused):
    """The table does not keep the snapshots any more that a run reads."""

    code = "input.expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """What is new in one dataset, and how to read it.

    The range is open at `from_snapshot` and closed at `to_snapshot`. `from_snapshot` None: everything up to
    `to_snapshot`; both the same (or None): nothing came. `rows`, `bytes` and `partitions` are what the commits said
    that they added (and partitions they changed), at most a thousand names.
    """

    dataset: str
    from_snapshot: int | None = None
    to_snapshot: int | None = None
    rows: int = 0
    bytes: int = 0
    events: int = 0
    partitions: tuple[str, ...] = ()
    table_uuid: str | None = None

    @classmethod
    def of(cls, dataset: str, given: Mapping[str, Any]) -> Input:
        """From the run's context; ranges of datasets that are no tables stay names only."""
        return cls(
            dataset=dataset,
            from_snapshot=_number(given.get("from_snapshot")),
            to_snapshot=_number(given.get("to_snapshot")),
            rows=given.get("rows") or 0,
            bytes=given.get("bytes") or 0,
            events=given.get("events") or 0,
            partitions=tuple(given.get("partitions") or ()),
            table_uuid=given.get("table_uuid"),
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing came."""
        return self.from_snapshot == self.to_snapshot

    def read(self, spark: SparkSession) -> DataFrame:
        """The new rows: those that the table has at `to_snapshot` and had not at `from_snapshot`.

        Where the range only appends, these are the appended rows. Where it also deletes or overwrites, they are the
        rows that were inserted, and the updated ones as they are afterwards. Nothing new: no rows, with the table's
        columns. Raises SnapshotExpired when the table no longer keeps the range.
        """
        return _Reader(spark, self).new()

    def table(self, spark: SparkSession) -> DataFrame:
        """The whole table as of `to_snapshot`; where nothing ever came, as it is now."""
        return _Reader(spark, self).whole()


class Inputs(Mapping[str, Input]):
    """Inputs by the dataset's name, or by the dataset itself."""

    def __init__(self, given: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._inputs = {name: Input.of(name, one) for name, one in (given or {}).items()}

    def __getitem__(self, dataset: str | Dataset) -> Input:
        try:
            return self._inputs[str(dataset)]
        except KeyError:
            known = ", ".join(self._inputs) or "none: its trigger names no dataset"
            raise KeyError(f"{dataset} is no input of this run; its inputs are {known}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._inputs)

    def __len__(self) -> int:
        return len(self._inputs)

    def __repr__(self) -> str:
        return f"Inputs({', '.join(self._inputs)})"


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else int(value) if isinstance(value, str) and value.isdecimal() else None


@dataclass(frozen=True, slots=True)
class _Commit:
    """A snapshot as the table's own `.snapshots` tells it."""

    id: int
    parent: int | None
    operation: str
    has_deletes: bool


class _Reader:
    """One reading of one input. Works in a session of its own and over Spark Connect: nothing but DataFrames."""

    def __init__(self, spark: SparkSession, wanted: Input) -> None:
        self._spark, self._wanted = spark, wanted
        self._name = ".".join(f"`{part.replace('`', '``')}`" for part in wanted.dataset.split("."))
        if not self._is_table():
            raise Refused(
                f"{wanted.dataset} is not a table of an Iceberg catalog that this session knows.",
                remedy="Catalogs are named in tidegate.toml, [lake.catalogs.NAME]; streams and files are read by their "
                "own means.",
                code="input.no_table",
            )

    def _is_table(self) -> bool:
        catalog, *rest = self._wanted.dataset.split(".")
        return len(rest) > 1 and self._spark.conf.get(f"spark.sql.catalog.{catalog}", None) is not None

    def whole(self) -> DataFrame:
        wanted = self._wanted
        if wanted.to_snapshot is None:
            return self._spark.table(self._name)
        if wanted.to_snapshot not in self._history():
            raise self._expired(wanted.to_snapshot)
        return self._as_of(wanted.to_snapshot)

    def new(self) -> DataFrame:
        wanted = self._wanted
        if wanted.to_snapshot is None:
            return self._spark.table(self._name).limit(0)
        history = self._history()
        if wanted.to_snapshot not in history:
            if wanted.is_empty:
                return self._spark.table(self._name).limit(0)
            raise self._expired(wanted.to_snapshot)
        there = self._as_of(wanted.to_snapshot)
        if wanted.is_empty:
            return there.limit(0)
        if wanted.from_snapshot is None:
            return there
        start, commits = self._range(history)
        if not commits or all(one.operation == "replace" for one in commits):
            return there.limit(0)
        if all(one.operation in _APPENDS for one in commits):
            found = self._between("", start)
            if set(there.columns) <= set(found.columns):
                return _like(found, there)
        elif not any(one.has_deletes for one in commits):
            changes = self._between(".changes", start)
            if set(there.columns) <= set(changes.columns):
                inserted = _like(changes.where(_CHANGE.format("INSERT")), there)
                return inserted.exceptAll(_like(changes.where(_CHANGE.format("DELETE")), there))
        # Rows deleted by position, or columns that the table has lost since: the two versions tell.
        if start not in history:
            raise self._expired(start)
        return there.exceptAll(_like(self._as_of(start), there))

    def _range(self, history: Mapping[int, _Commit]) -> tuple[int, list[_Commit]]:
        """Where the range begins (the same rows, if the table was rolled back to before it), and its commits."""
        wanted = self._wanted
        assert wanted.from_snapshot is not None and wanted.to_snapshot is not None
        before: set[int] = set()
        at: int | None = wanted.from_snapshot
        while at is not None:
            before.add(at)
            known = history.get(at)
            at = known.parent if known else None
        commits: list[_Commit] = []
        at = wanted.to_snapshot
        while at not in before:
            if at is None or at not in history:
                raise self._expired(wanted.from_snapshot)
            commits.append(history[at])
            at = history[at].parent
        assert at is not None
        return at, commits

    def _history(self) -> dict[int, _Commit]:
        frame = self._spark.table(f"{self._name}.`snapshots`").selectExpr(
            "snapshot_id",
            "parent_id",
            "operation",
            "coalesce(summary['total-delete-files'], '0') != '0' OR "
            "coalesce(summary['removed-delete-files'], '0') != '0' AS deletes",
        )
        return {
            row.snapshot_id: _Commit(row.snapshot_id, row.parent_id, row.operation, row.deletes)
            for row in frame.collect()
        }

    def _as_of(self, snapshot: int) -> DataFrame:
        return self._spark.sql(f"SELECT * FROM {self._name} VERSION AS OF {snapshot}")

    def _between(self, what: str, start: int) -> DataFrame:
        reader = self._spark.read.option("start-snapshot-id", start)
        name = f"{self._name}.`{what[1:]}`" if what else self._name
        return reader.option("end-snapshot-id", str(self._wanted.to_snapshot)).table(name)

    def _expired(self, snapshot: int) -> SnapshotExpired:
        wanted = self._wanted
        return SnapshotExpired(
            f"The input of this run is {wanted.dataset} after snapshot {wanted.from_snapshot} up to "
            f"{wanted.to_snapshot}, but the table does not keep snapshot {snapshot} any more, "
            "so what is new cannot be told from what is not.",
            remedy="Read the whole table instead (`.table(spark)`, or spark.table), and let the table keep its "
            "snapshots for longer than runs may wait: `history.expire.max-snapshot-age-ms`, or the older_than of "
            "whatever expires them.",
        )


def _like(frame: DataFrame, model: DataFrame) -> DataFrame:
    """The same columns, in order and of the same types: columns may have been added or widened since."""
    return frame.selectExpr(
        *(
            f"CAST(`{field.name.replace('`', '``')}` AS {field.dataType.simpleString()}) AS "
            f"`{field.name.replace('`', '``')}`"
            if frame.schema[field.name].dataType != field.dataType
            else f"`{field.name.replace('`', '``')}`"
            for field in model.schema.fields
        )
    )
