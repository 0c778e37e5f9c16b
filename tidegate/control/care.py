"""Runs that maintain tables: ordinary runs of the ledger, in a namespace of their own.

Each operation on each table is a schedule without a trigger, so that its runs, its statistics and its time-out are its
own. All schedules of one table are in one group that lets one run go at a time, whoever asked for it: so maintenance
excludes itself on a table, across operations, schedulers and people.
"""

from __future__ import annotations

import hashlib

from tidegate.control import programs, schedules
from tidegate.control.common import OnUpdate
from tidegate.documents import encode
from tidegate.documents.declared import Program, Schedule
from tidegate.documents.scalars import is_name
from tidegate.domain.constraints import Concurrency
from tidegate.domain.errors import Conflict
from tidegate.domain.ids import RunKey
from tidegate.domain.instants import Instant
from tidegate.domain.maintenance import handover
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.maintenance.state import NO_HISTORY, began
from tidegate.domain.maintenance.wire import history_json, history_of
from tidegate.domain.programs import Maintenance, ProgramRef
from tidegate.domain.runs import Cause
from tidegate.domain.schedules import JsonObject, ScheduleSpec, Timeout
from tidegate.domain.triggers import Never
from tidegate.ports.control import ControlTx
from tidegate.ports.maintaining import Wish
from tidegate.ports.records import Metadata
from tidegate.ports.tables import CareOrder

NAMESPACE, PROGRAM = programs.MAINTENANCE
BY = "tidegate"


async def begin(tx: ControlTx, wish: Wish, now: Instant) -> RunKey:
    """Make the run of an operation on a table, and reserve it; whoever calls holds the maintenance lock. Raises
    Conflict when the namespace has a program of the needed name that is something else."""
    program = await _program(tx, now)
    name, group = schedule_of(wish.table, wish.operation), _named(wish.table)
    spec = ScheduleSpec(
        program=PROGRAM,
        trigger=Never(),
        groups=(group,),
        constraints=(Concurrency(max=1, scope=f"group:{group}"),),
        timeout=Timeout(run=wish.timeout),
    )
    said = Metadata(namespace=NAMESPACE, name=name, labels={"table": wish.table, "operation": wish.operation.value})
    document = encode.schedule(spec, enabled=True)
    declaration = Schedule(metadata=said, spec=spec, enabled=True, document=document)
    stored = next(iter(await tx.lock_schedules(NAMESPACE, [name])), None)
    written = await schedules.write(tx, declaration, stored, program, who=BY, on_update=OnUpdate.KEEP)
    run = await tx.add_run(
        written.record.id,
        cause=Cause.MANUAL if wish.manual else Cause.EVIDENCE,
        caused_by=wish.who,
        fire_time=None,
        previous_fire=None,
        given=arguments_of(wish),
        priority=spec.priority,
        now=now,
    )
    order = CareOrder(
        run=run,
        table=wish.table,
        operation=wish.operation.value,
        policy=wish.policy,
        policy_rev=wish.policy_rev,
        manual=wish.manual,
        bytes=wish.bytes,
    )
    await tx.reserve([order], now)
    history = NO_HISTORY if wish.history is None else history_of(wish.history)
    await tx.put_care({wish.table: {wish.operation.value: history_json(began(history, str(run), now))}})
    return run


def arguments_of(wish: Wish) -> JsonObject:
    """What the run is given."""
    return {
        "table": wish.table,
        "operation": wish.operation.value,
        "options": dict(wish.options),
        "policy": wish.policy or None,
        "policy_version": wish.policy_rev or None,
        handover.KEEP: [str(one) for one in wish.keep],
        **({handover.AFTER: [dict(one) for one in wish.after]} if wish.after else {}),
        **({handover.FORCE: True} if wish.manual else {}),
    }


async def _program(tx: ControlTx, now: Instant) -> ProgramRef:
    stored = next(iter(await tx.lock_programs(NAMESPACE, [PROGRAM])), None)
    if stored is not None and not isinstance(stored.ref.spec, Maintenance):
        raise Conflict(
            f"program {NAMESPACE}/{PROGRAM} is of type {stored.ref.kind}, but its name is needed to maintain tables",
            remedy=f"Delete it: tidegate delete program {PROGRAM} -n {NAMESPACE}",
        )
    if stored is not None:
        return stored.ref
    said = Metadata(namespace=NAMESPACE, name=PROGRAM, labels={})
    spec = Maintenance()
    declaration = Program(metadata=said, spec=spec, document={"spec": encode.program(spec)})
    return (await programs.write(tx, declaration, None, who=BY, now=now)).record.ref


def schedule_of(table: str, operation: Operation) -> str:
    """The name of the schedule of an operation on a table."""
    return _named(f"{table}.{operation.value}")


def _named(text: str) -> str:
    """As it is where it may be a name; else what of it may, and a digest of all."""
    if is_name(text):
        return text
    kept = "".join(one if one.isascii() and (one.isalnum() or one in "._-") else "_" for one in text)
    return f"t{kept[:80]}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
