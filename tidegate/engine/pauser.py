"""Pauses schedules of which a run used up its attempts, where they say so.

What is to be paused is on record with the end of the run. What if this process dies: another scheduler finds it there;
pausing what is paused changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tidegate.domain.errors import Conflict
from tidegate.domain.instants import SECOND, Duration, Instant
from tidegate.engine.outcome import Outcome, Topic
from tidegate.ports.pausing import PauserStore, Pausing

LOOK = SECOND
"""How often it looks, should every wake-up be lost."""


class Pauser:
    name = "pauser"
    topics = frozenset({Topic.CLOCK})

    def __init__(self, store: PauserStore, pause: Callable[[Pausing], Awaitable[bool]], look: Duration = LOOK) -> None:
        self._store = store
        self._pause = pause
        self._look = look

    def hear(self, topic: Topic) -> None:
        """A run ended: `step` follows."""

    async def step(self, now: Instant) -> Outcome:
        """Pause what is asked for."""
        notes = []
        found = await self._store.asked_to_pause()
        for one in found:
            try:
                if await self._pause(one):
                    notes.append(f"{one.namespace}/{one.name} is paused: {one.reason}")
            except Conflict as error:  # somebody edits it at this moment; it stays on record
                notes.append(f"{one.namespace}/{one.name} could not be paused yet: {error}")
        wakes = frozenset({Topic.EVENTS}) if notes else frozenset[Topic]()
        return Outcome(did=len(found), next=now + self._look, wakes=wakes, notes=tuple(notes))
