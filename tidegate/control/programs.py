"""Programs: what runs."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.control.common import Effect, Page
from tidegate.documents.declared import Program
from tidegate.ports.control import ControlStore, ProgramRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a write did, and the program afterwards."""

    effect: Effect
    record: ProgramRecord


async def put(
    store: ControlStore, declaration: Program, *, who: str, expected: int | None = None, dry_run: bool = False
) -> Written:
    """Create it or add a revision; it affects later launches only. Raises Conflict (another application's), Stale."""
    raise NotImplementedError


async def delete(
    store: ControlStore, namespace: str, name: str, *, who: str, expected: int | None = None
) -> tuple[str, ...]:
    """Delete it and every schedule that names it; the names of those schedules."""
    raise NotImplementedError


async def get(store: ControlStore, namespace: str, name: str) -> ProgramRecord:
    raise NotImplementedError


async def page(
    store: ControlStore, namespace: str | None, *, cursor: str | None = None, limit: int = 100
) -> Page[ProgramRecord]:
    raise NotImplementedError
