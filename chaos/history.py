"""What happened, from three witnesses: the programs' own journal, the database's tables, and what the API answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psycopg

from chaos.workload import NAMESPACE


class Line(NamedTuple):
    """One line of the journal. `what`: B begins, E ends well, F ends badly. `at` in microseconds."""

    what: str
    run: str
    attempt: int
    fence: int
    schedule: str
    at: int


class RunRow(NamedTuple):
    """One row of the ledger."""

    schedule: str
    slot: int
    schedule_id: int
    ord: int
    fire_time: int | None
    cause: str
    outcome: str | None
    created_at: int
    started_at: int | None

    @property
    def key(self) -> tuple[int, int, int]:
        return (self.slot, self.schedule_id, self.ord)


class AttemptRow(NamedTuple):
    """One closed attempt."""

    key: tuple[int, int, int]
    number: int
    fence: int
    outcome: str
    created_at: int
    finished_at: int


class Told(NamedTuple):
    """An event as it is in the log, or as it arrived in the table that a sink writes. `lane`: within it the order
    counts."""

    pos: int
    type: str
    lane: str


class Stretch(NamedTuple):
    schedule: str
    first: int
    last: int
    n: int
    outcome: str


@dataclass(kw_only=True)
class History:
    """Everything that the laws look at. Instants in microseconds since 1970."""

    journal: list[Line]
    runs: list[RunRow]
    attempts: list[AttemptRow]
    stretches: list[Stretch]
    reigns: Mapping[str, tuple[int, int]]  # schedule -> enabled at, put to rest at
    log: list[tuple[str, str]]  # type and publisher's id of each published event
    told: Mapping[tuple[tuple[int, int, int], str], int]  # run, type -> how often its event is in the log
    owed: list[Told]  # the whole log
    arrived: list[Told]  # what the sink's table has, as it came
    left: Mapping[str, int]  # what should be nothing, by name
    answers: list[Mapping[str, Any]]  # runs as the API tells them
    published: list[tuple[str, str]] = field(default_factory=list)
    triggered: list[str] = field(default_factory=list)
    once_at: int = 0


def read_journal(path: Path) -> list[Line]:
    found = []
    for text in path.read_text().splitlines():
        what, run, attempt, fence, schedule, _, at = text.split()
        found.append(Line(what, run, int(attempt), int(fence), schedule, int(at) // 1000))
    return found


LEFT = {
    "runs that neither ended nor go on": "SELECT count(*) FROM run_live",
    "attempts that are open": "SELECT count(*) FROM attempt_open",
    "places of limits that nobody holds": "SELECT coalesce(sum(held), 0) FROM limit_counter",
    "slots of pools that nobody holds": "SELECT coalesce(sum(used), 0) FROM pool",
    "news that nobody took": "SELECT count(*) FROM event_inbox",
    "sinks that are behind": "SELECT count(*) FROM sink WHERE pos < (SELECT coalesce(max(pos), 0) FROM event)",
    "events that a sink set aside": "SELECT count(*) FROM sink_refusal",
    "duties with more than one owner": "SELECT count(*) - count(DISTINCT duty) FROM lease",
}


def read(url: str, api: str, journal: Path) -> History:
    """The database is read in one snapshot, by plain SQL."""
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")

        def rows(statement: str) -> list[Any]:
            return connection.execute(statement).fetchall()

        runs = rows(
            "SELECT s.name, r.slot, r.schedule_id, r.ord, r.fire_time, r.cause, r.outcome, r.created_at, r.started_at"
            " FROM run r JOIN schedule s ON s.id = r.schedule_id"
        )
        attempts = rows("SELECT slot, schedule_id, ord, number, fence, outcome, created_at, finished_at FROM attempt")
        stretches = rows(
            "SELECT s.name, f.from_fire, f.to_fire, f.n, f.outcome FROM fire_range f"
            " JOIN schedule s ON s.id = f.schedule_id"
        )
        reigns = rows(
            "SELECT s.name, min(r.valid_from) FILTER (WHERE r.mode = 'enabled'),"
            " max(r.valid_from) FILTER (WHERE r.mode <> 'enabled')"
            " FROM revision r JOIN schedule s ON s.id = r.schedule_id GROUP BY s.name"
        )
        log = rows("SELECT type, source_id FROM event WHERE source_id IS NOT NULL")
        told = rows(
            "SELECT slot, schedule_id, ord, type, count(*) FROM event WHERE slot IS NOT NULL GROUP BY 1, 2, 3, 4"
        )
        owed = rows(
            "SELECT e.pos, e.type, coalesce(s.namespace || '/' || s.name, e.key)"
            " FROM event e LEFT JOIN schedule s ON s.id = e.schedule_id"
        )
        arrived = rows("SELECT id::bigint, type, coalesce(schedule, key) FROM chaos.told ORDER BY n")
        left = {name: int(rows(statement)[0][0]) for name, statement in LEFT.items()}
    return History(
        journal=read_journal(journal),
        runs=[RunRow(*row) for row in runs],
        attempts=[AttemptRow(tuple(row[:3]), *row[3:]) for row in attempts],
        stretches=[Stretch(*row) for row in stretches],
        reigns={name: (first, last) for name, first, last in reigns},
        log=[tuple(row) for row in log],
        told={(tuple(row[:3]), row[3]): row[4] for row in told},
        owed=[Told(*row) for row in owed],
        arrived=[Told(*row) for row in arrived],
        left=left,
        answers=_pages(api),
    )


def _pages(api: str) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    query: dict[str, Any] = {"limit": 1000}
    while True:
        answer = httpx.get(f"{api}/api/v1/namespaces/{NAMESPACE}/runs", params=query, trust_env=False, timeout=60)
        answer.raise_for_status()
        page = answer.json()
        found += page["items"]
        if not page.get("next"):
            return found
        query["cursor"] = page["next"]


def by_schedule(history: History) -> dict[str, list[RunRow]]:
    found: dict[str, list[RunRow]] = defaultdict(list)
    for run in history.runs:
        found[run.schedule].append(run)
    return found
