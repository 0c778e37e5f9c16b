"""What a program is told of its run: the context JSON, from which `tidegate.sdk.run.Run` is made."""

from __future__ import annotations

from typing import Any

from tidegate.domain.evidence import told
from tidegate.domain.ids import AttemptKey, RunKey
from tidegate.domain.instants import Instant, format_instant
from tidegate.domain.schedules import JsonObject
from tidegate.ports.launching import Launch


def run_key(run: RunKey, namespace: str, schedule: str) -> str:
    """Schedule + cause, readable and unique: `sales/orders@2026-03-29T00:00:00Z`, `#ord` added where there is one.

    The same for every attempt of a run, so that it serves as an idempotency key outside.
    """
    order = f"#{run.ord}" if run.ord else ""
    return f"{namespace}/{schedule}@{format_instant(run.slot)}{order}"


def context_of(launch: Launch) -> dict[str, Any]:
    """The context of an attempt that is about to start."""
    return make_context(launch.attempt, launch.arguments, *about(launch))


def about(launch: Launch) -> tuple[Any, ...]:
    """What a pooled host is told of a launch: what `make_context` wants after the arguments, in that order."""
    return (
        launch.namespace,
        launch.schedule,
        launch.program.name,
        launch.fence,
        launch.fire_time,
        launch.previous_fire_time,
        launch.cause.value,
        launch.caused_by,
        launch.inputs,
        launch.evidence,
    )


def make_context(
    attempt: AttemptKey,
    arguments: JsonObject,
    namespace: str,
    schedule: str,
    program: str,
    fence: int,
    fire_time: Instant | None,
    previous_fire_time: Instant | None,
    cause: str,
    caused_by: str,
    inputs: JsonObject | None = None,
    evidence: JsonObject | None = None,
) -> dict[str, Any]:
    """The context JSON; instants are RFC 3339, but for those in evidence, which are microseconds."""
    fire = None if fire_time is None else format_instant(fire_time)
    return {
        "id": str(attempt.run),
        "key": run_key(attempt.run, namespace, schedule),
        "namespace": namespace,
        "schedule": schedule,
        "program": program,
        "attempt": attempt.number,
        "fence": fence,
        "fire_time": fire,
        "previous_fire_time": None if previous_fire_time is None else format_instant(previous_fire_time),
        "cause": {"type": cause, "by": caused_by, "fire_time": fire},
        "arguments": arguments,
        **told(evidence, inputs),
    }
