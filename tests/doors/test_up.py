"""`tidegate up`: one command, one process tree, its own database; whatever is killed comes back, and nothing stays."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
from psycopg.conninfo import conninfo_to_dict
from waiting import free_port, until

from tidegate.cli.up import MARK, end_leftovers, mark_of, refuse_beyond_loopback
from tidegate.domain.errors import Refused

from .conftest import command
from .running import Up, marked, processes_of, tidegate_up

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.xdist_group("up")]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(scope="module")
def enduring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One for all tests that leave it running: to come up costs more than most of what is done to it."""
    with tidegate_up(tmp_path_factory.mktemp("enduring") / "home") as running:
        yield running


@pytest.mark.requirement("HA-7", "OPS-13", "HA-3")
def test_it_comes_up_by_itself_says_where_and_leaves_nothing_behind(up: Up) -> None:
    until(lambda: "ready at" in up.said)
    assert up.url in up.said
    assert oct((up.home).stat().st_mode & 0o777) == "0o700"
    # The API answers before it is on record as an instance: whoever is ready when asked need not be listed yet.
    until(lambda: {one["role"] for one in up.get("/instances")["items"]} == {"scheduler", "worker", "api"})
    began = time.monotonic()
    assert up.ask_to_end() == 0, up.said
    assert time.monotonic() - began < 10, "nothing ran, so nothing had to be waited for"
    assert processes_of(up.home) == []
    assert "Traceback" not in up.said


@pytest.mark.requirement("HA-7")
def test_ctrl_c_ends_it_too(up: Up) -> None:
    assert up.ask_to_end(signal.SIGINT) == 0
    assert processes_of(up.home) == []


@pytest.mark.requirement("OPS-13")
def test_a_second_one_on_the_home_is_refused_at_once_by_home_and_pid(enduring: Up) -> None:
    up = enduring
    began = time.monotonic()
    said = command("up", "--home", str(up.home), "--port", str(free_port()))
    assert time.monotonic() - began < 5
    assert said.status == 1
    assert str(up.home) in said.err
    assert str(up.process.pid) in said.err
    assert up.ready()


def test_a_port_in_use_is_named_with_the_remedy(home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        said = command("up", "--home", str(home), "--port", port)
    assert said.status == 1
    assert port in said.err
    assert "--port" in said.err
    assert processes_of(home) == []


@pytest.mark.requirement("OPS-10")
@pytest.mark.parametrize(("words", "host"), [(("up",), "0.0.0.0"), (("api",), "example.org")])
def test_listening_beyond_loopback_is_refused(home: Path, words: tuple[str, ...], host: str) -> None:
    environ = {"TIDEGATE_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    said = command(*words, "--home", str(home), "--host", host, environ=environ)
    assert said.status == 1
    assert "loopback" in said.err
    assert not (home / "pg").exists()


@pytest.mark.requirement("OPS-10")
def test_only_loopback_is_loopback() -> None:
    for host in ("127.0.0.1", "::1", "localhost"):
        refuse_beyond_loopback(host)
    for host in ("0.0.0.0", "::", "192.168.0.1", "example.org", ""):
        with pytest.raises(Refused, match="loopback"):
            refuse_beyond_loopback(host)


def test_a_home_of_a_newer_version_is_left_alone(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "version").write_text("999\n")
    said = command("up", "--home", str(home), "--port", str(free_port()))
    assert (said.status, "newer" in said.err) == (1, True)
    assert not (home / "pg").exists()


def test_a_database_that_does_not_answer_is_a_message(home: Path) -> None:
    environ = {"TIDEGATE_DATABASE_URL": f"postgresql://nobody@127.0.0.1:{free_port()}/none"}
    for words in (("up", "--port", str(free_port())), ("db", "status"), ("db", "upgrade")):
        said = command(*words, "--home", str(home), environ=environ)
        assert said.status == 1
        assert "TIDEGATE_DATABASE_URL" in said.err
        assert "Traceback" not in said.err


def test_a_role_alone_needs_a_database(home: Path) -> None:
    for role in ("scheduler", "worker", "api"):
        said = command(role, "--home", str(home))
        assert (said.status, "TIDEGATE_DATABASE_URL" in said.err) == (1, True)


def test_a_wrong_setting_is_named(home: Path) -> None:
    said = command("up", "--home", str(home), environ={"TIDEGATE_API__PROT": "1"})
    assert (said.status, "did you mean 'port'" in said.err) == (1, True)


@pytest.mark.requirement("HA-8", "RUN-1")
def test_whatever_is_killed_comes_back_and_no_run_is_lost_or_doubled(enduring: Up) -> None:
    up, word = enduring, "ended unasked (killed by SIGKILL)"
    count, told = up.home / "count", up.said.count(word)
    up.declare("work", ["sh", "-c", f"echo x >> {count}; sleep 1"])
    before = up.roles()
    for role in ("scheduler", "worker", "api"):
        run = up.trigger("work")
        up.role(role).kill()
        until(up.ready)
        until(partial(up.ended, run))
    assert count.read_text() == "x\n" * 3
    assert not before & up.roles()
    assert up.said.count(word) == told + 3


@pytest.mark.requirement("HA-8")
def test_a_database_that_is_killed_comes_back(enduring: Up) -> None:
    up = enduring
    postmaster = int((up.home / "pg/data/postmaster.pid").read_text().split()[0])
    os.kill(postmaster, signal.SIGKILL)
    time.sleep(0.5)
    until(up.ready, 60)
    up.declare("work", ["true"])
    run = up.trigger("work")
    until(lambda: up.state(run) == "succeeded")


@pytest.mark.requirement("HA-8", "RUN-5")
def test_what_runs_survives_a_kill_of_the_whole_tree_and_is_adopted(home: Path) -> None:
    first = Up(home, free_port())
    second = None
    try:
        until(first.ready, 60)
        first.declare("work", ["sh", "-c", f"sleep 6; echo x >> {home}/count"])
        run = first.trigger("work")
        until(lambda: first.state(run) == "running")
        roles = first.roles()
        first.process.kill()
        first.process.wait()
        until(lambda: not any(map(psutil.pid_exists, roles)))
        assert any("sleep 6" in one for one in marked(home)), "the program goes on"
        second = Up(home, free_port())
        until(second.ready, 60)
        until(partial(second.ended, run))
        attempts = second.get(f"/runs/{run}")["attempts"]
        assert len(attempts) == 1
        assert (home / "count").read_text() == "x\n"
        assert second.ask_to_end() == 0
        assert processes_of(home) == []
    finally:
        for one in (second, first):
            if one is not None:
                one.clean()


@pytest.mark.requirement("FAIL-3", "HA-3")
def test_what_does_not_end_in_time_is_stopped_and_is_neither_crash_nor_failure(home: Path) -> None:
    port = free_port()
    up = Up(home, port, TIDEGATE_WORKER__SHUTDOWN="PT2S")
    again = None
    try:
        until(up.ready, 60)
        up.declare("short", ["sh", "-c", "sleep 1"])
        up.declare("long", ["sh", "-c", "trap '' TERM; sleep 100 & while true; do sleep 1; done"])
        short, long = up.trigger("short"), up.trigger("long")
        until(lambda: {up.state(short), up.state(long)} == {"running"})
        began = time.monotonic()
        assert up.ask_to_end() == 0
        assert time.monotonic() - began < 20
        assert processes_of(home) == []
        again = Up(home, port)
        until(again.ready, 60)
        assert again.state(short) == "succeeded"
        stats = again.get("/namespaces/default/schedules/long/stats")
        assert (stats["total_crashes"], stats["total_failures"]) == (0, 0)
        tried_again = again
        until(lambda: tried_again.state(long) == "running")
    finally:
        for one in (again, up):
            if one is not None:
                one.clean()


@pytest.mark.requirement("HA-3", "RUN-5")
def test_roles_run_alone_against_a_database_and_a_lone_worker_leaves_its_attempts(enduring: Up, tmp_path: Path) -> None:
    up = enduring
    url = up.role("worker").environ()["TIDEGATE_DATABASE_URL"]
    assert command("db", "status", environ={"TIDEGATE_DATABASE_URL": url}).status == 0
    assert "up to date" in command("db", "upgrade", environ={"TIDEGATE_DATABASE_URL": url}).out
    place = tmp_path / "elsewhere"
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("TIDEGATE_")}
    environ = {**inherited, "TIDEGATE_DATABASE_URL": url, "TIDEGATE_HOME": str(place), MARK: mark_of(place)}
    worker = [sys.executable, "-m", "tidegate.cli.main", "worker"]
    up.declare("work", ["sh", "-c", "sleep 5"])
    frozen = up.role("worker")
    frozen.suspend()
    lone = subprocess.Popen(worker, env=environ)
    try:
        run = up.trigger("work")
        until(lambda: up.state(run) == "running")
        lone.terminate()
        assert lone.wait(20) == 0
        assert any("sleep 5" in one for one in marked(place)), "it was left running"
        lone = subprocess.Popen(worker, env=environ)
        until(lambda: up.state(run) == "succeeded")
        assert len(up.get(f"/runs/{run}")["attempts"]) == 1
        lone.terminate()
        assert lone.wait(20) == 0
    finally:
        frozen.resume()
        lone.kill()
        lone.wait()
        end_leftovers(place)
    until(lambda: [one["pid"] for one in up.get("/instances")["items"] if one["role"] == "worker"] == [frozen.pid])


@pytest.mark.requirement("HA-2", "HA-8")
def test_who_was_frozen_and_declared_dead_registers_anew(enduring: Up) -> None:
    up = enduring
    up.declare("work", ["sh", "-c", "sleep 8"])
    run = up.trigger("work")
    until(lambda: up.state(run) == "running")
    before = {one["role"]: one["id"] for one in up.get("/instances")["items"]}
    pids = up.roles()
    frozen = [up.role("worker"), up.role("scheduler")]
    for process in frozen:
        process.suspend()
    time.sleep(7)  # longer than the patience of the others; but only the API is there to see it
    for process in frozen:
        process.resume()
    until(partial(up.ended, run))
    assert up.roles() == pids, "nobody had to be started again"
    assert len(up.get(f"/runs/{run}")["attempts"]) == 1
    until(up.ready)
    after = {one["role"]: one["id"] for one in up.get("/instances")["items"]}
    assert after["worker"] != before["worker"]
    assert after["scheduler"] != before["scheduler"]


@pytest.mark.requirement("HA-8", "OPS-11")
def test_everything_goes_on_by_itself_when_a_database_comes_back(enduring: Up) -> None:
    up = enduring
    guardian = next(one for one in psutil.Process(up.process.pid).children() if "guardian" in " ".join(one.cmdline()))
    pids = up.roles()
    for _ in range(2):
        postmaster = int((up.home / "pg/data/postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGKILL)
        until(lambda: not up.ready())
        until(up.ready, 60)
    assert not guardian.is_running()
    assert up.roles() == pids, "no role had to be started again"
    assert "Traceback" not in up.said


@pytest.mark.requirement("HA-7", "OPS-13")
def test_with_a_database_of_ones_own_none_is_embedded(home: Path, database_url: str) -> None:
    up = Up(home, free_port(), TIDEGATE_DATABASE_URL=database_url)
    try:
        until(up.ready, 60)
        up.declare("work", ["true"])
        run = up.trigger("work")
        until(partial(up.ended, run))
        assert not (home / "pg").exists()
        assert up.ask_to_end() == 0
        assert processes_of(home) == []
        assert str(conninfo_to_dict(database_url)["password"]) not in up.said
    finally:
        up.clean()


@pytest.mark.spark
@pytest.mark.requirement("RUN-6", "HA-3")
def test_warm_drivers_and_pooled_processes_end_with_the_tree(up: Up) -> None:
    (up.home / "flow.py").write_text("def hello() -> None:\n    print('hello')\n")
    programs = {
        "py": {"type": "python", "entry": f"{up.home}/flow.py:hello"},
        "sql": {"type": "spark_sql", "sql": "SELECT 1"},
    }
    for name, spec in programs.items():
        up.declare(name, ["true"])
        up.call("PUT", f"/namespaces/default/programs/{name}", {"spec": spec})
        run = up.trigger(name)
        until(partial(up.ended, run), 120)
    kept = " ".join(marked(up.home))
    assert "python_host" in kept
    assert "pipeline.driver" in kept
    assert up.ask_to_end() == 0
    assert processes_of(up.home) == []
    assert "ended what was left" not in up.said, "each was ended by who keeps it, not by force"
