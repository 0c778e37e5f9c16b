"""Runs: asked for, cancelled, repeated, looked at."""

from __future__ import annotations

from collections.abc import Collection

from tidegate.control.common import LIMIT, Page
from tidegate.domain.instants import Instant
from tidegate.domain.runs import State
from tidegate.domain.schedules import JsonObject
from tidegate.ports.control import ControlStore, RunRecord


async def trigger(
    store: ControlStore, namespace: str, schedule: str, *, who: str, arguments: JsonObject | None = None
) -> RunRecord:
    """A manual run, now; works while the schedule is disabled, and moves no clock."""
    raise NotImplementedError


async def cancel(store: ControlStore, run_id: str, *, who: str) -> RunRecord:
    """Waiting or ready: cancelled at once; in flight: asked to stop. Raises NotFound; Conflict when it has ended."""
    raise NotImplementedError


async def rerun(store: ControlStore, run_id: str, *, who: str) -> RunRecord:
    """A new run with the old inputs, arguments and fire time. Raises NotFound; Conflict while the old one lives."""
    raise NotImplementedError


async def get(store: ControlStore, run_id: str) -> RunRecord:
    raise NotImplementedError


async def page(
    store: ControlStore,
    namespace: str | None,
    *,
    schedule: str | None = None,
    states: Collection[State] = (),
    since: Instant | None = None,
    cursor: str | None = None,
    limit: int = LIMIT,
) -> Page[RunRecord]:
    """Runs and stretches of missed fires, newest first. No states: all."""
    raise NotImplementedError


async def queue(
    store: ControlStore, namespace: str | None, *, cursor: str | None = None, limit: int = LIMIT
) -> Page[RunRecord]:
    """Waiting runs in the order in which they will be looked at."""
    raise NotImplementedError
