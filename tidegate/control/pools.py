"""Pools: capacity that programs share."""

from __future__ import annotations

from tidegate.control.common import Effect, Page
from tidegate.documents.declared import Pool
from tidegate.ports.control import ControlStore, PoolRecord


async def put(store: ControlStore, declaration: Pool, *, who: str, dry_run: bool = False) -> Effect:
    raise NotImplementedError


async def delete(store: ControlStore, name: str, *, who: str) -> None:
    """Raises NotFound; Conflict while something runs in it; Refused for `default` and `spark`."""
    raise NotImplementedError


async def get(store: ControlStore, name: str) -> PoolRecord:
    raise NotImplementedError


async def page(store: ControlStore, *, cursor: str | None = None, limit: int = 100) -> Page[PoolRecord]:
    raise NotImplementedError
