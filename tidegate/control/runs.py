"""Runs: asked for by hand, cancelled, repeated, looked at."""

from __future__ import annotations

from collections.abc import Collection

from tidegate.control.common import LIMIT, Page, bounded, not_found
from tidegate.domain.errors import Conflict, NotFound, Refused
from tidegate.domain.ids import RunKey, parse_run_id
from tidegate.domain.instants import Instant, format_instant
from tidegate.domain.programs import Maintenance
from tidegate.domain.runs import ENDS, LIVE, Cause, State
from tidegate.domain.schedules import JsonObject
from tidegate.ports.control import ControlStore, ControlTx
from tidegate.ports.records import Change, RunRecord, ScheduleRecord


async def trigger(
    store: ControlStore, namespace: str, schedule: str, *, who: str, arguments: JsonObject | None = None
) -> RunRecord:
    """A manual run, now; works while the schedule is disabled, and moves no clock. Raises NotFound; Refused where the
    schedule maintains a table."""
    if await store.schedule(namespace, schedule) is None:
        known = [one.metadata.name for one in await store.schedules(namespace, None, 1000)]
        raise not_found("schedule", schedule, known, namespace=namespace)
    async with store.changing() as tx:
        stored = await _locked(tx, namespace, schedule)
        _refuse_maintenance(stored)
        now = await tx.now()
        key = await tx.add_run(
            stored.id,
            cause=Cause.MANUAL,
            caused_by=who,
            fire_time=None,
            previous_fire=stored.last_fire,
            given=arguments or None,
            priority=stored.spec.priority,
            now=now,
        )
        after = {"run": str(key), "arguments": dict(arguments or {})}
        await tx.record_change(_change(who, "triggered", "Schedule", namespace, schedule, after), now)
    return await _there(store, key)


async def cancel(store: ControlStore, run_id: str, *, who: str) -> RunRecord:
    """Waiting or ready: cancelled at once; in flight: asked to stop. Asking twice is harmless. Raises NotFound;
    Conflict when it has ended."""
    old = await get(store, run_id)
    if old.state in ENDS and old.state is not State.CANCELLED:
        raise Conflict(f"run {run_id} has ended already: {old.state.value}", remedy="There is nothing to cancel.")
    async with store.changing() as tx:
        now = await tx.now()
        state = await tx.request_stop(old.key, who, now)
        if state in ENDS and state is not State.CANCELLED:
            raise Conflict(f"run {run_id} has ended already: {state.value}", remedy="There is nothing to cancel.")
        if old.state in LIVE and old.stop != "cancel":
            after = {"schedule": old.schedule, "state": state.value}
            await tx.record_change(_change(who, "cancelled", "Run", old.namespace, run_id, after), now)
    return await _there(store, old.key)


async def rerun(store: ControlStore, run_id: str, *, who: str) -> RunRecord:
    """A new run with the old inputs, arguments and fire time. Raises NotFound; Conflict while the old one lives;
    Refused for a stretch of fires, and where it maintained a table."""
    old = await get(store, run_id)
    if old.state in LIVE:
        raise Conflict(f"run {run_id} has not ended: it is {old.state.value}", remedy="Cancel it, or wait for its end.")
    if old.count > 1 and old.fire_time is not None and old.fire_time_to is not None:
        first, last = format_instant(old.fire_time), format_instant(old.fire_time_to)
        raise Refused(
            f"{run_id} stands for {old.count} fires from {first} to {last}, not for one run",
            remedy="Trigger the schedule by hand with the arguments that the range needs.",
        )
    async with store.changing() as tx:
        stored = await _locked(tx, old.namespace, old.schedule)
        if stored.id != old.key.schedule_id:
            raise Conflict(
                f"run {run_id} belongs to an older schedule {old.namespace}/{old.schedule}, which was deleted",
                remedy="Trigger the new schedule instead.",
            )
        _refuse_maintenance(stored)
        now = await tx.now()
        key = await tx.add_run(
            stored.id,
            cause=Cause.RERUN,
            caused_by=run_id,
            fire_time=old.fire_time,
            previous_fire=old.previous_fire,
            given=old.given if old.arguments is None else old.arguments,
            priority=stored.spec.priority,
            now=now,
            **({} if old.inputs is None else {"like": old.key}),
        )
        await tx.record_change(_change(who, "rerun", "Run", old.namespace, run_id, {"run": str(key)}), now)
    return await _there(store, key)


async def get(store: ControlStore, run_id: str) -> RunRecord:
    """Raises NotFound, also for what is no run id."""
    try:
        key = parse_run_id(run_id)
    except ValueError as fault:
        raise NotFound(str(fault)) from None
    found = await store.run(key)
    if found is None:
        raise not_found("run", run_id)
    return found


async def page(
    store: ControlStore,
    namespace: str | None,
    *,
    schedule: str | None = None,
    states: Collection[State] = (),
    since: Instant | None = None,
    cursor: str | None = None,
    limit: int = LIMIT,
) -> Page[RunRecord]:
    """Runs and stretches of missed fires, newest first. No states: all."""
    found, onward = await store.runs(
        namespace, schedule=schedule, states=states, since=since, before=cursor, limit=bounded(limit)
    )
    return Page(tuple(found), onward)


async def queue(
    store: ControlStore, namespace: str | None, *, cursor: str | None = None, limit: int = LIMIT
) -> Page[RunRecord]:
    """Waiting runs, first in rank first."""
    found, onward = await store.queue(namespace, cursor, bounded(limit))
    return Page(tuple(found), onward)


async def _locked(tx: ControlTx, namespace: str, name: str) -> ScheduleRecord:
    found = await tx.lock_schedules(namespace, [name])
    if not found:
        raise not_found("schedule", name, namespace=namespace)
    return found[0]


def _refuse_maintenance(schedule: ScheduleRecord) -> None:
    """What maintains a table is planned by what the table is and who reads from it now, and its budget is reserved:
    neither old arguments nor those of a person take the place of that."""
    if not isinstance(schedule.program.spec, Maintenance):
        return
    labels = schedule.metadata.labels
    table, operation = labels.get("table", "TABLE"), labels.get("operation", "OPERATION")
    raise Refused(
        f"{schedule.metadata.namespace}/{schedule.metadata.name} maintains a table: each of its runs is planned anew",
        remedy=f"To have it maintained now: tidegate tables maintain {table} --operation {operation}",
    )


async def _there(store: ControlStore, key: RunKey) -> RunRecord:
    found = await store.run(key)
    if found is None:
        raise not_found("run", str(key))
    return found


def _change(who: str, action: str, kind: str, namespace: str, name: str, after: JsonObject) -> Change:
    return Change(who=who, action=action, kind=kind, namespace=namespace, name=name, before=None, after=after)
