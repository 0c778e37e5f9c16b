"""Whether it lives, and whether it works.

`/healthz` says that this process answers. `/readyz` says that work gets done: the database answers, a scheduler and a
worker are alive (a heartbeat within the patience), and this API is here to tell. 503 names what is missing.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter

from tidegate.api.context import Doors, Here
from tidegate.api.problems import Problem
from tidegate.domain.errors import Fault, TidegateError

router = APIRouter(tags=["health"])
PATIENCE = 2.0  # seconds for the database to answer


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """This process answers."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(here: Here) -> dict[str, Any]:
    """Database, scheduler, worker and API work."""
    missing = await what_is_missing(here)
    if missing:
        detail = "Not ready: " + "; ".join(fault.reason for fault in missing) + "."
        raise Problem(503, detail, code="not_ready", faults=missing)
    return {"status": "ready", "checks": dict.fromkeys(("database", *here.roles, "api"), "ok")}


async def what_is_missing(here: Doors) -> list[Fault]:
    """Each part that does not work, and how that shows."""
    try:
        async with asyncio.timeout(PATIENCE):
            now = await here.store.now()
            instances = await here.store.instances()
    except TimeoutError:
        return [Fault("database", f"the database did not answer within {PATIENCE:g} s")]
    except TidegateError as error:
        return [Fault("database", error.message.rstrip("."))]
    alive = {one.role for one in instances if now - one.heartbeat <= here.patience}
    return [] if "all" in alive else [Fault(role, f"no {role} is alive") for role in here.roles if role not in alive]
