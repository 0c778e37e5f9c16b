"""From wall-clock times to instants: one stepping engine for cron, calendar intervals and windows.

A trigger says *which wall-clock times* it wants (`LocalTimes`); a zone says what becomes of a wall clock as time
passes; a `DstRule` says what a time that does not exist, or exists twice, means. `pieces` folds zone and rule into
stretches of constant offset on which every wanted wall-clock time is exactly one fire, plus the instants after gaps
that stand for what fell inside. Stepping, stepping back and counting then need no case for daylight saving at all, and
counting a year costs a few bisections.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, Protocol

from tidegate.domain.instants import DAY, Duration, Instant
from tidegate.domain.triggers import Gap, Overlap
from tidegate.domain.zones import BEGINNING, END, Local, Zone, resolve


class LocalTimes(Protocol):
    """A set of wall-clock times."""

    def first(self, local: Local) -> Local | None:
        """The smallest member at or after `local`; None when there is none before the end of time."""

    def last(self, local: Local) -> Local | None:
        """The greatest member at or before `local`."""

    def count(self, low: Local, high: Local) -> int:
        """How many members lie in [low, high)."""


class Ticks(Protocol):
    """A set of instants that a trigger fires at, its bounds not yet applied."""

    def next(self, after: Instant) -> Instant | None:
        """The first one strictly after `after`."""

    def newest(self, until: Instant) -> Instant | None:
        """The last one at or before `until`."""

    def count(self, after: Instant, until: Instant) -> int:
        """How many lie in (after, until], without walking them."""


class Reading(StrEnum):
    """How wall-clock times are read where the clock jumps."""

    REAL = "real"
    """Every instant whose wall clock matches: twice in an overlap, never in a gap."""
    FIRST = "first"
    LAST = "last"
    BOTH = "both"


class DstRule(NamedTuple):
    """What a jump of the clock means to a trigger."""

    reading: Reading
    gap: Gap

    @classmethod
    def fixed(cls, gap: Gap, overlap: Overlap) -> DstRule:
        """The rule of a fixed time."""
        return cls(Reading(overlap.value), gap)


REAL_TIME = DstRule(Reading.REAL, Gap.SKIP)
CALENDAR = DstRule(Reading.FIRST, Gap.SHIFT)
"""How intervals of days and longer, and windows, read the wall clock."""


class Pieces(NamedTuple):
    """Piece i: wall-clock times in [starts[i] + offsets[i], ends[i] + offsets[i]) fire at themselves minus offsets[i];
    in addition one fire at starts[i] stands for all wanted times in the gaps `shifted[i]`. Ascending, disjoint."""

    starts: tuple[Instant, ...]
    ends: tuple[Instant, ...]
    offsets: tuple[Duration, ...]
    shifted: tuple[tuple[tuple[Local, Local], ...], ...]
    horizon: Instant


@lru_cache(maxsize=4096)
def pieces(name: str, rule: DstRule, until: Instant) -> Pieces:
    """The pieces of a zone under a rule, complete up to `until` at least.

    The wall clock is cut at every place where some segment of constant offset begins or ends; between two cuts the set
    of segments that show those times never changes. None shows them: a gap. Several: an overlap, and the rule picks.
    """
    table = resolve(name).segments(until)
    ends = (*table.starts[1:], table.horizon)
    spans = [(s + o, e + o) for s, e, o in zip(table.starts, ends, table.offsets, strict=True)]
    cuts = sorted({edge for span in spans for edge in span})
    shown: list[list[int]] = [[] for _ in cuts]
    for i, (low, high) in enumerate(spans):
        for k in range(bisect_left(cuts, low), bisect_left(cuts, high)):
            shown[k].append(i)
    kept: list[list[tuple[Local, Local]]] = [[] for _ in spans]
    for k in range(len(cuts) - 1):
        for i in _picked(shown[k], rule.reading):
            if kept[i] and kept[i][-1][1] == cuts[k]:
                kept[i][-1] = (kept[i][-1][0], cuts[k + 1])
            else:
                kept[i].append((cuts[k], cuts[k + 1]))
    gaps: list[tuple[tuple[Local, Local], ...]] = [() for _ in spans]
    if rule.reading is not Reading.REAL and rule.gap is Gap.SHIFT:
        gaps = _gaps(spans, cuts, shown)
    rows: list[tuple[Instant, Instant, Duration, tuple[tuple[Local, Local], ...]]] = []
    for start, offset, ranges, gap in zip(table.starts, table.offsets, kept, gaps, strict=True):
        if gap and not (ranges and ranges[0][0] - offset == start):
            rows.append((start, start, offset, gap))
            gap = ()
        for low, high in ranges:
            rows.append((low - offset, high - offset, offset, gap if low - offset == start else ()))
    starts, stops, offsets, shifted = zip(*rows, strict=True)
    return Pieces(starts, stops, offsets, shifted, table.horizon)


def _picked(shown: list[int], reading: Reading) -> list[int]:
    match reading:
        case Reading.FIRST:
            return shown[:1]
        case Reading.LAST:
            return shown[-1:]
        case _:
            return shown


def _gaps(
    spans: list[tuple[Local, Local]], cuts: list[Local], shown: list[list[int]]
) -> list[tuple[tuple[Local, Local], ...]]:
    """For each segment the stretches of the wall clock that were jumped over to get there and that nothing shows."""
    found: list[tuple[tuple[Local, Local], ...]] = [()]
    taken: set[int] = set()
    for (_, before), (after, _) in zip(spans, spans[1:], strict=False):
        mine = [k for k in range(bisect_left(cuts, before), bisect_left(cuts, after)) if not shown[k]]
        found.append(tuple((cuts[k], cuts[k + 1]) for k in mine if k not in taken))
        taken.update(mine)
    return found


class LocalTicks:
    """The instants of a set of wall-clock times in a zone under a rule."""

    __slots__ = ("times", "zone", "rule", "_pieces", "_here")

    def __init__(self, times: LocalTimes, zone: Zone, rule: DstRule) -> None:
        self.times = times
        self.zone = zone
        self.rule = rule
        self._pieces = pieces(zone.name, rule, 0)
        self._here: tuple[Instant, Instant, Duration] = (0, 0, 0)
        """Start, end and offset of the piece that was asked last: the next question is nearly always about it too."""

    def next(self, after: Instant) -> Instant | None:
        """The first fire strictly after `after`; None when there is none before the year 9999."""
        start, end, offset = self._here
        if start <= after < end:
            found = self.times.first(after + offset + 1)
            if found is not None and found - offset < end:
                return found - offset
        return self._searched(after)

    def _searched(self, after: Instant) -> Instant | None:
        """`next` from whatever piece holds `after`, on into the pieces that follow."""
        starts, ends, offsets, shifted, horizon = self._pieces
        if after >= horizon:
            return self._further(after) if horizon < END else None
        i = bisect_right(starts, after) - 1
        if i < 0:
            after, i = BEGINNING, 0
        self._here = (starts[i], ends[i], offsets[i])
        low = after + offsets[i] + 1
        first = self.times.first
        found = first(low)
        while True:
            if found is None:
                return None
            if found - offsets[i] < ends[i]:
                return found - offsets[i]
            i += 1
            if i == len(starts):
                return self._further(horizon - 1) if horizon < END else None
            start, offset = starts[i], offsets[i]
            if shifted[i] and any(self.times.count(gap_low, gap_high) for gap_low, gap_high in shifted[i]):
                return start
            if not low <= start + offset <= found:  # else `found` is the first at or after this start as well
                low = start + offset
                found = first(low)

    def newest(self, until: Instant) -> Instant | None:
        """The last fire at or before `until`; None when there is none since the year 2."""
        if until >= self._pieces.horizon:
            if self._pieces.horizon < END:
                self._extend(until + 1)
            until = min(until, self._pieces.horizon - 1)
        starts, ends, offsets, shifted, _ = self._pieces
        for i in range(bisect_right(starts, until) - 1, -1, -1):
            found = self.times.last(min(until, ends[i] - 1) + offsets[i])
            if found is not None and found - offsets[i] >= starts[i] and ends[i] > starts[i]:
                return found - offsets[i]
            if shifted[i] and any(self.times.count(low, high) for low, high in shifted[i]):
                return starts[i]
            if found is None:
                return None
        return None

    def count(self, after: Instant, until: Instant) -> int:
        """How many fires lie in (after, until]: a few bisections for each change of the clock, whatever the number."""
        if until > self._pieces.horizon and self._pieces.horizon < END:
            self._extend(until)
        starts, ends, offsets, shifted, _ = self._pieces
        total = 0
        for i in range(max(bisect_right(starts, after) - 1, 0), len(starts)):
            if starts[i] > until:
                break
            low, high = max(starts[i], after + 1), min(ends[i], until + 1)
            if low < high:
                total += self.times.count(low + offsets[i], high + offsets[i])
            if (
                shifted[i]
                and starts[i] > after
                and any(self.times.count(gap_low, gap_high) for gap_low, gap_high in shifted[i])
                and not (ends[i] > starts[i] and self.times.count(starts[i] + offsets[i], starts[i] + offsets[i] + 1))
            ):
                total += 1
        return total

    def is_shifted(self, fire: Instant) -> bool:
        """Whether this fire only stands for times that do not exist (the wall clock itself is not wanted then)."""
        local = self.zone.to_local(fire)
        return self.times.first(local) != local

    def _further(self, after: Instant) -> Instant | None:
        self._extend(after + 1)
        return self._searched(after)

    def _extend(self, until: Instant) -> None:
        self._pieces = pieces(self.zone.name, self.rule, min(until + 40 * 366 * DAY, END))


class ExactTicks:
    """Every `step` microseconds from an anchor, in both directions, whatever clocks do."""

    __slots__ = ("anchor", "step")

    def __init__(self, anchor: Instant, step: Duration) -> None:
        self.anchor = anchor
        self.step = step

    def next(self, after: Instant) -> Instant | None:
        found = after + self.step - (after - self.anchor) % self.step
        return found if found < END else None

    def newest(self, until: Instant) -> Instant | None:
        found = until - (until - self.anchor) % self.step
        return found if found >= BEGINNING else None

    def count(self, after: Instant, until: Instant) -> int:
        return max((until - self.anchor) // self.step - (after - self.anchor) // self.step, 0)


class OneTick:
    """A single instant."""

    __slots__ = ("at",)

    def __init__(self, at: Instant) -> None:
        self.at = at

    def next(self, after: Instant) -> Instant | None:
        return self.at if self.at > after else None

    def newest(self, until: Instant) -> Instant | None:
        return self.at if self.at <= until else None

    def count(self, after: Instant, until: Instant) -> int:
        return int(after < self.at <= until)
