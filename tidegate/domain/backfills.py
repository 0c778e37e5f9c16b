"""Backfills: past fire times that a person asks to be run, however many, a slice at a time.

A backfill walks the fire times of its range (or of the keys that were named) in the order that was asked for. What
becomes of each is decided once, when the walk comes to it, by what is on record of that instant (`Standing`): a run
that a clock, a rerun or another backfill made for it is that instant's run, and stays so unless `reprocess` says
otherwise. No more of its runs live at a time than its `concurrency`, so a year of minutes needs no more memory than an
hour of them.

A run that ended since something took its place (an update of its schedule, a pause of the backfill) is made again;
every other end is counted. The trigger is that of the revision the backfill was asked under; its runs go by the newest.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import NamedTuple, assert_never

from tidegate.domain import fires
from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.runs import LIVE, State
from tidegate.domain.trees import clocks
from tidegate.domain.triggers import Trigger, WindowDays

PRIORITY = 0
"""Of a backfill's runs: everything else that waits for the same comes first, for as long as ageing lets it."""
MOST_AT_ONCE = 1000
"""The largest `concurrency`."""
MOST_KEYS = 1000
MOST_FIRES = 10_000_000
"""Fire times in one backfill."""


class Order(StrEnum):
    """Which fire time goes first."""

    OLDEST = "oldest"
    NEWEST = "newest"


class Reprocess(StrEnum):
    """Which instants that have a run get another one."""

    NONE = "none"
    """None: only what never got a run (missed, before the schedule was there, while it rested) is made."""
    FAILED = "failed"
    """Those that no run did: failed, timed out, crashed, cancelled, skipped, expired or superseded."""
    ALL = "all"
    """All whose runs have ended."""


class BackfillState(StrEnum):
    """Where a backfill stands."""

    RUNNING = "running"
    """Runs are made as places become free. Backfiller."""
    PAUSED = "paused"
    """No further run is made or starts until somebody resumes it."""
    FINISHED = "finished"
    """Every fire time was looked at, and every run that was made has ended."""
    CANCELLED = "cancelled"
    """Somebody ended it, or its schedule was deleted."""


class Standing(StrEnum):
    """What is on record of one instant of a schedule."""

    LIVE = "live"
    """A run for it has not ended, or another backfill has it in hand."""
    DONE = "done"
    """A run for it succeeded, or it joined another run (merged)."""
    UNDONE = "undone"
    """Runs for it ended, and none did it."""


def standing(states: Collection[State]) -> Standing | None:
    """By the states of all runs for one instant; None where there is none."""
    if not states:
        return None
    if not LIVE.isdisjoint(states):
        return Standing.LIVE
    return Standing.UNDONE if {State.SUCCEEDED, State.MERGED}.isdisjoint(states) else Standing.DONE


def wanted(reprocess: Reprocess, there: Standing | None) -> bool:
    """Whether an instant gets a run."""
    if there is None or there is Standing.LIVE:
        return there is None
    match reprocess:
        case Reprocess.NONE:
            return False
        case Reprocess.FAILED:
            return there is Standing.UNDONE
        case Reprocess.ALL:
            return True
        case _:
            assert_never(reprocess)


# ── which fire times ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person said. `end` None: up to now; `start` None: there are keys."""

    start: Instant | None = None
    end: Instant | None = None
    keys: tuple[Instant, ...] = ()
    order: Order = Order.OLDEST
    reprocess: Reprocess = Reprocess.NONE
    concurrency: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The wish, checked: the fire times in [start, end), or the keys among them."""

    start: Instant
    end: Instant
    keys: tuple[Instant, ...] = ()  # ascending; empty: every fire time of the range
    order: Order = Order.OLDEST
    reprocess: Reprocess = Reprocess.NONE
    concurrency: int = 1

    @property
    def beginning(self) -> Instant:
        """Where the walk's cursor stands before the first fire time."""
        return self.start - 1 if self.order is Order.OLDEST else self.end


def has_fires(trigger: Trigger) -> bool:
    """Whether it has fire times that are known without having lived through them."""
    return any(fires.ticks_of(leaf) is not None for leaf in clocks(trigger))


def counts_from_runs(trigger: Trigger) -> bool:
    """Whether a fire time depends on the one before, so that they cannot be walked backwards."""
    return any(isinstance(leaf, WindowDays) for leaf in clocks(trigger))


def is_fire(trigger: Trigger, instant: Instant) -> bool:
    """Whether the instant is a fire time (for `window_days`: an opening)."""
    return fires.newest_fire(trigger, instant) == instant


def total(trigger: Trigger, asked: Asked) -> int:
    """How many fire times were asked for."""
    if asked.keys:
        return len(asked.keys)
    if counts_from_runs(trigger):
        return sum(1 for _ in fires.fires_between(trigger, asked.start - 1, asked.end - 1))
    return fires.count_fires(trigger, asked.start - 1, asked.end - 1)


def upcoming(trigger: Trigger, asked: Asked, cursor: Instant) -> Iterator[Instant]:
    """The fire times that come after the cursor in the order of the walk."""
    oldest = asked.order is Order.OLDEST
    if asked.keys:
        yield from (
            asked.keys[bisect_right(asked.keys, cursor) :]
            if oldest
            else reversed(asked.keys[: bisect_left(asked.keys, cursor)])
        )
    elif oldest:
        last = cursor if cursor >= asked.start else None
        yield from fires.fires_between(trigger, cursor, asked.end - 1, last_fire=last)
    else:
        fire = fires.newest_fire(trigger, cursor - 1)
        while fire is not None and fire >= asked.start:
            yield fire
            fire = fires.newest_fire(trigger, fire - 1)


# ── a pass ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Item(NamedTuple):
    """A fire time that the backfill has in hand. `run` None: it is to be made (again)."""

    fire_time: Instant
    run: RunKey | None
    state: State | None  # of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Fire times: looked at, left to the run they have, and how those ended that were run."""

    considered: int = 0
    passed: int = 0
    succeeded: int = 0
    failed: int = 0
    """Failed, timed out or crashed."""
    cancelled: int = 0
    """Cancelled or skipped."""

    @property
    def settled(self) -> int:
        """Fire times of which no more is to come."""
        return self.passed + self.run

    @property
    def run(self) -> int:
        """Fire times whose runs have ended."""
        return self.succeeded + self.failed + self.cancelled


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """A backfill that has something to do, and what it has in hand."""

    id: int
    schedule_id: ScheduleId
    trigger: Trigger
    asked: Asked
    state: BackfillState
    cursor: Instant
    counts: Counts
    items: tuple[Item, ...]
    deleted: bool  # the schedule is gone


class Make(NamedTuple):
    """A run to be made."""

    fire_time: Instant
    previous_fire: Instant | None


class Span(NamedTuple):
    """Instants from `first` to `last`, both included, of which it is asked what is on record."""

    first: Instant
    last: Instant


class Reach(NamedTuple):
    """The fire times that one pass looks at. `last`: the range has no more than these."""

    fires: tuple[Instant, ...]
    last: bool

    def spans(self, asked: Asked) -> tuple[Span, ...]:
        """What to look up for them: the stretch they fill; keys that people named each for itself, since years with
        millions of runs may lie between two of them."""
        if asked.keys:
            return tuple(Span(fire, fire) for fire in self.fires)
        return (Span(min(self.fires), max(self.fires)),) if self.fires else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What one pass did with a backfill. `release`: items to be made again later; `more`: come back at once."""

    id: int
    schedule_id: ScheduleId
    state: BackfillState
    cursor: Instant
    counts: Counts
    make: tuple[Make, ...] = ()
    close: tuple[Instant, ...] = ()
    release: tuple[Instant, ...] = ()
    more: bool = False
    over: bool = False
    reason: str | None = None  # a new one


AGAIN = frozenset({State.SUPERSEDED, State.EXPIRED})
"""How a run ends that something else took the place of: its fire time gets another one."""
GONE = "Its schedule was deleted."


def reach(backfill: Backfill, most: int) -> Reach:
    """What a pass may look at: nothing, unless the backfill may make a run now."""
    if backfill.state is not BackfillState.RUNNING or backfill.deleted or _room(backfill) <= 0:
        return Reach((), False)
    found = tuple(islice(upcoming(backfill.trigger, backfill.asked, backfill.cursor), most + 1))
    return Reach(found[:most], len(found) <= most)


def decide(backfill: Backfill, reached: Reach, standings: Mapping[Instant, Standing]) -> Move:
    """Count what ended, make again what never began, and go on with the walk as far as there is room."""
    counts, close, pending = _ended(backfill)
    state = backfill.state
    if backfill.deleted and state in (BackfillState.RUNNING, BackfillState.PAUSED):
        state = BackfillState.CANCELLED
    alive = len(backfill.items) - len(close) - len(pending)
    if state is not BackfillState.RUNNING:
        given_up = () if state is BackfillState.PAUSED else pending
        return Move(
            id=backfill.id,
            schedule_id=backfill.schedule_id,
            state=state,
            cursor=backfill.cursor,
            counts=replace(counts, cancelled=counts.cancelled + len(given_up)),
            close=(*close, *given_up),
            release=() if given_up else pending,
            over=state is BackfillState.CANCELLED and not alive,
            reason=GONE if state is not backfill.state else None,
        )
    made = list(pending)
    room = _room(backfill)
    cursor, passed, looked = backfill.cursor, 0, 0
    for fire in reached.fires:
        get = wanted(backfill.asked.reprocess, standings.get(fire))
        if get and room <= 0:
            break
        cursor, looked = fire, looked + 1
        if get:
            room -= 1
            made.append(fire)
        else:
            passed += 1
    exhausted = reached.last and looked == len(reached.fires)
    over = exhausted and not made and not alive
    return Move(
        id=backfill.id,
        schedule_id=backfill.schedule_id,
        state=BackfillState.FINISHED if over else state,
        cursor=cursor,
        counts=replace(counts, considered=counts.considered + looked, passed=counts.passed + passed),
        make=tuple(Make(fire, fires.newest_fire(backfill.trigger, fire - 1)) for fire in made),
        close=close,
        more=room > 0 and not exhausted,
        over=over,
    )


def _ended(backfill: Backfill) -> tuple[Counts, tuple[Instant, ...], tuple[Instant, ...]]:
    """The counts with the runs that have ended, whose items these were, and the items that want a run."""
    succeeded = failed = cancelled = 0
    close, pending = list[Instant](), list[Instant]()
    for item in backfill.items:
        if item.run is None or item.state in AGAIN:
            pending.append(item.fire_time)
        elif item.state is None or item.state in LIVE:
            continue
        else:
            close.append(item.fire_time)
            succeeded += item.state is State.SUCCEEDED
            failed += item.state in (State.FAILED, State.TIMED_OUT, State.CRASHED)
            cancelled += item.state in (State.CANCELLED, State.SKIPPED)
    counts = backfill.counts
    return (
        replace(
            counts,
            succeeded=counts.succeeded + succeeded,
            failed=counts.failed + failed,
            cancelled=counts.cancelled + cancelled,
        ),
        tuple(close),
        tuple(pending),
    )


def _room(backfill: Backfill) -> int:
    """How many more runs may be made beside those it has in hand."""
    closed = len(_ended(backfill)[1])
    return backfill.asked.concurrency - (len(backfill.items) - closed)


def identity(number: int) -> str:
    """The public id of a backfill."""
    return f"b{number}"


def parse_identity(text: str) -> int:
    """The number behind a public id. Raises ValueError when it is not one."""
    digits = text[1:]
    if text[:1] != "b" or not (digits.isascii() and digits.isdecimal()) or len(digits) > 18:
        raise ValueError(f"{text!r} is not the id of a backfill; they look like b17 (see `tidegate backfill list`)")
    return int(digits)
