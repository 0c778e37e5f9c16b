"""A control transaction's side of runs: made by hand, ended while they wait, asked to stop; and the audit log."""

from __future__ import annotations

from collections.abc import Collection

from tidegate.domain.errors import NotFound
from tidegate.domain.ids import ProgramId, RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.programs import ProgramRef
from tidegate.domain.runs import Cause, State
from tidegate.domain.schedules import JsonObject
from tidegate.domain.waiting import policy_under
from tidegate.ports.records import Change
from tidegate.store.backfills import BackfillRequests
from tidegate.store.clocks import lock_after_finish, set_after_finish
from tidegate.store.codec import decode_program, to_json
from tidegate.store.connection import Row, Session
from tidegate.store.declarations import DeclarationsTx
from tidegate.store.definitions import revision as revision_of
from tidegate.store.gates import GatesTx
from tidegate.store.holdings import Released, finish
from tidegate.store.lake import DatasetsTx
from tidegate.store.partitions import day_of
from tidegate.store.sinks import SinksTx
from tidegate.store.sources import SourcesTx
from tidegate.store.sql import load
from tidegate.store.subscribing import SubscribingTx
from tidegate.store.tables import TablesTx
from tidegate.store.transactions import Parts, ascending, columns
from tidegate.store.waiting import make_room

Q = load("runs")
ATTEMPTS = load("attempts")
CONTROL = load("control")
COLLECTING = load("collecting")


class ControlTransaction(
    BackfillRequests, DatasetsTx, SinksTx, SourcesTx, TablesTx, SubscribingTx, GatesTx, DeclarationsTx
):
    """See `ports.control.ControlTx`.

    What ended runs held is given back just before the commit, all together: a transaction that ends the runs of several
    schedules would otherwise lock runs after counters.
    """

    def __init__(self, parts: Parts, session: Session) -> None:
        super().__init__(parts, session)
        self._released = Released()
        self._at: Instant = 0

    async def settle_up(self) -> None:
        await self._released.apply(self, self._at)  # and tells queues

    async def settle_pause(self, schedule: ScheduleId) -> None:
        await self.session.send(ATTEMPTS.settle_pause, schedule=schedule)

    async def clear_streak(self, schedule: ScheduleId) -> None:
        await self.session.send(ATTEMPTS.clear_streak, schedule=schedule)

    def _give_back(self, gone: list[Row], now: Instant) -> None:
        self._released.finished(gone)
        self._at = max(self._at, now)

    async def end_waiting(self, schedule: ScheduleId, outcome: State, reason: str, now: Instant) -> int:
        clocks = await lock_after_finish(self, [schedule])
        rows = await self.session.rows(Q.waiting_of, schedule=schedule)
        keys = [RunKey(row[0], ScheduleId(row[1]), row[2]) for row in rows]
        gone = await finish(self, [(key, outcome, reason) for key in keys], now)
        self._give_back(gone, now)
        await set_after_finish(self, clocks, {schedule: now} if gone else {})
        return len(gone)

    async def end_runs(self, runs: Collection[RunKey], outcome: State, reason: str, now: Instant) -> int:
        if not runs:
            return 0
        clocks = await lock_after_finish(self, {key.schedule_id for key in runs})
        rows = await self.session.rows(Q.lock, **columns(sorted(runs, key=ascending))._asdict())
        keys = [RunKey(row[0], ScheduleId(row[1]), row[2]) for row in rows]
        gone = await finish(self, [(key, outcome, reason) for key in keys], now)
        self._give_back(gone, now)
        await set_after_finish(self, clocks, {row[1]: now for row in gone})
        return len(gone)

    async def add_run(
        self,
        schedule: ScheduleId,
        *,
        cause: Cause,
        caused_by: str,
        fire_time: Instant | None,
        previous_fire: Instant | None,
        given: JsonObject | None,
        priority: int,
        now: Instant,
        like: RunKey | None = None,
    ) -> RunKey:
        await self.ready_for(now, [now])
        row = await self.session.row(Q.next_ord, schedule=schedule)
        if row is None:
            raise NotFound(f"there is no schedule {schedule}.")
        order, rev, program_id, program_rev, namespace, name, program, *newest = row
        ref = ProgramRef(
            id=ProgramId(program_id), rev=program_rev, namespace=namespace, name=name, spec=decode_program(program)
        )
        waiting = policy_under(revision_of(tuple(newest)))
        timeout = waiting.timeout
        await self.session.send(
            Q.add,
            schedule=schedule,
            ord=order,
            rev=rev,
            program=program_id,
            fire_time=fire_time,
            previous_fire=previous_fire,
            cause=cause.value,
            caused_by=caused_by,
            priority=priority,
            given=to_json(given),
            kind=ref.kind,
            pool=ref.pool,
            expires_at=None if timeout is None else now + timeout,
            now=now,
            day=day_of(now),
        )
        if like is not None:
            await self.session.send(
                COLLECTING.like,
                old_slot=like.slot,
                old_schedule=like.schedule_id,
                old_ord=like.ord,
                slot=now,
                schedule=schedule,
                ord=order,
            )
        await make_room(self, {schedule: waiting}, now)
        self.parts.wake.lower(now)
        self.tell("admit")
        return RunKey(now, schedule, order)

    async def request_stop(self, run: RunKey, by: str, now: Instant) -> State:
        place = {"schedule": run.schedule_id, "slot": run.slot, "ord": run.ord}
        clocks = await lock_after_finish(self, [run.schedule_id])
        live = await self.session.row(Q.lock_one, **place)
        if live is None:
            ended = await self.session.row(Q.outcome, **place)
            if ended is None:
                raise NotFound(f"there is no run {run}.", remedy="See `tidegate runs`.")
            return State(ended[0])
        if live[0] in (State.WAITING, State.READY):
            gone = await finish(self, [(run, State.CANCELLED, f"cancelled by {by}")], now)
            self._give_back(gone, now)
            await set_after_finish(self, clocks, {run.schedule_id: now})
            return State.CANCELLED
        await self.ready_for(now)
        await self.session.send(Q.stop_one, **place, by=by, now=now, day=day_of(now))
        self.tell("stop")
        return State.STOPPING

    async def record_change(self, change: Change, now: Instant) -> None:
        await self.session.send(
            CONTROL.record_change,
            now=now,
            who=change.who,
            action=change.action,
            kind=change.kind,
            namespace=change.namespace,
            name=change.name,
            before=to_json(change.before),
            after=to_json(change.after),
        )

    async def remember(self, key: str, request: str, notes: JsonObject, now: Instant) -> bool:
        row = await self.session.row(CONTROL.claim_key, key=key, request=request, notes=to_json(notes) or "{}", now=now)
        return row is not None
