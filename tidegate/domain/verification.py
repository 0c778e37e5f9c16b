"""What contradicts itself in a schedule that is well-formed: found when it is declared, before it bites at night.

These are warnings: each describes work that would never start, would pile up, or would never end, with the place in the
document. Fires are looked at from `now` on, a few of each clock, never walked for a year. Pure; what other documents
say is given in `Around`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.domain import windows
from tidegate.domain.constraints import (
    GROUP,
    POOL,
    Blackout,
    Concurrency,
    Constraint,
    Delay,
    Load,
    MinInterval,
    Rate,
    Unmet,
    Window,
    name_of,
)
from tidegate.domain.errors import Fault
from tidegate.domain.fires import count_fires, next_fire
from tidegate.domain.instants import DAY, Duration, Instant, format_duration
from tidegate.domain.schedules import CatchUpPolicy, ScheduleSpec, ThenWaiting, Waiting
from tidegate.domain.triggers import AfterFinish, AnyOf, Never, ProgramStatus, Quiet, Trigger, below, collects

FIRES, OPENINGS = 24, 40
"""How many fires and openings of a window are compared: every day of the week, and of the month."""
_AHEAD = 400 * DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What the rest of the declarations says. `starts`: program -> programs that some other schedule starts when a run
    of it starts or ends, with that schedule's name; programs are `namespace/name`."""

    program: str
    program_groups: tuple[str, ...] = ()
    pool: str = "default"
    pools: Mapping[str, int] = field(default_factory=dict)  # name -> slots
    calendars: frozenset[str] = frozenset()
    starts: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)


def verify(spec: ScheduleSpec, around: Around, now: Instant) -> list[Fault]:
    """Every contradiction, with paths like `spec.constraints[1]`."""
    checks: tuple[Callable[[ScheduleSpec, Around, Instant], Iterator[Fault]], ...] = (
        _never_fires,
        _windows,
        _delays,
        _pace,
        _maxima,
        _missing,
        _catch_up,
        _deadlines,
        _loops,
    )
    return [fault for check in checks for fault in check(spec, around, now)]


def _of(spec: ScheduleSpec, kind: type[Constraint]) -> list[tuple[str, Constraint]]:
    return [(f"spec.constraints[{n}]", one) for n, one in enumerate(spec.constraints) if isinstance(one, kind)]


def _clockwork(spec: ScheduleSpec) -> bool:
    """Whether nothing but clocks decides when it fires."""
    return not collects(spec.trigger) and not isinstance(spec.trigger, Never | AfterFinish)


def _fires(spec: ScheduleSpec, now: Instant, most: int = FIRES) -> list[Instant]:
    """Its next fires, when it is enabled now."""
    found: list[Instant] = []
    at = next_fire(spec.trigger, now)
    while at is not None and len(found) < most and at <= now + _AHEAD:
        found.append(at)
        at = next_fire(spec.trigger, at)
    return found


# ── when ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _never_fires(spec: ScheduleSpec, around: Around, now: Instant) -> Iterator[Fault]:
    if _clockwork(spec) and next_fire(spec.trigger, now) is None:
        yield Fault("spec.trigger", "has nothing to come: it never fires")


def _windows(spec: ScheduleSpec, around: Around, now: Instant) -> Iterator[Fault]:
    delay = max((one.duration for _, one in _of(spec, Delay) if isinstance(one, Delay)), default=0)
    found = [(path, one) for path, one in _of(spec, Window) if isinstance(one, Window)]
    fires = _fires(spec, now) if found and _clockwork(spec) else []
    for path, one in found:
        if not fires or _meets(spec, one, fires, delay, now):
            continue
        later = f", {format_duration(delay)} later by the delay," if delay else ""
        if one.unmet is Unmet.SKIP:
            yield Fault(path, f"no fire of the trigger{later} falls into this window, so every run is skipped")
            continue
        timeout = spec.waiting.timeout
        if timeout is not None and spec.waiting.then is ThenWaiting.DISCARD and _too_far(one, fires, timeout):
            told = f"expires after waiting.timeout {format_duration(timeout)}, before the window opens"
            yield Fault(path, f"no fire of the trigger{later} falls into this window: every run {told}")
        else:
            yield Fault(path, f"no fire of the trigger{later} falls into this window: every run waits until it opens")
    for place, (path, one) in enumerate(found):
        for earlier, other in found[:place]:
            if not _overlap(one, other, now):
                yield Fault(path, f"is never open at the same time as {earlier}, so nothing ever starts")


def _meets(spec: ScheduleSpec, window: Window, fires: Sequence[Instant], delay: Duration, now: Instant) -> bool:
    """Whether some fire comes while it is open."""
    if any(windows.is_open(window.span, fire + delay) for fire in fires):
        return True
    return any(
        count_fires(spec.trigger, max(start - delay, now) - 1, end - delay - 1) > 0
        for start, end in _openings(window, now, OPENINGS)
        if end - delay > now
    )


def _too_far(window: Window, fires: Sequence[Instant], timeout: Duration) -> bool:
    opens = ((fire, windows.opens(window.span, fire)) for fire in fires)
    return all(at is None or at - fire > timeout for fire, at in opens)


def _openings(window: Window, now: Instant, most: int) -> Iterator[tuple[Instant, Instant]]:
    at = now
    for _ in range(most):
        start = windows.opens(window.span, at)
        end = None if start is None else windows.closes(window.span, start)
        if start is None or end is None:
            if start is not None:  # it never closes
                yield start, start + _AHEAD
            return
        yield start, end
        at = end


def _overlap(one: Window, other: Window, now: Instant) -> bool:
    spans = list(_openings(other, now, OPENINGS))
    return any(start < last and first < end for start, end in _openings(one, now, OPENINGS) for first, last in spans)


def _delays(spec: ScheduleSpec, around: Around, now: Instant) -> Iterator[Fault]:
    timeout = spec.waiting.timeout
    for path, one in _of(spec, Delay):
        assert isinstance(one, Delay)
        if timeout is None or one.duration < timeout:
            continue
        least, most = format_duration(one.duration), format_duration(timeout)
        if spec.waiting.then is ThenWaiting.RUN:
            told = f"the delay {least} is never waited out: after waiting.timeout {most} the run goes without it"
        else:
            told = f"the delay {least} is not shorter than waiting.timeout {most}, so every run expires"
        yield Fault(path, told)


def _catch_up(spec: ScheduleSpec, around: Around, now: Instant) -> Iterator[Fault]:
    if spec.catch_up.policy is not CatchUpPolicy.ALL or not _clockwork(spec):
        return
    fires = _fires(spec, now, 3)
    gap = min((later - one for one, later in zip(fires, fires[1:], strict=False)), default=0)
    if gap > spec.catch_up.window:
        window, every = format_duration(spec.catch_up.window), format_duration(gap)
        told = f"{window} is shorter than the {every} between fires: what an outage hides for longer is not caught up"
        yield Fault("spec.catch_up.window", told)


def _deadlines(spec: ScheduleSpec, around: Around, now: Instant) -> Iterator[Fault]:
    deadline = spec.deadline
    if deadline is None:
        return
    if deadline.start is not None and deadline.finish is not None and deadline.finish < deadline.start:
        yield Fault("spec.deadline.finish", "comes before deadline.start")
    delays = [one.duration for _, one in _of(spec, Delay) if isinstance(one, Delay)]
    for name, most in (("start", deadline.start), ("finish", deadline.finish)):
        if most is not None and delays and max(delays) >= most:
            told = f"{format_duration(most)} is over before the delay {format_duration(max(delays))} is: always missed"
            yield Fault(f"spec.deadline.{name}", told)


# ── how many ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _pace(spec: ScheduleSpec, around: Around, now: Instant) -> Iterator[Fault]:
    """Fires that come faster than runs may start, when all of them wait."""
    paces: list[tuple[str, Constraint, Duration, int]] = []
    for path, one in _of(spec, MinInterval):
        assert isinstance(one, MinInterval)
        paces.append((path, one, one.duration, 1))
    for path, one in _of(spec, Rate):
        assert isinstance(one, Rate)
        paces.append((path, one, one.per, one.max))
    if not paces or spec.waiting.runs is not Waiting.ALL or not _clockwork(spec):
        return
    for path, constraint, span, most in paces:
        begin = next_fire(spec.trigger, now)
        if begin is None or constraint.unmet is Unmet.SKIP:
            continue
        times = max(1, -(-7 * DAY // span))  # over a week at least: a burst is no pace
        fires = count_fires(spec.trigger, begin - 1, begin + times * span - 1)
        if fires > times * most:
            limit = f"{most} in {format_duration(span)}"
            told = f"fires come faster than {name_of(constraint)} lets them start ({limit}): they pile up"
            yield Fault(path, f"{told} until waiting.max ends the oldest; `waiting: merge` or `latest` would not")


def _maxima(spec: ScheduleSpec, around: Around, now: Instant) -> Iterator[Fault]:
    limits = [(path, one) for path, one in _of(spec, Concurrency) if isinstance(one, Concurrency)]
    groups = {*spec.groups, *around.program_groups}
    for path, one in limits:
        for other_path, other in limits:
            if _inside(one.scope, other.scope) and one.max > other.max:
                told = f"{one.max} is never reached: {other_path} allows {other.max} per {other.scope}"
                yield Fault(f"{path}.max", told)
        group = one.scope.removeprefix(GROUP)
        if one.scope.startswith(GROUP) and group not in groups:
            told = f"neither the schedule nor its program is in group {group!r}, so its own runs are not counted"
            yield Fault(f"{path}.scope", f"{told}; add it to `groups`")
        slots = around.pools.get(around.pool)
        if slots is not None and not one.scope.startswith(GROUP) and one.max > slots:
            yield Fault(f"{path}.max", f"{one.max} is never reached: pool {around.pool!r} has {slots} slots")


def _inside(scope: str, other: str) -> bool:
    """Whether what the first counts is always counted by the second, too."""
    order = ("schedule", "program")
    place = order.index(scope) if scope in order else 2
    return place < (order.index(other) if other in order else 2)


def _missing(spec: ScheduleSpec, around: Around, now: Instant) -> Iterator[Fault]:
    for path, one in _of(spec, Blackout):
        assert isinstance(one, Blackout)
        if one.calendar not in around.calendars:
            yield Fault(f"{path}.calendar", f"there is no calendar {one.calendar!r}: runs wait until there is one")
    for path, one in _of(spec, Load):
        assert isinstance(one, Load)
        if one.resource.startswith(POOL) and one.resource.removeprefix(POOL) not in around.pools:
            told = f"there is no pool {one.resource.removeprefix(POOL)!r}: runs wait until there is one"
            yield Fault(f"{path}.resource", told)


# ── loops ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def awaited(trigger: Trigger, path: str = "spec.trigger") -> Iterator[tuple[str, str]]:
    """(path, program) of each program whose runs make the whole trigger fire by themselves."""
    match trigger:
        case ProgramStatus():
            yield path, trigger.program
        case Quiet():
            yield from awaited(trigger.trigger, f"{path}.trigger")
        case AnyOf():
            for place, leg in enumerate(below(trigger)):
                yield from awaited(leg, f"{path}.triggers[{place}]")


def _loops(spec: ScheduleSpec, around: Around, now: Instant) -> Iterator[Fault]:
    for path, program in awaited(spec.trigger):
        way = _way(around.program, program, around.starts)
        if way is None:
            continue
        told = " -> ".join((program, around.program, *(one for one, _ in way)))
        by = ", ".join(dict.fromkeys(schedule for _, schedule in way))
        also = f" (by {by})" if by else ""
        yield Fault(path, f"closes a circle of programs that start each other for ever: {told}{also}")


def _way(begin: str, end: str, starts: Mapping[str, Sequence[tuple[str, str]]]) -> list[tuple[str, str]] | None:
    """The programs that are started one after another from `begin` to `end`, each with the schedule; None: no way."""
    ways: dict[str, list[tuple[str, str]]] = {begin: []}
    looked_at = [begin]
    for one in looked_at:
        if one == end:
            return ways[one]
        for program, schedule in starts.get(one, ()):
            if program not in ways:
                ways[program] = [*ways[one], (program, schedule)]
                looked_at.append(program)
    return None
