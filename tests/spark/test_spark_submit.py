"""Applications on a real standalone cluster: a master and two workers of this machine, from the packaged Spark."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from launchers.helpers import driving, launch, log_of, run
from waiting import comes, free_port

from tidegate.domain.errors import Refused
from tidegate.domain.programs import DeployMode, SparkSubmit
from tidegate.launchers.attempts import Attempts
from tidegate.launchers.submit import SubmitLauncher
from tidegate.pipeline.java import find_java
from tidegate.pipeline.submit import compose, kill_command, last_word, name_in, properties_text
from tidegate.ports.launching import Launch, Phase, Report, StopHow
from tidegate.ports.spark import SparkSettings

APPLICATION = Path(__file__).with_name("submitted.py")
WORKERS = 2


@dataclass
class Cluster:
    """A standalone master and its two workers."""

    home: Path
    url: str
    page: str

    def state(self) -> dict[str, Any]:
        with urllib.request.urlopen(self.page, timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def launcher(self) -> SubmitLauncher:
        return SubmitLauncher(self.home, SparkSettings(master=self.url), {**os.environ, "LEVEL_OF": "debug"})

    def program(self, how: str, path: Path, *more: str, **said: Any) -> SparkSubmit:
        """Small enough for two at a time."""
        conf = {"spark.cores.max": 1, "spark.executor.memory": "512m", "spark.driver.memory": "512m",
                "spark.pyspark.python": sys.executable, "spark.ui.enabled": False}  # fmt: skip
        given = {"application": str(APPLICATION), "conf": conf, "args": (how, str(path), *more), **said}
        return SparkSubmit(environment={"LEVEL": "env:LEVEL_OF"}, **given)

    def in_the_cluster(self, how: str, path: Path, jar: Path) -> SparkSubmit:
        """The same in cluster mode, which standalone offers to jars: Spark's own class runs the file."""
        with zipfile.ZipFile(jar, "w") as made:
            made.writestr("nothing", "")
        spec = self.program(how, path)
        return SparkSubmit(
            application=str(jar),
            main_class="org.apache.spark.deploy.PythonRunner",
            deploy_mode=DeployMode.CLUSTER,
            conf=spec.conf,
            args=(str(APPLICATION), "", *spec.args),
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    import pyspark

    home = tmp_path_factory.mktemp("cluster")
    spark = Path(pyspark.__file__).parent
    port, page = free_port(), free_port()
    environment = {
        **os.environ,
        "SPARK_HOME": str(spark),
        "JAVA_HOME": str(find_java(home).home),
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_WORKER_DIR": str(home / "work"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    log = (home / "daemons.log").open("wb")

    def begin(name: str, *argv: str) -> subprocess.Popen[bytes]:
        line = [str(spark / "bin/spark-class"), f"org.apache.spark.deploy.{name}", *argv]
        return subprocess.Popen(line, env=environment, stdout=log, stderr=log, start_new_session=True)

    url = f"spark://127.0.0.1:{port}"
    daemons = [
        begin("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)),
        *(
            begin("worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "2", "--memory", "2g", url)
            for _ in range(WORKERS)
        ),
    ]
    found = Cluster(home, url, f"http://127.0.0.1:{page}/json/")
    try:
        asyncio.run(comes(lambda: _alive(found), 240))
        yield found
    finally:
        for one in daemons:
            with suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGTERM)
        for one in daemons:
            one.wait(30)
        log.close()
        for process in [one for one in psutil.process_iter() if _runs(one, str(home))]:  # a failed test's own
            with suppress(psutil.Error):
                process.kill()


def _alive(cluster: Cluster) -> bool:
    try:
        return bool(cluster.state()["aliveworkers"] == WORKERS)
    except (OSError, ValueError):
        return False


async def ended(driver: Any, what: Launch) -> Report:
    report: Report = await driver.end(what, patience=240)
    return report


real = [pytest.mark.spark, pytest.mark.slow, pytest.mark.requirement("RUN-6")]


class TestOnAStandaloneCluster:
    pytestmark = real

    @pytest.mark.requirement("RUN-5", "RUN-8")
    def test_a_driver_of_ours_outlives_the_worker_and_its_end_is_known(self, cluster: Cluster, tmp_path: Path) -> None:
        spec = cluster.program("work", tmp_path / "go", "{{ arguments.region }}")
        what = launch(spec, arguments={"region": "eu"})

        async def work() -> Report:
            async with driving(cluster.launcher()) as driver:
                await driver.launcher.start(what)
                await comes((tmp_path / "go.begun").exists)
            async with driving(cluster.launcher()) as driver:
                sealed = await driver.launcher.seal(what)
                assert sealed is not None and sealed.phase is Phase.RUNNING
                (tmp_path / "go").touch()
                report = await ended(driver, what)
                await driver.launcher.forget([what.attempt])
                assert not list(Attempts(cluster.home).directory(what.identity).glob("*properties*"))
                return report

        report, log = run(work()), log_of(cluster.home, what)
        assert report.outcome == "succeeded", log
        assert (tmp_path / "go.begun").read_text() == "debug"
        assert f"total 4950 of {cluster.url}" in log and f"told {what.attempt.run} 41 ['eu']" in log

    @pytest.mark.requirement("RUN-9")
    def test_a_failure_is_told_by_its_exit_status_and_a_stop_frees_the_cluster(
        self, cluster: Cluster, tmp_path: Path
    ) -> None:
        fails, waits = launch(cluster.program("fail", tmp_path / "a")), launch(cluster.program("hold", tmp_path / "b"))

        async def work() -> tuple[Report, Report]:
            async with driving(cluster.launcher()) as driver:
                await driver.launcher.start(fails)
                await driver.launcher.start(waits)
                await comes((tmp_path / "b.begun").exists)
                await driver.launcher.stop(waits.attempt, StopHow.POLITE)
                return await ended(driver, fails), await ended(driver, waits)

        failed, stopped = run(work())
        assert (failed.outcome, failed.error["exit_status"]) == ("failed", 3), log_of(cluster.home, fails)
        assert stopped.outcome == "cancelled"
        asyncio.run(comes(lambda: not cluster.state()["activeapps"]))
        assert not [one for one in psutil.process_iter() if _runs(one, str(tmp_path))]

    @pytest.mark.requirement("RUN-5", "RUN-9")
    def test_a_driver_in_the_cluster_is_known_by_name_judged_and_ended(self, cluster: Cluster, tmp_path: Path) -> None:
        jar = tmp_path / "nothing.jar"
        fails = launch(cluster.in_the_cluster("fail", tmp_path / "a", jar))
        waits = launch(cluster.in_the_cluster("wait", tmp_path / "b", jar))

        async def work() -> tuple[Report, Report]:
            async with driving(cluster.launcher()) as driver:
                await driver.launcher.start(fails)
                await driver.launcher.start(waits)
                await comes((tmp_path / "b.begun").exists)
                assert len(cluster.state()["activedrivers"]) >= 1
                await driver.launcher.stop(waits.attempt, StopHow.POLITE)
                return await ended(driver, fails), await ended(driver, waits)

        failed, stopped = run(work())
        log = log_of(cluster.home, fails)
        assert (failed.outcome, failed.error["code"]) == ("failed", "spark.driver"), log
        assert failed.backend_id.startswith("driver-") and "FAILED" in failed.error["message"]
        assert stopped.outcome == "cancelled", log_of(cluster.home, waits)
        asyncio.run(comes(lambda: not cluster.state()["activedrivers"]))


def _runs(process: psutil.Process, word: str) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and any(word in part for part in process.cmdline())
    except psutil.Error:
        return False


# ── an end by force, with a spark-submit that is none ──────────────────────────────────────────────────────────────

JAVA = """#!/bin/sh
echo 'openjdk version "17.0.1"' >&2
"""
SUBMIT = """#!/bin/sh
trap '' TERM
echo Driver successfully submitted as driver-1
while :; do sleep 0.2; done
"""
KILL = """#!/bin/sh
echo "$@; $HADOOP_CONF_DIR; $TIDEGATE_DATABASE_URL; $TIDEGATE_RUN_ID" > $TOLD.draft && mv $TOLD.draft $TOLD
exit $STATUS
"""


def stubborn(tmp_path: Path, status: int) -> tuple[SubmitLauncher, Launch]:
    """A driver that heeds no SIGTERM, and a cluster that writes down what it was told to end."""
    for name, text in (("java/bin/java", JAVA), ("bin/spark-submit", SUBMIT), ("bin/spark-class", KILL)):
        made = tmp_path / name
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(text)
        made.chmod(0o700)
    environment = {
        **os.environ,
        "SPARK_HOME": str(tmp_path),
        "STATUS": str(status),
        "TOLD": str(tmp_path / "told"),
        "TIDEGATE_DATABASE_URL": "postgresql://secret",
    }
    settings = SparkSettings(master="spark://h:1", java_home=str(tmp_path / "java"))
    spec = SparkSubmit(
        application="a.jar", deploy_mode=DeployMode.CLUSTER, environment={"HADOOP_CONF_DIR": "/etc/hadoop"}
    )
    return SubmitLauncher(tmp_path / "home", settings, environment), launch(spec)


@pytest.mark.requirement("RUN-9")
@pytest.mark.parametrize("adopted", [False, True])
def test_a_driver_in_the_cluster_is_ended_by_force_though_its_end_is_forgotten_at_once(
    tmp_path: Path, adopted: bool
) -> None:
    launcher, what = stubborn(tmp_path, 0)
    order = launcher.attempts.directory(what.identity) / "order.json"

    async def work() -> Report:
        async with driving(launcher) as driver:
            await driver.launcher.start(what)
            await driver.until(what, lambda report: report.backend_id == "driver-1")
            if not adopted:
                return await force(driver)
        async with driving(stubborn(tmp_path, 0)[0]) as driver:
            assert await driver.launcher.seal(what) is not None
            return await force(driver)

    async def force(driver: Any) -> Report:
        await driver.launcher.stop(what.attempt, StopHow.KILL)
        report: Report = await driver.end(what)
        await driver.launcher.forget([what.attempt])
        await comes((tmp_path / "told").exists, 60)
        await comes(lambda: not order.exists(), 60)
        return report

    report = run(work())
    assert report.outcome == "cancelled"
    assert (tmp_path / "told").read_text().strip() == (
        "org.apache.spark.deploy.Client kill spark://h:1 driver-1; /etc/hadoop; ;"
    )


@pytest.mark.requirement("RUN-9")
def test_a_cluster_that_does_not_end_a_driver_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    launcher, what = stubborn(tmp_path, 3)

    async def work() -> None:
        async with driving(launcher) as driver:
            await driver.launcher.start(what)
            await driver.until(what, lambda report: report.backend_id == "driver-1")
            await driver.launcher.stop(what.attempt, StopHow.KILL)
            await comes(lambda: caplog.records, 60)

    run(work())
    assert "driver-1" in caplog.text and "exit status 3" in caplog.text and what.identity in caplog.text


# ── what is composed, without a cluster ────────────────────────────────────────────────────────────────────────────


def order(**said: Any) -> dict[str, Any]:
    return {
        "identity": "rhh3gpl5vk0-1-0.2",
        "directory": "/home/attempts/aa/x",
        "run": {"fence": 41},
        "application": "s3a://jobs/settle.py",
        "main_class": None,
        "master": "yarn",
        "deploy_mode": "cluster",
        "conf": {"spark.secret": "env:SECRET", "spark.dynamicAllocation.enabled": True},
        "args": ["--day", "2026-03-29"],
        **said,
    }


KNOWN = {"SECRET": "s3cret", "TIDEGATE_RUN_ID": "rhh3gpl5vk0-1-0"}


@pytest.mark.requirement("RUN-6")
@pytest.mark.parametrize(
    ("master", "settings"),
    [
        pytest.param(
            "yarn",
            {
                "spark.yarn.tags": "tidegate-rhh3gpl5vk0-1-0.2",
                "spark.yarn.submit.waitAppCompletion": "true",
                "spark.yarn.appMasterEnv.TIDEGATE_RUN_ID": "rhh3gpl5vk0-1-0",
            },
            id="yarn",
        ),
        pytest.param(
            "k8s://https://k:6443",
            {
                "spark.kubernetes.driver.label.tidegate-attempt": "rhh3gpl5vk0-1-0.2",
                "spark.kubernetes.submission.waitAppCompletion": "true",
                "spark.kubernetes.driverEnv.TIDEGATE_RUN_ID": "rhh3gpl5vk0-1-0",
            },
            id="kubernetes",
        ),
    ],
)
def test_yarn_and_kubernetes_are_asked_by_spark_submits_own_options(master: str, settings: dict[str, str]) -> None:
    made = compose(order(master=master), "/spark", KNOWN)
    assert made.argv == (
        "/spark/bin/spark-submit", "--master", master, "--deploy-mode", "cluster", "--name",
        "tidegate-rhh3gpl5vk0-1-0.2", "--load-spark-defaults", "--properties-file",
        "/home/attempts/aa/x/spark.properties", "s3a://jobs/settle.py", "--day", "2026-03-29",
    )  # fmt: skip
    assert made.properties.items() >= settings.items()
    assert made.properties["spark.secret"] == "s3cret" and not any("s3cret" in part for part in made.argv)
    assert made.properties["spark.dynamicAllocation.enabled"] == "true"
    assert made.properties["spark.sql.iceberg.snapshot-property.tidegate.attempt"] == "2"


def test_a_driver_is_ended_by_what_its_cluster_offers() -> None:
    assert kill_command("/s", "yarn", "application_1_2", {}, {})[-1] == "application_1_2"
    assert kill_command("/s", "k8s://h", "a-driver", {}, {})[-1] == "default:a-driver"
    assert kill_command("/s", "k8s://h", "a-driver", {"spark.kubernetes.namespace": "n"}, {})[-1] == "n:a-driver"
    kept = {"spark.kubernetes.namespace": "env:TEAM"}
    assert kill_command("/s", "k8s://h", "a-driver", kept, {"TEAM": "n"})[-1] == "n:a-driver"
    assert kill_command("/s", "spark://h:1", "driver-1", {}, {})[-2:] == ("spark://h:1", "driver-1")


@pytest.mark.requirement("RUN-6")
def test_a_setting_in_a_variable_that_is_not_set_is_refused_and_never_empty() -> None:
    with pytest.raises(Refused, match=r"The setting spark\.secret .* variable SECRET, which is not set"):
        compose(order(), "/spark", {})


def test_the_name_and_the_last_word_are_found_in_what_spark_submit_says() -> None:
    said = "… Driver successfully submitted as driver-20261121-0000\n… State of driver-20261121-0000 is RUNNING\n"
    assert (name_in(said), last_word(said)) == ("driver-20261121-0000", "")
    assert last_word(said + "State of driver driver-20261121-0000 is FAILED, exiting spark-submit JVM.") == "FAILED"
    assert name_in("Submitted application application_17_0001 to") == "application_17_0001"


def test_settings_are_written_as_java_reads_them() -> None:
    assert properties_text({"a b:c": " ü\\\n"}) == "a\\ b\\:c \\ \\u00fc\\\\\\n\n"
