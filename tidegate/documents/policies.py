"""The MaintenancePolicy document: which tables, which operations, when, under which conditions, within which budget."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WithJsonSchema, field_validator

from tidegate.documents import encode
from tidegate.documents.base import Document
from tidegate.documents.constraints import Hours
from tidegate.documents.others import Labels
from tidegate.documents.scalars import Duration, JsonMap, PositiveDuration, Size, choice, wrong
from tidegate.documents.triggers import Cron, Interval, WindowDays, trigger_of
from tidegate.domain.errors import Fault
from tidegate.domain.instants import format_duration
from tidegate.domain.jsonable import path_of
from tidegate.domain.maintenance import options, policy
from tidegate.domain.maintenance.debt import DEFAULT_WEIGHTS, Weights
from tidegate.domain.maintenance.health import AGES, LARGE_FILE, SMALL_FILE, Metric
from tidegate.domain.maintenance.issues import DEFAULT_LEVELS, Levels, Thresholds
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.maintenance.patterns import TablePattern

MANY = 1_000_000_000
Percent = Annotated[float, Field(ge=0, le=100)]
Figure = Annotated[float, Field(ge=0, le=1e18)]
Count = Annotated[int, Field(ge=0, le=MANY)]


def _zero_too(value: object) -> object:
    """A size, or 0 for no limit."""
    return None if value == 0 and not isinstance(value, bool) else value


Room = Annotated[
    Size | None,
    BeforeValidator(_zero_too),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}], "examples": ["1 GB"]}),
]
"""A size, where 0 is no limit."""


def _pattern(text: str) -> str:
    try:
        TablePattern(text)
    except ValueError as fault:
        raise wrong(str(fault)) from None
    return text


class Conditions(Document):
    """Figures that must be reached before it runs. What is unknown is not reached."""

    logic: Annotated[Literal["any", "all"], choice("how conditions are joined", policy.Logic)] = Field(
        default="any", description="whether one of them is enough, or all are needed"
    )
    small_file_percent: Percent | None = Field(default=None, description="share of small data files, 0 to 100")
    small_file_count: Count | None = Field(default=None, description="small data files")
    large_file_percent: Percent | None = Field(default=None, description="share of large data files, 0 to 100")
    file_count: Count | None = Field(default=None, description="data files")
    total_size: Size | None = Field(default=None, description="bytes of all data files")
    delete_file_count: Count | None = Field(default=None, description="delete files")
    delete_file_ratio: Figure | None = Field(default=None, description="delete files per data file")
    snapshot_count: Count | None = Field(default=None, description="snapshots")
    snapshot_age: PositiveDuration | None = Field(default=None, description="age of the oldest snapshot")
    staleness: PositiveDuration | None = Field(default=None, description="age of the newest snapshot")
    manifest_count: Count | None = Field(default=None, description="manifests")
    manifest_size: Size | None = Field(default=None, description="bytes of all manifests")
    partition_count: Count | None = Field(default=None, description="partitions")
    partition_skew: Figure | None = Field(
        default=None, description="files of the fullest partition, as a multiple of the average"
    )

    def limits(self) -> dict[Metric, float]:
        given = ((metric, getattr(self, metric.value)) for metric in Metric)
        return {metric: limit for metric, limit in given if limit is not None}


CareTrigger = Annotated[Cron | Interval | WindowDays, Field(discriminator="type")]


class CareSchedule(Document):
    """When an operation is due. What is due outside its window stays due until it opens."""

    trigger: CareTrigger = Field(description="cron, interval or window_days (every so many days since the last run)")
    window: Hours | None = Field(default=None, description="when it may start; left out: at any time")
    timeout: PositiveDuration | None = Field(default=None, description="it is stopped after this; left out: never")
    enabled: bool = Field(default=True, description="false: the operation runs by hand only")


class Critical(Document):
    """A table that must not wait for ever."""

    max_delay: PositiveDuration = Field(
        description="so long after the last start the operation is forced: over window, conditions, throttles and "
        "min_interval; the first time so long after the policy was declared"
    )


class OperationSpec(Document):
    """One operation. With a schedule it is due at its fires, with conditions alone while they are met, else by hand."""

    enabled: bool = Field(default=True, description="false: it does not run by itself")
    options: JsonMap = Field(default_factory=dict, description="by Iceberg's own names, see the table of options")
    schedule: CareSchedule | None = Field(default=None, description="when it is due")
    when: Conditions | None = Field(default=None, description="what must be reached before it runs")
    min_interval: Duration = Field(default=0, description="between two starts on one table")
    critical: Critical | None = Field(default=None, description="the longest that it may be put off")


class Operations(Document):
    """What is done to the tables; what is not named is not done."""

    rewrite_data_files: OperationSpec | None = Field(
        default=None, description="small and large data files become files of the target size; deletes are applied"
    )
    rewrite_position_delete_files: OperationSpec | None = Field(
        default=None, description="small position delete files become fewer"
    )
    rewrite_manifests: OperationSpec | None = Field(default=None, description="many small manifests become few")
    expire_snapshots: OperationSpec | None = Field(
        default=None, description="old snapshots go, with the files that only they need"
    )
    remove_orphan_files: OperationSpec | None = Field(default=None, description="files go that no snapshot knows")
    compute_partition_stats: OperationSpec | None = Field(
        default=None, description="rows and sizes of partitions are written down"
    )
    compute_table_stats: OperationSpec | None = Field(
        default=None, description="distinct values of columns are written down"
    )

    def given(self) -> Iterator[tuple[Operation, OperationSpec]]:
        for operation in Operation:
            if (spec := getattr(self, operation.value)) is not None:
                yield operation, spec


class BudgetSpec(Document):
    """The most that may be spent on this policy's tables in any span of that length; 0: no limit."""

    tables: Count = Field(default=0, description="distinct tables")
    operations: Count = Field(default=0, description="operations started")
    bytes: Room = Field(default=None, description="bytes rewritten; what an operation may rewrite is reserved first")
    per: PositiveDuration = Field(default=3_600_000_000, description="the length of the rolling span")


class NumberLevels(Document):
    """From when on a figure is an issue; left out: never."""

    warning: Figure | None = Field(default=None, description="from here on it is a WARNING")
    critical: Figure | None = Field(default=None, description="from here on it is CRITICAL")

    @field_validator("critical")
    @classmethod
    def _above(cls, critical: Any, info: ValidationInfo) -> Any:
        return _above(critical, info.data.get("warning"), "g")


class PercentLevels(Document):
    """From when on a share is an issue, 0 to 100; left out: never."""

    warning: Percent | None = Field(default=None, description="from here on it is a WARNING")
    critical: Percent | None = Field(default=None, description="from here on it is CRITICAL")

    @field_validator("critical")
    @classmethod
    def _above(cls, critical: Any, info: ValidationInfo) -> Any:
        return _above(critical, info.data.get("warning"), "g")


class SizeLevels(Document):
    """From when on a size is an issue; left out: never."""

    warning: Size | None = Field(default=None, description="from here on it is a WARNING")
    critical: Size | None = Field(default=None, description="from here on it is CRITICAL")

    @field_validator("critical")
    @classmethod
    def _above(cls, critical: Any, info: ValidationInfo) -> Any:
        return _above(critical, info.data.get("warning"), "d")


class AgeLevels(Document):
    """From when on an age is an issue; left out: never."""

    warning: PositiveDuration | None = Field(default=None, description="from here on it is a WARNING")
    critical: PositiveDuration | None = Field(default=None, description="from here on it is CRITICAL")

    @field_validator("critical")
    @classmethod
    def _above(cls, critical: Any, info: ValidationInfo) -> Any:
        return _above(critical, info.data.get("warning"), "")


def _above(critical: Any, warning: Any, form: str) -> Any:
    if critical is not None and warning is not None and critical <= warning:
        shown = format(warning, form) if form else format_duration(warning)
        raise wrong(f"must be above warning ({shown})")
    return critical


class ThresholdsSpec(Document):
    """From when on a figure of the health is an issue. What is not named keeps its default."""

    small_file: Size = Field(default=SMALL_FILE, description="smaller data files are called small")
    large_file: Size = Field(
        default=LARGE_FILE, description="larger data files are called large", validate_default=True
    )
    small_file_percent: PercentLevels | None = Field(default=None, description="default 20 and 50")
    small_file_count: NumberLevels | None = Field(default=None, description="no default")
    large_file_percent: PercentLevels | None = Field(default=None, description="default 20 and 50")
    file_count: NumberLevels | None = Field(default=None, description="default 10,000 and 50,000")
    total_size: SizeLevels | None = Field(default=None, description="no default")
    delete_file_count: NumberLevels | None = Field(default=None, description="default 100 and 500")
    delete_file_ratio: NumberLevels | None = Field(default=None, description="default 0.1 and 0.25")
    snapshot_count: NumberLevels | None = Field(default=None, description="default 100 and 500")
    snapshot_age: AgeLevels | None = Field(default=None, description="default P7D and P30D")
    staleness: AgeLevels | None = Field(default=None, description="no default: the debt score counts these days itself")
    manifest_count: NumberLevels | None = Field(default=None, description="default 100 and 500")
    manifest_size: SizeLevels | None = Field(default=None, description="default 100 MiB and 500 MiB")
    partition_count: NumberLevels | None = Field(default=None, description="default 5,000 and 10,000")
    partition_skew: NumberLevels | None = Field(default=None, description="default 3 and 10")

    @field_validator("large_file")
    @classmethod
    def _not_small(cls, large: int, info: ValidationInfo) -> int:
        small = info.data.get("small_file")
        if small is not None and large <= small:
            raise wrong(f"must be above small_file ({small} bytes), or a file is small and large; it is {large} bytes")
        return large

    def levels(self) -> dict[Metric, Levels]:
        found = dict(DEFAULT_LEVELS)
        for metric in Metric:
            if (given := getattr(self, metric.value)) is not None:
                found[metric] = Levels(given.warning, given.critical)
        return found


class WeightsSpec(Document):
    """Points of the debt score."""

    critical: Figure = Field(default=100.0, description="for each CRITICAL issue")
    warning: Figure = Field(default=50.0, description="for each WARNING")
    info: Figure = Field(default=10.0, description="for each INFO")
    stale_day: Figure = Field(default=0.5, description="for each day since the last snapshot")
    failure_percent: Figure = Field(default=1.0, description="for each percent of failures in the last ten operations")
    failure_in_row: Figure = Field(default=20.0, description="for each failure in a row")


class PolicySpec(Document):
    """Maintenance rules for the tables that a pattern matches."""

    tables: Annotated[str, AfterValidator(_pattern)] = Field(
        description='by level, catalog first: a name, a glob ("lake.raw.*"), an expression between slashes, or ** for '
        "any number of levels",
    )
    enabled: bool = Field(default=True, description="false: it takes no part, another policy may speak for its tables")
    priority: int = Field(
        default=0,
        description="of several that match, the higher; then the narrower pattern",
        ge=-1_000_000,
        le=1_000_000,
    )
    tags: Labels = Field(default_factory=dict, description="key: text, for people and for filters")
    rank: Annotated[Literal["debt", "value"], choice("a rank", policy.Rank)] = Field(
        default="debt", description="under a budget: the worst debt first, or the best expected gain"
    )
    budget: BudgetSpec = Field(default_factory=BudgetSpec)
    thresholds: ThresholdsSpec = Field(default_factory=ThresholdsSpec)
    weights: WeightsSpec = Field(default_factory=WeightsSpec)
    operations: Operations

    @field_validator("operations")
    @classmethod
    def _does_something(cls, given: Operations) -> Operations:
        if not any(given.given()):
            raise wrong(f"must name an operation: {', '.join(Operation)}")
        return given


def option_faults(spec: PolicySpec) -> list[Fault]:
    """What Iceberg would not accept, by the path of each option."""
    return [
        Fault(path_of(("operations", operation.value, "options", fault.path)), fault.reason)
        for operation, one in spec.operations.given()
        for fault in options.check(operation, one.options)[1]
    ]


def policy_of(name: str, spec: PolicySpec) -> policy.Policy:
    """The domain's value of a MaintenancePolicy document whose options have no faults."""
    budget = spec.budget
    return policy.Policy(
        name=name,
        tables=TablePattern(spec.tables),
        operations={operation: _rule(operation, one) for operation, one in spec.operations.given()},
        enabled=spec.enabled,
        priority=spec.priority,
        tags=spec.tags,
        budget=policy.Budget(
            tables=budget.tables, operations=budget.operations, bytes=budget.bytes or 0, per=budget.per
        ),
        rank=policy.Rank(spec.rank),
        thresholds=Thresholds(
            levels=spec.thresholds.levels(),
            small_file=spec.thresholds.small_file,
            large_file=spec.thresholds.large_file,
        ),
        weights=Weights(**{name: getattr(spec.weights, name) for name in WeightsSpec.model_fields}),
    )


def _rule(operation: Operation, spec: OperationSpec) -> policy.Rule:
    return policy.Rule(
        operation=operation,
        enabled=spec.enabled,
        options=options.check(operation, spec.options)[0],
        schedule=_schedule(spec.schedule) if spec.schedule is not None else None,
        when=policy.Conditions(limits=spec.when.limits(), logic=policy.Logic(spec.when.logic)) if spec.when else None,
        min_interval=spec.min_interval,
        max_delay=spec.critical.max_delay if spec.critical is not None else None,
    )


def _schedule(spec: CareSchedule) -> policy.Schedule:
    trigger = trigger_of(spec.trigger, "")
    assert isinstance(trigger, policy.CareTrigger)
    return policy.Schedule(
        trigger=trigger,
        window=spec.window.span() if spec.window is not None else None,
        timeout=spec.timeout,
        enabled=spec.enabled,
    )


# ── and back ───────────────────────────────────────────────────────────────────────────────────────────────────────


def encoded(value: policy.Policy) -> dict[str, Any]:
    """The `spec` of a MaintenancePolicy document; what is a default is left out."""
    said: dict[str, Any] = {"tables": value.tables.text}
    if not value.enabled:
        said["enabled"] = False
    if value.priority:
        said["priority"] = value.priority
    if value.tags:
        said["tags"] = dict(value.tags)
    if value.rank is not policy.Rank.DEBT:
        said["rank"] = value.rank.value
    if value.budget != policy.Budget():
        whole = {name: getattr(value.budget, name) for name in ("tables", "operations", "bytes")}
        said["budget"] = {name: given for name, given in whole.items() if given}
        said["budget"]["per"] = format_duration(value.budget.per)
    if thresholds := _thresholds(value.thresholds):
        said["thresholds"] = thresholds
    weights = {name: getattr(value.weights, name) for name in WeightsSpec.model_fields}
    if changed := {name: given for name, given in weights.items() if given != getattr(DEFAULT_WEIGHTS, name)}:
        said["weights"] = changed
    said["operations"] = {operation.value: _operation(rule) for operation, rule in value.operations.items()}
    return said


def _operation(rule: policy.Rule) -> dict[str, Any]:
    said: dict[str, Any] = {} if rule.enabled else {"enabled": False}
    if rule.options:
        said["options"] = options.written(rule.operation, rule.options)
    if rule.schedule is not None:
        said["schedule"] = _care_schedule(rule.schedule)
    if rule.when is not None:
        logic = {} if rule.when.logic is policy.Logic.ANY else {"logic": rule.when.logic.value}
        said["when"] = {**logic, **{metric.value: _figure(metric, one) for metric, one in rule.when.limits.items()}}
    if rule.min_interval:
        said["min_interval"] = format_duration(rule.min_interval)
    if rule.max_delay is not None:
        said["critical"] = {"max_delay": format_duration(rule.max_delay)}
    return said


def _care_schedule(schedule: policy.Schedule) -> dict[str, Any]:
    said: dict[str, Any] = {"trigger": encode.trigger(schedule.trigger)}
    if schedule.window is not None:
        said["window"] = encode.hours(schedule.window)
    if schedule.timeout is not None:
        said["timeout"] = format_duration(schedule.timeout)
    return said if schedule.enabled else {**said, "enabled": False}


def _thresholds(value: Thresholds) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if value.small_file != SMALL_FILE:
        said["small_file"] = value.small_file
    if value.large_file != LARGE_FILE:
        said["large_file"] = value.large_file
    for metric, levels in value.levels.items():
        if levels != DEFAULT_LEVELS.get(metric, Levels(None, None)):
            pair = {"warning": levels.warning, "critical": levels.critical}
            said[metric.value] = {name: _figure(metric, one) for name, one in pair.items() if one is not None}
    return said


def _figure(metric: Metric, value: float) -> Any:
    return format_duration(int(value)) if metric in AGES else value
