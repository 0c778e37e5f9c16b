"""Several waiting runs of one schedule: the newest takes the place of older ones, or they are too many."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.runs import State
from tidegate.domain.schedules import Waiting, WaitingPolicy
from tidegate.store.arrays import Ints
from tidegate.store.holdings import Released, finish
from tidegate.store.sql import load
from tidegate.store.transactions import Tx

Q = load("collecting")
MERGING = ("fire", "evidence")
"""Causes of runs that merge or take each other's place: never what a person asked for."""
TOO_MANY = "More than waiting.max runs of the schedule waited; this was the oldest."
NEWER = "A newer run of the schedule takes its place (waiting: latest)."


async def make_room(tx: Tx, policies: Mapping[int, WaitingPolicy], now: Instant) -> None:
    """Runs were added to these schedules, whose clocks are held: under `latest` only the newest stays; beyond `max` the
    oldest expire."""
    order = sorted(policies)
    latest = {one for one in order if policies[one].runs is Waiting.LATEST}
    rows = await tx.fetch(Q.too_many, schedules=Ints(order), most=Ints(policies[one].max for one in order))
    crowded = {row[0] for row in rows} | latest
    if not crowded:
        return
    waiting: dict[int, list[tuple[RunKey, str]]] = {}
    for slot, schedule, ord_, cause in await tx.fetch(Q.waiting, schedules=Ints(sorted(crowded))):
        waiting.setdefault(schedule, []).append((RunKey(slot, ScheduleId(schedule), ord_), cause))
    gone: list[tuple[RunKey, State, str]] = []
    for schedule, runs in waiting.items():
        replaced = [key for key, cause in runs if cause in MERGING][:-1] if schedule in latest else []
        gone += [(key, State.SUPERSEDED, NEWER) for key in replaced]
        left = [key for key, _ in runs if key not in replaced]
        gone += [(key, State.EXPIRED, TOO_MANY) for key in left[: max(0, len(left) - policies[schedule].max)]]
    released = Released()
    released.finished(await finish(tx, gone, now))
    await released.apply(tx, now)
