"""What every route is given: the store behind the doors, the logs, who asks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

from fastapi import Depends, Header, Request
from prometheus_client import CollectorRegistry

from tidegate.domain.instants import SECOND, Duration
from tidegate.domain.maintenance.throttle import DEFAULT_RULING, Ruling
from tidegate.ports.control import ControlStore
from tidegate.ports.launching import Logs


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """What `create_app` needs."""

    store: ControlStore
    logs: Logs
    body_limit: int = 4_000_000  # bytes
    update_schedules: bool = True  # whether deployments also write schedules, unless they say
    patience: Duration = 5 * SECOND  # silence after which a process counts as gone
    kept: Duration | None = None  # how long runs are kept: nothing older can be audited
    catalog: str = "lake"  # of tables that are named without one
    ruling: Ruling = DEFAULT_RULING  # what settings say of all maintenance
    loopback_only: bool = True
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)  # what this process counts itself
    roles: tuple[str, ...] = field(default=("scheduler", "worker"))  # what must be alive to be ready


STORE = "tidegate.store"
"""Where a request's scope keeps the store that is only for it."""


def doors(request: Request) -> Doors:
    found: Doors = request.app.state.doors
    own = request.scope.get(STORE)
    return found if own is None else replace(found, store=own)


def store(request: Request) -> ControlStore:
    return doors(request).store


def who(tidegate_user: Annotated[str, Header(description="who asks, for the audit log", max_length=100)] = "") -> str:
    """Nobody is authenticated yet: the audit log keeps what a client says of itself."""
    return tidegate_user.replace("\0", "") or "anonymous"


Here = Annotated[Doors, Depends(doors)]
Store = Annotated[ControlStore, Depends(store)]
Who = Annotated[str, Depends(who)]
