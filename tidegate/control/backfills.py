"""Backfills: past fire times asked for, looked at beforehand, paused, resumed, cancelled.

What is asked for lies in the past and is decided: a fire that the schedule's clock has not come to is the clock's. What
it will cost is told before anything is made: how many runs, and by what its attempts took so far, how long at least.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from tidegate.control import schedules
from tidegate.control.common import LIMIT, Page, bounded, not_found
from tidegate.domain import backfills, fires
from tidegate.domain.backfills import Asked, BackfillState, Item, Order, Span, Wish, wanted
from tidegate.domain.constraints import Concurrency
from tidegate.domain.errors import Conflict, Fault, Invalid, NotFound
from tidegate.domain.ids import ScheduleId
from tidegate.domain.instants import Duration, Instant, format_instant, parse_instant
from tidegate.domain.runs import LIVE, State
from tidegate.domain.triggers import Trigger
from tidegate.ports.backfills import BackfillRecord
from tidegate.ports.control import ControlStore
from tidegate.ports.records import Change, ScheduleRecord

SHOWN = 100
"""Fire times shown of a preview."""
_SLICE = 10_000  # fire times whose standing is looked up at once, when they are counted
_LOOKED_AT = 5_000  # fire times that a preview looks at for those it shows
_FIRST = parse_instant("1900-01-01T00:00:00Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A fire time that will get a run. `local_time` in the trigger's zone; `note` says what is special about it."""

    fire_time: Instant
    local_time: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a backfill will do. `count` runs, of `total` fire times; `each`: what an attempt took so far; `whole`: all
    of them, as many at a time as may, without what lies between them, so the least (None: it has never run);
    `at_a_time`: how many of its runs may run together."""

    asked: Asked
    total: int
    count: int
    each: Duration | None
    whole: Duration | None
    at_a_time: int
    items: tuple[Planned, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A backfill as it stands, and what it has in hand. `left`: how long the rest will take, by its own pace once some
    of its runs have ended; before that by what the schedule's attempts took so far, which is the least."""

    record: BackfillRecord
    items: tuple[Item, ...]
    left: Duration | None


# ── asked for ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def preview(store: ControlStore, namespace: str, name: str, wish: Wish) -> Preview:
    """What it would do; changes nothing. Raises NotFound, Invalid."""
    record = await schedules.get(store, namespace, name)
    return await _preview(store, record, _asked(record, wish, await store.now()))


async def create(
    store: ControlStore, namespace: str, name: str, wish: Wish, *, who: str
) -> tuple[BackfillRecord, Preview]:
    """Ask for it; works while the schedule is disabled, and moves no clock. Raises NotFound, Invalid."""
    seen = await schedules.get(store, namespace, name)
    shown = await _preview(store, seen, _asked(seen, wish, await store.now()))
    async with store.changing() as tx:
        found = await tx.lock_schedules(namespace, [name])
        if not found:
            raise not_found("schedule", name, namespace=namespace)
        stored, now = found[0], await tx.now()
        asked = _asked(stored, replace(wish, end=wish.end if wish.keys else shown.asked.end), now)
        total = backfills.total(stored.spec.trigger, asked)
        number = await tx.add_backfill(stored.id, stored.rev, asked, total=total, by=who, now=now)
        after = {"backfill": backfills.identity(number), "fire_times": total}
        await tx.record_change(_change(who, "backfilled", "Schedule", namespace, name, after), now)
    return (await get(store, backfills.identity(number))).record, shown


def _asked(record: ScheduleRecord, wish: Wish, now: Instant) -> Asked:
    """The wish, checked against what the schedule says and how far its clock has come. Raises Invalid."""
    trigger, decided = record.spec.trigger, _decided(record, now)
    faults = list[Fault]()
    if not backfills.has_fires(trigger):
        why = f"the trigger of {record.metadata.name!r} has no fire times; trigger it by hand, with arguments"
        faults.append(Fault("keys" if wish.keys else "start", why))
    elif wish.keys:
        faults += _faults_of_keys(trigger, wish.keys, decided)
    else:
        faults += _faults_of_range(wish, decided)
        if wish.order is Order.NEWEST and backfills.counts_from_runs(trigger):
            faults.append(Fault("order", "window_days counts from the run before; only 'oldest' can be walked"))
    if faults:
        raise Invalid(faults, what="the backfill")
    if wish.keys:
        keys = tuple(sorted(set(wish.keys)))
        start, end = keys[0], keys[-1] + 1
    else:
        assert wish.start is not None
        keys, start, end = (), wish.start, min(decided + 1, wish.end if wish.end is not None else decided + 1)
    asked = Asked(
        start=start,
        end=end,
        keys=keys,
        order=wish.order,
        reprocess=wish.reprocess,
        concurrency=wish.concurrency,
    )
    many = fires.count_fires(trigger, start - 1, end - 1) if not keys else len(keys)
    if many > backfills.MOST_FIRES:
        why = f"has {many:,} fire times from here on; one backfill takes {backfills.MOST_FIRES:,} at most, so split it"
        raise Invalid([Fault("start", why)], what="the backfill")
    if many == 0:
        why = f"no fire time lies from here to {format_instant(end)}; see `tidegate preview {record.metadata.name}`"
        raise Invalid([Fault("start", why)], what="the backfill")
    return asked


def _faults_of_range(wish: Wish, decided: Instant) -> list[Fault]:
    start, end = wish.start, wish.end
    if start is None:
        return [Fault("start", "say from when on, or name the fire times as `keys`")]
    faults = []
    if start < _FIRST:
        faults.append(Fault("start", "must not lie before the year 1900"))
    if end is not None and end <= start:
        faults.append(Fault("end", "must lie after start; the fire times are those from start up to, not at, end"))
    elif start > decided:
        why = f"must lie in the past; from {format_instant(decided)} on the schedule's own clock decides"
        faults.append(Fault("start", why))
    return faults


def _faults_of_keys(trigger: Trigger, keys: Sequence[Instant], decided: Instant) -> list[Fault]:
    faults = []
    for number, key in enumerate(keys):
        if not _FIRST <= key <= decided:
            why = f"{format_instant(key)} must lie between the year 1900 and {format_instant(decided)}"
            faults.append(Fault(f"keys[{number}]", why + ", after which the schedule's own clock decides"))
        elif not backfills.is_fire(trigger, key):
            before, after = fires.newest_fire(trigger, key), fires.next_fire(trigger, key)
            near = " and ".join(format_instant(one) for one in (before, after) if one is not None)
            faults.append(Fault(f"keys[{number}]", f"{format_instant(key)} is no fire time; the nearest are {near}"))
    return faults


def _decided(record: ScheduleRecord, now: Instant) -> Instant:
    """Up to when the clock has nothing left to decide. A clock at rest decides nothing of the time it rests."""
    return min(now, record.cursor) if record.next_due is not None else now - 1


async def _preview(store: ControlStore, record: ScheduleRecord, asked: Asked) -> Preview:
    trigger = record.spec.trigger
    total = backfills.total(trigger, asked)
    count = total - await _passed(store, record.id, trigger, asked, total)
    each, at_a_time = await _usual(store, record.id), await _at_a_time(store, record, asked.concurrency)
    return Preview(
        asked=asked,
        total=total,
        count=count,
        each=each,
        whole=None if each is None else -(-count // at_a_time) * each,
        at_a_time=at_a_time,
        items=await _first(store, record, asked),
    )


async def _passed(store: ControlStore, schedule: ScheduleId, trigger: Trigger, asked: Asked, total: int) -> int:
    """How many fire times are left to the run they have. Only what is on record is walked, slice by slice; a slice gets
    longer where there is little."""
    if asked.keys:
        named = await store.standings_in(schedule, [Span(key, key) for key in asked.keys])
        return sum(not wanted(asked.reprocess, one) for one in named.values())
    slices = max(1, -(-total // _SLICE))
    width, at, passed = -(-(asked.end - asked.start) // slices), asked.start, 0
    most = 16 * width
    while at < asked.end:
        last = min(at + width, asked.end) - 1
        found = await store.standings_in(schedule, [Span(at, last)])
        for fire, there in found.items():
            passed += backfills.is_fire(trigger, fire) and not wanted(asked.reprocess, there)
        at = last + 1
        width = min(width * 4, most) if len(found) < _SLICE // 8 else width
    return passed


async def _first(store: ControlStore, record: ScheduleRecord, asked: Asked) -> tuple[Planned, ...]:
    """The first fire times that will get a run."""
    trigger = record.spec.trigger
    found = list[Instant]()
    walk = islice(backfills.upcoming(trigger, asked, asked.beginning), _LOOKED_AT)
    while len(found) < SHOWN and (some := list(islice(walk, 500))):
        there = await store.standings_in(record.id, backfills.Reach(tuple(some), False).spans(asked))
        found += [fire for fire in some if wanted(asked.reprocess, there.get(fire))]
    return tuple(_planned(trigger, fire) for fire in found[:SHOWN])


def _planned(trigger: Trigger, fire: Instant) -> Planned:
    told = next(iter(fires.preview(trigger, fire - 1, 1)), None)
    if told is None or told.fire_time != fire:
        return Planned(fire_time=fire, local_time=format_instant(fire), note="")
    return Planned(fire_time=fire, local_time=told.local_time, note=told.note)


async def _usual(store: ControlStore, schedule: ScheduleId) -> Duration | None:
    """What an attempt took so far."""
    stats = await store.stats(schedule)
    tries = stats.total_successes + stats.total_failures + stats.total_crashes + stats.total_timeouts
    return stats.total_duration // tries if tries else None


async def _at_a_time(store: ControlStore, record: ScheduleRecord, concurrency: int) -> int:
    """How many of its runs may run together: its own limit, the schedule's limits, the pool's slots."""
    limits = [one.max for one in record.spec.constraints if isinstance(one, Concurrency)]
    slots = [pool.slots for pool in await store.pools() if pool.name == record.program.pool]
    return max(1, min([concurrency, *limits, *slots]))


# ── looked at ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def get(store: ControlStore, backfill_id: str) -> Seen:
    """Raises NotFound, also for what is no id of a backfill."""
    found = await store.backfill(_number(backfill_id))
    if found is None:
        raise not_found("backfill", backfill_id)
    record, items = found
    return Seen(record=record, items=tuple(items), left=await _left(store, record))


async def _left(store: ControlStore, record: BackfillRecord) -> Duration | None:
    """How long the rest will take; None: it is over, or nothing is known."""
    if record.state not in (BackfillState.RUNNING, BackfillState.PAUSED):
        return None
    missing = record.total - record.counts.settled
    if record.counts.run:
        return missing * record.worked(await store.now()) // record.counts.run
    schedule = await store.schedule(record.namespace, record.schedule)
    each = await _usual(store, record.schedule_id)
    if schedule is None or schedule.id != record.schedule_id or each is None:
        return None
    return -(-missing // await _at_a_time(store, schedule, record.asked.concurrency)) * each


async def page(
    store: ControlStore,
    namespace: str | None,
    *,
    schedule: str | None = None,
    states: Collection[BackfillState] = (),
    cursor: str | None = None,
    limit: int = LIMIT,
) -> Page[BackfillRecord]:
    """Newest first."""
    if cursor is not None and not cursor.isdecimal():
        reason = f"{cursor!r} is not a position; take it from the answer before, as it is"
        raise Invalid([Fault("cursor", reason)], what="the query")
    size = bounded(limit)
    found = await store.backfills(namespace, schedule=schedule, states=states, before=cursor, limit=size + 1)
    return Page(tuple(found[:size]), str(found[size - 1].id) if len(found) > size else None)


def _number(text: str) -> int:
    try:
        return backfills.parse_identity(text)
    except ValueError as fault:
        raise NotFound(str(fault)) from None


# ── paused, resumed, cancelled ─────────────────────────────────────────────────────────────────────────────────────


async def pause(store: ControlStore, backfill_id: str, *, who: str, reason: str = "") -> Seen:
    """No further run is made, and those that wait are taken back until it is resumed; what runs goes on. Pausing what
    is paused changes nothing. Raises NotFound; Conflict when it is over."""
    return await _set(store, backfill_id, BackfillState.PAUSED, who=who, reason=reason)


async def resume(store: ControlStore, backfill_id: str, *, who: str, reason: str = "") -> Seen:
    """It goes on where it stood. Raises NotFound; Conflict when it is over."""
    return await _set(store, backfill_id, BackfillState.RUNNING, who=who, reason=reason)


async def cancel(store: ControlStore, backfill_id: str, *, who: str, reason: str = "") -> Seen:
    """End it for good, and its runs: those that wait at once, those in flight are asked to stop. Raises NotFound;
    Conflict when it has finished."""
    return await _set(store, backfill_id, BackfillState.CANCELLED, who=who, reason=reason)


_DONE = {BackfillState.PAUSED: "paused", BackfillState.RUNNING: "resumed", BackfillState.CANCELLED: "cancelled"}


async def _set(store: ControlStore, backfill_id: str, state: BackfillState, *, who: str, reason: str) -> Seen:
    number = _number(backfill_id)
    async with store.changing() as tx:
        record = await tx.lock_backfill(number)
        if record is None:
            raise not_found("backfill", backfill_id)
        if record.state is not state:
            if record.state in (BackfillState.FINISHED, BackfillState.CANCELLED):
                remedy = f"Ask for another one: `tidegate backfill create {record.schedule}`."
                raise Conflict(f"backfill {backfill_id} is over: it is {record.state.value}", remedy=remedy)
            now = await tx.now()
            why = reason or f"{_DONE[state]} by {who}"
            alive = [one.run for one in await tx.backfill_items(number, 10_000) if one.run and one.state in LIVE]
            match state:
                case BackfillState.PAUSED:
                    told = f"paused: {reason.rstrip('.')}" if reason else why
                    told = f"Backfill {backfill_id} was {told}."
                    await tx.end_runs(alive, State.SUPERSEDED, told, now)
                case BackfillState.CANCELLED:
                    for run in sorted(alive):
                        await tx.request_stop(run, who, now)
                case _:
                    why = "" if not reason else why
            await tx.set_backfill(number, state, why, now)
            after: dict[str, Any] = {"schedule": record.schedule, "state": state.value}
            change = _change(who, _DONE[state], "Backfill", record.namespace, backfill_id, after)
            await tx.record_change(change, now)
    return await get(store, backfill_id)


def _change(who: str, action: str, kind: str, namespace: str, name: str, after: dict[str, Any]) -> Change:
    return Change(who=who, action=action, kind=kind, namespace=namespace, name=name, before=None, after=after)
