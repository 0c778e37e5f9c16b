"""Every owed fire has exactly one outcome, and nothing is on record that no revision owed.

A fire's outcome is a run with that fire time, or its place in one stretch of missed or superseded fires. Owed is what
the revisions say, recomputed by brute force; a fire must be decided once its clock has passed it, and every clock must
have passed what was due well before the end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from tidegate.domain.instants import MINUTE, Instant
from tidegate.domain.runs import Cause
from tidegate.domain.trees import clocks
from tidegate.domain.triggers import AfterFinish
from tidegate.sim.history import History, RunFact, ScheduleFact, StretchFact, Violation, when
from tidegate.sim.laws.owed import owed

LAW = "one_outcome"
PATIENCE = MINUTE
"""How long after its due instant a fire may be undecided when nothing goes wrong."""


def check(history: History) -> Iterator[Violation]:
    runs: dict[int, list[RunFact]] = {}
    for run in history.runs:
        if run.cause is Cause.FIRE:
            runs.setdefault(run.key.schedule_id, []).append(run)
    stretches: dict[int, list[StretchFact]] = {}
    for stretch in history.stretches:
        stretches.setdefault(stretch.schedule_id, []).append(stretch)
    for schedule in history.schedules:
        mine = runs.get(schedule.id, [])
        for run in mine:
            if run.fire_time != run.key.slot or run.key.ord != 0:
                yield Violation(LAW, f"{schedule.name}: run {run.key} stands for the fire {run.fire_time}")
        fires = owed(schedule, history.end)
        if fires is None:
            yield from _one_after_another(schedule, mine)
        else:
            yield from _compare(history, schedule, fires, mine, stretches.get(schedule.id, []))


def _compare(
    history: History,
    schedule: ScheduleFact,
    fires: list[Instant],
    runs: list[RunFact],
    stretches: list[StretchFact],
) -> Iterator[Violation]:
    outcomes = dict.fromkeys(fires, 0)
    for run in runs:
        if run.key.slot not in outcomes:
            yield Violation(LAW, f"{schedule.name}: a run for {when(run.key.slot)}, which no revision owed")
        else:
            outcomes[run.key.slot] += 1
    for stretch in stretches:
        inside = fires[bisect_left(fires, stretch.first) : bisect_right(fires, stretch.last)]
        if len(inside) != stretch.n or not inside or inside[0] != stretch.first or inside[-1] != stretch.last:
            yield Violation(
                LAW,
                f"{schedule.name}: a stretch of {stretch.n} {stretch.outcome} from {when(stretch.first)} to "
                f"{when(stretch.last)}, where {len(inside)} were owed",
            )
        for fire in inside:
            outcomes[fire] += 1
    for fire, count in outcomes.items():
        if count > 1:
            yield Violation(LAW, f"{schedule.name}: {count} outcomes of the fire {when(fire)}")
        elif count == 0 and (fire <= schedule.cursor or fire <= _decided_by(history, schedule)):
            yield Violation(LAW, f"{schedule.name}: no outcome of the fire {when(fire)}")


def _decided_by(history: History, schedule: ScheduleFact) -> Instant:
    """Fires up to here must be decided at the end of a history that ended in calm."""
    if history.calm_since is None or history.end < history.calm_since + PATIENCE:
        return 0
    triggers = [one.spec.trigger for one in schedule.revisions]
    jitter = max((leaf.jitter for one in triggers for leaf in clocks(one)), default=0)
    return history.end - PATIENCE - jitter


def _one_after_another(schedule: ScheduleFact, runs: list[RunFact]) -> Iterator[Violation]:
    """What `after_finish` owes depends on its runs: each fire comes its delay after the end of the one before.

    One that never began (skipped, expired) may end while a run asked for by hand has ended and that is not on record
    yet: then the end of that one counts, which may be the earlier.
    """
    triggers = [one.spec.trigger for one in schedule.revisions]
    if len(triggers) != 1 or not isinstance(triggers[0], AfterFinish):
        return
    for before, after in zip(runs, runs[1:], strict=False):
        ended = before.finished_at
        earliest = None if ended is None else ended + triggers[0].delay if before.attempts else before.key.slot + 1
        if earliest is None or after.key.slot < earliest:
            yield Violation(LAW, f"{schedule.name}: {when(after.key.slot)} fired before the run before had ended")
