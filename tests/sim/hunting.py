"""Looking for a mistake that was put into the simulated world: seed after seed, until a law that should see it does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter

from mistakes import Bug

from tidegate.domain.instants import MINUTE
from tidegate.sim.faults import USUAL
from tidegate.sim.run import Scenario, simulate
from tidegate.sim.workload import Size

SMALL = Scenario(span=10 * MINUTE, size=Size(schedules=10, every=MINUTE), rates=replace(USUAL, slow=0.02))
SEEDS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunt:
    """How it went: the law that broke (None: none of those that should) and the seeds that it took."""

    law: str | None
    others: tuple[str, ...]
    seeds: int
    seconds: float


def hunt(bug: Bug) -> Hunt:
    """At most `SEEDS` seeds from the bug's first on."""
    began, scenario = perf_counter(), bug.change(SMALL)
    broken: set[str] = set()
    for tried, seed in enumerate(range(bug.first, bug.first + SEEDS), start=1):
        broken |= {violation.law for violation in simulate(seed, scenario).violations}
        if found := [law for law in bug.laws if law in broken]:
            return Hunt(law=found[0], others=(), seeds=tried, seconds=perf_counter() - began)
    return Hunt(law=None, others=tuple(sorted(broken)), seeds=SEEDS, seconds=perf_counter() - began)
