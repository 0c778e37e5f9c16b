"""A PostgreSQL of our own in `HOME/pg`, for a single machine without any preparation.

Who may start it: the holder of the home's lock (store/home.py), so any postmaster found on this data directory is an
orphan. What if the owner dies: the guardian between it and the postmaster sees its pipe end and shuts the postmaster
down. What if the guardian dies too: the postmaster goes on alone, and the next start finds it, by the processes whose
working directory is the data directory (never by the pid that a file names, which may belong to anybody by then), stops
it and starts anew. What if the postmaster dies: its children see that and end by themselves; the start waits for the
last of them, removes the stale pid file and lets PostgreSQL recover from its log.

It listens on a Unix socket, for us, and on 127.0.0.1, because Spark's JDBC catalog speaks TCP only; both ask for a
password (scram), which lies beside the data in a file that only its owner can read.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg

from tidegate.domain.errors import Refused, TidegateError, Unavailable
from tidegate.store import binaries as wheel
from tidegate.store import guardian
from tidegate.store.home import held

log = logging.getLogger(__name__)

USER = "tidegate"
DATABASE = "tidegate"
_SOCKET_LIMIT = 107  # bytes of sockaddr_un's path
_START_PATIENCE = 60.0  # seconds; a recovery after a crash with 4 GB of log may take long
_LOG_LIMIT = 16 << 20

SETTINGS: dict[str, str] = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "100",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "synchronous_commit": "on",
    "checkpoint_timeout": "15min",
    "autovacuum_naptime": "10s",
    "random_page_cost": "1.1",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
    "unix_socket_permissions": "0700",
    "password_encryption": "scram-sha-256",
}


def address_of(home: Path) -> str:
    """The TCP address, password included, of a home's server that some other process runs. Raises FileNotFoundError."""
    directory = home.expanduser().absolute() / "pg"
    port, password = ((directory / name).read_text().strip() for name in ("port", "password"))
    return f"postgresql://{USER}:{password}@127.0.0.1:{port}/{DATABASE}"


def running_url(home: Path) -> str | None:
    """The same while a Tidegate holds the home; None when none does, or it uses another database."""
    try:
        return address_of(home) if held(home) else None
    except FileNotFoundError:
        return None


class Shutdown(Enum):
    """How the server ends."""

    FAST = "f"
    """Connections are cut and a checkpoint is written."""
    IMMEDIATE = "i"
    """At once; the next start recovers from the log. Nothing committed is lost."""


class EmbeddedServer:
    """One PostgreSQL cluster in `HOME/pg`. Synchronous: it is started before, and stopped after, everything else."""

    def __init__(self, home: Path, *, settings: dict[str, str] | None = None) -> None:
        self.home = home.expanduser().absolute()
        self.directory = self.home / "pg"
        self.data = self.directory / "data"
        self.port = 0
        self.password = ""
        self._settings = {**SETTINGS, **(settings or {})}
        self._guardian: subprocess.Popen[bytes] | None = None
        self._log_from = 0
        self._sockets = Path()
        self._run_as = wheel.RunAs()

    # ── what others need ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def url(self) -> str:
        """For processes of this machine that speak libpq: over the Unix socket."""
        where = f"host={quote(str(self._sockets), safe='')}&port={self.port}"
        return f"postgresql://{USER}:{self.password}@/{DATABASE}?{where}"

    @property
    def tcp_url(self) -> str:
        """The same database over TCP, for those that do not (JDBC)."""
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{DATABASE}"

    @property
    def running(self) -> bool:
        """Whether the guardian, and so the postmaster, is there."""
        return self._guardian is not None and self._guardian.poll() is None

    def start(self) -> str:
        """Start the server, initialising or recovering the data as needed, and wait until it answers; its `url`.

        Raises Refused where it cannot run here at all, Unavailable where it did not come up (with its last words).
        """
        if self.running:
            return self.url
        self.stop()  # it died by itself: part with its guardian
        binaries = wheel.locate()
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._run_as = wheel.run_as(self.home, binaries)
        self._give(self.directory)
        self._recover()
        self.password = self._password()
        if not (self.data / "PG_VERSION").exists():
            self._initialise(binaries)
        self._check_version()
        self.port = self._choose_port()
        self._sockets = _socket_directory(self.directory, self.port)
        self._give(self._sockets)
        self._launch(binaries)
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.stop(Shutdown.IMMEDIATE)
            raise
        return self.url

    def stop(self, how: Shutdown = Shutdown.FAST) -> None:
        """End the server and wait for its end. Safe to repeat."""
        if self._guardian is None:
            return
        watcher, self._guardian = self._guardian, None
        assert watcher.stdin is not None
        with suppress(BrokenPipeError):
            watcher.stdin.write(how.value.encode())
            watcher.stdin.flush()
        with suppress(BrokenPipeError):
            watcher.stdin.close()
        try:
            watcher.wait(guardian.FAST_PATIENCE + 12)
        except subprocess.TimeoutExpired:
            watcher.kill()
            watcher.wait()
        self._recover()  # the guardian may have been killed before it could

    # ── preparing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _password(self) -> str:
        file = self.directory / "password"
        with suppress(FileNotFoundError):
            if password := file.read_text().strip():
                return password
        password = secrets.token_urlsafe(24)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as opened:
            opened.write(password + "\n")
        self._give(file)
        return password

    def _initialise(self, binaries: Path) -> None:
        """Make the cluster beside its place and move it there whole: a crash in between leaves nothing half made."""
        draft = self.directory / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        shutil.rmtree(self.data, ignore_errors=True)  # without PG_VERSION it is nobody's cluster
        command = [str(binaries / "initdb"), "-D", str(draft), "-U", USER, "-E", "UTF8", "--locale=C"]
        command += ["--auth-local=scram-sha-256", "--auth-host=scram-sha-256"]
        command += ["--pwfile", str(self.directory / "password")]
        done = self._run(command)
        if done.returncode:
            raise self._failure("The database could not be made", done.stderr.decode("utf-8", "replace"))
        draft.rename(self.data)

    def _check_version(self) -> None:
        version = (self.data / "PG_VERSION").read_text().strip()
        if version != str(wheel.MAJOR):
            raise Refused(
                f"{self.data} was written by PostgreSQL {version}; this Tidegate brings {wheel.MAJOR}.",
                remedy="Use the Tidegate that wrote it, or dump and restore it (docs/how-to/backup.md).",
                code="home_newer",
            )

    def _choose_port(self) -> int:
        """The port of last time, as long as nobody else has it: what knows the old address keeps working."""
        file = self.directory / "port"
        with suppress(FileNotFoundError, ValueError):
            kept = int(file.read_text())
            if _is_free(kept):
                return kept
            log.warning("port %d of the embedded database is taken by somebody else; choosing another", kept)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        file.write_text(f"{port}\n")
        return port

    def _give(self, path: Path) -> None:
        if self._run_as.uid is not None and self._run_as.gid is not None:
            os.chown(path, self._run_as.uid, self._run_as.gid)

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*self._run_as.prefix, *command],
            user=self._run_as.uid,
            group=self._run_as.gid,
            extra_groups=None if self._run_as.uid is None else [],
            capture_output=True,
            check=False,
            cwd=self.directory,
        )

    # ── running ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _launch(self, binaries: Path) -> None:
        output = self.directory / "log"
        if output.exists() and output.stat().st_size > _LOG_LIMIT:
            output.replace(self.directory / "log.1")
        settings = {**self._settings, "port": str(self.port), "unix_socket_directories": str(self._sockets)}
        server = [str(binaries / "postgres"), "-D", str(self.data)]
        server += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with output.open("ab") as sink:
            self._log_from = sink.tell()
            self._guardian = subprocess.Popen(
                [sys.executable, "-I", "-S", guardian.__file__, *self._run_as.prefix, *server],
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=sink,
                user=self._run_as.uid,
                group=self._run_as.gid,
                extra_groups=None if self._run_as.uid is None else [],
                start_new_session=True,
                cwd=self.directory,
                env={name: value for name, value in os.environ.items() if not name.startswith("PG")},
            )

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_PATIENCE
        admin = self.url.replace(f"/{DATABASE}?", "/postgres?")
        last = ""
        while time.monotonic() < deadline:
            if not self.running:
                raise self._failure("The database did not start", self._last_words())
            if not (self._sockets / f".s.PGSQL.{self.port}").exists():
                time.sleep(0.005)
                continue
            try:
                with psycopg.connect(admin, connect_timeout=5, autocommit=True) as connection:
                    self._make_database(connection)
                    return
            except psycopg.OperationalError as error:
                last = str(error)
                time.sleep(0.01)
        raise self._failure("The database did not answer in time", f"{last}\n{self._last_words()}")

    def _make_database(self, connection: psycopg.Connection) -> None:
        """Also proves that it is our server which answers: the password is known to no other."""
        found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone()
        if found is None:
            connection.execute(f"CREATE DATABASE {DATABASE}")

    def _last_words(self) -> str:
        with suppress(OSError), (self.directory / "log").open("rb") as source:
            source.seek(max(self._log_from, source.seek(0, os.SEEK_END) - 4000))
            return source.read().decode("utf-8", "replace")
        return ""

    def _failure(self, what: str, words: str) -> TidegateError:
        """An error that a person can act on, from what the server or initdb said last."""
        line = next((line for line in reversed(words.splitlines()) if "FATAL" in line or "error:" in line), "")
        line = line or words.strip().rpartition("\n")[2]
        if "No space left on device" in words or "Disk quota exceeded" in words:
            code, remedy = "disk_full", f"The disk of {self.home} is full: make room, or choose another with --home."
        elif "could not bind" in words or "Address already in use" in words:
            port = self.directory / "port"
            code, remedy = "port_in_use", f"Port {self.port} is in use: remove {port} and start again."
        else:
            code, remedy = "database_failed", f"Its log is {self.directory / 'log'}."
        return Unavailable(f"{what}: {line}", remedy=remedy, code=code)

    # ── what an earlier life left behind ───────────────────────────────────────────────────────────────────────────

    def _recover(self) -> None:
        """End whatever still works on our data, and remove a pid file that stands for nothing."""
        left = self._left_behind()
        if masters := [process for process in left if _is_postmaster(process)]:
            log.warning("stopping a database left behind by an earlier process (pid %d)", masters[0].pid)
            _signal(masters, signal.SIGINT)
            psutil.wait_procs(masters, timeout=guardian.FAST_PATIENCE)
            left = self._left_behind()
        # Children of a killed postmaster notice within moments; what has not gone by then is made to.
        _, left = psutil.wait_procs(left, timeout=5)
        _signal(left, signal.SIGKILL)
        _, left = psutil.wait_procs(left, timeout=5)
        if left:
            raise Unavailable(
                f"Processes of an earlier database do not end: {', '.join(str(process.pid) for process in left)}.",
                remedy="End them by hand and start again.",
                code="database_failed",
            )
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def _left_behind(self) -> list[psutil.Process]:
        """Server processes that work in our data directory: PostgreSQL makes it their working directory."""
        ours = str(self.data.resolve())
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.name() == "postgres" and process.cwd() == ours:
                    found.append(process)
        return found


def _is_postmaster(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return "-D" in process.cmdline()  # its children rename themselves
    return False


def _signal(processes: Sequence[psutil.Process], number: int) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _socket_directory(directory: Path, port: int) -> Path:
    """`HOME/pg/run`, or where that is too long for a socket's path, a private directory in the system's own."""
    place = directory / "run"
    if len(os.fsencode(place / f".s.PGSQL.{port}")) <= _SOCKET_LIMIT:
        place.mkdir(mode=0o700, exist_ok=True)
        return place
    name = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    place = Path(tempfile.gettempdir()) / f"tidegate-{os.geteuid()}-{name}"
    place.mkdir(mode=0o700, exist_ok=True)
    facts = place.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
        raise Refused(
            f"{place}, which the database needs for its socket, belongs to somebody else.",
            remedy="Remove it, or choose a home with a shorter path.",
            code="home_unusable",
        )
    return place
