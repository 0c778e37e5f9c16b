"""The worker's side: possible crashes are written down, attempts begin, are asked to stop, end, and are adopted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import floor
from typing import Any

from tidegate.domain.ids import AttemptKey, RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.retry import Finish, RetryAt
from tidegate.domain.runs import Cause, State
from tidegate.domain.statistics import Tally
from tidegate.domain.triggers import collects
from tidegate.ports.engine import AttemptEnd, OpenAttempt, Started
from tidegate.ports.launching import Launch
from tidegate.store.arrays import Bools, Floats, Ints, Texts
from tidegate.store.clocks import lock_after_finish, set_after_finish
from tidegate.store.codec import to_json
from tidegate.store.connection import Row, Session
from tidegate.store.definitions import Definitions
from tidegate.store.holdings import Released, split
from tidegate.store.partitions import day_of
from tidegate.store.sql import load
from tidegate.store.stats import add_stats
from tidegate.store.transactions import FencedTx, ascending, by_partition, columns

Q = load("attempts")
RUNS = load("runs")
COLLECTING = load("collecting")


class AttemptsTx(FencedTx):
    """See `ports.engine.WorkerTx`."""

    async def claim_ready(self, kinds: Collection[str], now: Instant, limit: int) -> Sequence[Launch]:
        host = self.parts.hosts.get(self.fence.instance_id)
        if host is None:  # it comes with the fence, once
            await self.verify()
            host = self.host
        mine = {"instance": self.fence.instance_id, "epoch": self.fence.epoch, "host": host, "now": now}
        wanted = Texts(sorted(kinds))
        rated = await self.session.send(Q.rated_waiting, kinds=wanted)
        rows = await self.fetch(Q.start_ready, kinds=wanted, limit=limit, **mine)
        if limited := await rated.fetchall():
            rows += await self._start_rated([row[0] for row in limited], wanted, limit - len(rows), now, mine)
        return await launches(self.parts.definitions, self.session, rows)

    async def _start_rated(
        self, names: Sequence[str], kinds: Texts, limit: int, now: Instant, mine: Mapping[str, Any]
    ) -> list[Row]:
        """Ready runs of pools with a launch rate, as far as their tokens go."""
        pools = await self.session.rows(Q.lock_rates, names=Texts(names))
        tokens = {row[0]: _tokens(row, now) for row in pools}
        room = {name: min(floor(count), max(limit, 0)) for name, count in tokens.items() if count >= 1}
        if not room or limit <= 0:
            return []
        rows = await self.session.rows(
            Q.start_rated, names=Texts(room), counts=Ints(room.values()), kinds=kinds, **mine
        )
        for row in rows:
            tokens[row[14]] -= 1  # its pool
        await self.session.send(Q.pay, names=Texts(tokens), tokens=Floats(tokens.values()), now=now)
        return rows

    async def next_token(self, kinds: Collection[str], now: Instant) -> Instant | None:
        earliest: Instant | None = None
        for row in await self.fetch(Q.rated_waiting, kinds=Texts(sorted(kinds))):
            missing = 1 - _tokens(row, now)
            at = now if missing <= 0 else now + int(missing * row[2] / row[1]) + 1
            earliest = at if earliest is None else min(earliest, at)
        return earliest

    async def started(self, starts: Sequence[Started], now: Instant) -> None:
        if not starts:
            return
        await self.ready_for(now)
        starts = sorted(starts, key=lambda one: ascending(one.attempt.run))
        await self.session.send(
            Q.started,
            **columns(one.attempt.run for one in starts)._asdict(),
            numbers=Ints(one.attempt.number for one in starts),
            backend_ids=Texts(one.backend_id for one in starts),
            now=now,
            day=day_of(now),
        )

    async def stopping(self, attempts: Sequence[tuple[AttemptKey, str]], now: Instant) -> None:
        if not attempts:
            return
        await self.ready_for(now)
        attempts = sorted(attempts, key=lambda one: ascending(one[0].run))
        keys = columns(key.run for key, _ in attempts)._asdict()
        await self.session.send(RUNS.lock, **keys)
        await self.session.send(
            Q.stopping,
            **keys,
            numbers=Ints(key.number for key, _ in attempts),
            whys=Texts(why for _, why in attempts),
            now=now,
            day=day_of(now),
        )

    async def ended(self, ends: Sequence[AttemptEnd], now: Instant) -> None:
        if not ends:
            return
        await self.ready_for(now)
        ordered = sorted(ends, key=lambda one: ascending(one.attempt.run))
        clocks = await lock_after_finish(self, (one.attempt.run.schedule_id for one in ordered))
        groups = by_partition(ordered, lambda one: one.attempt.run)
        if len(groups) > 1:  # a single statement locks in order by itself
            await self.session.send(RUNS.lock, **columns(one.attempt.run for one in ordered)._asdict())
        closed = [row for partition, some in groups for row in await self._close(partition, some, now)]
        await self._after_ends({one.attempt: one for one in ends}, closed, now)
        await set_after_finish(self, clocks, {row[1]: row[5] for row in closed if row[8]})
        if wakes := [now if one.then.crashed else one.then.at for one in ends if isinstance(one.then, RetryAt)]:
            self.parts.wake.lower(min(wakes))
            self.tell("admit")

    async def _close(self, partition: str, ends: Sequence[AttemptEnd], now: Instant) -> list[Row]:
        finishes = [one.then if isinstance(one.then, Finish) else None for one in ends]
        retries = [one.then if isinstance(one.then, RetryAt) else None for one in ends]
        return await self.fetch(
            Q.ended.at(partition),
            **columns(one.attempt.run for one in ends)._asdict(),
            numbers=Ints(one.attempt.number for one in ends),
            outcomes=Texts(one.outcome for one in ends),
            errors=Texts(to_json(one.error) for one in ends),
            finished=Ints(now - one.ago for one in ends),
            ran=Bools(one.ran for one in ends),
            ends=Texts(one and one.outcome.value for one in finishes),
            reasons=Texts(one and one.reason for one in finishes),
            retries=Ints(one and one.at for one in retries),
            failures=Ints(one and one.failures for one in retries),
            lost=Ints(one and one.lost for one in retries),
            crashes=Bools(one is not None and one.crashed for one in retries),
            now=now,
            day=day_of(now),
        )

    async def _after_ends(self, ends: Mapping[AttemptKey, AttemptEnd], closed: Sequence[Row], now: Instant) -> None:
        """Give back what the closed attempts held, wake whom that lets go on, count in the order given."""
        released = Released()
        tallies: dict[int, Tally] = {}
        rows = {AttemptKey(RunKey(row[0], row[1], row[2]), row[3]): row for row in closed}
        for attempt, end in ends.items():
            if (row := rows.get(attempt)) is None:
                continue
            _, schedule, _, _, began, finished_at, pool, held, run_ended, run_began = row
            released.give(split(held), pool)
            if run_ended and not run_began:
                released.never_started(attempt.run)
            tally = tallies.setdefault(schedule, Tally())
            if end.ran:
                tally.attempt(end.outcome, began, finished_at)
            if run_ended and run_began:
                tally.runs += 1
        await released.apply(self, now)
        await add_stats(self, tallies)
        await self._ask_pauses([end for key, end in ends.items() if (row := rows.get(key)) is not None and row[8]], now)

    async def _ask_pauses(self, ends: Sequence[AttemptEnd], now: Instant) -> None:
        """Their runs have ended; some of them used up their attempts, and their schedules are to pause then."""
        asked = [(one.attempt.run.schedule_id, one.then) for one in ends]
        pauses = [(schedule, then.reason) for schedule, then in asked if isinstance(then, Finish) and then.pauses]
        if pauses:
            await self.session.send(
                Q.ask_pause, schedules=Ints(one for one, _ in pauses), reasons=Texts(why for _, why in pauses), now=now
            )
            self.tell("clock")

    async def adopt(self, host: str, kinds: Collection[str], now: Instant, limit: int) -> Sequence[OpenAttempt]:
        rows = await self.fetch(Q.orphans, host=host, kinds=Texts(sorted(kinds)), limit=limit)
        if not rows:
            return []
        keys = columns(RunKey(row[0], row[1], row[2]) for row in rows)._asdict()
        mine = {"instance": self.fence.instance_id, "epoch": self.fence.epoch}
        rows = await self.session.rows(Q.adopt, **keys, **mine)
        return await open_attempts(self.parts.definitions, self.session, rows)


def _tokens(row: Row, now: Instant) -> float:
    """What a pool's bucket holds now; of (name, rate_max, rate_per, rate_burst, tokens, refilled_at)."""
    _, most, per, burst, tokens, refilled_at = row[:6]
    gained = max(0, now - refilled_at) * most / per
    return min(float(burst or most), float(tokens + gained))


async def launches(definitions: Definitions, session: Session, rows: Sequence[Row]) -> list[Launch]:
    """From (slot, schedule, ord, number, fence, rev, program, program_rev, arguments, cause, caused_by, fire_time,
    previous_fire, window_ends, ...)."""
    if not rows:
        return []
    revisions = await definitions.revisions(session, {(row[1], row[5]) for row in rows})
    programs = await definitions.programs(session, {(row[6], row[7]) for row in rows})
    names = await definitions.names(session, {row[1] for row in rows})
    collecting = {key: collects(revision.spec.trigger) for key, revision in revisions.items()}
    given = await _given(session, [row for row in rows if row[9] == Cause.RERUN or collecting[row[1], row[5]]])
    found = []
    for row in rows:
        namespace, schedule = names[row[1]]
        inputs, evidence = given.get((row[0], row[1], row[2]), (None, None))
        timeout = revisions[row[1], row[5]].spec.timeout
        found.append(
            Launch(
                attempt=AttemptKey(RunKey(row[0], ScheduleId(row[1]), row[2]), row[3]),
                fence=row[4],
                namespace=namespace,
                schedule=schedule,
                program=programs[row[6], row[7]],
                arguments=row[8] or {},
                cause=Cause(row[9]),
                caused_by=row[10],
                fire_time=row[11],
                previous_fire_time=row[12],
                timeout=timeout.run,
                grace=timeout.grace,
                stop_by=row[13],
                inputs=inputs or {},
                evidence=evidence,
            )
        )
    return found


async def _given(session: Session, rows: Sequence[Row]) -> Mapping[tuple[int, int, int], tuple[Any, Any]]:
    """Inputs and evidence of runs that have any."""
    if not rows:
        return {}
    keys = columns(RunKey(row[0], ScheduleId(row[1]), row[2]) for row in rows)._asdict()
    return {(row[0], row[1], row[2]): (row[3], row[4]) for row in await session.rows(COLLECTING.given, **keys)}


async def open_attempts(definitions: Definitions, session: Session, rows: Sequence[Row]) -> list[OpenAttempt]:
    """From the columns of `launches` and (state, failures, lost, stop, stop_at, created_at, started_at, instance)."""
    made = await launches(definitions, session, rows)
    revisions = await definitions.revisions(session, {(row[1], row[5]) for row in rows})
    return [
        OpenAttempt(
            launch=launch,
            state=State(row[14]),
            spec=revisions[row[1], row[5]].spec,
            failures=row[15],
            lost=row[16],
            stop=row[17],
            stop_at=row[18],
            created_at=row[19],
            started_at=row[20],
            instance_id=row[21],
        )
        for launch, row in zip(made, rows, strict=True)
    ]
