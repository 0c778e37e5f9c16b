"""When time makes a trigger fire: next, newest, how many, due, preview.

A *fire time* is the nominal instant that a run stands for; it is *due* at fire time + jitter. Dues are clamped before
the next fire, so they keep the order of the fires. Cron, interval and at are fixed sets of instants (`ticks_of`);
`window_days` also needs the last run's fire time; `after_finish` has no set of instants at all: each end of a run sets
the next one (`after_finish_due`), and the first is at once on enabling (`first_due`).

The fires of a whole tree are those of its time leaves that satisfy it by themselves (`trees.clocks`), coinciding ones
once; a tree without any has none. The ticks of its other time leaves only latch, from the nominal instant
and without jitter (`domain.latches`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import assert_never

from tidegate.domain.cron import parse_cron
from tidegate.domain.cron_times import CronTimes, DayRule
from tidegate.domain.instants import DAY, MINUTE, Duration, Instant, format_duration
from tidegate.domain.intervals import interval_ticks, parse_every
from tidegate.domain.ticks import CALENDAR, REAL_TIME, DstRule, LocalTicks, OneTick, Ticks
from tidegate.domain.trees import clocks, tree_of
from tidegate.domain.triggers import (
    TIME_TRIGGERS,
    AfterFinish,
    At,
    Cron,
    Gap,
    Interval,
    Overlap,
    TimeTrigger,
    Trigger,
    Weekday,
    WindowDays,
)
from tidegate.domain.zones import Zone, format_local, format_offset, resolve

_UTC = "UTC"


def next_fire(trigger: Trigger, after: Instant, *, last_fire: Instant | None = None) -> Instant | None:
    """The first fire time strictly after `after`, within the trigger's bounds; None when there is none.

    `last_fire` is the fire time of the schedule's last run, which `window_days` counts from. For `after_finish` and
    `never` the answer is None: no clock tells when they fire.
    """
    if not isinstance(trigger, TIME_TRIGGERS):
        return min(_each(trigger, lambda leaf: next_fire(leaf, after, last_fire=last_fire)), default=None)
    ticks = ticks_of(trigger)
    if ticks is None:
        return None
    if trigger.start is not None and after < trigger.start:
        after = trigger.start - 1
    if last_fire is not None and isinstance(trigger, WindowDays):
        after = max(after, _not_before(trigger, last_fire) - 1)
    found = ticks.next(after)
    if found is not None and trigger.end is not None and found > trigger.end:
        return None
    return found


def newest_fire(trigger: Trigger, until: Instant) -> Instant | None:
    """The last fire time at or before `until` (for `window_days`: the last opening, whatever ran)."""
    if not isinstance(trigger, TIME_TRIGGERS):
        return max(_each(trigger, lambda leaf: newest_fire(leaf, until)), default=None)
    ticks = ticks_of(trigger)
    if ticks is None:
        return None
    if trigger.end is not None and until > trigger.end:
        until = trigger.end
    found = ticks.newest(until)
    if found is not None and trigger.start is not None and found < trigger.start:
        return None
    return found


def count_fires(trigger: Trigger, after: Instant, until: Instant) -> int:
    """How many fire times lie in (after, until]. Exact, and not walked: a century costs what a day costs.

    Of a tree with several clocks all but the busiest are walked, to find what coincides.
    """
    if not isinstance(trigger, TIME_TRIGGERS):
        return _count_union(clocks(trigger), after, until)
    ticks = ticks_of(trigger)
    if ticks is None:
        return 0
    if trigger.start is not None:
        after = max(after, trigger.start - 1)
    if trigger.end is not None:
        until = min(until, trigger.end)
    return ticks.count(after, until) if after < until else 0


def nth_newest(trigger: Trigger, after: Instant, until: Instant, number: int) -> Instant | None:
    """The `number`-th newest fire time in (after, until], counting from 1; None when there are fewer.

    By halving the span and counting, so that its cost does not grow with `number`.
    """
    if not isinstance(trigger, TIME_TRIGGERS):
        leaves = clocks(trigger)
        return (
            nth_newest(leaves[0], after, until, number)
            if len(leaves) == 1
            else _walk_back(trigger, after, until, number)
        )
    if number < 1 or count_fires(trigger, after, until) < number:
        return None
    low, high = after, until  # count(low, until] >= number > count(high, until]
    while high - low > 1:
        middle = (low + high) // 2
        if count_fires(trigger, middle, until) >= number:
            low = middle
        else:
            high = middle
    return high


def _each(tree: Trigger, ask: Callable[[TimeTrigger], Instant | None]) -> Iterator[Instant]:
    """What the clocks of a tree answer, those left out that have none."""
    return (found for leaf in clocks(tree) if (found := ask(leaf)) is not None)


def _count_union(leaves: Sequence[TimeTrigger], after: Instant, until: Instant) -> int:
    """How many instants in (after, until] are a fire of any of the leaves."""
    ranked = sorted(((count_fires(leaf, after, until), n) for n, leaf in enumerate(leaves)), reverse=True)
    total = 0
    for place, (count, n) in enumerate(ranked):
        busier = [leaves[other] for _, other in ranked[:place]]
        if not busier:
            total += count
            continue
        total += sum(
            not any(newest_fire(other, fire) == fire for other in busier)
            for fire in fires_between(leaves[n], after, until)
        )
    return total


def _walk_back(tree: Trigger, after: Instant, until: Instant, number: int) -> Instant | None:
    fire: Instant | None = until + 1
    for _ in range(number):
        assert fire is not None
        fire = newest_fire(tree, fire - 1)
        if fire is None or fire <= after:
            return None
    return fire if number > 0 else None


def fires_between(
    trigger: Trigger, after: Instant, until: Instant, *, last_fire: Instant | None = None
) -> Iterator[Instant]:
    """The fire times in (after, until], ascending; for `window_days` as if each of them ran."""
    fire = next_fire(trigger, after, last_fire=last_fire)
    while fire is not None and fire <= until:
        yield fire
        fire = next_fire(trigger, fire, last_fire=fire)


def due(name: str, trigger: Trigger, fire_time: Instant) -> Instant:
    """When a fire time is to be acted on: itself plus its jitter, but before the next fire and inside its window.

    `name` is namespace/name: with the fire time it decides the jitter, so every process and the audit agree on it.
    """
    if not isinstance(trigger, TIME_TRIGGERS):
        return _due_of_tree(name, trigger, fire_time)
    if isinstance(trigger, AfterFinish) or not trigger.jitter:
        return fire_time
    latest = fire_time + jitter(name, fire_time, trigger.jitter)
    following = next_fire(trigger, fire_time)
    if following is not None:
        latest = min(latest, following - 1)
    if isinstance(trigger, WindowDays):
        latest = min(latest, closing(trigger, fire_time) - 1)
    return max(latest, fire_time)


def _due_of_tree(name: str, tree: Trigger, fire_time: Instant) -> Instant:
    """Of leaves that coincide the first to be due decides; and before the next fire of any leaf."""
    latest = min((due(name, leaf, fire_time) for _, leaf in _firing(tree, fire_time)), default=fire_time)
    following = next_fire(tree, fire_time) if latest > fire_time else None
    return latest if following is None else min(latest, following - 1)


def ticking(trigger: Trigger, fire_time: Instant) -> tuple[int, ...]:
    """The nodes of a tree whose fire this is: those leaves that fire by themselves and coincide."""
    return tuple(node for node, _ in _firing(trigger, fire_time))


def _firing(tree: Trigger, fire_time: Instant) -> Iterator[tuple[int, TimeTrigger]]:
    return ((node, leaf) for node, leaf in tree_of(tree).alone if newest_fire(leaf, fire_time) == fire_time)


def jitter(name: str, fire_time: Instant, most: Duration) -> Duration:
    """A number in [0, most), a pure function of schedule and fire time."""
    digest = blake2b(f"{name}\0{fire_time}".encode(), digest_size=8, person=b"tidegate").digest()
    return int.from_bytes(digest, "big") * most >> 64


def first_due(name: str, trigger: Trigger, enabled_at: Instant, *, last_fire: Instant | None = None) -> Instant | None:
    """When a schedule enabled at that instant is first due. Strictly later, so that it never fires for the past.

    `after_finish` fires at once (or at its start): a microsecond after enabling, since what is up to that is decided.
    """
    if isinstance(trigger, AfterFinish):
        return _after_finish(name, trigger, max(enabled_at + 1, trigger.start or 0))
    fire = next_fire(trigger, enabled_at, last_fire=last_fire)
    return None if fire is None else due(name, trigger, fire)


def after_finish_due(trigger: AfterFinish, finished_at: Instant, *, name: str = "") -> Instant | None:
    """The fire time that follows a run's final outcome; None when it lies beyond the trigger's end.

    It is its own due: since no grid keeps it, jitter is part of the fire time here. Pass `name` when there is jitter.
    """
    return _after_finish(name, trigger, max(finished_at + trigger.delay, trigger.start or 0))


def _after_finish(name: str, trigger: AfterFinish, fire: Instant) -> Instant | None:
    fire += jitter(name, fire, trigger.jitter) if trigger.jitter else 0
    return fire if trigger.end is None or fire <= trigger.end else None


# ── windows ────────────────────────────────────────────────────────────────────────────────────────────────────────


def closing(trigger: WindowDays, fire_time: Instant) -> Instant:
    """When the window that opened at a fire time closes (exclusive)."""
    zone = resolve(trigger.timezone)
    day = zone.to_local(fire_time) // DAY
    if trigger.latest <= trigger.earliest:
        day += 1
    return max(zone.earliest(day * DAY + trigger.latest * MINUTE), fire_time + 1)


def _not_before(trigger: WindowDays, last_fire: Instant) -> Instant:
    """The beginning of the first local day on which the window may open again after a run.

    A window across midnight belongs to the day on which it opened, so a run of Tuesday 01:00 can count from Monday.
    """
    zone = resolve(trigger.timezone)
    day, clock = divmod(zone.to_local(last_fire), DAY)
    if trigger.latest <= trigger.earliest and clock < trigger.latest * MINUTE:
        day -= 1
    return zone.earliest((day + trigger.every_days) * DAY)


# ── the instants of a trigger ──────────────────────────────────────────────────────────────────────────────────────


def ticks_of(trigger: TimeTrigger) -> Ticks | None:
    """The instants that a time trigger names, bounds aside; None where no clock names them (after_finish).

    For `window_days` every opening on an allowed day. Raises CronError, UnknownZone or ValueError for a trigger that
    `validate` refuses.
    """
    match trigger:
        case Cron():
            return _cron(trigger.expression, trigger.timezone, trigger.seconds, trigger.dst_gap, trigger.dst_overlap)
        case Interval():
            return _interval(trigger.every, trigger.anchor, trigger.timezone)
        case At():
            return OneTick(trigger.time)
        case WindowDays():
            return _windows(trigger.days, trigger.earliest, trigger.timezone)
        case AfterFinish():
            return None
        case _:
            assert_never(trigger)


@lru_cache(maxsize=32768)
def _cron(expression: str, timezone: str, seconds: bool, gap: Gap, overlap: Overlap) -> Ticks:
    parsed = parse_cron(expression, seconds=seconds)
    rule = REAL_TIME if parsed.real_time else DstRule.fixed(gap, overlap)
    return LocalTicks(parsed.times, resolve(timezone), rule)


@lru_cache(maxsize=32768)
def _interval(every: str, anchor: Instant | None, timezone: str) -> Ticks:
    return interval_ticks(parse_every(every), anchor, timezone)


@lru_cache(maxsize=4096)
def _windows(days: tuple[Weekday, ...], earliest: int, timezone: str) -> Ticks:
    week = list(Weekday)
    bits = sum(1 << ((week.index(day) + 1) % 7) for day in set(days))
    rule = DayRule(0xFFFFFFFE, 0x1FFE, bits, False, False, (), 0, (), False)
    return LocalTicks(CronTimes([earliest * MINUTE], rule), resolve(timezone), CALENDAR)


# ── preview ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Preview:
    """One fire to come: when, what the wall clock of the trigger's zone shows then, and what is special about it."""

    fire_time: Instant
    local_time: str  # with its offset, e.g. 2026-03-29T03:00:00+02:00
    note: str = ""


def preview(trigger: Trigger, after: Instant, count: int, *, last_fire: Instant | None = None) -> tuple[Preview, ...]:
    """The next `count` fires strictly after an instant, as if each ran. Changes nothing and needs no declaration.

    Of `after_finish` only the first fire can be told, as if it were enabled at `after`; of a tree only those of the
    clocks that satisfy it by themselves, each in its own zone.
    """
    if isinstance(trigger, AfterFinish):
        fire = _after_finish("", trigger, max(after, trigger.start or 0))
        note = f"first when enabled, then {format_duration(trigger.delay)} after each run has ended"
        return () if fire is None or count < 1 else (Preview(fire, format_local(resolve(_UTC), fire), note),)
    found: list[Preview] = []
    before = after
    while len(found) < count:
        fire = next_fire(trigger, before, last_fire=last_fire)
        if fire is None:
            break
        leaf = next(leaf for leaf in clocks(trigger) if next_fire(leaf, fire - 1, last_fire=last_fire) == fire)
        zone = resolve(getattr(leaf, "timezone", _UTC))
        note = "; ".join(_notes(leaf, ticks_of(leaf), zone, before if found else None, fire))
        found.append(Preview(fire, format_local(zone, fire), note))
        before = last_fire = fire
    return tuple(found)


def _notes(
    trigger: TimeTrigger, ticks: Ticks | None, zone: Zone, before: Instant | None, fire: Instant
) -> Iterator[str]:
    """What a reader of a preview would wonder about: shifted, repeated and skipped times, a changed offset."""
    if isinstance(ticks, LocalTicks):
        if isinstance(trigger, Cron) and trigger.dst_gap is Gap.SKIP and before is not None:
            shifted = _cron(trigger.expression, trigger.timezone, trigger.seconds, Gap.SHIFT, trigger.dst_overlap)
            skipped = shifted.next(before)
            if skipped is not None and skipped < fire:
                day = format_local(zone, skipped)[:10]
                yield f"before it one is skipped, whose local time does not exist on {day}"
        if ticks.is_shifted(fire):
            yield "its local time does not exist on this day; fires at the first instant after the gap"
        shown = zone.instants(zone.to_local(fire))
        if len(shown) > 1:
            which = ("first", "second", "third")[min(shown.index(fire), 2)]
            yield f"this local time comes twice; this is the {which}"
    if before is not None and zone.offset_at(before) != zone.offset_at(fire):
        yield f"clocks changed from {format_offset(zone.offset_at(before))} to {format_offset(zone.offset_at(fire))}"
