"""What admission promises, whatever comes in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.admission import (
    SUSPENDED_MODES,
    AdmissionFacts,
    Admit,
    Candidate,
    Decision,
    Discard,
    Hold,
    admit,
    counters_of,
    needs_of,
    questions,
    rank,
    render,
    subject_of,
)
from tidegate.domain.calendars import Calendar
from tidegate.domain.constraints import (
    ONCE,
    WAIVED,
    Blackout,
    Concurrency,
    Constraint,
    Delay,
    Gauge,
    Load,
    Met,
    MinInterval,
    Rate,
    Starts,
    Unmet,
    Wait,
    Window,
    counter_of,
    judge,
)
from tidegate.domain.ids import ProgramId, RunKey, ScheduleId
from tidegate.domain.instants import DAY, HOUR, MINUTE, SECOND
from tidegate.domain.programs import Command, ProgramRef
from tidegate.domain.runs import Cause, State
from tidegate.domain.schedules import Mode, ScheduleSpec, ThenWaiting, WaitingPolicy
from tidegate.domain.triggers import Never
from tidegate.domain.windows import Span

NOW = 1_000 * SECOND


def candidate(
    schedule: int = 1,
    slot: int = 1,
    *,
    program: int = 1,
    constraints: Sequence[Constraint] = (Concurrency(max=1),),
    priority: int = 50,
    attempts: int = 0,
    pool: str | None = None,
    groups: Sequence[str] = (),
    mode: Mode = Mode.ENABLED,
    cause: Cause = Cause.FIRE,
    expires_at: int | None = None,
    then: ThenWaiting = ThenWaiting.DISCARD,
) -> Candidate:
    waiting = WaitingPolicy(then=then)
    spec = ScheduleSpec(
        program="p", trigger=Never(), constraints=tuple(constraints), priority=priority, groups=tuple(groups),
        waiting=waiting,
    )  # fmt: skip
    ref = ProgramRef(
        id=ProgramId(program), rev=1, namespace="ns", name=f"p{program}", spec=Command(argv=("true",), pool=pool)
    )
    one = Candidate(
        key=RunKey(slot, ScheduleId(schedule), 0),
        spec=spec,
        program=ref,
        priority=priority,
        created_at=slot,
        expires_at=None if attempts else expires_at,
        attempts=attempts,
        held=(),
        given=None,
        mode=mode,
        cause=cause,
    )
    return replace(one, held=counters_of(one)) if attempts else one


def facts_with(free: int = 9, **said: object) -> AdmissionFacts:
    return AdmissionFacts(**{"held": {}, "free": {"default": free}, **said})  # type: ignore[arg-type]


unmet = st.sampled_from([Unmet.WAIT, Unmet.WAIT, Unmet.SKIP])
scopes = st.sampled_from(["schedule", "program", "group:a"])
short = st.sampled_from([SECOND, MINUTE, HOUR])
constraints = st.one_of(
    st.builds(Concurrency, max=st.integers(1, 3), scope=scopes, unmet=unmet),
    st.builds(Rate, max=st.integers(1, 3), per=short, scope=scopes, unmet=unmet),
    st.builds(MinInterval, duration=short, unmet=unmet),
    st.builds(Delay, duration=short, unmet=unmet),
    st.builds(Blackout, calendar=st.sampled_from(["open", "closed", "missing"]), unmet=unmet),
    st.builds(
        Load,
        resource=st.sampled_from(["cores", "silent", "unread", "pool:default", "pool:nowhere"]),
        below=st.sampled_from([10.0, 60.0]),
        unmet=unmet,
    ),
    st.builds(
        Window,
        span=st.sampled_from([Span(start=0, end=1), Span(start=10, end=1440), Span(start=20, end=10)]),
        stop_at_end=st.booleans(),
        unmet=unmet,
    ),
)
candidates = st.lists(
    st.builds(
        candidate,
        schedule=st.integers(1, 3),
        slot=st.integers(1, 20),
        program=st.integers(1, 2),
        constraints=st.lists(constraints, max_size=4),
        priority=st.integers(0, 2),
        attempts=st.sampled_from([0, 0, 1]),
        pool=st.sampled_from(["default", "small", "nowhere"]),
        groups=st.sampled_from([(), ("a",), ("a", "b")]),
        mode=st.sampled_from([Mode.ENABLED, Mode.ENABLED, *Mode]),
        cause=st.sampled_from([Cause.FIRE, Cause.FIRE, Cause.MANUAL]),
        expires_at=st.sampled_from([None, None, NOW, NOW + 1]),
        then=st.sampled_from(list(ThenWaiting)),
    ),
    max_size=10,
    unique_by=lambda one: one.key,
)


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[Candidate], AdmissionFacts]:
    """Candidates, and counters that hold at least what the retries among them hold."""
    batch = draw(candidates)
    needs = needs_of(batch)
    held = {key: draw(st.integers(0, 2)) for key in sorted(needs.counters)}
    for one in batch:
        for key in one.held:
            held[key] = held.get(key, 0) + 1
    starts = {
        key: Starts(
            tuple(sorted((NOW - draw(st.integers(0, 2 * HOUR)) for _ in range(draw(st.integers(0, 3)))), reverse=True)),
            draw(st.integers(0, 2)),
        )
        for key in sorted(needs.starts)
    }
    facts = AdmissionFacts(
        held=held,
        free={"default": draw(st.integers(0, 4)), "small": draw(st.integers(0, 1))},
        slots={"default": 4, "small": 1},
        starts=starts,
        gauges={"cores": Gauge(draw(st.sampled_from([5.0, 50.0, 90.0])), NOW), "silent": Gauge(None, NOW, "no answer")},
        calendars={
            "open": Calendar(name="open"),
            "closed": Calendar(name="closed", spans=((NOW - 1, NOW + MINUTE),)),
        },
        frozen=draw(st.sampled_from([None, None, None, "a move"])),
    )
    return batch, facts


def replay(batch: Sequence[Candidate], facts: AdmissionFacts) -> list[tuple[Candidate, Decision, AdmissionFacts]]:
    """Each decision with the facts as they stood when it was made."""
    by_key = {one.key: one for one in batch}
    held, free, starts = dict(facts.held), dict(facts.free), dict(facts.starts)
    steps = []
    for decision in admit(batch, facts, now=NOW):
        one = by_key[decision.key]
        steps.append((one, decision, replace(facts, held=dict(held), free=dict(free), starts=dict(starts))))
        if isinstance(decision, Admit):
            for key in decision.take:
                held[key] = held.get(key, 0) + 1
                if key in starts:
                    starts[key] = replace(starts[key], pending=starts[key].pending + 1)
            free[one.program.pool] -= 1
    return steps


def forced(one: Candidate) -> bool:
    late = one.expires_at is not None and one.expires_at <= NOW
    return one.cause is Cause.MANUAL or (one.attempts == 0 and late)


def binds(limit: Constraint, one: Candidate) -> bool:
    """Whether a constraint is asked of a run at all."""
    if isinstance(limit, WAIVED) and forced(one):
        return False
    return one.attempts == 0 or not isinstance(limit, ONCE)


def holds(limit: Constraint, one: Candidate, facts: AdmissionFacts, now: int = NOW) -> bool:
    return isinstance(judge(limit, subject_of(one), facts, now), Met)


@given(batches())
def test_every_candidate_gets_exactly_one_decision(given_batch: tuple[list[Candidate], AdmissionFacts]) -> None:
    batch, facts = given_batch
    assert sorted(one.key for one in admit(batch, facts, now=NOW)) == sorted(one.key for one in batch)


@pytest.mark.requirement("GATE-1", "GATE-2", "GATE-3", "GATE-6", "GATE-11", "GATE-17")
@given(batches())
def test_what_is_admitted_meets_every_constraint_at_that_moment(
    given_batch: tuple[list[Candidate], AdmissionFacts],
) -> None:
    for one, decision, then in replay(*given_batch):
        if isinstance(decision, Admit):
            assert then.frozen is None
            assert one.mode not in SUSPENDED_MODES or one.attempts or one.cause is Cause.MANUAL
            assert all(holds(limit, one, then) for limit in one.spec.constraints if binds(limit, one))
            for limit in one.spec.constraints:
                if isinstance(limit, Concurrency) and (key := counter_of(limit.scope, subject_of(one))) not in one.held:
                    assert then.held.get(key, 0) < limit.max
            assert then.free[one.program.pool] > 0
            assert {*decision.take, *one.held} >= set(counters_of(one))


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
        if isinstance(decision, Discard) and decision.outcome is State.SKIPPED:
            assert one.attempts == 0 and one.cause is not Cause.MANUAL and then.frozen is None
            asked = [limit for limit in one.spec.constraints if binds(limit, one)]
            assert all(holds(limit, one, then) for limit in asked if limit.unmet is Unmet.WAIT)
            assert any(not holds(limit, one, then) for limit in asked if limit.unmet is Unmet.SKIP)


@pytest.mark.requirement("GATE-13")
@given(batches())
def test_nothing_waits_without_something_that_wakes_it(given_batch: tuple[list[Candidate], AdmissionFacts]) -> None:
    for one, decision, then in replay(*given_batch):
        if isinstance(decision, Hold):
            assert decision.until is not None or decision.wake_key is not None
            assert decision.until is None or decision.until > NOW
            assert decision.waiting_for
            for entry in decision.waiting_for:
                assert set(entry) == {"constraint", "verdict", "until", "why"}
                assert entry["why"].endswith(".")
            if decision.wake_key == f"pool:{one.program.pool}":
                assert then.free.get(one.program.pool, 0) <= 0
            elif decision.limit is not None:
                assert decision.wake_key is not None and then.held[decision.wake_key] >= decision.limit


@pytest.mark.requirement("GATE-13")
@given(batches())
def test_nobody_waits_for_what_is_free(given_batch: tuple[list[Candidate], AdmissionFacts]) -> None:
    for one, decision, then in replay(*given_batch):
        if isinstance(decision, Hold):
            assert any(isinstance(asked.verdict, Wait) for asked in questions(one, then, NOW))


@pytest.mark.requirement("GATE-13")
@given(batches(), st.integers(1, HOUR))
def test_who_waits_until_an_instant_can_go_no_earlier(
    given_batch: tuple[list[Candidate], AdmissionFacts], span: int
) -> None:
    """Nothing else changes: looking again before would have been in vain, and then what was waited for is met."""
    for one, decision, then in replay(*given_batch):
        if isinstance(decision, Hold) and decision.until is not None:
            first = decision.waiting_for[0]["constraint"]
            still = replace(one, expires_at=None)
            if not forced(one):
                earlier = admit([still], then, now=min(NOW + span, decision.until - 1))
                assert isinstance(earlier[0], Hold) and earlier[0].waiting_for[0]["constraint"] == first
            [asked, *_] = [it for it in questions(one, then, NOW) if it.constraint and isinstance(it.verdict, Wait)]
            assert asked.constraint is not None
            begun = {  # what was about to start has started by then
                key: Starts(tuple([NOW] * known.pending + list(known.newest)), 0) for key, known in then.starts.items()
            }
            assert holds(asked.constraint, one, replace(then, starts=begun), decision.until)


@pytest.mark.requirement("GATE-19")
@given(batches())
def test_force_waives_what_throttles_and_never_company_blackout_freeze_or_slots(
    given_batch: tuple[list[Candidate], AdmissionFacts],
) -> None:
    batch, facts = given_batch
    for one in batch:
        if one.attempts:
            continue
        by_hand = replace(one, cause=Cause.MANUAL, expires_at=None)
        bare = tuple(limit for limit in one.spec.constraints if not isinstance(limit, WAIVED))
        waits = tuple(replace(limit, unmet=Unmet.WAIT) for limit in bare)
        same = replace(by_hand, spec=replace(one.spec, constraints=waits), mode=Mode.ENABLED)
        assert admit([by_hand], facts, now=NOW) == admit([same], facts, now=NOW)


# ── order ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("GATE-14")
@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, DAY), st.integers(0, DAY))
def test_nobody_is_passed_by_who_came_so_many_minutes_later(mine: int, other: int, since: int, later: int) -> None:
    """The starvation bound: 100 - its priority, in minutes."""
    if later > since + (100 - mine) * MINUTE:
        assert rank(mine, since) < rank(other, later)
    if later == since and other > mine:
        assert rank(other, later) < rank(mine, since), "the important goes first"


@pytest.mark.requirement("GATE-14")
@given(batches())
def test_slots_go_to_the_first_in_rank(given_batch: tuple[list[Candidate], AdmissionFacts]) -> None:
    steps = replay(*given_batch)
    for place, (one, decision, _) in enumerate(steps):
        if isinstance(decision, Hold) and decision.wake_key == f"pool:{one.program.pool}":
            after = [other for other, said, _ in steps[place:] if isinstance(said, Admit)]
            assert all(other.program.pool != one.program.pool for other in after)
    order = [rank(one.priority, one.created_at) for one, _, _ in steps]
    assert order == sorted(order)


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
def test_a_skip_that_might_be_met_by_then_does_not_end_what_waits_for_something_else() -> None:
    both = [Concurrency(max=1, scope="program"), Concurrency(max=1, unmet=Unmet.SKIP)]
    [waiting] = admit([candidate(constraints=both)], facts_with(held={"s1": 1, "p1": 1}), now=NOW)
    assert isinstance(waiting, Hold) and waiting.wake_key == "p1"
    [skipped] = admit([candidate(constraints=both)], facts_with(held={"s1": 1}), now=NOW)
    assert isinstance(skipped, Discard) and skipped.outcome is State.SKIPPED


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
    by_data = replace(retry, key=RunKey(1, ScheduleId(1), 1), cause=Cause.EVIDENCE, mode=Mode.DROP)
    assert isinstance(admit([by_data], facts, now=NOW)[0], Discard)
    by_hand = replace(by_data, cause=Cause.MANUAL)
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
