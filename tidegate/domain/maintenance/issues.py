"""What is the matter with a table: its figures against thresholds, each of which warns or alarms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from tidegate.domain.instants import DAY, Instant
from tidegate.domain.maintenance.health import LARGE_FILE, MEASURES, MIB, SMALL_FILE, Metric, TableHealth, shown


class Severity(StrEnum):
    """How bad an issue is."""

    INFO = "INFO"
    WARNING = "WARNING"
    CRITICAL = "CRITICAL"


class Levels(NamedTuple):
    """From `warning` on a figure warns, from `critical` on it alarms; both inclusive, None: never."""

    warning: float | None
    critical: float | None


DEFAULT_LEVELS: Mapping[Metric, Levels] = {
    Metric.SMALL_FILE_PERCENT: Levels(20, 50),
    Metric.LARGE_FILE_PERCENT: Levels(20, 50),
    Metric.FILE_COUNT: Levels(10_000, 50_000),
    Metric.SNAPSHOT_COUNT: Levels(100, 500),
    Metric.SNAPSHOT_AGE: Levels(7 * DAY, 30 * DAY),
    Metric.DELETE_FILE_COUNT: Levels(100, 500),
    Metric.DELETE_FILE_RATIO: Levels(0.10, 0.25),
    Metric.MANIFEST_COUNT: Levels(100, 500),
    Metric.MANIFEST_SIZE: Levels(100 * MIB, 500 * MIB),
    Metric.PARTITION_COUNT: Levels(5_000, 10_000),
    Metric.PARTITION_SKEW: Levels(3, 10),
}
"""Staleness is not among them: the debt score counts the days by themselves, and would count them twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """When a figure is an issue. `small_file`, `large_file`: bytes, below and above which a data file is so called."""

    levels: Mapping[Metric, Levels] = field(default_factory=lambda: DEFAULT_LEVELS)
    small_file: int = SMALL_FILE
    large_file: int = LARGE_FILE


DEFAULT_THRESHOLDS = Thresholds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """Something that is the matter. `kind`: a metric's name, `table_empty` or `unreadable`; `threshold`: the level it
    reached, in the unit of its metric."""

    severity: Severity
    kind: str
    value: float | None = None
    threshold: float | None = None
    why: str = ""


def issues(health: TableHealth, thresholds: Thresholds, now: Instant) -> tuple[Issue, ...]:
    """Every issue of a table, the worst first. An empty table has no other; what is unknown is none."""
    if health.fault is not None:
        return (Issue(severity=Severity.CRITICAL, kind="unreadable", why=health.fault),)
    if health.data_files == 0:
        return (Issue(severity=Severity.INFO, kind="table_empty", value=0, why="It has no data files."),)
    found = []
    for metric, levels in thresholds.levels.items():
        value = MEASURES[metric](health, now)
        if value is None:
            continue
        for severity, level in ((Severity.CRITICAL, levels.critical), (Severity.WARNING, levels.warning)):
            if level is not None and value >= level:
                found.append(_issue(severity, metric, value, level))
                break
    return tuple(sorted(found, key=lambda issue: (issue.severity is not Severity.CRITICAL, issue.kind)))


def _issue(severity: Severity, metric: Metric, value: float, level: float) -> Issue:
    name = metric.value.replace("_", " ")
    why = f"The {name} is {shown(metric, value)}; from {shown(metric, level)} on that is {severity.value.lower()}."
    return Issue(severity=severity, kind=metric.value, value=value, threshold=level, why=why)
