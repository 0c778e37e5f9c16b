"""What was admitted met its constraints at that instant; and nothing was skipped while something else still waited.

Constraints are read anew here, on the wall clock of Python and by trying, not with the functions that decided. What
people changed in the very transaction that crossed an admission is allowed its few seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import assert_never
from zoneinfo import ZoneInfo

from tidegate.domain.admission import SUSPENDED_MODES
from tidegate.domain.constraints import (
    ONCE,
    POOL,
    WAIVED,
    Blackout,
    Concurrency,
    Constraint,
    CustomConstraint,
    Delay,
    Load,
    MinInterval,
    Rate,
    Unmet,
    Window,
)
from tidegate.domain.instants import DAY, SECOND, Instant
from tidegate.domain.runs import Cause
from tidegate.domain.triggers import Weekday
from tidegate.sim.history import History, RunFact, ScheduleFact, Violation, when
from tidegate.sim.memory.rows import DecisionRow

LAW = "gates_kept"
CROSSING = 30 * SECOND
WEEK = tuple(Weekday)


def check(history: History) -> Iterator[Violation]:
    schedules = {schedule.id: schedule for schedule in history.schedules}
    runs = {run.key: run for run in history.runs}
    for one in history.decisions:
        run = runs.get(one.run)
        if run is None or one.what not in ("admit", "skipped"):
            continue
        schedule, skips = schedules[one.run.schedule_id], one.what == "skipped"
        if _frozen(history, one):
            yield Violation(LAW, f"run {run.key} was {one.what} at {when(one.now)}, while everything was frozen")
        if _suspended(schedule, run, one):
            yield Violation(LAW, f"run {run.key} was {one.what} at {when(one.now)}, while it was suspended")
        for constraint in schedule.revisions[one.rev - 1].spec.constraints:
            if not asked(constraint, run, one) or (skips and constraint.unmet is Unmet.SKIP):
                continue
            unmet = _unmet(history, constraint, run, one)
            if unmet:
                yield Violation(LAW, f"run {run.key} was {one.what} at {when(one.now)}: {unmet}")


def asked(constraint: Constraint, run: RunFact, decision: DecisionRow) -> bool:
    """Whether a constraint binds a run in this decision."""
    first = decision.attempts == 0
    if run.cause is Cause.BACKFILL and isinstance(constraint, Delay):
        return False
    waived = run.cause is Cause.MANUAL or (first and decision.late)
    return not (waived and isinstance(constraint, WAIVED)) and (first or not isinstance(constraint, ONCE))


def _frozen(history: History, decision: DecisionRow) -> bool:
    """Whether it was so all the time from when the time was read until what crossed it is over."""
    state = False
    for moment, frozen in history.freezes:
        if moment > decision.now and not (state and frozen):
            return state and moment > decision.written + CROSSING
        state = frozen
    return state


def _suspended(schedule: ScheduleFact, run: RunFact, decision: DecisionRow) -> bool:
    if decision.attempts > 0 or run.cause is Cause.MANUAL:
        return False
    ends = [one.valid_from for one in schedule.revisions[1:]] + [1 << 62]
    return any(
        one.mode in SUSPENDED_MODES and one.valid_from + CROSSING < decision.now <= end
        for one, end in zip(schedule.revisions, ends, strict=True)
    )


def _unmet(history: History, constraint: Constraint, run: RunFact, decision: DecisionRow) -> str | None:
    at = decision.now
    match constraint:
        case Delay():
            return "its delay was not over" if at < run.created_at + constraint.duration else None
        case Window():
            return None if _opens(constraint, at) else "its window was closed"
        case Blackout():
            return _blacked_out(history, constraint.calendar, decision)
        case Load():
            return None if constraint.resource.startswith(POOL) else _loaded(history, constraint, decision)
        case Concurrency() | MinInterval() | Rate() | CustomConstraint():
            return None  # laws of their own
        case _:
            assert_never(constraint)


def _opens(window: Window, at: Instant) -> bool:
    """By the wall clock: minutes since the midnight on which it opened."""
    local = datetime.fromtimestamp(at // SECOND, ZoneInfo(window.span.timezone)).replace(tzinfo=None)
    for back in (0, 1):
        day = local.date() - timedelta(days=back)
        minutes = back * 1440 + local.hour * 60 + local.minute
        end = window.span.end + (1440 if window.span.end <= window.span.start else 0)
        if window.span.start <= minutes < end and WEEK[day.weekday()] in window.span.days:
            return True
    return False


def _blacked_out(history: History, name: str, decision: DecisionRow) -> str | None:
    """Closed under every state of the calendar that it may have been judged by. Rules are not in the workload."""
    at = decision.now
    known = [(0, None), *((moment, calendar) for moment, one, calendar in history.calendars if one == name)]
    ends = [moment for moment, _ in known[1:]] + [1 << 62]
    for (begin, calendar), end in zip(known, ends, strict=True):
        if begin <= decision.written + CROSSING and end >= at and calendar is not None:
            day = at // DAY in calendar.days
            if not day and not any(first <= at < last for first, last in calendar.spans):
                return None
    return f"calendar {name} was closed"


def _loaded(history: History, load: Load, decision: DecisionRow) -> str | None:
    known = [(moment, gauge.value) for moment, name, gauge in history.readings if name == load.resource]
    ends = [moment for moment, _ in known[1:]] + [1 << 62]
    good = any(
        begin <= decision.written + CROSSING and end >= decision.now and value is not None and value < load.below
        for (begin, value), end in zip(known, ends, strict=False)
    )
    return None if good else f"{load.resource} was not below {load.below:g}"
