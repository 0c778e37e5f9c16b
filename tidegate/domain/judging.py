"""Judging a clock that fell behind: which of its due fires run, and which are on record as missed.

A fire first decided more than the catch-up grace after it was due is missed; else it is on time or merely late and
runs. What becomes of missed ones is said by the policy of the revision in force at their nominal time: `none` drops
them; `latest` runs the newest unless something newer runs; `all` runs what lies within the window, of that the newest
`max`. Fires are handled as blocks, counted and never walked: a year of minutes is judged in well under a millisecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import assert_never

from tidegate.domain.clocks import Due
from tidegate.domain.fires import closing, count_fires, newest_fire, next_fire, nth_newest
from tidegate.domain.instants import Instant
from tidegate.domain.reigns import Reign, after_finish_fire, due_under, reigns
from tidegate.domain.schedules import CatchUpPolicy
from tidegate.domain.trees import clockwork
from tidegate.domain.triggers import AfterFinish, WindowDays

WINDOW_CLOSED = "its window had closed before a scheduler could start it"
POLICY_NONE = "missed; catch_up none"
NEWER_RUNS = "missed; catch_up latest, and a newer one runs"
BEYOND_WINDOW = "missed; older than the catch_up window"
BEYOND_MAX = "missed; beyond the newest catch_up max"


class Fate(Enum):
    """What becomes of a block of fires."""

    DROP = "drop"
    """On record as missed."""
    CATCH_UP = "catch_up"
    """Missed, and run all the same: counts against the pass's cap."""
    ORDINARY = "ordinary"
    """On time or merely late: runs."""


@dataclass(frozen=True, slots=True)
class Block:
    """`n` consecutive fires of one reign, from `first` to `last`, and what becomes of them."""

    fate: Fate
    reign: Reign
    first: Instant
    last: Instant
    n: int
    reason: str = ""


def judge(clock: Due, now: Instant) -> tuple[list[Block], bool]:
    """The blocks of a clock's due fires, oldest first, and whether they reach up to now.

    A found gap that was judged in an earlier pass runs as it was judged. Newer fires are judged from the newest
    revision back, since `latest` asks whether anything newer runs. `window_days` counts from the last run: where older
    revisions still have fires to decide, it is left for the next pass, which knows what ran.
    """
    blocks: list[Block] = []
    cursor = clock.cursor
    if clock.gap is not None and clock.gap.to > cursor:
        for reign in reigns(clock.revisions, cursor, clock.gap.to):
            blocks += _found_before(clock, reign)
        cursor = clock.gap.to
    ruling = reigns(clock.revisions, cursor, now)
    for index, reign in enumerate(ruling):
        if isinstance(clockwork(reign.revision.spec.trigger), WindowDays):
            older = _judge_back(clock, ruling[:index], now)
            if blocks or older:
                return blocks + older, False
    return blocks + _judge_back(clock, ruling, now), True


def _judge_back(clock: Due, ruling: Sequence[Reign], now: Instant) -> list[Block]:
    found: list[Block] = []
    newer_runs = False
    caught_up = 0
    for reign in reversed(ruling):
        match clockwork(reign.revision.spec.trigger):
            case AfterFinish():
                blocks = _after_finish(clock, reign)
            case WindowDays() as trigger:
                blocks = _windows(clock, reign, trigger, now)
            case _:
                blocks = _grid(clock, reign, now, newer_runs=newer_runs, caught_up=caught_up)
        newer_runs = newer_runs or any(block.fate is not Fate.DROP for block in blocks)
        caught_up += sum(block.n for block in blocks if block.fate is Fate.CATCH_UP)
        found = blocks + found
    return found


def _found_before(clock: Due, reign: Reign) -> list[Block]:
    """The fires of a stored gap in one reign: all of them run."""
    trigger = clockwork(reign.revision.spec.trigger)
    first = next_fire(trigger, reign.after, last_fire=clock.last_fire)
    if first is None or first > reign.until:
        return []
    if isinstance(trigger, WindowDays):
        return [Block(Fate.CATCH_UP, reign, first, first, 1)]
    last = newest_fire(trigger, reign.until)
    assert last is not None
    return [Block(Fate.CATCH_UP, reign, first, last, count_fires(trigger, reign.after, last))]


def _after_finish(clock: Due, reign: Reign) -> list[Block]:
    """Fixed delay is owed until it runs: it can be late, never missed."""
    fire = after_finish_fire(clock.name, clock.revisions, reign.index, clock.next_due)
    if fire is None or not reign.after < fire <= reign.until:
        return []
    return [Block(Fate.ORDINARY, reign, fire, fire, 1)]


def _windows(clock: Due, reign: Reign, trigger: WindowDays, now: Instant) -> list[Block]:
    """Each opening that was due: runs when it is late only, or under a policy that catches up while its window is open.

    It never starts after its window closed: then the next opening is due, since it counts from the last run.
    """
    catch_up = reign.revision.spec.catch_up
    blocks: list[Block] = []
    last_fire, after = clock.last_fire, reign.after
    while True:
        fire = next_fire(trigger, after, last_fire=last_fire)
        if fire is None or fire > reign.until or (at := due_under(clock.name, reign, fire)) > now:
            return blocks
        if now - at <= catch_up.grace:
            blocks.append(Block(Fate.ORDINARY, reign, fire, fire, 1))
            last_fire = fire
        elif catch_up.policy is not CatchUpPolicy.NONE and now < closing(trigger, fire):
            blocks.append(Block(Fate.CATCH_UP, reign, fire, fire, 1))
            last_fire = fire
        else:
            reason = POLICY_NONE if catch_up.policy is CatchUpPolicy.NONE else WINDOW_CLOSED
            if blocks and blocks[-1].fate is Fate.DROP:
                blocks[-1] = replace(blocks[-1], last=fire, n=blocks[-1].n + 1)
            else:
                blocks.append(Block(Fate.DROP, reign, fire, fire, 1, reason))
        after = fire


def _grid(clock: Due, reign: Reign, now: Instant, *, newer_runs: bool, caught_up: int) -> list[Block]:
    """Cron, interval and at: what is late runs, what is missed goes by policy. Counted, not walked."""
    trigger, edge = reign.revision.spec.trigger, now - reign.revision.spec.catch_up.grace
    first = next_fire(trigger, reign.after)
    if first is None or first > reign.until:
        return []
    newest: Instant | None = newest_fire(trigger, reign.until)
    if newest is not None and due_under(clock.name, reign, newest) > now:
        newest = newest_fire(trigger, newest - 1)
    if newest is None or newest < first:
        return []
    missed = newest_fire(trigger, min(newest, edge - 1)) if first < edge else None
    if missed is not None and due_under(clock.name, reign, missed) >= edge:
        missed = newest_fire(trigger, missed - 1)
    if missed is None or missed < first:
        return [Block(Fate.ORDINARY, reign, first, newest, count_fires(trigger, reign.after, newest))]
    late: list[Block] = []
    if missed < newest:
        begin = next_fire(trigger, missed)
        assert begin is not None
        late = [Block(Fate.ORDINARY, reign, begin, newest, count_fires(trigger, missed, newest))]
    return _missed(reign, first, missed, now, newer_runs=newer_runs or bool(late), caught_up=caught_up) + late


def _missed(
    reign: Reign, first: Instant, last: Instant, now: Instant, *, newer_runs: bool, caught_up: int
) -> list[Block]:
    """The missed fires from `first` to `last` by the policy of their revision."""
    catch_up = reign.revision.spec.catch_up
    match catch_up.policy:
        case CatchUpPolicy.NONE:
            return _block(Fate.DROP, reign, first, last, POLICY_NONE)
        case CatchUpPolicy.LATEST:
            kept = None if newer_runs else last
            return _split(reign, first, last, kept, NEWER_RUNS)
        case CatchUpPolicy.ALL:
            begin = next_fire(reign.revision.spec.trigger, max(first, now - catch_up.window) - 1)
            if begin is None or begin > last:
                return _block(Fate.DROP, reign, first, last, BEYOND_WINDOW)
            early = _block(Fate.DROP, reign, first, begin - 1, BEYOND_WINDOW) if first < begin else []
            room = catch_up.max - caught_up
            kept = begin
            if count_fires(reign.revision.spec.trigger, begin - 1, last) > room:
                kept = nth_newest(reign.revision.spec.trigger, begin - 1, last, room)
            return early + _split(reign, begin, last, kept, BEYOND_MAX)
        case _:
            assert_never(catch_up.policy)


def _split(reign: Reign, first: Instant, last: Instant, kept: Instant | None, reason: str) -> list[Block]:
    """Drop what comes before `kept` (everything when it is None), catch up with the rest."""
    if kept is None:
        return _block(Fate.DROP, reign, first, last, reason)
    dropped = _block(Fate.DROP, reign, first, kept - 1, reason) if first < kept else []
    return dropped + _block(Fate.CATCH_UP, reign, kept, last, "")


def _block(fate: Fate, reign: Reign, first: Instant, until: Instant, reason: str) -> list[Block]:
    """The block from the fire `first` to the newest fire at or before `until`."""
    trigger = reign.revision.spec.trigger
    last = newest_fire(trigger, until)
    assert last is not None and last >= first
    return [Block(fate, reign, first, last, count_fires(trigger, first - 1, last), reason)]
