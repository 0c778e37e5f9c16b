"""What becomes of every fire between a clock's cursor and now: `plan`, for the timekeeper and the simulator.

Beside it, on the same rules: where a clock stands after a person changed its schedule (`revise`, `undecided`), and
which fires a span owed by the revisions alone (`owed`), which is what the audit holds against the ledger.

Nothing here does I/O or remembers anything. A plan that is computed and never recorded leaves no trace; recorded, it
moves the cursor in the same transaction (CATCH-5), so the next plan begins where this one ended.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple, Protocol, TypeAlias

from tidegate.domain.clocks import Due, Gap
from tidegate.domain.fires import count_fires, first_due, newest_fire, next_fire
from tidegate.domain.instants import Instant
from tidegate.domain.judging import Block, Fate, judge
from tidegate.domain.reigns import Reign, after_finish_fire, due_under, next_undecided, reigns
from tidegate.domain.runs import State
from tidegate.domain.schedules import Mode, Revision
from tidegate.domain.trees import clockwork
from tidegate.domain.triggers import AfterFinish, Cron, Interval, WindowDays
from tidegate.domain.zones import END


class Fire(NamedTuple):
    """A fire that becomes a run, of the newest revision's program, arguments and constraints."""

    fire_time: Instant
    due: Instant
    previous_fire: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Consecutive fires that do not run: one ledger row. `outcome`: MISSED (policy), SUPERSEDED (disable, delete)."""

    from_fire: Instant
    to_fire: Instant
    n: int
    rev: int  # the revision that decided them
    outcome: State
    reason: str


class Plan(NamedTuple):
    """What one pass decides for one clock."""

    due: Due
    fires: tuple[Fire, ...]
    missed: tuple[Stretch, ...]
    cursor: Instant
    cursor_rev: int
    next_due: Instant | None
    last_fire: Instant | None
    gap: Gap | None
    postponed: int  # catch-up fires that this pass's cap leaves for the next


# ── deciding ───────────────────────────────────────────────────────────────────────────────────────────────────────

ORDINARY_PER_PASS = 100
"""So many fires that are not missed one clock may make in one pass; the rest follow in the next."""


def plan(due: Sequence[Due], *, now: Instant, cap: int) -> Sequence[Plan]:
    """Decide what becomes of every fire between each cursor and now; one plan for each clock, in the order given.

    Pure. `cap` bounds the catch-up launches of this pass over all clocks. They are dealt out one by one, round after
    round, to the clock with the oldest first; what the cap cuts is stored as a judged gap and comes in later passes.
    A clock with something left over is due again `now`, behind clocks that have waited longer.
    """
    steps: _Steps = {}
    plans = [_on_time(clock, now, steps) for clock in due]
    behind = [index for index, made in enumerate(plans) if made is None]
    judged = [judge(due[index], now) for index in behind]
    shares = _shares([blocks for blocks, _ in judged], cap)
    for index, (blocks, whole), share in zip(behind, judged, shares, strict=True):
        plans[index] = _carry_out(due[index], blocks, whole, share, now)
    return [made for made in plans if made is not None]


_Steps: TypeAlias = dict[tuple[int, Instant, Instant | None], tuple[Fire | None, Instant | None]]
"""(identity of a trigger, cursor, last fire) -> the next fire and the time of the one after it, within one pass: at
midnight many clocks ask the same."""


def _on_time(clock: Due, now: Instant, steps: _Steps) -> Plan | None:
    """The plan of a clock with exactly one fire due, and that within its grace: what nearly every clock is.

    The same as judging it, several times faster; None where there is anything to judge.
    """
    if clock.gap is not None or len(clock.revisions) != 1:
        return None
    revision = clock.revisions[0]
    trigger = clockwork(revision.spec.trigger)
    if not revision.mode.works or not isinstance(trigger, (Cron, Interval)) or trigger.jitter:
        return None
    asked = (id(trigger), clock.cursor, clock.last_fire)
    if (found := steps.get(asked)) is None:
        found = steps[asked] = _next_two(trigger, clock)
    fire, following = found
    if fire is None or not now - revision.spec.catch_up.grace <= fire.fire_time <= now:
        return None
    if following is not None and following <= now:
        return None
    at = fire.fire_time
    # due, fires, missed, cursor, cursor_rev, next_due, last_fire, gap, postponed; by keyword it takes twice as long
    return Plan(clock, (fire,), (), at, revision.rev, following, at, None, 0)


def _next_two(trigger: Cron | Interval, clock: Due) -> tuple[Fire | None, Instant | None]:
    """The fire after the cursor, and the time of the one after that."""
    at = next_fire(trigger, clock.cursor)
    if at is None:
        return None, None
    return Fire(fire_time=at, due=at, previous_fire=clock.last_fire), next_fire(trigger, at)


def _shares(judged: Sequence[Sequence[Block]], cap: int) -> list[int]:
    """How many catch-up launches each clock may make now."""
    shares = [0] * len(judged)
    wanted: dict[int, int] = {}
    oldest: dict[int, Instant] = {}
    for index, blocks in enumerate(judged):
        for block in blocks:
            if block.fate is Fate.CATCH_UP:
                wanted[index] = wanted.get(index, 0) + block.n
                oldest.setdefault(index, block.first)
    queue = sorted(wanted, key=lambda index: (oldest[index], index))
    while cap > 0 and queue:
        for index in queue[:cap]:
            shares[index] += 1
        cap -= min(cap, len(queue))
        queue = [index for index in queue if shares[index] < wanted[index]]
    return shares


# ── carrying it out ────────────────────────────────────────────────────────────────────────────────────────────────


def _carry_out(clock: Due, blocks: Sequence[Block], whole: bool, share: int, now: Instant) -> Plan:
    """Turn blocks into runs and ledger rows, in order, as far as share and bound allow; then set the clock."""
    fires: list[Fire] = []
    missed: list[Stretch] = []
    cursor, gap, postponed, ordinary = clock.cursor, None, 0, ORDINARY_PER_PASS
    for index, block in enumerate(blocks):
        if block.fate is Fate.DROP:
            missed.append(
                Stretch(
                    from_fire=block.first,
                    to_fire=block.last,
                    n=block.n,
                    rev=block.reign.revision.rev,
                    outcome=State.MISSED,
                    reason=block.reason,
                )
            )
            cursor = block.last
            continue
        number = min(block.n, share if block.fate is Fate.CATCH_UP else ordinary)
        _launch(clock, block, number, fires)
        cursor = fires[-1].fire_time if number else cursor
        if block.fate is Fate.CATCH_UP:
            share -= number
        else:
            ordinary -= number
        if number < block.n:
            whole = False
            if block.fate is Fate.CATCH_UP:
                rest = list(takewhile(lambda later: later.fate is not Fate.DROP, blocks[index:]))
                gap = Gap(to=rest[-1].last, left=sum(later.n for later in rest) - number)
                postponed = sum(later.n for later in blocks[index:] if later.fate is Fate.CATCH_UP) - number
            break
    last_fire = fires[-1].fire_time if fires else clock.last_fire
    cursor, cursor_rev = _standing(clock.revisions, cursor, now if whole else cursor)
    return Plan(
        due=clock,
        fires=tuple(fires),
        missed=tuple(missed),
        cursor=cursor,
        cursor_rev=cursor_rev,
        next_due=next_due(clock, cursor, last_fire=last_fire) if whole else now,
        last_fire=last_fire,
        gap=gap,
        postponed=postponed,
    )


def _launch(clock: Due, block: Block, number: int, fires: list[Fire]) -> None:
    """Append the first `number` fires of a block."""
    fire: Instant | None = block.first
    for _ in range(number):
        assert fire is not None
        previous = fires[-1].fire_time if fires else clock.last_fire
        fires.append(Fire(fire_time=fire, due=due_under(clock.name, block.reign, fire), previous_fire=previous))
        if fire == block.last:
            return
        fire = next_fire(block.reign.revision.spec.trigger, fire)


def _standing(revisions: Sequence[Revision], cursor: Instant, upto: Instant) -> tuple[Instant, int]:
    """Where the clock stands when everything at or before the cursor is decided, and everything older than `upto`'s
    revision: never behind the beginning of the revision that it names."""
    ruling = revisions[0]
    for revision in revisions[1:]:
        if revision.valid_from <= max(upto, cursor):
            ruling = revision
            cursor = max(cursor, revision.valid_from)
    return cursor, ruling.rev


def next_due(clock: Due, cursor: Instant, *, last_fire: Instant | None) -> Instant | None:
    """When a clock is due next once it stands at `cursor`; None when no instant is known (or ever comes)."""
    found = next_undecided(clock.name, clock.revisions, cursor, last_fire=last_fire, pending=clock.next_due, until=END)
    return None if found is None else due_under(clock.name, *found)


# ── what people do to a clock ──────────────────────────────────────────────────────────────────────────────────────


class Standing(NamedTuple):
    """Where a clock stands after a change."""

    cursor: Instant
    cursor_rev: int
    next_due: Instant | None


class ClockFacts(Protocol):
    """What is read of a clock; a `ScheduleRecord` has it all."""

    @property
    def cursor(self) -> Instant: ...
    @property
    def next_due(self) -> Instant | None: ...
    @property
    def last_fire(self) -> Instant | None: ...


def revise(name: str, clock: ClockFacts | None, revisions: Sequence[Revision], new: Revision) -> Standing:
    """Where the clock stands once `new` is in force: created, updated, enabled or disabled.

    `revisions` are those from the clock's cursor_rev on, ascending, without the new one; none, and no clock, at
    creation. Fires up to `new.valid_from` that are still undecided stay with the timekeeper when a working schedule is
    updated or suspended: the cursor does not move and the clock is due at once. When it is dropped or deleted they end
    by `undecided` instead. Nothing before `new.valid_from` is ever fired by the new revision (TIME-8).
    """
    history = (*revisions, new)
    pending = clock.next_due if clock is not None else None
    last_fire = clock.last_fire if clock is not None else None
    if new.mode is Mode.DROP:
        return Standing(new.valid_from, new.rev, None)
    if not revisions:
        if not new.mode.works:
            return Standing(new.valid_from, new.rev, None)
        return Standing(new.valid_from, new.rev, first_due(name, new.spec.trigger, new.valid_from, last_fire=last_fire))
    if clock is not None:
        left = next_undecided(name, history, clock.cursor, last_fire=last_fire, pending=pending, until=new.valid_from)
        if left is not None:
            at_once = new.valid_from if pending is None else min(pending, new.valid_from)
            return Standing(clock.cursor, revisions[0].rev, at_once)
    found = next_undecided(name, history, new.valid_from, last_fire=last_fire, pending=pending, until=END)
    return Standing(new.valid_from, new.rev, None if found is None else due_under(name, *found))


def undecided(
    name: str, clock: ClockFacts, revisions: Sequence[Revision], until: Instant, *, reason: str
) -> tuple[Stretch, ...]:
    """The fires up to `until` that nobody decided yet: what disabling (drop) and deleting end as superseded."""
    found = []
    for reign in reigns(revisions, clock.cursor, until):
        trigger = reign.revision.spec.trigger
        if isinstance(trigger, AfterFinish):
            fire = after_finish_fire(name, revisions, reign.index, clock.next_due)
            first = fire if fire is not None and reign.after < fire else None
            last, n = first, 1
        else:
            first = next_fire(trigger, reign.after, last_fire=clock.last_fire)
            last, n = newest_fire(trigger, reign.until), 0
        if first is None or last is None or first > reign.until:
            continue
        found.append(
            Stretch(
                from_fire=first,
                to_fire=last,
                n=n or count_fires(trigger, first - 1, last),
                rev=reign.revision.rev,
                outcome=State.SUPERSEDED,
                reason=reason,
            )
        )
    return tuple(found)


# ── what was owed ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Owed:
    """`n` fires of one revision, from `first` to `last`, that the ledger must account for."""

    revision: Revision
    first: Instant
    last: Instant
    n: int

    def fires(self) -> Iterator[Instant]:
        """Each of them, ascending."""
        trigger = self.revision.spec.trigger
        fire: Instant | None = self.first
        while fire is not None and fire <= self.last:
            yield fire
            fire = next_fire(trigger, fire)


def owed(
    revisions: Sequence[Revision], since: Instant, until: Instant, *, ran: Sequence[Instant] = ()
) -> Iterator[Owed]:
    """Which fires in (since, until] were due by the revisions alone: what the audit holds against the ledger.

    Ascending, counted and not walked, so that a year is cheap. `ran` are the fire times that became runs (also before
    `since`), ascending: only `window_days` needs them, since it counts from the last run. `after_finish` owes nothing
    that could be recomputed: its fires follow ends of runs.
    """
    for reign in reigns(revisions, since, until):
        trigger = clockwork(reign.revision.spec.trigger)
        if isinstance(trigger, WindowDays):
            yield from _owed_windows(reign, trigger, ran)
            continue
        first, last = next_fire(trigger, reign.after), newest_fire(trigger, reign.until)
        if first is not None and last is not None and first <= last:
            yield Owed(reign.revision, first, last, count_fires(trigger, reign.after, last))


def _owed_windows(reign: Reign, trigger: WindowDays, ran: Sequence[Instant]) -> Iterator[Owed]:
    """Runs of openings, each up to and including one that ran."""
    known = bisect_right(ran, reign.after)
    last_fire = ran[known - 1] if known else None
    after, started = reign.after, set(ran[known:])
    first: Instant | None = None
    n = 0
    while True:
        fire = next_fire(trigger, after, last_fire=last_fire)
        if fire is None or fire > reign.until:
            if first is not None:
                yield Owed(reign.revision, first, after, n)
            return
        first, n, after = first if first is not None else fire, n + 1, fire
        if fire in started:
            yield Owed(reign.revision, first, fire, n)
            first, n, last_fire = None, 0, fire
