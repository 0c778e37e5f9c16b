"""Policies of Floe become ours, word for word, or are refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidegate.documents import declared, floe, parsing
from tidegate.domain.errors import Invalid
from tidegate.domain.instants import DAY, HOUR
from tidegate.domain.maintenance.health import Metric
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.maintenance.policy import Logic, Policy
from tidegate.domain.triggers import Cron, Weekday, WindowDays
from tidegate.domain.windows import Span

NIGHTLY = {
    "cronExpression": "0 2 * * *",
    "windowStart": "02:00",
    "windowEnd": "06:00",
    "allowedDays": "MONDAY,WEDNESDAY,FRIDAY",
    "timeout": 4,
    "enabled": True,
}


def read(raw: Any) -> tuple[Policy, list[str]]:
    [document], notes = floe.policies(json.dumps(raw), "policy.json")
    made = parsing.parse(document, kind="MaintenancePolicy")
    assert isinstance(made, declared.MaintenancePolicy)
    return made.policy, notes


def whole(**given: Any) -> dict[str, Any]:
    return {"name": "daily", "tablePattern": "lake.raw.*", **given}


@pytest.mark.requirement("CARE-1", "CARE-3")
def test_the_schedule_of_the_text_is_taken_over() -> None:
    policy, notes = read(whole(rewriteDataFiles={"strategy": "BINPACK"}, rewriteDataFilesSchedule=NIGHTLY, priority=3))
    rule = policy.operations[Operation.REWRITE_DATA_FILES]
    assert rule.schedule is not None and rule.schedule.trigger == Cron(expression="0 2 * * *")
    assert rule.schedule.window == Span(start=120, end=360, days=(Weekday.MON, Weekday.WED, Weekday.FRI))
    assert rule.schedule.timeout == 4 * HOUR and policy.priority == 3 and rule.options == {"strategy": "binpack"}
    assert any("timezone" in note for note in notes)


@pytest.mark.requirement("CARE-1", "CARE-4")
def test_intervals_conditions_and_options_are_taken_over() -> None:
    policy, _ = read(
        whole(
            rewriteDataFiles={"strategy": "ZORDER", "zOrderColumns": ["a", "b"], "rewriteJobOrder": "BYTES_ASC"},
            rewriteDataFilesSchedule={"interval": 2},
            expireSnapshots={"retainLast": 5, "maxSnapshotAge": "P7D"},
            expireSnapshotsSchedule={"cronExpression": "0 30 3 ? * 2-6"},
            orphanCleanup={"retentionPeriodInDays": 4},
            triggerConditions={
                "smallFilePercentageAbove": 20, "snapshotAgeAboveDays": 3, "triggerLogic": "AND",
                "minIntervalMinutes": 60, "perOperationMinIntervalMinutes": {"EXPIRE_SNAPSHOTS": 120},
                "criticalPipeline": True, "criticalPipelineMaxDelayMinutes": 1440,
            },
        )
    )  # fmt: skip
    rewrite, expire = policy.operations[Operation.REWRITE_DATA_FILES], policy.operations[Operation.EXPIRE_SNAPSHOTS]
    assert rewrite.schedule is not None and rewrite.schedule.trigger == WindowDays(every_days=2)
    assert rewrite.options["sort_order"] == "zorder(a, b)" and rewrite.options["rewrite-job-order"] == "bytes-asc"
    assert rewrite.when is not None and rewrite.when.logic is Logic.ALL
    assert rewrite.when.limits == {Metric.SMALL_FILE_PERCENT: 20, Metric.SNAPSHOT_AGE: 3 * DAY}
    assert (rewrite.min_interval, expire.min_interval, rewrite.max_delay) == (HOUR, 2 * HOUR, DAY)
    assert expire.schedule is not None and expire.schedule.trigger == Cron(expression="30 3 ? * 1-5")
    assert expire.options == {"retain_last": 5, "older_than": 7 * DAY}
    orphans = policy.operations[Operation.REMOVE_ORPHAN_FILES]
    assert orphans.schedule is None and orphans.when is None, "without a schedule it ran by hand only"


def test_patterns_begin_with_the_catalog_here() -> None:
    for theirs, ours in (("orders", "*.*.orders"), ("raw.*", "*.raw.*"), ("a.b.c", "a.b.c"), ("*", "**")):
        policy, _ = read(whole(tablePattern=theirs, rewriteManifests={}))
        assert policy.tables.text == ours


def test_lists_and_answers_are_read_and_names_made_ours() -> None:
    one = whole(name="Daily compaction!", rewriteManifests={})
    documents, notes = floe.policies(json.dumps({"policies": [one, whole(rewriteManifests={})]}), "p.json")
    assert [document["metadata"]["name"] for document in documents] == ["Daily-compaction", "daily"]
    assert any("'Daily compaction!'" in note for note in notes)


@pytest.mark.requirement("CARE-2")
@pytest.mark.parametrize(
    ("raw", "place"),
    [
        ("not json", "p.json"),
        ([], "p.json"),
        (7, "p.json"),
        (whole(rewriteManifests={"rewriteIf": {}}), "rewriteManifests.rewriteIf"),
        (whole(compact={}), "compact"),
        (whole(rewriteDataFilesSchedule={}), "rewriteDataFilesSchedule"),
        (whole(rewriteDataFilesSchedule={"cronExpression": "0 2 * *"}), "trigger.expression"),
        (whole(rewriteDataFilesSchedule={"interval": 1, "allowedDays": "FUNDAY"}), "allowedDays"),
        (whole(orphanCleanup={"retentionPeriodInDays": 1}), "older_than"),
        (whole(orphanCleanup=3), "orphanCleanup"),
    ],
)
def test_what_cannot_be_taken_over_is_refused_by_name(raw: Any, place: str) -> None:
    with pytest.raises(Invalid) as refused:
        floe.policies(raw if isinstance(raw, str) else json.dumps(raw), "p.json")
    assert any(place in fault.path for fault in refused.value.faults)
