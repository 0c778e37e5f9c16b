"""Calls a user's plain function as a pooled Python process would: with `run` where it takes one, and the arguments."""

from __future__ import annotations

import inspect
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidegate.domain.evidence import told
from tidegate.domain.instants import Instant, format_instant
from tidegate.ports.launching import Launch
from tidegate.sdk.publishing import OUTBOX
from tidegate.sdk.run import Run


@contextmanager
def outbox(took: Callable[[Mapping[str, Any]], None]) -> Iterator[None]:
    """Where `run.publish` and `publish` of a program leave events meanwhile; each is handed to `took` at the end."""
    before = os.environ.get(OUTBOX)
    with tempfile.TemporaryDirectory() as directory:
        os.environ[OUTBOX] = directory
        try:
            yield
        finally:
            if before is None:
                del os.environ[OUTBOX]
            else:
                os.environ[OUTBOX] = before
            for path in sorted(Path(directory).glob("*.json")):
                took(json.loads(path.read_text()))


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
        **told(launch.evidence, launch.inputs),
    }
