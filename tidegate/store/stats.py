"""A schedule's statistics, in PostgreSQL: what a transaction adds to them (`domain.statistics`)."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.domain.statistics import Tally
from tidegate.store.arrays import Bools, Column, Ints, Texts
from tidegate.store.sql import load
from tidegate.store.transactions import Tx

Q = load("attempts")


async def add_stats(tx: Tx, tallies: Mapping[int, Tally]) -> None:
    """Schedule -> what is added, in ascending order."""
    if not tallies:
        return
    schedules = sorted(tallies)
    ordered = [tallies[schedule] for schedule in schedules]
    truth = {None: None, True: "t", False: "f"}
    numbers: dict[str, Column] = {
        "last_starts": Ints(one.last_start for one in ordered),
        "last_finishes": Ints(one.last_finish for one in ordered),
        "last_successes": Ints(one.last_success for one in ordered),
        "last_run_successes": Texts(truth[one.last_run_success] for one in ordered),
        "runs": Ints(one.runs for one in ordered),
        "successes": Ints(one.successes for one in ordered),
        "failures": Ints(one.failures for one in ordered),
        "crashes": Ints(one.crashes for one in ordered),
        "timeouts": Ints(one.timeouts for one in ordered),
        "durations": Ints(one.duration for one in ordered),
        "failing": Ints(one.failing for one in ordered),
        "crashing": Ints(one.crashing for one in ordered),
        "broken": Bools(one.broken for one in ordered),
    }
    await tx.session.send(Q.add_stats, schedules=Ints(schedules), **numbers)
