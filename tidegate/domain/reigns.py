"""Which revision decides which fires: each rules from its `valid_from` (exclusive) up to the next one's (inclusive).

An edit never touches fires of the past that are still undecided, so a clock that fell behind may have several
revisions to work through, in order. Only those fire in whose mode the
clock ticks (`Mode.works`). This module knows that order and nothing of policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.domain.fires import due, first_due, next_fire
from tidegate.domain.instants import Instant
from tidegate.domain.schedules import Revision
from tidegate.domain.triggers import AfterFinish


@dataclass(frozen=True, slots=True)
class Reign:
    """The fires in (after, until] that `revision` decides. `ends`: when the next revision takes over, if one does."""

    index: int
    revision: Revision
    after: Instant
    until: Instant
    ends: Instant | None


def reigns(revisions: Sequence[Revision], cursor: Instant, until: Instant) -> list[Reign]:
    """The reigns over (cursor, until], oldest first, those left out that rule over no part of it or do not fire."""
    found = []
    for index, revision in enumerate(revisions):
        ends = revisions[index + 1].valid_from if index + 1 < len(revisions) else None
        after = max(cursor, revision.valid_from)
        last = until if ends is None else min(until, ends)
        if after < last and revision.mode.works:
            found.append(Reign(index, revision, after, last, ends))
    return found


def due_under(name: str, reign: Reign, fire: Instant) -> Instant:
    """When a fire is due. A newer revision ends the jitter of what the older one still has: order is never lost."""
    found = due(name, reign.revision.spec.trigger, fire)
    return found if reign.ends is None else max(min(found, reign.ends), fire)


def next_undecided(
    name: str,
    revisions: Sequence[Revision],
    cursor: Instant,
    *,
    last_fire: Instant | None,
    pending: Instant | None,
    until: Instant,
) -> tuple[Reign, Instant] | None:
    """The first fire after the cursor and not after `until`, with the reign that decides it.

    `pending` is the clock's next due instant: where the revision at the cursor is `after_finish`, that is its fire.
    """
    for reign in reigns(revisions, cursor, until):
        trigger = reign.revision.spec.trigger
        if isinstance(trigger, AfterFinish):
            fire = after_finish_fire(name, revisions, reign.index, pending)
        else:
            fire = next_fire(trigger, reign.after, last_fire=last_fire)
        if fire is not None and reign.after < fire <= reign.until:
            return reign, fire
    return None


def after_finish_fire(name: str, revisions: Sequence[Revision], index: int, pending: Instant | None) -> Instant | None:
    """The one fire that an `after_finish` revision has to come; None while a run is to end first.

    At the cursor it is what the clock holds. A revision that follows another of its kind takes over what that one did
    not come to; any other begins anew, at once.
    """
    revision = revisions[index]
    trigger = revision.spec.trigger
    assert isinstance(trigger, AfterFinish)
    if index == 0:
        fire = pending
    else:
        before = revisions[index - 1]
        if not before.mode.works or not isinstance(before.spec.trigger, AfterFinish):
            return first_due(name, trigger, revision.valid_from)
        fire = after_finish_fire(name, revisions, index - 1, pending)
        if fire is not None and fire <= revision.valid_from:
            return None
    return fire if fire is None or trigger.end is None or fire <= trigger.end else None
