"""Rows as the records that people see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.domain.crashes import Crash
from tidegate.domain.ids import AttemptKey, ProgramId, RunKey, ScheduleId
from tidegate.domain.programs import ProgramRef
from tidegate.domain.runs import Cause, State
from tidegate.domain.schedules import Mode
from tidegate.ports.records import AttemptRecord, Metadata, ProgramRecord, RunRecord, ScheduleRecord
from tidegate.store.arrays import Ints
from tidegate.store.codec import decode_program, decode_schedule
from tidegate.store.connection import Row, Session
from tidegate.store.definitions import program
from tidegate.store.sql import load
from tidegate.store.transactions import columns

CONTROL = load("control")
LEDGER = load("ledger")


def program_record(row: Row) -> ProgramRecord:
    """Of control.program_records."""
    return ProgramRecord(ref=program(row), application=row[5], document=row[6], valid_from=row[7])


def schedule_record(row: Row) -> ScheduleRecord:
    """Of control.schedule_records."""
    return ScheduleRecord(
        id=ScheduleId(row[0]),
        metadata=Metadata(
            namespace=row[1], name=row[2], application=row[3], labels=row[4], owner=row[5], description=row[6]
        ),
        created_at=row[7],
        rev=row[8],
        valid_from=row[9],
        mode=Mode(row[10]),
        reason=row[11],
        document=row[12],
        spec=decode_schedule(row[13]),
        program=ProgramRef(
            id=ProgramId(row[14]), rev=row[15], namespace=row[16], name=row[17], spec=decode_program(row[18])
        ),
        cursor=row[19],
        cursor_rev=row[20],
        next_due=row[21],
        last_fire=row[22],
        held_expires=row[23],
    )


async def schedule_records(session: Session, ids: Sequence[int]) -> list[ScheduleRecord]:
    """Living schedules by id, ascending."""
    return [schedule_record(row) for row in await session.rows(CONTROL.schedule_records, ids=Ints(ids))] if ids else []


def _attempt_record(row: Row, state: str) -> AttemptRecord:
    return AttemptRecord(
        key=AttemptKey(RunKey(row[0], ScheduleId(row[1]), row[2]), row[3]),
        state=row[4] or state,
        backend=row[5],
        backend_id=row[6],
        fence=row[7],
        host=row[8],
        created_at=row[9],
        started_at=row[10],
        finished_at=row[11],
        error=row[12],
    )


def _run_record(row: Row, attempts: Iterable[Row]) -> RunRecord:
    return RunRecord(
        key=RunKey(row[0], ScheduleId(row[1]), row[2]),
        namespace=row[3],
        schedule=row[4],
        rev=row[5],
        program=row[6],
        state=State(row[7]),
        reason=row[8],
        fire_time=row[9],
        fire_time_to=row[10],
        previous_fire=row[11],
        count=row[12],
        cause=Cause(row[13]),
        caused_by=row[14],
        given=row[15],
        arguments=row[16],
        priority=row[17],
        created_at=row[18],
        ready_at=row[19],
        started_at=row[20],
        finished_at=row[21],
        expires_at=row[22],
        wake_at=row[23],
        wake_key=row[24],
        waiting_for=tuple(row[25] or ()),
        merged_into=row[26],
        stop=row[27],
        evidence=row[28],
        inputs=row[29],
        attempts=tuple(_attempt_record(attempt, row[7]) for attempt in attempts),
        crash=None if row[30] is None else Crash(retry_at=row[30], restart_at=row[31]),
    )


async def run_records(session: Session, keys: Sequence[RunKey]) -> list[RunRecord]:
    """These runs, with their attempts, in the order given; those that are not there are left out."""
    if not keys:
        return []
    wanted = columns(keys)._asdict()
    rows = {(row[0], row[1], row[2]): row for row in await session.rows(LEDGER.run, **wanted)}
    attempts: dict[tuple[int, int, int], list[Row]] = {}
    for attempt in await session.rows(LEDGER.attempts, **wanted):
        attempts.setdefault((attempt[0], attempt[1], attempt[2]), []).append(attempt)
    return [_run_record(rows[key], attempts.get(key, ())) for key in keys if key in rows]


async def stretch_records(session: Session, keys: Sequence[tuple[int, int]]) -> list[RunRecord]:
    """Stretches by (first fire, schedule), in the order given."""
    if not keys:
        return []
    found = await session.rows(
        LEDGER.stretch, slots=Ints(key[0] for key in keys), schedules=Ints(key[1] for key in keys)
    )
    rows = {(row[0], row[1]): row for row in found}
    return [_run_record(rows[key], ()) for key in keys if key in rows]
