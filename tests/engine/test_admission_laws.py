"""What admission promises, whatever comes in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.admission import (
    AdmissionFacts,
    Admit,
    Candidate,
    Decision,
    Discard,
    Hold,
    Met,
    admit,
    counters_of,
    judge,
    render,
)
from tidegate.domain.ids import ProgramId, RunKey, ScheduleId
from tidegate.domain.instants import SECOND
from tidegate.domain.programs import Command, ProgramRef
from tidegate.domain.runs import State
from tidegate.domain.schedules import Concurrency, Mode, ScheduleSpec, ThenWaiting, Unmet, WaitingPolicy
from tidegate.domain.triggers import Never

NOW = 1_000 * SECOND


def candidate(
    schedule: int = 1,
    slot: int = 1,
    *,
    program: int = 1,
    constraints: Sequence[Concurrency] = (Concurrency(max=1),),
    priority: int = 50,
    attempts: int = 0,
    pool: str | None = None,
) -> Candidate:
    spec = ScheduleSpec(program="p", trigger=Never(), constraints=tuple(constraints), priority=priority)
    ref = ProgramRef(
        id=ProgramId(program), rev=1, namespace="ns", name=f"p{program}", spec=Command(argv=("true",), pool=pool)
    )
    return Candidate(
        key=RunKey(slot, ScheduleId(schedule), 0),
        spec=spec,
        program=ref,
        priority=priority,
        created_at=slot,
        expires_at=None,
        attempts=attempts,
        held=(f"s{schedule}", f"p{program}") if attempts else (),
        given=None,
    )


limits = st.builds(
    Concurrency,
    max=st.integers(1, 3),
    scope=st.sampled_from(["schedule", "program"]),
    unmet=st.sampled_from(list(Unmet)),
)
candidates = st.lists(
    st.builds(
        candidate,
        schedule=st.integers(1, 3),
        slot=st.integers(1, 20),
        program=st.integers(1, 2),
        constraints=st.lists(limits, max_size=3),
        priority=st.integers(0, 2),
        attempts=st.integers(0, 1),
        pool=st.sampled_from(["default", "small", "nowhere"]),
    ),
    max_size=12,
    unique_by=lambda one: one.key,
)


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[Candidate], AdmissionFacts]:
    """Candidates, and counters that hold at least what the retries among them hold."""
    batch = draw(candidates)
    held = {key: draw(st.integers(0, 2)) for key in ("s1", "s2", "s3", "p1", "p2")}
    for one in batch:
        for key in one.held:
            held[key] += 1
    free = {"default": draw(st.integers(0, 4)), "small": draw(st.integers(0, 1))}
    return batch, AdmissionFacts(held=held, free=free)


def replay(batch: Sequence[Candidate], facts: AdmissionFacts) -> list[tuple[Candidate, Decision, AdmissionFacts]]:
    """Each decision with the facts as they stood when it was made."""
    by_key = {one.key: one for one in batch}
    held, free = dict(facts.held), dict(facts.free)
    steps = []
    for decision in admit(batch, facts, now=NOW):
        one = by_key[decision.key]
        steps.append((one, decision, AdmissionFacts(held=dict(held), free=dict(free))))
        if isinstance(decision, Admit):
            for key in decision.take:
                held[key] = held.get(key, 0) + 1
            free[one.program.pool] -= 1
    return steps


@given(batches())
def test_every_candidate_gets_exactly_one_decision(given_batch: tuple[list[Candidate], AdmissionFacts]) -> None:
    batch, facts = given_batch
    assert sorted(one.key for one in admit(batch, facts, now=NOW)) == sorted(one.key for one in batch)


@pytest.mark.requirement("GATE-1", "GATE-11")
@given(batches())
def test_one_batch_never_passes_a_limit(given_batch: tuple[list[Candidate], AdmissionFacts]) -> None:
    for one, decision, then in replay(*given_batch):
        if isinstance(decision, Admit):
            schedule, program = counters_of(one)
            for limit in one.spec.constraints:
                key = schedule if limit.scope == "schedule" else program
                if key not in one.held:
                    assert then.held.get(key, 0) < limit.max
            assert then.free[one.program.pool] > 0
            assert set(decision.take) | set(one.held) >= {schedule, program}


@given(batches(), st.randoms())
def test_the_order_in_which_a_batch_comes_changes_nothing(
    given_batch: tuple[list[Candidate], AdmissionFacts], shuffler: object
) -> None:
    batch, facts = given_batch
    shuffled = list(batch)
    shuffler.shuffle(shuffled)  # type: ignore[attr-defined]
    assert admit(batch, facts, now=NOW) == admit(shuffled, facts, now=NOW)


@pytest.mark.requirement("GATE-9")
@given(batches())
def test_a_skip_is_judged_last(given_batch: tuple[list[Candidate], AdmissionFacts]) -> None:
    for one, decision, then in replay(*given_batch):
        if isinstance(decision, Discard):
            assert decision.outcome is State.SKIPPED
            assert one.attempts == 0
            waits = [limit for limit in one.spec.constraints if limit.unmet is Unmet.WAIT]
            skips = [limit for limit in one.spec.constraints if limit.unmet is Unmet.SKIP]
            assert all(isinstance(judge(limit, one, then), Met) for limit in waits)
            assert any(not isinstance(judge(limit, one, then), Met) for limit in skips)


@given(batches())
def test_nothing_waits_without_something_that_wakes_it(given_batch: tuple[list[Candidate], AdmissionFacts]) -> None:
    for one, decision, then in replay(*given_batch):
        if isinstance(decision, Hold):
            assert decision.until is not None or decision.wake_key is not None
            assert decision.waiting_for
            for entry in decision.waiting_for:
                assert set(entry) == {"constraint", "verdict", "until", "why"}
                assert entry["why"].endswith(".")
            if decision.wake_key and decision.wake_key.startswith("pool:"):
                assert then.free.get(one.program.pool, 0) <= 0
            elif decision.wake_key:
                assert decision.wake_key in counters_of(one)


@given(batches())
def test_nobody_waits_for_what_is_free(given_batch: tuple[list[Candidate], AdmissionFacts]) -> None:
    for one, decision, then in replay(*given_batch):
        if isinstance(decision, Hold):
            limits_met = all(isinstance(judge(limit, one, then), Met) for limit in one.spec.constraints)
            assert not (limits_met and then.free.get(one.program.pool, 0) > 0)


def test_higher_priority_goes_first_then_the_older_run() -> None:
    batch = [candidate(slot=3, priority=10), candidate(slot=2, priority=90), candidate(slot=1, priority=90)]
    decisions = admit(batch, AdmissionFacts(held={}, free={"default": 9}), now=NOW)
    assert [(one.key.slot, type(one)) for one in decisions] == [(1, Admit), (2, Hold), (3, Hold)]


@pytest.mark.requirement("GATE-1")
def test_a_limit_on_a_program_counts_runs_of_schedules_that_declare_none() -> None:
    free = candidate(schedule=1, slot=1, constraints=())
    limited = candidate(schedule=2, slot=2, constraints=[Concurrency(max=1, scope="program")])
    decisions = admit([free, limited], AdmissionFacts(held={}, free={"default": 9}), now=NOW)
    assert isinstance(decisions[0], Admit)
    assert isinstance(decisions[1], Hold) and decisions[1].wake_key == "p1"


def test_a_retry_keeps_what_it_holds_and_reads_skip_as_wait() -> None:
    skip = [Concurrency(max=1, unmet=Unmet.SKIP), Concurrency(max=1, scope="program", unmet=Unmet.SKIP)]
    retry = replace(candidate(constraints=skip, attempts=1), held=("s1",))
    facts = AdmissionFacts(held={"s1": 1, "p1": 1}, free={"default": 1})
    [held_up] = admit([retry], facts, now=NOW)
    assert isinstance(held_up, Hold) and held_up.wake_key == "p1"
    [admitted] = admit([retry], AdmissionFacts(held={"s1": 1}, free={"default": 1}), now=NOW)
    assert isinstance(admitted, Admit) and admitted.take == ("p1",)


@pytest.mark.requirement("GATE-9")
def test_a_full_pool_does_not_turn_a_skip_into_a_wait() -> None:
    skipping = candidate(constraints=[Concurrency(max=1, unmet=Unmet.SKIP)])
    [decision] = admit([skipping], AdmissionFacts(held={"s1": 1}, free={"default": 0}), now=NOW)
    assert isinstance(decision, Discard) and decision.outcome is State.SKIPPED
    assert "at most 1" in decision.reason


def test_a_run_that_waited_too_long_expires_unless_it_has_begun() -> None:
    late = replace(candidate(), expires_at=NOW)
    facts = AdmissionFacts(held={"s1": 1}, free={"default": 1})
    [expired] = admit([late], facts, now=NOW)
    assert isinstance(expired, Discard) and expired.outcome is State.EXPIRED
    [retry] = admit([replace(late, attempts=1, held=("s1", "p1"))], facts, now=NOW)
    assert isinstance(retry, Admit)
    forced = replace(late, spec=replace(late.spec, waiting=WaitingPolicy(then=ThenWaiting.RUN)))
    [waits_on] = admit([forced], facts, now=NOW)
    assert isinstance(waits_on, Hold), "then: run never waives concurrency"


def test_no_further_attempt_under_drop_or_delete() -> None:
    retry = candidate(attempts=1)
    facts = AdmissionFacts(held={"s1": 1, "p1": 1}, free={"default": 1})
    for gone in (replace(retry, mode=Mode.DROP), replace(retry, deleted=True)):
        [decision] = admit([gone], facts, now=NOW)
        assert isinstance(decision, Discard) and decision.outcome is State.CANCELLED
    by_hand = replace(retry, key=RunKey(1, ScheduleId(1), 1), mode=Mode.DROP)
    assert isinstance(admit([by_hand], facts, now=NOW)[0], Admit), "what a person asked for works while disabled"


def test_arguments_by_hand_override_the_schedules_and_those_the_programs() -> None:
    one = candidate()
    program = replace(one.program, spec=Command(argv=("true",), arguments={"a": 1, "b": 1, "c": 1}))
    one = replace(one, program=program, spec=replace(one.spec, arguments={"b": 2, "c": 2}), given={"c": 3})
    assert render(one) == {"a": 1, "b": 2, "c": 3}


def test_a_run_of_an_unknown_pool_says_which() -> None:
    [decision] = admit([candidate(pool="gpu")], AdmissionFacts(held={}, free={}), now=NOW)
    assert isinstance(decision, Hold) and decision.wake_key == "pool:gpu"
    assert "no pool gpu" in decision.waiting_for[0]["why"]
