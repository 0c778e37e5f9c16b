"""What the part that watches over deadlines asks of a store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from tidegate.domain.deadlines import Telling, Watched
from tidegate.domain.ids import Fence
from tidegate.domain.instants import Instant
from tidegate.ports.collecting import PublishTx
from tidegate.ports.engine import Clock


class DeadlinesTx(PublishTx, Protocol):
    async def claim_terms(self, now: Instant, limit: int) -> Sequence[Watched]:
        """Live runs that are to be looked at by now, claimed, earliest first, with the deadline that their schedule's
        newest revision declares. Runs whose schedule no longer declares one are forgotten on the way."""

    async def tell_terms(self, tellings: Sequence[Telling], now: Instant) -> None:
        """Keep what was told, and when to look again."""


class DeadlinesStore(Clock, Protocol):
    def transaction(self, fence: Fence) -> AbstractAsyncContextManager[DeadlinesTx]: ...
    async def next_term(self) -> Instant | None:
        """When the next live run is to be looked at; None: none is."""
