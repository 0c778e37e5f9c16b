"""Readings of resources that `load` constraints ask for: what the prober asks of a store and of a probe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidegate.domain.constraints import Gauge
from tidegate.domain.ids import Fence
from tidegate.domain.instants import Instant
from tidegate.ports.engine import Membership


class ProberStore(Membership, Protocol):
    async def awaited(self) -> Sequence[str]:
        """Resources (probes and `pool:NAME`) for which somebody waits, in a queue `load:RESOURCE:LIMIT`."""

    async def record_gauge(self, fence: Fence, resource: str, gauge: Gauge, now: Instant) -> None:
        """Replace the last reading. In each of its queues (one for each limit) the first are judged again."""


class Probe(Protocol):
    """Where a resource is read."""

    async def read(self) -> float:
        """A number. Raises Unavailable, with why, when there is none now."""
