"""What backfills ask of a store: the part that walks them, people who ask for them, and who looks at them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from tidegate.domain.backfills import Asked, Backfill, BackfillState, Counts, Item, Move, Span, Standing
from tidegate.domain.ids import Fence, RunKey, ScheduleId
from tidegate.domain.instants import Duration, Instant
from tidegate.domain.runs import State
from tidegate.ports.engine import Clock

Standings = Mapping[tuple[ScheduleId, Instant], Standing]
"""What is on record of (schedule, fire time); where there is nothing, it is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRecord:
    """A backfill as people see it. `total`: fire times that were asked for; `paused_at`: since when it is paused, if it
    is; `paused_for`: how long it was before."""

    id: int
    schedule_id: ScheduleId
    namespace: str
    schedule: str
    rev: int  # whose trigger says the fire times
    asked: Asked
    state: BackfillState
    reason: str
    by: str
    total: int
    cursor: Instant
    counts: Counts
    created_at: Instant
    finished_at: Instant | None
    paused_at: Instant | None = None
    paused_for: Duration = 0

    def worked(self, now: Instant) -> Duration:
        """How long it has been under way until now, without the time that it was paused."""
        until = next((at for at in (self.finished_at, self.paused_at) if at is not None), now)
        return max(0, until - self.created_at - self.paused_for)


class BackfillTx(Protocol):
    async def claim_backfills(self, now: Instant, limit: int) -> Sequence[Backfill]:
        """Backfills whose turn it is, or of which a run has ended, claimed, with what they have in hand. Their
        schedules' clocks are locked, in ascending order: nobody else makes a run of them until the end."""

    async def standings(self, spans: Collection[tuple[ScheduleId, Span]]) -> Standings:
        """What is on record of these stretches of instants. Runs of backfills that never began do not count."""

    async def record_backfills(self, moves: Sequence[Move], now: Instant) -> None:
        """Runs (waiting, of low priority, without expiry), items, cursors, counts, events: all or none."""


class BackfillStore(Clock, Protocol):
    def transaction(self, fence: Fence) -> AbstractAsyncContextManager[BackfillTx]: ...
    async def backfills_live(self) -> bool:
        """Whether there is any that is not over."""


class BackfillControlTx(Protocol):
    async def add_backfill(
        self, schedule: ScheduleId, rev: int, asked: Asked, *, total: int, by: str, now: Instant
    ) -> int:
        """A running backfill; its number. The schedule is locked."""

    async def lock_backfill(self, number: int) -> BackfillRecord | None:
        """Lock it before anything else; None: there is none."""

    async def set_backfill(self, number: int, state: BackfillState, reason: str, now: Instant) -> None:
        """Its new state. It is locked. One that is cancelled is over when nothing of it lives."""

    async def backfill_items(self, number: int, limit: int) -> Sequence[Item]:
        """What it has in hand, by fire time."""

    async def end_runs(self, runs: Collection[RunKey], outcome: State, reason: str, now: Instant) -> int:
        """End those of one schedule's runs that wait or are ready; how many. Gives back what they held."""


class BackfillReads(Protocol):
    async def backfill(self, number: int) -> tuple[BackfillRecord, Sequence[Item]] | None:
        """One, with (the first hundred of) what it has in hand."""

    async def backfills(
        self,
        namespace: str | None,
        *,
        schedule: str | None,
        states: Collection[BackfillState],
        before: str | None,
        limit: int,
    ) -> Sequence[BackfillRecord]:
        """A page, newest first; `before`: the number of the last one seen."""

    async def standings_in(self, schedule: ScheduleId, spans: Collection[Span]) -> Mapping[Instant, Standing]:
        """What is on record of a schedule's instants in these stretches."""
