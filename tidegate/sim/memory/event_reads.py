"""What people read of events and of what triggers collected (`ports.collecting.EventReads`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tidegate.domain.ids import ScheduleId
from tidegate.domain.instants import Instant
from tidegate.ports.collecting import Collecting, EventRecord, SetAside, Subscriber
from tidegate.sim.memory.collect import read_collecting
from tidegate.sim.memory.data import Data
from tidegate.sim.memory.publish import payload_of, topics_reached
from tidegate.sim.memory.rows import Event


class EventReading:
    """No call waits or locks; each sees what is committed."""

    data: Data
    time: Callable[[], Instant]

    async def events(
        self, *, type: str | None, key: str | None, since: Instant | None, before: str | None, limit: int
    ) -> tuple[Sequence[EventRecord], str | None]:
        found = [
            record
            for record in (self._event(event) for event in self.data.events)
            if type in (None, record.type)
            and key in (None, record.key)
            and (since is None or record.at >= since)
            and (before is None or record.pos < int(before.rpartition(".")[2]))
        ]
        found.sort(key=lambda record: record.pos, reverse=True)
        return found[:limit], str(found[limit - 1].pos) if len(found) > limit else None

    def _event(self, event: Event) -> EventRecord:
        """Those of runs are about the program of the run."""
        data, key, payload = self.data, event.key, event.payload
        run = data.run.rows.get(event.run) if event.run is not None else None
        if run is not None and not key:
            about = data.schedule.rows[run.key.schedule_id].metadata
            key = f"{run.program.namespace}/{run.program.name}"
            payload = payload_of(run, about.namespace, about.name, event.type)
        return EventRecord(
            pos=event.pos,
            at=event.at,
            type=event.type,
            key=key,
            time=event.time,
            id=event.id,
            source=event.source,
            payload=payload or {},
        )

    async def subscribers(self, type: str, key: str, payload: Mapping[str, Any] | None) -> Sequence[Subscriber]:
        data = self.data
        if payload is None:
            by_key = data.topics_of.get(type, {})
            topics = [*by_key.get(key, ()), *by_key.get(None, ())]
        else:
            topics = topics_reached(data, type, key, payload)
        places = {place[:2] for topic in topics for place in data.subscribers.get(topic, ())}
        about = {schedule: data.schedule.rows[schedule].metadata for schedule, _ in places}
        return [
            Subscriber(namespace=about[schedule].namespace, schedule=about[schedule].name, node=node)
            for schedule, node in sorted(places)
        ]

    async def collected(self, schedules: Collection[ScheduleId], now: Instant) -> Sequence[Collecting]:
        data, found = self.data, []
        for schedule in sorted(set(schedules)):
            keys = sorted(data.subscriptions_of.get(schedule, ()))
            read = read_collecting(data, lambda table, key: table.rows.get(key), keys, schedule, now)
            if read is not None:
                found.append(read[0])
        return found

    async def partly(
        self, namespace: str | None, before: str | None, limit: int
    ) -> tuple[Sequence[ScheduleId], str | None]:
        data = self.data
        found = [
            ScheduleId(number)
            for number, row in sorted(data.progress.rows.items(), reverse=True)
            if (before is None or number < int(before))
            and namespace in (None, data.schedule.rows[number].metadata.namespace)
            and (row.progress.tallies or self._unread(number))
        ]
        return found[:limit], str(found[limit - 1]) if len(found) > limit else None

    def _unread(self, schedule: int) -> bool:
        data = self.data
        rows = [data.subscription.rows[key] for key in data.subscriptions_of.get(schedule, ())]
        return any(row.again or data.topic.rows[row.place[2]].n > row.seen for row in rows)

    async def set_asides(self, namespace: str | None, before: str | None, limit: int) -> Sequence[SetAside]:
        data, found = self.data, []
        for number, row in sorted(data.set_aside.rows.items(), reverse=True):
            about = data.schedule.rows[row.schedule_id].metadata
            if not row.replayed and (before is None or number < int(before)) and namespace in (None, about.namespace):
                found.append(
                    SetAside(
                        id=number,
                        schedule_id=row.schedule_id,
                        namespace=about.namespace,
                        schedule=about.name,
                        error=row.error,
                        at=row.at,
                        count=row.count,
                    )
                )
        return found[:limit]
