"""Carries the events that programs published from the worker's outbox into the event log.

What if this process dies: before the commit, the files are still there; after it, they are published again under the
same ids by whoever comes next, which changes nothing. An event that cannot be published holds up no other: what is no
event, what the database refuses for what it is (where it refuses many at once, halves are tried, down to the one), and
what has the id of another event, is kept aside and told. What cannot be read now stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tidegate.documents.events import parse_event
from tidegate.domain.errors import UNSTORABLE, Fault, Invalid, Refused
from tidegate.domain.ids import Fence
from tidegate.domain.instants import MILLISECOND, SECOND, Duration, Instant
from tidegate.domain.jsonable import json_faults, say
from tidegate.engine.outcome import Outcome, Topic
from tidegate.ports.collecting import NewEvent, PublishingStore


class Outbox(Protocol):
    """Where programs leave what they publish."""

    async def waiting(self, limit: int) -> Sequence[tuple[str, Any]]:
        """Names and documents of at most so many, oldest first. One that is no JSON has the document None; one that
        cannot be read now has the OSError instead, and does not count."""

    async def done(self, names: Sequence[str]) -> None: ...
    async def refuse(self, name: str) -> None: ...


BATCH = 500
WHILE_BUSY: Duration = 50 * MILLISECOND
"""How often the outbox is looked at while programs run."""
WHILE_IDLE: Duration = SECOND


@dataclass(slots=True)
class _Pass:
    """What became of a batch: names of files, those that were refused with the reason."""

    published: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


class Courier:
    name = "courier"
    topics = frozenset({Topic.BACKEND})

    def __init__(self, store: PublishingStore, fence: Fence, outbox: Outbox, running: Sized) -> None:
        """`running`: what runs on this worker; while nothing does, the outbox is looked at rarely."""
        self._store = store
        self._fence = fence
        self._outbox = outbox
        self._running = running
        self._unread: frozenset[str] = frozenset()  # told already

    def hear(self, topic: Topic) -> None:
        """Programs ended: `step` follows."""

    async def step(self, now: Instant) -> Outcome:
        """Publish what waits, up to a batch."""
        waiting = await self._outbox.waiting(BATCH)
        unread = {name: found for name, found in waiting if isinstance(found, OSError)}
        found: list[tuple[str, NewEvent]] = []
        done = _Pass()
        for name, document in waiting:
            if name in unread:
                continue
            try:
                found.append((name, _event(document, now)))
            except Invalid as wrong:
                done.refused[name] = str(wrong)
        await self._publish(found, now, done)
        await self._outbox.done(done.published)
        for name in done.refused:
            await self._outbox.refuse(name)

        notes = [
            f"The event in {name} cannot be published and is kept aside: {why}" for name, why in done.refused.items()
        ]
        if new := [name for name in unread if name not in self._unread]:
            more = f", and {len(new) - 1} more," if len(new) > 1 else ""
            notes.append(f"The event in {new[0]}{more} cannot be read for now and waits there: {unread[new[0]]}")
        self._unread = frozenset(unread)
        return Outcome(
            did=len(done.published),
            left=len(waiting) - len(unread) == BATCH,
            next=now + (WHILE_BUSY if len(self._running) else WHILE_IDLE),
            wakes=frozenset({Topic.EVENTS}) if done.published else frozenset(),
            notes=tuple(notes),
        )

    async def _publish(self, found: Sequence[tuple[str, NewEvent]], now: Instant, done: _Pass) -> None:
        """In one transaction; where the database refuses it for what is in it, in ever smaller ones."""
        if not found:
            return
        try:
            async with self._store.transaction(self._fence) as tx:
                receipts = await tx.publish([event for _, event in found], now)
        except Refused as refusal:
            if refusal.code != UNSTORABLE:
                raise
            if len(found) == 1:  # this is the one
                done.refused[found[0][0]] = f"the database refuses it: {refusal}"
                return
            middle = len(found) // 2
            for part in (found[:middle], found[middle:]):
                await self._publish(part, now, done)
            return
        for (name, event), receipt in zip(found, receipts, strict=True):
            if receipt.conflict:
                done.refused[name] = f"the id {event.id!r} was used before for another event of {event.source!r}"
            else:
                done.published.append(name)


def _event(document: Any, now: Instant) -> NewEvent:
    """The event of an outbox file: as it is published by REST, with who published it, and an id in any case, which
    makes a repeat harmless. Raises Invalid."""
    if not isinstance(document, dict):
        raise Invalid([Fault("", "is no JSON object")], what="the file")
    said = dict(document)
    source = said.pop("source", None)
    if not isinstance(source, str):
        raise Invalid([Fault("source", f"must be text, who published it, not {say(source)}")], what="the event")
    if faults := list(json_faults(source, ("source",))):
        raise Invalid(faults, what="the event")
    event = parse_event(said, now)
    if event.id is None:
        raise Invalid([Fault("id", "is missing: by it a repeat is known")], what="the event")
    return replace(event, source=source)
