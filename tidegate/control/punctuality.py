"""Deadlines in an explanation: by when a run must have started and finished, also one that does not exist yet."""

from __future__ import annotations

from tidegate.control.nodes import Node
from tidegate.domain.deadlines import Term, base, first_arrival, terms
from tidegate.domain.instants import Instant, format_instant
from tidegate.ports.records import RunRecord, ScheduleRecord


def of_run(record: RunRecord, schedule: ScheduleRecord, now: Instant) -> tuple[Node, ...]:
    """The deadlines of a run that has not ended."""
    deadline = schedule.spec.deadline
    if deadline is None:
        return ()
    due = record.fire_time if record.fire_time is not None else record.created_at
    since = base(deadline, due=due, first_arrival=first_arrival(record.evidence))
    return tuple(_node(term, now, record.started_at) for term in terms(deadline, since))


def of_schedule(record: ScheduleRecord, fire: Instant | None, now: Instant) -> tuple[Node, ...]:
    """The deadlines that its next run will have, where its clock says when that is due."""
    if record.spec.deadline is None or fire is None:
        return ()
    return tuple(_node(term, now, None) for term in terms(record.spec.deadline, fire))


def _node(term: Term, now: Instant, started_at: Instant | None) -> Node:
    by = format_instant(term.by)
    done = term.what == "start" and started_at is not None
    if done and started_at is not None:
        met = started_at <= term.by
        why = f"It had to start by {by}, and started at {format_instant(started_at)}."
    elif now > term.by:
        met, why = False, f"It had to {term.what} by {by}: missed."
    elif now >= term.risk_from:
        met, why = True, f"It must {term.what} by {by}: at risk."
    else:
        met, why = True, f"It must {term.what} by {by}."
    return Node(node=f"deadline: {term.what}", satisfied=met, value=format_instant(now), threshold=by, why=why)
