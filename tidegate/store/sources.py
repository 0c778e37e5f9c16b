"""Sources in PostgreSQL: where each partition is read on, moved with the events of what lies before. See
`ports.sources`."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.documents.sources import source_of
from tidegate.domain.instants import Instant
from tidegate.domain.schedules import JsonObject
from tidegate.domain.sources import SourceSpec
from tidegate.ports.sources import KEPT, Misfit, Place, SetAsideMessage, SourceRecord, Taken
from tidegate.store.arrays import Ints, Texts
from tidegate.store.codec import to_json
from tidegate.store.sql import load
from tidegate.store.transactions import FencedTx, Parts, Tx

Q = load("sources")


class IntakeTx(FencedTx):
    """`ports.sources.IntakeTx`, but for publishing."""

    async def took(self, taken: Taken, now: Instant) -> int | None:
        moved = await self.fetch(
            Q.took,
            source=taken.source,
            version=taken.version,
            token=taken.token,
            instance=self.fence.instance_id,
            received=taken.received,
            missed=taken.missed,
            error=taken.error,
            now=now,
        )
        if not moved:
            return None
        if taken.places:
            await self.session.send(
                Q.place,
                source=taken.source,
                topics=Texts(one.topic for one in taken.places),
                parts=Ints(one.partition for one in taken.places),
                generations=Texts(one.generation for one in taken.places),
                nexts=Ints(one.next for one in taken.places),
                tails=Ints(one.end for one in taken.places),
            )
        return int(moved[0][0])

    async def set_aside_messages(self, source: str, misfits: Sequence[Misfit], refused: int, now: Instant) -> None:
        await self.session.send(
            Q.misfit,
            source=source,
            topics=Texts(one.topic for one in misfits),
            parts=Ints(one.partition for one in misfits),
            offsets=Ints(one.offset for one in misfits),
            reasons=Texts(one.reason for one in misfits),
            now=now,
        )
        await self.session.send(Q.count_misfits, source=source, refused=refused)
        await self.session.send(Q.forget_misfits, source=source, kept=KEPT)


class SourcesTx(Tx):
    """A person's side: `ports.sources.SourceTx`."""

    async def put_source(self, name: str, spec: SourceSpec, document: JsonObject, now: Instant) -> bool:
        self.tell("declared")  # the intake looks at what it reads
        row = await self.session.row(Q.put, name=name, document=to_json(document), now=now)
        await self.session.send(Q.keep_topics, source=name, topics=Texts(spec.topics))
        return row is not None and bool(row[0])

    async def delete_source(self, name: str) -> bool:
        self.tell("declared")
        return await self.session.row(Q.delete, name=name) is not None


class SourceReading:
    """`ports.sources.SourceReads`, and what the intake reads."""

    parts: Parts

    async def sources(self) -> Sequence[SourceRecord]:
        return [
            SourceRecord(
                name=name,
                spec=source_of(document["spec"]),
                document=document,
                version=version,
                places=tuple(
                    Place(topic=topic, partition=part, generation=generation, next=next, end=tail)
                    for topic, part, generation, next, tail in places or ()
                ),
                received=received,
                set_aside=set_aside,
                missed=missed,
                error=error,
                error_since=error_since,
                moved_at=moved_at,
            )
            for name, document, version, received, set_aside, missed, error, error_since, moved_at, places
            in await self.parts.database.rows(Q.sources)
        ]  # fmt: skip

    async def set_aside_of(self, source: str, limit: int) -> Sequence[SetAsideMessage]:
        return [
            SetAsideMessage(topic=topic, partition=part, offset=offset, reason=reason, at=at)
            for topic, part, offset, reason, at
            in await self.parts.database.rows(Q.misfits, source=source, limit=limit)
        ]  # fmt: skip
