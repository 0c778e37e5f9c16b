"""The store and the logs for the doors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tidegate.domain.ids import AttemptKey
from tidegate.launchers.logs import FileLogs
from tidegate.ports.control import ControlStore
from tidegate.ports.launching import Logs
from tidegate.settings import Settings
from tidegate.store.store import PostgresStore
from tidegate.wiring.members import for_good, loop_of, member, membership


@asynccontextmanager
async def open_doors(settings: Settings, stop: asyncio.Event) -> AsyncIterator[tuple[ControlStore, Logs]]:
    """The store and the logs for the doors, and this API registered among the instances. Works while the database is
    away: it registers when it can, and again when it was declared dead. Where that is refused for good (the schema is
    a newer version's) `stop` is set, and the refusal is raised when the doors are closed."""
    store = PostgresStore(settings.database.url, name="tidegate-api", size=settings.database.connections)
    presence = asyncio.create_task(for_good(lambda: _be_present(settings), asyncio.Event(), settings.database.url))
    presence.add_done_callback(lambda _: stop.set())

    async def ended(attempt: AttemptKey) -> bool:
        record = await store.run(attempt.run)
        return record is None or any(one.key == attempt and one.finished_at is not None for one in record.attempts)

    try:
        yield store, FileLogs(settings.home, ended)
    finally:
        presence.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await presence
        finally:
            await store.close()


async def _be_present(settings: Settings) -> None:
    """Among the instances, until cancelled."""
    async with member("api", settings) as one:
        await loop_of(one, [membership(one, settings)], settings).run()
