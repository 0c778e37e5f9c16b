"""Concurrency limits, slots and what pools may borrow hold at every moment, by what the backend saw.

Limits that were edited count with the greatest value they ever had. A limit per program is only looked at where every
schedule of the program declares one, since a schedule without it may add runs; so is one per group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.domain.constraints import Concurrency
from tidegate.domain.ids import AttemptKey
from tidegate.domain.instants import Instant
from tidegate.sim.history import History, ScheduleFact, Violation, when
from tidegate.sim.laws.one_run_a_key import given_up, until
from tidegate.sim.memory.rows import DecisionRow

LAW = "limits_kept"
Span = tuple[Instant, Instant]


def check(history: History) -> Iterator[Violation]:
    ends = given_up(history)
    by_schedule: dict[int, list[Span]] = {}
    by_program: dict[int, list[Span]] = {}
    by_pool: dict[str, list[Span]] = {}
    by_borrower: dict[str, list[Span]] = {}
    slots = {(one.run, one.attempts + 1): one for one in history.decisions if one.what == "admit"}
    for one in history.executions:
        span = (one.started_at, until(one, ends, history.end))
        by_schedule.setdefault(one.attempt.run.schedule_id, []).append(span)
        by_program.setdefault(one.program_id, []).append(span)
        slot = slots[one.attempt.run, one.attempt.number]
        by_pool.setdefault(slot.pool, []).append(span)
        if slot.borrower is not None:
            by_borrower.setdefault(slot.borrower, []).append(span)
    programs: dict[int, list[int | None]] = {}
    for schedule in history.schedules:
        limit = _limit(schedule, "schedule")
        if limit is not None:
            yield from _passed(f"schedule {schedule.name}", by_schedule.get(schedule.id, []), limit)
        programs.setdefault(schedule.program_id, []).append(_limit(schedule, "program"))
    for program, limits in programs.items():
        known = [limit for limit in limits if limit is not None]
        if len(known) == len(limits):
            yield from _passed(f"program {program}", by_program.get(program, []), max(known))
    yield from _groups(history, ends)
    for pool, spans in by_pool.items():
        yield from _passed(f"pool {pool}", spans, history.most_slots.get(pool, 0))
    for pool, spans in by_borrower.items():
        yield from _passed(f"what pool {pool} borrows", spans, history.most_borrowed.get(pool, 0))


def _groups(history: History, ends: dict[AttemptKey, Instant]) -> Iterator[Violation]:
    """Groups of which every schedule that has runs in it says how many there may be."""
    schedules = {schedule.id: schedule for schedule in history.schedules}
    groups = {
        one.run: _groups_of(schedules[one.run.schedule_id], one)
        for one in history.decisions
        if one.what == "admit" and one.attempts == 0
    }
    spans: dict[str, list[Span]] = {}
    limits: dict[str, list[int | None]] = {}
    for one in history.executions:
        for counter in groups.get(one.attempt.run, ()):
            spans.setdefault(counter, []).append((one.started_at, until(one, ends, history.end)))
            scope = f"group:{counter.partition('/')[2]}"
            limits.setdefault(counter, []).append(_limit(schedules[one.attempt.run.schedule_id], scope))
    for counter, found in limits.items():
        known = [limit for limit in found if limit is not None]
        if len(known) == len(found):
            yield from _passed(f"group {counter[1:]}", spans[counter], max(known))


def _groups_of(schedule: ScheduleFact, decision: DecisionRow) -> set[str]:
    """By what its schedule said, and by what was counted (a program may be in groups, too)."""
    namespace = schedule.name.partition("/")[0]
    said = {f"g{namespace}/{name}" for name in schedule.revisions[decision.rev - 1].spec.groups}
    return said | {counter for counter in decision.counters if counter.startswith("g")}


def _limit(schedule: ScheduleFact, scope: str) -> int | None:
    """The weakest limit of that scope that ever held; None when some revision had none."""
    limits = []
    for revision in schedule.revisions:
        mine = [one.max for one in revision.spec.constraints if isinstance(one, Concurrency) and one.scope == scope]
        if not mine:
            return None
        limits.append(min(mine))
    return max(limits)


def _passed(what: str, spans: Iterable[Span], limit: int) -> Iterator[Violation]:
    moments = sorted(edge for start, end in spans for edge in ((start, 1), (end, -1)))
    running = 0
    for at, change in moments:  # at one instant ends (-1) sort before starts
        running += change
        if running > limit:
            yield Violation(LAW, f"{what}: {running} at once at {when(at)}, where {limit} may be")
            return
