"""The processes that are let loose on each other: one PostgreSQL, and schedulers, workers and APIs, each behind a wire.

What dies is started again after a while, as a service manager would. A process that is frozen is woken by whoever froze
it. Nothing of all this is left when `stop` returns.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx
import psutil
import psycopg
from psycopg.conninfo import conninfo_to_dict

from chaos.proxy import Loss, Wire
from tidegate.store import migrate
from tidegate.store.embedded import EmbeddedServer, Shutdown

SKEW = 86_400
"""The clock of the second process of each role is a day off."""
CLOCK = """\
import os, time
_ahead = int(os.environ["CHAOS_CLOCK"])
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + _ahead
time.time_ns = lambda: _time_ns() + _ahead * 10**9
"""
SETTINGS = """\
[worker]
kinds = ["command"]
[scheduler]
resync = "PT5S"
[log]
format = "json"
"""
TOLD = """\
CREATE SCHEMA chaos
CREATE TABLE told (id text PRIMARY KEY, at timestamptz, type text, key text, schedule text, event jsonb, n bigserial)
"""
"""What the sink writes to; `n` says in which order."""
POSTGRES = {"shared_buffers": "64MB", "max_connections": "120"}
START = 60.0


@dataclass
class Member:
    """One place in the cluster, and the process that holds it now."""

    role: str
    number: int
    wire: Wire
    port: int = 0  # of an API
    process: subprocess.Popen[bytes] | None = None
    back_at: float = 0.0
    frozen: bool = False
    skew: int = 0
    """How many seconds its clock is ahead of everybody's."""

    @property
    def name(self) -> str:
        return f"{self.role}-{self.number}"

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass
class Cluster:
    """Start it, let faults loose, stop it."""

    home: Path
    schedulers: int = 2
    workers: int = 2
    apis: int = 2
    members: list[Member] = field(default_factory=list)
    rests: bool = False  # dead members are not started again
    unasked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server = EmbeddedServer(self.home / "database", settings=POSTGRES)
        self.node = self.home / "node"
        self.journal = self.home / "journal"
        self._lock = threading.RLock()
        self._killed: set[int] = set()
        self.database_away = False

    def start(self) -> None:
        """Everything is up and ready when this returns."""
        self.node.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.node / "tidegate.toml").write_text(SETTINGS)
        self.journal.touch()
        (self.home / "skewed").mkdir(exist_ok=True)
        (self.home / "skewed" / "sitecustomize.py").write_text(CLOCK)
        self.server.start()
        migrate.upgrade(self.server.url)
        with psycopg.connect(self.server.url) as connection:
            connection.execute(TOLD)
        for role, many in (("scheduler", self.schedulers), ("worker", self.workers), ("api", self.apis)):
            for number in range(1, many + 1):
                port = _free_port() if role == "api" else 0
                skew = SKEW if number == 2 and role != "worker" else -SKEW if number == 2 else 0
                self.members.append(Member(role, number, Wire(self.server.port), port, skew=skew))
        for member in self.members:
            self._spawn(member)
        self._until(self.ready, "the cluster did not come up")

    def ready(self) -> bool:
        return all(one.alive for one in self.members) and all(
            (answer := ask(one.url, "/readyz")) is not None and answer.status_code == 200 for one in self.of("api")
        )

    def of(self, *roles: str) -> list[Member]:
        return [one for one in self.members if one.role in roles]

    def _spawn(self, member: Member) -> None:
        said = conninfo_to_dict(self.server.tcp_url)
        url = (
            f"postgresql://{said['user']}:{said['password']}@127.0.0.1:{member.wire.port}/{said['dbname']}"
            "?sslmode=disable"
        )
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("TIDEGATE_")}
        if member.skew:
            path = [str(self.home / "skewed"), *filter(None, [inherited.get("PYTHONPATH")])]
            inherited.update(PYTHONPATH=os.pathsep.join(path), CHAOS_CLOCK=str(member.skew))
        command = [sys.executable, "-m", "tidegate.cli.main", member.role, "--home", str(self.node)]
        if member.port:
            command += ["--port", str(member.port)]
        with (self.home / f"{member.name}.log").open("ab") as log:
            member.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**inherited, "TIDEGATE_DATABASE_URL": url, "TIDEGATE_SCHEDULER__CRASH_WAIT": "PT2S"},
                start_new_session=True,
            )
        member.frozen = False

    # ── what keeps it up ───────────────────────────────────────────────────────────────────────────────────────────

    def tend(self, rng: Random) -> None:
        """Start again what has ended, a while after it was seen to have, whether the database is there or not."""
        with self._lock:
            for member in self.members:
                if member.alive or self.rests:
                    continue
                now = time.monotonic()
                if not member.back_at:
                    if member.process is not None and member.process.pid not in self._killed:
                        self.unasked.append(f"{member.name} ended by itself with {member.process.returncode}")
                    member.back_at = now + rng.choice((0.0, 0.2, 1.0, 3.0))
                elif now >= member.back_at:
                    member.back_at = 0.0
                    self._spawn(member)

    # ── what is done to it ─────────────────────────────────────────────────────────────────────────────────────────

    def signal(self, member: Member, number: signal.Signals) -> bool:
        with self._lock:
            if not member.alive or member.process is None:
                return False
            if number in (signal.SIGKILL, signal.SIGTERM):
                self._killed.add(member.process.pid)
            member.process.send_signal(number)
            member.frozen = number is signal.SIGSTOP or (member.frozen and number is not signal.SIGCONT)
            return True

    def stop_database(self) -> None:
        """At once, as by a power cut; the next start recovers from the log."""
        self.database_away = True
        self.server.stop(Shutdown.IMMEDIATE)

    def start_database(self) -> None:
        self.server.start()
        self.database_away = False

    def terminate_backends(self, rng: Random, share: float) -> int:
        """End sessions of ours, on the server's side."""
        with contextlib.suppress(psycopg.Error), psycopg.connect(self.server.url, autocommit=True) as connection:
            rows = connection.execute(
                "SELECT pid FROM pg_stat_activity"
                " WHERE application_name LIKE 'tidegate%' AND datname = current_database()"
            ).fetchall()
            chosen = [pid for (pid,) in rows if rng.random() < share]
            for pid in chosen:
                connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
            return len(chosen)
        return 0

    def calm(self) -> None:
        """No fault lasts longer than this call."""
        for member in self.members:
            member.wire.delay, member.wire.dark, member.wire.losing = 0.0, False, None
            if member.frozen:
                self.signal(member, signal.SIGCONT)
        if self.database_away:
            self.start_database()

    def lost_commits(self) -> dict[Loss, int]:
        return {how: sum(one.wire.lost[how] for one in self.members) for how in Loss}

    # ── the end ────────────────────────────────────────────────────────────────────────────────────────────────────

    def stop(self) -> list[str]:
        """End everything; what had to be forced, or was left behind, in words."""
        said = []
        self.rests = True
        self.calm()
        for member in self.members:
            self.signal(member, signal.SIGTERM)
        for member in self.members:
            if member.process is not None:
                try:
                    member.process.wait(20)
                except subprocess.TimeoutExpired:
                    said.append(f"{member.name} did not leave when it was asked to")
                    member.process.kill()
                    member.process.wait(5)
            member.wire.close()
        left = self._leftovers()
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=5)
        self.server.stop(Shutdown.FAST)
        return said

    def _leftovers(self) -> list[psutil.Process]:
        """What still has to do with our home: shims of attempts, the process that makes them."""
        found = []
        for process in psutil.process_iter(["cmdline", "cwd"]):
            told = [*(process.info["cmdline"] or ()), process.info["cwd"] or ""]
            if process.pid != os.getpid() and any(str(self.node) in one for one in told):
                found.append(process)
        return found

    def _until(self, holds: Any, otherwise: str) -> None:
        deadline = time.monotonic() + START
        while not holds():
            if time.monotonic() > deadline:
                raise SystemExit(f"{otherwise} within {START:g} s; see {self.home}/*.log")
            time.sleep(0.1)


def ask(url: str, path: str, **query: Any) -> httpx.Response | None:
    """A GET; None where nobody answers."""
    try:
        return httpx.get(url + path, params=query, trust_env=False, timeout=5)
    except httpx.HTTPError:
        return None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
