"""What slows an operation down on one table: failures in a row, and runs that changed nothing.

A failing operation waits, then gets one more try. One that keeps changing nothing comes less often: it is never
suspended, and new data brings it back to its rhythm at once. What nobody measured counts as neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tidegate.domain.instants import HOUR, Duration, Instant
from tidegate.domain.maintenance.state import History


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttles:
    """After `failures` in a row an operation waits `failure_wait` after each further one. After `unchanged` runs in a
    row that changed nothing its frequency falls by `reduction` percent (0 to 99), to no less than one run in
    `unchanged_wait`. 0 failures or unchanged: that throttle is off. `min_interval`: between two starts of one operation
    on one table at least, whatever less its policy says."""

    failures: int = 3
    failure_wait: Duration = 6 * HOUR
    unchanged: int = 5
    reduction: float = 50
    unchanged_wait: Duration = 6 * HOUR
    min_interval: Duration = 0


DEFAULT_THROTTLES = Throttles()


class Switches(NamedTuple):
    """What is switched for all tables: whether maintenance starts by itself, and whether conditions count. Where they
    do not, what has a schedule goes by that alone, and what has none runs by hand only."""

    automatic: bool = True
    conditions: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What settings say of all maintenance. `conditions`: whether those of policies count."""

    throttles: Throttles = DEFAULT_THROTTLES
    conditions: bool = True


DEFAULT_RULING = Ruling()


def backed_off(history: History, throttles: Throttles) -> Instant | None:
    """Until when it waits after failures; None: it does not. May lie in the past."""
    if not throttles.failures or history.failures < throttles.failures or history.failed_at is None:
        return None
    return history.failed_at + throttles.failure_wait


def stretched(history: History, interval: Duration, changed_at: Instant | None, throttles: Throttles) -> Instant | None:
    """Until when it waits after runs that changed nothing; None: it does not. May lie in the past.

    `interval`: how long it is between two fires; `changed_at`: when rows last came or went.
    """
    if not throttles.unchanged or history.unchanged < throttles.unchanged or history.started_at is None:
        return None
    if changed_at is not None and changed_at > history.started_at:
        return None
    longer = int(interval / (1 - throttles.reduction / 100))
    return history.started_at + max(throttles.unchanged_wait, longer)
