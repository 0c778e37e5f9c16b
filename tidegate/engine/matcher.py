"""Brings what was published, and silence, to the triggers that wait for it.

A step has two transactions. The first claims entries of the inbox, the second schedules of which a deadline is due;
each reads the trees that are concerned together with all that is acknowledged for them, advances them, and writes
progress, places, deadlines and runs at once. What if this process dies: before the commit nothing happened, the
entries are there for the next matcher; after it everything is on record. Who decides is `domain.progress`.

A schedule whose tree cannot be evaluated is set aside, and holds up nothing else. Should even reading or writing one
fail, all that were claimed with it are gone through one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.domain.errors import Fenced, Unavailable
from tidegate.domain.ids import Fence, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.progress import advance
from tidegate.engine.outcome import Batch, Outcome, Topic
from tidegate.ports.collecting import Collected, CollectingTx, MatcherStore, MatcherTx


@dataclass(frozen=True, slots=True, kw_only=True)
class MatcherSettings:
    batch: int = 200
    """Entries of the inbox, and schedules with a deadline, in the first transaction; it adapts."""


class _PutBack(Exception):
    """Ends a transaction that only looked."""


class Matcher:
    name = "matcher"
    topics = frozenset({Topic.EVENTS})

    def __init__(self, store: MatcherStore, fence: Fence, settings: MatcherSettings = MatcherSettings()) -> None:
        self._store = store
        self._fence = fence
        self._inbox = Batch(settings.batch)
        self._deadlines = Batch(settings.batch)
        self._next: Instant | None = None  # the earliest deadline known
        self._careful = False  # a batch broke: go through the next one by one

    def hear(self, topic: Topic) -> None:
        self._next = None

    async def step(self, now: Instant) -> Outcome:
        """Take in what came, then look at what is due; up to a batch of each."""
        did, left, grown, notes = 0, False, 0, list[str]()
        if waits := await self._store.inbox_waits():
            claimed, made, more = await self._pass(now, self._inbox, inbox=True, notes=notes)
            did, left, grown = did + claimed, left or more, grown + made
        if self._next is None or self._next > now or did:
            self._next = await self._store.next_deadline()
        if self._next is not None and self._next <= now:
            claimed, made, more = await self._pass(now, self._deadlines, inbox=False, notes=notes)
            did, left, grown = did + claimed, left or more, grown + made
            self._next = await self._store.next_deadline()
        wakes = frozenset({Topic.ADMIT}) if grown else frozenset[Topic]()
        upcoming = now if waits else self._next  # there may be more entries; who finds nothing pauses first
        return Outcome(did=did, left=left, next=upcoming, wakes=wakes, notes=tuple(notes))

    async def _pass(self, now: Instant, batch: Batch, *, inbox: bool, notes: list[str]) -> tuple[int, int, bool]:
        """One transaction: (how many schedules, runs that were made or grew, whether more may be left)."""
        if self._careful:
            self._careful = False
            return await self._one_by_one(now, batch.size, inbox=inbox, notes=notes)
        try:
            with batch.trying():
                async with self._store.transaction(self._fence) as tx:
                    schedules = await _claim(tx, now, batch.size, inbox=inbox)
                    done, grown = await self._advance(tx, schedules, now, notes)
        except (Unavailable, Fenced):
            raise
        except Exception as fault:
            self._careful = True
            notes.append(f"Matching a batch failed; it is done again one by one: {fault!r}")
            return 1, 0, True
        full = batch.took(len(schedules))
        return done, grown, bool(done) and (full or inbox)

    async def _advance(
        self, tx: CollectingTx, schedules: Sequence[ScheduleId], now: Instant, notes: list[str]
    ) -> tuple[int, int]:
        """Advance these trees: (how many, runs that were made or grew). Who cannot be evaluated is set aside. Who has a
        fire due is the timekeeper's, who brings the tree up to date too: so a tick comes before what came after it."""
        results: list[Collected] = []
        done = 0
        for one in await tx.collections(schedules, now) if schedules else ():
            if one.clock_due is not None and one.clock_due <= now:
                continue
            done += 1
            trigger = one.revision.spec.trigger
            try:
                new = advance(trigger, one.progress, one.bulk, one.given, one.facts)
            except Exception as fault:
                await tx.set_aside(one.schedule_id, f"{type(fault).__name__}: {fault}", now)
                notes.append(f"{one.name} cannot be evaluated; what came for it is set aside: {fault!r}")
            else:
                results.append(Collected(collecting=one, advance=new))
        return done, await tx.collect(results, now) if results else 0

    async def _one_by_one(self, now: Instant, limit: int, *, inbox: bool, notes: list[str]) -> tuple[int, int, bool]:
        """The same, a transaction for each schedule. The entries stay where they are until all of them went well."""
        schedules: Sequence[ScheduleId] = ()
        try:
            async with self._store.transaction(self._fence) as tx:
                schedules = await _claim(tx, now, limit, inbox=inbox)
                raise _PutBack
        except _PutBack:
            pass
        grown = 0
        for schedule in schedules:
            try:
                async with self._store.transaction(self._fence) as tx:
                    grown += (await self._advance(tx, [schedule], now, notes))[1]
            except (Unavailable, Fenced):
                raise
            except Exception as fault:
                async with self._store.transaction(self._fence) as tx:
                    await tx.set_aside(schedule, f"{type(fault).__name__}: {fault}", now)
                notes.append(f"Schedule {schedule} cannot be read or written; what came for it is set aside: {fault!r}")
        return len(schedules), grown, True


async def _claim(tx: MatcherTx, now: Instant, limit: int, *, inbox: bool) -> Sequence[ScheduleId]:
    return await tx.claim_inbox(now, limit) if inbox else await tx.claim_deadlines(now, limit)
