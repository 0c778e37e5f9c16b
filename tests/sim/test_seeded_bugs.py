"""Each law kills: a mistake that is put back is found within a few seeds, and the right program breaks no law."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from gate_mistakes import GATE_BUGS
from hunting import hunt
from mistakes import BUGS, Bug
from sizes import first

FED = next(place for place, bug in enumerate(BUGS) if bug.name == "places-before-progress")
"""From here on the mistakes need a world with events, which takes seconds each."""
QUICK = FED // 2
LONG = {"hasty-takeover", "disabled-goes-on"}
"""Among the quick ones, those that are found only after many seeds."""


def sparing(bugs: Sequence[Bug]) -> list[Any]:
    """In a fast run, what is found fast."""
    slow = pytest.mark.slow
    return [
        bug if place < QUICK and bug.name not in LONG else pytest.param(bug, marks=slow)
        for place, bug in enumerate(bugs)
    ]


@pytest.mark.requirement("RUN-1", "HA-5")
@pytest.mark.parametrize("bug", sparing(BUGS), ids=lambda bug: bug.name)
def test_a_mistake_that_is_put_back_is_found(bug: Bug) -> None:
    _found(bug)


@pytest.mark.requirement("GATE-3", "GATE-5", "GATE-8", "GATE-9", "GATE-11", "GATE-14")
@pytest.mark.parametrize("bug", first(len(GATE_BUGS) // 2, GATE_BUGS), ids=lambda bug: bug.name)
def test_a_mistake_about_gates_is_found(bug: Bug) -> None:
    _found(bug)


def _found(bug: Bug) -> None:
    done = hunt(bug)
    assert done.law, f"{bug.name} was not found in {done.seeds} seeds; other laws that broke: {list(done.others)}"
