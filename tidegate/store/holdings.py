"""What runs hold (counters and slots), giving it back, and waking whom that lets go on.

Order matters, or wake-ups are lost. A release first changes counters and pools, which locks them; only a later
statement, with a newer snapshot, looks for those who wait. Whoever judges a run meanwhile either came before us, and
then we see what it waits for, or waits for our lock, and then it sees what we gave back. So a waiting run that is
locked by somebody who judges it may be passed over. Others lock it too (a fire that joins it): where nobody was woken
under a key that has room, it is done after the commit, when waiting for a lock stops nobody.

A waiter is woken only where its own limit leaves room, and of those with one limit no more than it lets; what that
leaves over is handed on by the transaction that settles the woken run, which looks at the same queue again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.runs import State
from tidegate.store.arrays import Ints, Texts
from tidegate.store.codec import to_json
from tidegate.store.connection import Row
from tidegate.store.partitions import day_of
from tidegate.store.queues import POOL, is_counter, waited_for
from tidegate.store.sql import load
from tidegate.store.transactions import SEPARATOR, Parts, Tx, by_partition, columns

Q = load("admission")
RUNS = load("runs")
STATS = load("attempts")
COLLECTING = load("collecting")
GATES = load("gates")


def split(held: str) -> tuple[str, ...]:
    """The counters in the text in which they travel."""
    return tuple(held.split(SEPARATOR)) if held else ()


class Released:
    """What a transaction gives back, and which queues must be looked at afterwards."""

    def __init__(self) -> None:
        self.ended: list[Row] = []
        self.counters: Counter[str] = Counter()
        self.pools: Counter[str] = Counter()
        self.looked_at: dict[str, None] = {}
        self.unstarted: list[RunKey] = []

    def give(self, counters: Iterable[str], pool: str | None) -> None:
        """Counters, and a slot of a pool, that a run held."""
        for key in counters:
            self.counters[key] += 1
            self.look_at(key)
        if pool is not None:
            self.pools[pool] += 1
            self.look_at(POOL + pool)

    def finished(self, gone: Sequence[Row]) -> None:
        """Everything that runs which `finish` ended had."""
        for row in gone:
            self.give(split(row[3]), row[4])
            self.look_at(row[5])
            if row[3] and not row[6]:
                self.never_started(RunKey(row[0], ScheduleId(row[1]), row[2]))
        self.ended += gone

    def never_started(self, run: RunKey) -> None:
        """It was admitted, and ended without having started: it does not count as a start."""
        self.unstarted.append(run)

    def look_at(self, key: str | None) -> None:
        """Somebody was woken under this key, or may be: whoever is next there must not be forgotten."""
        if key is not None:
            self.looked_at[key] = None

    async def apply(self, tx: Tx, now: Instant) -> None:
        """Give back, then wake; and count the runs that ended."""
        await change(tx, self.counters, {}, sign=-1)
        await self._lock_lenders(tx)
        await change(tx, {}, self.pools, sign=-1)
        await wake(tx, self.looked_at, now)
        if self.unstarted:
            await _forget_starts(tx, self.unstarted, now)
        await tx.instants.write(tx)
        await count_runs(tx, self.ended)

    async def _lock_lenders(self, tx: Tx) -> None:
        """Whoever is judged against a pool of which others borrow looks at its queue, too: who leaves that queue comes
        before, and is not seen, or after, and finds those who were held because of him."""
        pools = {key.removeprefix(POOL) for key in self.looked_at if key.startswith(POOL)}
        if pools:
            await tx.session.send(Q.lock_lenders, names=Texts(sorted(pools)), also=Texts(sorted(self.pools)))


async def _forget_starts(tx: Tx, runs: Sequence[RunKey], now: Instant) -> None:
    """Starts that were expected and do not come make room under `rate` and `min_interval`."""
    rows = await tx.fetch(GATES.never_started, **columns(runs)._asdict())
    for key in sorted({row[0] for row in rows}):
        for prefix in (f"rate:{key}:", f"min:{key}:"):
            for queue in await waited_for(tx.session, prefix):
                tx.instants.look(queue, now)


async def change(tx: Tx, counters: Mapping[str, int], pools: Mapping[str, int], *, sign: int) -> None:
    """Take (sign 1) or give back (sign -1), in the order of locks (docs/explanation/locks.md)."""
    if counters:
        keys = sorted(counters)
        query = Q.take if sign > 0 else Q.release
        await tx.session.send(query, keys=Texts(keys), counts=Ints(counters[key] for key in keys))
    if pools:
        names = sorted(pools)
        await tx.session.send(Q.use, names=Texts(names), counts=Ints(sign * pools[name] for name in names))


async def wake(tx: Tx, keys: Iterable[str], now: Instant) -> None:
    """Let the next waiting runs under these keys be judged, no more than there is room for."""
    keys = sorted(keys)
    counters = [key for key in keys if is_counter(key)]
    pools = [key.removeprefix(POOL) for key in keys if key.startswith(POOL)]
    if counters:
        tx.tell("admit", if_rows=await tx.session.send(Q.wake_counters, keys=Texts(counters), now=now))
    if pools:
        tx.tell("admit", if_rows=await tx.session.send(Q.wake_pools, names=Texts(pools), now=now))
    if counters or pools:
        told = [*counters, *(POOL + name for name in pools)]
        tx.overlooked.append(await tx.session.send(Q.overlooked, keys=Texts(told), now=now))
        tx.parts.wake.lower(now)


async def wake_overlooked(parts: Parts, keys: Iterable[str], now: Instant) -> None:
    """After the commit: one statement for each key, so that it holds no lock while it waits for another."""
    for key in sorted(set(keys)):
        await parts.database.execute(Q.wake_overlooked, key=key, now=now)
    parts.wake.lower(now)


async def finish(tx: Tx, ends: Sequence[tuple[RunKey, State, str]], now: Instant) -> list[Row]:
    """End live runs that have no attempt in flight: (slot, schedule, ord, held, pool, wake_key, had begun) of each that
    was ended. Their rows must be locked; what they held is the caller's to give back."""
    if not ends:
        return []
    await tx.ready_for(now)
    gone = []
    for partition, some in by_partition(ends, lambda one: one[0]):
        gone += await tx.fetch(
            RUNS.finish.at(partition),
            **columns(key for key, _, _ in some)._asdict(),
            outcomes=Texts(outcome.value for _, outcome, _ in some),
            reasons=Texts(reason for _, _, reason in some),
            now=now,
            day=day_of(now),
        )
    await _give_back_input(tx, [row for row in gone if row[7] and not row[6]])
    return gone


async def _give_back_input(tx: Tx, gone: Sequence[Row]) -> None:
    """Input that these runs had and no program saw is owed again."""
    if not gone:
        return
    keys = columns(RunKey(row[0], ScheduleId(row[1]), row[2]) for row in gone)._asdict()
    given = [
        (schedule, dataset, one)
        for _, schedule, _, inputs, _ in await tx.fetch(COLLECTING.given, **keys)
        for dataset, one in sorted((inputs or {}).items())
    ]
    if given:
        await tx.session.send(
            COLLECTING.give_back,
            schedules=Ints(schedule for schedule, _, _ in given),
            datasets=Texts(dataset for _, dataset, _ in given),
            from_ns=Ints(one["from_n"] for _, _, one in given),
            to_ns=Ints(one["to_n"] for _, _, one in given),
            snapshots=Texts(to_json(one["from_snapshot"]) for _, _, one in given),
        )


async def count_runs(tx: Tx, gone: Sequence[Row]) -> None:
    """Runs that had begun and ended while waiting (a retry that gave up) count as runs."""
    begun = Counter(row[1] for row in gone if row[6])
    if begun:
        schedules = sorted(begun)
        await tx.session.send(STATS.count_runs, schedules=Ints(schedules), counts=Ints(begun[one] for one in schedules))
