"""A database of the version before, full of runs, and a process of that version, to upgrade under its feet.

The process is a thread that lives the life of one run after another, with the very statements that the version before
had (`before.sql`). Nothing here may follow the newer schema: it stands for code that knows nothing of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg

from tidegate.domain.instants import DAY, Instant
from tidegate.domain.programs import Command
from tidegate.domain.schedules import ScheduleSpec
from tidegate.domain.triggers import Never
from tidegate.store import arrays, migrate
from tidegate.store.arrays import Bools, Ints, Texts
from tidegate.store.codec import encode
from tidegate.store.partitions import partition_name
from tidegate.store.sql import Queries

BASE = "0010_tables"
"""The newest migration that the version before knew."""
BIG = ("run", "attempt", "event", "run_live", "attempt_open", "clock", "schedule", "schedule_stats", "revision")
"""Tables that grow with what was declared and what ran."""
DAYS, SCHEDULES = 10, 100
Q = Queries("before", (Path(__file__).parent / "before.sql").read_text())
_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_LASTING = ("AccessExclusiveLock", "ExclusiveLock", "ShareRowExclusiveLock", "ShareLock")
"""Locks on a table with which nobody else writes to it."""


def make(url: str, runs: int, live: int) -> None:
    """The schema of the version before, `runs` that ended within ten days, each with its attempt and two events, and
    `live` runs that wait."""
    migrate.upgrade(url, until=BASE)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        connection.execute("ALTER TABLE event DISABLE TRIGGER event_tell")
        now = _first(connection, _NOW)
        for day in range(now // DAY - DAYS, now // DAY + 2):
            for table, unit in (("run", DAY), ("attempt", DAY), ("event", 1), ("arrival", 1)):
                name = partition_name(table, day)
                bounds = f"FROM ({day * unit}) TO ({(day + 1) * unit})"
                connection.execute(f"CREATE TABLE {name} PARTITION OF {table} FOR VALUES {bounds}".encode())
        _declare(connection)
        _fill(connection, now - DAYS * DAY, runs, live, now)
        connection.execute("ALTER TABLE event ENABLE TRIGGER event_tell")
        connection.execute("VACUUM (ANALYZE)")


def _first(connection: psycopg.Connection[Any], question: str, *given: object) -> int:
    row = connection.execute(question.encode(), given).fetchone()
    assert row is not None
    return int(row[0])


def _declare(connection: psycopg.Connection[Any]) -> None:
    program, spec = encode(Command(argv=("true",))), encode(ScheduleSpec(program="noop", trigger=Never()))
    for statement, given in (
        ("INSERT INTO namespace (name, created_at) VALUES ('bench', 0)", ()),
        ("INSERT INTO program (namespace, name, rev) VALUES ('bench', 'noop', 1)", ()),
        ("INSERT INTO program_revision SELECT id, 1, '{}', %s, 0, 'bench' FROM program", (program,)),
        (
            "INSERT INTO schedule (namespace, name, program_id, created_at)"
            " SELECT 'bench', 's' || g, p.id, 0 FROM program p, generate_series(1, %s) g",
            (SCHEDULES,),
        ),
        (
            "INSERT INTO revision (schedule_id, rev, valid_from, mode, document, spec, tzdata, author)"
            " SELECT id, 1, 0, 'enabled', '{}', %s, '', 'bench' FROM schedule",
            (spec,),
        ),
        (
            "INSERT INTO clock (schedule_id, program_id, rev, cursor_rev, mode, cursor)"
            " SELECT id, program_id, 1, 1, 'enabled', 0 FROM schedule",
            (),
        ),
        ("INSERT INTO schedule_stats (schedule_id) SELECT id FROM schedule", ()),
    ):
        connection.execute(statement.encode(), given)


def _fill(connection: psycopg.Connection[Any], begin: Instant, runs: int, live: int, now: Instant) -> None:
    every = DAYS * DAY // max(runs, 1)
    mine = {"begin": begin, "every": every, "runs": runs, "schedules": SCHEDULES, "now": now, "live": live}
    ended = "generate_series(1, %(runs)s) g, LATERAL (SELECT %(begin)s::bigint + g * %(every)s::bigint AS slot,"
    ended += " g %% %(schedules)s + 1 AS schedule) k"
    for statement in (
        "INSERT INTO run (slot, schedule_id, ord, rev, program_id, program_rev, fire_time, cause, priority, created_at,"
        " ready_at, started_at, finished_at, outcome)"
        " SELECT slot, schedule, 0, 1, 1, 1, slot, 'fire', 50, slot, slot + 1, slot + 2, slot + 3, 'succeeded'"
        f" FROM {ended}",
        "INSERT INTO attempt (slot, schedule_id, ord, number, instance_id, host, fence, backend, created_at,"
        " started_at, finished_at, outcome)"
        f" SELECT slot, schedule, 0, 1, 1, 'h', g, 'command', slot, slot, slot, 'succeeded' FROM {ended}",
        f"INSERT INTO event (day, at, type, schedule_id, slot, ord) SELECT slot / {DAY}, slot, t, schedule, slot, 0"
        f" FROM {ended}, unnest(ARRAY['run.started', 'run.succeeded']) t",
        "INSERT INTO run (slot, schedule_id, ord, rev, program_id, cause, priority, created_at)"
        " SELECT %(now)s, g %% %(schedules)s + 1, -g, 1, 1, 'manual', 50, %(now)s FROM generate_series(1, %(live)s) g",
        "INSERT INTO run_live (slot, schedule_id, ord, state, rev, program_id, kind, pool, cause, priority, created_at,"
        f" wake_at) SELECT slot, schedule_id, ord, 'waiting', 1, 1, 'command', 'default', cause, 50, created_at,"
        f" created_at + {DAY} FROM run WHERE slot = %(now)s",
    ):
        connection.execute(statement.encode(), mine)


class Before:
    """A process of the version before, at work: `lives` are the seconds that each run of it took from being made to
    its end, `faults` what went wrong."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, application_name="tidegate-before")
        arrays.register(self._connection)
        self._connection.execute("SET timezone = 'UTC'")
        self.lives: list[float] = []
        self.faults: list[str] = []
        self._stop = threading.Event()
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="before")
        number = self._one("next_id")[0]
        self._me = {"id": number, "epoch": 1}
        about = {"role": "all", "name": "before", "host": "h", "pid": 1, "version": "before", "direct": False}
        self._one("register", id=number, now=self._now(), **about)

    def __enter__(self) -> Before:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._connection.close()

    @contextmanager
    def between(self) -> Iterator[None]:
        """It rests between two runs. It knows of its own only, and whoever admits and starts takes what is due, also
        what another has just made: so others take their turn here."""
        with self._turn:
            yield

    def more(self, count: int, seconds: float = 60.0) -> None:
        """Wait until so many more runs have lived."""
        wanted, deadline = len(self.lives) + count, time.monotonic() + seconds
        while len(self.lives) < wanted and not self.faults:
            if time.monotonic() > deadline:
                raise AssertionError("the process of the version before does not get on")
            time.sleep(0.01)

    def _work(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                with self._turn:
                    self._life(len(self.lives) + 1)
            except Exception as fault:
                self.faults.append(repr(fault))
                return
            self.lives.append(time.monotonic() - began)
            time.sleep(0.001)  # a lock is not fair: whoever waits for the turn gets it now

    def _now(self) -> Instant:
        return _first(self._connection, _NOW)

    def _all(self, named: str, partition: str = "", /, **given: Any) -> list[tuple[Any, ...]]:
        query = getattr(Q, named)
        cursor = self._connection.execute((query.at(partition) if partition else query).sql, given)
        return cursor.fetchall() if cursor.description else []

    def _one(self, named: str, /, **given: Any) -> tuple[Any, ...]:
        [row] = self._all(named, **given)
        return row

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._connection.transaction():
            self._one("fence", **self._me)
            yield

    def _life(self, number: int) -> None:
        """A run is made, admitted, started and ended, as four parts of the engine did it, and looked at."""
        now, schedule = self._now(), number % SCHEDULES + 1
        day, key = now // DAY, {"slots": Ints([now]), "schedules": Ints([schedule]), "ords": Ints([number])}
        counters = [f"p1-before{number}", f"s{schedule}"]
        with self._transaction():
            mine = {"schedule": schedule, "ord": number, "rev": 1, "program": 1, "kind": "command", "pool": "default"}
            none = dict.fromkeys(("fire_time", "previous_fire", "given", "expires_at"))
            self._all("add", now=now, day=day, cause="manual", caused_by="me", priority=50, **mine, **none)
        with self._transaction():
            claimed = self._all("claim_waiting", floor=now - 1, now=now, limit=10)
            assert [row[:3] for row in claimed] == [(now, schedule, number)], claimed
            self._all("lock_counters", keys=Texts(counters))
            self._all("lock_pools", names=Texts(["default"]), now=now)
            self._all("admit", **key, **_ADMITTED, takes=Texts(["\x1f".join(counters)]), now=now, day=day)
            self._all("take", keys=Texts(counters), counts=Ints([1, 1]))
            self._all("use", names=Texts(["default"]), counts=Ints([1]))
        me = {"instance": self._me["id"], "epoch": 1, "host": "h", "now": now}
        with self._transaction():
            [started] = self._all("start_ready", kinds=Texts(["command"]), limit=10, **me)
            assert started[:4] == (now, schedule, number, 1)
        one = {**key, "numbers": Ints([1]), "now": now, "day": day}
        with self._transaction():
            self._all("started", backend_ids=Texts(["pid:1"]), **one)
        with self._transaction():
            end: dict[str, Any] = {name: Texts([text]) for name, text in _ENDED.items()} | {
                "finished": Ints([now]),
                "ran": Bools([True]),
            }
            nothing = {name: Ints([None]) for name in ("retries", "failures", "lost")}
            [ended] = self._all("ended", partition_name("run", day), **one, **end, **nothing)
            assert ended[8] is True, "the run has ended"
            self._all("release", keys=Texts(counters), counts=Ints([1, 1]))
            self._all("use", names=Texts(["default"]), counts=Ints([-1]))
            self._all("add_stats", schedules=Ints([schedule]), **_stats(now))
        self._one("beat", **self._me, now=now)
        assert self._one("run", **key)[7] == "succeeded"


_ADMITTED: Mapping[str, Any] = {
    "revs": Ints([1]), "programs": Ints([1]), "program_revs": Ints([1]), "kinds": Texts(["command"]),
    "pools": Texts(["default"]), "borrowers": Texts([None]), "arguments": Texts(["{}"]), "window_ends": Ints([None]),
}  # fmt: skip
_ENDED = {"outcomes": "succeeded", "errors": None, "ends": "succeeded", "reasons": ""}


def _stats(now: Instant) -> dict[str, Any]:
    numbers = {"runs": 1, "successes": 1, "failures": 0, "crashes": 0, "timeouts": 0, "durations": 1, "failing": 0}
    instants = dict.fromkeys(("last_starts", "last_finishes", "last_successes"), now)
    return {
        **{name: Ints([value]) for name, value in {**numbers, **instants, "crashing": 0}.items()},
        "last_run_successes": Texts(["t"]),
        "broken": Bools([True]),
    }


@dataclass
class Locks:
    """Watches, while inside, for locks with which nobody else writes to the big tables: seconds by table and mode."""

    url: str
    held: dict[tuple[str, str], float] = field(default_factory=dict)
    looks: int = 0

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="locks")

    def __enter__(self) -> Locks:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def longest(self) -> float:
        return max(self.held.values(), default=0.0)

    def _watch(self) -> None:
        question = (
            "SELECT coalesce(i.inhparent::regclass, k.relation::regclass)::text, k.mode FROM pg_locks k"
            " LEFT JOIN pg_inherits i ON i.inhrelid = k.relation"
            " WHERE k.locktype = 'relation' AND k.granted AND k.mode = ANY(%s)"
            " AND coalesce(i.inhparent, k.relation) = ANY(%s::regclass[])"
        )
        began: dict[tuple[str, str], float] = {}
        with psycopg.connect(self.url, autocommit=True) as connection:
            while not self._stop.is_set():
                at = time.monotonic()
                there = {(table, mode) for table, mode in connection.execute(question, (list(_LASTING), list(BIG)))}
                self.looks += 1
                for one in there:
                    began.setdefault(one, at)
                    self.held[one] = max(self.held.get(one, 0.0), time.monotonic() - began[one])
                began = {one: since for one, since in began.items() if one in there}
                time.sleep(0.002)


def files(url: str) -> dict[str, int]:
    """In which file each table's rows are: another one after it was rewritten."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT relname, pg_relation_filenode(oid) FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname !~ 'yoyo'"
        )
        return {str(name): int(number) for name, number in rows}
