"""What triggers collect, in memory: reading trees together with what came, and writing what came of it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidegate.domain.collected import Amount, Arrival, Bulk, Deadline, Evidence, Facts, Marks, Need, Subscription, Topic
from tidegate.domain.events import DATASET_UPDATED
from tidegate.domain.evidence import Owed, Reading, after, datasets, document, united
from tidegate.domain.ids import RunKey, ScheduleId, parse_run_id
from tidegate.domain.instants import Instant
from tidegate.domain.looking import subscriptions
from tidegate.domain.progress import PUT_OFF, begin, ticks_from
from tidegate.domain.runs import Cause
from tidegate.domain.schedules import Waiting
from tidegate.domain.triggers import collects
from tidegate.domain.waiting import joined, policy_under
from tidegate.ports.collecting import Collected, Collecting
from tidegate.sim.memory.data import Data
from tidegate.sim.memory.deadlines import watch_deadline
from tidegate.sim.memory.event_rows import (
    ArrivalRow,
    DeadlineRow,
    Place,
    ProgressRow,
    Reset,
    SetAsideRow,
    SubscriptionRow,
)
from tidegate.sim.memory.rows import ScheduleRow
from tidegate.sim.memory.waiting import WaitingTransaction

Get = Callable[[Any, Any], Any]


class CollectingTransaction(WaitingTransaction):
    """`ports.collecting.CollectingTx`, `MatcherTx` and `EventControlTx`, but for publishing."""

    __slots__ = ()

    # reading
    async def collections(
        self, schedules: Collection[ScheduleId], now: Instant, ticks: Mapping[ScheduleId, Instant] | None = None
    ) -> Sequence[Collecting]:
        self.check()
        await self.lock_all("clock", schedules)
        found = []
        for schedule in sorted(set(schedules)):
            tick = (ticks or {}).get(schedule)
            read = read_collecting(self.data, self.get, self.subscriptions_of(schedule), schedule, now, tick)
            if read is not None:
                collecting, self.readings[schedule] = read
                found.append(collecting)
        return found

    def subscriptions_of(self, schedule: int) -> list[tuple[int, int, int]]:
        """Its rows as this transaction sees them."""
        data = self.data
        keys = set(data.subscriptions_of.get(schedule, ()))
        keys |= {key for key in self.own[data.subscription.number] or {} if key[0] == schedule}
        return sorted(key for key in keys if self.get(data.subscription, key) is not None)

    async def claim_inbox(self, now: Instant, limit: int) -> Sequence[ScheduleId]:
        self.check()
        data = self.data
        found: dict[int, None] = {}
        claimed = 0
        for place, topic in list(data.inbox.rows.items()):
            if claimed >= limit:
                break
            if self.try_lock(data.inbox, place):
                claimed += 1
                self.delete(data.inbox, place)
                total = data.topic.rows[topic]
                for key in data.subscribers.get(topic, ()):
                    if data.subscription.rows[key].reached(total):
                        found[key[0]] = None
        return [ScheduleId(one) for one in sorted(found)]

    async def claim_deadlines(self, now: Instant, limit: int) -> Sequence[ScheduleId]:
        self.check()
        data = self.data
        found: list[ScheduleId] = []
        for at, schedule in list(data.deadlines):
            if at > now or len(found) >= limit:
                break
            if self.try_lock(data.clock, schedule):
                found.append(ScheduleId(schedule))
        return found

    # writing
    async def collect(self, results: Sequence[Collected], now: Instant) -> int:
        self.check()
        grown = 0
        for result in sorted(results, key=lambda one: one.collecting.schedule_id):
            for place, fire in enumerate(result.advance.fires):
                await self._fired(result, fire, now)
                grown += 1
                self._pass(result.collecting.schedule_id, fire, place)
            self._write(result)
        await self.wake_others(now)
        return grown

    def _pass(self, schedule: int, fire: Evidence, place: int) -> None:
        """What a fire consumed is behind it."""
        places = self.readings[schedule]
        readings = after([one.reading for one in places], fire)
        self.readings[schedule] = [one._replace(reading=new) for one, new in zip(places, readings, strict=True)]

    async def _fired(self, result: Collected, fire: Evidence, now: Instant) -> None:
        data, schedule = self.data, result.collecting.schedule_id
        spec, policy = result.collecting.revision.spec, policy_under(result.collecting.revision)
        evidence = document(spec.trigger, fire, [one.reading for one in self.readings[schedule]])
        merging = policy.runs is Waiting.MERGE and result.into is None
        survivor = await self.survivor(schedule) if merging else None
        key = joined(
            policy,
            claimed=result.into,
            ticked=self._ticked(result, fire),
            survivor=survivor.key if survivor is not None else None,
        )
        new = key is None
        if key is None:
            made = await self.new_run(schedule, Cause.EVIDENCE, "", fire.fire_time, None, now)
            await self.make_room(made, policy, now)
            key = made.key
        run = self.edit(data.run, key)
        run.evidence = united(run.evidence, evidence)
        if new:
            watch_deadline(run, spec, now)
        run.fire_time = fire.fire_time if run.fire_time is None else run.fire_time
        run.priority = max(run.priority, spec.priority)

    def _ticked(self, result: Collected, fire: Evidence) -> RunKey | None:
        """The clock's own run of this instant, or the one that it joined."""
        if not result.is_tick(fire):
            return None
        own = self.get(self.data.run, RunKey(fire.at, result.collecting.schedule_id, 0))
        if own is None or own.merged_into is None:
            return None if own is None else own.key
        return parse_run_id(own.merged_into)

    def _write(self, result: Collected) -> None:
        """Progress, deadlines, and how far subscriptions have been read."""
        data, schedule, advance = self.data, result.collecting.schedule_id, result.advance
        for place in self.readings[schedule]:
            subscription, end = place.reading.subscription, place.reading.end
            marks = advance.needs.get(subscription, Need()).beyond(end, place.rows, place.bytes)
            tally = advance.progress.tallies.get(subscription.node)
            new = place.row._replace(
                base=place.reading.base if tally is not None and tally.amount.n else end,
                seen=end,
                seen_rows=place.rows,
                seen_bytes=place.bytes,
                marks=marks,
                again=(),
            )
            self.put(data.subscription, new.place, new)
            if marks.nearer_than(place.row.marks):
                self.notice(place.reading.key_id)
        self.edit(data.progress, schedule).progress = advance.progress
        self.set_deadlines(schedule, advance.deadlines)

    async def set_aside(self, schedule: ScheduleId, error: str, now: Instant) -> None:
        self.check()
        data = self.data
        await self.lock(data.clock, schedule)
        ranges = []
        for key in self.subscriptions_of(schedule):
            row, topic = self.get(data.subscription, key), data.topic.rows[key[2]]
            assert row is not None
            if topic.n > row.seen or row.again:
                ranges += [
                    (key[1], key[2], *again) for again in (*row.again, (row.seen, topic.n)) if again[1] > again[0]
                ]
            moved = row._replace(
                base=topic.n, seen=topic.n, seen_rows=topic.rows, seen_bytes=topic.bytes,
                marks=Marks(topic.n + 1, None, None), again=(),
            )  # fmt: skip
            self.put(data.subscription, key, moved)
            self.notice(key[2])
        if self.get(data.progress, schedule) is not None:
            self.set_deadlines(schedule, _put_off(self.get(data.deadline, schedule), now))
        count = len({data.arrivals[topic][n].pos for _, topic, low, high in ranges for n in range(low, high)})
        known = any(
            one.schedule_id == schedule and one.error == error and not one.replayed
            for _, one in self.scan(data.set_aside)
        )
        if count or not known:
            data.set_aside_ids += 1
            fresh = SetAsideRow(data.set_aside_ids, schedule, error, now, count, tuple(ranges))
            self.put(data.set_aside, fresh.id, fresh)

    # people
    async def reset_progress(self, schedule: ScheduleId, now: Instant) -> None:
        self.check()
        data = self.data
        await self.lock(data.clock, schedule)
        behind: dict[tuple[int, int], int] = {}
        for key in self.subscriptions_of(schedule):
            old = self.get(data.subscription, key)
            assert old is not None
            behind[key[1:]] = old.seen
            self.delete(data.subscription, key)
        if self.get(data.progress, schedule) is not None:
            self.delete(data.progress, schedule)
        if self.get(data.deadline, schedule) is not None:
            self.delete(data.deadline, schedule)
        for place, _ in list(self.scan(data.owed)) if behind else ():
            if place[0] == schedule:
                self.delete(data.owed, place)
        row = self.get(data.schedule, schedule)
        bases = self._subscribe(row, now) if row is not None and is_collecting(row) else {}
        if row is not None:
            self.append(data.resets, Reset(now, schedule, row.newest.revision.rev, bases, behind))

    def _subscribe(self, row: ScheduleRow, now: Instant) -> dict[tuple[int, int], int]:
        data, trigger = self.data, row.newest.revision.spec.trigger
        facts = Facts(
            enabled_at=now,
            last_start=None,
            busy=is_busy(data, self.get, row.id),
            ticks_from=ticks_from(row.newest.revision.spec.catch_up, now),
        )
        first = begin(trigger, facts)
        bases: dict[tuple[int, int], int] = {}
        for subscription in subscriptions(trigger):
            number = data.topic_of(subscription.topic)
            topic = data.topic.rows[number]
            marks = first.needs.get(subscription, Need()).beyond(topic.n, topic.rows, topic.bytes)
            place = (row.id, subscription.node, number)
            bases[place[1:]] = topic.n
            fresh = SubscriptionRow(place, topic.n, topic.n, topic.rows, topic.bytes, marks)
            self.put(data.subscription, place, fresh)
            self.notice(number)
        for dataset in datasets(trigger):
            topic = data.topic.rows[data.topic_of(updated(dataset))]
            self.put(data.owed, (row.id, dataset), Owed(n=topic.n))
        self.put(data.progress, row.id, ProgressRow(row.id, first.progress, now, row.newest.revision.rev))
        self.set_deadlines(row.id, first.deadlines)
        self.topics["events"] = None
        return bases

    async def replay(self, set_aside: int, now: Instant) -> None:
        self.check()
        data = self.data
        row = self.get(data.set_aside, set_aside)
        if row is None or row.replayed:
            return
        await self.lock(data.clock, row.schedule_id)
        await self.lock(data.set_aside, set_aside)
        row = self.edit(data.set_aside, set_aside)
        row.replayed = True
        for node, topic, low, high in row.ranges:
            key = (row.schedule_id, node, topic)
            subscription = self.get(data.subscription, key)
            if subscription is not None:  # a tree that has another shape by now takes what it still listens to
                again = (*subscription.again, (low, high))
                self.put(data.subscription, key, subscription._replace(again=again))
                self.notice(topic)


def updated(dataset: str) -> Topic:
    """The topic of a dataset's new data."""
    return Topic(DATASET_UPDATED, dataset)


def is_collecting(row: ScheduleRow) -> bool:
    newest = row.newest.revision
    return row.deleted_at is None and newest.mode.works and collects(newest.spec.trigger)


def is_busy(data: Data, get: Get, schedule: int) -> bool:
    """Whether a run of it waits or works."""
    return any((run := get(data.run, key)) is not None and run.live for key in data.live_of.get(schedule, ()))


def _put_off(row: DeadlineRow | None, now: Instant) -> list[Deadline]:
    return [replace(one, at=max(one.at, now + PUT_OFF)) for one in (row.deadlines if row else ())]


# ── reading ────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_collecting(
    data: Data,
    get: Get,
    keys: Sequence[tuple[int, int, int]],
    schedule: int,
    now: Instant,
    tick: Instant | None = None,
) -> tuple[Collecting, list[Place]] | None:
    """A tree with all that is acknowledged for it; None where the schedule does not collect."""
    row, progress = get(data.schedule, schedule), get(data.progress, schedule)
    if row is None or progress is None or not is_collecting(row):
        return None
    stored = get(data.deadline, schedule)
    due = [one for one in stored.deadlines if one.at <= now] if stored else []
    wanted = {(one.node, data.topic_of(one.topic)): one for one in subscriptions(row.newest.revision.spec.trigger)}
    rows = [get(data.subscription, key) for key in keys]
    late = min([at for at in (tick, due[0].at if due else None) if at is not None], default=None)
    crossing = min([_crossing(data, one, late) for one in rows], default=1 << 62)
    bulks: list[Bulk] = []
    singles: dict[int, list[tuple[ArrivalRow, Subscription]]] = {}
    parts = []
    for one in rows:
        log, subscription = data.arrivals[one.place[2]], wanted[one.place[1:]]
        split = bisect_left(log, crossing, lo=one.seen, key=lambda arrival: arrival.pos)
        if split > one.seen:
            last = log[split - 1]
            amount = Amount(n=split - one.seen, rows=last.rows - one.seen_rows, bytes=last.bytes - one.seen_bytes)
            bulks.append(
                Bulk(subscription=subscription, amount=amount, first_at=log[one.seen].at, last_at=last.at)
            )  # fmt: skip
        repeated = [arrival for low, high in one.again for arrival in log[low:high]]
        for arrival in (*repeated, *log[split:]):
            singles.setdefault(arrival.pos, []).append((arrival, subscription))
        parts.append((one, subscription, split))
    given, at_of = _in_order(singles)
    places = []
    for one, subscription, split in parts:
        log = data.arrivals[one.place[2]]
        ones = tuple([(arrival.pos, at_of[arrival.pos], arrival.n) for arrival in log[split:]])
        reading = Reading(subscription=subscription, key_id=one.place[2], base=one.base, bulk=split, singles=ones)
        total, size = (log[-1].rows, log[-1].bytes) if log else (0, 0)
        places.append(Place(one, reading, total, size))
    clock = get(data.clock, schedule)
    collecting = Collecting(
        schedule_id=ScheduleId(schedule),
        name=row.name,
        revision=row.newest.revision,
        program=get(data.program, clock.program_id).ref,
        progress=progress.progress,
        bulk=tuple(bulks),
        given=(*given, *due),
        facts=Facts(
            enabled_at=progress.enabled_at,
            last_start=progress.last_start,
            last_end=progress.last_end,
            busy=is_busy(data, get, schedule),
            ticks_from=ticks_from(row.newest.revision.spec.catch_up, now),
        ),
        clock_due=clock.next_due,
    )
    return collecting, places


def _crossing(data: Data, row: SubscriptionRow, due: Instant | None) -> int:
    """The position of the first arrival that has to be given singly: a need is reached, or a deadline came before."""
    log = data.arrivals[row.place[2]]
    places = []
    for need, key in (
        (row.marks.n, lambda one: one.n),
        (row.marks.rows, lambda one: one.rows),
        (row.marks.bytes, lambda one: one.bytes),
    ):
        if need is not None:
            places.append(bisect_left(log, need, lo=row.seen, key=key))
    if due is not None:
        places.append(bisect_right(log, due, lo=row.seen, key=lambda one: one.at))
    first = min(places, default=len(log))
    return log[first].pos if first < len(log) else 1 << 62


def _in_order(
    singles: dict[int, list[tuple[ArrivalRow, Subscription]]],
) -> tuple[list[Arrival], dict[int, Instant]]:
    """Arrivals by position. One that is earlier by the clock than the one before it counts from that one's instant."""
    found: list[Arrival] = []
    at_of: dict[int, Instant] = {}
    at = 0
    for pos, ones in sorted(singles.items()):
        arrival = ones[0][0]
        at = max(at, *[one.at for one, _ in ones])
        at_of[pos] = at
        found.append(
            Arrival(
                pos=pos,
                at=at,
                subscriptions=tuple(subscription for _, subscription in ones),
                amount=arrival.amount,
                payload=arrival.event.payload or {},
            )
        )
    return found, at_of
