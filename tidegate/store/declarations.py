"""A control transaction's side of what is declared: namespaces, applications, pools, programs and schedules."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

from tidegate.domain.admission import SUSPENDED_MODES
from tidegate.domain.errors import Conflict
from tidegate.domain.ids import ProgramId, ScheduleId
from tidegate.domain.instants import Duration, Instant
from tidegate.domain.naming import NAMED, inhabited
from tidegate.domain.planning import Stretch
from tidegate.domain.programs import ProgramRef, ProgramSpec
from tidegate.domain.schedules import JsonObject, Mode, Revision, ScheduleSpec
from tidegate.domain.triggers import AfterFinish
from tidegate.ports.records import ClockState, Metadata, ProgramRecord, ScheduleRecord
from tidegate.store.arrays import Ints, Texts
from tidegate.store.clocks import record_stretches
from tidegate.store.codec import encode, to_json
from tidegate.store.definitions import program as program_of
from tidegate.store.definitions import revision as revision_of
from tidegate.store.holdings import wake
from tidegate.store.queues import POOL
from tidegate.store.records import program_record, schedule_records
from tidegate.store.sql import load
from tidegate.store.transactions import I, Tx

Q = load("control")
RUNS = load("runs")


class DeclarationsTx(Tx):
    """The first part of `ports.control.ControlTx`."""

    async def now(self) -> Instant:
        row = await self.session.row(I.now)
        assert row is not None
        return int(row[0])

    # ── namespaces, applications, pools ────────────────────────────────────────────────────────────────────────────

    async def ensure_namespace(self, name: str, now: Instant) -> bool:
        return await self.session.row(Q.ensure_namespace, name=name, now=now) is not None

    async def put_namespace(self, name: str, document: JsonObject, now: Instant) -> bool:
        row = await self.session.row(Q.put_namespace, name=name, document=to_json(document), now=now)
        return bool(row and row[0])

    async def delete_namespace(self, name: str) -> bool:
        gone = await self.session.row(Q.delete_namespace, name=name)
        if left := await self.session.rows(Q.inhabitants, name=name, most=NAMED):
            raise inhabited(name, [(kind, each) for kind, each, _ in left], left[0][2])
        return gone is not None

    async def lock_application(self, namespace: str, name: str) -> JsonObject | None:
        await self.session.send(Q.lock_name, name=f"application {namespace}/{name}")
        row = await self.session.row(Q.application, namespace=namespace, name=name)
        return row[0] if row else None

    async def put_application(self, namespace: str, name: str, document: JsonObject, now: Instant) -> None:
        await self.session.send(Q.put_application, namespace=namespace, name=name, document=to_json(document), now=now)

    async def delete_application(self, namespace: str, name: str) -> bool:
        return await self.session.row(Q.delete_application, namespace=namespace, name=name) is not None

    async def put_pool(
        self, name: str, slots: int, rate: tuple[int, Duration, int] | None, borrow: tuple[str, int] | None = None
    ) -> bool:
        most, per, burst = rate or (None, None, None)
        of, loan = borrow or (None, None)
        row = await self.session.row(
            Q.put_pool, name=name, slots=slots, max=most, per=per, burst=burst, borrow_from=of, borrow_max=loan
        )
        await wake(self, [POOL + name], await self.now())
        self.tell("ready")
        return bool(row and row[0])

    async def delete_pool(self, name: str) -> bool:
        row = await self.session.row(Q.pool, name=name)
        if row is None:
            return False
        for found in await self.session.rows(Q.newest_programs):
            one = program_of(found)
            if one.pool == name:
                raise Conflict(f"pool {name} is in use by program {one.namespace}/{one.name}.")
        if row[0]:
            raise Conflict(f"pool {name} is in use by {row[0]} live runs.")
        await self.session.send(Q.delete_pool, name=name)
        return True

    # ── programs ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def lock_programs(self, namespace: str, names: Collection[str]) -> Sequence[ProgramRecord]:
        locked = await self.session.rows(Q.lock_programs, namespace=namespace, names=Texts(names))
        rows = await self.session.rows(Q.program_records, ids=Ints(row[0] for row in locked))
        return [program_record(row) for row in rows]

    async def write_program(
        self, metadata: Metadata, spec: ProgramSpec, document: JsonObject, author: str, now: Instant
    ) -> ProgramRef:
        row = await self.session.row(
            Q.put_program, namespace=metadata.namespace, name=metadata.name, application=metadata.application
        )
        assert row is not None
        await self.session.send(
            Q.put_program_revision,
            program=row[0],
            rev=row[1],
            document=to_json(document),
            spec=encode(spec),
            now=now,
            author=author,
        )
        return ProgramRef(id=ProgramId(row[0]), rev=row[1], namespace=metadata.namespace, name=metadata.name, spec=spec)

    async def delete_program(self, program: ProgramId, now: Instant) -> None:
        await self.session.send(Q.delete_program, program=program, now=now)

    # ── schedules ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def lock_schedules(self, namespace: str, names: Collection[str]) -> Sequence[ScheduleRecord]:
        rows = await self.session.rows(Q.schedules_named, namespace=namespace, names=Texts(names))
        return await self._locked([row[0] for row in rows])

    async def lock_schedules_of(
        self, namespace: str, *, application: str | None = None, program: ProgramId | None = None
    ) -> Sequence[ScheduleRecord]:
        rows = await self.session.rows(Q.schedules_of, namespace=namespace, application=application, program=program)
        return await self._locked([row[0] for row in rows])

    async def _locked(self, ids: Sequence[int]) -> Sequence[ScheduleRecord]:
        if not ids:
            return []
        await self.session.send(Q.lock_clocks, ids=Ints(ids))
        return await schedule_records(self.session, ids)

    async def revisions_from(self, schedule: ScheduleId, rev: int) -> Sequence[Revision]:
        rows = await self.session.rows(Q.revisions_from, schedule=schedule, rev=rev)
        return [revision_of(row) for row in rows]

    async def create_schedule(
        self,
        metadata: Metadata,
        spec: ScheduleSpec,
        document: JsonObject,
        *,
        program: ProgramId,
        mode: Mode,
        reason: str,
        author: str,
        now: Instant,
        clock: ClockState,
    ) -> ScheduleId:
        row = await self.session.row(
            Q.add_schedule,
            namespace=metadata.namespace,
            name=metadata.name,
            program=program,
            now=now,
            **_said(metadata),
        )
        if row is None:
            raise Conflict(f"schedule {metadata.namespace}/{metadata.name} exists already.")
        schedule = ScheduleId(row[0])
        await self._add_revision(schedule, 1, spec, document, mode, reason, author, now)
        await self.session.send(Q.add_clock, schedule=schedule, program=program, **_clock(spec, mode, clock))
        self._clock_moved(clock)
        return schedule

    async def revise_schedule(
        self,
        schedule: ScheduleId,
        spec: ScheduleSpec,
        document: JsonObject,
        *,
        program: ProgramId,
        mode: Mode,
        reason: str,
        author: str,
        valid_from: Instant,
        clock: ClockState,
        held_expires: bool = False,
    ) -> int:
        row = await self.session.row(Q.set_clock, schedule=schedule, program=program, **_clock(spec, mode, clock))
        assert row is not None
        rev, was, expired, since = int(row[0]), Mode(row[1]), row[2], row[3]
        await self._add_revision(
            schedule, rev, spec, document, mode, reason, author, valid_from, held_expires=held_expires
        )
        queue = f"resume:{schedule}"
        stood_still = was in SUSPENDED_MODES and not expired
        woken = await self.session.send(
            RUNS.wake_schedule,
            schedule=schedule,
            now=valid_from,
            resume=queue,
            since=since if stood_still else None,
        )
        if was in SUSPENDED_MODES:
            self.instants.look(queue, valid_from)
        self.tell("admit", if_rows=woken)
        self.parts.wake.lower(valid_from)
        self._clock_moved(clock)
        return rev

    async def _add_revision(
        self,
        schedule: ScheduleId,
        rev: int,
        spec: ScheduleSpec,
        document: JsonObject,
        mode: Mode,
        reason: str,
        author: str,
        valid_from: Instant,
        *,
        held_expires: bool = False,
    ) -> None:
        await self.session.send(
            Q.add_revision,
            schedule=schedule,
            rev=rev,
            valid_from=valid_from,
            mode=mode.value,
            reason=reason,
            document=to_json(document),
            spec=encode(spec),
            tzdata=_tzdata(),
            author=author,
            held_expires=held_expires,
        )

    def _clock_moved(self, clock: ClockState) -> None:
        if clock.next_due is not None:
            self.parts.due.lower(clock.next_due)
        self.tell("clock")

    async def describe_schedule(self, schedule: ScheduleId, metadata: Metadata) -> None:
        await self.session.send(Q.describe, schedule=schedule, **_said(metadata))

    async def remove_schedule(self, schedule: ScheduleId, now: Instant) -> None:
        await self.session.send(Q.remove, schedule=schedule, now=now)
        self.tell("clock")

    async def record_stretches(self, schedule: ScheduleId, stretches: Sequence[Stretch], now: Instant) -> None:
        await record_stretches(self, [(schedule, one) for one in stretches], now)


def _said(metadata: Metadata) -> Mapping[str, Any]:
    return {
        "application": metadata.application,
        "labels": to_json(metadata.labels),
        "owner": metadata.owner,
        "description": metadata.description,
    }


def _clock(spec: ScheduleSpec, mode: Mode, clock: ClockState) -> Mapping[str, Any]:
    """The columns of a clock row that follow from its newest revision."""
    return {
        "mode": mode.value,
        "cursor": clock.cursor,
        "cursor_rev": clock.cursor_rev,
        "next_due": clock.next_due,
        "after_finish": mode.works and isinstance(spec.trigger, AfterFinish),
    }


@cache
def _tzdata() -> str:
    """The version of the time zones by which this process reckons."""
    return version("tzdata")
