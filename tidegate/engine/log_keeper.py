"""Removes what old attempts left on this host: their directories, logs included.

Harmless when several workers of a home do it. What if this process dies: the next round removes the rest.
"""

from __future__ import annotations

from typing import Protocol

from tidegate.domain.instants import HOUR, Duration, Instant
from tidegate.engine.outcome import Outcome, Topic

EVERY: Duration = HOUR


class OldLogs(Protocol):
    """Where attempts leave their logs."""

    async def remove_older(self, now: Instant, age: Duration) -> int:
        """Remove attempts that have had no change for `age` and do not run any more; how many."""


class LogKeeper:
    name = "log keeper"
    topics: frozenset[Topic] = frozenset()

    def __init__(self, logs: OldLogs, age: Duration) -> None:
        self._logs = logs
        self._age = age
        self._next: Instant = 0

    def hear(self, topic: Topic) -> None:
        """Nothing to hear."""

    async def step(self, now: Instant) -> Outcome:
        """One round, if it is time."""
        if now < self._next:
            return Outcome(next=self._next)
        removed = await self._logs.remove_older(now, self._age)
        self._next = now + EVERY
        return Outcome(did=removed, next=self._next)
