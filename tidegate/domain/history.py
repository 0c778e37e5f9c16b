"""What there is to ask of history, and what each column means: for the SQL views, for Spark, and for the reference.

The views of the schema `tidegate_history`, the DataFrames of `tidegate.history` and the archives all have these
columns, by these names, in this order. Names stay; columns are added at the end. Instants are in UTC; spans are
seconds.

Each table has a `day`, the UTC day by which retention drops it and archives keep it, and a whole number, its `Reach`,
by which PostgreSQL finds the rows of a span without looking at others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from tidegate.domain.instants import DAY

SCHEMA = "tidegate_history"


class Kind(Enum):
    """What a column holds: the type that PostgreSQL's view has, and the one that Spark shows."""

    TEXT = ("text", "string")
    JSON = ("jsonb", "string")
    INSTANT = ("timestamp with time zone", "timestamp")
    DAY = ("date", "date")
    NUMBER = ("double precision", "double")
    COUNT = ("bigint", "bigint")
    INTEGER = ("integer", "int")
    FLAG = ("boolean", "boolean")

    @property
    def postgres(self) -> str:
        return self.value[0]

    @property
    def spark(self) -> str:
        return self.value[1]


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: Kind
    meaning: str


@dataclass(frozen=True, slots=True)
class Reach:
    """The whole number by which rows of a span are found: microseconds since 1970, or `per_day` 1: days since then."""

    column: str
    per_day: int = DAY


@dataclass(frozen=True, slots=True)
class Table:
    """`key`: what no two rows share. `partitioned`: the table behind it whose days are dropped whole, if it has such;
    else its oldest row says how far back it goes. `dated`: the instant whose day is `day`. `open`: the condition in
    SQL under which a row may still change."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    reach: Reach
    partitioned: str | None = None
    dated: str | None = None
    open: str = "false"

    def column(self, name: str) -> Column | None:
        return next((one for one in self.columns if one.name == name), None)


_T, _J, _I, _N, _C = Kind.TEXT, Kind.JSON, Kind.INSTANT, Kind.NUMBER, Kind.COUNT

_RUN = (
    Column("run_id", _T, "the run's id, as `tidegate runs` prints it"),
    Column("namespace", _T, "of the schedule"),
    Column("schedule", _T, "name of the schedule; a deleted one keeps its rows"),
)
_RUN_KEY = (
    Column(
        "slot",
        _C,
        "first part of the run's key: the fire time of a run by a clock (cause fire), else (a backfill's, too) when it "
        "was made; microseconds since 1970",
    ),
    Column("schedule_id", _C, "second part; a schedule that is made again under its name has another"),
    Column("ord", _C, "third part"),
)

RUNS = Table(
    "runs",
    "one row for each run of the ledger; stretches of missed fires are in `missed`",
    (
        Column(
            "day",
            Kind.DAY,
            "UTC day of the slot: of the fire time where a clock made the run (cause fire), else (a backfill's, too) "
            "of when it was made",
        ),
        *_RUN,
        Column("application", _T, "that the schedule belongs to; null: none"),
        Column("program", _T, "name of the program, of the same namespace"),
        Column("revision", _C, "of the schedule"),
        Column("cause", _T, "fire, evidence, backfill, manual or rerun"),
        Column("caused_by", _T, "who asked, of a cause that is a person's"),
        Column("state", _T, "waiting, ready, starting, running, stopping, or how it ended (succeeded, failed, ...)"),
        Column("reason", _T, "why it ended so"),
        Column("priority", _C, "0 to 100"),
        Column("fire_time", _I, "the instant that a time trigger stands for; null: no clock made it"),
        Column("created_at", _I, "when it was put on record"),
        Column("ready_at", _I, "when its last constraint let it go; null: not yet, or never"),
        Column("started_at", _I, "when its first attempt was handed over; null: not yet, or never"),
        Column("finished_at", _I, "when its outcome was final; null: it has none"),
        Column("waited_seconds", _N, "from created_at to started_at"),
        Column("duration_seconds", _N, "from started_at to finished_at, waiting between attempts included"),
        Column("merged_into", _T, "id of the run that took this one in"),
        Column("arguments", _J, "JSON: what the program was given"),
        Column("inputs", _J, "JSON: by dataset, what it was to read"),
        *_RUN_KEY,
    ),
    ("slot", "schedule_id", "ord"),
    Reach("slot"),
    partitioned="run",
    open="finished_at IS NULL",
)

ATTEMPTS = Table(
    "attempts",
    "one row for each attempt of a run",
    (
        Column("day", Kind.DAY, "UTC day of the run's slot, also when the attempt was made later"),
        *_RUN,
        Column("program", _T, "name of the program"),
        Column("number", _C, "which attempt of the run, from 1"),
        Column(
            "outcome", _T, "succeeded, failed, timed_out, cancelled, crashed, lost or refused; open: it has not ended"
        ),
        Column("code", _T, "what is said of the end, as one word, e.g. program.exit"),
        Column("message", _T, "what is said of the end, as a sentence"),
        Column("backend", _T, "what it ran on, e.g. spark or command"),
        Column("backend_id", _T, "what the backend calls it"),
        Column("host", _T, "machine and home of the worker"),
        Column("created_at", _I, "when it was taken for launching"),
        Column("started_at", _I, "when it was handed over to the backend"),
        Column("finished_at", _I, "when its end was put on record"),
        Column("duration_seconds", _N, "from started_at to finished_at"),
        Column("note", _J, "JSON: all that the end said"),
        *_RUN_KEY,
    ),
    ("slot", "schedule_id", "ord", "number"),
    Reach("slot"),
    partitioned="attempt",
    open="finished_at IS NULL",
)

EVENTS = Table(
    "events",
    "the event log",
    (
        Column("day", Kind.DAY, "UTC day on which it was put on record"),
        Column("at", _I, "when it was put on record"),
        Column("type", _T, "e.g. dataset.updated, run.failed, user.NAME"),
        Column("key", _T, "what it is about, e.g. a table's path"),
        Column("namespace", _T, "of the schedule, of events about runs and schedules"),
        Column("schedule", _T, "of events about runs and schedules"),
        Column("run_id", _T, "of events about runs"),
        Column("time", _I, "when it happened, if its publisher says so"),
        Column("source", _T, "who published it"),
        Column("source_id", _T, "the publisher's id of it"),
        Column("payload", _J, "JSON: what it says"),
        Column("pos", _C, "its place in the log"),
        Column("day_number", Kind.INTEGER, "days since 1970, in UTC"),
    ),
    ("day_number", "pos"),
    Reach("day_number", 1),
    partitioned="event",
    dated="at",
)

MISSED = Table(
    "missed",
    "one row for each stretch of fires that passed without a run",
    (
        Column("day", Kind.DAY, "UTC day of its last fire"),
        Column("namespace", _T, "of the schedule"),
        Column("schedule", _T, "name of the schedule"),
        Column("state", _T, "missed or superseded"),
        Column("fires", _C, "how many"),
        Column("first_fire", _I, "the first of them"),
        Column("last_fire", _I, "the last of them"),
        Column("reason", _T, "why there is no run"),
        Column("decided_at", _I, "when that was found"),
        Column("schedule_id", _C, "a schedule that is made again under its name has another"),
        Column("first_fire_us", _C, "first_fire in microseconds since 1970"),
        Column("last_fire_us", _C, "last_fire in microseconds since 1970"),
    ),
    ("schedule_id", "first_fire_us"),
    Reach("last_fire_us"),
    dated="last_fire",
)

MAINTENANCE = Table(
    "maintenance",
    "one row for each operation on a table that was started, by policies or by hand",
    (
        Column("day", Kind.DAY, "UTC day on which it was put on record"),
        Column("run_id", _T, "its run; how that went is in `runs` and `attempts`"),
        Column("table_name", _T, "path of the table"),
        Column("operation", _T, "e.g. rewrite_data_files"),
        Column("policy", _T, "whose options it had; null: of none"),
        Column("policy_revision", _C, "of the policy"),
        Column("manual", Kind.FLAG, "whether a person asked"),
        Column("outcome", _T, "how it ended; null: it is under way"),
        Column("changed", Kind.FLAG, "whether it changed anything, counted from snapshots; null: unknown"),
        Column("created_at", _I, "when it was put on record, and its budget reserved"),
        Column("started_at", _I, "when its first attempt was handed over"),
        Column("finished_at", _I, "when its outcome was final"),
        Column("duration_seconds", _N, "from started_at to finished_at"),
        Column("settled_at", _I, "when its budget was settled"),
        Column("budget_bytes", _C, "of its policy's budget: reserved until it is settled, spent from then on"),
        Column("bytes_rewritten", _C, "size of the files it replaced; null: unknown"),
        Column("files_removed", _C, "by how many the data files became fewer by its own commits; null: unknown"),
        Column("files_before", _C, "data files of the table before it"),
        Column("files_after", _C, "data files of the table after it, those of writers meanwhile included"),
        Column("snapshots_expired", _C, "how many; null: unknown"),
        Column("message", _T, "what it did, as a sentence"),
        Column("result", _J, "JSON: all that it said"),
        *_RUN_KEY,
        Column("created_us", _C, "created_at in microseconds since 1970"),
    ),
    ("schedule_id", "slot", "ord"),
    Reach("created_us"),
    dated="created_at",
    open="settled_at IS NULL",
)

HEALTH = Table(
    "health",
    "one row for each time that a table was measured",
    (
        Column("day", Kind.DAY, "UTC day on which it was measured"),
        Column("table_name", _T, "path of the table"),
        Column("measured_at", _I, "when"),
        Column("debt", _N, "its debt then, 0 to 1000"),
        Column("snapshot_id", _T, "the snapshot that was measured; null: the table had none"),
        Column("rows", _C, "rows of the table; null, here and below: unknown"),
        Column("data_files", _C, "data files"),
        Column("data_bytes", _C, "their size"),
        Column("small_files", _C, "data files that are small by the policy"),
        Column("delete_files", _C, "delete files"),
        Column("manifests", _C, "manifests of the snapshot"),
        Column("snapshots", _C, "snapshots that the table kept"),
        Column("partitions", _C, "partitions with data"),
        Column("changed_at", _I, "newest commit then that brought or took rows"),
        Column("measured_us", _C, "measured_at in microseconds since 1970"),
    ),
    ("table_name", "measured_us"),
    Reach("measured_us"),
    dated="measured_at",
)

TABLES: Mapping[str, Table] = MappingProxyType(
    {one.name: one for one in (RUNS, ATTEMPTS, EVENTS, MISSED, MAINTENANCE, HEALTH)}
)
