"""Applications: programs and schedules that are deployed together."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.control.common import OnUpdate, Page
from tidegate.documents.declared import Application
from tidegate.domain.schedules import JsonObject
from tidegate.ports.control import ControlStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Names, by what happened to them."""

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """What a deployment did (or, of a dry run, would do)."""

    schedules: Counts
    programs: Counts
    disabled: tuple[str, ...] = ()  # created schedules that are disabled: how to enable them is worth a hint


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationRecord:
    namespace: str
    name: str
    document: JsonObject  # {metadata, programs: [names], schedules: [names]}


async def deploy(
    store: ControlStore,
    application: Application,
    *,
    who: str,
    update_schedules: bool = True,
    on_update: OnUpdate = OnUpdate.RESET,
    dry_run: bool = False,
) -> Deployed:
    """Bring programs (and schedules) of an application to what is declared, in one transaction. Raises Invalid,
    Conflict."""
    raise NotImplementedError


async def delete(store: ControlStore, namespace: str, name: str, *, who: str) -> Deployed:
    """Delete it with its programs and schedules."""
    raise NotImplementedError


async def get(store: ControlStore, namespace: str, name: str) -> ApplicationRecord:
    raise NotImplementedError


async def page(
    store: ControlStore, namespace: str | None, *, cursor: str | None = None, limit: int = 100
) -> Page[ApplicationRecord]:
    raise NotImplementedError
