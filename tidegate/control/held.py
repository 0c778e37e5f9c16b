"""Why a run waits: every question that the admitter asks, with its answer now, as a tree; and what would release it.

`domain.outlook` decides, on facts read without locks: what is said holds at this moment and promises nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from tidegate.control import punctuality
from tidegate.control.nodes import Explanation, Node, attempt_nodes
from tidegate.control.sentences import tries_of, used_of
from tidegate.domain.admission import (
    FROZEN,
    SLOT,
    SUSPENDED,
    Candidate,
    Question,
    counters_of,
    is_late,
    needs_of,
    rank,
    subject_of,
)
from tidegate.domain.constraints import (
    POOL,
    AdmissionFacts,
    Blackout,
    Concurrency,
    Constraint,
    CustomConstraint,
    Delay,
    Load,
    Met,
    MinInterval,
    Rate,
    Starts,
    Wait,
    Window,
    clock,
    counter_of,
    program_counter,
)
from tidegate.domain.crashes import BACKOFF, CRASH_WAIT
from tidegate.domain.instants import Instant, format_duration, format_instant
from tidegate.domain.naming import command
from tidegate.domain.outlook import Outlook, outlook
from tidegate.domain.schedules import ThenWaiting
from tidegate.ports.control import ControlStore
from tidegate.ports.records import RunRecord, ScheduleRecord

_NAMED = 3


async def explained(store: ControlStore, record: RunRecord, schedule: ScheduleRecord, because: Node) -> Explanation:
    """A waiting run of a living schedule."""
    now = await store.now()
    candidate = Candidate(
        key=record.key,
        spec=schedule.spec,
        program=schedule.program,
        priority=record.priority,
        created_at=record.created_at,
        expires_at=record.expires_at,
        attempts=len(record.attempts),
        held=(),
        given=record.given,
        mode=schedule.mode,
        held_expires=schedule.held_expires,
        cause=record.cause,
        fire_time=record.fire_time,
        crash=record.crash,
    )
    if record.attempts:
        candidate = _holding(candidate)
    facts = await store.admission_facts(needs_of([candidate]))
    found = outlook(candidate, facts, now)
    asked = [one for one in found.asked if one.name != FROZEN or not isinstance(one.verdict, Met)]
    nodes = [_node(one, candidate, facts, now) for one in asked]
    blocker, release, earliest = None, None, found.earliest
    if found.blocker is not None:
        blocker = _blocker(found.blocker, candidate)
        release = await _release(store, found.blocker, candidate, schedule)
    if record.attempts and record.crash is None and record.wake_at is not None and record.wake_at > now:
        nodes.insert(0, _backoff(record, record.wake_at, now))
        if earliest is None or record.wake_at >= earliest:
            blocker, release, earliest = "backoff", None, record.wake_at
    told = await _summary(store, record, found, nodes)
    if expiry := _expiry(record, candidate, now):
        told += f" {expiry}"
    unmet = any(one.satisfied is False for one in nodes)
    late = punctuality.of_run(record, schedule, now)
    told = " ".join([told, *(one.why for one in late if one.satisfied is False)])
    before: tuple[Node, ...] = ()
    if record.attempts:
        before = *attempt_nodes(record), _accounted(record, schedule)
        told = f"{before[-1].why} {told}"
    tree = Node(
        node="run",
        satisfied=not unmet,
        value="waiting",
        threshold=None,
        why=told,
        children=(because, *before, *nodes, *late),
    )
    summary = f"{because.why} It waits. {told}"
    return Explanation(
        verdict="waiting", summary=summary, blocker=blocker, earliest=earliest, release=release, tree=tree
    )


def _holding(candidate: Candidate) -> Candidate:
    """A retry holds its counters from before."""
    return replace(candidate, held=counters_of(candidate))


async def _summary(store: ControlStore, record: RunRecord, found: Outlook, nodes: list[Node]) -> str:
    unmet = [one.why for one in nodes if one.satisfied is False]
    if not unmet:
        return "Nothing holds it; it will be admitted in a moment."
    told = " ".join(unmet)
    if found.skips:
        return f"{told} So it is skipped, not started, when it is looked at next."
    if record.wake_key is not None and (before := await store.ahead(record.wake_key, _rank(record), record.key)):
        wait = "run waits for the same and comes" if before == 1 else "runs wait for the same and come"
        told += f" {before} {wait} first."
    return told


def _rank(record: RunRecord) -> int:
    return rank(record.priority, record.created_at)


def _expiry(record: RunRecord, candidate: Candidate, now: Instant) -> str:
    """What becomes of it when it has waited its longest."""
    if record.expires_at is None or record.attempts:
        return ""
    runs = candidate.spec.waiting.then is ThenWaiting.RUN
    if is_late(candidate, now):
        return "Its waiting time is over, so it goes without delay, window, rate and load." if runs else ""
    what = "It goes without delay, window, rate and load from" if runs else "It expires at"
    return f"{what} {format_instant(record.expires_at)}."


def _accounted(record: RunRecord, schedule: ScheduleRecord) -> Node:
    """What it has used up of what it is allowed."""
    most = schedule.spec.retry.max_attempts
    return Node(
        node="attempts",
        satisfied=None,
        value=used_of(record.attempts),
        threshold=most,
        why=tries_of(record.attempts, most),
    )


def _backoff(record: RunRecord, until: Instant, now: Instant) -> Node:
    why = f"Attempt {len(record.attempts) + 1} starts no earlier than {format_instant(until)}."
    return Node(node="backoff", satisfied=False, value=format_instant(now), threshold=format_instant(until), why=why)


# ── one question ───────────────────────────────────────────────────────────────────────────────────────────────────


def _blocker(question: Question, candidate: Candidate) -> str:
    return f"{POOL}{candidate.program.pool}" if question.name == SLOT else question.name


async def _release(store: ControlStore, question: Question, candidate: Candidate, schedule: ScheduleRecord) -> str:
    """The smallest change that would let it go on, as far as this question is concerned."""
    name, namespace = schedule.metadata.name, schedule.metadata.namespace
    by_hand = f"`{command(f'trigger {name}', namespace)}` starts a run that does not wait for it"
    if question.name == FROZEN:
        return "tidegate unfreeze"
    if question.name == SUSPENDED:
        return command(f"enable {name}", namespace)
    if question.name in (BACKOFF, CRASH_WAIT):
        return "time alone; scheduler.crash_wait says how long" if question.name == CRASH_WAIT else "time alone"
    until = question.verdict.until if isinstance(question.verdict, Wait) else None
    match question.constraint:
        case None:
            return f"a free slot of pool {candidate.program.pool!r}"
        case Concurrency() as limit:
            holders = await store.holders(counter_of(limit.scope, subject_of(candidate)), _NAMED + 1)
            named = ", ".join(str(key) for key in holders[:_NAMED])
            return f"the end of run {named}" if len(holders) == 1 else f"the end of one of {named}"
        case Load() as load:
            return f"a reading of {load.resource} below {load.below:g}; {by_hand}"
        case Blackout() as blackout:
            if until is None:
                return f"a calendar named {blackout.calendar!r}: `tidegate apply` one"
            return f"another calendar than {blackout.calendar!r}, or another constraint"
        case Delay() | Window() | MinInterval() | Rate() | CustomConstraint():
            return by_hand
        case _:
            assert_never(question.constraint)


def _node(question: Question, candidate: Candidate, facts: AdmissionFacts, now: Instant) -> Node:
    met = isinstance(question.verdict, Met)
    name, value, threshold, holds = _told(question, candidate, facts, now)
    why = holds if isinstance(question.verdict, Met) else question.verdict.why
    if not met and question.skips:
        why += " It may be skipped for this, once everything else holds."
    return Node(node=name, satisfied=met, value=value, threshold=threshold, why=why)


def _told(
    question: Question, candidate: Candidate, facts: AdmissionFacts, now: Instant
) -> tuple[str, object, object, str]:
    """(name, value, threshold, what is said of it when it is met)."""
    if question.constraint is not None:
        return _constraint(question.constraint, candidate, facts, now)
    match question.name:
        case "freeze":
            return "freeze", facts.frozen is not None, False, "Nothing is frozen."
        case "suspended":
            return "suspended", candidate.mode.value, "enabled", "Its schedule is enabled."
        case "backoff" | "crash_wait":
            return _crash(question.name, candidate, now)
    pool = candidate.program.pool
    free = facts.free.get(pool)
    slots = "slot" if free == 1 else "slots"
    holds = f"{free} {slots} of pool {pool!r} {'is' if free == 1 else 'are'} free."
    if free is not None and free <= 0 and (loan := facts.loans.get(pool)):
        holds = f"None of pool {pool!r} is free; it borrows one of pool {loan.lender!r}."
    return f"slot of pool {pool}", free, 1, holds


def _crash(name: str, candidate: Candidate, now: Instant) -> tuple[str, object, object, str]:
    """The two things that a run waits for whose attempt crashed."""
    assert candidate.crash is not None
    until = candidate.crash.retry_at if name == BACKOFF else candidate.crash.restart_at
    holds = "Its backoff is over." if name == BACKOFF else "The schedulers have been up long enough since it crashed."
    return name, format_instant(now), None if until is None else format_instant(until), holds


def _constraint(
    constraint: Constraint, candidate: Candidate, facts: AdmissionFacts, now: Instant
) -> tuple[str, object, object, str]:
    subject = subject_of(candidate)
    match constraint:
        case Concurrency():
            counter = counter_of(constraint.scope, subject)
            whose = _scope(constraint.scope)
            holds = f"There is room: at most {constraint.max} may be admitted."
            if counter in candidate.held:
                holds = "It has its place already."
            return f"concurrency of {whose}", facts.held.get(counter, 0), constraint.max, holds
        case Delay():
            waited, least = format_duration(now - candidate.created_at), format_duration(constraint.duration)
            return "delay", waited, least, f"Its trigger was satisfied {waited} ago."
        case Window():
            span = constraint.span
            hours = f"{clock(span.start)} to {clock(span.end)} {span.timezone}"
            return "window", format_instant(now), hours, f"Its window {hours} is open."
        case MinInterval():
            newest = facts.starts.get(program_counter(subject.program), Starts()).newest
            last = format_instant(newest[0]) if newest else None
            holds = f"A run of the program last started at {last}." if last else "No run of the program has started."
            return "min_interval", last, format_duration(constraint.duration), holds
        case Rate():
            starts = facts.starts.get(counter_of(constraint.scope, subject), Starts())
            n = starts.pending + sum(at + constraint.per > now for at in starts.newest)
            holds = f"{n} of at most {constraint.max} started within {format_duration(constraint.per)}."
            return f"rate of {_scope(constraint.scope)}", n, constraint.max, holds
        case Load():
            gauge = facts.gauges.get(constraint.resource)
            value = _pool_use(constraint, facts) if gauge is None else gauge.value
            return f"load of {constraint.resource}", value, constraint.below, f"It is below {constraint.below:g}."
        case Blackout():
            return "blackout", constraint.calendar, None, f"Calendar {constraint.calendar} is not closed."
        case CustomConstraint():
            return constraint.plugin, None, dict(constraint.parameters), "It holds."
        case _:
            assert_never(constraint)


def _pool_use(load: Load, facts: AdmissionFacts) -> float | None:
    """Percent of a pool's slots that are in use."""
    name = load.resource.removeprefix(POOL)
    if name == load.resource or not facts.slots.get(name):
        return None
    return round(100.0 * (1 - facts.free.get(name, 0) / facts.slots[name]), 1)


def _scope(scope: str) -> str:
    return f"the {scope}" if ":" not in scope else scope.replace(":", " ")
