"""What all roles do: register as an instance, beat, leave cleanly, begin anew when declared dead."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tidegate.domain.errors import Fenced, TidegateError, Unavailable
from tidegate.domain.ids import Fence
from tidegate.domain.instants import SECOND, Duration
from tidegate.engine.loop import Loop, LoopSettings
from tidegate.engine.membership import Membership, MembershipSettings
from tidegate.engine.meters import Meters
from tidegate.engine.outcome import Part
from tidegate.engine.reporter import Reporter
from tidegate.settings import Settings
from tidegate.store import home as homes
from tidegate.store import migrate
from tidegate.store.connection import knock
from tidegate.store.store import PostgresStore

log = logging.getLogger(__name__)

AGAIN, LONGEST = SECOND // 2, 4 * SECOND
"""Between two tries to reach a database that is away: the first time, and the longest."""


def place(home: Path) -> str:
    """The name of this machine and home: only its workers can reach its local attempts."""
    return f"{platform.node()}:{home}"


@dataclass(frozen=True, slots=True)
class Member:
    """A role that is registered."""

    store: PostgresStore
    fence: Fence
    host: str


@asynccontextmanager
async def member(role: str, settings: Settings) -> AsyncIterator[Member]:
    """Registered while inside. Leaving cleanly hands over at once."""
    store = PostgresStore(settings.database.url, name=f"tidegate-{role}", size=settings.database.connections)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        await asyncio.to_thread(migrate.check, settings.database.url)
        host = place(homes.prepare(settings.home))
        now = await store.now()
        if role == "scheduler":  # before anybody can take it for ready
            await store.ensure_partitions(now, settings.scheduler.partitions_ahead)
        name = f"{role}-{socket.gethostname()}-{os.getpid()}"
        fence = await store.register(role=role, name=name, host=host, pid=os.getpid(), now=now)
        log.info("registered as instance %d", fence.instance_id)
        try:
            yield Member(store, fence, host)
        finally:
            with suppress(TidegateError):  # without the database, or fenced, there is nothing to hand over
                await store.leave(fence, await store.now())


def membership(one: Member, settings: Settings) -> Membership:
    scheduler = settings.scheduler
    return Membership(
        one.store, one.fence, MembershipSettings(heartbeat=scheduler.heartbeat, patience=scheduler.patience)
    )


def loop_of(one: Member, parts: Sequence[Part], settings: Settings) -> Loop:
    meters = Meters()
    parts = [*parts, Reporter(one.store, one.fence, meters)]
    ends = partial(one.store.await_ends, one.fence)
    chosen = LoopSettings(poll=settings.scheduler.poll)
    return Loop(one.store, parts, wakes=one.store, ends=ends, meters=meters, settings=chosen)


async def for_good(life: Callable[[], Awaitable[None]], stop: asyncio.Event, url: str) -> None:
    """One life after another until `stop`, as often as the database goes away or the others declare this one dead.
    While there is no database nothing is begun: that is said, ever more rarely, and `stop` ends it at once."""
    while await answers(url, stop):
        try:
            await life()
            return
        except Fenced as fault:
            log.warning("declared dead by the others while away; registering anew. %s", fault)
        except Unavailable as error:
            log.warning("not registered: %s", error)
            await _rest(stop, AGAIN)


async def answers(url: str, stop: asyncio.Event) -> bool:
    """Wait until the database takes a connection; False: `stop` came first."""
    failures = 0
    while not stop.is_set():
        fault = await _knock(url, stop)
        if fault is None:
            if failures and not stop.is_set():
                log.info("the database answers")
            return not stop.is_set()
        failures += 1
        if not failures & (failures - 1):
            why = " ".join(str(fault).split()).rstrip(".")
            log.warning("waiting for the database: %s. Is it up, and TIDEGATE_DATABASE_URL right?", why)
        await _rest(stop, min(LONGEST, AGAIN << min(failures - 1, 8)))
    return False


async def _knock(url: str, stop: asyncio.Event) -> Unavailable | None:
    """Why the database cannot be reached; None: it can, or `stop` came first."""
    trying, stopped = asyncio.create_task(knock(url)), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({trying, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if trying.done():
            trying.result()
        return None
    except Unavailable as fault:
        return fault
    finally:
        for one in (trying, stopped):
            one.cancel()
        await asyncio.gather(trying, stopped, return_exceptions=True)


async def _rest(stop: asyncio.Event, span: Duration) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), span / SECOND)
