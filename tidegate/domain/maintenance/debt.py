"""The debt score, 0 to 1000: how much a table waits for maintenance, term by term.

Issues by their severity, half a point for each day since the last snapshot, the share of its last ten finished
operations that failed, and points for each failure in a row. The weights can be set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.domain.instants import DAY, Instant
from tidegate.domain.maintenance.health import TableHealth
from tidegate.domain.maintenance.issues import Issue, Severity

MOST = 1000.0
LOOKED_AT = 10
"""Finished operations that the failure rate is taken over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Points for each issue of a severity, for each day since the last snapshot, for each percent of failed operations,
    and for each failure in a row."""

    critical: float = 100
    warning: float = 50
    info: float = 10
    stale_day: float = 0.5
    failure_percent: float = 1
    failure_in_row: float = 20


DEFAULT_WEIGHTS = Weights()


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One part of the score, and why it is that much."""

    name: str
    points: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Debt:
    """`score` is the sum of the terms' points, at most 1000."""

    score: float
    terms: tuple[Term, ...]


NOTHING = Debt(score=0.0, terms=())


def debt(
    health: TableHealth | None,
    issues: Sequence[Issue],
    recent: Sequence[bool],
    failures_in_row: int,
    now: Instant,
    weights: Weights = DEFAULT_WEIGHTS,
) -> Debt:
    """The score of one table. `recent`: whether each of its last finished operations succeeded, newest first (only ten
    are looked at); `failures_in_row`: how many failed since the last that succeeded."""
    terms = []
    for severity, weight in (
        (Severity.CRITICAL, weights.critical),
        (Severity.WARNING, weights.warning),
        (Severity.INFO, weights.info),
    ):
        kinds = [issue.kind for issue in issues if issue.severity is severity]
        if kinds:
            why = f"{len(kinds)} {severity.value} x {weight:g}: {', '.join(kinds)}"
            terms.append(Term(name=f"{severity.value.lower()}_issues", points=weight * len(kinds), why=why))
    if health is not None and health.newest_snapshot_at is not None:
        days = max(0, now - health.newest_snapshot_at) / DAY
        why = f"{days:.2f} days since the last snapshot x {weights.stale_day:g}"
        terms.append(Term(name="stale_metadata", points=weights.stale_day * days, why=why))
    finished = recent[:LOOKED_AT]
    if failed := finished.count(False):
        percent = 100 * failed / len(finished)
        why = f"{failed} of the last {len(finished)} operations failed: {percent:.0f} % x {weights.failure_percent:g}"
        terms.append(Term(name="failure_rate", points=weights.failure_percent * percent, why=why))
    if failures_in_row:
        failures = "1 failure" if failures_in_row == 1 else f"{failures_in_row} failures in a row"
        why = f"{failures} x {weights.failure_in_row:g}"
        terms.append(Term(name="failure_streak", points=weights.failure_in_row * failures_in_row, why=why))
    score = min(MOST, sum(term.points for term in terms))
    return Debt(score=score, terms=tuple(term for term in terms if term.points))
