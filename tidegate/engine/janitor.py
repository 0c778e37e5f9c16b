"""Makes tomorrow's partitions in time, and drops those that are past retention.

Both are harmless when done twice or by two at a time; the lease `janitor` only saves the second one the work. Dropping
can take a while, so the holder asks itself before each task whether it still trusts its lease.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.domain.ids import Fence
from tidegate.domain.instants import DAY, HOUR, MINUTE, Duration, Instant
from tidegate.domain.leases import Lease
from tidegate.engine.outcome import Outcome, Topic
from tidegate.ports.engine import JanitorStore, Membership

DUTY = "janitor"


class LeasedJanitorStore(JanitorStore, Membership, Protocol):
    """Keeps partitions, and grants the lease to do so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JanitorSettings:
    every: Duration = HOUR
    again: Duration = MINUTE
    """When to look again after somebody else held the lease."""
    term: Duration = 10 * MINUTE
    ahead: Duration = 14 * DAY
    """How far ahead partitions are made."""
    retention: Mapping[str, Duration] = field(default_factory=lambda: {"runs": 90 * DAY, "events": 30 * DAY})
    """How long each kind of history is kept."""


class Janitor:
    name = "janitor"
    topics: frozenset[Topic] = frozenset()

    def __init__(self, store: LeasedJanitorStore, fence: Fence, settings: JanitorSettings = JanitorSettings()) -> None:
        self._store = store
        self._fence = fence
        self._settings = settings
        self._next: Instant = 0

    def hear(self, topic: Topic) -> None:
        """Nothing to hear."""

    async def step(self, now: Instant) -> Outcome:
        """One round, if it is time and the lease is ours."""
        if now < self._next:
            return Outcome(next=self._next)
        token = await self._store.acquire(DUTY, self._fence, now, self._settings.term)
        if token is None:
            self._next = now + self._settings.again
            return Outcome(next=self._next)

        lease = Lease(duty=DUTY, token=token, asked_at=now, term=self._settings.term)
        made = await self._store.ensure_partitions(now, self._settings.ahead)
        dropped = []
        if lease.trusted(await self._store.now()):
            dropped = list(await self._store.drop_expired(now, self._settings.retention))

        self._next = now + self._settings.every
        notes = tuple(
            f"{verb} {len(names)} partitions, {names[0]} to {names[-1]}."
            for verb, names in (("Made", list(made)), ("Dropped", dropped))
            if names
        )
        return Outcome(did=len(made) + len(dropped), next=self._next, notes=notes)
