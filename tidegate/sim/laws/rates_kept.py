"""`rate` and `min_interval`: how many first attempts begin in a span, whoever admits them.

Decisions stand in the order of their commits, and who admits holds the counter until then. So each run that is bound
by a rate may have only so many before it that had begun within the span when it was admitted, or had yet to begin; and
who waits for a rate waits since it is used up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.domain.constraints import Constraint, MinInterval, Rate
from tidegate.domain.instants import SECOND, Duration, Instant, format_duration
from tidegate.sim.history import History, RunFact, Violation, when
from tidegate.sim.laws.gates_kept import asked
from tidegate.sim.memory.rows import DecisionRow

LAW = "rates_kept"
CROSSING = 15 * SECOND


@dataclass(frozen=True, slots=True)
class Place:
    """A run that was admitted: when its first attempt began; None where it did not, with when it ended instead."""

    began: Instant | None
    gone: Instant


def check(history: History) -> Iterator[Violation]:
    schedules = {schedule.id: schedule for schedule in history.schedules}
    runs = {run.key: run for run in history.runs}
    before: dict[str, list[Place]] = {}  # counter -> those that were admitted under it
    for one in history.decisions:
        run = runs.get(one.run)
        if run is None:
            continue
        if one.what == "hold" and (one.wake_key or "").startswith(("rate:s", "rate:p", "min:")):
            yield from _justified(before, one)
        if one.what != "admit" or one.attempts > 0:
            continue
        constraints = schedules[one.run.schedule_id].revisions[one.rev - 1].spec.constraints
        for counter, most, span in _bound([limit for limit in constraints if asked(limit, run, one)], one):
            inside = sum(_certain(place) and _inside(place, one.now, span) for place in before.get(counter, []))
            if inside >= most:
                known = f"{inside} of {counter} had begun within {format_duration(span)}"
                yield Violation(LAW, f"run {run.key} was admitted at {when(one.now)}, where {known}")
        place = _place(run)
        for counter in one.counters:
            before.setdefault(counter, []).append(place)


def _bound(constraints: Sequence[Constraint], decision: DecisionRow) -> Iterator[tuple[str, int, Duration]]:
    """(counter, how many, span) of each; not of groups, of which is not known what ended before anybody asked."""
    for constraint in constraints:
        match constraint:
            case Rate(scope="schedule" | "program"):
                prefix, most, span = constraint.scope[0], constraint.max, constraint.per
            case MinInterval():
                prefix, most, span = "p", 1, constraint.duration
            case _:
                continue
        yield next(key for key in decision.counters if key.startswith(prefix)), most, span


def _place(run: RunFact) -> Place:
    never = run.finished_at is not None and run.started_at is None
    began = run.attempts[0].created_at if run.attempts and not never else None
    return Place(began, run.finished_at if never and run.finished_at is not None else 1 << 62)


def _certain(place: Place) -> bool:
    """Whether it counts, whenever one looks."""
    return place.gone == 1 << 62


def _inside(place: Place, now: Instant, span: Duration) -> bool:
    return place.began is None or place.began + span > now


def _justified(before: dict[str, list[Place]], decision: DecisionRow) -> Iterator[Violation]:
    """Who waits for room in a span: there is none."""
    kind, counter, *rest = (decision.wake_key or "").split(":")
    most, span = (1, int(rest[0])) if kind == "min" else (int(rest[0]), int(rest[1]))
    inside = sum(
        _inside(place, decision.now, span) and place.gone > decision.now - CROSSING for place in before.get(counter, [])
    )
    if inside < most:
        yield Violation(
            LAW, f"run {decision.run} was held at {when(decision.now)} by {decision.wake_key}, of which {inside} began"
        )
