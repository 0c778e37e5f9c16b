"""`app.maintain`: what people write in Python becomes the policy that YAML would hold."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tidegate import App, cron, every, expire_snapshots, rewrite_data_files, small_files, snapshots
from tidegate.documents import parse
from tidegate.documents.declared import MaintenancePolicy
from tidegate.domain.errors import Invalid
from tidegate.domain.instants import DAY, HOUR
from tidegate.domain.maintenance.health import Metric
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.maintenance.policy import Logic, Policy

pytestmark = pytest.mark.requirement("OPS-3", "CARE-1")


def declared(app: App) -> Policy:
    [document] = app.policies()
    found = parse(document)
    assert isinstance(found, MaintenancePolicy)
    return found.policy


def test_maintenance_is_declared_as_the_interface_says() -> None:
    app = App("orders", namespace="sales", timezone="Europe/Berlin")
    app.maintain("nightly", tables="lake.raw.*", operations=[
        rewrite_data_files(when=cron("0 1 * * *"), where=small_files(percent=20)), expire_snapshots(when=every("1d"), older_than="7d", keep=10)])  # fmt: skip  # noqa: E501
    assert app.documents() == [
        {
            "apiVersion": "tidegate/v1",
            "kind": "MaintenancePolicy",
            "metadata": {"name": "nightly"},
            "spec": {
                "tables": "lake.raw.*",
                "operations": {
                    "rewrite_data_files": {
                        "schedule": {
                            "trigger": {"type": "cron", "expression": "0 1 * * *", "timezone": "Europe/Berlin"}
                        },
                        "when": {"small_file_percent": 20},
                    },
                    "expire_snapshots": {
                        "options": {"retain_last": 10, "older_than": "7d"},
                        "schedule": {"trigger": {"type": "interval", "every": "1d", "timezone": "Europe/Berlin"}},
                    },
                },
            },
        }
    ]
    policy = declared(app)
    assert policy.operations[Operation.EXPIRE_SNAPSHOTS].options["retain_last"] == 10
    assert policy.operations[Operation.REWRITE_DATA_FILES].when is not None


def test_every_part_of_a_policy_can_be_said() -> None:
    app = App("care", timezone="Asia/Tokyo")
    one = rewrite_data_files(
        when=cron("0 1 * * *"),
        where=small_files(percent=20) & snapshots(count=50),
        window=("22:00", "06:00"),
        timeout=timedelta(hours=4),
        min_interval="2h",
        max_delay="1d",
        strategy="sort",
        sort_order="region",
        options={"target-file-size-bytes": "64 MiB"},
        partial_progress_enabled=True,
    )
    app.maintain(
        "all", tables="lake.**", operations=[one], priority=7, rank="value", tags={"team": "core"},
        budget={"bytes": "50 GB", "per": "1d"}, thresholds={"small_file": "32 MiB"}, weights={"critical": 90},
    )  # fmt: skip
    policy = declared(app)
    rule = policy.operations[Operation.REWRITE_DATA_FILES]
    assert (policy.priority, policy.rank.value, policy.budget.bytes, policy.budget.per) == (7, "value", 50 * 10**9, DAY)
    assert rule.when is not None and rule.when.logic is Logic.ALL
    assert rule.when.limits == {Metric.SMALL_FILE_PERCENT: 20, Metric.SNAPSHOT_COUNT: 50}
    assert (rule.min_interval, rule.max_delay) == (2 * HOUR, DAY)
    assert rule.schedule is not None and rule.schedule.timeout == 4 * HOUR and rule.schedule.window is not None
    assert rule.options["strategy"] == "sort" and rule.options["partial-progress.enabled"] is True


def test_a_condition_of_several_limits_is_met_by_any_and_joins_say_which_it_is() -> None:
    either = small_files(percent=20) | snapshots(count=100)
    assert either.document() == {"small_file_percent": 20, "snapshot_count": 100}
    both = small_files(percent=20) & snapshots(count=100)
    assert both.document() == {"logic": "all", "small_file_percent": 20, "snapshot_count": 100}
    assert small_files(percent=1, count=2).document() == {"small_file_percent": 1, "small_file_count": 2}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: small_files(percent=1) & small_files(percent=2), "small_file_percent is given twice"),
        (lambda: small_files(percent=1) & snapshots(count=1) | snapshots(age="1d"), "not by both"),
        (lambda: small_files(percent=1, count=2) & snapshots(count=1), "not by both"),
        (lambda: small_files(), "name a limit: small_file_percent, small_file_count"),
        (lambda: rewrite_data_files(window=("22:00", "06:00")), "say when="),
    ],
)
def test_what_cannot_be_meant_is_said_where_it_is_written(wrong: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        wrong()


def test_a_condition_in_a_boolean_context_raises() -> None:
    with pytest.raises(TypeError, match="join conditions"):
        small_files(percent=1) and small_files(count=1)


def test_names_are_unique_and_so_are_operations() -> None:
    app = App("care")
    app.maintain("nightly", tables="lake.a.*", operations=[expire_snapshots(keep=3)])
    with pytest.raises(ValueError, match="two policies named 'nightly'"):
        app.maintain("nightly", tables="lake.b.*", operations=[expire_snapshots(keep=3)])
    with pytest.raises(ValueError, match="names expire_snapshots twice"):
        app.maintain("other", tables="lake.b.*", operations=[expire_snapshots(keep=3), expire_snapshots(keep=4)])


def test_an_option_that_iceberg_does_not_know_is_refused_by_name() -> None:
    app = App("care")
    app.maintain("nightly", tables="lake.a.*", operations=[rewrite_data_files(stratgy="sort")])
    [document] = app.policies()
    with pytest.raises(Invalid, match="strategy"):
        parse(document)


def test_every_operation_can_be_said() -> None:
    app = App("care")
    app.maintain("all", tables="lake.a.*", operations=[getattr(tidegate, one.value)() for one in Operation])
    assert set(declared(app).operations) == set(Operation)


def test_what_the_tutorial_shows_can_be_declared() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "tutorial" / "keep-tables-healthy.md").read_text()
    fill, shown = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    found: dict[str, Any] = {}
    exec(shown, found)
    assert declared(found["app"]).tables.text == "lake.raw.*"
    exec(fill, found)
    assert isinstance(found["app"], tidegate.App)
