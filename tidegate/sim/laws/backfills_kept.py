"""Backfills keep their word: no instant twice, none lost, no more at a time than they may, and the counts are true.

What is said of an instant counts the clock's own run of it and every backfill's, in the order in which they were made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tidegate.domain.backfills import AGAIN, BackfillState, Reprocess, identity, upcoming
from tidegate.domain.instants import Instant
from tidegate.domain.runs import Cause, State
from tidegate.sim.history import BackfillFact, History, RunFact, Violation, when

LAW = "backfills_kept"
FAILED = (State.FAILED, State.TIMED_OUT, State.CRASHED)


def check(history: History) -> Iterator[Violation]:
    by: dict[str, list[RunFact]] = {}
    of: dict[tuple[int, Instant], list[RunFact]] = {}
    for run in history.runs:
        if run.cause is Cause.BACKFILL:
            by.setdefault(run.by, []).append(run)
        if run.cause in (Cause.FIRE, Cause.BACKFILL) and run.fire_time is not None:
            of.setdefault((run.key.schedule_id, run.fire_time), []).append(run)
    for one in history.backfills:
        mine = sorted(by.pop(identity(one.id), []), key=_made)
        yield from _counts(history, one, mine)
        yield from _few_at_a_time(history, one, mine)
        yield from _none_lost(one, mine, of)
    for name in by:
        yield Violation(LAW, f"runs of backfill {name}, which nobody asked for")
    for (_, fire), runs in of.items():
        yield from _one_at_a_time(history, fire, sorted(runs, key=lambda run: (history.appeared[run.key], run.key)))


def _made(run: RunFact) -> tuple[Instant, object]:
    return run.created_at, run.key


def _counts(history: History, one: BackfillFact, runs: list[RunFact]) -> Iterator[Violation]:
    """Every fire time that was looked at was passed, is in hand, or has ended as it is counted."""
    name, counts = identity(one.id), one.counts
    if counts.considered != counts.settled + one.in_hand:
        yield Violation(LAW, f"{name}: {counts} and {one.in_hand} in hand do not add up")
    if one.state is BackfillState.FINISHED and (counts.considered != one.total or one.in_hand):
        yield Violation(LAW, f"{name} is finished with {counts.considered} of {one.total} looked at")
    if one.finished_at is None:
        return
    ends = Counter(run.state for run in runs)
    failed = sum(ends[state] for state in FAILED)
    if (counts.succeeded, counts.failed) != (ends[State.SUCCEEDED], failed):
        yield Violation(LAW, f"{name}: {counts}, where its runs ended as {dict(ends)}")


def _few_at_a_time(history: History, one: BackfillFact, runs: list[RunFact]) -> Iterator[Violation]:
    """From when each was committed until it ended."""
    moments = [(history.appeared[run.key], 1) for run in runs]
    moments += [(run.finished_at, -1) for run in runs if run.finished_at is not None]
    live = 0
    for at, change in sorted(moments):
        live += change
        if live > one.asked.concurrency:
            yield Violation(LAW, f"{identity(one.id)}: {live} of its runs lived at {when(at)}")
            return


def _none_lost(
    one: BackfillFact, runs: list[RunFact], of: dict[tuple[int, Instant], list[RunFact]]
) -> Iterator[Violation]:
    """Of a finished backfill every fire time has a run; and it made only what was asked for."""
    name = identity(one.id)
    asked = list(upcoming(one.trigger, one.asked, one.asked.beginning))
    for run in runs:
        if run.fire_time not in asked:
            yield Violation(LAW, f"{name}: a run for {run.fire_time}, which was not asked for")
    done = Counter(run.fire_time for run in runs if run.state not in AGAIN)
    for fire in asked:
        if done[fire] > 1:
            yield Violation(LAW, f"{name}: {done[fire]} runs for {when(fire)}")
        if one.state is BackfillState.FINISHED and not of.get((one.schedule_id, fire)):
            yield Violation(LAW, f"{name} is finished, and {when(fire)} has no run")
    if one.asked.reprocess is not Reprocess.NONE:
        return
    for run in runs:
        assert run.fire_time is not None
        for other in of.get((one.schedule_id, run.fire_time), ()):
            before = other.cause is Cause.FIRE or other.attempts  # what a clock made counts, begun or not
            if other.key != run.key and other.created_at < run.created_at and before and other.state not in AGAIN:
                yield Violation(LAW, f"{name}: {when(run.fire_time)} had run {other.key} and got another")


def _one_at_a_time(history: History, fire: Instant, runs: list[RunFact]) -> Iterator[Violation]:
    for before, after in zip(runs, runs[1:], strict=False):
        ended = before.finished_at if before.finished_at is not None else history.end + 1
        if after.cause is Cause.BACKFILL and history.appeared[after.key] < ended:
            yield Violation(LAW, f"{when(fire)}: {before.key} and {after.key} lived together")
