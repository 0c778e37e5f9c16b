"""Tables that are looked after, in PostgreSQL. See `ports.tables`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.maintenance.budget import Spend
from tidegate.domain.maintenance.wire import figures
from tidegate.domain.runs import State
from tidegate.domain.schedules import JsonObject
from tidegate.lake.needed import NEEDED
from tidegate.ports.tables import (
    CareChange,
    CareOrder,
    CarePlace,
    CareRecord,
    Measured,
    OpenCare,
    PolicyRecord,
    Seen,
    Settlement,
    Switch,
    TableRecord,
)
from tidegate.store.arrays import Floats, Texts
from tidegate.store.codec import to_json
from tidegate.store.connection import Row
from tidegate.store.sql import Query, load
from tidegate.store.transactions import Parts, Tx

Q = load("tables")
_NEEDED = Query(
    "tables.snapshots_needed", "what somebody reads from", f"/* tables.snapshots_needed */ {NEEDED}".encode()
)
_TOP = (1 << 63) - 1


class TablesReading:
    """`ports.tables.TablesReads`."""

    parts: Parts

    async def _rows(self, query: Query, /, **parameters: Any) -> list[Row]:
        return await self.parts.database.rows(query, **parameters)

    async def breathe(self) -> None:
        await asyncio.sleep(0)

    async def maintenance(self) -> Switch:
        return _switch(next(iter(await self._rows(Q.off)), None))

    async def policies(self) -> Sequence[PolicyRecord]:
        fields = ("name", "rev", "document", "author", "updated_at")
        rows = await self._rows(Q.policies)
        return [PolicyRecord(**dict(zip(fields, row, strict=True))) for row in rows]

    async def policy_revisions(self, name: str) -> Sequence[tuple[int, JsonObject | None, str, Instant]]:
        rows = await self._rows(Q.policy_revisions, name=name)
        return [(row[0], row[1], row[2], row[3]) for row in rows]

    async def tables(self, names: Collection[str] | None = None, *, since: int = 0) -> Sequence[TableRecord]:
        wanted = None if names is None else Texts(sorted(names))
        return [_table(row) for row in await self._rows(Q.tables, names=wanted, since=since)]

    async def table_names(self) -> Sequence[str]:
        return [row[0] for row in await self._rows(Q.table_names)]

    async def changed_tables(self, since: int, limit: int) -> Sequence[TableRecord]:
        return [_table(row) for row in await self._rows(Q.changed_tables, since=since, limit=limit)]

    async def versions(self, tables: Collection[str]) -> Mapping[str, int]:
        return dict(await self._rows(Q.versions, names=Texts(sorted(tables))))

    async def table_history(
        self, table: str, before: Instant | None, limit: int
    ) -> Sequence[tuple[Instant, JsonObject, float | None]]:
        given = {"name": table, "before": _TOP if before is None else before, "limit": limit}
        rows = await self._rows(Q.table_history, **given)
        return [(row[0], row[1], row[2]) for row in rows]

    async def care(self, tables: Collection[str] | None = None) -> Mapping[str, Mapping[str, JsonObject]]:
        wanted = None if tables is None else Texts(sorted(tables))
        found: dict[str, dict[str, JsonObject]] = {}
        for table, operation, history in await self._rows(Q.care, names=wanted):
            found.setdefault(table, {})[operation] = history
        return found

    async def changed_care(self, since: CarePlace, limit: int) -> Sequence[CareChange]:
        given = {"version": since.version, "name": since.table, "operation": since.operation, "limit": limit}
        rows = await self._rows(Q.changed_care, **given)
        return [CareChange(CarePlace(*row[:3]), row[3]) for row in rows]

    async def snapshots_needed(self, tables: Collection[str]) -> Mapping[str, Sequence[int]]:
        found: dict[str, list[int]] = {}
        for table, snapshot in await self._rows(_NEEDED, names=Texts(sorted(tables))):
            found.setdefault(table, []).append(snapshot)
        return found

    async def open_care(self) -> Sequence[OpenCare]:
        return [
            OpenCare(
                order=_order(row),
                at=row[9],
                state=State(row[10]),
                reason=row[11],
                started_at=row[12],
                finished_at=row[13],
                note=row[14],
            )
            for row in await self._rows(Q.open_care)
        ]

    async def spent(self, since: Instant, policies: Collection[str]) -> Mapping[str, Sequence[Spend]]:
        found: dict[str, list[Spend]] = {}
        rows = await self._rows(Q.spent, since=since, policies=Texts(sorted(policies)))
        for policy, at, table, size, is_open in rows:
            found.setdefault(policy, []).append(Spend(at=at, table=table, bytes=size, open=is_open))
        return found

    async def care_of(self, table: str, before: tuple[Instant, RunKey] | None, limit: int) -> Sequence[CareRecord]:
        at, run = (_TOP, RunKey(0, ScheduleId(0), 0)) if before is None else before
        given = {"name": table, "at": at, "slot": run.slot, "schedule": run.schedule_id, "ord": run.ord, "limit": limit}
        return [_record(row) for row in await self._rows(Q.care_of, **given)]


class TablesTx(Tx, TablesReading):
    """`ports.tables.TablesTx`. It reads on its own session: who holds a connection never waits for a second one."""

    async def _rows(self, query: Query, /, **parameters: Any) -> list[Row]:
        return await self.session.rows(query, **parameters)

    async def lock_maintenance(self) -> Switch:
        await self.session.send(Q.lock)
        return _switch(await self.session.row(Q.off))

    async def set_automatic(self, on: bool, who: str, reason: str, now: Instant) -> bool:
        self.tell("declared")
        if on:
            return await self.session.row(Q.switch_on) is not None
        return await self.session.row(Q.switch_off, who=who, reason=reason, now=now) is not None

    async def put_policy(self, name: str, document: JsonObject, author: str, now: Instant) -> PolicyRecord:
        row = await self.session.row(Q.put_policy, name=name, document=to_json(document), author=author, now=now)
        assert row is not None
        await self._add_policy_revision(name, row[0], document, author, now)
        return PolicyRecord(name=name, rev=row[0], document=document, author=author, updated_at=now)

    async def delete_policy(self, name: str, author: str, now: Instant) -> bool:
        row = await self.session.row(Q.bury_policy, name=name, author=author, now=now)
        if row is not None:
            await self._add_policy_revision(name, row[0], None, author, now)
        return row is not None

    async def _add_policy_revision(
        self, name: str, rev: int, document: JsonObject | None, author: str, now: Instant
    ) -> None:
        given = {"name": name, "rev": rev, "document": to_json(document), "author": author, "now": now}
        await self.session.send(Q.add_policy_revision, **given)
        self.tell("declared")  # the assessor looks at once

    async def see_tables(self, seen: Sequence[Seen], now: Instant) -> None:
        names = Texts(one.table for one in seen)
        await self._lock_tables(names)
        await self.session.send(Q.see_tables, names=names, locations=Texts(one.location for one in seen), now=now)

    async def record_health(self, measured: Sequence[Measured], now: Instant) -> None:
        names = Texts(one.table for one in measured)
        given = {
            "names": names,
            "healths": Texts(to_json(one.health) for one in measured),
            "scores": Floats(one.score for one in measured),
        }
        await self._lock_tables(names)
        locations, errors = Texts(one.location for one in measured), Texts(one.error for one in measured)
        await self.session.send(Q.measure, **given, locations=locations, errors=errors, now=now)
        kept = Texts(to_json(figures(one.health)) if one.health is not None else None for one in measured)
        await self.session.send(Q.keep_health, **{**given, "healths": kept}, now=now)

    async def reserve(self, orders: Sequence[CareOrder], now: Instant) -> None:
        for one in orders:
            await self.session.send(
                Q.reserve,
                slot=one.run.slot,
                schedule=one.run.schedule_id,
                ord=one.run.ord,
                name=one.table,
                operation=one.operation,
                policy=one.policy,
                policy_rev=one.policy_rev,
                manual=one.manual,
                bytes=one.bytes,
                now=now,
            )

    async def settle_care(self, settled: Sequence[Settlement], now: Instant) -> Collection[RunKey]:
        done = set()
        outdated = set()
        for one in settled:
            row = await self.session.row(
                Q.settle,
                slot=one.run.slot,
                schedule=one.run.schedule_id,
                ord=one.run.ord,
                outcome=one.outcome,
                bytes=one.bytes,
                result=to_json(one.result),
                now=now,
            )
            if row is not None:
                done.add(one.run)
                outdated.add(row[1])
        if outdated:
            await self._lock_tables(Texts(sorted(outdated)))
            await self.session.send(Q.outdate, names=Texts(sorted(outdated)))
        return done

    async def put_care(self, care: Mapping[str, Mapping[str, JsonObject]]) -> None:
        rows = [(table, one, histories[one]) for table, histories in care.items() for one in histories]
        await self.session.send(
            Q.put_care,
            names=Texts(row[0] for row in rows),
            operations=Texts(row[1] for row in rows),
            histories=Texts(to_json(row[2]) for row in rows),
        )

    async def _lock_tables(self, names: Texts) -> None:
        """Before a version is drawn: readers go on behind the highest that they saw."""
        await self.session.send(Q.lock_versions)
        await self.session.send(Q.lock_tables, names=names)


def _switch(row: Row | None) -> Switch:
    return Switch() if row is None else Switch(automatic=False, who=row[0], since=row[1], reason=row[2])


_TABLE = ("table", "version", "location", "known_at", "seen_at", "assessed", "assessed_at", "health", "score", "error")


def _table(row: Row) -> TableRecord:
    return TableRecord(**dict(zip(_TABLE, row, strict=True)))


def _order(row: Row) -> CareOrder:
    return CareOrder(
        run=RunKey(row[0], ScheduleId(row[1]), row[2]),
        table=row[3],
        operation=row[4],
        policy=row[5],
        policy_rev=row[6],
        manual=row[7],
        bytes=row[8],
    )


def _record(row: Row) -> CareRecord:
    return CareRecord(order=_order(row), at=row[9], bytes=row[10], outcome=row[11], settled_at=row[12], result=row[13])
