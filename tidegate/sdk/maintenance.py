"""Maintenance of tables as people write it in Python: the operations of `app.maintain`, and when each is worth it.

    app.maintain("nightly", tables="lake.raw.*", operations=[
        rewrite_data_files(when=cron("0 1 * * *"), where=small_files(percent=20)),
        expire_snapshots(when=every("1d"), older_than="7d", keep=10),
    ])

Each builds the very document that YAML would hold, kind `MaintenancePolicy`. Options of an operation are Iceberg's own
names (docs/reference/maintenance-options.md); what those write with `-` or `.` is written with `_` in Python, or goes
as it is into `options`. Durations are ISO 8601, short (`"7d"`) or a timedelta.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NoReturn

from tidegate.domain.instants import format_duration
from tidegate.domain.maintenance.accepted import OPTIONS
from tidegate.domain.maintenance.operations import Operation
from tidegate.sdk.triggers import When

Span = str | timedelta


@dataclass(frozen=True)
class Where:
    """Conditions on a table's figures. Join with `|` (one is enough) or `&` (all are needed), not with both."""

    limits: Mapping[str, Any] = field(default_factory=dict)
    logic: str | None = None

    def __or__(self, other: Where) -> Where:
        return self._joined("any", other)

    def __and__(self, other: Where) -> Where:
        return self._joined("all", other)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a condition is neither true nor false: 'and', 'or' and 'not' would drop one of them; join conditions with "
            "& (all of them) or | (one of them)"
        )

    def document(self) -> dict[str, Any]:
        """As `when` of an operation."""
        return {**({"logic": "all"} if self.logic == "all" else {}), **self.limits}

    def _joined(self, logic: str, other: Where) -> Where:
        if not isinstance(other, Where):
            return NotImplemented
        if {self.logic, other.logic} - {None, logic}:
            raise ValueError("conditions are joined by & or by |, not by both: a policy knows only any or all of them")
        twice = set(self.limits) & set(other.limits)
        if twice:
            raise ValueError(f"{', '.join(sorted(twice))} is given twice")
        return Where({**self.limits, **other.limits}, logic)


def small_files(*, percent: float | None = None, count: int | None = None) -> Where:
    """Data files below the policy's `thresholds.small_file` (100 MiB): their share, or how many."""
    return _where("any", small_file_percent=percent, small_file_count=count)


def large_files(*, percent: float) -> Where:
    """Data files above the policy's `thresholds.large_file` (1 GiB): their share."""
    return _where("any", large_file_percent=percent)


def data_files(*, count: int | None = None, size: str | int | None = None) -> Where:
    """How many data files, or their whole size (`"10 GB"`)."""
    return _where("any", file_count=count, total_size=size)


def delete_files(*, count: int | None = None, ratio: float | None = None) -> Where:
    """How many delete files, or how many for each data file."""
    return _where("any", delete_file_count=count, delete_file_ratio=ratio)


def snapshots(*, count: int | None = None, age: Span | None = None) -> Where:
    """How many snapshots, or the age of the oldest."""
    return _where("any", snapshot_count=count, snapshot_age=_duration(age))


def manifests(*, count: int | None = None, size: str | int | None = None) -> Where:
    """How many manifests, or their whole size."""
    return _where("any", manifest_count=count, manifest_size=size)


def partitions(*, count: int | None = None, skew: float | None = None) -> Where:
    """How many partitions, or the files of the fullest as a multiple of the average."""
    return _where("any", partition_count=count, partition_skew=skew)


@dataclass(frozen=True)
class Care:
    """One operation of `app.maintain`."""

    operation: str
    spec: Mapping[str, Any]
    trigger: When | None = None

    def document(self, timezone: str) -> dict[str, Any]:
        """As under `operations`, with the zone filled in where neither trigger nor window names one."""
        spec = dict(self.spec)
        schedule = dict(spec.pop("schedule", {}))
        if self.trigger is not None:
            schedule = {"trigger": self.trigger.in_zone(timezone), **schedule}
        if "window" in schedule:
            schedule["window"] = {"timezone": timezone, **schedule["window"]}
        return {**spec, **({"schedule": schedule} if schedule else {})}


@dataclass(frozen=True)
class Maker:
    """An operation, to be called as `rewrite_data_files(...)`."""

    operation: Operation

    def __call__(
        self,
        *,
        when: When | None = None,
        where: Where | None = None,
        window: tuple[str, str] | None = None,
        timeout: Span | None = None,
        min_interval: Span | None = None,
        max_delay: Span | None = None,
        enabled: bool | None = None,
        keep: int | None = None,
        options: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Care:
        """`when`: a cron, an interval or `window_days`; left out: while `where` holds, and without either by hand only.
        `where`: what must be reached. `window`: between which times of day it may start. `timeout`: it is stopped after
        this. `min_interval`: between two starts on one table. `max_delay`: so long after the last start it is forced.
        `keep`: so many snapshots stay, however old (`retain_last`). All else are options."""
        if when is None and (window is not None or timeout is not None):
            raise ValueError(f"{self.operation.value}: window and timeout belong to a schedule; say when=...")
        hours = None if window is None else {"start": window[0], "end": window[1]}
        spec = {
            "enabled": enabled,
            "options": self._options({"retain_last": keep, **more}, options or {}) or None,
            "schedule": _told({"window": hours, "timeout": _duration(timeout)}) or None,
            "when": where.document() if where is not None else None,
            "min_interval": _duration(min_interval),
            "critical": None if max_delay is None else {"max_delay": _duration(max_delay)},
        }
        return Care(self.operation.value, _told(spec), when)

    def _options(self, named: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        known = {re.sub("[-.]", "_", name): name for name in OPTIONS[self.operation]}
        chosen = {known.get(name, name): value for name, value in named.items() if value is not None}
        return {name: _plain(value) for name, value in {**chosen, **given}.items()}


rewrite_data_files = Maker(Operation.REWRITE_DATA_FILES)
"""Small and large data files become files of the target size; deletes are applied."""
rewrite_position_delete_files = Maker(Operation.REWRITE_POSITION_DELETE_FILES)
"""Small position delete files become fewer."""
rewrite_manifests = Maker(Operation.REWRITE_MANIFESTS)
"""Many small manifests become few."""
expire_snapshots = Maker(Operation.EXPIRE_SNAPSHOTS)
"""Old snapshots go, with the files that only they need."""
remove_orphan_files = Maker(Operation.REMOVE_ORPHAN_FILES)
"""Files go that no snapshot knows, none younger than three days."""
compute_table_stats = Maker(Operation.COMPUTE_TABLE_STATS)
"""Distinct values of columns are written down."""
compute_partition_stats = Maker(Operation.COMPUTE_PARTITION_STATS)
"""Rows and sizes of partitions are written down."""


def _where(logic: str, **limits: Any) -> Where:
    given = _told(limits)
    if not given:
        raise ValueError(f"name a limit: {', '.join(limits)}")
    return Where(given, logic if len(given) > 1 else None)


def _told(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value is not None}


def _plain(value: Any) -> Any:
    return _duration(value) if isinstance(value, timedelta) else value


def _duration(given: Span | None) -> str | None:
    return format_duration(given // timedelta(microseconds=1)) if isinstance(given, timedelta) else given
