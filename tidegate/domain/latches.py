"""How long a tick of a time leaf that cannot fire alone is held."""

from __future__ import annotations

from tidegate.domain.fires import closing
from tidegate.domain.instants import Instant
from tidegate.domain.triggers import TimeTrigger, WindowDays

FOREVER = 1 << 62
"""Later than any instant."""


def limited(leaf: TimeTrigger) -> bool:
    """Whether its ticks can cease to hold before the tree fires."""
    return leaf.latch is not None or isinstance(leaf, WindowDays)


def latched_until(leaf: TimeTrigger, tick: Instant) -> Instant:
    """The last instant at which a tick still holds. That of a window at most until the window closes."""
    until = FOREVER if leaf.latch is None else tick + leaf.latch
    return min(until, closing(leaf, tick) - 1) if isinstance(leaf, WindowDays) else until
