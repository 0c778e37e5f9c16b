"""After an attempt: try again, and when, or end the run.

Two budgets, because two parties can be at fault. What the program did (failed, ran too long, crashed) counts against
the schedule's `retry.max_attempts`. What happened to it (its worker or host was lost before it could run or report, or
the backend took nothing) counts against a budget of our own, so that an outage does not eat what the user allowed.

An attempt that a clean shutdown stopped is neither a crash nor a failure. The run goes back to waiting at once, as if
that attempt had never been counted, and the next worker starts it again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

from tidegate.domain.ids import AttemptKey
from tidegate.domain.instants import MINUTE, SECOND, Duration, Instant
from tidegate.domain.runs import State
from tidegate.domain.schedules import Retry, ThenFailed
from tidegate.domain.stopping import Ended, StopReason

LOST_BUDGET = 3
"""How many lost workers and refused launches a run forgives."""

WINDOW_CLOSED = "Its window closed while it ran, and says that it is stopped then (stop_at_end)."

_REFUSED = Retry(max_attempts=LOST_BUDGET + 1, delay=SECOND, factor=4.0, max_delay=MINUTE)
"""How soon a backend that refused is asked again: it is busy or broken, the program is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAt:
    """Back to waiting until `at`; counters stay held, the slot is given back.

    `failures` and `lost` are added to the run's (0 or 1). `crashed`: it waits besides as `domain.crashes` says. A run
    that a person asked to cancel meanwhile (its row says `stop = cancel`) ends `cancelled` instead.
    """

    at: Instant
    failures: int
    lost: int
    crashed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """`pauses`: the run used up its attempts, and its schedule is to pause then."""

    outcome: State
    reason: str
    pauses: bool = False


Then: TypeAlias = RetryAt | Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often a run's attempts went wrong before this one."""

    failures: int
    lost: int


def after_attempt(
    attempt: AttemptKey,
    ended: Ended,
    *,
    stop: StopReason | None,
    retry: Retry,
    tally: Tally,
    now: Instant,
    permanent: bool = False,
    why: str = "",
    orphan: bool = False,
) -> Then:
    """What becomes of the run when `attempt` ended so.

    `stop` is what it was asked to stop for, if it was. `permanent`: a refusal that another try cannot help. `why` is a
    sentence for people that ends up as the run's reason. `orphan`: the worker that says how it ended is not the one
    that began it.
    """
    if stop is StopReason.SHUTDOWN and ended is Ended.LOST:
        return RetryAt(at=now, failures=0, lost=0)
    if stop is StopReason.CANCEL and ended is not Ended.SUCCEEDED:
        return Finish(outcome=State.CANCELLED, reason=why or "Cancelled.")
    if stop is StopReason.WINDOW and ended is not Ended.SUCCEEDED:
        return Finish(outcome=State.CANCELLED, reason=WINDOW_CLOSED)
    match ended:
        case Ended.SUCCEEDED:
            return Finish(outcome=State.SUCCEEDED, reason="")
        case Ended.CANCELLED:
            return Finish(outcome=State.CANCELLED, reason=why or "Cancelled.")
        case Ended.FAILED | Ended.TIMED_OUT | Ended.CRASHED:
            unwatched = orphan and ended is Ended.CRASHED and stop is not StopReason.SHUTDOWN
            return _after_fault(attempt, ended, retry, tally, now, why, crashed=unwatched)
        case Ended.LOST | Ended.REFUSED:
            return _after_loss(attempt, ended, tally, now, permanent, why)


def backoff(retry: Retry, k: int, attempt: AttemptKey) -> Duration:
    """How long after its k-th fault (k >= 1) a run tries again: min(max_delay, delay * factor^(k-1)) * u.

    u lies in [0.8, 1] and depends on the attempt only: the same attempt always waits as long, two never in step.
    """
    cap = float(retry.max_delay)
    try:
        grown = retry.delay * math.pow(retry.factor, k - 1)
    except OverflowError:
        grown = cap if retry.delay else 0.0
    digest = blake2b(attempt.identity.encode(), digest_size=8).digest()
    u = 0.8 + 0.2 * (int.from_bytes(digest, "big") / (1 << 64))
    return int(min(cap, grown) * u)


def _after_fault(
    attempt: AttemptKey, ended: Ended, retry: Retry, tally: Tally, now: Instant, why: str, *, crashed: bool
) -> Then:
    failures = tally.failures + 1
    if failures < retry.max_attempts:
        return RetryAt(at=now + backoff(retry, failures, attempt), failures=1, lost=0, crashed=crashed)
    tries = f"Attempt {failures} of {retry.max_attempts}: " if retry.max_attempts > 1 else ""
    pauses = retry.then is ThenFailed.PAUSE
    return Finish(outcome=State(ended.value), reason=f"{tries}{why or _SENTENCES[ended]}", pauses=pauses)


def _after_loss(attempt: AttemptKey, ended: Ended, tally: Tally, now: Instant, permanent: bool, why: str) -> Then:
    lost = tally.lost + 1
    if permanent or lost > LOST_BUDGET:
        outcome = State.CRASHED if ended is Ended.LOST else State.FAILED
        count = "" if permanent else f" This happened {lost} times; no further attempt is made."
        return Finish(outcome=outcome, reason=(why or _SENTENCES[ended]) + count)
    wait = backoff(_REFUSED, lost, attempt) if ended is Ended.REFUSED else 0
    return RetryAt(at=now + wait, failures=0, lost=1)


_SENTENCES = {
    Ended.FAILED: "The program failed.",
    Ended.TIMED_OUT: "It ran longer than timeout.run allows.",
    Ended.CRASHED: "Its process, driver or host ended without saying how.",
    Ended.LOST: "Its worker was lost.",
    Ended.REFUSED: "The backend did not take the launch.",
}
