"""What a batch of runs may borrow of another pool, whatever comes together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.admission import AdmissionFacts, Admit, Candidate, admit
from tidegate.domain.constraints import Load, Loan
from tidegate.domain.facts import Gauge
from tidegate.domain.ids import ProgramId, RunKey, ScheduleId
from tidegate.domain.instants import MINUTE, SECOND
from tidegate.domain.programs import Command, ProgramRef
from tidegate.domain.schedules import ScheduleSpec, ThenWaiting, WaitingPolicy
from tidegate.domain.triggers import Never

NOW = 1_000 * SECOND


def waiting(number: int, pool: str, priority: int = 50, queued: bool = False) -> Candidate:
    program = ProgramRef(id=ProgramId(number), rev=1, namespace="n", name="p", spec=Command(argv=("true",), pool=pool))
    return Candidate(
        key=RunKey(NOW, ScheduleId(number), 0),
        spec=ScheduleSpec(program="p", trigger=Never(), constraints=()),
        program=program,
        priority=priority,
        created_at=NOW - number,
        expires_at=None,
        attempts=0,
        held=(),
        given=None,
        queued=f"pool:{pool}" if queued else None,
    )


@pytest.mark.requirement("GATE-14")
@given(
    st.lists(st.tuples(st.sampled_from(["small", "large"]), st.integers(0, 100), st.booleans()), max_size=12),
    st.integers(0, 3),
    st.integers(0, 4),
    st.integers(0, 3),
    st.booleans(),
)
def test_no_slot_is_used_twice_and_owners_come_first(
    said: list[tuple[str, int, bool]], small: int, large: int, left: int, others: bool
) -> None:
    batch = [waiting(number, *one) for number, one in enumerate(said, 1)]
    awake = sum(one.queued == "pool:large" for one in batch)
    facts = AdmissionFacts(
        held={},
        free={"small": small, "large": large},
        loans={"small": Loan("large", left)},
        queued={"large": awake + others},
    )
    decisions = admit(batch, facts, now=NOW)
    admits = [one for one in decisions if isinstance(one, Admit)]
    borrowed = [one for one in admits if one.lender is not None]
    assert sum(one.pool == "small" for one in admits) <= small
    assert sum(one.pool == "large" for one in admits) <= large
    assert len(borrowed) <= left
    assert all(one.program.pool == "small" and one.pool == "large" for one in borrowed)
    assert not (borrowed and others), "somebody outside of the batch waits for it there"
    held = {one.key for one in decisions} - {one.key for one in admits}
    if borrowed:
        assert not any(one.key in held and one.queued == "pool:large" for one in batch)


@pytest.mark.requirement("GATE-7")
def test_a_reading_that_is_too_old_counts_as_none() -> None:
    one = waiting(1, "default")
    one = replace(one, spec=replace(one.spec, constraints=(Load(resource="cores", below=50.0),)))
    for stale_at, goes in ((None, True), (NOW + 1, True), (NOW, False)):
        gauge = Gauge(10.0, NOW - MINUTE, stale_at=stale_at)
        facts = AdmissionFacts(held={}, free={"default": 1}, gauges={"cores": gauge})
        [decision] = admit([one], facts, now=NOW)
        assert isinstance(decision, Admit) is goes
        if not isinstance(decision, Admit):
            assert "too long ago" in str(getattr(decision, "waiting_for", ""))


@pytest.mark.requirement("GATE-14")
def test_whose_waiting_time_is_over_comes_before_nobody_who_waits_for_a_slot() -> None:
    """It was not woken for the slot, although it stood in the queue."""
    late = replace(waiting(1, "default", queued=True), expires_at=NOW)
    late = replace(late, spec=replace(late.spec, waiting=WaitingPolicy(then=ThenWaiting.RUN)))
    before, after = late.created_at - 60 * MINUTE, late.created_at
    for first, goes in ((before, False), (after, True)):
        facts = AdmissionFacts(held={}, free={"default": 1}, first={"default": first})
        [decision] = admit([late], facts, now=NOW)
        assert isinstance(decision, Admit) is goes
