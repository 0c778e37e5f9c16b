"""What may be spent on maintenance in a rolling span, and on which tables it is spent.

Everything that is started is reserved first: its table, one operation, the bytes that it may rewrite. What has ended
counts by what it really cost. Whoever starts something decides by all reservations that are in force, in one
transaction, so that no two schedulers spend the same room.

Nothing starves. What has waited longest, and for `PATIENCE` spans, goes before all others; and if there is no room for
it yet, the room that becomes free is kept for it. More that waited so long follows until half of the room is taken, so
that a lake which is far behind still gets what is best now. What needs more than the whole budget is refused, and says
so.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidegate.domain.instants import Instant
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.maintenance.policy import Budget, Rank

PATIENCE = 8
"""Spans of a budget that something waits before it goes first."""
_MOST_NODES = 4_000
"""How long a better selection is looked for."""
_CORE = 120
"""Among how many, about the last that fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """Maintenance that was started at `at`. `bytes`: reserved while it is `open`, really spent afterwards."""

    at: Instant
    table: str
    bytes: int
    open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What would be started if there is room. `bytes` None: nobody knows, so under a budget of bytes it may not.

    `debt` and `gain` rank it; `since`: when it could have started but for the budget.
    """

    table: str
    operation: Operation
    bytes: int | None
    since: Instant
    debt: float = 0.0
    gain: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """There is no room. `until`: when there may be; None: not by time alone. `why`: a sentence."""

    until: Instant | None
    why: str


class _Left(NamedTuple):
    """What is still spent from an instant on."""

    at: Instant
    operations: int
    bytes: int
    tables: int


class Room:
    """What is left of a budget at an instant; `take` uses it up."""

    def __init__(self, budget: Budget, spent: Iterable[Spend], now: Instant) -> None:
        self.budget = budget
        self.now = now
        self._counting = [one for one in spent if one.open or one.at > now - budget.per]
        self.tables = {one.table for one in self._counting}
        self.operations = len(self._counting)
        self.bytes = sum(one.bytes for one in self._counting)
        self._taken: set[str] = set()
        self._leaving: list[_Left] | None = None
        self._last: dict[str, Instant] = {}

    def fits(self, candidate: Candidate) -> bool:
        """Whether it can be started now."""
        budget = self.budget
        if budget.operations and self.operations >= budget.operations:
            return False
        if budget.tables and candidate.table not in self.tables and len(self.tables) >= budget.tables:
            return False
        return not budget.bytes or (candidate.bytes is not None and self.bytes + candidate.bytes <= budget.bytes)

    def half(self) -> Room:
        """A room that is full when half of what is left of this one is used."""
        budget = self.budget
        half = Room(budget, (), self.now)
        half.tables = set(self.tables)
        half.operations = self.operations + max(0, budget.operations - self.operations) // 2
        half.bytes = self.bytes + max(0, budget.bytes - self.bytes) // 2
        return half

    def take(self, candidate: Candidate) -> None:
        """It is started."""
        self.tables.add(candidate.table)
        self._taken.add(candidate.table)
        self._leaving = None
        self.operations += 1
        self.bytes += candidate.bytes or 0

    def refusal(self, candidate: Candidate, *, kept_for: str = "") -> Refusal:
        """Why it cannot be started now, and when it may."""
        budget = self.budget
        if budget.bytes and candidate.bytes is None:
            return Refusal(until=None, why="How much it would rewrite is not known, so no room can be reserved for it.")
        if budget.bytes and (candidate.bytes or 0) > budget.bytes:
            why = f"It may rewrite {candidate.bytes} bytes, and the whole budget is {budget.bytes}: raise budget.bytes."
            return Refusal(until=None, why=why)
        if kept_for:
            return Refusal(until=self._frees(candidate), why=f"The room is kept for {kept_for}, which waits longest.")
        used = []
        if budget.operations and self.operations >= budget.operations:
            used.append(f"{self.operations} of {budget.operations} operations")
        if budget.tables and len(self.tables) >= budget.tables and candidate.table not in self.tables:
            used.append(f"{len(self.tables)} of {budget.tables} tables")
        if budget.bytes and self.bytes + (candidate.bytes or 0) > budget.bytes:
            used.append(f"{self.bytes} of {budget.bytes} bytes, and it may rewrite {candidate.bytes}")
        return Refusal(until=self._frees(candidate), why=f"Spent: {', '.join(used) or 'by those that go before it'}.")

    def _frees(self, candidate: Candidate) -> Instant | None:
        """When enough of what ended is a span old; None while what is under way holds the room."""
        leaving = self._leaving if self._leaving is not None else self._leave()
        # While its own table counts it needs no room for one; then it may again: each of the two grows by itself.
        own = bisect_left(leaving, self._last.get(candidate.table, 0), key=lambda left: left.at)
        for begin, end in ((0, own), (own, len(leaving))):
            place = bisect_left(leaving, True, begin, end, key=lambda left: self._fits_in(left, candidate))
            if place < end:
                return leaving[place].at
        return None

    def _fits_in(self, left: _Left, candidate: Candidate) -> bool:
        budget = self.budget
        if budget.operations and left.operations >= budget.operations:
            return False
        stays = self._last.get(candidate.table, 0) > left.at
        if budget.tables and not stays and left.tables >= budget.tables:
            return False
        return not budget.bytes or left.bytes + (candidate.bytes or 0) <= budget.bytes

    def _leave(self) -> list[_Left]:
        """What is still spent after each of those that ended has left the span, by when that is."""
        leaving: list[_Left] = []
        far = self.now + 2 * self.budget.per
        self._last = dict.fromkeys(self.tables, far)  # what is under way or chosen now stays
        ended = sorted((one for one in self._counting if not one.open), key=lambda one: one.at)
        staying = self.tables - {one.table for one in ended} | {one.table for one in self._counting if one.open}
        staying |= self._taken
        for one in ended:
            if one.table not in staying:
                self._last[one.table] = one.at + self.budget.per
        operations, size, tables = self.operations, self.bytes, len(self.tables)
        gone: set[str] = set()
        for one in ended:
            at = one.at + self.budget.per
            operations, size = operations - 1, size - one.bytes
            if self._last[one.table] == at and one.table not in gone:
                gone.add(one.table)
                tables -= 1
            if leaving and leaving[-1].at == at:
                leaving.pop()
            leaving.append(_Left(at, operations, size, tables))
        self._leaving = leaving
        return leaving


def select(
    candidates: Sequence[Candidate], room: Room, rank: Rank
) -> tuple[list[Candidate], list[tuple[Candidate, Refusal]]]:
    """Those to start now, and those for which there is no room, each with the reason."""
    if room.budget.unlimited:
        return list(candidates), []
    patience = PATIENCE * room.budget.per
    waited = sorted((one for one in candidates if room.now - one.since >= patience), key=_longest(room, rank))
    others = [one for one in candidates if room.now - one.since < patience]
    chosen: list[Candidate] = []
    left: list[Candidate] = []
    kept_for = ""
    empty = Room(room.budget, (), room.now)
    half = room.half()
    for one in waited:
        if not kept_for and room.fits(one) and (not chosen or half.fits(one)):
            room.take(one)
            half.take(one)
            chosen.append(one)
        elif not kept_for and room.fits(one):
            others.append(one)
        else:
            left.append(one)
            if not kept_for and not chosen and empty.fits(one):
                kept_for = f"{one.operation.value} of {one.table}"
    if not kept_for:
        best = _best(others, room) if rank is Rank.VALUE else _greedy(sorted(others, key=_worst_first), room)
        chosen += best
        taken = {id(one) for one in best}
        left += [one for one in others if id(one) not in taken]
    else:
        left += others
    first = left[0] if kept_for else None
    return chosen, [(one, room.refusal(one, kept_for="" if one is first else kept_for)) for one in left]


def _longest(room: Room, rank: Rank) -> Callable[[Candidate], tuple[Instant, float, str, str]]:
    """Of those that waited as long, who would go first anyway."""
    if rank is Rank.VALUE:
        return lambda one: (one.since, -_density(one, room), one.table, one.operation.value)
    return lambda one: (one.since, *_worst_first(one))


def _worst_first(one: Candidate) -> tuple[float, str, str]:
    return -one.debt, one.table, one.operation.value


def _greedy(candidates: Iterable[Candidate], room: Room) -> list[Candidate]:
    chosen = []
    for one in candidates:
        if room.fits(one):
            room.take(one)
            chosen.append(one)
    return chosen


# ── the best that fits ─────────────────────────────────────────────────────────────────────────────────────────────


def _best(candidates: Sequence[Candidate], room: Room) -> list[Candidate]:
    """The selection of the greatest gain that is found: the densest first, then better ones by trying, for a while.

    What gains nothing known is taken last, the worst debt first, into the room that is left.
    """
    useful = sorted(
        (one for one in candidates if one.gain > 0), key=lambda one: (-_density(one, room), *_worst_first(one))
    )
    useful = [one for one in useful if room.fits(one)]
    chosen, useful = _certain(useful, room)
    core = _Search(useful[:_CORE], room).run()
    for one in core:
        room.take(one)
    chosen += core
    taken = {id(one) for one in chosen}
    rest = sorted((one for one in candidates if id(one) not in taken), key=_worst_first)
    return chosen + _greedy(rest, room)


def _took(room: Room, one: Candidate) -> bool:
    if not room.fits(one):
        return False
    room.take(one)
    return True


def _certain(items: list[Candidate], room: Room) -> tuple[list[Candidate], list[Candidate]]:
    """The densest of very many, which any good selection holds; and the others, in order. They are taken."""
    trial = Room(room.budget, (), room.now)
    trial.tables, trial.operations, trial.bytes = set(room.tables), room.operations, room.bytes
    end = next((place for place, one in enumerate(items) if not _took(trial, one)), len(items))
    certain = max(0, end - _CORE // 2)
    for one in items[:certain]:
        room.take(one)
    return items[:certain], items[certain:]


def _density(one: Candidate, room: Room) -> float:
    return one.gain / max(1, one.bytes or 0) if room.budget.bytes else one.gain


class _Search:
    """Depth first, the densest first; what cannot beat the best any more is not followed."""

    def __init__(self, items: Sequence[Candidate], room: Room) -> None:
        budget = room.budget
        self.items = items
        self.bytes = budget.bytes - room.bytes if budget.bytes else None
        self.count = budget.operations - room.operations if budget.operations else len(items)
        self.tables = budget.tables - len(room.tables) if budget.tables else None
        self.known = room.tables
        self.nodes = 0
        self.best: list[int] = []
        self.best_gain = 0.0

    def run(self) -> list[Candidate]:
        """The best selection found."""
        stack: list[tuple[int, float, int, tuple[int, ...], frozenset[str]]] = [(0, 0.0, 0, (), frozenset())]
        while stack and self.nodes < _MOST_NODES + len(self.items):
            self.nodes += 1
            place, gain, used, picked, tables = stack.pop()
            if gain > self.best_gain:
                self.best_gain, self.best = gain, list(picked)
            if place == len(self.items) or gain + self._bound(place, used, len(picked)) <= self.best_gain:
                continue
            one = self.items[place]
            stack.append((place + 1, gain, used, picked, tables))
            more = tables if one.table in self.known or one.table in tables else tables | {one.table}
            size = used + (one.bytes or 0)
            within = self.bytes is None or size <= self.bytes
            if within and len(picked) < self.count and (self.tables is None or len(more) <= self.tables):
                stack.append((place + 1, gain + one.gain, size, (*picked, place), more))
        return [self.items[place] for place in self.best]

    def _bound(self, place: int, used: int, picked: int) -> float:
        """At most so much more can be gained by the items from there on: those that fit whole, and a share of one."""
        bound = 0.0
        room = None if self.bytes is None else self.bytes - used
        for one in self.items[place : place + self.count - picked] if self.bytes is None else self.items[place:]:
            size = one.bytes or 0
            if room is not None and size > room:
                return bound + one.gain * room / size
            bound += one.gain
            if room is not None:
                room -= size
        return bound
