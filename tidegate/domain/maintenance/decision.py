"""Run or not: the one decision that the scheduler takes and that people are shown.

`decide` judges every operation of one table's policy and gives each reason for and against; `choosing.spend` then
spends the budgets over all tables. Who shows a status calls the same two functions with the same facts, so what is
shown and what is done cannot differ.

An operation is due by its schedule or, without one, while its conditions are met. What is due and may not start
(window, min_interval, throttles, conditions, budget, another operation) stays due, and further fires merge into it. A
predicted no-op is skipped: the fire is spent, and the next one is judged anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from tidegate.domain.instants import MINUTE, Duration, Instant
from tidegate.domain.maintenance.budget import Spend
from tidegate.domain.maintenance.clock import Clock
from tidegate.domain.maintenance.debt import Debt
from tidegate.domain.maintenance.health import MEASURES, Metric, TableHealth
from tidegate.domain.maintenance.operations import ORDER, Operation
from tidegate.domain.maintenance.policy import Logic, Policy, Rule, Schedule
from tidegate.domain.maintenance.state import NO_HISTORY, UNKNOWN, History, Prediction, TableState
from tidegate.domain.maintenance.throttle import DEFAULT_THROTTLES, Switches, Throttles, backed_off, stretched
from tidegate.domain.maintenance.value import cost
from tidegate.domain.triggers import WindowDays

SETTLING = 5 * MINUTE
"""So long after a run that changed its table, figures from before it count as unknown; by then it is assessed anew."""


class Verdict(StrEnum):
    """What becomes of an operation now."""

    RUN = "run"
    """Start it."""
    SKIP = "skip"
    """It is due and would change nothing: record that, do not start it."""
    HOLD = "hold"
    """Nothing but a budget is against it, for the first time: record that (`state.held`), do not start it."""
    WAIT = "wait"
    """Nothing is done; the blocks and unmet conditions say why."""


class Blocker(StrEnum):
    """What keeps an operation from starting; the words of `blocked_by`."""

    SCHEDULE = "schedule"
    WINDOW = "window"
    THROTTLE = "throttle"
    BUDGET = "budget"
    CONSTRAINT = "constraint"
    PREDICTED_NOOP = "predicted_noop"


class Because(StrEnum):
    """The very reason, of which doors make a sentence."""

    BY_HAND = "by_hand"
    NOT_DUE = "not_due"
    SCHEDULE_OFF = "schedule_off"
    CONDITIONS_OFF = "conditions_off"
    WINDOW_CLOSED = "window_closed"
    FAILING = "failing"
    UNCHANGED = "unchanged"
    NO_ROOM = "no_room"
    SWITCHED_OFF = "switched_off"
    DISABLED = "disabled"
    BUSY = "busy"
    UNREADABLE = "unreadable"
    REFUSED = "refused"
    MIN_INTERVAL = "min_interval"
    ANOTHER_FIRST = "another_first"
    NOTHING_TO_DO = "nothing_to_do"
    IMPOSSIBLE = "impossible"


_OF: Mapping[Because, Blocker] = {
    Because.BY_HAND: Blocker.SCHEDULE,
    Because.NOT_DUE: Blocker.SCHEDULE,
    Because.SCHEDULE_OFF: Blocker.SCHEDULE,
    Because.CONDITIONS_OFF: Blocker.SCHEDULE,
    Because.WINDOW_CLOSED: Blocker.WINDOW,
    Because.FAILING: Blocker.THROTTLE,
    Because.UNCHANGED: Blocker.THROTTLE,
    Because.NO_ROOM: Blocker.BUDGET,
    Because.SWITCHED_OFF: Blocker.CONSTRAINT,
    Because.DISABLED: Blocker.CONSTRAINT,
    Because.BUSY: Blocker.CONSTRAINT,
    Because.UNREADABLE: Blocker.CONSTRAINT,
    Because.REFUSED: Blocker.CONSTRAINT,
    Because.MIN_INTERVAL: Blocker.CONSTRAINT,
    Because.ANOTHER_FIRST: Blocker.CONSTRAINT,
    Because.NOTHING_TO_DO: Blocker.PREDICTED_NOOP,
    Because.IMPOSSIBLE: Blocker.CONSTRAINT,
}


class Block(NamedTuple):
    """A reason against. `until`: when it ends by itself, None: not by time. `detail`: what a sentence names."""

    because: Because
    until: Instant | None = None
    detail: str = ""

    @property
    def by(self) -> Blocker:
        return _OF[self.because]


_BY_HAND, _SCHEDULE_OFF, _DISABLED = (Block(one) for one in (Because.BY_HAND, Because.SCHEDULE_OFF, Because.DISABLED))


class Finding(NamedTuple):
    """A condition and the figure it was compared with; `value` None: unknown, and so not met."""

    metric: Metric
    value: float | None
    limit: float


Checks: TypeAlias = tuple[tuple[Metric, Callable[[TableHealth, Instant], float | None], float], ...]
"""Figure, how it is measured, and its limit."""


class Decision(NamedTuple):
    """What was decided of one operation on one table.

    `due_since`: when it became due, None: it is not. `next_eligible`: the earliest instant at which it may start as far
    as time alone tells; None where something else must happen first, or it may now. `bytes`: what a budget must hold
    for it, None: unknown. `ignored`: its conditions did not count, by the switch.
    """

    table: str
    operation: Operation
    verdict: Verdict
    forced: bool = False
    due_since: Instant | None = None
    met: tuple[Finding, ...] = ()
    unmet: tuple[Finding, ...] = ()
    blocks: tuple[Block, ...] = ()
    next_eligible: Instant | None = None
    prediction: Prediction = UNKNOWN
    bytes: int | None = None
    ignored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """All that a decision about one table takes. `debt` ranks it where a budget is short."""

    state: TableState
    policy: Policy
    debt: Debt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What holds for all tables. `spent`: by policy, what was started within its budget's span or is under way."""

    clock: Clock
    switches: Switches = Switches()
    throttles: Throttles = DEFAULT_THROTTLES
    spent: Mapping[str, Sequence[Spend]] = field(default_factory=dict)

    @property
    def now(self) -> Instant:
        return self.clock.now


def decide(table: Table, terms: Terms) -> tuple[Decision, ...]:
    """Every operation of its policy, in the order in which they follow each other; budgets aside.

    At most one is to run: the others that could are held until it has ended.
    """
    always = _never_forced(table.state, terms)
    judged = [_judge(table.state, asked, always, terms) for asked in _asked(table.policy, terms.clock)]
    wanted = [one for one in judged if one.verdict is Verdict.RUN]
    if len(wanted) > 1:
        first = _first(wanted, table.state)
        held = Block(Because.ANOTHER_FIRST, None, first.operation.value)
        judged = [hold(one, held) if one.verdict is Verdict.RUN and one is not first else one for one in judged]
    return tuple(judged)


def _first(wanted: Sequence[Decision], state: TableState) -> Decision:
    """Whose turn it is: forced ones first; then those that had no turn since another became due; then by order."""
    best: tuple[bool, bool] | None = None
    chosen = wanted[0]
    oldest, second = _two_oldest([one.due_since for one in wanted if one.due_since is not None])
    for one in wanted:
        started = state.histories.get(one.operation, NO_HISTORY).started_at
        other = second if one.due_since == oldest else oldest
        turn = (not one.forced, started is not None and other is not None and other <= started)
        if best is None or turn < best:
            best, chosen = turn, one
    return chosen


def _two_oldest(found: list[Instant]) -> tuple[Instant | None, Instant | None]:
    """The least two, equal ones counted each."""
    found.sort()
    return (found[0] if found else None), (found[1] if len(found) > 1 else None)


def hold(one: Decision, block: Block, verdict: Verdict = Verdict.WAIT) -> Decision:
    """The same, held by one more block."""
    return one._replace(verdict=verdict, blocks=(*one.blocks, block), next_eligible=block.until)


# ── one operation ──────────────────────────────────────────────────────────────────────────────────────────────────


class _Asked(NamedTuple):
    """A rule, with what is the same for all tables at one instant: what its conditions compare, and the block of its
    window where that is closed."""

    rule: Rule
    checks: Checks
    closed: Block | None


def _asked(policy: Policy, clock: Clock) -> list[_Asked]:
    """The rules of a policy in the order of their operations."""
    known = clock.memory.get(id(policy))
    if known is not None:
        return known[1]  # type: ignore[no-any-return]
    made = []
    for rule in sorted(policy.operations.values(), key=lambda one: ORDER[one.operation]):
        limits = rule.when.limits if rule.when is not None else {}
        closed = None
        if rule.schedule is not None and not rule.schedule.always_open:
            opens = clock.opens(rule.schedule)
            closed = Block(Because.WINDOW_CLOSED, opens) if opens != clock.now else None
        made.append(_Asked(rule, tuple((one, MEASURES[one], limit) for one, limit in limits.items()), closed))
    clock.memory[id(policy)] = policy, made
    return made


def _judge(state: TableState, asked: _Asked, always: Sequence[Block], terms: Terms) -> Decision:
    rule, checks, closed = asked
    now = terms.clock.now
    history = state.histories.get(rule.operation, NO_HISTORY)
    outdated = history.succeeded_at is not None and _outdated(history, state, now)
    prediction = UNKNOWN if outdated else state.predictions.get(rule.operation, UNKNOWN)
    forced = rule.max_delay is not None and _overdue(rule, history, state.since, now) is not None
    ignored = rule.when is not None and not terms.switches.conditions
    due, interval, blocks = _due(rule, history, state.since, terms)
    met, unmet, holds = _conditions(checks, None if outdated else state.health, rule, terms)
    if not forced:
        if closed is not None:
            blocks.append(closed)
        rest = max(rule.min_interval, terms.throttles.min_interval)
        if rest and history.started_at is not None and history.started_at + rest > now:
            blocks.append(Block(Because.MIN_INTERVAL, history.started_at + rest))
        if history.failures or history.unchanged:
            blocks += _throttled(rule, history, state, interval, terms)
        if prediction.noop:
            blocks.append(Block(Because.NOTHING_TO_DO, None, prediction.why))
    else:
        blocks = []
        due = due if due is not None else _overdue(rule, history, state.since, now)
    if not rule.enabled:
        blocks.append(_DISABLED)
    if prediction.impossible:
        blocks.append(Block(Because.IMPOSSIBLE, None, prediction.why))
    blocks += always
    ready = forced or holds
    if not blocks:
        verdict, eligible = (Verdict.RUN if ready else Verdict.WAIT), None
    else:
        skip = ready and _is_skip(history, state, due, blocks)
        verdict, eligible = (Verdict.SKIP if skip else Verdict.WAIT), _eligible(blocks) if ready else None
    size = prediction.bytes if prediction.bytes is not None else cost(rule.operation, prediction, state.health)
    told = tuple(blocks)
    return Decision(
        state.table, rule.operation, verdict, forced, due, met, unmet, told, eligible, prediction, size, ignored
    )


def _overdue(rule: Rule, history: History, since: Instant, now: Instant) -> Instant | None:
    """Since when a critical pipeline's operation is overdue."""
    if rule.max_delay is None:
        return None
    at = (history.started_at if history.started_at is not None else since) + rule.max_delay
    return at if at <= now else None


def _due(rule: Rule, history: History, since: Instant, terms: Terms) -> tuple[Instant | None, Duration, list[Block]]:
    """Since when it is due (None: it is not), how long it is between its fires, and what the schedule says against."""
    started = history.started_at
    base = since if started is None else max(started, since)
    schedule = rule.schedule
    if schedule is None:
        if rule.when is None:
            return None, rule.min_interval, [_BY_HAND]
        if not terms.switches.conditions:
            return None, rule.min_interval, [Block(Because.CONDITIONS_OFF)]
        return base, rule.min_interval, []
    if not schedule.enabled:
        return None, rule.min_interval, [_SCHEDULE_OFF]
    if history.skipped_at is not None:
        base = max(base, history.skipped_at)
    fire, following, interval = _fire(schedule, base, started, terms.clock)
    if fire is None:
        return None, interval, [Block(Because.NOT_DUE, following)]
    return fire, interval, []


def _fire(
    schedule: Schedule, base: Instant, started: Instant | None, clock: Clock
) -> tuple[Instant | None, Instant | None, Duration]:
    """The first unspent fire up to now that is known (None: none), the next one after now, and the rhythm."""
    newest, previous, following, interval = clock.fires(schedule)
    if isinstance(schedule.trigger, WindowDays):
        following = clock.opening(schedule.trigger, base, started)
        due = following is not None and following <= clock.now
        return (following, None, interval) if due else (None, following, interval)
    if newest is None or newest <= base:
        return None, following, interval
    if previous is not None and previous > base:
        newest = clock.first_after(schedule, base)
    return newest, following, interval


def _conditions(
    checks: Checks, health: TableHealth | None, rule: Rule, terms: Terms
) -> tuple[tuple[Finding, ...], tuple[Finding, ...], bool]:
    """The conditions that are met, those that are not, and whether what is asked for holds, or does not count."""
    if not checks or rule.when is None:
        return (), (), True
    met: list[Finding] = []
    unmet: list[Finding] = []
    now = terms.clock.now
    for metric, measure, limit in checks:
        figure = measure(health, now) if health is not None else None
        (met if figure is not None and figure >= limit else unmet).append(Finding(metric, figure, limit))
    holds = bool(met) if rule.when.logic is Logic.ANY else not unmet
    return tuple(met), tuple(unmet), holds or not terms.switches.conditions


def _outdated(history: History, state: TableState, now: Instant) -> bool:
    """Whether the table is known only as it was before the last run changed it."""
    ended = history.succeeded_at
    if ended is None or state.health is None or history.unchanged or now >= ended + SETTLING:
        return False
    return state.health.assessed_at < ended


def _throttled(rule: Rule, history: History, state: TableState, interval: Duration, terms: Terms) -> list[Block]:
    blocks = []
    now = terms.clock.now
    until = backed_off(history, terms.throttles)
    if until is not None and until > now:
        blocks.append(Block(Because.FAILING, until, str(history.failures)))
    until = stretched(history, interval, _changed_at(state), terms.throttles)
    if until is not None and until > now:
        blocks.append(Block(Because.UNCHANGED, until, str(history.unchanged)))
    return blocks


def _changed_at(state: TableState) -> Instant | None:
    told, assessed = state.changed_at, state.health.changed_at if state.health is not None else None
    if told is None or assessed is None:
        return assessed if told is None else told
    return max(told, assessed)


def _never_forced(state: TableState, terms: Terms) -> list[Block]:
    """What holds even an operation that is overdue, whichever it is."""
    blocks: list[Block] = []
    if not terms.switches.automatic:
        blocks.append(Block(Because.SWITCHED_OFF))
    if state.busy is not None:
        blocks.append(Block(Because.BUSY, None, state.busy))
    if state.health is not None and state.health.fault is not None:
        blocks.append(Block(Because.UNREADABLE, None, state.health.fault))
    if state.refused is not None and state.refused.until > terms.clock.now:
        blocks.append(Block(Because.REFUSED, *state.refused))
    return blocks


def _is_skip(history: History, state: TableState, due: Instant | None, blocks: Sequence[Block]) -> bool:
    """Whether that it would change nothing is all there is against it, and is not on record already."""
    if due is None or len(blocks) != 1 or blocks[0].because is not Because.NOTHING_TO_DO:
        return False
    snapshot = state.health.snapshot if state.health is not None else None
    recorded = history.skipped_at is not None and history.skipped_snapshot == snapshot and history.skipped_at >= due
    return not recorded


def _eligible(blocks: Sequence[Block]) -> Instant | None:
    """The last of the instants at which the blocks end, if all of them end by themselves."""
    latest: Instant | None = None
    for block in blocks:
        if block.until is None:
            return None
        latest = block.until if latest is None or block.until > latest else latest
    return latest
