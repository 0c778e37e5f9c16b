"""One schedule's ledger against what its revisions owed, window of time after window of time.

Both sides are walked in ascending order. What is owed is counted where it can be, so a stretch of half a million missed
fires costs one step. A stretch that reaches beyond a window is carried into the next and judged when it has ended.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tidegate.domain import fires, planning
from tidegate.domain.instants import Instant
from tidegate.domain.planning import Owed
from tidegate.domain.runs import State
from tidegate.domain.schedules import Mode, Revision
from tidegate.domain.trees import clockwork
from tidegate.domain.triggers import AfterFinish, WindowDays
from tidegate.ports.records import Book, LedgerRow

_NOT_RUN = frozenset({State.MISSED.value, State.SUPERSEDED.value})


class Kind(StrEnum):
    LOST = "lost"
    """Due by its revision and decided by the clock, and not in the ledger."""
    DOUBLED = "doubled"
    """In the ledger more than once."""
    UNEXPLAINED = "unexplained"
    """In the ledger, and no revision owed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`count` consecutive fires from `first` to `last`."""

    kind: Kind
    namespace: str
    schedule: str
    first: Instant
    last: Instant
    count: int
    why: str


@dataclass(slots=True)
class _Line:
    """A row, how many of its fires are explained, and whether only a part of it lies in the audited span."""

    row: LedgerRow
    clipped: bool = False
    explained: int = 0
    doubled: bool = False


class Ledger:
    """The comparison of one schedule. Call `compare` for adjoining windows, oldest first."""

    def __init__(self) -> None:
        self.owed = 0
        self.recorded = 0
        self.outcomes: dict[str, int] = {}
        self.pending = 0
        self.late = 0
        self._carried: list[_Line] = []
        self._last_run: Instant | None = None
        self._begun = False

    def compare(self, book: Book, after: Instant, until: Instant, *, overdue: Instant | None) -> Iterator[Finding]:
        """The findings in (after, until]. `overdue`: fires due before it ought to have been decided."""
        lines = self._lines(book, after)
        decided = min(until, book.cursor if book.deleted_at is None else max(book.deleted_at, book.cursor))
        ran = [line.row.from_fire for line in lines if line.row.outcome not in _NOT_RUN]
        since = after
        if not self._begun and self._counts_from_an_unknown_run(book, after):
            since = ran[0] - 1 if ran else decided
            for line in lines:
                line.clipped = line.clipped or line.row.from_fire <= since or not ran
        known = ran if self._last_run is None else [self._last_run, *ran]
        self._begun = True

        yield from self._doubled(book, lines)
        for owed in planning.owed(book.revisions, since, decided, ran=known):
            self.owed += owed.n
            yield from self._account(book, lines, owed)
        yield from self._unexplained(book, [line for line in lines if line.row.to_fire <= until])

        self._carried = [line for line in lines if line.row.to_fire > until]
        self._last_run = ran[-1] if ran else self._last_run
        if book.deleted_at is None:
            self._wait_for(book, max(book.cursor, since), until, known, overdue)

    def _lines(self, book: Book, after: Instant) -> list[_Line]:
        held = {line.row.from_fire for line in self._carried}
        fresh = [
            _Line(row, clipped=row.from_fire <= after)
            for row in book.rows
            if row.to_fire > after and not (row.from_fire <= after and row.from_fire in held)
        ]
        for line in fresh:
            if not line.clipped:
                self.recorded += line.row.n
                self.outcomes[line.row.outcome] = self.outcomes.get(line.row.outcome, 0) + line.row.n
        return sorted([*self._carried, *fresh], key=lambda line: (line.row.from_fire, line.row.to_fire))

    def _counts_from_an_unknown_run(self, book: Book, after: Instant) -> bool:
        """Whether the span begins in the middle of a `window_days` schedule, whose last run before is not known."""
        windows = any(isinstance(clockwork(one.spec.trigger), WindowDays) for one in book.revisions)
        return windows and after >= book.created_at

    def _doubled(self, book: Book, lines: Sequence[_Line]) -> Iterator[Finding]:
        reach: LedgerRow | None = None
        for line in lines:
            row = line.row
            if reach is not None and row.from_fire <= reach.to_fire and not line.doubled:
                whole = row.to_fire <= reach.to_fire
                last = row.to_fire if whole else reach.to_fire
                why = f"recorded as {reach.outcome} and again as {row.outcome}"
                line.doubled = True
                yield _finding(book, Kind.DOUBLED, row.from_fire, last, row.n if whole else 1, why)
            if reach is None or row.to_fire > reach.to_fire:
                reach = row

    def _account(self, book: Book, lines: Sequence[_Line], owed: Owed) -> Iterator[Finding]:
        """Tick off the lines of a span of owed fires; what no line stands for is lost."""
        trigger, at = owed.revision.spec.trigger, owed.first - 1
        begin = bisect_right(lines, owed.first - 1, key=lambda line: line.row.from_fire)
        while begin > 0 and lines[begin - 1].row.to_fire >= owed.first:
            begin -= 1
        for line in lines[begin:]:
            row = line.row
            if row.from_fire > owed.last:
                break
            first, last = max(row.from_fire, owed.first), min(row.to_fire, owed.last)
            line.explained += fires.count_fires(trigger, first - 1, last)
            if last <= at:
                continue
            yield from _lost(book, owed, at, first - 1)
            at = last
        yield from _lost(book, owed, at, owed.last)

    def _unexplained(self, book: Book, lines: Sequence[_Line]) -> Iterator[Finding]:
        """Lines, or parts of them, that no revision owed. A fire of `after_finish` follows the end of a run and cannot
        be recomputed: a revision of that kind in force at its time explains it."""
        for line in lines:
            row, short = line.row, line.row.n - line.explained
            if short > 0 and not (line.clipped or line.doubled or _follows_a_run(book.revisions, row)):
                why = f"recorded as {row.outcome}, but no revision in force then owed it"
                yield _finding(book, Kind.UNEXPLAINED, row.from_fire, row.to_fire, short, why)

    def _wait_for(
        self, book: Book, after: Instant, until: Instant, ran: Sequence[Instant], overdue: Instant | None
    ) -> None:
        """Fires that have come and that no timekeeper has decided yet."""
        if after >= until:
            return
        name = f"{book.namespace}/{book.name}"
        for owed in planning.owed(book.revisions, after, until, ran=ran):
            trigger = owed.revision.spec.trigger
            self.pending += owed.n
            edge = None if overdue is None else overdue - owed.revision.spec.catch_up.grace
            if edge is not None and fires.due(name, trigger, owed.first) < edge:
                newest = min(owed.last, edge)
                self.late += max(1, fires.count_fires(trigger, owed.first - 1, newest)) if newest >= owed.first else 1


def _lost(book: Book, owed: Owed, after: Instant, until: Instant) -> Iterator[Finding]:
    trigger = owed.revision.spec.trigger
    count = fires.count_fires(trigger, after, until) if after < until else 0
    if count:
        first, last = fires.next_fire(trigger, after), fires.newest_fire(trigger, until)
        assert first is not None and last is not None
        why = f"revision {owed.revision.rev} owed it and the clock has passed it, but nothing is on record"
        yield _finding(book, Kind.LOST, first, last, count, why)


def _follows_a_run(revisions: Sequence[Revision], row: LedgerRow) -> bool:
    ruling = None
    for revision in revisions:
        if revision.valid_from < row.from_fire:
            ruling = revision
    return ruling is not None and ruling.mode is Mode.ENABLED and isinstance(ruling.spec.trigger, AfterFinish)


def _finding(book: Book, kind: Kind, first: Instant, last: Instant, count: int, why: str) -> Finding:
    return Finding(
        kind=kind, namespace=book.namespace, schedule=book.name, first=first, last=last, count=count, why=why
    )
