"""One instant, and what schedules say of it, looked up once for all tables that share a policy."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from tidegate.domain.fires import newest_fire, next_fire
from tidegate.domain.instants import DAY, MINUTE, Duration, Instant
from tidegate.domain.maintenance.policy import Schedule
from tidegate.domain.triggers import WindowDays
from tidegate.domain.windows import Span, opens
from tidegate.domain.zones import resolve

_KEPT = 60
"""Fires of a schedule that are looked up once: two months of days."""
_Fires = tuple[Instant | None, Instant | None, Instant | None, Duration]


class Clock:
    """`now`, and a memory of what was asked about it. Made anew for every pass."""

    def __init__(self, now: Instant) -> None:
        self.now = now
        self._fires: dict[int, _Fires] = {}
        self._past: dict[int, list[Instant]] = {}
        self._days: dict[tuple[int, int], tuple[Instant | None, WindowDays]] = {}
        self._opens: dict[int, Instant | None] = {}
        self.memory: dict[int, Any] = {}
        """Whatever else is made once for each policy: by the id of a value, the value itself first."""
        self._kept: list[Schedule] = []  # so that no id is given to another schedule meanwhile

    def fires(self, schedule: Schedule) -> _Fires:
        """The newest fire up to now, the one before it, the next one, and how long it is between two."""
        found = self._fires.get(id(schedule))
        if found is None:
            trigger = schedule.trigger
            newest, following = newest_fire(trigger, self.now), next_fire(trigger, self.now)
            further = next_fire(trigger, following) if following is not None else None
            interval = further - following if further is not None and following is not None else 0
            previous = newest_fire(trigger, newest - 1) if newest is not None else None
            found = self._fires[id(schedule)] = (newest, previous, following, interval)
            self._kept.append(schedule)
        return found

    def first_after(self, schedule: Schedule, base: Instant) -> Instant | None:
        """The first fire after `base`; the newest ones are looked up once for all tables that ask."""
        newest = self.fires(schedule)[0]
        if newest is None or newest <= base:
            return next_fire(schedule.trigger, base)
        past = self._past.get(id(schedule))
        if past is None:
            past = self._past[id(schedule)] = _newest(schedule, newest)
        place = bisect_right(past, base)
        return past[place] if place else next_fire(schedule.trigger, base)

    def opening(self, trigger: WindowDays, base: Instant, started: Instant | None) -> Instant | None:
        """The first opening after `base` that lies so many days after the last start."""
        if started is None:
            return next_fire(trigger, base)
        day, time = divmod(resolve(trigger.timezone).to_local(started), DAY)
        if trigger.latest <= trigger.earliest and time < trigger.latest * MINUTE:
            day -= 1  # of a window across midnight: it belongs to the day on which it opened
        known = self._days.get((id(trigger), day))
        if known is None:
            known = next_fire(trigger, started, last_fire=started), trigger
            self._days[id(trigger), day] = known
        opening = known[0]
        return opening if opening is None or opening > base else next_fire(trigger, base, last_fire=started)

    def opens(self, schedule: Schedule) -> Instant | None:
        """When its window is open next: now, later, or None for never."""
        if id(schedule) not in self._opens:
            span = window(schedule)
            self._opens[id(schedule)] = self.now if span is None else opens(span, self.now)
            self._kept.append(schedule)
        return self._opens[id(schedule)]


def _newest(schedule: Schedule, newest: Instant) -> list[Instant]:
    """The last fires up to `newest`, ascending."""
    found = [newest]
    while len(found) < _KEPT and (earlier := newest_fire(schedule.trigger, found[-1] - 1)) is not None:
        found.append(earlier)
    return found[::-1]


def window(schedule: Schedule) -> Span | None:
    """The window in which it may start; that of a `window_days` trigger where it says no other. None: at any time."""
    trigger = schedule.trigger
    if schedule.window is not None or not isinstance(trigger, WindowDays):
        return schedule.window
    whole = trigger.earliest == 0 and trigger.latest == 1440
    if whole and len(trigger.days) == 7:
        return None
    return Span(start=trigger.earliest, end=trigger.latest, timezone=trigger.timezone, days=trigger.days)
