"""What people read: records made of committed rows, and pages of them, newest first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any

from tidegate.domain.admission import rank
from tidegate.domain.ids import AttemptKey, ProgramId, RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.programs import ProgramRef
from tidegate.domain.runs import Cause, State
from tidegate.domain.schedules import JsonObject, Revision
from tidegate.ports.engine import Instance
from tidegate.ports.records import (
    AttemptRecord,
    Book,
    Change,
    LedgerRow,
    PoolRecord,
    ProgramRecord,
    RunRecord,
    ScheduleRecord,
    Stats,
)
from tidegate.sim.memory.data import Data
from tidegate.sim.memory.loans import borrowed
from tidegate.sim.memory.membership import as_instance
from tidegate.sim.memory.rows import Answer, AttemptRow, ClockRow, ProgramRow, RunRow, ScheduleRow, StretchRow

_STATS = [field.name for field in fields(Stats)]


class Reading:
    """The reading half of `ports.control.ControlStore`. No call waits or locks; each sees what is committed."""

    data: Data
    time: Callable[[], Instant]

    async def namespaces(self) -> Sequence[tuple[str, JsonObject]]:
        return [(name, row.document) for name, row in sorted(self.data.namespace.rows.items())]

    async def applications(self, namespace: str | None) -> Sequence[tuple[str, str, JsonObject]]:
        rows = sorted(self.data.application.rows.items())
        return [(ns, name, row.document) for (ns, name), row in rows if namespace in (None, ns)]

    async def pools(self) -> Sequence[PoolRecord]:
        runs = [self.data.run.rows[key] for key in self.data.live]
        return [
            PoolRecord(
                name=row.name,
                slots=row.slots,
                used=row.used,
                rate_max=row.rate_max,
                rate_per=row.rate_per,
                rate_burst=row.rate_burst,
                borrow=row.borrow,
                borrowed=borrowed(row.name, self.data, {}) if row.borrow else 0,
                lent=sum(one.slot_held and one.borrower is not None and one.pool == row.name for one in runs),
            )
            for _, row in sorted(self.data.pool.rows.items())
        ]

    async def programs(self, namespace: str | None, before: str | None, limit: int) -> Sequence[ProgramRecord]:
        found = [
            row
            for number, row in sorted(self.data.program.rows.items(), reverse=True)
            if row.deleted_at is None and namespace in (None, row.ref.namespace) and _before(number, before)
        ]
        return [program_record(row) for row in found[:limit]]

    async def program(self, namespace: str, name: str) -> ProgramRecord | None:
        number = self.data.program_name.rows.get((namespace, name))
        return None if number is None else program_record(self.data.program.rows[number])

    async def schedule(self, namespace: str, name: str) -> ScheduleRecord | None:
        number = self.data.schedule_name.rows.get((namespace, name))
        return None if number is None else self._record(number)

    async def schedules(self, namespace: str | None, before: str | None, limit: int) -> Sequence[ScheduleRecord]:
        found = [
            number
            for number, row in sorted(self.data.schedule.rows.items(), reverse=True)
            if row.deleted_at is None and namespace in (None, row.metadata.namespace) and _before(number, before)
        ]
        return [self._record(number) for number in found[:limit]]

    def _record(self, number: int) -> ScheduleRecord:
        clock = self.data.clock.rows[number]
        return schedule_record(self.data.schedule.rows[number], clock, self.data.program.rows[clock.program_id].ref)

    async def revisions(self, schedule: ScheduleId) -> Sequence[tuple[Revision, JsonObject, str, str]]:
        row = self.data.schedule.rows.get(schedule)
        written = () if row is None else reversed(row.revisions)
        return [(one.revision, one.document, one.author, one.reason) for one in written]

    async def stats(self, schedule: ScheduleId) -> Stats:
        row = self.data.stats.rows.get(schedule)
        return Stats() if row is None else Stats(**{name: getattr(row, name) for name in _STATS})

    async def stats_of(self, schedules: Collection[ScheduleId]) -> Mapping[ScheduleId, Stats]:
        return {one: await self.stats(one) for one in schedules}

    async def run(self, key: RunKey) -> RunRecord | None:
        row = self.data.run.rows.get(key)
        if row is not None:
            return run_record(self.data, row)
        stretch = self.data.stretch.rows.get((key.schedule_id, key.slot)) if key.ord == 0 else None
        return None if stretch is None else stretch_record(self.data, stretch)

    async def runs(
        self,
        namespace: str | None,
        *,
        schedule: str | None,
        states: Collection[State],
        since: Instant | None,
        before: str | None,
        limit: int,
    ) -> tuple[Sequence[RunRecord], str | None]:
        data = self.data

        def wanted(number: int, state: State) -> bool:
            about = data.schedule.rows[number].metadata
            return (
                namespace in (None, about.namespace)
                and schedule in (None, about.name)
                and (not states or state in states)
            )

        found: list[tuple[RunKey, RunRow | StretchRow]] = [
            (key, run) for key, run in data.run.rows.items() if wanted(key.schedule_id, run.state)
        ]
        found += [
            (RunKey(row.to_fire, row.schedule_id, -1), row)
            for row in data.stretch.rows.values()
            if wanted(row.schedule_id, row.outcome)
        ]
        if since is not None:
            found = [item for item in found if item[0].slot >= since]
        if before is not None:
            position = _position(before)
            found = [item for item in found if item[0] < position]
        found.sort(key=lambda item: item[0], reverse=True)
        page = found[:limit]
        rest = f"{page[-1][0].slot}.{page[-1][0].schedule_id}.{page[-1][0].ord}" if len(found) > limit else None
        return [
            run_record(data, row) if isinstance(row, RunRow) else stretch_record(data, row) for _, row in page
        ], rest  # fmt: skip

    async def live_counts(self) -> dict[tuple[str, str], int]:
        data, counts = self.data, dict[tuple[str, str], int]()
        for key in data.live:
            place = (data.schedule.rows[key.schedule_id].metadata.namespace, str(data.run.rows[key].state))
            counts[place] = counts.get(place, 0) + 1
        return counts

    async def queue(
        self, namespace: str | None, before: str | None, limit: int
    ) -> tuple[Sequence[RunRecord], str | None]:
        data = self.data
        order = sorted(
            (rank(data.run.rows[key].priority, data.run.rows[key].created_at), key)
            for key in data.live
            if data.run.rows[key].state is State.WAITING
            and namespace in (None, data.schedule.rows[key.schedule_id].metadata.namespace)
        )
        if before is not None:
            at, _, place = before.partition(":")
            order = [item for item in order if item > (int(at), _position(place))]
        page = order[:limit]
        rest = None
        if len(order) > limit:
            at_, key = page[-1]
            rest = f"{at_}:{key.slot}.{key.schedule_id}.{key.ord}"
        return [run_record(data, data.run.rows[key]) for _, key in page], rest

    async def ahead(self, wake_key: str, rank: int, run: RunKey) -> int:
        return sum(place < (rank, run) for place in self.data.queues.get(wake_key, ()))

    async def holders(self, counter: str, limit: int = 10) -> Sequence[RunKey]:
        rows = self.data.run.rows
        return [key for key in sorted(self.data.live) if counter in rows[key].held][:limit]

    async def changes(self, namespace: str | None, before: int | None, limit: int) -> Sequence[Change]:
        found = [
            change
            for change in reversed(self.data.changes)
            if namespace in (None, change.namespace) and (before is None or change.id < before)
        ]
        return found[:limit]

    async def instances(self) -> Sequence[Instance]:
        return [as_instance(row) for row in self.data.instance.rows.values() if row.ended_at is None]

    async def leases(self) -> Sequence[JsonObject]:
        return [
            {"duty": row.duty, "instance_id": row.instance_id, "token": row.token, "expires": row.expires}
            for _, row in sorted(self.data.lease.rows.items())
        ]

    async def books(
        self, namespace: str | None, since: Instant, until: Instant, after: ScheduleId | None, limit: int
    ) -> Sequence[Book]:
        found = [
            row
            for number, row in sorted(self.data.schedule.rows.items())
            if namespace in (None, row.metadata.namespace) and (after is None or number > after)
        ]
        wanted = {row.id: list[LedgerRow]() for row in found[:limit]}
        for key, run in self.data.run.rows.items():
            if key.schedule_id in wanted and run.cause is Cause.FIRE and since <= key.slot <= until:
                wanted[key.schedule_id].append(
                    LedgerRow(from_fire=key.slot, to_fire=key.slot, n=1, outcome=str(run.state))
                )
        for stretch in self.data.stretch.rows.values():
            if stretch.schedule_id in wanted and stretch.to_fire >= since and stretch.from_fire <= until:
                wanted[stretch.schedule_id].append(
                    LedgerRow(
                        from_fire=stretch.from_fire,
                        to_fire=stretch.to_fire,
                        n=stretch.n,
                        outcome=str(stretch.outcome),
                    )
                )
        return [self._book(row, since, until, wanted[row.id]) for row in found[:limit]]

    def _book(self, row: ScheduleRow, since: Instant, until: Instant, rows: list[LedgerRow]) -> Book:
        revisions = [one.revision for one in row.revisions]
        ruling = [
            one
            for one, after in zip(revisions, [*revisions[1:], None], strict=True)
            if one.valid_from <= until and (after is None or after.valid_from >= since)
        ]
        return Book(
            schedule_id=row.id,
            namespace=row.metadata.namespace,
            name=row.metadata.name,
            created_at=row.created_at,
            deleted_at=row.deleted_at,
            revisions=tuple(ruling),
            cursor=self.data.clock.rows[row.id].cursor,
            rows=tuple(sorted(rows, key=lambda line: (line.from_fire, line.n))),
        )

    async def remembered(self, key: str) -> tuple[str, int, Any] | None:
        row = self.data.idempotency.rows.get(key)
        return None if row is None else (row.request, row.status, row.answer)

    async def remember(self, key: str, request: str, status: int, answer: Any, now: Instant) -> None:
        row = self.data.idempotency.rows.setdefault(key, Answer(request, status, answer, now))
        if row.status == 0 and row.request == request:
            self.data.idempotency.rows[key] = Answer(request, status, answer, row.at)


def _before(number: int, before: str | None) -> bool:
    return before is None or number < int(before)


def _position(text: str) -> RunKey:
    slot, schedule, order = (int(part) for part in text.split("."))
    return RunKey(slot, ScheduleId(schedule), order)


def program_record(row: ProgramRow) -> ProgramRecord:
    return ProgramRecord(
        ref=row.ref, application=row.application, document=row.document, valid_from=row.valid_from
    )  # fmt: skip


def schedule_record(row: ScheduleRow, clock: ClockRow, program: ProgramRef) -> ScheduleRecord:
    newest = row.newest
    return ScheduleRecord(
        id=row.id,
        metadata=row.metadata,
        created_at=row.created_at,
        rev=newest.revision.rev,
        valid_from=newest.revision.valid_from,
        mode=newest.revision.mode,
        reason=newest.reason,
        document=newest.document,
        spec=newest.revision.spec,
        program=program,
        cursor=clock.cursor,
        cursor_rev=clock.cursor_rev,
        next_due=clock.next_due,
        last_fire=clock.last_fire,
        held_expires=newest.revision.held_expires,
    )


def run_record(data: Data, run: RunRow) -> RunRecord:
    about = data.schedule.rows[run.key.schedule_id].metadata
    keys = [AttemptKey(run.key, number) for number in range(1, run.attempts + 1)]
    return RunRecord(
        key=run.key,
        namespace=about.namespace,
        schedule=about.name,
        rev=run.rev,
        program=run.program.name,
        state=run.state,
        reason=run.reason,
        fire_time=run.fire_time,
        fire_time_to=None,
        previous_fire=run.previous_fire,
        count=1,
        cause=run.cause,
        caused_by=run.caused_by,
        given=run.given,
        arguments=run.arguments,
        priority=run.priority,
        created_at=run.created_at,
        ready_at=run.ready_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        expires_at=run.expires_at,
        wake_at=run.wake_at,
        wake_key=run.wake_key,
        waiting_for=run.waiting_for,
        merged_into=run.merged_into,
        stop=run.stop,
        attempts=tuple(attempt_record(run, data.attempt.rows[key]) for key in keys),
        evidence=run.evidence,
        inputs=run.inputs,
        crash=run.crash if run.state is State.WAITING else None,
    )


def attempt_record(run: RunRow, attempt: AttemptRow) -> AttemptRecord:
    return AttemptRecord(
        key=attempt.key,
        state=attempt.outcome or str(run.state),
        backend=attempt.backend,
        backend_id=attempt.backend_id,
        fence=attempt.fence,
        host=attempt.host,
        created_at=attempt.created_at,
        started_at=attempt.started_at,
        finished_at=attempt.finished_at,
        error=attempt.error,
    )


def stretch_record(data: Data, row: StretchRow) -> RunRecord:
    schedule = data.schedule.rows[row.schedule_id]
    program: ProgramId = data.clock.rows[row.schedule_id].program_id
    return RunRecord(
        key=RunKey(row.from_fire, row.schedule_id, 0),
        namespace=schedule.metadata.namespace,
        schedule=schedule.metadata.name,
        rev=row.rev,
        program=data.program.rows[program].ref.name,
        state=row.outcome,
        reason=row.reason,
        fire_time=row.from_fire,
        fire_time_to=row.to_fire,
        previous_fire=None,
        count=row.n,
        cause=Cause.FIRE,
        caused_by="",
        given=None,
        arguments=None,
        priority=schedule.newest.revision.spec.priority,
        created_at=row.decided_at,
        ready_at=None,
        started_at=None,
        finished_at=row.decided_at,
        expires_at=None,
        wake_at=None,
        wake_key=None,
        waiting_for=(),
        merged_into=None,
        stop=None,
        attempts=(),
    )
