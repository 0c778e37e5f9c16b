"""Preview: the next fires of a schedule, or of a trigger that is not declared, from any instant. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.domain.instants import Instant
from tidegate.domain.triggers import Trigger
from tidegate.ports.control import ControlStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Previewed:
    """One fire. `local_time` in the trigger's zone with its offset; `note` says what is special about it."""

    fire_time: Instant
    due: Instant
    local_time: str
    note: str


async def of_schedule(
    store: ControlStore, namespace: str, name: str, *, after: Instant | None = None, count: int = 10
) -> tuple[Previewed, ...]:
    """The next fires after an instant (None: now), as if it were enabled."""
    raise NotImplementedError


async def of_trigger(
    store: ControlStore, trigger: Trigger, *, after: Instant | None = None, count: int = 10
) -> tuple[Previewed, ...]:
    raise NotImplementedError
