"""Sentences about runs: why they were made and how they ended. Times are UTC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from tidegate.domain.instants import format_duration, format_instant
from tidegate.domain.runs import Cause, State
from tidegate.domain.stopping import Ended
from tidegate.ports.records import AttemptRecord, RunRecord


def cause_of(record: RunRecord) -> str:
    """Why it is there at all."""
    fire = None if record.fire_time is None else format_instant(record.fire_time)
    match record.cause:
        case Cause.FIRE:
            if record.count > 1 and record.fire_time_to is not None:
                return f"It stands for {record.count} fires from {fire} to {format_instant(record.fire_time_to)}."
            return f"It stands for the fire of {fire}."
        case Cause.MANUAL:
            return f"{record.caused_by or 'Somebody'} asked for it by hand."
        case Cause.RERUN:
            return f"It repeats run {record.caused_by}" + (f", for the fire of {fire}." if fire else ".")
        case Cause.BACKFILL:
            return f"Backfill {record.caused_by} asked for it, for the fire of {fire}."
        case Cause.EVIDENCE:
            if record.caused_by:
                return f"It was due by {record.caused_by}."
            return "Its trigger was satisfied by data or events."
        case _:
            assert_never(record.cause)


def end_of(record: RunRecord) -> str:
    """Where it stands, or how it ended."""
    tries = f"{len(record.attempts)} attempts" if len(record.attempts) != 1 else "1 attempt"
    why = f" {record.reason.rstrip('.')}." if record.reason else ""
    match record.state:
        case State.READY:
            return "Everything it needs is taken; a worker starts it in a moment."
        case State.STARTING:
            return "A worker is asking the backend to start it."
        case State.RUNNING:
            since = "" if record.started_at is None else f" since {format_instant(record.started_at)}"
            return f"It runs{since}, in attempt {len(record.attempts)}."
        case State.STOPPING:
            return f"It was asked to stop ({record.stop or 'unknown'})."
        case State.SUCCEEDED:
            return f"It succeeded at {_at(record)}, after {tries}.{why}"
        case State.FAILED | State.TIMED_OUT | State.CRASHED:
            word = {"failed": "failed", "timed_out": "timed out", "crashed": "crashed"}[record.state.value]
            return f"It {word} at {_at(record)}, after {tries}.{_error(record)}{why}"
        case State.CANCELLED:
            return f"It was cancelled at {_at(record)}.{why}"
        case State.MISSED:
            return f"It never started: missed.{why}"
        case _:
            return f"It never started: {record.state.value}.{why}"


def times_of(attempt: AttemptRecord) -> str:
    """What happened to one attempt."""
    begun = attempt.started_at or attempt.created_at
    told = f"{attempt.state} on {attempt.host} ({attempt.backend}), begun {format_instant(begun)}"
    if attempt.finished_at is not None:
        told += f", took {format_duration(max(attempt.finished_at - begun, 0))}"
    message = (attempt.error or {}).get("message")
    return f"{told}: {message}" if message else f"{told}."


def used_of(attempts: Sequence[AttemptRecord]) -> int:
    """How many of `retry.max_attempts` the attempts have used up: what was lost or stopped for a shutdown is none."""
    return sum(one.state in (Ended.FAILED, Ended.TIMED_OUT, Ended.CRASHED) for one in attempts)


def tries_of(attempts: Sequence[AttemptRecord], most: int) -> str:
    """What the attempts of a run that waits for its next one have used up of `retry.max_attempts`, and how the last one
    ended."""
    used = used_of(attempts)
    told = f"{used} of {most} {'attempt' if most == 1 else 'attempts'} used up"
    if crashes := sum(one.state == Ended.CRASHED for one in attempts):
        told += f", {crashes} by {'a crash' if crashes == 1 else 'crashes'}"
    if lost := len(attempts) - used:
        told += f"; {lost} more {'does' if lost == 1 else 'do'} not count"
    last = attempts[-1]
    message = str((last.error or {}).get("message") or "").strip()
    how = f"attempt {last.key.number} ended {last.state}" + (f": {message}" if message else "")
    return f"{told}; {how.rstrip('.')}."


def _at(record: RunRecord) -> str:
    return "an unknown time" if record.finished_at is None else format_instant(record.finished_at)


def _error(record: RunRecord) -> str:
    last = record.attempts[-1].error if record.attempts else None
    message = last.get("message") if last else None
    return f" {message}" if message and message not in (record.reason or "") else ""
