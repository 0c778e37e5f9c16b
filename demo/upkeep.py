"""A table in bad order, and what becomes of it: written in a hundred small commits, then kept by a policy.

What is claimed is counted from outside: files and rows from the table's own metadata and data through PyIceberg, the
budget from the operations on record and from what they say they read.
"""

from __future__ import annotations

import csv
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import httpx
import psycopg
import pyarrow as pa
from pyiceberg.expressions import In
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, DoubleType, IntegerType, NestedField, StringType, TimestamptzType

from demo.proof import PERIODS, SECOND, Claim

TABLE = "raw.flights"
DAYS, PIECES = 8, 13
"""So many past days, each in so many commits."""
BEFORE = 60
"""Days that lie between the past ones and those that land during the demo: they never meet."""
LIMIT = 150.0
"""Seconds that a slow machine has until the policy has done each of its operations."""
BUDGET_OPERATIONS, BUDGET_BYTES = 8, 64 << 20
"""As in examples/upkeep.yaml."""
KINDS = {"rewrite_data_files", "expire_snapshots", "rewrite_manifests"}
_TYPES = {
    "flight_date": DateType(),
    "carrier": StringType(),
    "flight": IntegerType(),
    "tailnum": StringType(),
    "origin": StringType(),
    "dest": StringType(),
    "dep_delay": DoubleType(),
    "arr_delay": DoubleType(),
    "distance": IntegerType(),
    "fire_time": TimestamptzType(),
}
SCHEMA = Schema(*(NestedField(n, name, kind, required=False) for n, (name, kind) in enumerate(_TYPES.items(), 1)))
BY_DAY = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="flight_date"))


@dataclass(frozen=True)
class Shape:
    """A table at one moment: its snapshots and manifests, and of the past days their files and rows. `seconds`: how
    long it took to read these."""

    files: int
    snapshots: int
    manifests: int
    rows: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.files} data files of {DAYS} past days, whose {self.rows:,} rows are read in {self.seconds:.2f} s; "
            f"{self.snapshots} snapshots, {self.manifests} manifests"
        )


@dataclass(frozen=True)
class Past:
    """What was written before Tidegate knew of the table."""

    days: Sequence[date]
    rows: int
    snapshots: frozenset[int]
    shape: Shape


class Story(Protocol):
    """What is told, and by whom (`demo.__main__.Story`)."""

    api: httpx.Client
    seen: set[tuple[str, str]]

    def say(self, text: str) -> None: ...
    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]: ...
    def watch_until(self, done: Callable[[], bool], limit: float) -> bool: ...


class Keeping:
    """The part of the demo in which a table is put in order."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.past: Past | None = None

    def write_past(self, catalog: Any) -> None:
        """Past days of flights in a hundred small commits, by a writer that knows nothing of Tidegate."""
        from flights_data import day_of, file_of

        now = datetime.fromtimestamp(time.time_ns() // 10**9, UTC)

        def told(days: int) -> None:
            if days % 4 == 0:
                self.story.say(f"[dim]{days} of {DAYS} past days, in {days * PIECES} commits[/dim]")

        self.past = write_past(catalog, file_of, day_of(now, PERIODS["ingest"]), told)
        self.story.say(f"another writer left lake.raw.flights in bad order: {self.past.shape}")

    def apply(self) -> None:
        """Apply the policy."""
        done = self.story.command("apply", "-f", "examples/upkeep.yaml")
        if done.returncode:
            raise SystemExit(f"tidegate apply failed:\n{done.stdout}{done.stderr}")
        self.story.say("tidegate apply -f examples/upkeep.yaml: a policy, which puts that in order while flights land")

    def runs(self) -> list[dict[str, Any]]:
        """The runs that maintained the table, newest first; none while the API does not answer."""
        try:
            answer = self.story.api.get(f"/tables/lake.{TABLE}/runs", params={"limit": 50})
            return list(answer.json()["items"]) if answer.status_code == 200 else []
        except (httpx.HTTPError, ValueError):
            return []

    def look(self) -> None:
        """Tell of each operation that ended since the last look."""
        for run in reversed(self.runs()):
            if run["outcome"] and (run["run"], run["outcome"]) not in self.story.seen:
                self.story.seen.add((run["run"], run["outcome"]))
                colour = "green" if run["outcome"] == "succeeded" else "red"
                said = (run["result"] or {}).get("message") or ""
                self.story.say(f"policy  {run['operation']}  [{colour}]{run['outcome']}[/{colour}]  {said}")

    def wait(self) -> None:
        """Until each operation of the policy has changed something."""

        def kept() -> bool:
            ended = [one for one in self.runs() if one["outcome"] == "succeeded"]
            return {one["operation"] for one in ended if (one["result"] or {}).get("changed")} >= KINDS

        if not self.story.watch_until(kept, LIMIT):
            self.story.say(f"[yellow]a slow machine: after {LIMIT:.0f} s the table is not in order yet[/yellow]")

    def end(self) -> None:
        """Let no more begin, and what runs end: what is read to prove it must not be tidied away meanwhile."""
        self.story.command("policies", "disable", "--reason", "end of the demo")
        self.story.watch_until(lambda: all(one["outcome"] for one in self.runs()), 60)


def write_past(catalog: Any, file_of: Callable[[str, date], Path], newest: date, told: Callable[[int], None]) -> Past:
    """Past days of flights, each in small commits, as a stream that commits every hour or so leaves them. `newest`: the
    day that lands about now; `told` hears of each day's end."""
    catalog.create_namespace_if_not_exists("raw")
    # As a stream writes: each commit leaves a manifest of its own, and none tidies up behind the others.
    streamed = {"commit.manifest-merge.enabled": "false"}
    table = catalog.create_table(TABLE, SCHEMA, partition_spec=BY_DAY, properties=streamed)
    days = [_back(newest, BEFORE + number) for number in range(DAYS)]
    rows = 0
    for number, day in enumerate(days, 1):
        with file_of("flights", day).open(newline="") as stream:
            found = list(csv.DictReader(stream))
        size = -(-len(found) // PIECES)
        for start in range(0, len(found), size):
            table.append(_arrow(day, found[start : start + size]))
        rows += len(found)
        told(number)
    return Past(days, rows, frozenset(one.snapshot_id for one in table.metadata.snapshots), shape(table, days))


def shape(table: Any, days: Sequence[date]) -> Shape:
    """How it is now, and how long it takes to read those days: the best of two."""
    snapshot = table.current_snapshot()
    tasks = list(table.scan(row_filter=In("flight_date", days)).plan_files())
    seconds, rows = [], 0
    for _ in range(2):
        begun = time.monotonic()
        rows = table.scan(row_filter=In("flight_date", days)).to_arrow().num_rows
        seconds.append(time.monotonic() - begun)
    return Shape(len(tasks), len(table.metadata.snapshots), len(snapshot.manifests(table.io)), rows, min(seconds))


@dataclass(frozen=True)
class Upkeep:
    """A run that maintained the table; instants in microseconds."""

    operation: str
    outcome: str
    started_at: int
    finished_at: int
    changed: bool
    bytes: int


def done(connection: psycopg.Connection[Any]) -> list[Upkeep]:
    """What maintained the table, oldest first."""
    rows = connection.execute(
        "SELECT m.operation, coalesce(r.outcome, 'open'), coalesce(r.started_at, m.at), coalesce(r.finished_at, m.at),"
        " coalesce((m.result->>'changed')::boolean, false), coalesce((m.result->>'bytes_rewritten')::bigint, 0)"
        " FROM maintenance m JOIN run r ON r.slot = m.slot AND r.schedule_id = m.schedule_id AND r.ord = m.ord"
        " WHERE m.name = %s ORDER BY m.at",
        [f"lake.{TABLE}"],
    ).fetchall()
    return [Upkeep(*row) for row in rows]


def prove(
    connection: psycopg.Connection[Any],
    past: Past,
    after: Shape,
    landed: Sequence[int],
    claims: Callable[[Claim], None],
) -> None:
    """What the policy made of the table. `landed`: when each day's ingest ended. Rows are compared elsewhere, one day's
    count with the airline's."""
    kept = [one for one in done(connection) if one.outcome == "succeeded" and one.changed]
    counts = Counter(one.operation for one in kept)
    before = past.shape
    claims(
        Claim(
            "the policy put the table in order: files rewritten, snapshots expired, manifests rewritten",
            counts.keys() >= KINDS
            and after.files * 2 < before.files
            and after.snapshots < before.snapshots
            and after.manifests < before.manifests
            and after.rows == before.rows,
            f"before: {before}; after, with what landed meanwhile: {after}",
        )
    )
    begun, ended = min((one.started_at for one in kept), default=0), max((one.finished_at for one in kept), default=0)
    meanwhile = sum(begun <= one <= ended for one in landed)
    claims(
        Claim(
            "that was done while flights went on landing",
            meanwhile > 0,
            f"{meanwhile} days landed between the first operation and the end of the last,"
            f" {(ended - begun) / SECOND:.0f} s later",
        )
    )
    all_of = done(connection)
    read = sum(one.bytes for one in all_of)
    claims(
        Claim(
            "that kept to its budget of 8 operations and 64 MiB in ten minutes",
            len(all_of) <= BUDGET_OPERATIONS and read <= BUDGET_BYTES,
            f"{len(all_of)} operations ({', '.join(f'{count} {name}' for name, count in counts.items())}),"
            f" {read / (1 << 20):.2f} MiB rewritten",
        )
    )


def _back(newest: date, days: int) -> date:
    """So many days before, round the year 2013."""
    first = date(2013, 1, 1)
    return first + timedelta(days=((newest - first).days - days) % 365)


def _arrow(day: date, rows: Sequence[dict[str, str]]) -> pa.Table:
    def values(name: str) -> list[Any]:
        match _TYPES[name]:
            case DateType():
                return [day] * len(rows)
            case TimestamptzType():
                return [datetime(day.year, day.month, day.day, tzinfo=UTC)] * len(rows)
            case kind:
                read = {StringType(): str, IntegerType(): int, DoubleType(): float}[kind]
                return [None if row[name] == "NA" else read(row[name]) for row in rows]

    return pa.table([values(name) for name in _TYPES], schema=SCHEMA.as_arrow())
