"""Evidence: what a run is told it was given, and that nothing lies between one run's and the next one's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.collected import Amount, Arrival, Facts, Progress
from tidegate.domain.evidence import Reading, after, document, ranges, shown, take, united
from tidegate.domain.looking import subscriptions
from tidegate.domain.progress import advance
from tidegate.domain.triggers import Happened

THREE = Happened(event="user.a", key="n/a", count=3)
IDLE = Facts(enabled_at=0, last_start=None, busy=False)


@pytest.mark.requirement("EVENT-2", "DATA-1")
@given(times=st.lists(st.integers(1, 50), min_size=1, max_size=12).map(sorted), now=st.integers(0, 60))
def test_the_ranges_of_a_run_that_takes_everything_count_what_its_leaves_count(times: list[int], now: int) -> None:
    """`now` is when the admitter began to look; what arrived since then, before it had read, is taken too."""
    (subscription,) = subscriptions(THREE)
    arrivals = [
        Arrival(pos=number, at=at, subscriptions=(subscription,), amount=Amount(n=1), payload={})
        for number, at in enumerate(times, 1)
    ]
    singles = tuple((one.pos, one.at, one.pos) for one in arrivals)
    readings = (Reading(subscription=subscription, key_id=7, base=0, bulk=0, singles=singles),)
    done = take(THREE, advance(THREE, Progress(), (), arrivals, IDLE), IDLE, now)
    counted, upto = 0, 0
    for fire in done.fires:
        told = document(THREE, fire, readings)
        low, high = ranges(told)[7]
        assert low == upto, "no event lies between two"
        assert high - low == told["leaves"][0]["n"]
        counted, upto, readings = counted + high - low, high, after(readings, fire)
    assert (counted, upto) == (len(times), readings[0].end)


@pytest.mark.requirement("EVENT-2")
@given(cuts=st.lists(st.integers(1, 30), min_size=2, max_size=9, unique=True).map(sorted), gone=st.integers(0, 7))
def test_evidence_that_joins_other_evidence_has_what_both_had_and_nothing_between(cuts: list[int], gone: int) -> None:
    """Pieces of one topic; another run took one of them."""
    pieces = [piece for number, piece in enumerate(zip(cuts, cuts[1:], strict=False)) if number != gone]
    whole = None
    for low, high in pieces:
        topic = {"key_id": 7, "type": "user.a", "key": "", "from_n": low, "to_n": high}
        leaf = {"node": 0, "type": "event", "topics": [topic], "n": high - low, "rows": 0, "bytes": 0, "names": []}
        leaf |= {"first_at": low, "last_at": high, "tick": None}
        whole = united(whole, {"leaves": [leaf], "timed_out_waiting": False, "fire_time": None, "at": high})
    leaf = {"topics": [], "n": 0} if whole is None else whole["leaves"][0]
    numbers = [number for one in leaf["topics"] for number in range(one["from_n"] + 1, one["to_n"] + 1)]
    assert numbers == [number for low, high in pieces for number in range(low + 1, high + 1)]
    assert len(numbers) == leaf["n"]
    assert len(leaf["topics"]) <= 2


def test_what_a_person_is_shown_is_all_there_is() -> None:
    (subscription,) = subscriptions(THREE)
    one = Arrival(pos=1, at=90, subscriptions=(subscription,), amount=Amount(n=1), payload={})
    progress = advance(THREE, Progress(), (), [one], IDLE).progress
    reading = Reading(subscription=subscription, key_id=7, base=0, bulk=0, singles=((1, 90, 1),))
    assert ranges(document(THREE, shown(THREE, progress, 50), [reading])) == {7: (0, 1)}
    assert shown(THREE, progress, 120).at == 120
    assert shown(THREE, Progress(), 50).at == 50
