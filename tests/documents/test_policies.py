"""Maintenance policies as people write them: nothing is lost, and every fault has its place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from test_round_trip import single_trigger, zones

from tidegate.documents import declared, parsing, policies
from tidegate.domain.errors import Invalid
from tidegate.domain.instants import HOUR, MILLISECOND
from tidegate.domain.maintenance import policy
from tidegate.domain.maintenance.debt import Weights
from tidegate.domain.maintenance.health import AGES, SIZES, Metric
from tidegate.domain.maintenance.issues import DEFAULT_LEVELS, Levels, Thresholds
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.maintenance.options import check
from tidegate.domain.maintenance.patterns import TablePattern
from tidegate.domain.triggers import Weekday
from tidegate.domain.windows import Span

durations = st.integers(1, 10**9).map(lambda number: number * MILLISECOND)
WHOLE = {metric for metric in Metric if metric.value.endswith("count")} | SIZES


def figure(metric: Metric) -> st.SearchStrategy[Any]:
    if metric in AGES:
        return durations
    return st.integers(1, 10**6) if metric in WHOLE else st.integers(0, 400).map(lambda number: number / 4)


@st.composite
def rules(draw: st.DrawFn, operation: Operation) -> policy.Rule:
    chosen = draw(st.sets(st.sampled_from(Metric), max_size=4))
    when = policy.Conditions(
        limits={metric: draw(figure(metric)) for metric in Metric if metric in chosen},
        logic=draw(st.sampled_from(policy.Logic)),
    )
    trigger = draw(single_trigger().filter(lambda one: isinstance(one, policy.CareTrigger)))
    start, minutes = draw(st.integers(0, 1439)), draw(st.integers(1, 1439))
    span = Span(start=start, end=(start + minutes - 1) % 1440 + 1, timezone=draw(zones), days=tuple(Weekday)[1:4])
    schedule = policy.Schedule(
        trigger=trigger, window=draw(st.none() | st.just(span)), timeout=draw(st.none() | durations)
    )  # type: ignore[arg-type]
    values = draw(st.sampled_from([{}, {"older_than": "P9D"}, {"target-file-size-bytes": 5}, {"sort_by": ["a"]}]))
    return policy.Rule(
        operation=operation,
        enabled=draw(st.booleans()),
        options=check(operation, values)[0],
        schedule=draw(st.none() | st.just(schedule)),
        when=draw(st.none() | st.just(when)),
        min_interval=draw(st.just(0) | durations),
        max_delay=draw(st.none() | durations),
    )


@st.composite
def any_policy(draw: st.DrawFn) -> policy.Policy:
    chosen = draw(st.sets(st.sampled_from(Operation), min_size=1, max_size=3))
    levels = {
        metric: Levels(draw(figure(metric)), None) for metric in draw(st.sets(st.sampled_from(Metric), max_size=3))
    }
    return policy.Policy(
        name="p",
        tables=TablePattern(draw(st.sampled_from(["**", "lake.raw.*", "/l.*/.raw.orders"]))),
        operations={operation: draw(rules(operation)) for operation in Operation if operation in chosen},
        enabled=draw(st.booleans()),
        priority=draw(st.integers(-5, 5)),
        tags=draw(st.sampled_from([{}, {"tier": "hot"}])),
        budget=policy.Budget(tables=draw(st.integers(0, 2)), bytes=draw(st.integers(0, 2)), per=draw(durations)),
        rank=draw(st.sampled_from(policy.Rank)),
        thresholds=Thresholds(levels={**DEFAULT_LEVELS, **levels}, small_file=draw(st.integers(1, 100))),
        weights=Weights(info=draw(st.sampled_from([0, 10, 3.5]))),
    )


@pytest.mark.requirement("CARE-1", "CARE-3", "CARE-4")
@given(any_policy())
@settings(deadline=None, max_examples=examples(60))
def test_what_is_encoded_reads_back(value: policy.Policy) -> None:
    made = parsing.parse({"spec": policies.encoded(value)}, kind="MaintenancePolicy", name="p")
    assert isinstance(made, declared.MaintenancePolicy)
    assert made.policy == value


def faults(spec: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(Invalid) as refused:
        parsing.parse({"spec": spec}, kind="MaintenancePolicy", name="p")
    return {fault.path: fault.reason for fault in refused.value.faults}


OPERATION = "spec.operations.expire_snapshots"


@pytest.mark.requirement("CARE-1", "CARE-2")
def test_every_fault_is_named_with_its_place_and_the_nearest_word() -> None:
    told = faults(
        {
            "tables": "orders",
            "prioriti": 1,
            "operations": {"rewrite_datafiles": {}, "expire_snapshots": {"when": {"snapshot_age": 7}, "shedule": {}}},
        }
    )
    assert "catalog.namespace.table" in told["spec.tables"]
    assert "did you mean 'priority'?" in told["spec.prioriti"]
    assert "did you mean 'rewrite_data_files'?" in told["spec.operations.rewrite_datafiles"]
    assert "did you mean 'schedule'?" in told[f"{OPERATION}.shedule"]
    assert f"{OPERATION}.when.snapshot_age" in told


@pytest.mark.requirement("CARE-2")
def test_an_unknown_option_is_refused_by_its_name() -> None:
    told = faults({"tables": "**", "operations": {"expire_snapshots": {"options": {"retainLast": 3, "a.b": 1}}}})
    assert "did you mean 'retain_last'?" in told[f"{OPERATION}.options.retainLast"]
    assert "is not an option" in told[f'{OPERATION}.options["a.b"]']


@pytest.mark.requirement("CARE-3", "CARE-5")
@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"operations": {}}, "spec.operations"),
        ({"operations": {"expire_snapshots": {"schedule": {}}}}, f"{OPERATION}.schedule.trigger"),
        (
            {"operations": {"expire_snapshots": {"schedule": {"trigger": {"type": "at"}}}}},
            f"{OPERATION}.schedule.trigger",
        ),
        ({"thresholds": {"file_count": {"warning": 9, "critical": 9}}}, "spec.thresholds.file_count.critical"),
        ({"thresholds": {"snapshot_age": {"warning": 7}}}, "spec.thresholds.snapshot_age.warning"),
        ({"thresholds": {"small_file_percent": {"warning": 500}}}, "spec.thresholds.small_file_percent.warning"),
        ({"thresholds": {"small_file": "2 GiB", "large_file": "1 MiB"}}, "spec.thresholds.large_file"),
        ({"thresholds": {"small_file": "2 GiB"}}, "spec.thresholds.large_file"),
        ({"weights": {"critical": -1}}, "spec.weights.critical"),
        ({"budget": {"bytes": "much"}}, "spec.budget.bytes"),
        ({"rank": "best"}, "spec.rank"),
    ],
)
def test_what_cannot_be_meant_is_refused(spec: dict[str, Any], path: str) -> None:
    assert path in faults({"tables": "**", "operations": {"expire_snapshots": {}}, **spec})


@pytest.mark.requirement("CARE-7")
def test_a_budget_of_nothing_is_no_limit() -> None:
    spec = {"tables": "**", "budget": {"bytes": 0}, "operations": {"expire_snapshots": {}}}
    made = parsing.parse({"spec": spec}, kind="MaintenancePolicy", name="p")
    assert isinstance(made, declared.MaintenancePolicy)
    assert made.policy.budget.unlimited and made.policy.budget.per == HOUR
