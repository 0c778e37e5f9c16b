"""Schedules: declared, changed, enabled, disabled, deleted."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.control.common import Effect, OnUpdate, Page
from tidegate.documents.declared import Schedule
from tidegate.domain.schedules import Mode
from tidegate.ports.control import ControlStore, ScheduleRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a write did, and the schedule afterwards."""

    effect: Effect
    record: ScheduleRecord


async def put(
    store: ControlStore,
    declaration: Schedule,
    *,
    who: str,
    on_update: OnUpdate = OnUpdate.RESET,
    expected: int | None = None,
    dry_run: bool = False,
) -> Written:
    """Create it or bring it to what is declared. `expected`: the revision of If-Match (0: it must not exist yet, as for
    POST). Raises Invalid (program unknown), Conflict (another application's), Stale."""
    raise NotImplementedError


async def delete(store: ControlStore, namespace: str, name: str, *, who: str, expected: int | None = None) -> None:
    """Nothing of it starts any more; attempts that run end by themselves. Raises NotFound, Stale."""
    raise NotImplementedError


async def enable(
    store: ControlStore, namespace: str, name: str, *, who: str, expected: int | None = None
) -> ScheduleRecord:
    """Reacts to what comes from now on. Enabling what is enabled changes nothing."""
    raise NotImplementedError


async def disable(
    store: ControlStore,
    namespace: str,
    name: str,
    *,
    who: str,
    mode: Mode = Mode.DROP,
    reason: str = "",
    expected: int | None = None,
) -> ScheduleRecord:
    """Drops waiting runs and undecided fires. Raises Refused for other modes than drop."""
    raise NotImplementedError


async def get(store: ControlStore, namespace: str, name: str) -> ScheduleRecord:
    """Raises NotFound, with the nearest name."""
    raise NotImplementedError


async def page(
    store: ControlStore, namespace: str | None, *, cursor: str | None = None, limit: int = 100
) -> Page[ScheduleRecord]:
    raise NotImplementedError
