"""Calls a user's plain function as a pooled Python process would: with `run` where it takes one, and the arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tidegate.domain.instants import Instant, format_instant
from tidegate.ports.launching import Launch
from tidegate.sdk.run import Run


def call(function: Callable[..., Any], launch: Launch) -> Any:
    """What the function returns; raises what it raises."""
    arguments = dict(launch.arguments)
    if "run" in inspect.signature(function).parameters:
        arguments["run"] = Run.from_context(context(launch))
    return function(**arguments)


def context(launch: Launch) -> dict[str, Any]:
    """The context of a launch, as its JSON file would hold it."""

    def moment(instant: Instant | None) -> str | None:
        return None if instant is None else format_instant(instant)

    return {
        "id": str(launch.attempt.run),
        "key": str(launch.attempt.run),
        "namespace": launch.namespace,
        "schedule": launch.schedule,
        "program": launch.program.name,
        "attempt": launch.attempt.number,
        "fence": launch.fence,
        "fire_time": moment(launch.fire_time),
        "previous_fire_time": moment(launch.previous_fire_time),
        "cause": {"type": launch.cause.value, "by": launch.caused_by, "fire_time": moment(launch.fire_time)},
        "arguments": dict(launch.arguments),
        "inputs": launch.inputs,
        "upstream": (launch.evidence or {}).get("upstream"),
        "timed_out_waiting": bool((launch.evidence or {}).get("timed_out_waiting")),
        "evidence": launch.evidence,
    }
