"""Audit: recompute from the revisions which fires were due, and prove the ledger against it, on live data.

Schedules are read in batches, each in windows of time that grow and shrink with what they hold, so that memory stays
bounded whatever the span; what was owed is counted, not walked (see `ledger`). Fires after a clock's cursor are not yet
decided: late when they are overdue although a scheduler lives. Findings are listed up to `MOST_FINDINGS`, and counted
beyond.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tidegate.control.ledger import Finding, Kind, Ledger
from tidegate.domain.ids import ScheduleId
from tidegate.domain.instants import DAY, HOUR, Duration, Instant
from tidegate.ports.control import ControlStore
from tidegate.ports.records import Book

BATCH = 100
MOST_FINDINGS = 1000
_FEW_ROWS, _MANY_ROWS = 20_000, 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """So far. `at`: up to where the present schedules have been read."""

    schedules: int
    fires: int
    findings: int
    at: Instant


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
    kept: Duration | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Audit:
    """Compare from `since` (left out: everything) to `until` (left out, or later: now). `kept` is how long history is
    kept: nothing older can be compared. Reads only."""
    now = await store.now()
    end = now if until is None else min(until, now)
    floor = max((one for one in (since, None if kept is None else now - kept) if one is not None), default=None)
    alive = any(one.role in ("scheduler", "all") for one in await store.instances())
    total = _Total(first=end, overdue=now if alive else None)
    after: ScheduleId | None = None
    while True:
        index = await store.books(namespace, end, end, after, BATCH)
        if index:
            begin = min(one.created_at for one in index)
            if floor is not None:  # without `since` nothing is read of the time before the schedules
                begin = floor if since is not None else max(floor, begin)
            await _batch(store, namespace, after, index, begin, end, total, on_progress)
            after = index[-1].schedule_id
        if len(index) < BATCH:
            return total.result(end if floor is None and not total.schedules else total.first, end)


async def _batch(
    store: ControlStore,
    namespace: str | None,
    before: ScheduleId | None,
    index: Sequence[Book],
    begin: Instant,
    end: Instant,
    total: _Total,
    on_progress: Callable[[Progress], None] | None,
) -> None:
    """One batch of schedules, from its beginning to the end, window by window."""
    ledgers = {one.schedule_id: Ledger() for one in index}
    total.first = min(total.first, begin)
    width, at = DAY, begin - 1
    while at < end:
        window = min(at + width, end)
        books = await store.books(namespace, at + 1, window, before, len(index))
        rows = sum(len(book.rows) for book in books)
        if rows > _MANY_ROWS and width > HOUR:
            width //= 2
            continue
        for book in books:
            if (ledger := ledgers.get(book.schedule_id)) is not None:
                total.note(ledger.compare(book, at, window, overdue=total.overdue))
        at = window
        if on_progress is not None:
            fires = total.recorded + sum(ledger.recorded for ledger in ledgers.values())
            on_progress(Progress(schedules=total.schedules + len(index), fires=fires, findings=total.found, at=at))
        width = width * 2 if rows < _FEW_ROWS else width
    for ledger in ledgers.values():
        total.add(ledger)


class _Total:
    """What was found so far."""

    def __init__(self, *, first: Instant, overdue: Instant | None) -> None:
        self.first = first
        self.overdue = overdue
        self.schedules = self.owed = self.recorded = self.pending = self.late = 0
        self.outcomes: Counter[str] = Counter()
        self.counts: Counter[Kind] = Counter()
        self.findings: list[Finding] = []

    @property
    def found(self) -> int:
        return sum(self.counts.values())

    def note(self, findings: Iterable[Finding]) -> None:
        for finding in _merged(findings):
            self.counts[finding.kind] += finding.count
            if len(self.findings) < MOST_FINDINGS:
                self.findings.append(finding)

    def add(self, ledger: Ledger) -> None:
        """One schedule is through."""
        self.schedules += 1
        self.owed += ledger.owed
        self.recorded += ledger.recorded
        self.pending += ledger.pending
        self.late += ledger.late
        self.outcomes.update(ledger.outcomes)

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
            not_yet_decided=self.pending,
            late=self.late,
            findings=tuple(self.findings),
        )


def _merged(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Rows that are doubled or unexplained for the same reason as one; lost fires are spans already."""
    held: Finding | None = None
    for one in findings:
        if held is not None and one.kind is not Kind.LOST and (held.kind, held.why) == (one.kind, one.why):
            first, last = min(held.first, one.first), max(held.last, one.last)
            held = replace(held, first=first, last=last, count=held.count + one.count)
            continue
        if held is not None:
            yield held
        held = one
    if held is not None:
        yield held


__all__ = ["MOST_FINDINGS", "Audit", "Finding", "Kind", "Progress", "audit"]
