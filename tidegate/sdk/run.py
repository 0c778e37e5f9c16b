"""What a program sees of its run.

A Python function that has a parameter named `run` (or one annotated `Run`) is given it; any other program makes its
own from the file that TIDEGATE_CONTEXT names: `Run.from_context(os.environ["TIDEGATE_CONTEXT"])`.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidegate.sdk.inputs import Inputs

if TYPE_CHECKING:
    from tidegate.sdk.data import Event


class TidegateCancelled(BaseException):
    """Raised in a function whose run was asked to stop. Not an `Exception`, so that `except Exception` lets it pass."""


@dataclass(slots=True)
class Cancellation:
    """Whether somebody asked this attempt to end; set by whoever hears of it."""

    requested: bool = False


@dataclass(frozen=True, slots=True)
class RunCause:
    """What a run stands for: `type` is fire, evidence, backfill, manual or rerun; `by` who or what asked."""

    type: str
    by: str
    fire_time: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A run of another program that started this one. `outcome` is started, succeeded, failed, timed_out, cancelled
    or crashed."""

    id: str
    namespace: str
    schedule: str
    program: str
    outcome: str
    fire_time: datetime | None
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, as its program sees it. All times are aware and in UTC.

    `id` and `key` are the same for every attempt of a run (use `key` where another system takes an idempotency key);
    `attempt` begins at 1; `fence` only ever grows, so that a store which keeps the highest it has seen can refuse a
    zombie. `fire_time` is the instant the run stands for, never the one it happened to start at; None for a run that
    no clock asked for. `previous_fire_time` is the one before it in the schedule.
    """

    id: str
    key: str
    namespace: str
    schedule: str
    program: str
    attempt: int
    fence: int
    fire_time: datetime | None
    previous_fire_time: datetime | None
    cause: RunCause
    arguments: Mapping[str, Any]
    inputs: Inputs = field(default_factory=Inputs)
    """What is new in each dataset that the trigger names: `run.inputs[orders].read(spark)`."""
    upstream: Upstream | None = None
    """The newest run of a program that the trigger waits for."""
    timed_out_waiting: bool = False
    """Whether a `max_wait` was over before everything had come."""
    events: Sequence[Mapping[str, Any]] = ()
    """The first ten and the last ten of the events that made it run: type, key, time, at, payload ..."""
    evidence: Sequence[Mapping[str, Any]] = ()
    """What each leaf of the trigger collected: type, n, rows, bytes, names."""
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("tidegate.run"))
    """Its lines are the attempt's log, as are standard output and error."""
    cancellation: Cancellation = field(default_factory=Cancellation, repr=False, compare=False)

    @property
    def cancelled(self) -> bool:
        """True once this attempt was asked to stop. Long loops should look at it and return early."""
        return self.cancellation.requested

    def publish(self, event: Event) -> str:
        """Publish an event; its id. It is durable when this returns, and reaches the log within a second.

        A key without a namespace is one of this run's namespace. An event with an `id` of its own is published once,
        however often that is said; without one each call is an event. Raises Invalid for one that may not be published.
        """
        from tidegate.sdk.publishing import publish  # most programs publish nothing and need not wait for it

        return publish(event, namespace=self.namespace)

    @classmethod
    def from_context(
        cls, context: Mapping[str, Any] | str | os.PathLike[str], cancellation: Cancellation | None = None
    ) -> Run:
        """The run that a context describes: the mapping itself, or the path of its JSON file.

        Raises OSError when there is no such file, ValueError when it is not a context.
        """
        if not isinstance(context, Mapping):
            with open(context, encoding="utf-8") as file:
                context = json.load(file)
        assert isinstance(context, Mapping)
        try:
            cause = context["cause"]
            return cls(
                id=context["id"],
                key=context["key"],
                namespace=context["namespace"],
                schedule=context["schedule"],
                program=context["program"],
                attempt=context["attempt"],
                fence=context["fence"],
                fire_time=_moment(context["fire_time"]),
                previous_fire_time=_moment(context["previous_fire_time"]),
                cause=RunCause(cause["type"], cause["by"], _moment(cause["fire_time"])),
                arguments=context["arguments"],
                inputs=Inputs(context["inputs"]),
                upstream=_upstream(context["upstream"]),
                timed_out_waiting=context["timed_out_waiting"],
                events=tuple(context.get("events") or ()),
                evidence=tuple(context.get("evidence") or ()),
                cancellation=cancellation or Cancellation(),
            )
        except KeyError as error:
            raise ValueError(f"this is not the context of a run: it has no {error}") from None


def _upstream(given: Mapping[str, Any] | None) -> Upstream | None:
    if not given:
        return None
    return Upstream(
        id=given["id"],
        namespace=given["namespace"],
        schedule=given["schedule"],
        program=given["program"],
        outcome=given["outcome"],
        fire_time=_moment(given["fire_time"]),
        arguments=given["arguments"],
    )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
