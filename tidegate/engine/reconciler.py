"""Compares the store with itself, now and then, and mends what is out of step.

Nothing here is needed for a store that works. It is what turns a bug, a lost wake-up or a hand-made change into a note
in the log instead of a schedule that never fires again. One process at a time does it, under the lease `resync`; the
transaction that mends carries the token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tidegate.domain.ids import Fence
from tidegate.domain.instants import SECOND, Duration, Instant
from tidegate.engine.outcome import Outcome, Topic
from tidegate.ports.engine import Membership, ReconcilerStore

DUTY = "resync"


class LeasedReconcilerStore(ReconcilerStore, Membership, Protocol):
    """Mends, and grants the lease to do so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilerSettings:
    every: Duration = 30 * SECOND
    term: Duration = 90 * SECOND
    """Of the lease: three rounds, so that one that fails does not hand over."""


class Reconciler:
    name = "reconciler"
    topics: frozenset[Topic] = frozenset()

    def __init__(
        self, store: LeasedReconcilerStore, fence: Fence, settings: ReconcilerSettings = ReconcilerSettings()
    ) -> None:
        self._store = store
        self._fence = fence
        self._settings = settings
        self._next: Instant = 0

    def hear(self, topic: Topic) -> None:
        """Nothing to hear."""

    async def step(self, now: Instant) -> Outcome:
        """One comparison, if it is time and the lease is ours."""
        if now < self._next:
            return Outcome(next=self._next)
        token = await self._store.acquire(DUTY, self._fence, now, self._settings.term)
        if token is None:
            self._next = now + self._settings.every
            return Outcome(next=self._next)

        drifts = await self._store.resync(self._fence, token, now)

        self._next = now + self._settings.every
        notes = tuple(f"{one.what} {one.name} was out of step: {one.found}; {one.mended}" for one in drifts)
        wakes = frozenset({Topic.CLOCK, Topic.ADMIT, Topic.READY, Topic.STOP}) if drifts else frozenset[Topic]()
        return Outcome(did=len(drifts), next=self._next, wakes=wakes, notes=notes)
