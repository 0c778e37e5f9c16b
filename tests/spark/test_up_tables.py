"""A table of small commits under a policy of ten lines: measured, put in order and told, by a whole Tidegate on Spark,
also through kill -9 of scheduler and worker in the middle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from doors.running import Up, tidegate_up
from waiting import until

from tidegate.pipeline.session import iceberg_catalog
from tidegate.ports.spark import DriverSpec, SparkSettings
from tidegate.store.embedded import address_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]
POLICY = {
    "tables": "lake.raw.*",
    "operations": {
        "rewrite_data_files": {"schedule": {"trigger": {"type": "interval", "every": "PT2S"}}},
        "expire_snapshots": {"schedule": {"trigger": {"type": "interval", "every": "PT2S"}}},
    },
}
REWRITE = {"rewrite_data_files": {"schedule": {"trigger": {"type": "interval", "every": "PT2S"}}}}
OTHERS: dict[str, Any] = {
    "nothing": {"tables": "lake.rwa.*", "operations": REWRITE},
    "tied": {"tables": "lake.raw.*", "operations": REWRITE},
    "poor": {"tables": "lake.poor.*", "operations": REWRITE, "budget": {"bytes": "1 KB", "per": "PT1H"}},
}
"""One that matches nothing, one as near as `raw` whose name comes later, one whose budget holds none of its work."""
TABLE = "/tables/lake.raw.small"


@pytest.fixture
def up(tmp_path: Path, jars: Path) -> Iterator[Up]:
    settings = {"TIDEGATE_SPARK__JARS_DIR": str(jars), "TIDEGATE_LAKE__MEASURE": "PT1S"}
    with tidegate_up(tmp_path / "home", **settings, TIDEGATE_LAKE__MEASURE_REST="PT1S") as running:
        yield running


@contextmanager
def catalog(up: Up) -> Iterator[Any]:
    """The lake's catalog, for a writer and a reader that know nothing of Tidegate."""
    opened = iceberg_catalog(DriverSpec(home=str(up.home), catalog_url=address_of(up.home), settings=SparkSettings()))
    try:
        yield opened
    finally:
        opened.engine.dispose()


def fill(up: Up) -> None:
    """Two tables of two days, each written in twelve commits."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import LongType, NestedField

    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "day", LongType(), required=False))
    by_day = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="day"))
    with catalog(up) as lake:
        for name in ("raw", "poor"):
            lake.create_namespace_if_not_exists(name)
            table = lake.create_table(f"{name}.small", schema, partition_spec=by_day)
            for n in range(12):
                table.append(pa.table({"id": pa.array([n], pa.int64()), "day": pa.array([n % 2], pa.int64())}))


def rows(up: Up) -> list[int]:
    with catalog(up) as lake:
        return sorted(lake.load_table("raw.small").scan().to_arrow()["id"].to_pylist())


@pytest.mark.requirement("CARE-3", "CARE-5", "CARE-8", "CARE-10", "CARE-12", "CARE-13")
def test_a_table_under_a_policy_is_measured_put_in_order_and_loses_no_row(up: Up) -> None:
    fill(up)
    for name, spec in {"raw": POLICY, **OTHERS}.items():
        assert up.call("PUT", f"/policies/{name}", {"spec": spec})

    def runs() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = up.get(f"{TABLE}/runs")["items"]
        return found

    started = until(lambda: [one for one in runs() if up.state(one["run"]) in ("running", "succeeded")], 150)[0]
    before = up.get(f"{TABLE}/health")
    for victim in [up.role(role) for role in ("scheduler", "worker")]:
        victim.kill()
    until(lambda: up.state(started["run"]) in ("succeeded", "failed"), 150)
    assert up.state(started["run"]) == "succeeded", up.get(f"/runs/{started['run']}")
    [done] = [one for one in runs() if one["run"] == started["run"]]
    assert done["operation"] == "rewrite_data_files"
    until(lambda: up.get(f"{TABLE}/health") != before, 60)
    assert rows(up) == list(range(12))

    said = {one["operation"]: one for one in up.get(f"{TABLE}/trigger-status")["operations"]}
    assert "would change nothing" in str(said["expire_snapshots"]), "younger than any that expire: it is not launched"
    assert {one["operation"] for one in runs()} == {"rewrite_data_files"}
    policies = {one["metadata"]["name"]: one["status"] for one in up.get("/policies")["items"]}
    assert {name: one["tables"] for name, one in policies.items()} == {"raw": 1, "tied": 0, "nothing": 0, "poor": 1}
    assert "none of the" in policies["nothing"]["warning"] and "'raw' speaks" in policies["tied"]["warning"]
    tables = {one["table"]: one for one in up.get("/tables")["items"]}
    assert "'tied' have the same priority" in tables["lake.raw.small"]["warning"]
    [rewrite] = up.get("/tables/lake.poor.small/trigger-status")["operations"]
    assert rewrite["blocked_by"] == ["budget"] and "raise budget.bytes" in str(rewrite), rewrite
    assert not up.get("/tables/lake.poor.small/runs")["items"]
    audit = up.get("/audit/ledger")
    assert audit["holds"], audit
