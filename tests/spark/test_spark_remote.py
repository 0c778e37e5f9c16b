"""PySpark programs at a real Spark Connect server that Tidegate does not own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from launchers.helpers import driving, launch, log_of, run
from waiting import comes, free_port

from tidegate.documents.parsing import parse
from tidegate.domain.errors import Invalid, LaunchRefused, Refused
from tidegate.domain.programs import PySpark
from tidegate.launchers.attempts import Attempts
from tidegate.launchers.spark import SparkLauncher
from tidegate.pipeline.java import find_java
from tidegate.pipeline.remote import address_of, session_of
from tidegate.ports.launching import Phase, Report, StopHow
from tidegate.ports.spark import SparkSettings

PROGRAMS = Path(__file__).with_name("remote_programs.py")
TOKEN = "a-token"


@dataclass
class Server:
    """A Spark Connect server; `page` is its own view of what it does."""

    home: Path
    address: str
    page: str

    def running(self) -> int:
        """How many jobs run."""
        with urllib.request.urlopen(f"{self.page}/applications", timeout=90) as answer:
            [one] = json.load(answer)
        with urllib.request.urlopen(f"{self.page}/applications/{one['id']}/jobs?status=running", timeout=90) as answer:
            return len(json.load(answer))

    def launcher(self) -> SparkLauncher:
        nowhere = "postgresql://nobody@127.0.0.1:1/none"
        environment = {**os.environ, "SERVER": self.address}
        return SparkLauncher(self.home, SparkSettings(), nowhere, environment)


def program(name: str) -> PySpark:
    return PySpark(entry=f"{PROGRAMS}:{name}", remote="env:SERVER")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    import pyspark

    home = tmp_path_factory.mktemp("remote")
    spark = Path(pyspark.__file__).parent
    port, page = free_port(), free_port()
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.connect.authenticate.token": TOKEN,
        "spark.ui.port": page,
        "spark.driver.memory": "512m",
        "spark.sql.warehouse.dir": home / "warehouse",
    }
    argv = [f"{spark}/bin/spark-submit", "--master", "local[1]", "--class"]
    argv += ["org.apache.spark.sql.connect.service.SparkConnectServer"]
    argv += [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    environment = {**os.environ, "SPARK_HOME": str(spark), "JAVA_HOME": str(find_java(home).home)}
    with (home / "server.log").open("wb") as log:
        process = subprocess.Popen(argv, env=environment, stdout=log, stderr=log, start_new_session=True, cwd=home)
    found = Server(home, f"sc://localhost:{port}/;token={TOKEN}", f"http://127.0.0.1:{page}/api/v1")
    try:
        asyncio.run(comes(lambda: process.poll() is not None or _listens(port), 240))
        assert process.poll() is None, (home / "server.log").read_text()
        yield found
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.requirement("RUN-6", "RUN-5")
def test_what_a_killed_client_left_at_the_server_is_ended_before_the_next_attempt(
    server: Server, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    first = launch(program("endless"), order=9101, arguments={"path": str(begun)})
    second = launch(program("count"), order=9101, attempt=2)

    async def work() -> Report:
        async with driving(server.launcher()) as driver:
            await driver.launcher.start(first)
            await comes(lambda: begun.exists() and server.running())
            await driver.launcher.stop(first.attempt, StopHow.KILL)
            await driver.end(first, patience=240)
            await driver.launcher.start(second)
            report: Report = await driver.end(second, patience=240)
            return report

    report, log = run(work()), log_of(server.home, second)
    assert report.outcome == "succeeded", log
    assert f"rows 5 of {second.attempt.run}" in log and "ending what" in log
    asyncio.run(comes(lambda: not server.running()))
    kept = [path for path in Attempts(server.home).directory(second.identity).iterdir() if path.is_file()]
    assert not any(TOKEN in path.read_text() for path in kept)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.requirement("RUN-5", "RUN-9")
def test_a_client_outlives_the_worker_and_a_stop_ends_its_work_at_the_server(server: Server, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    what = launch(program("endless"), arguments={"path": str(begun)})

    async def work() -> Report:
        async with driving(server.launcher()) as driver:
            await driver.launcher.start(what)
            await comes(lambda: begun.exists() and server.running())
        async with driving(server.launcher()) as driver:
            found = await driver.launcher.seal(what)
            assert found is not None and found.phase is Phase.RUNNING
            await driver.launcher.stop(what.attempt, StopHow.POLITE)
            report: Report = await driver.end(what, patience=240)
            return report

    assert run(work()).outcome == "cancelled", log_of(server.home, what)
    asyncio.run(comes(lambda: not server.running()))


# ── without a server ───────────────────────────────────────────────────────────────────────────────────────────────


def test_an_attempts_session_is_always_the_same_and_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = address_of("sc://h:15002", "r1-1-0.1"), address_of("sc://h:15002/", "r1-1-0.2")
    assert one == address_of("sc://h:15002", "r1-1-0.1") != other
    assert one == f"sc://h:15002/;session_id={session_of('r1-1-0.1')};user_id=tidegate"
    monkeypatch.setenv("SERVER", "sc://h:1/;token=x;user_id=ann;use_ssl=true")
    assert address_of("env:SERVER", "r1-1-0.1").startswith("sc://h:1/;token=x;use_ssl=true;session_id=")
    with pytest.raises(Refused, match="variable NO_SUCH_SERVER, which is not set"):
        address_of("env:NO_SUCH_SERVER", "r1-1-0.1")


@pytest.mark.requirement("RUN-6")
@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"remote": "sc://h:1/;token=hunter2"}, "env:NAME"),
        ({"remote": "http://h:1"}, "sc://HOST:PORT"),
        ({"remote": "sc://h:1", "isolation": "process"}, "leave out"),
    ],
)
def test_what_is_no_server_is_refused_and_a_token_is_never_repeated(said: dict[str, str], says: str) -> None:
    with pytest.raises(Invalid) as fault:
        parse({"metadata": {"name": "p"}, "spec": {"type": "pyspark", "entry": "a:b", **said}}, kind="Program")
    assert says in str(fault.value) and "hunter2" not in str(fault.value)


def test_a_server_that_is_not_named_is_refused(tmp_path: Path) -> None:
    async def work() -> None:
        launcher = SparkLauncher(tmp_path, SparkSettings(), "postgresql://nobody@127.0.0.1:1/none", {})
        async with driving(launcher) as driver:
            with pytest.raises(LaunchRefused, match="SERVER"):
                await driver.launcher.start(launch(program("count")))

    run(work())
