"""How much is tried: `make check` tries a part, `make test` all of it; new examples each time, or, with SAME_EXAMPLES
in the environment, the same ones, so that a change is judged by what it changed."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

_part = {"fast": False}


def configure(config: pytest.Config) -> None:
    """Whether this is a fast run: one that leaves the slow tests out. Before any test module is read."""
    _part["fast"] = "not slow" in str(config.getoption("-m", default=""))
    # How long a machine takes is no property of the code: no deadline, and slow draws are no fault.
    slow = [HealthCheck.too_slow]
    same = bool(os.environ.get("SAME_EXAMPLES"))
    settings.register_profile(
        "part", max_examples=examples(100), deadline=None, suppress_health_check=slow, derandomize=same
    )
    settings.load_profile("part")


def examples(full: int) -> int:
    """So many examples in all, a fifth of them in a fast run."""
    return max(1, full // 5) if _part["fast"] else full


def first(of_fast: int, values: Any) -> list[Any]:
    """Parameters of which only the first are in a fast run."""
    return [
        value if index < of_fast else pytest.param(value, marks=pytest.mark.slow) for index, value in enumerate(values)
    ]
