"""Tidegate: a data-aware scheduler for Spark lakehouses.

The names below are the public Python API. They are imported when first used, so that a program process which only
needs `Run` does not pay for the rest.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.sdk.app import App
    from tidegate.sdk.run import Run
    from tidegate.sdk.triggers import after_finish, at, concurrency, cron, every, never, window_days

_HOMES = {
    "App": "tidegate.sdk.app",
    "Run": "tidegate.sdk.run",
    "after_finish": "tidegate.sdk.triggers",
    "at": "tidegate.sdk.triggers",
    "concurrency": "tidegate.sdk.triggers",
    "cron": "tidegate.sdk.triggers",
    "every": "tidegate.sdk.triggers",
    "never": "tidegate.sdk.triggers",
    "window_days": "tidegate.sdk.triggers",
}

__all__ = [
    "App",
    "Run",
    "after_finish",
    "at",
    "concurrency",
    "cron",
    "every",
    "never",
    "window_days",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
