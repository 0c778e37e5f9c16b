"""Audit: recompute from the revisions which fires were due, and prove the ledger against it.

The ledger is read schedule by schedule; what was owed is recomputed by `domain.planning.owed`, which counts where it
can, so that a year of minutes that one stretch accounts for costs no more than a day. Fires after a clock's cursor are
not yet decided: they are late when they are overdue although a scheduler lives. Memory is bounded by one batch of
schedules; findings are listed up to `MOST_FINDINGS` and counted beyond.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tidegate.domain import fires, planning
from tidegate.domain.instants import MINUTE, Instant
from tidegate.domain.planning import Owed
from tidegate.domain.runs import State
from tidegate.domain.schedules import Mode, Revision
from tidegate.domain.triggers import AfterFinish, Trigger, WindowDays
from tidegate.ports.control import Book, ControlStore, LedgerRow

BATCH = 100
MOST_FINDINGS = 1000
_BEGINNING: Instant = -(10**17)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """So far."""

    schedules: int
    fires: int
    findings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The proof. `findings` are at most `MOST_FINDINGS`; the counts are complete."""

    since: Instant
    until: Instant
    schedules: int
    owed: int
    recorded: int
    outcomes: dict[str, int]
    lost: int
    doubled: int
    unexplained: int
    not_yet_decided: int
    late: int  # of those: due longer than the grace ago although a scheduler lives
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        return not (self.lost or self.doubled or self.unexplained)


async def audit(
    store: ControlStore,
    *,
    namespace: str | None = None,
    since: Instant | None = None,
    until: Instant | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Audit:
    """Compare `since` (left out: everything) to `until` (left out, or later: now). Reads only."""
    now = await store.now()
    end = now if until is None else min(until, now)
    begin = _BEGINNING if since is None else since
    alive = any(one.role in ("scheduler", "all") for one in await store.instances())
    total = _Total(now=now, scheduler_alive=alive)
    after = None
    while True:
        books = await store.books(namespace, begin, end, after, BATCH)
        for book in books:
            total.add(book, begin, end)
        if on_progress is not None:
            on_progress(Progress(schedules=total.schedules, fires=total.recorded, findings=total.found))
        if len(books) < BATCH:
            return total.result(begin, end)
        after = books[-1].schedule_id


# ── one schedule ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Total:
    now: Instant
    scheduler_alive: bool
    schedules: int = 0
    owed: int = 0
    recorded: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    counts: Counter[Kind] = field(default_factory=Counter)
    not_yet_decided: int = 0
    late: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def found(self) -> int:
        return sum(self.counts.values())

    def add(self, book: Book, since: Instant, until: Instant) -> None:
        """Compare one schedule's book."""
        self.schedules += 1
        for row in book.rows:
            self.recorded += row.n
            self.outcomes[row.outcome] += row.n
        decided = max(min(until, book.cursor), since - 1)
        ran = sorted({row.from_fire for row in book.rows if row.outcome not in _NOT_RUN})
        expected = list(planning.owed(book.revisions, since - 1, decided, ran=ran))
        self.owed += sum(one.n for one in expected)
        for finding in _merged(_compare(book, expected, since)):
            self.counts[finding.kind] += finding.count
            if len(self.findings) < MOST_FINDINGS:
                self.findings.append(finding)
        if book.deleted_at is None:
            self._pending(book, until, ran)

    def _pending(self, book: Book, until: Instant, ran: Sequence[Instant]) -> None:
        """Fires that have come and that no timekeeper has decided yet."""
        for one in planning.owed(book.revisions, book.cursor, until, ran=ran):
            self.not_yet_decided += one.n
            due = fires.due(f"{book.namespace}/{book.name}", one.revision.spec.trigger, one.first)
            if self.scheduler_alive and self.now - due > max(one.revision.spec.catch_up.grace, MINUTE):
                self.late += one.n

    def result(self, since: Instant, until: Instant) -> Audit:
        return Audit(
            since=since,
            until=until,
            schedules=self.schedules,
            owed=self.owed,
            recorded=self.recorded,
            outcomes=dict(sorted(self.outcomes.items())),
            lost=self.counts[Kind.LOST],
            doubled=self.counts[Kind.DOUBLED],
            unexplained=self.counts[Kind.UNEXPLAINED],
            not_yet_decided=self.not_yet_decided,
            late=self.late,
            findings=tuple(self.findings),
        )


def _compare(book: Book, expected: Sequence[Owed], since: Instant) -> Iterator[Finding]:
    """Walk the ledger and what was owed side by side, both ascending."""
    ledger = _Ledger(book)
    yield from ledger.doubled()
    for one in expected:
        yield from ledger.account(one)
    yield from ledger.unexplained(since)


class _Ledger:
    """One schedule's rows, as far as they are explained."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.rows = sorted(book.rows, key=lambda row: (row.from_fire, row.to_fire))
        self.explained: Counter[int] = Counter()

    def doubled(self) -> Iterator[Finding]:
        """Rows that overlap an earlier one."""
        reach: LedgerRow | None = None
        for index, row in enumerate(self.rows):
            if reach is not None and row.from_fire <= reach.to_fire:
                last = min(row.to_fire, reach.to_fire)
                why = f"recorded as {reach.outcome} and again as {row.outcome}"
                count = row.n if row.to_fire <= reach.to_fire else 1
                yield self._finding(Kind.DOUBLED, row.from_fire, last, count, why)
                self.explained[index] = row.n
            if reach is None or row.to_fire > reach.to_fire:
                reach = row

    def account(self, owed: Owed) -> Iterator[Finding]:
        """Tick off the rows of a span of owed fires; what no row stands for is lost."""
        trigger, at = owed.revision.spec.trigger, owed.first - 1
        for index, row in self._between(owed.first, owed.last):
            if row.n > 1 or row.to_fire > row.from_fire:
                first, last = max(row.from_fire, owed.first), min(row.to_fire, owed.last)
                yield from self._lost(trigger, at, first - 1, owed)
                self.explained[index] += _count(trigger, first - 1, last)
                at = max(at, last)
                continue
            if at >= row.from_fire:
                continue
            yield from self._lost(trigger, at, row.from_fire - 1, owed)
            if _count(trigger, row.from_fire - 1, row.from_fire):
                self.explained[index] += 1
            at = row.from_fire
        yield from self._lost(trigger, at, owed.last, owed)

    def _between(self, first: Instant, last: Instant) -> Iterable[tuple[int, LedgerRow]]:
        return ((index, row) for index, row in enumerate(self.rows) if row.to_fire >= first and row.from_fire <= last)

    def _lost(self, trigger: Trigger, after: Instant, until: Instant, owed: Owed) -> Iterator[Finding]:
        count = _count(trigger, after, until) if after < until else 0
        if isinstance(trigger, WindowDays) and count:
            count = sum(1 for fire in owed.fires() if after < fire <= until)
        if count:
            first = fires.next_fire(trigger, after)
            last = fires.newest_fire(trigger, until)
            assert first is not None and last is not None
            why = f"revision {owed.revision.rev} owed it and the clock has passed it, but nothing is on record"
            yield self._finding(Kind.LOST, first, last, count, why)

    def unexplained(self, since: Instant) -> Iterator[Finding]:
        """Rows, or parts of them, that no revision owed. Fires of `after_finish` follow ends of runs and cannot be
        recomputed: one is explained by a revision that says so and rules at its time."""
        for index, row in enumerate(self.rows):
            short = row.n - self.explained[index]
            if short <= 0 or self._follows_a_run(row):
                continue
            if row.to_fire > row.from_fire and row.n > self.explained[index] > 0 and row.from_fire < since:
                continue
            why = f"recorded as {row.outcome}, but no revision in force then owed it"
            yield self._finding(Kind.UNEXPLAINED, row.from_fire, row.to_fire, short, why)

    def _follows_a_run(self, row: LedgerRow) -> bool:
        ruling = _ruling(self.book.revisions, row.from_fire)
        return ruling is not None and ruling.mode is Mode.ENABLED and isinstance(ruling.spec.trigger, AfterFinish)

    def _finding(self, kind: Kind, first: Instant, last: Instant, count: int, why: str) -> Finding:
        book = self.book
        return Finding(
            kind=kind, namespace=book.namespace, schedule=book.name, first=first, last=last, count=count, why=why
        )


def _count(trigger: Trigger, after: Instant, until: Instant) -> int:
    return fires.count_fires(trigger, after, until)


def _ruling(revisions: Sequence[Revision], fire: Instant) -> Revision | None:
    """The revision in force at a fire time: the newest that is valid from before it."""
    found = None
    for revision in revisions:
        if revision.valid_from < fire:
            found = revision
    return found


def _merged(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Neighbours of the same kind and reason as one."""
    held: Finding | None = None
    for finding in findings:
        if held is not None and (held.kind, held.why) == (finding.kind, finding.why):
            held = replace(
                held,
                first=min(held.first, finding.first),
                last=max(held.last, finding.last),
                count=held.count + finding.count,
            )
            continue
        if held is not None:
            yield held
        held = finding
    if held is not None:
        yield held
