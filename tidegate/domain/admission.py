"""May it now: which waiting runs may go, which wait and for what, which end without having started.

`admit` judges one batch against locked facts and uses the facts up as it goes, so that no two runs of a batch pass one
limit. Who locks them is the store; nothing here reads anything. What each constraint says is domain/constraints.

The order of questions, for each run (`questions`):

1. Has it waited longer than it may? Then it ends `expired` (or goes on, when the schedule says `then: run`).
2. Is everything frozen, or is its schedule suspended so that nothing of it starts?
3. Did its attempt crash while nobody looked after it? Then it waits for its backoff and for the schedulers to have
   been up for a while (domain/crashes).
4. Every `wait` constraint. The first that is unmet names what will wake it.
5. Every `skip` constraint, only now, since a skip that is judged while something else is waited for would drop a run
   because of company that may be gone by the time it could start (GATE-9).
6. A slot of its pool, or one that this may borrow (domain/slots). One that was not woken for it leaves it to those who
   wait and come first by rank.

Every run counts on the counters of its schedule, its program and their groups, whether a constraint reads them or not:
a limit declared on one schedule of a program must see the runs of the others. They are held from admission to the
final outcome, so a retry comes back holding them. It has begun: it no longer expires, its `skip` reads as `wait`, and
what concerns a first start only (delay, min_interval, rate) is not asked again. Of a backfill's runs, too, `skip` reads
as `wait`, and no delay is asked of them. A run that a person triggered, and one
whose waiting time is over under `then: run`, goes without delay, window, min_interval, rate and load.

Order is by `rank`: priority, with ageing. Each point of priority is worth a minute of waiting, so a run is never
overtaken by one that came more than (100 - its priority) minutes after it: nothing starves (GATE-14).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from tidegate.domain import templates, windows
from tidegate.domain.constraints import (
    MET,
    ONCE,
    POOL,
    WAIVED,
    Blackout,
    Constraint,
    Delay,
    Load,
    Met,
    MinInterval,
    Needs,
    Never,
    Rate,
    Subject,
    Unmet,
    Verdict,
    Wait,
    Window,
    frozen,
    group_counter,
    judge,
    name_of,
    program_counter,
    schedule_counter,
    starts_read,
)
from tidegate.domain.constraints import AdmissionFacts as AdmissionFacts
from tidegate.domain.crashes import BACKOFF, CRASH_WAIT, Crash, backoff, crash_wait
from tidegate.domain.errors import Invalid
from tidegate.domain.evidence import told
from tidegate.domain.ids import RunKey
from tidegate.domain.instants import MINUTE, Duration, Instant, format_instant
from tidegate.domain.programs import ProgramRef
from tidegate.domain.runs import MERGING, Cause, State
from tidegate.domain.schedules import JsonObject, Mode, ScheduleSpec, ThenWaiting
from tidegate.domain.slots import judge_slot, lender, take_slot, went_through


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A waiting run that may be judged."""

    key: RunKey
    spec: ScheduleSpec  # newest revision
    program: ProgramRef  # newest revision
    priority: int
    created_at: Instant
    expires_at: Instant | None
    attempts: int  # > 0: a retry, which already holds its counters
    held: tuple[str, ...]
    given: JsonObject | None  # arguments given by hand
    mode: Mode = Mode.ENABLED  # of the newest revision
    held_expires: bool = False  # of the newest revision: whether runs that a suspension holds expire
    deleted: bool = False  # the schedule is gone
    cause: Cause = Cause.FIRE
    closed: bool = True  # its input is closed already
    fire_time: Instant | None = None
    previous_fire: Instant | None = None
    caused_by: str = ""
    rendered: JsonObject | None = None  # the arguments of an earlier attempt
    queued: str | None = None  # the queue in which it waited until now
    in_turn: bool = True  # it was woken for what that queue waits for, not since what its schedule says has changed
    crash: Crash | None = None  # its last attempt crashed


class Admit(NamedTuple):
    key: RunKey
    take: tuple[str, ...]  # counters to take now, beside those held
    program: ProgramRef  # pinned
    arguments: JsonObject  # rendered
    stop_by: Instant | None = None  # what still runs then is stopped: its window closes
    lender: str | None = None  # the pool of which its slot is borrowed; None: its own

    @property
    def pool(self) -> str:
        """Of which pool it takes a slot."""
        return self.lender or self.program.pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Keep waiting: until an instant of its own (`until` alone), or in the queue `wake_key`, whose head is looked at
    when something is given back under the key and, where `until` is given, then (see `constraints`).

    A run that is held although its `expires_at` has passed is not looked at again because of it.
    """

    key: RunKey
    until: Instant | None
    wake_key: str | None
    waiting_for: tuple[JsonObject, ...]  # [{constraint, verdict, until, why}]
    limit: int | None = None  # of a counter's queue: how many may hold it
    restart_at: Instant | None = None  # of one whose attempt crashed: as it was decided, to be kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard:
    """Ends without having started (skipped, expired, superseded, cancelled), or a retry that gives up."""

    key: RunKey
    outcome: State
    reason: str


Decision: TypeAlias = Admit | Hold | Discard


AGEING: Duration = MINUTE
"""What a point of priority is worth in time of waiting."""


def rank(priority: int, since: Instant) -> int:
    """Where a run stands among those that wait for the same, the smallest first: one that has waited AGEING longer
    comes before one with one point of priority more. It never changes while they wait, so an index can hold it."""
    return since - priority * AGEING


def suspended_key(candidate: Candidate) -> str:
    """What a run of a suspended schedule waits for."""
    return f"resume:{candidate.key.schedule_id}"


def subject_of(candidate: Candidate) -> Subject:
    """What constraints may know of it."""
    program = candidate.program
    return Subject(
        candidate.key.schedule_id, program.id, program.namespace, program.name, candidate.created_at, candidate.held
    )


def counters_of(candidate: Candidate) -> tuple[str, ...]:
    """The counters that it must hold when it is admitted."""
    own = (schedule_counter(candidate.key.schedule_id), program_counter(candidate.program.id))
    groups = (*candidate.spec.groups, *candidate.program.spec.groups)
    if not groups:
        return own
    return (*own, *(group_counter(candidate.program.namespace, name) for name in dict.fromkeys(groups)))


def needs_of(candidates: Sequence[Candidate]) -> Needs:
    """Everything that must be locked or read to judge them."""
    counters, pools, resources, calendars = set[str](), set[str](), set[str](), set[str]()
    starts: dict[str, tuple[int, Duration]] = {}
    for one in candidates:
        counters.update(counters_of(one))
        pools.add(one.program.pool)
        for constraint in one.spec.constraints:
            match constraint:
                case Load(resource=resource) if resource.startswith(POOL):
                    pools.add(resource.removeprefix(POOL))
                case Load(resource=resource):
                    resources.add(resource)
                case Blackout(calendar=calendar):
                    calendars.add(calendar)
                case MinInterval() | Rate():
                    for key, (many, back) in starts_read((constraint,), subject_of(one)).items():
                        have = starts.get(key, (0, 0))
                        starts[key] = (max(many, have[0]), max(back, have[1]))
                case _:
                    continue
    counters.update(starts)
    return Needs(frozenset(counters), frozenset(pools), starts, frozenset(resources), frozenset(calendars))


def admit(candidates: Sequence[Candidate], facts: AdmissionFacts, *, now: Instant) -> list[Decision]:
    """Judge a batch in order of rank; the answer has exactly one decision for each."""
    held, free, starts = dict(facts.held), dict(facts.free), dict(facts.starts)
    loans, queued = dict(facts.loans), dict(facts.queued)
    left = replace(facts, held=held, free=free, loans=loans, queued=queued, starts=starts)  # what is taken shows in it
    decisions: list[Decision] = []
    for candidate in sorted(candidates, key=_order):
        decision = _decide(candidate, left, now)
        if isinstance(decision, Admit):
            for counter in decision.take:
                held[counter] = held.get(counter, 0) + 1
                if counter in starts:
                    starts[counter] = replace(starts[counter], pending=starts[counter].pending + 1)
            take_slot(candidate.program.pool, decision.lender, free, loans)
        if queued:
            waits = decision.wake_key if isinstance(decision, Hold) else None
            went_through(candidate.program.pool, candidate.queued, waits, queued)
        decisions.append(decision)
    return decisions


def _order(candidate: Candidate) -> tuple[int, RunKey]:
    return candidate.created_at - candidate.priority * AGEING, candidate.key  # `rank`, without a call for each


class Question(NamedTuple):
    """One thing that is asked before a run may go, and its answer. `skips`: an unmet one ends the run as skipped."""

    name: str
    verdict: Verdict
    constraint: Constraint | None = None
    skips: bool = False


def questions(candidate: Candidate, facts: AdmissionFacts, now: Instant) -> Iterator[Question]:
    """All that is asked, in order, each answered whatever the others say; what is not asked of this run is left out.
    `_decide` stops at the first group that is unmet; `explain` shows all."""
    yield _THAWED if facts.frozen is None else Question(FROZEN, frozen(facts))
    if candidate.mode in SUSPENDED_MODES and _obeys(candidate):
        why = f"Its schedule is suspended ({candidate.mode.value}); it starts when somebody enables that."
        yield Question(SUSPENDED, Wait(key=suspended_key(candidate), why=why))
    if candidate.crash is not None:
        yield Question(BACKOFF, backoff(candidate.crash, candidate.attempts, now))
        yield Question(CRASH_WAIT, crash_wait(candidate.crash, now))
    subject, waived, skips = subject_of(candidate), _waived(candidate, now), list[Constraint]()
    for one in candidate.spec.constraints:
        if waived and isinstance(one, waived):
            continue
        if one.unmet is Unmet.SKIP and _obeys(candidate) and candidate.cause is not Cause.BACKFILL:
            skips.append(one)
        else:
            yield Question(name_of(one), judge(one, subject, facts, now), one)
    for one in skips:
        yield Question(name_of(one), judge(one, subject, facts, now), one, skips=True)
    # It may be its waiting time that woke it, or a new revision.
    woken = candidate.queued if candidate.in_turn and not is_late(candidate, now) else None
    yield Question(SLOT, judge_slot(candidate.program.pool, _order(candidate)[0], woken, facts))


FROZEN, SUSPENDED, SLOT = "freeze", "suspended", "pool"
_THAWED = Question(FROZEN, MET)
SUSPENDED_MODES = (Mode.BACKLOG, Mode.HOLD)
"""New runs are made, and nothing of them starts."""


def render(candidate: Candidate) -> JsonObject:
    """The arguments of the launch: the program's, overridden by the schedule's, overridden by those given by hand."""
    return {**candidate.program.spec.arguments, **candidate.spec.arguments, **(candidate.given or {})}


def fill(
    verdict: Admit, candidate: Candidate, evidence: JsonObject | None, inputs: Mapping[str, JsonObject] | None
) -> Admit | Discard:
    """The verdict with the templates in its arguments filled in from what the run was given. Those given by hand are
    taken as they are; once filled in, they stay. Where a template cannot be filled
    in, the run fails without having started."""
    mine = {**candidate.program.spec.arguments, **candidate.spec.arguments}
    own = {name: value for name, value in mine.items() if name not in (candidate.given or {})}
    if next(templates.templates(own), None) is None:
        return verdict
    if candidate.rendered is not None:
        return verdict._replace(arguments=candidate.rendered)
    known = told(evidence, inputs)
    context = templates.context(
        fire_time=None if candidate.fire_time is None else format_instant(candidate.fire_time),
        previous_fire_time=None if candidate.previous_fire is None else format_instant(candidate.previous_fire),
        cause=candidate.cause.value,
        by=candidate.caused_by,
        inputs=known["inputs"],
        upstream=known["upstream"],
        timed_out_waiting=known["timed_out_waiting"],
    )
    try:
        return verdict._replace(arguments={**templates.render(own, context), **(candidate.given or {})})
    except Invalid as wrong:
        said = "; ".join(map(str, wrong.faults))
        return Discard(key=candidate.key, outcome=State.FAILED, reason=f"Its arguments cannot be filled in: {said}")


def _decide(candidate: Candidate, facts: AdmissionFacts, now: Instant) -> Decision:
    if ending := _no_longer_wanted(candidate, now):
        return ending
    asked = list(questions(candidate, facts, now))
    unmet = [one for one in asked if one.verdict is not MET]
    if unmet:
        return _unmet(candidate, unmet)
    held = candidate.held
    counters = counters_of(candidate)
    take = tuple([counter for counter in counters if counter not in held]) if held else counters
    stop_by = _stop_by(asked, now) if len(candidate.spec.constraints) else None
    of = lender(candidate.program.pool, facts)
    return Admit(candidate.key, take, candidate.program, render(candidate), stop_by, of)


def _unmet(candidate: Candidate, unmet: Sequence[Question]) -> Hold | Discard:
    """Something is unmet: it waits for all that waits; only then it is skipped, or lacks a slot."""
    waits = [one for one in unmet if isinstance(one.verdict, Wait) and not one.skips and one.name != SLOT]
    if waits:
        return _hold(candidate, waits)
    for one in unmet:
        if not isinstance(one.verdict, Met) and (one.skips or isinstance(one.verdict, Never)):
            return Discard(key=candidate.key, outcome=State.SKIPPED, reason=one.verdict.why)
    return _hold(candidate, unmet)


def _stop_by(asked: Sequence[Question], now: Instant) -> Instant | None:
    """When a window that it goes through closes and stops it."""
    windowed = [one.constraint for one in asked if isinstance(one.constraint, Window) and one.constraint.stop_at_end]
    ends = [windows.closes(one.span, now) for one in windowed]
    return min((end for end in ends if end is not None), default=None)


def _no_longer_wanted(candidate: Candidate, now: Instant) -> Discard | None:
    if candidate.attempts == 0:
        spared = candidate.mode in SUSPENDED_MODES and _obeys(candidate) and not candidate.held_expires
        if is_late(candidate, now) and candidate.spec.waiting.then is ThenWaiting.DISCARD and not spared:
            return Discard(
                key=candidate.key, outcome=State.EXPIRED, reason="It waited longer than waiting.timeout allows."
            )
        return None
    # What a person asks for by hand works while its schedule is disabled, its retries too.
    if candidate.deleted or (candidate.mode is Mode.DROP and candidate.cause in MERGING):
        what = "deleted" if candidate.deleted else "disabled"
        reason = f"The schedule was {what} before the next attempt; no further one starts."
        return Discard(key=candidate.key, outcome=State.CANCELLED, reason=reason)
    return None


def is_late(candidate: Candidate, now: Instant) -> bool:
    """Whether its waiting time is over."""
    return candidate.expires_at is not None and candidate.expires_at <= now


def _obeys(candidate: Candidate) -> bool:
    """Whether suspension and `skip` concern it: neither what a person triggers nor what has begun."""
    return candidate.attempts == 0 and candidate.cause is not Cause.MANUAL


def _waived(candidate: Candidate, now: Instant) -> tuple[type[Constraint], ...]:
    """Constraints that it need not meet."""
    forced = candidate.cause is Cause.MANUAL or (candidate.attempts == 0 and is_late(candidate, now))
    if candidate.attempts > 0:
        return (*ONCE, *WAIVED) if forced else ONCE
    if candidate.cause is Cause.BACKFILL:
        return (Delay,)
    return WAIVED if forced else ()


def _hold(candidate: Candidate, unmet: Sequence[Question]) -> Hold:
    """Wait for the first that is unmet: when that has come, everything is judged again."""
    first = unmet[0].verdict
    assert isinstance(first, Wait)
    return Hold(
        key=candidate.key,
        until=first.until,
        wake_key=first.key,
        limit=first.limit,
        waiting_for=_waiting_for(tuple([(one.name, one.verdict) for one in unmet])),
        restart_at=None if candidate.crash is None else candidate.crash.restart_at,
    )


@lru_cache(maxsize=1024)
def _waiting_for(unmet: tuple[tuple[str, Verdict], ...]) -> tuple[JsonObject, ...]:
    return tuple(_entry(name, verdict) for name, verdict in unmet if not isinstance(verdict, Met))


def _entry(constraint: str, verdict: Wait | Never) -> dict[str, Any]:
    until = verdict.until if isinstance(verdict, Wait) else None
    return {
        "constraint": constraint,
        "verdict": "wait" if isinstance(verdict, Wait) else "never",
        "until": None if until is None else format_instant(until),
        "why": verdict.why,
    }
