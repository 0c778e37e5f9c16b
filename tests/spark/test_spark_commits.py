"""RUN-7: what an attempt commits carries its run's key and fence, and a retry finds it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tidegate.domain.programs import PySpark, SparkSql
from tidegate.ports.launching import Phase, StopHow

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PROGRAMS = Path(__file__).with_name("programs.py")

STATEMENTS = """
CREATE NAMESPACE IF NOT EXISTS lake.stamped;
CREATE TABLE lake.stamped.sql (id int, day int) USING iceberg PARTITIONED BY (day);
INSERT INTO lake.stamped.sql VALUES (1, 1), (2, 2), (3, 3);
UPDATE lake.stamped.sql SET id = 10 WHERE id = 1;
MERGE INTO lake.stamped.sql t USING (SELECT 2 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET day = 4;
DELETE FROM lake.stamped.sql WHERE id = 2 AND day = 4;
DELETE FROM lake.stamped.sql WHERE day = 3;
CREATE TABLE lake.stamped.ctas USING iceberg AS SELECT * FROM lake.stamped.sql;
INSERT OVERWRITE lake.stamped.ctas SELECT 7, 7;
DELETE FROM lake.stamped.ctas;
INSERT INTO lake.stamped.ctas SELECT 8, 8;
TRUNCATE TABLE lake.stamped.ctas
"""


@pytest.mark.requirement("RUN-7")
def test_every_statement_of_a_sql_program_is_stamped(lake):
    key = lake.key()
    report, log = lake.run(SparkSql(sql=STATEMENTS), key=key)
    assert report.outcome == "succeeded", log
    stamps = lake.snapshots("stamped.sql") + lake.snapshots("stamped.ctas")
    assert len(stamps) >= 9
    for stamp in stamps:
        assert (stamp["run-key"], stamp["fence"], stamp["attempt"]) == (str(key), "41", "1"), stamp
    assert {one["step"] for one in stamps} == {"3", "4", "5", "6", "7", "8", "9", "10", "11", "12"}


@pytest.mark.requirement("RUN-7")
def test_whatever_a_connect_program_commits_is_stamped(lake):
    lake.sql("CREATE NAMESPACE IF NOT EXISTS lake.stamped")
    key = lake.key()
    spec = PySpark(entry=f"{PROGRAMS}:write")
    report, log = lake.run(spec, key=key, arguments={"table": "lake.stamped.connect"})
    assert report.outcome == "succeeded", log
    stamps = lake.snapshots("stamped.connect")
    assert len(stamps) == 7
    assert {(one["run-key"], one["fence"]) for one in stamps} == {(str(key), "41")}


@pytest.mark.requirement("RUN-7")
def test_a_procedure_runs_in_a_jvm_of_its_own_and_is_stamped(lake):
    lake.sql("CREATE NAMESPACE IF NOT EXISTS lake.stamped; CREATE TABLE lake.stamped.small (id int) USING iceberg")
    for number in range(6):
        lake.sql(f"INSERT INTO lake.stamped.small VALUES ({number})")
    key = lake.key()
    report, log = lake.run(SparkSql(sql="CALL lake.system.rewrite_data_files('stamped.small')"), key=key)
    assert report.outcome == "succeeded", log
    assert lake.snapshots("stamped.small")[-1] | {"step": "1"} == {
        "operation": "replace",
        "run-key": str(key),
        "fence": "41",
        "attempt": "1",
        "step": "1",
    }


@pytest.mark.requirement("RUN-7")
def test_a_retry_finds_the_commit_and_does_not_run_again(lake):
    """The attempt is killed between its commit and its end: it looks like a crash, and the rows are there."""
    lake.sql("CREATE NAMESPACE IF NOT EXISTS lake.retry; CREATE TABLE lake.retry.rows (attempt int) USING iceberg")
    key, given = lake.key(), {"table": "lake.retry.rows"}

    async def first() -> None:
        async with lake.worker() as launcher:
            launch = lake.launch(PySpark(entry=f"{PROGRAMS}:append_and_hang"), key=key, arguments=given)
            await launcher.start(launch)

            async def committed() -> bool:
                return "appended" in lake.log(launch)

            await lake.eventually(committed)
            await launcher.stop(launch.attempt, StopHow.KILL)
            await lake.until(launcher, launch, Phase.FINISHED)

    asyncio.run(first())
    report, log = lake.run(PySpark(entry=f"{PROGRAMS}:append"), key=key, number=2, arguments=given)
    assert report.outcome == "succeeded"
    assert report.error["code"] == "spark.already_committed" and "lake.retry.rows" in report.error["message"]
    assert "already committed in lake.retry.rows snapshot" in log and "appended" not in log
    assert len(lake.snapshots("retry.rows")) == 1
    # Another run is not this one.
    assert lake.run(PySpark(entry=f"{PROGRAMS}:append"), number=2, arguments=given)[0].error is None


@pytest.mark.requirement("RUN-7")
def test_a_retried_sql_program_goes_on_behind_its_last_commit(lake):
    lake.sql("CREATE NAMESPACE IF NOT EXISTS lake.retry; CREATE TABLE lake.retry.steps (step int) USING iceberg")
    key = lake.key()
    broken = (
        "INSERT INTO lake.retry.steps VALUES (1); SELECT assert_true({good}); INSERT INTO lake.retry.steps VALUES (3)"
    )
    assert lake.run(SparkSql(sql=broken), key=key, arguments={"good": False})[0].outcome == "failed"
    report, log = lake.run(SparkSql(sql=broken), key=key, number=2, arguments={"good": True})
    assert report.outcome == "succeeded" and "[1/3] already committed in lake.retry.steps" in log
    assert [(one["step"], one["attempt"]) for one in lake.snapshots("retry.steps")] == [("1", "1"), ("3", "2")]
    third, _ = lake.run(SparkSql(sql=broken), key=key, number=3, arguments={"good": True})
    assert third.error["code"] == "spark.already_committed"


def test_pyiceberg_reads_the_same_catalog(lake):
    from tidegate.pipeline.session import iceberg_catalog
    from tidegate.ports.spark import DriverSpec

    lake.sql(
        "CREATE NAMESPACE IF NOT EXISTS lake.shared; "
        "CREATE TABLE lake.shared.seen USING iceberg AS SELECT id FROM range(3)"
    )
    catalog = iceberg_catalog(DriverSpec(home=str(lake.home), catalog_url=lake.url, settings=lake.settings))
    table = catalog.load_table("shared.seen")
    assert table.scan().to_arrow().num_rows == 3
    table.append(table.scan().to_arrow())
    catalog.engine.dispose()
    assert "6" in lake.sql("SELECT count(*) FROM lake.shared.seen")
