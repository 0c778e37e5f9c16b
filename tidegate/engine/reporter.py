"""Tells the database what this process counts, so that any API process can show it.

What if this process dies: its counters go with it, as those of any process do; whoever adds up sees a restart.
"""

from __future__ import annotations

from dataclasses import asdict

from tidegate.domain.ids import Fence
from tidegate.domain.instants import SECOND, Duration, Instant
from tidegate.engine.meters import Meters
from tidegate.engine.outcome import Outcome, Topic
from tidegate.ports.engine import Reports

EVERY = 10 * SECOND


class Reporter:
    name = "reporter"
    topics: frozenset[Topic] = frozenset()

    def __init__(self, store: Reports, fence: Fence, meters: Meters, every: Duration = EVERY) -> None:
        self._store = store
        self._fence = fence
        self._meters = meters
        self._every = every
        self._next: Instant = 0

    def hear(self, topic: Topic) -> None:
        """Nothing to hear."""

    async def step(self, now: Instant) -> Outcome:
        """One report, if it is time: the loop looks in more often."""
        if now < self._next:
            return Outcome(next=self._next)
        self._next = now + self._every
        counted = {name: asdict(meter) for name, meter in self._meters.parts.items()}
        await self._store.report(self._fence, counted, now)
        return Outcome(did=1, next=self._next)
