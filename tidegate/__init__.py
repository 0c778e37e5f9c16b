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
    "concurrency": "tidegate.sdk.constraints",
    "cron": "tidegate.sdk.triggers",
    "dataset": "tidegate.sdk.data",
    "delay": "tidegate.sdk.constraints",
    "event": "tidegate.sdk.triggers",
    "every": "tidegate.sdk.triggers",
    "load": "tidegate.sdk.constraints",
    "min_interval": "tidegate.sdk.constraints",
    "n_of": "tidegate.sdk.triggers",
    "never": "tidegate.sdk.triggers",
    "rate": "tidegate.sdk.constraints",
    "since_last_event": "tidegate.sdk.triggers",
    "since_last_run": "tidegate.sdk.triggers",
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
    "concurrency",
    "cron",
    "dataset",
    "delay",
    "event",
    "every",
    "load",
    "min_interval",
    "n_of",
    "never",
    "rate",
    "since_last_event",
    "since_last_run",
    "table",
    "window_days",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
