"""Tables that are looked after, in memory, as in store/tables.py."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, TypeVar

from tidegate.domain.evidence import Owed
from tidegate.domain.ids import RunKey
from tidegate.domain.instants import Instant
from tidegate.domain.maintenance.budget import Spend
from tidegate.domain.maintenance.wire import figures
from tidegate.domain.runs import State
from tidegate.domain.schedules import JsonObject
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
from tidegate.sim.memory.collect import updated
from tidegate.sim.memory.data import Data
from tidegate.sim.memory.engine import RunTransaction
from tidegate.sim.memory.tables import Table

K = TypeVar("K")
R = TypeVar("R")


class TablesReading:
    """`ports.tables.TablesReads`."""

    __slots__ = ()
    data: Data

    def _rows(self, table: Table[K, R]) -> Mapping[K, R]:
        return table.rows

    async def breathe(self) -> None:
        """In a simulation nothing else waits for a turn."""

    async def maintenance(self) -> Switch:
        return self._rows(self.data.maintenance_off).get("") or Switch()

    async def policies(self) -> Sequence[PolicyRecord]:
        return [one for _, one in sorted(self._rows(self.data.policy).items()) if one.document]

    async def policy_revisions(self, name: str) -> Sequence[tuple[int, JsonObject | None, str, Instant]]:
        found = [one for (named, _), one in sorted(self._rows(self.data.policy_revision).items()) if named == name]
        return [(one.rev, one.document or None, one.author, one.updated_at) for one in reversed(found)]

    async def tables(self, names: Collection[str] | None = None, *, since: int = 0) -> Sequence[TableRecord]:
        rows = self._rows(self.data.lake_table)
        wanted = sorted(rows) if names is None else sorted(name for name in set(names) if name in rows)
        return [rows[name] for name in wanted if rows[name].version > since]

    async def table_names(self) -> Sequence[str]:
        return sorted(name for name, one in self._rows(self.data.lake_table).items() if one.location is not None)

    async def changed_tables(self, since: int, limit: int) -> Sequence[TableRecord]:
        found = (one for one in self._rows(self.data.lake_table).values() if one.version > since)
        return sorted(found, key=lambda one: one.version)[:limit]

    async def versions(self, tables: Collection[str]) -> Mapping[str, int]:
        rows = self._rows(self.data.lake_table)
        return {name: rows[name].version for name in tables if name in rows}

    async def table_history(
        self, table: str, before: Instant | None, limit: int
    ) -> Sequence[tuple[Instant, JsonObject, float | None]]:
        found = [
            (at, one.health or {}, one.score)
            for (name, at), one in sorted(self._rows(self.data.table_health).items(), reverse=True)
            if name == table and (before is None or at < before)
        ]
        return found[:limit]

    async def care(self, tables: Collection[str] | None = None) -> Mapping[str, Mapping[str, JsonObject]]:
        found: dict[str, dict[str, JsonObject]] = {}
        for (table, operation), (_, history) in sorted(self._rows(self.data.table_care).items(), key=itemgetter(0)):
            if tables is None or table in tables:
                found.setdefault(table, {})[operation] = history
        return found

    async def changed_care(self, since: CarePlace, limit: int) -> Sequence[CareChange]:
        rows = self._rows(self.data.table_care).items()
        found = [CareChange(CarePlace(version, *key), history) for key, (version, history) in rows]
        return sorted((one for one in found if one.place > since), key=itemgetter(0))[:limit]

    async def snapshots_needed(self, tables: Collection[str]) -> Mapping[str, Sequence[int]]:
        data, runs = self.data, self._rows(self.data.run)
        told: list[tuple[str, Any]] = []
        told += [(name, one.cursor.place.snapshot) for name, one in data.dataset_cursor.rows.items()]
        told += [(name, self._begins(name, one)) for (_, name), one in data.owed.rows.items()]
        for key in data.live:
            for name, given in (runs[key].inputs or {}).items():
                told += [(name, given.get(which)) for which in ("from_snapshot", "to_snapshot")]
        found: dict[str, set[int]] = {}
        for name, snapshot in told:
            if name in tables and snapshot is not None and str(snapshot).isdecimal():
                found.setdefault(name, set()).add(int(snapshot))
        return {name: sorted(found[name]) for name in sorted(found)}

    def _begins(self, dataset: str, owed: Owed) -> int | str | None:
        """Behind which snapshot a schedule reads on; one that was given nothing yet: behind the first it is to get."""
        topic = self.data.topic_ids.get(updated(dataset))
        if owed.snapshot is not None or topic is None:
            return owed.snapshot
        coming = self.data.arrivals[topic][owed.n : owed.n + 1]
        return (coming[0].event.payload or {}).get("previous_snapshot") if coming else None

    async def open_care(self) -> Sequence[OpenCare]:
        return [self._open_care(one) for one in self._by_start() if one.settled_at is None]

    def _open_care(self, one: CareRecord) -> OpenCare:
        run = self._rows(self.data.run).get(one.order.run)
        if run is None:
            return OpenCare(order=one.order, at=one.at, state=State.CANCELLED)
        ended = [each for key, each in self._rows(self.data.attempt).items() if key.run == run.key and each.finished_at]
        last = max(ended, key=lambda each: each.key.number, default=None)
        return OpenCare(
            order=one.order,
            at=one.at,
            state=run.state,
            reason=run.reason,
            started_at=run.started_at,
            finished_at=run.finished_at,
            note=last.error if last else None,
        )

    def _by_start(self) -> list[CareRecord]:
        return sorted(self._rows(self.data.maintenance).values(), key=lambda one: (one.at, one.order.run))

    async def spent(self, since: Instant, policies: Collection[str]) -> Mapping[str, Sequence[Spend]]:
        found: dict[str, list[Spend]] = {}
        for one in self._by_start():
            is_open = one.settled_at is None
            if one.order.policy in policies and (one.at >= since or is_open):
                spend = Spend(at=one.at, table=one.order.table, bytes=one.bytes, open=is_open)
                found.setdefault(one.order.policy, []).append(spend)
        return found

    async def care_of(self, table: str, before: tuple[Instant, RunKey] | None, limit: int) -> Sequence[CareRecord]:
        found = [one for one in self._by_start() if one.order.table == table]
        return [one for one in reversed(found) if before is None or (one.at, one.order.run) < before][:limit]


class TablesTransaction(RunTransaction, TablesReading):
    """`ports.tables.TablesTx`. It reads what is committed and what it wrote itself."""

    __slots__ = ()

    def _rows(self, table: Table[K, R]) -> Mapping[K, R]:
        self.check()
        return dict(self.scan(table)) if self.own[table.number] else table.rows

    async def lock_maintenance(self) -> Switch:
        self.check()
        await self.lock(self.data.maintenance_off, "")
        return self.get(self.data.maintenance_off, "") or Switch()

    async def set_automatic(self, on: bool, who: str, reason: str, now: Instant) -> bool:
        if (await self.lock_maintenance()).automatic == on:
            return False
        off = None if on else Switch(automatic=False, who=who, since=now, reason=reason)
        if off is None:
            self.delete(self.data.maintenance_off, "")
        else:
            self.put(self.data.maintenance_off, "", off)
        self.topics["declared"] = None
        return True

    async def put_policy(self, name: str, document: JsonObject, author: str, now: Instant) -> PolicyRecord:
        return await self._revise(name, document, author, now)

    async def delete_policy(self, name: str, author: str, now: Instant) -> bool:
        self.check()
        await self.lock(self.data.policy, name)
        known = self.get(self.data.policy, name)
        if known is None or not known.document:
            return False
        await self._revise(name, {}, author, now)
        return True

    async def _revise(self, name: str, document: JsonObject, author: str, now: Instant) -> PolicyRecord:
        self.check()
        await self.lock(self.data.policy, name)
        known = self.get(self.data.policy, name)
        rev = known.rev + 1 if known else 1
        record = PolicyRecord(name=name, rev=rev, document=document, author=author, updated_at=now)
        self.put(self.data.policy, name, record)
        await self.lock(self.data.policy_revision, (name, rev))
        self.put(self.data.policy_revision, (name, rev), record)
        self.topics["declared"] = None
        return record

    async def see_tables(self, seen: Sequence[Seen], now: Instant) -> None:
        self.check()
        await self._lock_versions()
        for one in sorted(seen, key=lambda each: each.table):
            await self.lock(self.data.lake_table, one.table)
            known = self.get(self.data.lake_table, one.table)
            if known is None:
                self._put_table(
                    TableRecord(table=one.table, version=0, location=one.location, known_at=now, seen_at=now)
                )
            elif known.location != one.location:
                self._put_table(replace(known, location=one.location, seen_at=now))

    async def _lock_versions(self) -> None:
        """Before one is drawn, so that they are committed in their order."""
        await self.lock(self.data.lake_table, "")

    def _put_table(self, record: TableRecord) -> None:
        self.data.table_versions += 1
        self.put(self.data.lake_table, record.table, replace(record, version=self.data.table_versions))

    async def record_health(self, measured: Sequence[Measured], now: Instant) -> None:
        self.check()
        await self._lock_versions()
        for one in sorted(measured, key=lambda each: each.table):
            await self.lock(self.data.lake_table, one.table)
            known = self.get(self.data.lake_table, one.table)
            if known is None:
                continue
            fresh = replace(known, assessed=one.location, assessed_at=now, error=one.error)
            if one.health is not None:
                fresh = replace(fresh, health=one.health, score=one.score)
                await self.lock(self.data.table_health, (one.table, now))
                self.put(self.data.table_health, (one.table, now), replace(one, health=figures(one.health)))
            self._put_table(fresh)

    async def reserve(self, orders: Sequence[CareOrder], now: Instant) -> None:
        self.check()
        for one in orders:
            await self.lock(self.data.maintenance, one.run)
            self.put(self.data.maintenance, one.run, CareRecord(order=one, at=now, bytes=one.bytes))

    async def settle_care(self, settled: Sequence[Settlement], now: Instant) -> Collection[RunKey]:
        self.check()
        done = set()
        for one in settled:
            await self.lock(self.data.maintenance, one.run)
            known = self.get(self.data.maintenance, one.run)
            if known is None or known.settled_at is not None:
                continue
            ended = replace(known, settled_at=now, outcome=one.outcome, bytes=one.bytes, result=one.result)
            self.put(self.data.maintenance, one.run, ended)
            done.add(one.run)
            await self._lock_versions()
            await self.lock(self.data.lake_table, known.order.table)
            table = self.get(self.data.lake_table, known.order.table)
            if table is not None:
                self._put_table(replace(table, assessed=None))
        return done

    async def put_care(self, care: Mapping[str, Mapping[str, JsonObject]]) -> None:
        self.check()
        for table, histories in sorted(care.items()):
            for operation, history in sorted(histories.items()):
                await self.lock(self.data.table_care, (table, operation))
                self.data.care_versions += 1
                self.put(self.data.table_care, (table, operation), (self.data.care_versions, history))
