"""Many short histories full of faults, and none breaks a law."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sizes import examples, first

from tidegate.domain.instants import HOUR, MINUTE, SECOND
from tidegate.domain.schedules import Mode
from tidegate.sim.faults import USUAL as FAULTS
from tidegate.sim.feeds import Feeds
from tidegate.sim.run import Scenario, simulate
from tidegate.sim.workload import Size

SHORT = Scenario(
    span=2 * MINUTE,
    settle=MINUTE,
    size=Size(schedules=6, programs=3, every=20 * SECOND),
    rates=replace(FAULTS, freezes=(0.5, 3.0, 15.0), restarts=(0.1, 1.0, 8.0)),
)
MIDDLE = Scenario(span=20 * MINUTE, size=Size(every=MINUTE))
LARGE = Scenario(span=HOUR, schedulers=3, workers=4, size=Size(schedules=25, programs=8, every=MINUTE))
FED = Scenario(
    span=4 * MINUTE,
    settle=MINUTE,
    size=Size(schedules=3, programs=3, every=MINUTE),
    feeds=Feeds(schedules=10, every=4 * SECOND, change=MINUTE),
    rates=replace(FAULTS, slow=0.03),
)
"""Publishers, and triggers of every kind that wait for what they publish, programs, and silence."""
GATED = replace(SHORT, span=6 * MINUTE, size=Size(schedules=8, programs=4, every=15 * SECOND, gates=0.25))
"""Constraints of every type, groups, suspensions in every mode, freezes, calendars that change, readings."""
RESTED = replace(GATED, feeds=Feeds(schedules=10, every=4 * SECOND, change=20 * SECOND, rests=tuple(Mode)[1:]))
"""The same, and triggers that collect, whose schedules rest in every mode."""
TOLD = replace(SHORT, size=replace(SHORT.size, sinks=True))
"""Two sinks that are slow, down, take a part, or whose answer is lost."""
PROMOTED = replace(SHORT, rates=replace(SHORT.rates, failover=0.0008))
"""Standbys take over, and have every commit."""
BEHIND = replace(PROMOTED, rates=replace(PROMOTED.rates, lag=3 * SECOND))
"""They lack the last ones, up to three seconds of them."""
CALM = Scenario(span=20 * MINUTE, faults=False, size=Size(every=MINUTE))


def _broken(scenario: Scenario, seeds: range) -> list[str]:
    return [f"seed {seed}: {one}" for seed in seeds for one in simulate(seed, scenario).violations]


@pytest.mark.requirement("RUN-1", "HA-4", "HA-5", "CATCH-5", "FAIL-3", "RUN-5")
@pytest.mark.parametrize("first", first(1, range(0, 160, 40)))
def test_no_law_breaks_whatever_fails(first: int) -> None:
    assert not _broken(SHORT, range(first, first + 40))


@pytest.mark.slow
@pytest.mark.requirement("EVENT-9", "HA-5")
def test_each_sink_gets_every_event_in_its_order_whatever_fails() -> None:
    assert not _broken(TOLD, range(18000, 18000 + examples(20)))


@pytest.mark.slow
@pytest.mark.requirement("EVENT-9", "HA-9")
def test_each_sink_gets_every_event_that_is_left_where_a_standby_lacks_the_last_commits() -> None:
    assert not _broken(replace(BEHIND, size=TOLD.size), range(18100, 18100 + examples(20)))


@pytest.mark.slow
@pytest.mark.requirement("HA-9", "HA-8")
def test_a_standby_that_has_every_commit_is_as_good_as_the_database() -> None:
    assert not _broken(PROMOTED, range(17000, 17000 + examples(25)))


@pytest.mark.slow
@pytest.mark.requirement("HA-9", "RUN-1", "HA-8")
def test_what_a_standby_lacks_is_decided_again_once_and_nothing_runs_twice_or_is_stuck() -> None:
    """Without `laws.NOT_AFTER_A_LOSS`, which need every commit."""
    size = replace(SHORT.size, backfills=0.3, every=8 * SECOND)
    lost = 0
    for seed in range(17100, 17100 + examples(30)):
        scenario = replace(BEHIND, size=size if seed % 3 else SHORT.size, feeds=None if seed % 5 else FED.feeds)
        verdict = simulate(seed, scenario)
        assert not verdict.violations, f"seed {seed}: {verdict.violations[:3]}"
        lost += len(verdict.history.losses)
    assert lost >= examples(30)


def test_no_law_breaks_where_nothing_fails() -> None:
    assert not _broken(CALM, range(examples(5)))


@pytest.mark.requirement("EVENT-1", "EVENT-2", "DATA-5", "DATA-10", "GATE-10", "GATE-16")
def test_no_event_is_lost_or_counted_twice_whatever_fails() -> None:
    assert not _broken(FED, range(examples(30)))


@pytest.mark.requirement("DATA-5", "DATA-6", "DATA-7", "DATA-8", "DATA-9", "EVENT-1")
def test_triggers_fire_as_a_fold_over_single_events_says() -> None:
    assert not _broken(replace(FED, faults=False), range(100, 100 + examples(24)))


@pytest.mark.requirement(
    "GATE-1", "GATE-2", "GATE-3", "GATE-4", "GATE-5", "GATE-6", "GATE-7", "GATE-8", "GATE-9", "GATE-11", "GATE-13",
    "GATE-14", "GATE-17", "LIFE-3",
)  # fmt: skip
def test_no_gate_is_passed_and_nobody_waits_in_vain_whatever_fails() -> None:
    assert not _broken(GATED, range(examples(20)))


def test_gates_hold_where_nothing_fails() -> None:
    assert not _broken(replace(GATED, faults=False), range(300, 300 + examples(10)))


@pytest.mark.requirement("GATE-10", "GATE-16", "LIFE-3")
def test_what_is_collected_while_schedules_rest_is_kept_passed_by_or_merged_as_their_mode_says() -> None:
    assert not _broken(RESTED, range(examples(3)))
    assert not _broken(replace(RESTED, faults=False), range(examples(3)))


@pytest.mark.slow
@pytest.mark.requirement("GATE-11", "GATE-13", "GATE-14", "GATE-17", "GATE-19", "LIFE-3")
@pytest.mark.parametrize("first", range(11000, 11200, 50))
def test_no_gate_is_passed_in_hundreds_of_seeds(first: int) -> None:
    assert not _broken(GATED, range(first, first + 50))


@pytest.mark.slow
@pytest.mark.requirement("GATE-10", "GATE-16", "LIFE-3", "LIFE-4")
@pytest.mark.parametrize("first", range(13000, 13040, 20))
def test_gates_and_events_together_break_no_law(first: int) -> None:
    assert not _broken(RESTED, range(first, first + 20))


@pytest.mark.slow
@pytest.mark.requirement("EVENT-1", "EVENT-2", "DATA-5", "DATA-10", "GATE-10", "GATE-16")
@pytest.mark.parametrize("first", range(8360, 8460, 20))
def test_no_event_is_lost_or_counted_twice_in_many_seeds(first: int) -> None:
    assert not _broken(FED, range(first, first + 20))


@pytest.mark.slow
@pytest.mark.requirement("RUN-1", "HA-4", "HA-5", "CATCH-5", "FAIL-3", "RUN-5", "RUN-9")
@pytest.mark.parametrize("first", range(1000, 1600, 50))
def test_no_law_breaks_in_hundreds_of_seeds(first: int) -> None:
    assert not _broken(SHORT, range(first, first + 50))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(5000, 5100, 10))
def test_no_law_breaks_in_longer_histories(first: int) -> None:
    assert not _broken(MIDDLE, range(first, first + 10, 2))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(7000, 7010, 5))
def test_no_law_breaks_with_many_processes(first: int) -> None:
    assert not _broken(LARGE, range(first, first + 5))
