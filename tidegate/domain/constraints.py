"""May it now: what a schedule may ask for before a run starts, and what each answers.

Every constraint answers *met*, *wait* (until an instant, or until the queue `key` moves on) or *never*, with a sentence
why. A queue is where runs wait for the same thing; the store keeps each in order of rank and looks only at its head
when its instant comes or something is given back under its key:

    s… p… g…            a counter: the end of a run that holds it
    rate:… min:…        room in a sliding span; time since the last start
    window:…            the window opens
    calendar:…          the blackout ends, or the calendar is changed
    load:NAME:LIMIT     a new reading of that resource
    freeze              somebody lifts the freeze
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, assert_never, get_args

from tidegate.domain import windows
from tidegate.domain.calendars import Calendar, closed_until
from tidegate.domain.errors import Refused
from tidegate.domain.facts import Gauge as Gauge
from tidegate.domain.facts import Loan as Loan
from tidegate.domain.facts import Starts as Starts
from tidegate.domain.ids import ProgramId, ScheduleId
from tidegate.domain.instants import Duration, Instant, format_duration, format_instant
from tidegate.domain.windows import Span


class Unmet(StrEnum):
    """What an unmet constraint means."""

    WAIT = "wait"
    SKIP = "skip"


# ── what may be asked for ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    """At most `max` runs admitted and not yet ended, counted per `scope`: `schedule`, `program` or `group:NAME`."""

    TYPE: ClassVar[str] = "concurrency"
    max: int
    scope: str = "schedule"
    unmet: Unmet = Unmet.WAIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Not before `duration` has passed since the trigger was satisfied."""

    TYPE: ClassVar[str] = "delay"
    duration: Duration
    unmet: Unmet = Unmet.WAIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Only while `span` is open; `stop_at_end`: what still runs when it closes is stopped."""

    TYPE: ClassVar[str] = "window"
    span: Span
    stop_at_end: bool = False
    unmet: Unmet = Unmet.WAIT


@dataclass(frozen=True, slots=True, kw_only=True)
class MinInterval:
    """Not before `duration` has passed since a run of the program last started, under any schedule."""

    TYPE: ClassVar[str] = "min_interval"
    duration: Duration
    unmet: Unmet = Unmet.WAIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """At most `max` first starts in any span `per`, counted per `scope` as for concurrency."""

    TYPE: ClassVar[str] = "rate"
    max: int
    per: Duration
    scope: str = "schedule"
    unmet: Unmet = Unmet.WAIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Only while the last reading of `resource` is below a limit: `pool:NAME` (percent of its slots in use) or the name
    of a probe from the settings."""

    TYPE: ClassVar[str] = "load"
    resource: str
    below: float
    unmet: Unmet = Unmet.WAIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Blackout:
    """Not while the calendar of that name is closed."""

    TYPE: ClassVar[str] = "blackout"
    calendar: str
    unmet: Unmet = Unmet.WAIT


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomConstraint:
    """A type that a package adds; `parameters` is what stands in the constraint beside `type` and `unmet`."""

    TYPE: ClassVar[str] = "custom"
    plugin: str
    parameters: Mapping[str, Any]
    unmet: Unmet = Unmet.WAIT


Constraint: TypeAlias = Concurrency | Delay | Window | MinInterval | Rate | Load | Blackout | CustomConstraint
CONSTRAINTS: tuple[type[Constraint], ...] = get_args(Constraint)
WAIVED = (Delay, Window, MinInterval, Rate, Load, CustomConstraint)
"""What a run that a person triggers, or whose waiting time is over under `then: run`, need not meet."""
ONCE = (Delay, MinInterval, Rate)
"""What only a first attempt must meet."""


def name_of(constraint: Constraint) -> str:
    """Its type as people write it."""
    return constraint.plugin if isinstance(constraint, CustomConstraint) else constraint.TYPE


class ConstraintPlugin(Protocol):
    """A type of constraint from a package. It reads no clock and does no I/O; it is asked inside a transaction."""

    def faults(self, parameters: Mapping[str, Any]) -> Sequence[str]:
        """What is wrong with the parameters, a sentence each."""

    def judge(self, parameters: Mapping[str, Any], subject: Subject, now: Instant) -> Verdict:
        """What it says of one run. A Wait must have an instant."""


_plugins: dict[str, ConstraintPlugin] = {}


def register(type: str, plugin: ConstraintPlugin) -> None:
    """Make a type known (at wiring). The same again replaces it."""
    _plugins[type] = plugin


def known() -> Mapping[str, ConstraintPlugin]:
    """The registered types."""
    return dict(_plugins)


# ── the answers ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Met:
    """The constraint holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """It does not hold now; it may from `until` on, or when the queue `key` moves on. Of a queue with an instant,
    nobody in it can go before that. `limit`: of a counter's queue, how many may hold it."""

    why: str
    until: Instant | None = None
    key: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Never:
    """It does not hold, and the run is skipped once everything that waits holds."""

    why: str


Verdict: TypeAlias = Met | Wait | Never
MET = Met()


# ── what they are judged by ────────────────────────────────────────────────────────────────────────────────────────


class Subject(NamedTuple):
    """What constraints may know of a run. `satisfied_at`: when its trigger was."""

    schedule: ScheduleId
    program: ProgramId
    namespace: str
    program_name: str
    satisfied_at: Instant
    held: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionFacts:
    """Locked counters and pools, and what else constraints read. A counter without a row is absent and means 0.

    `frozen`: why nothing may start now; None when it may.
    """

    held: Mapping[str, int]
    free: Mapping[str, int]  # pool -> free slots
    slots: Mapping[str, int] = field(default_factory=dict)  # pool -> all its slots
    first: Mapping[str, int] = field(default_factory=dict)  # pool -> rank of the first in its queue that sleeps
    loans: Mapping[str, Loan] = field(default_factory=dict)  # pool -> what it may borrow (domain/slots)
    queued: Mapping[str, int] = field(default_factory=dict)  # pool of which others borrow -> who waits in its own queue
    starts: Mapping[str, Starts] = field(default_factory=dict)  # counter -> its starts
    gauges: Mapping[str, Gauge] = field(default_factory=dict)  # resource -> its last reading
    calendars: Mapping[str, Calendar] = field(default_factory=dict)
    frozen: str | None = None


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be read to judge some runs: counters and pools to lock; for each counter whose starts matter, how many
    of the newest and since when; resources; calendars."""

    counters: frozenset[str]
    pools: frozenset[str]
    starts: Mapping[str, tuple[int, Duration]]
    resources: frozenset[str]
    calendars: frozenset[str]


def schedule_counter(schedule: ScheduleId) -> str:
    """The counter of runs of one schedule that are admitted and have not ended."""
    return f"s{schedule}"


def program_counter(program: ProgramId) -> str:
    """The counter of runs of one program, under any schedule, that are admitted and have not ended."""
    return f"p{program}"


def group_counter(namespace: str, group: str) -> str:
    """The counter of runs in one group of a namespace, by their schedule's or their program's `groups`."""
    return f"g{namespace}/{group}"


POOL = "pool:"
FREEZE = "freeze"
LOAD = "load:"
GROUP = "group:"


def counter_of(scope: str, subject: Subject) -> str:
    """The counter that a scope means for a run. Raises Refused for a scope that this version does not know."""
    if scope == "schedule":
        return schedule_counter(subject.schedule)
    if scope == "program":
        return program_counter(subject.program)
    if scope.startswith(GROUP):
        return group_counter(subject.namespace, scope.removeprefix(GROUP))
    raise Refused(f"This version of Tidegate cannot count per {scope}.")


def starts_read(constraints: Iterable[Constraint], subject: Subject) -> dict[str, tuple[int, Duration]]:
    """Counters whose starts these constraints read: how many of the newest, and how far back."""
    found: dict[str, tuple[int, Duration]] = {}
    for one in constraints:
        match one:
            case MinInterval():
                key, wanted = program_counter(subject.program), (1, one.duration)
            case Rate():
                key, wanted = counter_of(one.scope, subject), (one.max, one.per)
            case _:
                continue
        many, back = found.get(key, (0, 0))
        found[key] = (max(many, wanted[0]), max(back, wanted[1]))
    return found


# ── judging ────────────────────────────────────────────────────────────────────────────────────────────────────────


def judge(constraint: Constraint, subject: Subject, facts: AdmissionFacts, now: Instant) -> Verdict:
    """What one constraint says of one run, whatever the others say; only a plug-in answers never by itself."""
    match constraint:
        case Concurrency():
            return _concurrency(constraint, subject, facts)
        case Delay():
            until = subject.satisfied_at + constraint.duration
            if until <= now:
                return MET
            return Wait(until=until, why=f"{format_duration(constraint.duration)} after its trigger was satisfied.")
        case Window():
            return _window(constraint, now)
        case MinInterval():
            return _min_interval(constraint, subject, facts, now)
        case Rate():
            return _rate(constraint, subject, facts, now)
        case Load():
            return _load(constraint, facts, now)
        case Blackout():
            return _blackout(constraint, facts, now)
        case CustomConstraint():
            return _custom(constraint, subject, now)
        case _:
            assert_never(constraint)


def frozen(facts: AdmissionFacts) -> Met | Wait:
    """Whether somebody has forbidden that anything starts."""
    if facts.frozen is None:
        return MET
    return Wait(key=FREEZE, why=f"Everything is frozen{': ' + facts.frozen if facts.frozen else ''}.")


def _concurrency(constraint: Concurrency, subject: Subject, facts: AdmissionFacts) -> Met | Wait:
    key = counter_of(constraint.scope, subject)
    running = facts.held.get(key, 0)
    if key in subject.held or running < constraint.max:
        return MET
    runs = "run" if running == 1 else "runs"
    whose = _whose(constraint.scope, subject)
    why = f"{running} {runs} of {whose} admitted and not yet ended; at most {constraint.max} may be."
    return Wait(key=key, limit=constraint.max, why=why)


def _whose(scope: str, subject: Subject) -> str:
    if scope == "schedule":
        return "this schedule"
    if scope == "program":
        return f"program {subject.namespace}/{subject.program_name}"
    return f"group {subject.namespace}/{scope.removeprefix(GROUP)}"


def _window(constraint: Window, now: Instant) -> Met | Wait:
    span = constraint.span
    opens = windows.opens(span, now)
    if opens == now:
        return MET
    days = "" if len(span.days) == 7 else f" on {', '.join(day.value for day in span.days)}"
    why = f"Its window is {clock(span.start)} to {clock(span.end)} {span.timezone}{days}."
    key = f"window:{span.start}-{span.end}:{span.timezone}:{','.join(day.value for day in span.days)}"
    return Wait(until=opens, key=key, why=why)


def clock(minutes: int) -> str:
    """A time of day, e.g. `22:00`."""
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _min_interval(constraint: MinInterval, subject: Subject, facts: AdmissionFacts, now: Instant) -> Met | Wait:
    counter = program_counter(subject.program)
    starts = facts.starts.get(counter, Starts())
    last = now if starts.pending else starts.newest[0] if starts.newest else None
    if last is None or last + constraint.duration <= now:
        return MET
    began = "is about to start" if starts.pending else f"started at {format_instant(last)}"
    why = (
        f"A run of program {subject.namespace}/{subject.program_name} {began}; "
        f"the next not before {format_duration(constraint.duration)} later."
    )
    return Wait(until=last + constraint.duration, key=f"min:{counter}:{constraint.duration}", why=why)


def _rate(constraint: Rate, subject: Subject, facts: AdmissionFacts, now: Instant) -> Met | Wait:
    counter = counter_of(constraint.scope, subject)
    starts = facts.starts.get(counter, Starts())
    inside = [at for at in starts.newest if at + constraint.per > now]
    if starts.pending + len(inside) < constraint.max:
        return MET
    # those that have not started yet start now or later; the oldest that must leave the span first is the max-th newest
    leaves = now if starts.pending >= constraint.max else inside[constraint.max - starts.pending - 1]
    why = (
        f"{starts.pending + len(inside)} of {_whose(constraint.scope, subject)} started within "
        f"{format_duration(constraint.per)}; at most {constraint.max} may."
    )
    key = f"rate:{counter}:{constraint.max}:{constraint.per}"
    return Wait(until=leaves + constraint.per, key=key, why=why)


def _load(constraint: Load, facts: AdmissionFacts, now: Instant) -> Met | Wait:
    resource, key = constraint.resource, f"{LOAD}{constraint.resource}:{constraint.below:g}"
    if resource.startswith(POOL):
        name = resource.removeprefix(POOL)
        if name not in facts.free:
            return Wait(key=resource, why=f"There is no pool {name} to measure; declare it.")
        used = 100.0 * (1 - facts.free[name] / max(facts.slots.get(name, 1), 1))
        if used < constraint.below:
            return MET
        return Wait(key=key, why=f"{used:.0f} % of pool {name} is in use; it must be below {constraint.below:g} %.")
    gauge = facts.gauges.get(resource)
    if gauge is None:
        return Wait(key=key, why=f"There is no reading of {resource} yet.")
    if gauge.value is None:
        return Wait(key=key, why=f"{resource} cannot be read: {gauge.error.rstrip('.')}.")
    if gauge.stale_at is not None and gauge.stale_at <= now:
        why = (
            f"{resource} was last read at {format_instant(gauge.at)}, too long ago to count; does a scheduler read it?"
        )
        return Wait(key=key, why=why)
    if gauge.value < constraint.below:
        return MET
    return Wait(key=key, why=f"{resource} is at {gauge.value:g}; it must be below {constraint.below:g}.")


def _blackout(constraint: Blackout, facts: AdmissionFacts, now: Instant) -> Met | Wait:
    key = f"calendar:{constraint.calendar}"
    calendar = facts.calendars.get(constraint.calendar)
    if calendar is None:
        return Wait(key=key, why=f"There is no calendar {constraint.calendar}; declare it.")
    until = closed_until(calendar, now)
    if until is None:
        return MET
    return Wait(until=until, key=key, why=f"Calendar {constraint.calendar} is closed until {format_instant(until)}.")


def _custom(constraint: CustomConstraint, subject: Subject, now: Instant) -> Verdict:
    plugin = _plugins.get(constraint.plugin)
    again = now + 60_000_000
    if plugin is None:
        why = f"The constraint type {constraint.plugin!r} comes from a plug-in that is not installed here."
        return Wait(until=again, why=why)
    try:
        verdict = plugin.judge(constraint.parameters, subject, now)
    except Exception as fault:  # a plug-in's mistake holds up its own schedule only
        return Wait(until=again, why=f"The constraint {constraint.plugin!r} failed: {fault!r}")
    match verdict:
        case Met():
            return MET
        case Never():
            return verdict
        case Wait():
            return Wait(until=max(verdict.until or again, now + 1), why=verdict.why)
        case _:
            assert_never(verdict)
