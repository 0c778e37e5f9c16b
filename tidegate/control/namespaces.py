"""Namespaces: tenancies of names. The first write to one makes it."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.control.common import Effect, Page
from tidegate.documents.declared import Namespace
from tidegate.domain.schedules import JsonObject
from tidegate.ports.control import ControlStore


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceRecord:
    name: str
    document: JsonObject  # labels, owner, description


async def put(store: ControlStore, declaration: Namespace, *, who: str, dry_run: bool = False) -> Effect:
    raise NotImplementedError


async def delete(store: ControlStore, name: str, *, who: str) -> None:
    """Raises NotFound; Conflict while something lives in it."""
    raise NotImplementedError


async def get(store: ControlStore, name: str) -> NamespaceRecord:
    raise NotImplementedError


async def page(store: ControlStore, *, cursor: str | None = None, limit: int = 100) -> Page[NamespaceRecord]:
    raise NotImplementedError
