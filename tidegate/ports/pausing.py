"""Schedules that a run's end asked to pause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.domain.ids import ScheduleId


@dataclass(frozen=True, slots=True, kw_only=True)
class Pausing:
    """`reason`: why the run that asked for it failed."""

    schedule: ScheduleId
    namespace: str
    name: str
    reason: str


class PauserStore(Protocol):
    async def asked_to_pause(self) -> Sequence[Pausing]:
        """Schedules of which a run used up its attempts and that say `retry.then: pause`, until `settle_pause`."""


class PausingTx(Protocol):
    async def settle_pause(self, schedule: ScheduleId) -> None:
        """That it was to pause is seen to."""

    async def clear_streak(self, schedule: ScheduleId) -> None:
        """Failures in a row are counted anew. Its clock is locked."""
