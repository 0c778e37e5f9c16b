"""Backfills under every fault, and mistakes that the laws find."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tidegate.domain.backfills import Move, Span
from tidegate.domain.ids import ScheduleId
from tidegate.domain.instants import MINUTE, SECOND, Instant
from tidegate.sim.memory import MemoryStore, MemoryTransaction
from tidegate.sim.run import Scenario, Verdict, simulate
from tidegate.sim.workload import Size

pytestmark = [pytest.mark.slow, pytest.mark.requirement("CATCH-6")]
BUSY = Scenario(
    span=10 * MINUTE, size=Size(schedules=6, programs=3, slots=6, every=15 * SECOND, backfills=0.4)
)  # fmt: skip


def test_no_instant_is_doubled_or_lost_whatever_goes_wrong() -> None:
    verdict = simulate(3, BUSY)
    assert verdict.violations == ()
    assert verdict.asked["backfill asked for"] >= 1


@pytest.mark.parametrize("seed", range(40, 46))
def test_the_same_of_more_seeds(seed: int) -> None:
    assert simulate(seed, BUSY).violations == ()


class Forgetful(MemoryTransaction):
    """Makes runs and does not move the cursor."""

    __slots__ = ()

    async def record_backfills(self, moves: Sequence[Move], now: Instant) -> None:
        before = {move.id: self.data.backfill.rows[move.id].cursor for move in moves}
        await super().record_backfills([replace(move, cursor=before[move.id]) for move in moves], now)


class Blind(MemoryTransaction):
    """Does not see what is on record of an instant."""

    __slots__ = ()

    async def standings(self, spans: Collection[tuple[ScheduleId, Span]]) -> Any:
        return {}


class Careless(MemoryTransaction):
    """Moves the cursor and loses the runs."""

    __slots__ = ()

    async def record_backfills(self, moves: Sequence[Move], now: Instant) -> None:
        await super().record_backfills([replace(move, make=()) for move in moves], now)


@pytest.mark.parametrize("mistake", [Forgetful, Blind, Careless])
def test_a_mistake_is_found(mistake: type[MemoryTransaction]) -> None:
    class Store(MemoryStore):
        def transaction(self, fence: Any) -> MemoryTransaction:
            return mistake(self.data, fence)

    def broken(seed: int) -> Verdict:
        return simulate(seed, replace(BUSY, store=Store))

    assert any(broken(seed).violations for seed in range(1, 9))
