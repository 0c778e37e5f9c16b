"""Each seed draws its own mix of faults and options, the same each time; what was struck is counted by its place."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tidegate.domain.instants import MINUTE
from tidegate.sim.faults import Rates
from tidegate.sim.run import simulate
from tidegate.sim.swarm import Coverage, mix

KINDS = [one.name for one in fields(Rates) if isinstance(one.default, float)]


def test_a_seed_draws_the_same_mix_each_time_and_seeds_differ() -> None:
    mixes = [mix(seed, MINUTE) for seed in range(40)]
    assert mixes == [mix(seed, MINUTE) for seed in range(40)]
    assert len({repr(one) for one in mixes}) == 40
    for kind in KINDS:
        drawn = {getattr(one.rates, kind) > 0 for one in mixes}
        assert drawn == {False, True}, f"{kind} comes in all seeds, or in none"


def test_what_was_never_struck_is_told() -> None:
    coverage = Coverage()
    coverage.add({("crash", "commit"): 3, ("lost", "begin"): 1, ("ambiguous.done", "commit"): 2})
    assert sorted(coverage.never()) == [("crash", "begin"), ("lost", "commit")]
    assert coverage.told().startswith(
        "fault points: 2 of 4 were struck (2 kinds of faults x 2 calls of ports), 6 times"
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.requirement("HA-4", "HA-5", "RUN-1", "RUN-9", "EVENT-1")
def test_no_law_breaks_in_whatever_mix() -> None:
    broken = []
    coverage = Coverage()
    for seed in range(24000, 24006):
        verdict = simulate(seed, mix(seed, 2 * MINUTE))
        coverage.add(verdict.points)
        broken += [f"seed {seed}: {one}" for one in verdict.violations]
    assert not broken
    assert len(coverage.kinds) > 6 and len(coverage.calls) > 30
