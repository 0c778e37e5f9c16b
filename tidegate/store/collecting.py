"""The matcher's side: what triggers collect, and the runs that come of it.

Whoever holds a schedule's clock owns what its tree has collected: subscriptions, progress, deadlines, and what is owed.
Everything that one fold decides is written in the transaction that read it, so nothing is lost or taken twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.domain import deadlines
from tidegate.domain.collected import Advance, Need
from tidegate.domain.evidence import Reading, after, document, united
from tidegate.domain.ids import RunKey, ScheduleId, parse_run_id
from tidegate.domain.instants import Instant
from tidegate.domain.progress import PUT_OFF
from tidegate.domain.schedules import Waiting, WaitingPolicy
from tidegate.domain.waiting import joined, policy_under
from tidegate.ports.collecting import Collected, Collecting
from tidegate.store.arrays import Ints, Texts
from tidegate.store.codec import to_json
from tidegate.store.connection import Session
from tidegate.store.deadlines import first_looks
from tidegate.store.events import PublishingTx
from tidegate.store.partitions import day_of
from tidegate.store.progress_codec import encode_progress
from tidegate.store.reading import Place, Tree, read_trees
from tidegate.store.sql import load
from tidegate.store.transactions import Parts, spanning
from tidegate.store.waiting import make_room

Q = load("collecting")
MOST_AT_ONCE = 1000
"""Schedules that one claim of the inbox hands out: an event that reaches a hundred thousand must not become one
transaction of many seconds."""


@dataclass(slots=True)
class _Run:
    """A run that a fire made or joined, until it is written."""

    key: RunKey
    evidence: Any
    fire_time: Instant | None
    priority: int
    tree: Tree
    new: bool = False


class CollectingTx(PublishingTx):
    """See `ports.collecting.MatcherTx`."""

    def __init__(self, parts: Parts, session: Session, *rest: Any) -> None:
        super().__init__(parts, session, *rest)
        self.trees: dict[int, Tree] = {}

    async def collections(
        self, schedules: Collection[ScheduleId], now: Instant, ticks: Mapping[ScheduleId, Instant] | None = None
    ) -> Sequence[Collecting]:
        if not schedules:
            return []
        await self.verify()
        trees = await read_trees(self.session, self.parts.definitions, schedules, now, locking=True, ticks=ticks)
        self.trees.update((tree.id, tree) for tree in trees)
        return [tree.collecting for tree in trees]

    async def claim_inbox(self, now: Instant, limit: int) -> Sequence[ScheduleId]:
        return [ScheduleId(row[0]) for row in await self.fetch(Q.claim_inbox, limit=limit, most=MOST_AT_ONCE)]

    async def claim_deadlines(self, now: Instant, limit: int) -> Sequence[ScheduleId]:
        return [ScheduleId(row[0]) for row in await self.fetch(Q.claim_deadlines, now=now, limit=limit)]

    # ── writing ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def collect(self, results: Sequence[Collected], now: Instant) -> int:
        results = sorted(results, key=lambda one: one.collecting.schedule_id)
        if not results:
            return 0
        grown = sum(len(one.advance.fires) for one in results)
        if grown:
            await self._fire([one for one in results if one.advance.fires], now)
        await self._write(results, now)
        return grown

    async def _fire(self, results: Sequence[Collected], now: Instant) -> None:
        await self.ready_for(now, [now])
        survivors, ticked = await self._survivors(results), await self._ticked(results)
        runs: dict[RunKey, _Run] = {}
        fresh: dict[int, list[_Run]] = {}
        for result in results:
            tree = self.trees[result.collecting.schedule_id]
            spec, policy = tree.revision.spec, policy_under(tree.revision)
            readings = [place.reading for place in tree.places if place.reading is not None]
            for fire in result.advance.fires:
                evidence = document(spec.trigger, fire, readings)
                readings = list(after(readings, fire))
                own = ticked.get((tree.id, fire.at)) if result.is_tick(fire) else None
                key = joined(policy, claimed=result.into, ticked=own, survivor=survivors.get(tree.id))
                if key is None:
                    run = _Run(RunKey(now, tree.id, 0), evidence, fire.fire_time, spec.priority, tree, new=True)
                    fresh.setdefault(tree.id, []).append(run)
                    if policy.runs is Waiting.MERGE:  # further fires of this pass join it
                        survivors[tree.id] = run.key
                        runs[run.key] = run
                    continue
                run = runs.setdefault(key, _Run(key, None, None, spec.priority, tree))
                run.evidence = united(run.evidence, evidence)
                run.fire_time = fire.fire_time if run.fire_time is None else run.fire_time
            self._pass(tree, readings)
        await self._grow([run for run in runs.values() if not run.new], now)
        await self._add(fresh, now)

    async def _survivors(self, results: Sequence[Collected]) -> dict[int, RunKey]:
        """Of each schedule whose runs merge the one that waits, locked."""
        ids = [one.collecting.schedule_id for one in results if one.into is None]
        merging = {one for one in ids if policy_under(self.trees[one].revision).runs is Waiting.MERGE}
        rows = await self.fetch(Q.survivors, schedules=Ints(sorted(merging))) if merging else []
        return {row[1]: RunKey(row[0], ScheduleId(row[1]), row[2]) for row in rows}

    async def _ticked(self, results: Sequence[Collected]) -> dict[tuple[int, Instant], RunKey]:
        """(schedule, tick) -> the clock's own run, or the one that it joined."""
        ticks = [RunKey(at, one.collecting.schedule_id, 0) for one in results for at in one.ticks]
        rows = await self.fetch(Q.evidence, **spanning(ticks)) if ticks else []
        return {
            (schedule, slot): RunKey(slot, ScheduleId(schedule), order) if into is None else parse_run_id(into)
            for slot, schedule, order, _, _, into in rows
        }

    def _pass(self, tree: Tree, readings: Sequence[Reading]) -> None:
        """What fires consumed is behind it."""
        own = iter(readings)
        for place in tree.places:
            if place.reading is not None:
                place.reading = next(own)

    async def _grow(self, runs: Sequence[_Run], now: Instant) -> None:
        """Evidence joins runs that are there."""
        if not runs:
            return
        runs = sorted(runs, key=lambda run: run.key)
        keys = spanning(run.key for run in runs)
        rows = await self.fetch(Q.evidence, **keys)
        known = {RunKey(row[0], ScheduleId(row[1]), row[2]): row[3] for row in rows}
        await self.session.send(
            Q.write_evidence,
            **keys,
            evidences=Texts(to_json(united(known.get(run.key), run.evidence)) for run in runs),
            fire_times=Ints(run.fire_time for run in runs),
            priorities=Ints(run.priority for run in runs),
        )
        await self.session.send(Q.raise_priorities, **keys, priorities=Ints(run.priority for run in runs))

    async def _add(self, fresh: Mapping[int, Sequence[_Run]], now: Instant) -> None:
        """New waiting runs, which may be the last to wait."""
        if not fresh:
            return
        counts = {schedule: len(runs) for schedule, runs in fresh.items()}
        rows = await self.fetch(
            Q.take_numbers, schedules=Ints(sorted(counts)), counts=Ints(counts[one] for one in sorted(counts))
        )
        last = {row[0]: row[1] for row in rows}
        runs = [
            (last[schedule] - counts[schedule] + place + 1, run)
            for schedule in sorted(fresh)
            for place, run in enumerate(fresh[schedule])
        ]
        timeouts = [run.tree.revision.spec.waiting.timeout for _, run in runs]
        await self.session.send(
            Q.add_runs,
            schedules=Ints(run.tree.id for _, run in runs),
            ords=Ints(number for number, _ in runs),
            revs=Ints(run.tree.revision.rev for _, run in runs),
            programs=Ints(run.tree.collecting.program.id for _, run in runs),
            fire_times=Ints(run.fire_time for _, run in runs),
            priorities=Ints(run.priority for _, run in runs),
            expires=Ints(None if timeout is None else now + timeout for timeout in timeouts),
            kinds=Texts(run.tree.collecting.program.kind for _, run in runs),
            pools=Texts(run.tree.collecting.program.pool for _, run in runs),
            evidences=Texts(to_json(run.evidence) for _, run in runs),
            **first_looks(
                (deadline, deadlines.base(deadline, due=now, first_arrival=deadlines.first_arrival(run.evidence)))
                if (deadline := run.tree.revision.spec.deadline)
                else (None, now)
                for _, run in runs
            ),
            now=now,
            day=day_of(now),
        )
        self.parts.wake.lower(now)
        self.tell("admit")
        limits: dict[int, WaitingPolicy] = {run.tree.id: policy_under(run.tree.revision) for _, run in runs}
        await make_room(self, limits, now)

    async def _write(self, results: Sequence[Collected], now: Instant) -> None:
        """Progress, deadlines, and how far subscriptions have been read."""
        places: list[tuple[Place, Advance]] = []
        for result in results:
            places += [(place, result.advance) for place in self.trees[result.collecting.schedule_id].places]
        await write_places(self, places)
        schedules = [one.collecting.schedule_id for one in results]
        await self.session.send(
            Q.write_progress,
            schedules=Ints(schedules),
            docs=Texts(encode_progress(one.advance.progress) for one in results),
        )
        await self.session.send(Q.clear_deadlines, schedules=Ints(schedules))
        deadlines = [(one.collecting.schedule_id, deadline) for one in results for deadline in one.advance.deadlines]
        if deadlines:
            await self.session.send(
                Q.write_deadlines,
                schedules=Ints(schedule for schedule, _ in deadlines),
                nodes=Ints(one.node for _, one in deadlines),
                ats=Ints(one.at for _, one in deadlines),
            )
            self.tell("events")  # somebody may sleep to a later one

    async def set_aside(self, schedule: ScheduleId, error: str, now: Instant) -> None:
        await set_aside(self, schedule, error, now)


async def write_places(tx: PublishingTx, places: Sequence[tuple[Place, Advance]]) -> None:
    """How far subscriptions have read, and what they need next. A need that became smaller puts its topic into the
    inbox: somebody who claimed an entry meanwhile looked at the larger one."""
    if not places:
        return
    rows = []
    noticed: list[int] = []
    for place, advance in places:
        reading = place.reading
        assert reading is not None
        end = place.n
        marks = advance.needs.get(place.subscription, Need()).beyond(end, place.rows, place.bytes)
        tally = advance.progress.tallies.get(place.node)
        base = reading.base if tally is not None and tally.amount.n else end
        rows.append((place.schedule, place.node, place.key, base, end, place.rows, place.bytes, _day(place), *marks))
        if marks.nearer_than(place.needs):
            noticed.append(place.key)
    schedules, nodes, keys, bases, seens, seen_rows, seen_bytes, days, needs, need_rows, need_bytes = zip(
        *rows, strict=True
    )
    await tx.session.send(
        Q.write_places,
        schedules=Ints(schedules),
        nodes=Ints(nodes),
        keys=Ints(keys),
        bases=Ints(bases),
        seens=Ints(seens),
        seen_rows=Ints(seen_rows),
        seen_bytes=Ints(seen_bytes),
        days=Ints(days),
        needs=Ints(needs),
        need_rows=Ints(need_rows),
        need_bytes=Ints(need_bytes),
    )
    await tx.notice(noticed)


def _day(place: Place) -> int:
    """The day of the last arrival that was read: nothing before it is asked for again."""
    return max(place.day, day_of(place.last_at)) if place.n else place.day


async def set_aside(tx: PublishingTx, schedule: ScheduleId, error: str, now: Instant) -> None:
    """See `ports.collecting.CollectingTx.set_aside`. The schedule's clock is held."""
    ranges: list[tuple[int, int, int, int]] = []
    keys = set()
    for row in await tx.fetch(Q.places, schedules=Ints([schedule])):
        _, node, key, _, seen = row[:5]
        ranges += [(node, key, low, high) for low, high in (*(row[11] or ()), (seen, row[15])) if high > low]
        keys.add(key)
    [(count,)] = await tx.fetch(
        Q.count_ranges,
        keys=Ints(key for _, key, _, _ in ranges),
        lows=Ints(low for _, _, low, _ in ranges),
        highs=Ints(high for *_, high in ranges),
    )
    await tx.session.send(
        Q.set_aside, schedule=schedule, error=error, now=now, count=count, ranges=to_json([list(one) for one in ranges])
    )
    await tx.session.send(Q.pass_by, schedule=schedule, day=day_of(now))
    await tx.session.send(Q.put_off, schedule=schedule, until=now + PUT_OFF)
    await tx.notice(keys)
