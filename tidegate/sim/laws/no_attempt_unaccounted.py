"""What really ran and what is on record agree, attempt by attempt."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.domain.ids import AttemptKey
from tidegate.domain.instants import SECOND, Duration
from tidegate.domain.runs import NEVER_STARTED, State
from tidegate.sim.backend import Execution
from tidegate.sim.history import AttemptFact, History, RunFact, Violation, when

LAW = "no_attempt_unaccounted"
LATE = 65 * SECOND
"""How far the end on record may be from the real one: as long as a worker can be frozen in the middle of a step."""
IN_FLIGHT = (State.STARTING, State.RUNNING, State.STOPPING)


def check(history: History) -> Iterator[Violation]:
    ran = {one.attempt: one for one in history.executions}
    known: set[AttemptKey] = set()
    for run in history.runs:
        known.update(attempt.key for attempt in run.attempts)
        yield from _run(run)
        for attempt in run.attempts:
            yield from _attempt(attempt, ran.get(attempt.key), LATE if history.injected else 0)
    for one in history.executions:
        if one.attempt not in known:
            yield Violation(LAW, f"{one.attempt.identity} ran, and no attempt is on record")


def _run(run: RunFact) -> Iterator[Violation]:
    open_ones = [attempt for attempt in run.attempts if attempt.outcome is None]
    if run.state in IN_FLIGHT:
        if len(open_ones) != 1 or open_ones[0] is not run.attempts[-1]:
            yield Violation(LAW, f"run {run.key} is {run.state} with {len(open_ones)} open attempts")
    elif open_ones:
        yield Violation(LAW, f"run {run.key} is {run.state}, and {open_ones[0].key.identity} is open")
    if run.live != (run.finished_at is None):
        yield Violation(LAW, f"run {run.key} is {run.state}, finished {run.finished_at}")
    if run.state in NEVER_STARTED and run.state is not State.SUPERSEDED and run.attempts:  # an update ends retries too
        yield Violation(LAW, f"run {run.key} is {run.state} after {len(run.attempts)} attempts")
    last = run.attempts[-1].outcome if run.attempts else None
    if run.state is State.SUCCEEDED and last != "succeeded":
        yield Violation(LAW, f"run {run.key} succeeded, its last attempt {last}")
    if last == "succeeded" and run.state is not State.SUCCEEDED:
        yield Violation(LAW, f"run {run.key} is {run.state} though its last attempt succeeded")


def _attempt(attempt: AttemptFact, real: Execution | None, tolerance: Duration) -> Iterator[Violation]:
    name = attempt.key.identity
    if attempt.outcome is None or attempt.code == "stop.gave_up":
        return
    if attempt.outcome in ("lost", "refused"):
        if real is not None:
            yield Violation(LAW, f"{name} is on record as {attempt.outcome}, and ran at {when(real.started_at)}")
        return
    if real is None:
        if attempt.outcome in ("cancelled", "timed_out"):
            return  # asked to stop before a backend had it
        yield Violation(LAW, f"{name} is on record as {attempt.outcome}, and never ran")
        return
    if real.fence != attempt.fence:
        yield Violation(LAW, f"{name} runs under token {real.fence}, on record is {attempt.fence}")
    if real.ended_at is None:
        yield Violation(LAW, f"{name} is on record as {attempt.outcome}, and still runs")
        return
    if abs((attempt.finished_at or 0) - real.ended_at) > tolerance:
        yield Violation(LAW, f"{name} ended at {when(real.ended_at)}, on record {when(attempt.finished_at or 0)}")
    asked = real.polite_at is not None or real.killed_at is not None
    said = {"succeeded": "succeeded", "failed": "failed"}.get(real.outcome or "", "crashed")
    if not asked and attempt.outcome not in (said, "timed_out", "cancelled"):  # it may end just before it is told
        yield Violation(LAW, f"{name} {said}, and is on record as {attempt.outcome}")
    if attempt.outcome == "succeeded" and real.outcome != "succeeded":
        yield Violation(LAW, f"{name} is on record as succeeded, the backend says {real.outcome}")
