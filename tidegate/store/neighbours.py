"""Seeing the end of another process the moment its sessions close, by waiting for the lock that says that it lives.

Each instance waits for the lock of the next living one, in a ring, on a connection of its own: one that waits on the
connection by which it is itself waited for would close a circle. Who got the lock gives it back at once and looks; what
a look means is for `engine.membership`.

The wait is given up twice a second, for three reasons. A newcomer may have stepped in between. A statement that waits
keeps a snapshot, and an old snapshot keeps the dead entries of every queue. And a wait shorter than a second is seen
neither by the search for deadlocks nor in the server's log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import psycopg

from tidegate.domain.ids import Fence
from tidegate.store.connection import Session, bounded, translate
from tidegate.store.transactions import SPACE, I, Parts

_PATIENCE = b"SET lock_timeout = '500ms'"
_WAIT = "DO $$ BEGIN PERFORM pg_advisory_xact_lock_shared(%d, %d); EXCEPTION WHEN lock_not_available THEN END $$"
"""A wait that is over is no error: one would be written to the server's log each time."""
_ALONE = 0.5
_PAUSE, _PAUSE_MOST = 0.02, 1.0
"""Seconds until the same instance is looked at again whose lock was free: it takes a moment to declare it dead, and
just after the server started all locks are free until everybody has taken his again."""


class NeighbourCalls:
    """See `ports.engine.Neighbours`."""

    parts: Parts

    async def await_ends(
        self, fence: Fence, ended: Callable[[], None], begun: Callable[[], None] = lambda: None
    ) -> None:
        connection = await self.parts.database.connect("watch")
        try:
            with bounded(connection):
                await connection.execute(_PATIENCE)
            begun()
            await _watch(Session(connection), fence, ended)
        except psycopg.Error as error:
            raise translate(error) from error
        finally:
            with suppress(psycopg.Error, OSError):
                await connection.close()


async def _watch(session: Session, fence: Fence, ended: Callable[[], None]) -> None:
    gone, pause = 0, _PAUSE
    while True:
        row = await session.row(I.neighbour, id=fence.instance_id)
        if row is None:
            await asyncio.sleep(_ALONE)
            continue
        number = int(row[0])
        with bounded(session.connection):
            await session.connection.execute((_WAIT % (SPACE, number)).encode())
        if await session.row(I.unheld, space=SPACE, id=number) != (True,):
            continue
        pause = min(_PAUSE_MOST, pause * 2) if number == gone else _PAUSE
        gone = number
        ended()
        await asyncio.sleep(pause)
