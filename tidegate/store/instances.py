"""Who is here: registration, heartbeats, takeovers, leases.

An instance also holds a session advisory lock on a connection of its own: when its process dies the server knows within
milliseconds, and so does whoever waits for it (`store.neighbours`). Behind a pooler in transaction mode that lock, the
settings of our sessions and what they listen to would be somebody else's at once, so nobody can register there. The
lock says nothing while the server itself has just started or another took its place, since all sessions were lost with
it: who has lost its own for a while goes by the others' heartbeats alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

import psycopg

from tidegate.domain.errors import Fenced, Refused, TidegateError
from tidegate.domain.ids import Fence
from tidegate.domain.instants import SECOND, Duration, Instant
from tidegate.domain.schedules import JsonObject
from tidegate.ports.engine import Instance
from tidegate.store.codec import to_json
from tidegate.store.connection import Connection, Row, Session, bounded, translate
from tidegate.store.transactions import SPACE, I, Parts


def as_instance(row: Row) -> Instance:
    """Of instances.alive."""
    return Instance(
        id=row[0],
        role=row[1],
        name=row[2],
        host=row[3],
        pid=row[4],
        epoch=row[5],
        up_since=row[6],
        heartbeat=row[7],
    )


LONGEST_SLEEP: Duration = 2 * SECOND
"""How long a process may hold locks without saying anything. Between two questions the server sees to that by itself
(`idle_in_transaction_session_timeout`). One that stopped between two statements of a pipeline is at work as far as the
server can see: the others end its session."""


class MembershipCalls:
    """See `ports.engine.Membership`."""

    parts: Parts
    _presence: dict[int, Connection]
    _lost_at: Instant | None
    """When a session that held a lock of ours was last found to be gone."""

    async def register(self, *, role: str, name: str, host: str, pid: int, now: Instant) -> Fence:
        row = await self.parts.database.row(I.next_id)
        assert row is not None
        number = int(row[0])
        self._presence[number] = await self._hold(number)
        row = await self.parts.database.row(
            I.register,
            id=number,
            role=role,
            name=name,
            host=host,
            pid=pid,
            version=_version(),
            now=now,
        )
        assert row is not None
        self.parts.hosts[number] = host
        return Fence(number, row[0])

    async def _hold(self, number: int) -> Connection:
        """A session that holds the lock of this instance as long as the process lives."""
        connection = await self.parts.database.connect(f"instance {number}")
        try:
            await self._refuse_pooler(connection)
            await Session(connection).send(I.hold, space=SPACE, id=number)
        except psycopg.Error as error:
            await connection.close()
            raise translate(error) from error
        except TidegateError:
            await connection.close()
            raise
        return connection

    async def _refuse_pooler(self, mine: Connection) -> None:
        """Raises Refused where another connection is answered by the very session of this one, which is open."""
        if await Session(mine).row(I.backend) == await self.parts.database.row(I.backend):
            raise Refused(
                "Between us and the database is a pooler in transaction mode: it gives our sessions to others.",
                remedy="Let TIDEGATE_DATABASE_URL name the server itself, or a pooler in session mode.",
                code="pooler",
            )

    async def beat(self, fence: Fence, now: Instant) -> None:
        if await self.parts.database.row(I.beat, id=fence.instance_id, epoch=fence.epoch, now=now) is None:
            await self._let_go(fence.instance_id)
            raise Fenced(f"Instance {fence.instance_id} was declared dead while it was away; it must register again.")
        held = self._presence.get(fence.instance_id)
        if held is not None and not await _answers(held):
            self._lost_at = now
            await self._let_go(fence.instance_id)
            self._presence[fence.instance_id] = await self._hold(fence.instance_id)

    async def alive(self) -> Sequence[Instance]:
        return [as_instance(row) for row in await self.parts.database.rows(I.alive)]

    async def report(self, fence: Fence, meters: JsonObject, now: Instant) -> None:
        await self.parts.database.execute(I.report, id=fence.instance_id, meters=to_json(meters), now=now)

    async def reports(self) -> Sequence[tuple[Instance, Instant, JsonObject]]:
        return [(as_instance(row[:8]), row[8], row[9]) for row in await self.parts.database.rows(I.reports)]

    async def silent(self, now: Instant, patience: Duration) -> Sequence[Instance]:
        await self.parts.database.execute(I.free_sleepers, now=now, longest=LONGEST_SLEEP)
        heard = self._lost_at is None or self._lost_at < now - patience
        rows = await self.parts.database.rows(I.silent, now=now, patience=patience, space=SPACE, heard=heard)
        return [as_instance(row) for row in rows]

    async def retire(self, instance: Instance, now: Instant) -> bool:
        row = await self.parts.database.row(I.retire, id=instance.id, epoch=instance.epoch, now=now)
        if row is not None:  # what it left may lie below our marks
            self.parts.due.lower()
            self.parts.wake.lower()
        return row is not None

    async def leave(self, fence: Fence, now: Instant) -> None:
        try:
            await self.parts.database.row(I.retire, id=fence.instance_id, epoch=fence.epoch, now=now)
        finally:
            await self._let_go(fence.instance_id)

    async def _let_go(self, number: int) -> None:
        held = self._presence.pop(number, None)
        if held is not None:
            with suppress(psycopg.Error, OSError):
                await held.close()

    async def acquire(self, duty: str, fence: Fence, now: Instant, term: Duration) -> int | None:
        mine = {"duty": duty, "id": fence.instance_id, "epoch": fence.epoch, "now": now, "term": term}
        async with self.parts.database.transaction() as session:
            await check_fence(session, fence)
            row = await session.row(I.renew_lease, **mine)
            if row is None:
                row = await session.row(I.take_lease, **mine)
            return row[0] if row else None

    async def release(self, duty: str, fence: Fence, token: int) -> None:
        await self.parts.database.execute(I.release_lease, duty=duty, id=fence.instance_id, token=token)


async def check_fence(session: Session, fence: Fence) -> None:
    """Raises Fenced when this instance was declared dead, or has left."""
    if await session.row(I.fence, id=fence.instance_id, epoch=fence.epoch) is None:
        raise Fenced(f"Instance {fence.instance_id} was declared dead; its writes are refused.")


async def _answers(connection: Connection) -> bool:
    try:
        with bounded(connection):
            await connection.execute("SELECT 1")
    except (psycopg.Error, OSError, TidegateError):
        return False
    return True


def _version() -> str:
    try:
        return version("tidegate")
    except PackageNotFoundError:
        return "unknown"
