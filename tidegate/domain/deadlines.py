"""Deadlines: until when a run must have started and finished, when one is at risk, when it is missed.

A deadline exists with the run, and for a fire that never became a run with its stretch in the ledger; nothing waits for
work to begin before it can be late. At risk is a start of which four fifths of the time are over, and a finish that is
so, or that a run of usual length would no longer make. Each is told once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from tidegate.domain import events
from tidegate.domain.ids import RunKey
from tidegate.domain.instants import Duration, Instant, format_instant
from tidegate.domain.schedules import Deadline, DeadlineFrom

News: TypeAlias = Mapping[str, Any]
"""The payload of an event, and its `type`."""


class Term(NamedTuple):
    """One deadline of one run: what must have happened by when, and from when on that is in danger."""

    what: str  # start, finish
    by: Instant
    risk_from: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A live run with a deadline. `told`: what was told already; `usual`: how long its attempts take on average."""

    key: RunKey
    namespace: str
    schedule: str
    deadline: Deadline
    base: Instant
    started_at: Instant | None
    usual: Duration | None
    told: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """What is to be told of a run now, and when it is to be looked at again; None: never."""

    key: RunKey
    news: tuple[News, ...]  # payloads, each with `type`
    told: frozenset[str]
    next: Instant | None


def base(deadline: Deadline, *, due: Instant, first_arrival: Instant | None) -> Instant:
    """What it counts from."""
    arrived = deadline.since is DeadlineFrom.ARRIVAL and first_arrival is not None
    return first_arrival if arrived and first_arrival is not None else due


def first_arrival(evidence: Mapping[str, Any] | None) -> Instant | None:
    """When the first thing arrived that made a run."""
    leaves = evidence["leaves"] if evidence else ()
    return min((leaf["first_at"] for leaf in leaves if leaf.get("first_at") is not None), default=None)


def terms(deadline: Deadline, since: Instant, usual: Duration | None = None) -> Iterator[Term]:
    """Start and finish, as far as they are declared."""
    for what, span in (("start", deadline.start), ("finish", deadline.finish)):
        if span is not None:
            risk = since + span * 4 // 5
            if what == "finish" and usual is not None:
                risk = min(risk, since + span - usual)
            yield Term(what, since + span, max(risk, since))


def first_look(deadline: Deadline, since: Instant) -> Instant:
    """When a new run is to be looked at for the first time."""
    return min(term.risk_from for term in terms(deadline, since))


def look(run: Watched, now: Instant) -> Telling:
    """What has become of its deadlines by now. A run that has ended is not looked at."""
    news: list[News] = []
    told, upcoming = set(run.told), list[Instant]()
    for term in terms(run.deadline, run.base, run.usual):
        if term.what == "start" and run.started_at is not None and run.started_at <= term.by:
            continue
        # one that runs may still finish in time; its usual length counts from where it began
        risk = term.risk_from
        if term.what == "finish" and run.started_at is not None:
            left = term.by - run.started_at
            risk = max(risk, run.started_at + left * 4 // 5) if run.usual is None or run.usual <= left else risk
        for type, at in ((events.DEADLINE_AT_RISK, risk), (events.DEADLINE_MISSED, term.by)):
            mark = f"{term.what}:{type}"
            if mark in told:
                continue
            if at > now:
                upcoming.append(at)
            else:
                told.add(mark)
                if type == events.DEADLINE_MISSED or term.by > now:  # what is missed is no longer at risk
                    news.append(_news(type, run, term))
    return Telling(key=run.key, news=tuple(news), told=frozenset(told), next=min(upcoming, default=None))


def _news(type: str, run: Watched, term: Term) -> News:
    return {
        "type": type,
        "schedule": f"{run.namespace}/{run.schedule}",
        "run": str(run.key),
        "deadline": term.what,
        "by": format_instant(term.by),
        "started_at": None if run.started_at is None else format_instant(run.started_at),
    }


def missed_stretch(schedule: str, deadline: Deadline, stretch: tuple[Instant, Instant, int]) -> Sequence[News]:
    """What is told of fires that were missed altogether: `stretch` is first, last, count. One event for all."""
    first, last, count = stretch
    span = deadline.start if deadline.start is not None else deadline.finish
    if span is None:
        return ()
    return (
        {
            "type": events.DEADLINE_MISSED,
            "schedule": schedule,
            "run": None,
            "deadline": "start" if deadline.start is not None else "finish",
            "by": format_instant(last + span),
            "first_fire": format_instant(first),
            "last_fire": format_instant(last),
            "count": count,
        },
    )
