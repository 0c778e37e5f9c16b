"""Runs programs of kind `publish`: no launcher and no worker, the event is all there is.

Event, outbox row (the event log is the outbox) and the end of the run are one transaction: nobody ever sees a run that
succeeded without its event, or an event whose run did not.

What if this process dies: before the commit the run is ready, nothing was published, and the next scheduler goes on;
after it everything is on record. A commit whose answer was lost has, or has not, taken the run out of those that are
ready, so a repeat finds nothing to do.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from tidegate.domain import events
from tidegate.domain.errors import Fault, Invalid
from tidegate.domain.ids import Fence
from tidegate.domain.instants import Instant
from tidegate.domain.programs import Publish
from tidegate.domain.retry import Finish
from tidegate.domain.runs import State
from tidegate.engine.outcome import Batch, Outcome, Topic
from tidegate.ports.collecting import NewEvent, PublishTx
from tidegate.ports.engine import AttemptEnd, Clock, WorkerTx
from tidegate.ports.launching import Launch

KINDS = (Publish.TYPE,)


class PublisherTx(WorkerTx, PublishTx, Protocol):
    """What begins and ends runs, and publishes."""


class PublisherStore(Clock, Protocol):
    def transaction(self, fence: Fence) -> AbstractAsyncContextManager[PublisherTx]: ...


class Publisher:
    name = "publisher"
    topics = frozenset({Topic.PUBLISH})

    def __init__(self, store: PublisherStore, fence: Fence) -> None:
        self._store = store
        self._fence = fence
        self._batch = Batch()

    def hear(self, topic: Topic) -> None:
        """Every step looks anyway."""

    async def step(self, now: Instant) -> Outcome:
        """Begin, publish and end a batch of ready runs."""
        token: Instant | None = None
        found: list[NewEvent] = []
        ends: list[AttemptEnd] = []
        async with self._store.transaction(self._fence) as tx:
            launches = await tx.claim_ready(KINDS, now, self._batch.size)
            for launch in launches:
                try:
                    found.append(event_of(launch, now))
                except Invalid as wrong:
                    ends.append(_failed(launch, wrong))
                else:
                    ends.append(_ended(launch, "succeeded", None, Finish(outcome=State.SUCCEEDED, reason="")))
            await tx.ended(ends, now)
            await tx.publish(found, now)  # locks topics: last
            if len(launches) < self._batch.size:
                token = await tx.next_token(KINDS, now)

        wakes = frozenset({Topic.EVENTS, Topic.ADMIT, Topic.CLOCK}) if launches else frozenset[Topic]()
        left = self._batch.took(len(launches))
        return Outcome(did=len(launches), left=left, next=token, wakes=wakes)


def event_of(launch: Launch, now: Instant) -> NewEvent:
    """The event that a run publishes: its id is the run's, so that every reader can tell a repeat. Raises Invalid."""
    spec = launch.program.spec
    assert isinstance(spec, Publish)
    made = launch.filled({"key": spec.key, "payload": spec.payload}, "the event")
    if not isinstance(made["key"], str):
        raise Invalid([Fault("key", f"must be text, not {made['key']!r}")], what="the event")
    namespace = launch.program.namespace
    key = events.qualified(spec.event, made["key"], namespace)
    if wrong := events.faults(spec.event, key, made["payload"], launch.fire_time, now):
        raise Invalid(list(wrong), what="the event")
    return NewEvent(
        type=spec.event,
        key=key,
        payload=made["payload"],
        time=launch.fire_time,
        id=str(launch.attempt.run),
        source=namespace,
    )


def _failed(launch: Launch, wrong: Invalid) -> AttemptEnd:
    """No further attempt would say anything else."""
    said = "; ".join(map(str, wrong.faults))
    message = f"Its event cannot be published: {said}."
    error = {"code": "publish.invalid", "message": message, "exit_status": None}
    return _ended(launch, "failed", error, Finish(outcome=State.FAILED, reason=message))


def _ended(launch: Launch, outcome: str, error: dict[str, str | None] | None, then: Finish) -> AttemptEnd:
    return AttemptEnd(attempt=launch.attempt, outcome=outcome, error=error, ago=0, ran=True, then=then)
