"""A table of small commits under a policy of ten lines: measured, put in order and told, by a whole Tidegate on Spark,
also through kill -9 of the worker in the middle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doors.test_up import Up, free_port, until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]
PROGRAMS = """
def fill(spark):
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.raw")
    spark.sql("CREATE TABLE lake.raw.small (id BIGINT, day STRING) USING iceberg PARTITIONED BY (day)")
    for n in range(12):
        spark.sql(f"INSERT INTO lake.raw.small VALUES ({n}, 'd{n % 2}')")


def look(spark):
    rows = sorted(row.id for row in spark.table("lake.raw.small").collect())
    assert rows == list(range(12)), rows
"""
POLICY = {
    "tables": "lake.raw.*",
    "operations": {
        "rewrite_data_files": {"schedule": {"trigger": {"type": "interval", "every": "PT2S"}}},
        "expire_snapshots": {"schedule": {"trigger": {"type": "interval", "every": "PT2S"}}},
    },
}
TABLE = "/tables/lake.raw.small"


@pytest.fixture
def up(tmp_path: Path, jars: Path) -> Iterator[Up]:
    (tmp_path / "programs.py").write_text(PROGRAMS)
    settings = {"TIDEGATE_SPARK__JARS_DIR": str(jars), "TIDEGATE_LAKE__MEASURE": "PT1S"}
    one = Up(tmp_path / "home", free_port(), **settings, TIDEGATE_LAKE__MEASURE_REST="PT1S")
    try:
        until(one.ready, 60)
        yield one
    finally:
        one.process.terminate()
        one.process.wait(60)


def program(up: Up, path: Path, name: str) -> None:
    body = {"spec": {"type": "pyspark", "entry": f"{path / 'programs.py'}:{name}"}}
    up.call("PUT", f"/namespaces/default/programs/{name}", body)
    up.call("PUT", f"/namespaces/default/schedules/{name}", {"spec": {"program": name, "trigger": {"type": "never"}}})
    up.call("POST", f"/namespaces/default/schedules/{name}:enable")
    run = up.trigger(name)
    until(lambda: up.state(run) in ("succeeded", "failed"), 150)
    assert up.state(run) == "succeeded", up.get(f"/runs/{run}")


@pytest.mark.requirement("CARE-3", "CARE-5", "CARE-8", "CARE-10", "CARE-12", "CARE-13")
def test_a_table_under_a_policy_is_measured_put_in_order_and_loses_no_row(up: Up, tmp_path: Path) -> None:
    program(up, tmp_path, "fill")
    assert up.call("PUT", "/policies/raw", {"spec": POLICY})

    def runs() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = up.get(f"{TABLE}/runs")["items"]
        return found

    started = until(lambda: [one for one in runs() if up.state(one["run"]) in ("ready", "starting", "running")], 60)[0]
    before = up.get(f"{TABLE}/health")
    up.role("worker").kill()
    until(lambda: up.state(started["run"]) in ("succeeded", "failed"), 150)
    assert up.state(started["run"]) == "succeeded", up.get(f"/runs/{started['run']}")
    [done] = [one for one in runs() if one["run"] == started["run"]]
    assert done["operation"] == "rewrite_data_files"
    until(lambda: up.get(f"{TABLE}/health") != before, 60)
    program(up, tmp_path, "look")

    said = {one["operation"]: one for one in up.get(f"{TABLE}/trigger-status")["operations"]}
    assert "would change nothing" in str(said["expire_snapshots"]), "younger than any that expire: it is not launched"
    assert {one["operation"] for one in runs()} == {"rewrite_data_files"}
    audit = up.get("/audit/ledger")
    assert audit["holds"], audit
