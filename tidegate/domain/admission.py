"""May it now: which waiting runs may go, which wait and for what, which end without having started.

`admit` judges one batch against locked facts and uses the facts up as it goes, so that no two runs of a batch pass one
limit. Who locks them is the store; nothing here reads anything.

The order of questions, for each run:

1. Has it waited longer than it may? Then it ends `expired` (or goes on, when the schedule says `then: run`).
2. Every `wait` constraint. The first that is unmet names what will wake it.
3. Every `skip` constraint, only now, since a skip that is judged while something else is waited for would drop a run
   because of company that may be gone by the time it could start (GATE-9).
4. A slot of its pool.

Every run counts on two counters, its schedule's and its program's, whether a constraint reads them or not: a limit
declared on one schedule of a program must see the runs of the others. They are held from admission to the final
outcome, so a retry comes back holding them and does not ask again. It has begun: it no longer expires, and its `skip`
reads as `wait`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias, assert_never

from tidegate.domain import templates
from tidegate.domain.errors import Invalid
from tidegate.domain.evidence import told
from tidegate.domain.ids import ProgramId, RunKey, ScheduleId
from tidegate.domain.instants import Instant, format_instant
from tidegate.domain.programs import ProgramRef
from tidegate.domain.runs import Cause, State
from tidegate.domain.schedules import Concurrency, Constraint, JsonObject, Mode, ScheduleSpec, ThenWaiting, Unmet


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
    deleted: bool = False  # the schedule is gone
    cause: Cause = Cause.FIRE
    closed: bool = True  # its input is closed already
    fire_time: Instant | None = None
    previous_fire: Instant | None = None
    caused_by: str = ""
    rendered: JsonObject | None = None  # the arguments of an earlier attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionFacts:
    """Locked counters and pools. A counter without a row is absent and means 0."""

    held: Mapping[str, int]
    free: Mapping[str, int]  # pool -> free slots


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    key: RunKey
    take: tuple[str, ...]  # counters to take now, beside those held
    program: ProgramRef  # pinned
    arguments: JsonObject  # rendered


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Keep waiting: until an instant, or until `wake_key` (a counter's key, or `pool:NAME`) is released.

    A run that is held although its `expires_at` has passed no longer expires: the store clears it, or it would be
    looked at for ever.
    """

    key: RunKey
    until: Instant | None
    wake_key: str | None
    waiting_for: tuple[JsonObject, ...]  # [{constraint, verdict, until, why}]


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard:
    """Ends without having started (skipped, expired, superseded, cancelled), or a retry that gives up."""

    key: RunKey
    outcome: State
    reason: str


Decision: TypeAlias = Admit | Hold | Discard


@dataclass(frozen=True, slots=True)
class Met:
    """The constraint holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """It does not hold now; it may from `until` on, or when `key` is released."""

    why: str
    until: Instant | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Never:
    """It does not hold, and the schedule says that the run is then skipped."""

    why: str


Verdict: TypeAlias = Met | Wait | Never
MET = Met()


def schedule_counter(schedule: ScheduleId) -> str:
    """The counter of runs of one schedule that are admitted and have not ended."""
    return f"s{schedule}"


def program_counter(program: ProgramId) -> str:
    """The counter of runs of one program, under any schedule, that are admitted and have not ended."""
    return f"p{program}"


def pool_key(pool: str) -> str:
    """What a run that lacks a slot waits for."""
    return f"pool:{pool}"


def counters_of(candidate: Candidate) -> tuple[str, str]:
    """The counters that it must hold when it is admitted, and that its constraints read."""
    return schedule_counter(candidate.key.schedule_id), program_counter(candidate.program.id)


def admit(candidates: Sequence[Candidate], facts: AdmissionFacts, *, now: Instant) -> list[Decision]:
    """Judge a batch, highest priority first, then oldest; the answer has exactly one decision for each."""
    held, free = dict(facts.held), dict(facts.free)
    left = AdmissionFacts(held=held, free=free)  # the same dictionaries: what is taken below shows in it
    decisions: list[Decision] = []
    for candidate in sorted(candidates, key=lambda one: (-one.priority, one.key)):
        decision = _decide(candidate, left, now)
        if isinstance(decision, Admit):
            for counter in decision.take:
                held[counter] = held.get(counter, 0) + 1
            free[candidate.program.pool] -= 1
        decisions.append(decision)
    return decisions


def judge(constraint: Constraint, candidate: Candidate, facts: AdmissionFacts) -> Verdict:
    """What one constraint says of one run, whatever the others say."""
    match constraint:
        case Concurrency():
            return _judge_concurrency(constraint, candidate, facts)
        case _:
            assert_never(constraint)


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
        return replace(verdict, arguments=candidate.rendered)
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
        return replace(verdict, arguments={**templates.render(own, context), **(candidate.given or {})})
    except Invalid as wrong:
        said = "; ".join(map(str, wrong.faults))
        return Discard(key=candidate.key, outcome=State.FAILED, reason=f"Its arguments cannot be filled in: {said}")


def _decide(candidate: Candidate, facts: AdmissionFacts, now: Instant) -> Decision:
    if ending := _no_longer_wanted(candidate, now):
        return ending

    waits = [(one, judge(one, candidate, facts)) for one in candidate.spec.constraints if _waits(one, candidate)]
    if unmet := [(one.TYPE, verdict) for one, verdict in waits if not isinstance(verdict, Met)]:
        return _hold(candidate, tuple(unmet))

    for constraint in candidate.spec.constraints:
        if not _waits(constraint, candidate):
            verdict = judge(constraint, candidate, facts)
            if not isinstance(verdict, Met):
                return Discard(key=candidate.key, outcome=State.SKIPPED, reason=verdict.why)

    slot = _judge_slot(candidate, facts)
    if not isinstance(slot, Met):
        return _hold(candidate, (("pool", slot),))

    take = tuple(counter for counter in counters_of(candidate) if counter not in candidate.held)
    return Admit(key=candidate.key, take=take, program=candidate.program, arguments=render(candidate))


def _no_longer_wanted(candidate: Candidate, now: Instant) -> Discard | None:
    if candidate.attempts == 0:
        waiting = candidate.spec.waiting
        late = candidate.expires_at is not None and candidate.expires_at <= now
        if late and waiting.then is ThenWaiting.DISCARD:
            return Discard(
                key=candidate.key, outcome=State.EXPIRED, reason="It waited longer than waiting.timeout allows."
            )
        return None
    # A clock run's ord is 0. What a person asks for by hand works while its schedule is disabled, its retries too.
    if candidate.deleted or (candidate.mode is Mode.DROP and candidate.key.ord == 0):
        what = "deleted" if candidate.deleted else "disabled"
        reason = f"The schedule was {what} before the next attempt; no further one starts."
        return Discard(key=candidate.key, outcome=State.CANCELLED, reason=reason)
    return None


def _waits(constraint: Constraint, candidate: Candidate) -> bool:
    return constraint.unmet is Unmet.WAIT or candidate.attempts > 0


def _judge_concurrency(constraint: Concurrency, candidate: Candidate, facts: AdmissionFacts) -> Verdict:
    schedule, program = counters_of(candidate)
    match constraint.scope:
        case "schedule":
            key, whose = schedule, "this schedule"
        case "program":
            key, whose = program, f"program {candidate.program.namespace}/{candidate.program.name}"
        case other:  # documents refuse it; a spec of a newer version may still come this way
            return Wait(why=f"This version of Tidegate cannot count concurrency per {other}.", key=schedule)
    running = facts.held.get(key, 0)
    if key in candidate.held or running < constraint.max:
        return MET
    runs = "run" if running == 1 else "runs"
    why = f"{running} {runs} of {whose} admitted and not yet ended; at most {constraint.max} may be."
    return Wait(why=why, key=key) if _waits(constraint, candidate) else Never(why=why)


def _judge_slot(candidate: Candidate, facts: AdmissionFacts) -> Met | Wait:
    pool = candidate.program.pool
    free = facts.free.get(pool)
    return MET if free is not None and free > 0 else _no_slot(pool, exists=free is not None)


@lru_cache(maxsize=1024)
def _no_slot(pool: str, *, exists: bool) -> Wait:
    """At midnight a hundred thousand runs get the same answer."""
    if exists:
        return Wait(why=f"Every slot of pool {pool} is taken.", key=pool_key(pool))
    return Wait(why=f"There is no pool {pool}; declare it, or name another in the program.", key=pool_key(pool))


def _hold(candidate: Candidate, unmet: tuple[tuple[str, Wait | Never], ...]) -> Hold:
    """Wait for the first that is unmet: when that has come, everything is judged again."""
    first = unmet[0][1]
    return Hold(
        key=candidate.key,
        until=first.until if isinstance(first, Wait) else None,
        wake_key=first.key if isinstance(first, Wait) else None,
        waiting_for=_waiting_for(unmet),
    )


@lru_cache(maxsize=1024)
def _waiting_for(unmet: tuple[tuple[str, Wait | Never], ...]) -> tuple[JsonObject, ...]:
    return tuple(_entry(name, verdict) for name, verdict in unmet)


def _entry(constraint: str, verdict: Wait | Never) -> dict[str, Any]:
    until = verdict.until if isinstance(verdict, Wait) else None
    return {
        "constraint": constraint,
        "verdict": "wait" if isinstance(verdict, Wait) else "never",
        "until": None if until is None else format_instant(until),
        "why": verdict.why,
    }
