"""What people declare, in memory: namespaces, applications, pools, programs and schedules."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tidegate.domain.errors import Conflict
from tidegate.domain.ids import ProgramId, ScheduleId
from tidegate.domain.instants import Duration, Instant
from tidegate.domain.naming import inhabited
from tidegate.domain.planning import Stretch
from tidegate.domain.programs import ProgramRef, ProgramSpec
from tidegate.domain.schedules import JsonObject, Mode, Revision, ScheduleSpec
from tidegate.ports.records import ClockState, Metadata, ProgramRecord, ScheduleRecord
from tidegate.sim.memory.gates import GatesTransaction, spares, suspended_since
from tidegate.sim.memory.queues import POOL
from tidegate.sim.memory.read import program_record, schedule_record
from tidegate.sim.memory.rows import ClockRow, DocumentRow, PoolRow, ProgramRow, ScheduleRow, Written
from tidegate.sim.memory.time import program_of, stretch_row


class Declarations(GatesTransaction):
    """The first part of `ports.control.ControlTx`."""

    __slots__ = ()

    async def ensure_namespace(self, name: str, now: Instant) -> bool:
        self.check()
        await self.lock(self.data.namespace, name)
        if self.get(self.data.namespace, name) is not None:
            return False
        self.put(self.data.namespace, name, DocumentRow({}, now))
        return True

    async def put_namespace(self, name: str, document: JsonObject, now: Instant) -> bool:
        self.check()
        await self.lock(self.data.namespace, name)
        old = self.get(self.data.namespace, name)
        self.put(self.data.namespace, name, DocumentRow(document, now if old is None else old.at))
        return old is None

    async def delete_namespace(self, name: str) -> bool:
        self.check()
        data = self.data
        await self.lock(data.namespace, name)
        if self.get(data.namespace, name) is None:
            return False
        tables = ("schedule", data.schedule_name), ("program", data.program_name)
        living = [
            (kind, key[1])
            for kind, table in tables
            for key in sorted(key for key, _ in self.scan(table))
            if key[0] == name
        ]
        if living:
            raise inhabited(name, living, len(living))
        self.delete(data.namespace, name)
        return True

    async def lock_application(self, namespace: str, name: str) -> JsonObject | None:
        self.check()
        await self.lock(self.data.application, (namespace, name))
        row = self.get(self.data.application, (namespace, name))
        return None if row is None else row.document

    async def put_application(self, namespace: str, name: str, document: JsonObject, now: Instant) -> None:
        self.check()
        await self.lock(self.data.application, (namespace, name))
        self.put(self.data.application, (namespace, name), DocumentRow(document, now))

    async def delete_application(self, namespace: str, name: str) -> bool:
        self.check()
        await self.lock(self.data.application, (namespace, name))
        there = self.get(self.data.application, (namespace, name)) is not None
        if there:
            self.delete(self.data.application, (namespace, name))
        return there

    async def put_pool(
        self, name: str, slots: int, rate: tuple[int, Duration, int] | None, borrow: tuple[str, int] | None = None
    ) -> bool:
        self.check()
        await self.lock(self.data.pool, name)
        new = self.get(self.data.pool, name) is None
        if new:
            self.put(self.data.pool, name, PoolRow(name, slots))
        pool = self.edit(self.data.pool, name) if not new else self.get(self.data.pool, name)
        assert pool is not None
        pool.slots, pool.borrow = slots, borrow
        if rate is None:
            pool.rate_max = pool.rate_per = pool.rate_burst = None
        else:
            if pool.rate_max is None:
                pool.tokens = float(rate[2])
            pool.rate_max, pool.rate_per, pool.rate_burst = rate
            pool.tokens = min(pool.tokens, float(rate[2]))
        self.released[POOL + name] = None
        self.wake_released(self.data.time())
        return new

    async def delete_pool(self, name: str) -> bool:
        self.check()
        await self.lock(self.data.pool, name)
        pool = self.get(self.data.pool, name)
        if pool is None:
            return False
        users = [row for _, row in self.scan(self.data.program) if row.deleted_at is None and row.ref.pool == name]
        if pool.used or users:
            who = f"program {users[0].ref.namespace}/{users[0].ref.name}" if users else "live runs"
            raise Conflict(f"pool {name} is in use by {who}.")
        self.delete(self.data.pool, name)
        return True

    # programs
    async def lock_programs(self, namespace: str, names: Collection[str]) -> Sequence[ProgramRecord]:
        self.check()
        data = self.data
        ids = [self.get(data.program_name, (namespace, name)) for name in names]
        found = []
        for number in sorted(one for one in ids if one is not None):
            await self.lock(data.program, number)
            row = self.get(data.program, number)
            if row is not None and row.deleted_at is None:
                found.append(program_record(row))
        return found

    async def write_program(
        self, metadata: Metadata, spec: ProgramSpec, document: JsonObject, author: str, now: Instant
    ) -> ProgramRef:
        self.check()
        data = self.data
        name = (metadata.namespace, metadata.name)
        await self.lock(data.program_name, name)
        number = self.get(data.program_name, name)
        rev = 1
        if number is None:
            data.program_ids += 1
            number = data.program_ids
            self.put(data.program_name, name, number)
            await self.lock(data.program, number)
        else:
            await self.lock(data.program, number)
            old = self.get(data.program, number)
            assert old is not None
            rev = old.ref.rev + 1
        ref = ProgramRef(
            id=ProgramId(number), rev=rev, namespace=metadata.namespace, name=metadata.name, spec=spec
        )  # fmt: skip
        self.put(data.program, number, ProgramRow(ref, metadata.application, document, now, author))
        return ref

    async def delete_program(self, program: ProgramId, now: Instant) -> None:
        self.check()
        data = self.data
        await self.lock(data.program, program)
        row = self.edit(data.program, program)
        row.deleted_at = now
        name = (row.ref.namespace, row.ref.name)
        await self.lock(data.program_name, name)
        self.delete(data.program_name, name)

    # schedules
    async def lock_schedules(self, namespace: str, names: Collection[str]) -> Sequence[ScheduleRecord]:
        self.check()
        ids = [self.get(self.data.schedule_name, (namespace, name)) for name in names]
        return await self._lock_ids([one for one in ids if one is not None])

    async def lock_schedules_of(
        self, namespace: str, *, application: str | None = None, program: ProgramId | None = None
    ) -> Sequence[ScheduleRecord]:
        self.check()
        data, found = self.data, []
        for key, row in self.scan(data.schedule):
            clock = self.get(data.clock, key)
            if (
                row.deleted_at is None
                and row.metadata.namespace == namespace
                and (application is None or row.metadata.application == application)
                and (program is None or (clock is not None and clock.program_id == program))
            ):
                found.append(key)
        return await self._lock_ids(found)

    async def _lock_ids(self, ids: Sequence[int]) -> Sequence[ScheduleRecord]:
        data, found = self.data, []
        for number in sorted(set(ids)):
            await self.lock(data.schedule, number)
            await self.lock(data.clock, number)
            row, clock = self.get(data.schedule, number), self.get(data.clock, number)
            if row is not None and clock is not None and row.deleted_at is None:
                found.append(schedule_record(row, clock, program_of(self, clock)))
        return found

    async def revisions_from(self, schedule: ScheduleId, rev: int) -> Sequence[Revision]:
        self.check()
        row = self.get(self.data.schedule, schedule)
        return [] if row is None else [one.revision for one in row.revisions if one.revision.rev >= rev]

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
        self.check()
        data = self.data
        name = (metadata.namespace, metadata.name)
        await self.lock(data.schedule_name, name)
        if self.get(data.schedule_name, name) is not None:
            raise Conflict(f"schedule {metadata.namespace}/{metadata.name} exists already.")
        data.schedule_ids += 1
        number = ScheduleId(data.schedule_ids)
        await self.lock(data.schedule, number)
        await self.lock(data.clock, number)
        revision = Revision(schedule_id=number, rev=1, valid_from=now, mode=mode, spec=spec)
        written = Written(revision, document, author, reason)
        self.put(data.schedule_name, name, number)
        self.put(data.schedule, number, ScheduleRow(number, metadata, now, (written,)))
        row = ClockRow(number, program, 1, clock.cursor_rev, mode, clock.cursor, clock.next_due)
        self.put(data.clock, number, row)
        self.topics["clock"] = None
        return number

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
        self.check()
        data = self.data
        await self.lock(data.schedule, schedule)
        await self.lock(data.clock, schedule)
        row, time = self.edit(data.schedule, schedule), self.edit(data.clock, schedule)
        rev = row.newest.revision.rev + 1
        revision = Revision(
            schedule_id=schedule, rev=rev, valid_from=valid_from, mode=mode, spec=spec, held_expires=held_expires
        )  # fmt: skip
        since = suspended_since(row.revisions) if not spares(revision) else None
        row.revisions = (*row.revisions, Written(revision, document, author, reason))
        time.rev, time.program_id, time.mode = rev, program, mode
        time.cursor, time.cursor_rev, time.next_due = clock.cursor, clock.cursor_rev, clock.next_due
        if since is not None:
            await self.move_expiries(schedule, since, valid_from)
        await self.judge_again(schedule, self.data.time())
        self.topics["clock"] = None
        return rev

    async def describe_schedule(self, schedule: ScheduleId, metadata: Metadata) -> None:
        self.check()
        await self.lock(self.data.schedule, schedule)
        self.edit(self.data.schedule, schedule).metadata = metadata

    async def remove_schedule(self, schedule: ScheduleId, now: Instant) -> None:
        self.check()
        data = self.data
        await self.lock(data.schedule, schedule)
        await self.lock(data.clock, schedule)
        row = self.edit(data.schedule, schedule)
        row.deleted_at = now
        self.edit(data.clock, schedule).next_due = None
        name = (row.metadata.namespace, row.metadata.name)
        await self.lock(data.schedule_name, name)
        self.delete(data.schedule_name, name)
        self.topics["clock"] = None

    async def record_stretches(self, schedule: ScheduleId, stretches: Sequence[Stretch], now: Instant) -> None:
        self.check()
        table = self.data.stretch
        for stretch in stretches:
            place = (schedule, stretch.from_fire)
            await self.lock(table, place)
            if self.get(table, place) is None:
                self.put(table, place, stretch_row(schedule, stretch, now))
                self.tell(now, f"run.{stretch.outcome}", None, schedule)
