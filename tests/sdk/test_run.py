"""What a program sees of its run."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidegate.sdk.run import Cancellation, Run, RunCause

CONTEXT = {
    "id": "r1-2-3",
    "key": "sales/orders@2026-03-29T00:00:00Z",
    "namespace": "sales",
    "schedule": "orders",
    "program": "load",
    "attempt": 2,
    "fence": 41,
    "fire_time": "2026-03-29T00:00:00Z",
    "previous_fire_time": None,
    "cause": {"type": "fire", "by": "clock", "fire_time": "2026-03-29T00:00:00Z"},
    "arguments": {"region": "eu"},
    "inputs": {},
    "upstream": None,
    "timed_out_waiting": False,
}
FIRE = datetime(2026, 3, 29, tzinfo=UTC)


@pytest.mark.requirement("TIME-7")
def test_a_run_is_made_from_its_context_or_the_file_of_it(tmp_path: Path) -> None:
    path = tmp_path / "context.json"
    path.write_text(json.dumps(CONTEXT))
    run = Run.from_context(path)
    assert run == Run.from_context(str(path)) == Run.from_context(CONTEXT)
    assert (run.id, run.key, run.attempt, run.fence) == ("r1-2-3", "sales/orders@2026-03-29T00:00:00Z", 2, 41)
    assert (run.fire_time, run.previous_fire_time) == (FIRE, None)
    assert run.cause == RunCause("fire", "clock", FIRE)
    assert run.arguments == {"region": "eu"}
    assert (run.inputs, run.upstream, run.timed_out_waiting) == ({}, None, False)


def test_cancelled_is_what_was_heard() -> None:
    cancellation = Cancellation()
    run = Run.from_context(CONTEXT, cancellation)
    assert not run.cancelled
    cancellation.requested = True
    assert run.cancelled


def test_what_is_no_context_is_said_to_be_none() -> None:
    with pytest.raises(ValueError, match="'cause'"):
        Run.from_context({name: value for name, value in CONTEXT.items() if name != "cause"})
