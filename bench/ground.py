"""What the benchmarks with a database stand on: an embedded server with its usual settings (durable: fsync is on), in a
home of its own that goes with it, and schedules by the hundred thousand, copied by SQL from one that came by the door.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import quote, urlencode

import psutil
import psycopg
from psycopg.conninfo import conninfo_to_dict

from tidegate.control import programs, schedules
from tidegate.documents.declared import Program, Schedule
from tidegate.domain.ids import Fence
from tidegate.domain.instants import DAY, Instant
from tidegate.domain.programs import ProgramSpec
from tidegate.domain.schedules import Concurrency, ScheduleSpec
from tidegate.domain.triggers import Trigger
from tidegate.launchers.spark_drivers import end_drivers
from tidegate.ports.records import Metadata
from tidegate.store import migrate
from tidegate.store.embedded import EmbeddedServer
from tidegate.store.store import PostgresStore

NAMESPACE = "bench"


@dataclass(frozen=True)
class Ground:
    """A home with a running database that has the schema."""

    home: Path
    server: EmbeddedServer
    other: str = ""
    """The URL of one of its further databases, where that is what is meant."""

    @property
    def url(self) -> str:
        return self.other or self.server.url

    def database(self, name: str) -> str:
        """The URL of a further database of the same server, with the schema."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        parts = {key: str(value) for key, value in conninfo_to_dict(self.url).items()}
        url = "postgresql:///?" + urlencode({**parts, "dbname": name}, quote_via=quote)
        migrate.upgrade(url)
        return url

    @property
    def server_pid(self) -> int:
        """The guardian's: the server's processes are its children."""
        assert self.server._guardian is not None
        return self.server._guardian.pid


@contextmanager
def ground(settings: dict[str, str] | None = None) -> Iterator[Ground]:
    """A server while inside; `settings` are PostgreSQL's, beside the usual ones."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        server = EmbeddedServer(Path(folder), settings=settings)
        try:
            migrate.upgrade(server.start())
            yield Ground(Path(folder), server)
        finally:
            end_drivers(Path(folder))  # warm ones outlive their worker
            server.stop()


@contextmanager
def roles(place: Ground, *names: str, environment: Mapping[str, str] | None = None) -> Iterator[dict[str, int]]:
    """`tidegate scheduler`, `tidegate worker` as processes of their own while inside, registered; role -> pid."""
    environ = {
        **os.environ,
        "TIDEGATE_HOME": str(place.home),
        "TIDEGATE_DATABASE_URL": place.url,
        **(environment or {}),
    }
    began: dict[str, subprocess.Popen[bytes]] = {}
    with (place.home / "roles.log").open("ab") as log:
        try:
            for name in names:
                command = [sys.executable, "-m", "tidegate.cli.main", name, "--home", str(place.home)]
                command += ["--child-of", str(os.getpid())]  # however this process ends, they end too
                began[name] = subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=log, stderr=log)
            with psycopg.connect(place.url, autocommit=True) as connection:
                question = "SELECT count(DISTINCT role) FROM instance WHERE ended_at IS NULL AND role = ANY(%s)"
                deadline = monotonic() + 30
                while connection.execute(question, (list(names),)).fetchone() != (len(names),):
                    ended = [name for name, process in began.items() if process.poll() is not None]
                    if ended or monotonic() > deadline:
                        raise RuntimeError(f"not up: {ended or names}\n{(place.home / 'roles.log').read_text()}")
                    sleep(0.05)
            yield {name: process.pid for name, process in began.items()}
        finally:
            for process in began.values():
                process.terminate()
            for process in began.values():
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                if process.stdin is not None:
                    process.stdin.close()


def cpu_of(pid: int) -> float:
    """Seconds of a core that a process and everything it has started took so far, where that still lives."""
    found = psutil.Process(pid)
    taken = 0.0
    for one in (found, *found.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # a connection that was just closed
            times = one.cpu_times()
            taken += times.user + times.system
    return taken


async def declare(
    store: PostgresStore,
    name: str,
    program: ProgramSpec,
    trigger: Trigger,
    constraints: tuple[Concurrency, ...] | None = None,
) -> int:
    """A program and an enabled schedule of this name, as a person's; the schedule's id."""
    metadata = Metadata(namespace=NAMESPACE, name=name, labels={})
    await programs.put(store, Program(metadata=metadata, spec=program, document={}), who="bench")
    spec = ScheduleSpec(program=name, trigger=trigger)
    if constraints is not None:
        spec = ScheduleSpec(program=name, trigger=trigger, constraints=constraints)
    wanted = Schedule(metadata=metadata, spec=spec, enabled=True, document={"enabled": True})
    await schedules.put(store, wanted, who="bench")
    with psycopg.connect(store.parts.database.url, autocommit=True) as connection:
        row = connection.execute("SELECT max(id) FROM schedule").fetchone()
    assert row is not None
    return int(row[0])


async def enlist(store: PostgresStore, role: str = "scheduler") -> Fence:
    """A registered instance, with the partitions it needs."""
    now = await store.now()
    await store.ensure_partitions(now, DAY)
    return await store.register(role=role, name="bench", host="bench", pid=1, now=now)


def multiply(url: str, template: int, count: int, *, prefix: str = "copy") -> None:
    """`count` more schedules like the template, with clocks that stand where its clock stands."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        (first,) = connection.execute("SELECT max(id) FROM schedule").fetchone() or (0,)
        connection.execute(
            "INSERT INTO schedule (namespace, name, owner, program_id, created_at) "
            "SELECT namespace, %s || g, owner, program_id, created_at FROM schedule, generate_series(1, %s) g "
            "WHERE id = %s",
            (prefix, count, template),
        )
        for table in ("revision", "clock", "schedule_stats"):
            found = connection.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 "
                "AND NOT attisdropped AND attname <> 'schedule_id'",
                (table,),
            )
            names = [str(name) for (name,) in found]
            connection.execute(
                f"INSERT INTO {table} (schedule_id, {', '.join(names)}) "
                f"SELECT s.id, {', '.join(f't.{name}' for name in names)} FROM schedule s, {table} t "
                f"WHERE t.schedule_id = %s AND s.id > %s ORDER BY s.id".encode(),
                (template, first),
            )
        connection.execute("VACUUM (ANALYZE) schedule, revision, clock, schedule_stats")


def make_due(url: str, cursor: Instant, due: Instant | None) -> int:
    """Set every clock as decided up to `cursor` and due at `due`, with an empty ledger; how many there are."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        made = connection.execute(
            "UPDATE clock SET cursor = %s, next_due = %s, last_fire = NULL, gap_to = NULL, gap_left = NULL",
            (cursor, due),
        ).rowcount
    empty(url)
    return made


def empty(url: str) -> None:
    """Forget what ran, and leave the tables as a server that had time to clean up does."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("TRUNCATE run, run_live, event, fire_range, attempt, attempt_open")
        connection.execute("VACUUM (ANALYZE) clock, run_live, run, event, limit_counter, pool")
        connection.execute("CHECKPOINT")
