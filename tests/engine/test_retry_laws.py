"""When a run tries again, how it is stopped, and how long a holder may trust its lease."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.ids import AttemptKey, RunKey, ScheduleId
from tidegate.domain.instants import HOUR, MINUTE, SECOND
from tidegate.domain.leases import Lease
from tidegate.domain.retry import LOST_BUDGET, Finish, RetryAt, Tally, after_attempt, backoff
from tidegate.domain.runs import MOVES, State
from tidegate.domain.schedules import Retry, ThenFailed
from tidegate.domain.stopping import (
    KILL_PATIENCE,
    START_ALLOWANCE,
    Asked,
    Ended,
    Rung,
    StopReason,
    climb,
    run_limit,
    verdict,
)

NOW = 1_000 * HOUR
ATTEMPT = AttemptKey(RunKey(7, ScheduleId(3), 0), 1)
NONE = Tally(failures=0, lost=0)

retries = st.builds(
    Retry,
    max_attempts=st.integers(1, 6),
    delay=st.integers(0, HOUR),
    factor=st.floats(1, 10),
    max_delay=st.integers(0, 4 * HOUR),
    then=st.sampled_from(list(ThenFailed)),
)
attempts = st.builds(
    lambda slot, number: AttemptKey(RunKey(slot, ScheduleId(1), 0), number), st.integers(0, 10**15), st.integers(1, 99)
)


@pytest.mark.requirement("FAIL-2")
@given(retries, st.integers(1, 2000), attempts)
def test_backoff_grows_to_its_cap_and_jitter_stays_inside(retry: Retry, k: int, attempt: AttemptKey) -> None:
    exact = min(float(retry.max_delay), retry.delay * retry.factor ** min(k - 1, 300))
    found = backoff(retry, k, attempt)
    assert 0.8 * exact - 1 <= found <= exact
    assert found == backoff(retry, k, attempt), "the same attempt always waits as long"


def test_two_attempts_do_not_wait_in_step() -> None:
    keys = [AttemptKey(RunKey(slot, ScheduleId(1), 0), 1) for slot in range(50)]
    assert len({backoff(Retry(), 1, key) for key in keys}) == 50


@pytest.mark.requirement("FAIL-2")
@given(retries, st.sampled_from([Ended.FAILED, Ended.TIMED_OUT, Ended.CRASHED]))
def test_a_program_gets_max_attempts_and_then_ends_as_it_ended(retry: Retry, ended: Ended) -> None:
    made, tally = 0, NONE
    while True:
        made += 1
        then = after_attempt(ATTEMPT, ended, stop=None, retry=retry, tally=tally, now=NOW)
        if isinstance(then, Finish):
            break
        assert (then.failures, then.lost) == (1, 0) and then.at >= NOW
        tally = Tally(failures=tally.failures + 1, lost=tally.lost)
    assert made == retry.max_attempts
    assert then.outcome.value == ended.value and then.reason
    assert then.pauses is (retry.then is ThenFailed.PAUSE), "paused by what the program did, never by a lost worker"


@pytest.mark.requirement("FAIL-2")
@given(st.sampled_from([Ended.LOST, Ended.REFUSED]), st.integers(0, 5))
def test_what_is_lost_or_refused_has_a_budget_of_its_own(ended: Ended, failures: int) -> None:
    retry = Retry(max_attempts=1)
    for lost in range(LOST_BUDGET):
        then = after_attempt(ATTEMPT, ended, stop=None, retry=retry, tally=Tally(failures=failures, lost=lost), now=NOW)
        assert isinstance(then, RetryAt) and (then.failures, then.lost) == (0, 1)
        assert then.at == NOW if ended is Ended.LOST else NOW < then.at <= NOW + MINUTE
    last = Tally(failures=failures, lost=LOST_BUDGET)
    then = after_attempt(ATTEMPT, ended, stop=None, retry=retry, tally=last, now=NOW)
    assert isinstance(then, Finish)
    assert then.outcome is (State.CRASHED if ended is Ended.LOST else State.FAILED)


def test_a_refusal_that_no_other_try_can_help_ends_the_run_with_its_sentence() -> None:
    why = "There is no module named reports."
    then = after_attempt(
        ATTEMPT, Ended.REFUSED, stop=None, retry=Retry(max_attempts=9), tally=NONE, now=NOW, permanent=True, why=why
    )
    assert then == Finish(outcome=State.FAILED, reason=why)


@pytest.mark.requirement("FAIL-3")
@given(st.integers(0, 9), st.integers(0, 9))
def test_what_a_shutdown_stopped_runs_again_and_costs_nothing(failures: int, lost: int) -> None:
    ended = verdict(Ended.FAILED, StopReason.SHUTDOWN)
    then = after_attempt(
        ATTEMPT, ended, stop=StopReason.SHUTDOWN, retry=Retry(), tally=Tally(failures=failures, lost=lost), now=NOW
    )
    assert then == RetryAt(at=NOW, failures=0, lost=0)


@pytest.mark.requirement("RUN-9")
@given(st.sampled_from(list(Ended)), retries)
def test_a_cancelled_run_is_never_tried_again(ended: Ended, retry: Retry) -> None:
    then = after_attempt(ATTEMPT, ended, stop=StopReason.CANCEL, retry=retry, tally=NONE, now=NOW)
    assert isinstance(then, Finish)
    assert then.outcome is (State.SUCCEEDED if ended is Ended.SUCCEEDED else State.CANCELLED)


@pytest.mark.requirement("FAIL-1")
@given(st.sampled_from(list(Ended)), st.sampled_from([None, *StopReason]), retries)
def test_every_end_is_a_move_that_the_table_knows(ended: Ended, stop: StopReason | None, retry: Retry) -> None:
    then = after_attempt(ATTEMPT, verdict(ended, stop), stop=stop, retry=retry, tally=NONE, now=NOW)
    target = then.outcome if isinstance(then, Finish) else State.WAITING
    for state in (State.STARTING, State.RUNNING, State.STOPPING):
        assert target in MOVES[state]


# ── stopping ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("FAIL-5")
@given(st.integers(0, HOUR), st.lists(st.integers(0, 2 * HOUR), max_size=20))
def test_the_ladder_is_climbed_rung_by_rung_and_never_down(grace: int, looks: list[int]) -> None:
    asked, before = Asked(reason=StopReason.CANCEL, at=NOW), Rung.NONE
    for ago in sorted(looks):
        found = climb(asked, grace=grace, now=NOW + ago)
        assert found.rung >= before and found.rung > Rung.NONE
        if found.next is not None:
            assert found.next > NOW + ago
            assert climb(asked, grace=grace, now=found.next).rung > found.rung
            assert climb(asked, grace=grace, now=found.next - 1).rung is found.rung
        before = found.rung
    assert climb(asked, grace=grace, now=NOW + grace + KILL_PATIENCE).rung is Rung.GIVE_UP


@pytest.mark.requirement("RUN-9")
@pytest.mark.parametrize("said", [Ended.SUCCEEDED, Ended.FAILED, Ended.CRASHED, Ended.CANCELLED])
def test_who_asked_it_to_stop_says_how_it_ended(said: Ended) -> None:
    assert verdict(said, StopReason.CANCEL) is Ended.CANCELLED
    assert verdict(said, StopReason.TIMEOUT) is Ended.TIMED_OUT
    assert verdict(said, None) is said


@pytest.mark.requirement("FAIL-5")
def test_the_limit_counts_from_the_start_and_a_slow_backend_has_an_allowance() -> None:
    assert run_limit(timeout=None, created_at=NOW, started_at=NOW) is None
    assert run_limit(timeout=SECOND, created_at=NOW - HOUR, started_at=NOW) == NOW + SECOND
    assert run_limit(timeout=SECOND, created_at=NOW, started_at=None) == NOW + START_ALLOWANCE + SECOND


def test_a_holder_trusts_its_lease_for_less_than_others_grant_it() -> None:
    lease = Lease(duty="resync", token=1, asked_at=NOW, term=10 * SECOND)
    assert lease.trusted(NOW + 9 * SECOND - 1)
    assert not lease.trusted(NOW + 9 * SECOND)
