"""What people ask of the event log and of what triggers have collected; nothing is locked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tidegate.domain.ids import ScheduleId
from tidegate.domain.instants import Instant
from tidegate.ports.collecting import Collecting, EventRecord, SetAside, Subscriber
from tidegate.store.codec import to_json
from tidegate.store.events import logged
from tidegate.store.reading import read_trees
from tidegate.store.sql import load
from tidegate.store.transactions import Parts

Q = load("events")
C = load("collecting")
_END = 1 << 62


class EventReading:
    """See `ports.collecting.EventReads` and `MatcherStore`."""

    parts: Parts

    async def inbox_waits(self) -> bool:
        return await self.parts.database.row(C.inbox_waits) is not None

    async def next_deadline(self) -> Instant | None:
        row = await self.parts.database.row(C.next_deadline)
        return row[0] if row else None

    async def events(
        self, *, type: str | None, key: str | None, since: Instant | None, before: str | None, limit: int
    ) -> tuple[Sequence[EventRecord], str | None]:
        day, pos = _position(before)
        asked: dict[str, Any] = {"day": day, "pos": pos, "since": since, "type": type, "limit": limit + 1}
        async with self.parts.database.session() as session:
            if key is None:
                rows = await session.rows(Q.page, **asked)
            else:
                rows = await session.rows(Q.page_of_key, key=key, **asked)
            found = await logged(session, {(row[0], row[1]) for row in rows[:limit]})
        records = [found[row[0], row[1]].record for row in rows[:limit] if (row[0], row[1]) in found]
        last = rows[limit - 1] if len(rows) > limit else None
        return records, None if last is None else f"{last[0]}.{last[1]}"

    async def subscribers(self, type: str, key: str, payload: Mapping[str, Any] | None) -> Sequence[Subscriber]:
        rows = await self.parts.database.rows(Q.subscribers, type=type, key=key, payload=to_json(payload))
        return [Subscriber(namespace=row[0], schedule=row[1], node=row[2]) for row in rows]

    async def collected(self, schedules: Collection[ScheduleId], now: Instant) -> Sequence[Collecting]:
        async with self.parts.database.session() as session:
            trees = await read_trees(session, self.parts.definitions, schedules, now, locking=False)
        return [tree.collecting for tree in trees]

    async def partly(
        self, namespace: str | None, before: str | None, limit: int
    ) -> tuple[Sequence[ScheduleId], str | None]:
        after = int(before) if before is not None and before.isdecimal() else 0
        rows = await self.parts.database.rows(Q.partly, namespace=namespace, after=after, limit=limit + 1)
        found = [ScheduleId(row[0]) for row in rows[:limit]]
        return found, str(found[-1]) if len(rows) > limit else None

    async def set_asides(self, namespace: str | None, before: str | None, limit: int) -> Sequence[SetAside]:
        start = int(before) if before is not None and before.isdecimal() else _END
        rows = await self.parts.database.rows(Q.set_asides, namespace=namespace, before=start, limit=limit)
        return [
            SetAside(
                id=row[0],
                schedule_id=ScheduleId(row[1]),
                namespace=row[2],
                schedule=row[3],
                error=row[4],
                at=row[5],
                count=row[6],
            )
            for row in rows
        ]


def _position(before: str | None) -> tuple[int, int]:
    day, _, pos = (before or "").partition(".")
    return (int(day), int(pos)) if day.isdecimal() and pos.isdecimal() else (1 << 30, _END)
