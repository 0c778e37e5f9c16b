"""Several runs of one schedule that wait: who joins whom, and who gives way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.runs import MERGING, Cause, State
from tidegate.domain.schedules import Waiting, WaitingPolicy
from tidegate.domain.waiting import crowded_out, joined

KEYS = [RunKey(slot, ScheduleId(1), 0) for slot in range(8)]
CAUSES = st.lists(st.sampled_from([Cause.FIRE, Cause.EVIDENCE, Cause.MANUAL, Cause.RERUN]), min_size=1, max_size=8)
POLICIES = st.builds(WaitingPolicy, runs=st.sampled_from(Waiting), max=st.integers(1, 5))


@pytest.mark.requirement("GATE-10")
@given(CAUSES, POLICIES)
def test_the_newest_always_stays_and_no_more_than_may(causes: list[Cause], policy: WaitingPolicy) -> None:
    waiting = list(zip(KEYS, causes, strict=False))
    gone = {key: outcome for key, outcome, _ in crowded_out(policy, waiting)}
    left = [(key, cause) for key, cause in waiting if key not in gone]
    assert left[-1] == waiting[-1]
    assert len(left) <= policy.max
    assert [key for key, _ in left] == sorted(key for key, _ in left)
    if policy.runs is Waiting.LATEST:
        assert sum(cause in MERGING for _, cause in left) <= 1
    superseded = {key for key, outcome in gone.items() if outcome is State.SUPERSEDED}
    assert not superseded or policy.runs is Waiting.LATEST
    assert all(cause in MERGING for key, cause in waiting if key in superseded)


@pytest.mark.requirement("GATE-10")
@given(CAUSES, POLICIES)
def test_who_has_made_room_need_not_do_it_again(causes: list[Cause], policy: WaitingPolicy) -> None:
    waiting = list(zip(KEYS, causes, strict=False))
    gone = {key for key, _, _ in crowded_out(policy, waiting)}
    assert crowded_out(policy, [one for one in waiting if one[0] not in gone]) == []


@pytest.mark.requirement("GATE-10")
@pytest.mark.parametrize("runs", list(Waiting))
def test_a_claimed_run_takes_all_and_a_tick_is_its_own_run(runs: Waiting) -> None:
    policy, (claimed, ticked, survivor) = WaitingPolicy(runs=runs), KEYS[:3]
    assert joined(policy, claimed=claimed, ticked=ticked, survivor=survivor) == claimed
    assert joined(policy, claimed=None, ticked=ticked, survivor=survivor) == ticked
    waits = joined(policy, claimed=None, ticked=None, survivor=survivor)
    assert waits == (survivor if runs is Waiting.MERGE else None)
    assert joined(policy, claimed=None, ticked=None, survivor=None) is None
