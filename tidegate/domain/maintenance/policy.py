"""What is asked for: for which tables, which operations, when, under which conditions, within which budget.

Of several policies that match a table exactly one speaks for it, whole: the one of highest priority, among those the
one with the narrowest pattern, among those the one whose name comes first. The last is a rule so that everybody comes
to the same answer, and no good reason; `Resolution.tied` names the others, and people are warned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tidegate.domain.instants import HOUR, Duration
from tidegate.domain.maintenance.debt import DEFAULT_WEIGHTS, Weights
from tidegate.domain.maintenance.health import Metric
from tidegate.domain.maintenance.issues import DEFAULT_THRESHOLDS, Thresholds
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.maintenance.options import Options
from tidegate.domain.maintenance.patterns import TablePattern
from tidegate.domain.triggers import Cron, Interval, WindowDays
from tidegate.domain.windows import Span

CareTrigger = Cron | Interval | WindowDays


class Logic(StrEnum):
    """How several conditions make one."""

    ANY = "any"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Figures that must have reached these limits (inclusive): any of them or all. Sizes in bytes, ages in
    microseconds. A figure that is unknown has reached nothing."""

    limits: Mapping[Metric, float]
    logic: Logic = Logic.ANY


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When an operation is due, in which window it may start (None: at any time), and how long it may take."""

    trigger: CareTrigger
    window: Span | None = None
    timeout: Duration | None = None
    enabled: bool = True

    @property
    def always_open(self) -> bool:
        """Whether it may start at any time of any day."""
        return self.window is None and not isinstance(self.trigger, WindowDays)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a policy says of one operation.

    With a schedule it is due at its fires, with conditions alone whenever they are met, with neither by hand only.
    `min_interval`: between two starts on one table. `max_delay`: a critical pipeline; so long after the last start
    (before the first: after the policy came to speak for the table) the operation is forced.
    """

    operation: Operation
    enabled: bool = True
    options: Options = field(default_factory=dict)
    schedule: Schedule | None = None
    when: Conditions | None = None
    min_interval: Duration = 0
    max_delay: Duration | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most that may be spent in any span of `per`: distinct tables, operations, bytes rewritten. 0: no limit."""

    tables: int = 0
    operations: int = 0
    bytes: int = 0
    per: Duration = HOUR

    @property
    def unlimited(self) -> bool:
        return not (self.tables or self.operations or self.bytes)


class Rank(StrEnum):
    """Which table goes first where a budget is short."""

    DEBT = "debt"
    """The worst first."""
    VALUE = "value"
    """The best expected gain per cost first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Maintenance rules for the tables that a pattern matches. `revision` is 0 before the store has counted it."""

    name: str
    tables: TablePattern
    operations: Mapping[Operation, Rule]
    enabled: bool = True
    priority: int = 0
    tags: Mapping[str, str] = field(default_factory=dict)
    budget: Budget = Budget()
    rank: Rank = Rank.DEBT
    thresholds: Thresholds = DEFAULT_THRESHOLDS
    weights: Weights = DEFAULT_WEIGHTS
    revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """Who speaks for a table. `others`: enabled policies that match it too and give way, the nearest first; `tied`:
    those of them that have the same priority and are as narrow, so that only their name decided."""

    policy: Policy | None
    others: tuple[str, ...] = ()
    tied: tuple[str, ...] = ()


def resolve(policies: Iterable[Policy], table: str) -> Resolution:
    """Which policy speaks for a table (its path `catalog.namespace.table`). Disabled ones take no part."""
    found = [policy for policy in policies if policy.enabled and policy.tables.matches(table)]
    if not found:
        return Resolution(policy=None)
    found.sort(key=lambda policy: policy.name)
    found.sort(key=_rank, reverse=True)
    first, *others = found
    tied = tuple(policy.name for policy in others if _rank(policy) == _rank(first))
    return Resolution(policy=first, others=tuple(policy.name for policy in others), tied=tied)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far a policy reaches: of how many known tables its pattern holds, and for how many of those it speaks.
    `known`: tables that there are at all; `before`: the policies that speak for the others."""

    known: int = 0
    matched: int = 0
    tables: int = 0
    before: tuple[str, ...] = ()


def reaches(policies: Iterable[Policy], tables: Iterable[str]) -> dict[str, Reach]:
    """By policy, how far it reaches among these tables. Disabled ones reach none."""
    given, known = list(policies), 0
    matched = dict.fromkeys([one.name for one in given], 0)
    spoken = dict(matched)
    before: dict[str, set[str]] = {one.name: set() for one in given}
    for table in tables:
        known += 1
        found = resolve(given, table)
        if found.policy is None:
            continue
        first = found.policy.name
        spoken[first] += 1
        matched[first] += 1
        for name in found.others:
            matched[name] += 1
            before[name].add(first)
    return {
        name: Reach(known=known, matched=matched[name], tables=spoken[name], before=tuple(sorted(before[name])))
        for name in matched
    }


def reach_warning(policy: Policy, reach: Reach) -> str:
    """A sentence for people where a policy keeps no table at all; empty where it does."""
    if reach.tables or not policy.enabled:
        return ""
    if not reach.matched:
        among = f"none of the {reach.known} tables that are known" if reach.known else "no table: none is known yet"
        return f"It matches {among}. Paths are catalog.namespace.table; see them with: tidegate tables"
    others = ", ".join(repr(name) for name in reach.before)
    return f"It keeps none of the {reach.matched} tables that it matches: {others} speaks for them."


def tie_warning(resolution: Resolution) -> str:
    """A sentence for people where only a name decided; empty where something better did."""
    if resolution.policy is None or not resolution.tied:
        return ""
    others = ", ".join(repr(name) for name in resolution.tied)
    return (
        f"Policy {resolution.policy.name!r} speaks for it only because its name comes first: {others} "
        "have the same priority and as narrow a pattern. Give one of them a higher priority."
    )


def _rank(policy: Policy) -> tuple[int, object]:
    return policy.priority, policy.tables.specificity
