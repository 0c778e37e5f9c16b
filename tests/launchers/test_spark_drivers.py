"""Drivers seen from a worker, which asks them how they are: with some that are no Spark, but answer as drivers do."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from waiting import comes

from tidegate.domain.errors import Unavailable
from tidegate.domain.instants import MILLISECOND, MINUTE, Duration
from tidegate.domain.programs import PySpark, SparkSql
from tidegate.launchers import shim, spark, spark_drivers
from tidegate.launchers.spark import SparkLauncher
from tidegate.launchers.spark_drivers import Drivers
from tidegate.ports.launching import Launch, Phase, Report, StopHow
from tidegate.ports.spark import DriverSpec, SparkSettings

from .helpers import launch

pytestmark = [pytest.mark.slow]
DRIVER = """
import json, socket, sys, threading
from pathlib import Path
from tidegate.pipeline.claims import process_name

status = process_name() | {"phase": "ready", "message": "", "spec": ""}
(Path(sys.argv[1]) / "status.json").write_text(json.dumps(status))

def attend(connection):
    with connection, connection.makefile("rw") as lines:
        for line in lines:
            message = json.loads(line)
            if message["op"] == "end":
                import os
                os._exit(0)
            lines.write(json.dumps({"id": message["id"], "ok": True, "attempts": 0}) + "\\n")
            lines.flush()

listener = socket.socket(fileno=3)
while True:
    threading.Thread(target=attend, args=(listener.accept()[0],), daemon=True).start()
"""


SLEEPER = """
import sys, time
from pathlib import Path

(Path(sys.argv[1]) / "begun").touch()
time.sleep(120)
"""


@asynccontextmanager
async def drivers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience: Duration, program: str = DRIVER
) -> AsyncIterator[Drivers]:
    (tmp_path / "not_spark.py").write_text(program)
    monkeypatch.setattr(spark_drivers, "PROGRAM", "not_spark")
    monkeypatch.setattr(spark_drivers, "ANSWER", 0.4)
    spec = DriverSpec(home=str(tmp_path), catalog_url="", settings=SparkSettings(patience=patience))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    found = Drivers(tmp_path, spec, {**os.environ, "PYTHONPATH": path}, lambda event: None, lambda: None)
    await found.open()
    try:
        yield found
    finally:
        await found.close()
        await asyncio.to_thread(spark_drivers.end_drivers, tmp_path, patience=0.0)


async def freeze(pid: int) -> psutil.Process:
    process = psutil.Process(pid)
    process.send_signal(signal.SIGSTOP)
    while process.status() != psutil.STATUS_STOPPED:
        await asyncio.sleep(0.01)
    return process


@pytest.mark.requirement("OPS-11")
def test_a_driver_that_does_not_answer_holds_up_nobody_and_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with drivers(tmp_path, monkeypatch, 1200 * MILLISECOND) as found:
            link = await found.obtain()
            frozen = await freeze(link.pid)
            began = time.monotonic()
            link.tell("stop", identity="r1-1-0.1")
            assert time.monotonic() - began < 0.3, "who asks it to stop something does not wait"
            other = await asyncio.wait_for(found.obtain(), 20)
            assert other is not link and other.alive, "what starts gets another driver"
            deadline = time.monotonic() + 20
            while link.alive or frozen.is_running() and frozen.status() != psutil.STATUS_ZOMBIE:
                assert time.monotonic() < deadline, "it was not killed"
                await asyncio.sleep(0.05)
            assert other.alive and await other.load() == 0

    asyncio.run(scenario())


@pytest.mark.requirement("OPS-11")
def test_a_driver_that_was_away_for_a_moment_only_is_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with drivers(tmp_path, monkeypatch, MINUTE) as found:
            link = await found.obtain()
            await freeze(link.pid)
            with pytest.raises(ConnectionError, match="does not answer"):
                await link.load()
            assert link.silent > 0
            os.kill(link.pid, signal.SIGCONT)
            while link.silent:
                await asyncio.sleep(0.05)  # whoever watches it hears of it
            assert await found.obtain() is link

    asyncio.run(scenario())


@asynccontextmanager
async def starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> AsyncIterator[SparkLauncher]:
    """A launcher whose driver is this program."""
    (tmp_path / "not_spark.py").write_text(program)
    monkeypatch.setattr(spark_drivers, "PROGRAM", "not_spark")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    launcher = SparkLauncher(tmp_path, SparkSettings(), "", {**os.environ, "PYTHONPATH": path})
    await launcher.open()
    try:
        yield launcher
    finally:
        await launcher.close()
        await asyncio.to_thread(spark_drivers.end_drivers, tmp_path, patience=0.0)


async def reported(launcher: SparkLauncher, what: Launch, *phases: Phase) -> Report:
    async with asyncio.timeout(60):
        while True:
            for report in await launcher.poll([what.attempt]):
                if report.phase in phases:
                    return report
            await asyncio.sleep(0.05)


def children() -> set[int]:
    """The processes that this one has started, ended ones that nobody has reaped with them."""
    return {process.pid for process in psutil.Process().children()}


@pytest.mark.requirement("OPS-11")
@pytest.mark.parametrize("how", ["slow", "cancelled"])
def test_a_driver_that_says_no_hello_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    async def scenario() -> None:
        async with drivers(tmp_path, monkeypatch, MINUTE, SLEEPER) as found:
            before, known = asyncio.all_tasks(), children()
            monkeypatch.setattr(spark_drivers, "HELLO", 0.5 if how == "slow" else 600.0)
            for number in range(2):
                obtaining = asyncio.create_task(found.obtain())
                if how == "cancelled":
                    await comes(lambda wanted=number + 1: len(list(tmp_path.glob("drivers/*/begun"))) == wanted)
                    obtaining.cancel()
                with pytest.raises(Unavailable if how == "slow" else asyncio.CancelledError):
                    await obtaining
            await comes(lambda: not children() - known, 30)
            assert asyncio.all_tasks() == before

    asyncio.run(scenario())


@pytest.mark.requirement("OPS-11")
def test_a_pyspark_program_waits_for_its_driver_and_nobody_waits_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_drivers, "HELLO", 600.0)

    async def scenario() -> None:
        async with starting(tmp_path, monkeypatch, SLEEPER) as launcher:
            waits, leaves = launch(PySpark(entry="nothing:main")), launch(PySpark(entry="nothing:main"))
            for what in (waits, leaves):
                await asyncio.wait_for(launcher.start(what), 60)
                assert (await launcher.start(what), await launcher.seal(what)) == (
                    "spark",
                    await reported(launcher, what, Phase.STARTING),
                )
            await launcher.stop(leaves.attempt, StopHow.POLITE)
            report = await reported(launcher, leaves, Phase.FINISHED)
            assert (report.outcome, report.error["code"], report.ran) == ("cancelled", "cancelled", False)
            assert launcher.attempts.claim(leaves.identity).sealed, "no driver that comes later starts it"
            assert launcher.attempts.claim(waits.identity) is None

    asyncio.run(scenario())


def test_a_pyspark_program_for_which_no_driver_comes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_drivers, "HELLO", 0.2)

    async def scenario() -> None:
        async with starting(tmp_path, monkeypatch, SLEEPER) as launcher:
            what = launch(PySpark(entry="nothing:main"))
            await launcher.start(what)
            report = await reported(launcher, what, Phase.FINISHED)
            assert (report.outcome, report.ran) == ("refused", False) and "no sign of life" in report.error["message"]
            assert launcher.attempts.claim(what.identity).sealed

    asyncio.run(scenario())


@pytest.mark.parametrize("spec", [PySpark(entry="nothing:main"), SparkSql(sql="SELECT 1")], ids=["pyspark", "sql"])
def test_what_was_stopped_before_it_had_a_driver_stays_so_when_none_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: PySpark | SparkSql
) -> None:
    async def scenario() -> None:
        async with starting(tmp_path, monkeypatch, SLEEPER) as launcher:
            given_up = asyncio.Event()

            async def obtain() -> None:
                await given_up.wait()
                raise Unavailable("no driver")

            monkeypatch.setattr(launcher.drivers, "obtain", obtain)
            what = launch(spec)
            await launcher.start(what)
            await launcher.stop(what.attempt, StopHow.KILL)
            assert (await reported(launcher, what, Phase.FINISHED)).outcome == "cancelled"
            await launcher.forget([what.attempt])
            over = asyncio.Event()
            launcher.on_change = over.set
            given_up.set()
            await asyncio.wait_for(over.wait(), 60)
            assert not await launcher.poll([what.attempt])

    asyncio.run(scenario())


def test_the_process_of_a_pyspark_program_starts_when_there_is_a_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with starting(tmp_path, monkeypatch, DRIVER) as launcher:
            what = launch(PySpark(entry="nothing:main"))
            await launcher.start(what)
            report = await reported(launcher, what, Phase.FINISHED)
            assert report.outcome == "failed" and report.backend_id.startswith("pid "), "it is no driver of Spark's"
            assert not launcher.attempts.claim(what.identity).sealed

    asyncio.run(scenario())


def test_an_end_that_cannot_be_written_yet_is_written_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_drivers, "HELLO", 0.2)
    monkeypatch.setattr(spark, "AGAIN", 0.01)
    full = [True] * 3

    def make_claim(directory: str, owner: dict[str, Any]) -> int | None:
        if full:
            full.pop()
            raise OSError(errno.ENOSPC, "full")
        return claimed(directory, owner)

    claimed = shim.make_claim
    monkeypatch.setattr(shim, "make_claim", make_claim)

    async def scenario() -> None:
        async with starting(tmp_path, monkeypatch, SLEEPER) as launcher:
            what = launch(PySpark(entry="nothing:main"))
            await launcher.start(what)
            assert (await reported(launcher, what, Phase.FINISHED)).outcome == "refused"
            assert not full

    asyncio.run(scenario())
