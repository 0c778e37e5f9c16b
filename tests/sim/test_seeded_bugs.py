"""Each law kills: a mistake that is put back is found within a few seeds, and the right program breaks no law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from gate_mistakes import GATE_BUGS
from mistakes import BUGS, Bug
from sizes import first

from tidegate.domain.instants import MINUTE
from tidegate.sim.faults import USUAL
from tidegate.sim.run import Scenario, simulate
from tidegate.sim.workload import Size

SMALL = Scenario(span=10 * MINUTE, size=Size(schedules=10, every=MINUTE), rates=replace(USUAL, slow=0.02))
SEEDS = 40
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
    scenario = bug.change(SMALL)
    broken: set[str] = set()
    for seed in range(bug.first, bug.first + SEEDS):
        broken |= {violation.law for violation in simulate(seed, scenario).violations}
        if broken & set(bug.laws):
            return
    pytest.fail(f"{bug.name} was not found in {SEEDS} seeds; other laws that broke: {sorted(broken)}")
