"""The freeze, calendars and readings: as people change and read them, and as the prober writes them."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.domain.calendars import Calendar
from tidegate.domain.constraints import FREEZE, LOAD, AdmissionFacts, Gauge, Needs
from tidegate.domain.ids import Fence
from tidegate.domain.instants import Instant
from tidegate.domain.schedules import JsonObject
from tidegate.ports.records import Freeze
from tidegate.store.codec import encode, to_json
from tidegate.store.facts import decode_calendar, present_facts
from tidegate.store.instances import check_fence
from tidegate.store.queues import waited_for
from tidegate.store.sql import load
from tidegate.store.transactions import I, Parts, Tx

Q = load("gates")


class GatesTx(Tx):
    """A person's side. Calendars and the freeze come late in the order of locks (docs/explanation/locks.md): a
    transaction that changes one changes no schedule afterwards. Who waits is told at the end."""

    async def put_calendar(self, calendar: Calendar, document: JsonObject, now: Instant) -> bool:
        await self.session.send(Q.change)
        row = await self.session.row(
            Q.put_calendar, name=calendar.name, document=to_json(document), spec=encode(calendar)
        )
        self.instants.look(f"calendar:{calendar.name}", now)
        return bool(row and row[0])

    async def delete_calendar(self, name: str, now: Instant) -> bool:
        await self.session.send(Q.change)
        gone = await self.session.row(Q.delete_calendar, name=name) is not None
        if gone:
            self.instants.look(f"calendar:{name}", now)
        return gone

    async def freeze(self, who: str, reason: str, now: Instant) -> bool:
        await self.session.send(Q.change)
        return await self.session.row(Q.freeze, who=who, reason=reason, now=now) is not None

    async def unfreeze(self, now: Instant) -> bool:
        await self.session.send(Q.change)
        if await self.session.row(Q.unfreeze) is None:
            return False
        self.instants.look(FREEZE, now)
        return True


class GatesReading:
    """What people read of them; and `ports.probing.ProberStore`."""

    parts: Parts

    async def calendars(self) -> Sequence[tuple[Calendar, JsonObject]]:
        return [(decode_calendar(row[1]), row[2]) for row in await self.parts.database.rows(Q.calendars)]

    async def frozen(self) -> Freeze | None:
        row = await self.parts.database.row(Q.frozen)
        return Freeze(who=row[0], since=row[1], reason=row[2]) if row else None

    async def admission_facts(self, needs: Needs) -> AdmissionFacts:
        async with self.parts.database.session() as session:
            row = await session.row(I.now)
            assert row is not None
            return await present_facts(session, needs, row[0])

    async def awaited(self) -> Sequence[str]:
        async with self.parts.database.session() as session:
            queues = await waited_for(session, LOAD)
        return sorted({queue.removeprefix(LOAD).rpartition(":")[0] for queue in queues})

    async def record_gauge(self, fence: Fence, resource: str, gauge: Gauge, now: Instant) -> None:
        async with self.parts.database.transaction() as session:
            await check_fence(session, fence)
            tx = Tx(self.parts, session)
            await session.send(
                Q.put_gauge,
                resource=resource,
                value=gauge.value,
                at=gauge.at,
                error=gauge.error,
                stale_at=gauge.stale_at,
            )
            for queue in await waited_for(session, f"{LOAD}{resource}:"):
                tx.instants.look(queue, now)
            await tx.instants.write(tx)
