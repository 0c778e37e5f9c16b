"""Several waiting runs of one schedule, in PostgreSQL: those end that have to make room (`domain.waiting`)."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.runs import Cause
from tidegate.domain.schedules import Waiting, WaitingPolicy
from tidegate.domain.waiting import crowded_out
from tidegate.store.arrays import Ints
from tidegate.store.connection import Row
from tidegate.store.holdings import Released, finish
from tidegate.store.sql import load
from tidegate.store.transactions import Tx

Q = load("collecting")


async def make_room(tx: Tx, policies: Mapping[int, WaitingPolicy], now: Instant) -> None:
    """Runs were added to these schedules, whose clocks are held: those end that have to make room."""
    order = sorted(policies)
    latest = {one for one in order if policies[one].runs is Waiting.LATEST}
    rows = await tx.fetch(Q.too_many, schedules=Ints(order), most=Ints(policies[one].max for one in order))
    crowded = {row[0] for row in rows} | latest
    if not crowded:
        return
    waiting: dict[int, list[tuple[RunKey, Cause]]] = {}
    rows = await tx.fetch(Q.waiting, schedules=Ints(sorted(crowded)))
    for slot, schedule, ord_, cause, _ in sorted(rows, key=_age):  # they came in the order of locks
        waiting.setdefault(schedule, []).append((RunKey(slot, ScheduleId(schedule), ord_), Cause(cause)))
    gone = [one for schedule, runs in waiting.items() for one in crowded_out(policies[schedule], runs)]
    released = Released()
    released.finished(await finish(tx, gone, now))
    await released.apply(tx, now)


def _age(row: Row) -> tuple[Instant, int, int, int]:
    """A late clock fire has an old slot and is the newest all the same."""
    return row[4], row[0], row[1], row[2]
