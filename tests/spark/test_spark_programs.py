"""What users run on Spark: functions, files, SQL; how they end, and what stands in their log."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tidegate.domain.programs import PySpark, SparkSql
from tidegate.ports.launching import Phase, StopHow

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PROGRAMS = Path(__file__).with_name("programs.py")


def program(name: str, **more: Any) -> PySpark:
    return PySpark(entry=f"{PROGRAMS}:{name}", **more)


@pytest.mark.requirement("RUN-6")
def test_sql_runs_in_a_warm_driver_and_shows_its_result(lake):
    report, log = lake.run(
        SparkSql(sql="SELECT {region} AS region; -- a comment;\nSELECT {limit} * 2 AS twice"),
        arguments={"region": "it's", "limit": -4},
    )
    assert (report.phase, report.outcome, report.error) == (Phase.FINISHED, "succeeded", None)
    assert "it's" in log and "(-4) * 2" in log and "-8" in log


def test_an_unknown_argument_fails_before_anything_runs(lake):
    report, log = lake.run(SparkSql(sql="CREATE NAMESPACE lake.never; SELECT {regoin}"), arguments={"region": "eu"})
    assert report.outcome == "failed" and "did you mean {region}?" in report.error["message"]
    assert "never" not in lake.sql("SHOW NAMESPACES IN lake").replace("SHOW NAMESPACES", "")


def test_a_wrong_statement_fails_with_what_spark_says(lake):
    report, log = lake.run(SparkSql(sql="SELECT nothing FROM nowhere"))
    assert report.outcome == "failed"
    assert "TABLE_OR_VIEW_NOT_FOUND" in report.error["message"] and "nowhere" in log


@pytest.mark.requirement("RUN-6")
def test_a_function_gets_run_session_and_arguments(lake):
    report, log = lake.run(program("tell"), arguments={"region": "eu"}, number=1)
    assert report.outcome == "succeeded", log
    assert "attempt 1 fence 41 at 2027-01-15 08:00:00+00:00 region eu rows 3" in log


def test_functions_of_a_file_work_in_spark_workers(lake):
    report, log = lake.run(program("udf"))
    assert report.outcome == "succeeded", log


@pytest.mark.requirement("RUN-6")
def test_a_file_is_run_as_a_script(lake):
    report, log = lake.run(PySpark(entry=str(PROGRAMS.with_name("script.py"))))
    assert report.outcome == "succeeded" and "script __main__ load 4" in log


@pytest.mark.parametrize(
    ("name", "arguments", "code", "text"),
    [
        ("fail", {}, "program.error", "ValueError: no such feed"),
        ("fail_in_java", {}, "program.error", "java.lang.reflect.InvocationTargetException"),
        ("fail_in_sql", {}, "program.error", "[TABLE_OR_VIEW_NOT_FOUND]"),
        ("leave", {}, "program.exit", "exit status 3"),
        ("fial", {}, "program.import", "did you mean 'fail'?"),
        ("tell", {"regoin": "eu"}, "program.arguments", "does not take regoin and lacks region"),
    ],
)
def test_a_failure_says_what_was_wrong(lake, name, arguments, code, text):
    report, log = lake.run(program(name), arguments=arguments)
    assert (report.outcome, report.error["code"]) == ("failed", code), log
    assert text in report.error["message"] and "\n" not in report.error["message"], log


def test_a_program_that_is_not_there_is_named(lake):
    report, _ = lake.run(PySpark(entry="nowhere.at_all:main"))
    assert report.error["code"] == "program.import" and "nowhere.at_all cannot be imported" in report.error["message"]


@pytest.mark.requirement("RUN-9")
def test_a_running_sql_is_cancelled_and_its_jobs_end(lake):
    async def scenario() -> None:
        async with lake.worker() as launcher:
            launch = lake.launch(SparkSql(sql="SELECT count(*) FROM range(1000000000000) WHERE sqrt(id) * id < 0"))
            await launcher.start(launch)
            await lake.until(launcher, launch, Phase.RUNNING)
            await asyncio.sleep(1)
            begun = time.monotonic()
            await launcher.stop(launch.attempt, StopHow.POLITE)
            report = await lake.until(launcher, launch, Phase.FINISHED, seconds=20)
            assert report.outcome == "cancelled" and time.monotonic() - begun < 10

    asyncio.run(scenario())
    begun = time.monotonic()
    assert lake.run(SparkSql(sql="SELECT count(*) FROM range(1000)"))[0].outcome == "succeeded"
    assert time.monotonic() - begun < 8


@pytest.mark.requirement("RUN-9")
@pytest.mark.parametrize(("name", "how"), [("slow", StopHow.POLITE), ("stubborn", StopHow.KILL)])
def test_a_running_pyspark_is_stopped_and_its_jobs_end(lake, name, how):
    async def scenario() -> None:
        async with lake.worker() as launcher:
            launch = lake.launch(program(name))
            await launcher.start(launch)
            await lake.until(launcher, launch, Phase.RUNNING)
            await asyncio.sleep(1.5)
            await launcher.stop(launch.attempt, how)
            report = await lake.until(launcher, launch, Phase.FINISHED, seconds=20)
            assert report.outcome == "cancelled"
            if how is StopHow.POLITE:
                assert "tidied up True" in lake.log(launch)
            assert not [one for one in psutil.process_iter() if launch.identity in " ".join(_argv(one))]
            # Both cores are free again: a query is done at once.
            begun = time.monotonic()
            after = lake.launch(SparkSql(sql="SELECT sum(id) FROM range(100000)"))
            await launcher.start(after)
            assert (await lake.until(launcher, after, Phase.FINISHED)).outcome == "succeeded"
            assert time.monotonic() - begun < 8

    asyncio.run(scenario())


def test_a_function_that_needs_a_context_gets_a_jvm_of_its_own(lake):
    report, log = lake.run(program("use_context", isolation="process"))
    assert report.outcome == "succeeded", log
    stamps = lake.snapshots("own.jvm")
    assert {one["operation"] for one in stamps} == {"overwrite", "append", "replace", "delete"}
    assert len({one["run-key"] for one in stamps}) == 1 and all(one["fence"] == "41" for one in stamps)


def test_a_procedure_over_connect_is_refused_with_the_remedy(lake):
    report, _ = lake.run(program("call_procedure"))
    assert report.error["code"] == "spark.isolation" and "isolation: process" in report.error["message"]


def _argv(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
