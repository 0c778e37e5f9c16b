"""What a trigger has collected, and when that makes it fire: the algebra of data, program, event and time leaves.

A tree is fed one thing at a time: an arrival (an event that reached a leaf), a tick of a time leaf, or a deadline (an
instant at which silence alone changes the answer). `advance` folds them in order and says which fires come of it, what
is left, which deadlines are to be stored and, for each subscription, how much more must arrive before this tree can
change at all: until then nobody looks at it (`need`). Nothing here reads a clock or does I/O. The tree on its way is
`folding.Fold`; what still matters to it is said by `looking`; the values are in `collected`.

Progress is small: sums and positions, never a pile of events. What arrives between two looks is given as one `Bulk` a
topic: since no need was reached within it, adding it up is the same as folding it event by event.

A firing tree consumes all its progress: every leg, timer and latch. A time leaf that cannot fire alone latches.
`max_wait`, `quiet` and `elapsed` count from arrival in the database. At one instant arrivals come first, then ticks,
then silence. (docs/decisions: what the trigger algebra decides)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from tidegate.domain.collected import Advance, Arrival, Bulk, Deadline, Facts, Given, Progress, Tick
from tidegate.domain.folding import Fold
from tidegate.domain.instants import MINUTE, Duration, Instant
from tidegate.domain.latches import FOREVER
from tidegate.domain.looking import deadlines, needs
from tidegate.domain.schedules import CatchUp, CatchUpPolicy, Mode
from tidegate.domain.triggers import Trigger

COLLECTING = frozenset({Mode.ENABLED, Mode.BACKLOG, Mode.HOLD})
"""Modes in which a schedule collects."""
PUT_OFF: Duration = MINUTE
"""When a schedule whose tree could not be evaluated is looked at again, should nothing come for it."""


def ticks_from(catch_up: CatchUp, now: Instant) -> Instant | None:
    """The first instant whose ticks count; None: all do, however late they are looked at."""
    return now - catch_up.grace if catch_up.policy is CatchUpPolicy.NONE else None


def begin(trigger: Trigger, facts: Facts) -> Advance:
    """Empty progress of a tree that was enabled, updated or reset at `facts.enabled_at`: its deadlines and needs."""
    return advance(trigger, Progress(), (), (), facts)


def advance(
    trigger: Trigger, progress: Progress, bulk: Sequence[Bulk], given: Sequence[Given], facts: Facts
) -> Advance:
    """Fold `bulk`, then each of `given` (ascending by instant; arrivals among themselves by pos).

    Instants at which time alone decides are looked at in between, whether they were given or not: a given deadline says
    no more than that it is now at least that late. So the fires do not depend on how things were batched.
    """
    fold = Fold(trigger, progress, facts)
    for some in sorted(bulk, key=lambda one: one.last_at):
        fold.silence(some.last_at - 1)
        fold.add(some.subscription.node, some.amount, some.first_at, some.last_at)
        fold.decide(some.last_at, None)
    for at, one in _in_order(given):
        fold.silence(at - 1)
        match one:
            case Arrival():
                for subscription in one.subscriptions:
                    fold.add(subscription.node, one.amount, one.at, one.at, one)
                fold.decide(at, one.pos)
            case Tick():
                fold.tick(at, one.nodes)
            case Deadline():
                fold.tick(at)
            case _:
                assert_never(one)
    return Advance(
        progress=fold.progress(),
        fires=tuple(fold.fires),
        deadlines=deadlines(fold),
        needs=needs(fold),
    )


def _in_order(given: Sequence[Given]) -> Sequence[tuple[Instant, Given]]:
    """With the instant at which each is folded: arrivals keep the order of their commits, and time never goes back."""
    keyed: list[tuple[tuple[Instant, int, int], Given]] = []
    latest = -FOREVER
    for one in sorted((one for one in given if isinstance(one, Arrival)), key=lambda one: one.pos):
        latest = max(latest, one.at)
        keyed.append(((latest, 0, one.pos), one))
    for timed in given:
        if not isinstance(timed, Arrival):
            keyed.append(((timed.at, 1 if isinstance(timed, Tick) else 2, 0), timed))
    return [(key[0], one) for key, one in sorted(keyed, key=lambda pair: pair[0])]
