"""Backfills in memory. See `ports.backfills`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tidegate.domain.backfills import (
    PRIORITY,
    Asked,
    Backfill,
    BackfillState,
    Item,
    Move,
    Span,
    Standing,
    identity,
    standing,
)
from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import DAY, Instant
from tidegate.domain.runs import Cause, State
from tidegate.ports.backfills import BackfillRecord, Standings
from tidegate.sim.memory.data import Data
from tidegate.sim.memory.engine import EngineTransaction, RunTransaction
from tidegate.sim.memory.rows import BackfillItemRow, BackfillRow, RunRow
from tidegate.sim.memory.waiting import WaitingTransaction

SHOWN = 100


class BackfillTransaction(EngineTransaction, WaitingTransaction):
    """`ports.backfills.BackfillTx`."""

    __slots__ = ()

    async def claim_backfills(self, now: Instant, limit: int) -> Sequence[Backfill]:
        self.check()
        data = self.data
        found: list[BackfillRow] = []
        for number in sorted(data.backfill.rows, key=lambda one: (data.backfill.rows[one].wake_at or 0, one)):
            if len(found) >= limit:
                break
            if self._has_something_to_do(number, now) and self.try_lock(data.backfill, number):
                row = self.get(data.backfill, number)
                assert row is not None
                found.append(row)
        await self.lock_all("clock", [row.schedule_id for row in found])
        return [self._backfill(row) for row in found]

    def _has_something_to_do(self, number: int, now: Instant) -> bool:
        data = self.data
        row = data.backfill.rows[number]
        if row.finished_at is not None:
            return False
        if row.wake_at is not None and row.wake_at <= now:
            return True
        items = (data.backfill_item.rows[place] for place in data.items_of.get(number, ()))
        return any(item.run is not None and item.run not in data.live for item in items)

    def _backfill(self, row: BackfillRow) -> Backfill:
        schedule = self.get(self.data.schedule, row.schedule_id)
        assert schedule is not None
        return Backfill(
            id=row.id,
            schedule_id=row.schedule_id,
            trigger=schedule.revisions[row.rev - 1].revision.spec.trigger,
            asked=row.asked,
            state=row.state,
            cursor=row.cursor,
            counts=row.counts,
            items=tuple(items_of(self.data, row.id)),
            deleted=schedule.deleted_at is not None,
        )

    async def standings(self, spans: Collection[tuple[ScheduleId, Span]]) -> Standings:
        self.check()
        return {
            (schedule, instant): there
            for schedule, span in spans
            for instant, there in standings_of(self.data, schedule, span).items()
        }

    async def record_backfills(self, moves: Sequence[Move], now: Instant) -> None:
        self.check()
        data = self.data
        for move in sorted(moves, key=lambda one: (one.schedule_id, one.id)):
            for fire in (*move.close, *move.release):
                await self.lock(data.backfill_item, (move.schedule_id, fire))
            for fire in move.close:
                self.delete(data.backfill_item, (move.schedule_id, fire))
            for fire in move.release:
                self._take_in_hand(move, fire, None)
            for made in move.make:
                run = await self.new_run(
                    move.schedule_id, Cause.BACKFILL, identity(move.id), made.fire_time, made.previous_fire, now
                )
                run.priority, run.expires_at = PRIORITY, None
                await self.lock(data.backfill_item, (move.schedule_id, made.fire_time))
                self._take_in_hand(move, made.fire_time, run.key)
            row = self.edit(data.backfill, move.id)
            row.state, row.cursor, row.counts = move.state, move.cursor, move.counts
            row.reason = row.reason if move.reason is None else move.reason
            row.wake_at = now if move.more else None
            row.finished_at = now if move.over else row.finished_at

    def _take_in_hand(self, move: Move, fire: Instant, run: RunKey | None) -> None:
        row = BackfillItemRow(move.schedule_id, fire, move.id, run)
        self.put(self.data.backfill_item, (move.schedule_id, fire), row)


class BackfillRequests(RunTransaction):
    """`ports.backfills.BackfillControlTx`."""

    __slots__ = ()

    async def add_backfill(
        self, schedule: ScheduleId, rev: int, asked: Asked, *, total: int, by: str, now: Instant
    ) -> int:
        self.check()
        data = self.data
        data.backfill_ids += 1
        number = data.backfill_ids
        await self.lock(data.backfill, number)
        self.put(data.backfill, number, BackfillRow(number, schedule, rev, asked, by, total, asked.beginning, now, now))
        self.topics["backfill"] = None
        return number

    async def lock_backfill(self, number: int) -> BackfillRecord | None:
        self.check()
        await self.lock(self.data.backfill, number)
        row = self.get(self.data.backfill, number)
        return None if row is None else record_of(self.data, row)

    async def set_backfill(self, number: int, state: BackfillState, reason: str, now: Instant) -> None:
        self.check()
        data = self.data
        row = self.edit(data.backfill, number)
        row.state, row.reason = state, reason
        row.paused_for += 0 if row.paused_at is None else now - row.paused_at
        row.paused_at = now if state is BackfillState.PAUSED else None
        row.wake_at = now if state is BackfillState.RUNNING else None
        if state is BackfillState.CANCELLED:
            items = {place: data.backfill_item.rows[place] for place in data.items_of.get(number, ())}
            unmade = [place for place, item in items.items() if item.run is None]
            await self.lock_all("backfill_item", unmade)
            for place in unmade:
                self.delete(data.backfill_item, place)
            row.counts = replace(row.counts, cancelled=row.counts.cancelled + len(unmade))
            if len(unmade) == len(items):
                row.finished_at = now
        self.topics["backfill"] = None

    async def backfill_items(self, number: int, limit: int) -> Sequence[Item]:
        self.check()
        return items_of(self.data, number)[:limit]

    async def end_runs(self, runs: Collection[RunKey], outcome: State, reason: str, now: Instant) -> int:
        self.check()
        data = self.data
        await self.lock_clocks_of(runs)
        await self.lock_all("run", runs)
        there = [run for run in (self.get(data.run, key) for key in sorted(runs)) if run is not None]
        there = [run for run in there if run.state in (State.WAITING, State.READY)]
        await self.lock_holdings(there)
        for run in there:
            self.finish(self.edit(data.run, run.key), outcome, reason, now, now)
            if run.started_at is not None:
                (await self.stats_of(run.key.schedule_id)).total_runs += 1
        for schedule in sorted({run.key.schedule_id for run in there}):
            self.set_next_after_finish(schedule, now)
        self.wake_released(now)
        return len(there)


class BackfillReading:
    """`ports.backfills.BackfillReads`."""

    data: Data

    async def backfills_live(self) -> bool:
        return any(row.finished_at is None for row in self.data.backfill.rows.values())

    async def backfill(self, number: int) -> tuple[BackfillRecord, Sequence[Item]] | None:
        row = self.data.backfill.rows.get(number)
        return None if row is None else (record_of(self.data, row), items_of(self.data, number)[:SHOWN])

    async def backfills(
        self,
        namespace: str | None,
        *,
        schedule: str | None,
        states: Collection[BackfillState],
        before: str | None,
        limit: int,
    ) -> Sequence[BackfillRecord]:
        rows = sorted(self.data.backfill.rows.values(), key=lambda row: row.id, reverse=True)
        records = [record_of(self.data, row) for row in rows if before is None or row.id < int(before)]
        return [
            one
            for one in records
            if namespace in (None, one.namespace)
            and schedule in (None, one.schedule)
            and (not states or one.state in states)
        ][:limit]

    async def standings_in(self, schedule: ScheduleId, spans: Collection[Span]) -> Mapping[Instant, Standing]:
        return {instant: there for span in spans for instant, there in standings_of(self.data, schedule, span).items()}


def items_of(data: Data, number: int) -> list[Item]:
    """What a backfill has in hand, as committed, by fire time."""
    found = []
    for place in sorted(data.items_of.get(number, ())):
        key = data.backfill_item.rows[place].run
        run = None if key is None else data.run.rows.get(key)
        state = run.state if run is not None else None if key is None else State.CANCELLED  # past retention
        found.append(Item(place[1], key, state))
    return found


def standings_of(data: Data, schedule: int, span: Span) -> Mapping[Instant, Standing]:
    """What is on record of a schedule's instants, as committed."""
    first, last = span
    states: dict[Instant, set[State]] = {}
    clocked = (
        key
        for day in range(first // DAY, last // DAY + 1)
        for key in data.days.get(day, ())
        if key.schedule_id == schedule and data.run.rows[key].cause is Cause.FIRE
    )
    for key in (*clocked, *data.asked_runs.get(schedule, ())):
        run = data.run.rows[key]
        if run.fire_time is not None and first <= run.fire_time <= last and _counts(run):
            states.setdefault(run.fire_time, set()).add(run.state)
    for place in data.backfill_item.rows:
        if place[0] == schedule and first <= place[1] <= last:
            states.setdefault(place[1], set()).add(State.WAITING)
    return {fire: there for fire, said in states.items() if (there := standing(said)) is not None}


def _counts(run: RunRow) -> bool:
    return run.cause is not Cause.BACKFILL or run.live or run.started_at is not None


def record_of(data: Data, row: BackfillRow) -> BackfillRecord:
    about = data.schedule.rows[row.schedule_id].metadata
    return BackfillRecord(
        id=row.id,
        schedule_id=row.schedule_id,
        namespace=about.namespace,
        schedule=about.name,
        rev=row.rev,
        asked=row.asked,
        state=row.state,
        reason=row.reason,
        by=row.by,
        total=row.total,
        cursor=row.cursor,
        counts=row.counts,
        created_at=row.created_at,
        finished_at=row.finished_at,
        paused_at=row.paused_at,
        paused_for=row.paused_for,
    )
