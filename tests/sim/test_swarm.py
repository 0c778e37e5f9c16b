"""Each seed draws its own mix of faults and options, the same each time; what was struck is counted by its place."""

from __future__ import annotations

import gc
from dataclasses import fields, replace

import pytest

from tidegate.domain.instants import MINUTE, SECOND
from tidegate.domain.schedules import Mode
from tidegate.sim.__main__ import main
from tidegate.sim.faults import USUAL, Rates, Tally
from tidegate.sim.feeds import Feeds
from tidegate.sim.run import Scenario, simulate
from tidegate.sim.swarm import Coverage, mix
from tidegate.sim.workload import Size

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
    struck = {("crash", "commit"): 3, ("lost", "begin"): 1, ("ambiguous.done", "commit"): 2}
    coverage.add(Tally(points=struck, made={"begin": 9, "commit": 8, "beat": 7}))
    assert sorted(coverage.never()) == [("crash", "beat"), ("crash", "begin"), ("lost", "beat"), ("lost", "commit")]
    assert coverage.spared() == ["beat"]
    assert coverage.told() == (
        "fault points: 2 of 6 were struck (2 kinds of faults x 3 calls of ports), 6 times\n  beat 0, begin 1, commit 5"
    )


def test_the_long_form_counts_and_says_where_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--swarm", "--seed", "24007", "--seeds", "9", "--hours", "0.005", "--minutes", "0.00001"]
    threshold = gc.get_threshold()
    assert main(command) == 0
    gc.set_threshold(*threshold)
    said = capsys.readouterr().out
    assert "1 seeds, 0.005 virtual hours" in said and "lost or decided twice: 0" in said and "every law held" in said
    assert "to go on: python -m tidegate.sim --seed 24008 --hours 0.005 --swarm" in said


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.requirement("HA-4", "HA-5", "RUN-1", "RUN-9", "EVENT-1")
def test_no_law_breaks_in_whatever_mix() -> None:
    broken = []
    coverage = Coverage()
    for seed in range(24000, 24006):
        verdict = simulate(seed, mix(seed, 2 * MINUTE))
        coverage.add(verdict.tally)
        broken += [f"seed {seed}: {one}" for one in verdict.violations]
    assert not broken
    assert len(coverage.kinds) > 6 and len(coverage.calls) > 30


@pytest.mark.slow
@pytest.mark.requirement("HA-5", "RUN-1")
def test_every_call_of_a_port_that_the_engine_or_people_make_is_struck() -> None:
    """A fault point that nothing ever hits is not proven. The first call of each kind in a history is lost; others as
    drawn."""
    rates = replace(USUAL, first=4.0, slow=0.03)  # however rarely a seed makes things go wrong, it is above 1
    gated = Scenario(
        span=2 * MINUTE,
        settle=MINUTE,
        size=Size(schedules=6, programs=3, every=3 * SECOND, gates=0.2, sinks=True),
        feeds=Feeds(schedules=6, every=5 * SECOND, change=10 * SECOND, rests=tuple(Mode)[1:]),
        rates=rates,
    )
    filled = replace(gated, size=Size(schedules=6, programs=3, slots=8, every=3 * SECOND, backfills=0.6), feeds=None)
    coverage = Coverage()
    for seed in range(26000, 26008):
        verdict = simulate(seed, gated if seed % 2 else filled)
        assert not verdict.violations, f"seed {seed}: {verdict.violations[:3]}"
        coverage.add(verdict.tally)
    assert not coverage.spared(), coverage.told()
    assert len(coverage.calls) > 80, "calls of ports that the simulator once made are gone"
    for kind in ("done", "undone", "late"):
        assert coverage.struck[f"ambiguous.{kind}", "commit"]
    assert {call for kind, call in coverage.struck if kind == "crash"} >= {"begin", "commit", "now", "beat", "silent"}
