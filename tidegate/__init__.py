"""Tidegate: a data-aware scheduler for Spark lakehouses.

The names below are the public Python API. They are imported when first used, so that a program process which only
needs `Run` does not pay for the rest.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.domain.errors import TidegateError, Unavailable
    from tidegate.sdk.app import App
    from tidegate.sdk.client import Client
    from tidegate.sdk.connection import Problem
    from tidegate.sdk.constraints import (
        between,
        blackout,
        concurrency,
        delay,
        load,
        min_interval,
        rate,
    )
    from tidegate.sdk.data import Dataset, Event, dataset, table
    from tidegate.sdk.maintenance import (
        compute_partition_stats,
        compute_table_stats,
        data_files,
        delete_files,
        expire_snapshots,
        large_files,
        manifests,
        partitions,
        remove_orphan_files,
        rewrite_data_files,
        rewrite_manifests,
        rewrite_position_delete_files,
        small_files,
        snapshots,
    )
    from tidegate.sdk.run import Run
    from tidegate.sdk.triggers import (
        When,
        after_finish,
        at,
        cron,
        event,
        every,
        n_of,
        never,
        since_last_event,
        since_last_run,
        window_days,
    )

_HOMES = {
    "App": "tidegate.sdk.app",
    "Client": "tidegate.sdk.client",
    "Dataset": "tidegate.sdk.data",
    "Event": "tidegate.sdk.data",
    "Problem": "tidegate.sdk.connection",
    "Run": "tidegate.sdk.run",
    "TidegateError": "tidegate.domain.errors",
    "Unavailable": "tidegate.domain.errors",
    "When": "tidegate.sdk.triggers",
    "after_finish": "tidegate.sdk.triggers",
    "at": "tidegate.sdk.triggers",
    "between": "tidegate.sdk.constraints",
    "blackout": "tidegate.sdk.constraints",
    "compute_partition_stats": "tidegate.sdk.maintenance",
    "compute_table_stats": "tidegate.sdk.maintenance",
    "concurrency": "tidegate.sdk.constraints",
    "cron": "tidegate.sdk.triggers",
    "data_files": "tidegate.sdk.maintenance",
    "dataset": "tidegate.sdk.data",
    "delay": "tidegate.sdk.constraints",
    "delete_files": "tidegate.sdk.maintenance",
    "event": "tidegate.sdk.triggers",
    "every": "tidegate.sdk.triggers",
    "expire_snapshots": "tidegate.sdk.maintenance",
    "large_files": "tidegate.sdk.maintenance",
    "load": "tidegate.sdk.constraints",
    "manifests": "tidegate.sdk.maintenance",
    "min_interval": "tidegate.sdk.constraints",
    "n_of": "tidegate.sdk.triggers",
    "never": "tidegate.sdk.triggers",
    "partitions": "tidegate.sdk.maintenance",
    "rate": "tidegate.sdk.constraints",
    "remove_orphan_files": "tidegate.sdk.maintenance",
    "rewrite_data_files": "tidegate.sdk.maintenance",
    "rewrite_manifests": "tidegate.sdk.maintenance",
    "rewrite_position_delete_files": "tidegate.sdk.maintenance",
    "since_last_event": "tidegate.sdk.triggers",
    "since_last_run": "tidegate.sdk.triggers",
    "small_files": "tidegate.sdk.maintenance",
    "snapshots": "tidegate.sdk.maintenance",
    "table": "tidegate.sdk.data",
    "window_days": "tidegate.sdk.triggers",
}

__all__ = [
    "App",
    "Client",
    "Dataset",
    "Event",
    "Problem",
    "Run",
    "TidegateError",
    "Unavailable",
    "When",
    "after_finish",
    "at",
    "between",
    "blackout",
    "compute_partition_stats",
    "compute_table_stats",
    "concurrency",
    "cron",
    "data_files",
    "dataset",
    "delay",
    "delete_files",
    "event",
    "every",
    "expire_snapshots",
    "large_files",
    "load",
    "manifests",
    "min_interval",
    "n_of",
    "never",
    "partitions",
    "rate",
    "remove_orphan_files",
    "rewrite_data_files",
    "rewrite_manifests",
    "rewrite_position_delete_files",
    "since_last_event",
    "since_last_run",
    "small_files",
    "snapshots",
    "table",
    "window_days",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
