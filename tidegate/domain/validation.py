"""What is wrong with a trigger, leaf by leaf and as a tree: everything that its single fields cannot show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from tidegate.domain import plugins
from tidegate.domain.cron import CronError, parse_cron
from tidegate.domain.errors import Fault
from tidegate.domain.fires import next_fire
from tidegate.domain.instants import DAY
from tidegate.domain.intervals import parse_every
from tidegate.domain.triggers import (
    TIME_TRIGGERS,
    AfterFinish,
    All,
    AnyOf,
    At,
    Cron,
    Custom,
    DataSize,
    Elapsed,
    Happened,
    Interval,
    NOf,
    Partition,
    ProgramStatus,
    Quiet,
    Since,
    TimeTrigger,
    Trigger,
    WindowDays,
    below,
)
from tidegate.domain.zones import END, UnknownZone, resolve

MOST_DEEP = 20
MOST_NODES = 1000


def validate(trigger: Trigger) -> list[Fault]:
    """Everything that is wrong with a trigger, with paths relative to it; an empty list when it may be declared."""
    if isinstance(trigger, TIME_TRIGGERS):
        latch = [] if trigger.latch is None else [Fault("latch", _NO_LATCH)]
        return [*_time_faults(trigger), *latch]
    too_much = _too_much(trigger)
    return [too_much] if too_much is not None else list(_tree_faults(trigger, "", alone=True))


def _too_much(trigger: Trigger) -> Fault | None:
    """A tree that is too deep or too wide to be looked at."""
    level: list[Trigger] = [trigger]
    depth = count = 0
    while level:
        depth, count = depth + 1, count + len(level)
        if depth > MOST_DEEP:
            return Fault("", f"is nested deeper than {MOST_DEEP} levels; flatten it")
        if count > MOST_NODES:
            return Fault("", f"has more than {MOST_NODES:,} parts; split it into several schedules")
        level = [inner for node in level for inner in below(node)]
    return None


# ── trees ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_NO_LATCH = "has no effect here: the tick fires at once; it is for time triggers inside all, n_of or quiet"


def _tree_faults(trigger: Trigger, path: str, *, alone: bool) -> Iterator[Fault]:
    """`alone`: a tick here satisfies the whole tree."""
    for name, reason in _node_faults(trigger):
        yield Fault(_at(path, name), reason)
    if isinstance(trigger, TIME_TRIGGERS):
        if isinstance(trigger, AfterFinish):
            yield Fault(path, "after_finish stands alone; inside other triggers use elapsed with since: last_run")
            return
        for fault in _time_faults(trigger):
            yield Fault(_at(path, fault.path), fault.reason)
        if trigger.latch is not None and alone:
            yield Fault(_at(path, "latch"), _NO_LATCH)
        if trigger.latch is not None and trigger.latch < 0:
            yield Fault(_at(path, "latch"), "must not be negative")
        if trigger.jitter and not alone:
            yield Fault(_at(path, "jitter"), "has no effect here: the tick starts nothing by itself")
    if isinstance(trigger, Quiet):
        yield from _tree_faults(trigger.trigger, _at(path, "trigger"), alone=False)
        return
    for place, inner in enumerate(below(trigger)):
        yield from _tree_faults(inner, _at(path, f"triggers[{place}]"), alone=alone and isinstance(trigger, AnyOf))
    if not path:
        yield from _clock_faults(trigger)


def _clock_faults(tree: Trigger) -> Iterator[Fault]:
    """`window_days` counts from the last run, which other clocks beside it would move."""
    found = list(_alone(tree, ""))
    if len(found) > 1:
        for path, leaf in found:
            if isinstance(leaf, WindowDays):
                yield Fault(path, "window_days cannot fire beside other time triggers; make it a schedule of its own")


def _alone(tree: Trigger, path: str) -> Iterator[tuple[str, TimeTrigger]]:
    if isinstance(tree, TIME_TRIGGERS):
        yield path, tree
    if isinstance(tree, AnyOf):
        for place, inner in enumerate(tree.triggers):
            yield from _alone(inner, _at(path, f"triggers[{place}]"))


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name


def _node_faults(trigger: Trigger) -> Iterator[tuple[str, str]]:
    """(field, reason) of what is wrong with one node by itself; time triggers aside."""
    match trigger:
        case Partition() | Happened() | ProgramStatus():
            if trigger.count < 1:
                yield "count", "must be 1 or more"
            if isinstance(trigger, ProgramStatus) and not trigger.outcomes:
                yield "outcomes", "must name at least one outcome"
        case DataSize():
            if trigger.bytes is None and trigger.rows is None:
                yield "", "says neither bytes nor rows; give at least one of them"
            for name, value in (("bytes", trigger.bytes), ("rows", trigger.rows)):
                if value is not None and value < 1:
                    yield name, "must be 1 or more"
        case Elapsed():
            if trigger.after < 1:
                yield "after", "must be longer than nothing"
            if trigger.since is Since.LAST_EVENT and trigger.event is None:
                yield "event", "is required with since: last_event"
        case Custom():
            if trigger.plugin not in plugins.known():
                yield "type", f"{trigger.plugin!r} is not a type of trigger here, and no installed plug-in provides it"
        case Quiet():
            if trigger.silence < 1:
                yield "for", "must be longer than nothing"
            if trigger.max_wait is not None and trigger.max_wait < 1:
                yield "max_wait", "must be longer than nothing"
        case All() | AnyOf() | NOf():
            yield from _composite_faults(trigger)
        case _:
            return


def _composite_faults(trigger: All | AnyOf | NOf) -> Iterator[tuple[str, str]]:
    if not trigger.triggers:
        yield "triggers", "must hold at least one trigger"
    elif isinstance(trigger, NOf) and not 1 <= trigger.n <= len(trigger.triggers):
        yield "n", f"must lie between 1 and {len(trigger.triggers)}, the number of its triggers"
    if isinstance(trigger, All) and trigger.max_wait is not None and trigger.max_wait < 1:
        yield "max_wait", "must be longer than nothing"


# ── time triggers ──────────────────────────────────────────────────────────────────────────────────────────────────


def _time_faults(trigger: TimeTrigger) -> list[Fault]:
    faults = list(_own_faults(trigger))
    if trigger.jitter < 0:
        faults.append(Fault("jitter", "must not be negative"))
    if trigger.start is not None and trigger.end is not None and trigger.end < trigger.start:
        faults.append(Fault("end", "lies before start; nothing would ever fire"))
    elif not faults and not isinstance(trigger, AfterFinish):
        first = next_fire(trigger, (trigger.start - 1) if trigger.start is not None else -(DAY * 366 * 200))
        if first is None:
            faults.append(Fault("end" if trigger.end is not None else "", "nothing fires between start and end"))
    return faults


def _own_faults(trigger: Cron | Interval | AfterFinish | At | WindowDays) -> Iterator[Fault]:
    """The faults of what only this type of trigger has."""
    if isinstance(trigger, Cron | Interval | WindowDays):
        try:
            resolve(trigger.timezone)
        except UnknownZone as error:
            yield Fault("timezone", str(error))
    match trigger:
        case Cron():
            try:
                parse_cron(trigger.expression, seconds=trigger.seconds)
            except CronError as error:
                yield Fault("expression", str(error))
        case Interval():
            try:
                parse_every(trigger.every)
            except ValueError as error:
                yield Fault("every", str(error))
        case AfterFinish():
            if trigger.delay < 0:
                yield Fault("delay", "must not be negative")
        case WindowDays():
            yield from _window_faults(trigger)
        case At():
            if not 0 <= trigger.time < END:
                yield Fault("time", "must lie between the years 1970 and 2199")
        case _:
            assert_never(trigger)


def _window_faults(trigger: WindowDays) -> Iterator[Fault]:
    if trigger.every_days < 1:
        yield Fault("every_days", "must be 1 or more")
    if not trigger.days:
        yield Fault("days", "must name at least one day of the week")
    for name, value, low, high in (("earliest", trigger.earliest, 0, 1439), ("latest", trigger.latest, 1, 1440)):
        if not low <= value <= high:
            yield Fault(name, f"must be a time of day from {_clock_text(low)} to {_clock_text(high)}")
    if trigger.earliest == trigger.latest:
        yield Fault("latest", 'must differ from earliest; the whole day is earliest "00:00", latest "24:00"')


def _clock_text(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"
