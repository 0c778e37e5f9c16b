"""Nobody who waits for a slot is passed by a run of a later rank. So nothing starves (GATE-14).

A rank is when a run was made less a minute for each point of its priority: one that came more than (100 - priority)
minutes after another never goes before it where both wait for the same pool. Who is judged at that very moment is
allowed for: the run that waits must not have been looked at around it, be it by somebody who died over that. Whoever
borrows a slot comes after all who wait for it in the queue of its own pool.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from tidegate.domain.admission import rank
from tidegate.domain.ids import RunKey
from tidegate.domain.instants import SECOND, Instant
from tidegate.sim.history import History, RunFact, Violation, when

LAW = "order_kept"
CROSSING = 30 * SECOND
LAST = 1 << 62


def check(history: History) -> Iterator[Violation]:
    runs = {run.key: run for run in history.runs}
    admitted: dict[str, list[tuple[Instant, int, RunKey]]] = {}  # pool -> admissions
    waits: list[tuple[str, int, RunKey, Instant, Instant]] = []  # pool, rank, run, since, until
    last: dict[RunKey, tuple[str, Instant]] = {}
    for one in history.decisions:
        run = runs.get(one.run)
        if run is None or run.evidence is not None:  # its priority may have grown while it waited
            continue
        if one.run in last:
            pool, since = last.pop(one.run)
            waits.append((pool, _rank(run), one.run, since, one.written))
        if one.what == "admit":
            last_of_all = one.borrower is not None
            admitted.setdefault(one.pool, []).append((one.written, LAST if last_of_all else _rank(run), one.run))
        elif one.wake_key is not None and one.wake_key.startswith("pool:"):
            last[one.run] = (one.wake_key.removeprefix("pool:"), one.written)
    for key, (pool, since) in last.items():
        waits.append((pool, _rank(runs[key]), key, since, runs[key].finished_at or history.end))
    for moments in admitted.values():
        moments.sort()
    for pool, mine, key, since, until in waits:
        moments = admitted.get(pool, [])
        for at, other, passed in moments[bisect_left(moments, (since + CROSSING,)) :]:
            if at >= until - CROSSING:
                break
            if other > mine and not any(at - CROSSING < look <= at for look in history.looked.get(key, ())):
                yield Violation(
                    LAW, f"run {passed} was admitted to {pool} at {when(at)}, where {key} waited from {when(since)}"
                )
                break


def _rank(run: RunFact) -> int:
    return rank(run.priority, run.created_at)
