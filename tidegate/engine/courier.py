"""Carries the events that programs published from the worker's outbox into the event log.

What if this process dies: before the commit, the files are still there; after it, they are published again under the
same ids by whoever comes next, which changes nothing. An event that cannot be published holds up no other.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any, Protocol

from tidegate.domain import events
from tidegate.domain.ids import Fence
from tidegate.domain.instants import MILLISECOND, SECOND, Duration, Instant, parse_instant
from tidegate.engine.outcome import Outcome, Topic
from tidegate.ports.collecting import NewEvent, PublishingStore


class Outbox(Protocol):
    """Where programs leave what they publish."""

    async def waiting(self, limit: int) -> Sequence[tuple[str, Any]]: ...
    async def done(self, names: Sequence[str]) -> None: ...
    async def refuse(self, name: str) -> None: ...


BATCH = 500
WHILE_BUSY: Duration = 50 * MILLISECOND
"""How often the outbox is looked at while programs run."""
WHILE_IDLE: Duration = SECOND


class Courier:
    name = "courier"
    topics = frozenset({Topic.BACKEND})

    def __init__(self, store: PublishingStore, fence: Fence, outbox: Outbox, running: Sized) -> None:
        """`running`: what runs on this worker; while nothing does, the outbox is looked at rarely."""
        self._store = store
        self._fence = fence
        self._outbox = outbox
        self._running = running

    def hear(self, topic: Topic) -> None:
        """Programs ended: `step` follows."""

    async def step(self, now: Instant) -> Outcome:
        """Publish what waits, up to a batch."""
        waiting = await self._outbox.waiting(BATCH)
        found: dict[str, NewEvent] = {}
        notes: list[str] = []
        for name, document in waiting:
            try:
                found[name] = _event(document, now)
            except ValueError as fault:
                await self._outbox.refuse(name)
                notes.append(f"The event in {name} cannot be published and is kept aside: {fault}")

        if found:
            async with self._store.transaction(self._fence) as tx:
                await tx.publish(list(found.values()), now)
            await self._outbox.done(list(found))

        pause = WHILE_BUSY if len(self._running) else WHILE_IDLE
        wakes = frozenset({Topic.EVENTS}) if found else frozenset[Topic]()
        left = len(waiting) == BATCH
        return Outcome(did=len(found), left=left, next=now + pause, wakes=wakes, notes=tuple(notes))


def _event(document: Any, now: Instant) -> NewEvent:
    """The event of an outbox file. Raises ValueError saying what is wrong with it."""
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    try:
        time = document.get("time")
        event = NewEvent(
            type=str(document["type"]),
            key=str(document["key"]),
            payload=dict(document.get("payload") or {}),
            time=None if time is None else parse_instant(time),
            id=str(document["id"]),
            source=str(document["source"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"it lacks {error}") from None
    if faults := events.faults(event.type, event.key, event.payload, event.time, now):
        raise ValueError("; ".join(map(str, faults)))
    return event
