"""What dies, and what that hurts: workers, drivers, and those who wait for them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tidegate.domain.errors import Fenced
from tidegate.domain.instants import SECOND
from tidegate.domain.programs import PySpark, SparkSql
from tidegate.launchers.spark_drivers import end_drivers
from tidegate.ports.launching import Phase, StopHow

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PROGRAMS = Path(__file__).with_name("programs.py")
ENDLESS = "SELECT count(*) FROM range(1000000000000) WHERE sqrt(id) * id < 0"

WORKER = """
import asyncio, json, os, sys
sys.path.insert(0, {tests!r})
from conftest import Lake
from pathlib import Path
from tidegate.domain.ids import parse_run_id
from tidegate.domain.programs import PySpark, SparkSql
from tidegate.ports.launching import Phase

async def main():
    lake = Lake(Path({home!r}), {url!r}, Path({jars!r}))
    async with lake.worker() as launcher:
        for key, spec in {attempts}:
            launch = lake.launch(spec, key=parse_run_id(key))
            await launcher.start(launch)
            await lake.until(launcher, launch, Phase.RUNNING)
        print("started", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.requirement("RUN-5")
def test_a_new_worker_adopts_what_a_killed_one_started(lake, jars):
    """SQL in the driver, a child over Connect: both outlive the worker's kill -9, and their ends are known."""
    sql, function = lake.key(), lake.key()
    attempts = [(str(sql), SparkSql(sql="SELECT count(*) FROM range(3000000000)")), (str(function), _program("nap"))]
    script = WORKER.format(
        tests=str(Path(__file__).parent), home=str(lake.home), url=lake.url, jars=str(jars), attempts=attempts
    )
    script = script.replace(
        "from tidegate.ports", "from tidegate.domain.programs import Isolation\nfrom tidegate.ports"
    )
    script = script.replace("<Isolation.SHARED: 'shared'>", "Isolation.SHARED")
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None and worker.stdout.readline() == "started\n"
        worker.send_signal(signal.SIGKILL)

    async def scenario() -> None:
        async with lake.worker() as launcher:
            for key, spec in ((sql, attempts[0][1]), (function, attempts[1][1])):
                launch = lake.launch(spec, key=key)
                assert await launcher.seal(launch) is not None
                report = await lake.until(launcher, launch, Phase.FINISHED)
                assert report.outcome == "succeeded", lake.log(launch)

    asyncio.run(scenario())
    assert len(lake.driver_pids()) == 1


@pytest.mark.requirement("RUN-9")
def test_a_new_worker_can_stop_what_a_killed_one_started(lake):
    launch = lake.launch(SparkSql(sql=ENDLESS))

    async def begin() -> None:
        async with lake.worker() as launcher:
            await launcher.start(launch)
            await lake.until(launcher, launch, Phase.RUNNING)

    async def end() -> None:
        async with lake.worker() as launcher:
            assert await launcher.seal(launch) is not None
            await launcher.stop(launch.attempt, StopHow.POLITE)
            assert (await lake.until(launcher, launch, Phase.FINISHED, seconds=20)).outcome == "cancelled"

    asyncio.run(begin())
    asyncio.run(end())


def test_a_sealed_attempt_never_starts(lake):
    async def scenario() -> None:
        async with lake.worker() as launcher:
            for spec in (SparkSql(sql="SELECT 1"), _program("noop")):
                launch = lake.launch(spec)
                assert await launcher.seal(launch) is None
                with pytest.raises(Fenced):
                    await launcher.start(launch)

    asyncio.run(scenario())


@pytest.mark.requirement("RUN-6")
def test_a_driver_that_dies_fails_only_its_own_attempts(lake):
    async def scenario() -> None:
        async with lake.worker() as launcher:
            sql, function = lake.launch(SparkSql(sql=ENDLESS)), lake.launch(_program("slow"))
            apart = lake.launch(_program("nap", isolation="process"))
            for launch in (apart, sql, function):
                await launcher.start(launch)
            for launch in (apart, sql, function):
                await lake.until(launcher, launch, Phase.RUNNING)
            (pid,) = lake.driver_pids()
            jvms = psutil.Process(pid).children(recursive=True)
            os.kill(pid, signal.SIGKILL)
            for launch in (sql, function):
                report = await lake.until(launcher, launch, Phase.GONE, seconds=30)
                assert report.error is not None and report.error["code"] == "spark.driver_died"
            again = lake.launch(SparkSql(sql="SELECT 1"))
            await launcher.start(again)
            assert (await lake.until(launcher, again, Phase.FINISHED)).outcome == "succeeded"
            assert (await lake.until(launcher, apart, Phase.FINISHED)).outcome == "succeeded"
            assert not psutil.wait_procs(jvms, timeout=20)[1], "the JVM outlived its driver"
            assert len(lake.driver_pids()) == 1 and pid not in lake.driver_pids()

    asyncio.run(scenario())


@pytest.mark.requirement("OPS-11", "RUN-6")
@pytest.mark.parametrize("hangs", ["driver", "jvm"])
def test_a_driver_that_hangs_is_killed_and_its_attempts_are_known_to_have_crashed(lake, hangs):
    """SIGSTOP: nobody ends, nobody answers, and nobody may wait for it."""
    settings = dataclasses.replace(lake.settings, patience=8 * SECOND)
    others = set(lake.driver_pids())

    async def scenario() -> None:
        async with lake.worker(settings) as launcher:
            hanging = lake.launch(SparkSql(sql=ENDLESS))
            await launcher.start(hanging)
            await lake.until(launcher, hanging, Phase.RUNNING)
            (pid,) = set(lake.driver_pids()) - others
            jvm = next(one for one in psutil.Process(pid).children(recursive=True) if one.name() == "java")
            os.kill(pid if hangs == "driver" else jvm.pid, signal.SIGSTOP)
            began = time.monotonic()
            await launcher.stop(hanging.attempt, StopHow.POLITE)
            assert time.monotonic() - began < 2, "who asks it to stop does not wait for it"
            report = await lake.until(launcher, hanging, Phase.GONE, seconds=60)
            assert report.error is not None and report.error["code"] == "spark.driver_died"
            assert not psutil.wait_procs([jvm], timeout=20)[1], "the JVM outlived its driver"
            assert pid not in lake.driver_pids()

    asyncio.run(scenario())


def test_a_jvm_that_dies_takes_its_driver_along(lake):
    lake.sql("SELECT 1")
    (pid,) = lake.driver_pids()
    driver = psutil.Process(pid)
    for child in driver.children(recursive=True):
        if child.name() == "java":
            child.kill()
    driver.wait(20)
    assert lake.run(SparkSql(sql="SELECT 2"))[0].outcome == "succeeded"


def test_an_idle_driver_ends_and_leaves_no_secret_behind(lake, jars):
    """Also: other settings mean another driver; the old one is not used, and not ended either."""
    lake.sql("SELECT 1")
    before = set(lake.driver_pids())
    settings = dataclasses.replace(lake.settings, idle=1_000_000)

    async def scenario() -> None:
        async with lake.worker(settings) as launcher:
            launch = lake.launch(SparkSql(sql="SELECT 1"))
            await launcher.start(launch)
            await lake.until(launcher, launch, Phase.FINISHED)
            (new,) = set(lake.driver_pids()) - before

            async def gone() -> bool:
                return new not in lake.driver_pids()

            await lake.eventually(gone, seconds=30)

    asyncio.run(scenario())
    asyncio.run(_open_and_close(lake))
    for folder in (lake.home / "drivers").glob("*-*/"):
        if json.loads((folder / "status.json").read_text())["phase"] == "ended":
            assert not (folder / "spark.properties").exists()
    assert before <= set(lake.driver_pids())


def test_no_password_stands_on_a_command_line(lake):
    password = lake.url.split(":")[2].split("@")[0]
    lake.sql("SELECT 1")
    for process in psutil.process_iter():
        try:
            assert password not in " ".join(process.cmdline())
        except psutil.Error:
            continue


def test_a_driver_that_cannot_start_says_why(lake, tmp_path):
    """The attempt is lost, not failed: it is not the program's doing; SQL and PySpark alike."""
    (tmp_path / "iceberg-spark-runtime-4.1_2.13-1.12.0.jar").write_bytes(b"not a jar")
    settings = dataclasses.replace(lake.settings, jars_dir=str(tmp_path))

    async def scenario() -> None:
        async with lake.worker(settings) as launcher:
            for spec in (SparkSql(sql="SELECT 1"), _program("noop"), _program("noop", isolation="process")):
                launch = lake.launch(spec)
                await launcher.start(launch)
                report = await lake.until(launcher, launch, Phase.FINISHED, seconds=60)
                assert report.outcome == "lost" and report.error is not None, lake.log(launch)
                assert report.error["code"] == "spark.jar_hash" and "Remove the file" in report.error["message"]
                assert "spark.jar_hash" in lake.log(launch) or "Remove the file" in lake.log(launch)

    asyncio.run(scenario())


def test_sessions_leave_no_database_connections_behind(lake):
    import psycopg

    def connections() -> int:
        with psycopg.connect(lake.url) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '%JDBC%'"
            ).fetchone()
        assert row is not None
        return int(row[0])

    lake.sql("CREATE NAMESPACE IF NOT EXISTS lake.many")
    before = connections()
    for number in range(4):
        lake.sql(f"CREATE TABLE IF NOT EXISTS lake.many.t{number} (id int) USING iceberg")
        lake.run(_program("append"), arguments={"table": f"lake.many.t{number}"})
    deadline = time.monotonic() + 10
    while connections() > before and time.monotonic() < deadline:
        time.sleep(0.2)
    assert connections() <= before


def test_all_drivers_of_a_home_can_be_ended(lake):
    lake.sql("SELECT 1")
    pids = lake.driver_pids()
    assert pids and end_drivers(lake.home) == len(pids)
    assert not lake.driver_pids()


async def _open_and_close(lake) -> None:
    async with lake.worker():
        pass


def _program(name: str, **more) -> PySpark:
    return PySpark(entry=f"{PROGRAMS}:{name}", **more)
