"""Queues of waiting runs, and the starts that `rate` and `min_interval` read, in memory.

A run that is held waits at an instant of its own or in a queue. A queue may have an instant: when it comes, `claim`
wakes the first of the queue, and what becomes of the instant is written at the end of the transaction (`flush`), since
rows of `queue_wake` come after counters and pools in the order of locks.

Nobody misses a wake-up. Counters, pools, the freeze and calendars are locked or shared from when they are read until
the commit; so who changes one of them comes before, and is seen, or after, and finds the run in its queue. A new
reading may pass by a run that is being judged; the next one does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.domain.constraints import Starts
from tidegate.domain.ids import RunKey
from tidegate.domain.instants import Duration, Instant
from tidegate.domain.runs import State
from tidegate.sim.memory.data import Data
from tidegate.sim.memory.publish import PublishingTransaction
from tidegate.sim.memory.rows import CounterRow, QueueRow, RunRow, StartRow

POOL = "pool:"
WHOLE = ("window:", "calendar:", "freeze", "resume:")
"""Queues that open as a whole: a batch is woken at a time. Of the others only a few can go."""
FEW = 20


@dataclass(slots=True)
class Turn:
    """What a transaction does to the instant of a queue: `claimed`, it woke the first of it; `at`, since when somebody
    is held in it (`held`), or that it is to be looked at now."""

    now: Instant
    claimed: bool = False
    held: bool = False
    until: Instant | None = None
    look: bool = False


def is_counter(key: str) -> bool:
    """Whether a queue waits for a counter (`s1`, `p1`, `gsales/crm`)."""
    return key[:1] in "spg" and not key.startswith(POOL)


class QueueTransaction(PublishingTransaction):
    """Instants of queues, and starts."""

    __slots__ = ("looks", "turns")

    def __init__(self, data: Data) -> None:
        super().__init__(data)
        self.turns: dict[str, Turn] = {}
        self.looks: dict[str, Instant] = {}  # beginnings of names of queues that are to be looked at

    @property
    def unwritten(self) -> bool:
        """Whether `flush` has something to do before the commit."""
        return bool(self.told or self.turns or self.looks)

    async def flush(self) -> None:
        await self.set_instants()
        if self.told:
            await super().flush()

    # instants
    def turn(self, key: str, now: Instant) -> Turn:
        found = self.turns.get(key)
        if found is None:
            found = self.turns[key] = Turn(now)
        return found

    def held_until(self, key: str, until: Instant | None, now: Instant) -> None:
        """A run is held in this queue, anew or again: nobody in it can go before `until`."""
        turn = self.turn(key, now)
        turn.held = True
        if until is not None and (turn.until is None or until < turn.until):
            turn.until = until

    def look_at(self, key: str, now: Instant) -> None:
        """The first of this queue are to be judged now."""
        self.turn(key, now).look = True
        self.topics["admit"] = None

    def look_at_all(self, prefix: str, now: Instant) -> None:
        """The same for every queue whose name begins so."""
        self.looks[prefix] = now
        self.topics["admit"] = None

    async def set_instants(self) -> None:
        """Write what became of the queues that this transaction touched, in order."""
        for prefix, now in self.looks.items():
            for key in {*self.data.queues, *self.turns}:
                if key.startswith(prefix):
                    self.look_at(key, now)
        self.looks = {}
        table, turns, self.turns = self.data.queue_wake, self.turns, {}
        for key, turn in sorted(turns.items()):
            await self.lock(table, key)
            row = self.get(table, key)
            at = row.at if row is not None else None
            if turn.look:
                at = turn.now if at is None else min(at, turn.now)
            elif turn.held:
                due = at is not None and at <= turn.now  # whoever is held now answers for those behind
                at = turn.until if at is None or due else at if turn.until is None else min(at, turn.until)
            elif turn.claimed and at is not None and at <= turn.now and not self._left(key):
                at = None
            if at is not None and (row is None or row.at != at):
                self.put(table, key, QueueRow(key, at))
            elif at is None and row is not None:
                self.delete(table, key)

    def _left(self, key: str) -> bool:
        """Whether somebody in this queue has not been woken."""
        queue, own = self.data.queues.get(key), self.own[self.data.run.number] or {}
        rows = self.data.run.rows
        return any((own.get(run) or rows[run]).wake_at is None for _, run in queue or ())

    # starts
    def start_rows(self, counter: str) -> list[StartRow]:
        table, own = self.data.start_log, self.own[self.data.start_log.number] or {}
        keys = {(counter, run) for run in self.data.starts_of.get(counter, ())}
        keys |= {key for key in own if key[0] == counter}
        return [row for row in (self.get(table, key) for key in sorted(keys)) if row is not None]

    def keep_starts(self, counter: str, back: Duration, now: Instant) -> None:
        """From now on the starts under this (locked) counter are kept that long; what is known of runs is added."""
        row = self.get(self.data.counter, counter) or CounterRow(counter)
        if row.keeps is not None and row.keeps >= back:
            return
        self.put(self.data.counter, counter, row._replace(keeps=back))
        for run in self.data.run.rows.values():
            if counts(run, counter) and (run.live or run.started_at is not None):
                at = begun(self.data, run)
                if at is None or at > now - back:
                    self.put(self.data.start_log, (counter, run.key), StartRow(counter, run.key, at))

    def read_starts(self, counter: str, many: int, back: Duration, now: Instant) -> Starts:
        """As asked for; what is older than it is kept is dropped."""
        kept = self.get(self.data.counter, counter)
        past = now - max(back, (kept.keeps or 0) if kept else 0)
        rows = []
        for row in self.start_rows(counter):
            run = self.get(self.data.run, row.run)
            at = row.at if row.at is not None or run is None else begun(self.data, run)
            if at is not None and at <= past:
                self.delete(self.data.start_log, (counter, row.run))
            else:
                rows.append(row._replace(at=at))
        return starts_in(rows, many, back, now)

    def admitted(self, run: RunRow, counters: tuple[str, ...]) -> None:
        """It counts as about to start wherever starts are kept."""
        for counter in counters:
            kept = self.get(self.data.counter, counter)
            if kept is not None and kept.keeps is not None:
                self.put(self.data.start_log, (counter, run.key), StartRow(counter, run.key, None))

    def first_attempt(self, run: RunRow, now: Instant) -> None:
        """Its first attempt begins: that is its start."""
        for counter in self.data.counters_of.get(run.key, ()):
            self.put(self.data.start_log, (counter, run.key), StartRow(counter, run.key, now))

    def never_started(self, run: RunRow, now: Instant) -> None:
        """It ends without having started: its place is another's."""
        own = self.own[self.data.start_log.number] or {}
        mine = {*self.data.counters_of.get(run.key, ()), *(key[0] for key in own if key[1] == run.key)}
        for counter in sorted(mine):
            if self.get(self.data.start_log, (counter, run.key)) is not None:
                self.delete(self.data.start_log, (counter, run.key))
                self.look_at_all(f"rate:{counter}:", now)
                self.look_at_all(f"min:{counter}:", now)


def counts(run: RunRow, counter: str) -> bool:
    """Whether a run counts under a counter; of groups that is known while it lives."""
    if counter in (f"s{run.key.schedule_id}", f"p{run.program.id}"):
        return run.state is not State.WAITING or run.attempts > 0
    return counter in run.held


def begun(data: Data, run: RunRow) -> Instant | None:
    """When its first attempt began, by what is committed."""
    return run.first_at if run.attempts else None


def starts_in(rows: list[StartRow], many: int, back: Duration, now: Instant) -> Starts:
    """The newest starts of these, and how many are about to."""
    inside = sorted((row.at for row in rows if row.at is not None and row.at > now - back), reverse=True)
    return Starts(tuple(inside[:many]), sum(row.at is None for row in rows))


def starts_now(data: Data, needed: Mapping[str, tuple[int, Duration]], now: Instant) -> dict[str, Starts]:
    """What `read_starts` would say, from what is committed; nothing is kept or dropped by it."""
    found = {}
    for counter, (many, back) in needed.items():
        rows = [
            StartRow(counter, run.key, begun(data, run))
            for run in data.run.rows.values()
            if counts(run, counter) and (run.live or run.started_at is not None)
        ]
        found[counter] = starts_in(rows, many, back, now)
    return found


def heads(data: Data, now: Instant, batch: int) -> dict[str, list[RunKey]]:
    """The queues whose instant has come, each with those of its runs that nobody has woken, in order of rank, and no
    more than are worth waking at a time (`batch` where it opens as a whole)."""
    found: dict[str, list[RunKey]] = {}
    for at, key in data.queue_due:
        if at > now:
            break
        most = batch if key.startswith(WHOLE) else FEW
        asleep = (run for _, run in data.queues.get(key, ()) if data.run.rows[run].wake_at is None)
        found[key] = [run for run, _ in zip(asleep, range(most), strict=False)]
    return found
