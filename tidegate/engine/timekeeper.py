"""Turns due instants into runs.

Who owns time: the database; `now` is read once, before a step, and passed down. What if this process dies here: before
the commit, nothing happened; after it, the runs are on record and any admitter goes on; a commit whose answer was lost
is met again as a cursor that has, or has not, moved. Two timekeepers never take the same clock row (the store skips
locked ones), and one that was declared dead cannot write: the transaction carries its fence.

The cursor is the fire time itself and moves in the transaction that records the run. What later becomes of the run
(no slot, a failed launch) never moves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.domain.clocks import Due
from tidegate.domain.collected import Tick
from tidegate.domain.fires import ticking
from tidegate.domain.ids import Fence
from tidegate.domain.instants import MILLISECOND, MINUTE, Duration, Instant
from tidegate.domain.planning import Plan, plan
from tidegate.domain.progress import advance
from tidegate.domain.triggers import collects
from tidegate.engine.deadlines import missed_deadlines
from tidegate.engine.outcome import Batch, Outcome, Topic, earliest
from tidegate.ports.collecting import Collected, CollectingTx, KeepingStore


@dataclass(frozen=True, slots=True, kw_only=True)
class TimekeeperSettings:
    batch: int = 500
    """Clock rows in the first transaction; it adapts."""
    catch_up_per_pass: int = 100
    """Missed fires launched in one pass, over all schedules together."""
    catch_up_pause: Duration = 50 * MILLISECOND
    """Between passes that only catch up, so that what is due now always finds room between them."""
    quarantine: Duration = MINUTE
    """How long a clock is left alone whose fires could not be planned."""


class Timekeeper:
    name = "timekeeper"
    topics = frozenset({Topic.CLOCK})

    def __init__(self, store: KeepingStore, fence: Fence, settings: TimekeeperSettings = TimekeeperSettings()) -> None:
        self._store = store
        self._fence = fence
        self._settings = settings
        self._batch = Batch(settings.batch)
        self._next: Instant | None = None  # the earliest due instant known; None: unknown

    def hear(self, topic: Topic) -> None:
        self._next = None

    async def step(self, now: Instant) -> Outcome:
        """Decide every fire that is due, up to a batch of clocks."""
        if self._next is None or self._next > now:
            self._next = await self._store.next_due()
            if self._next is None or self._next > now:
                return Outcome(next=self._next)

        with self._batch.trying():
            return await self._decide_due(now)

    async def _decide_due(self, now: Instant) -> Outcome:
        async with self._store.transaction(self._fence) as tx:
            due = await tx.claim_due(now, self._batch.size)
            plans, notes = self._decide(due, now)
            trees = [one for one in plans if collects(one.due.revisions[-1].spec.trigger)]
            collected, more = await self._collect(tx, trees, now) if trees else ((), ())
            await tx.record(plans, now)
            if collected:
                await tx.collect(collected, now)
            if news := missed_deadlines(plans):
                await tx.publish(news, now)
        notes += more

        return await self._after(plans, notes, now, full=self._batch.took(len(due)))

    def _decide(self, due: Sequence[Due], now: Instant) -> tuple[Sequence[Plan], tuple[str, ...]]:
        """Plan all together, since they share the cap; should that fail, one by one, and set the culprit aside."""
        cap = self._settings.catch_up_per_pass
        try:
            return plan(due, now=now, cap=cap), ()
        except Exception:
            plans: list[Plan] = []
            notes: list[str] = []
            for one in due:
                try:
                    plans.extend(plan([one], now=now, cap=max(1, cap // len(due))))
                except Exception as fault:
                    plans.append(_set_aside(one, now + self._settings.quarantine))
                    notes.append(f"The fires of {one.name} cannot be planned; it is set aside for a while: {fault!r}")
            return plans, tuple(notes)

    async def _collect(
        self, tx: CollectingTx, plans: Sequence[Plan], now: Instant
    ) -> tuple[Sequence[Collected], tuple[str, ...]]:
        """A fire of a tree takes along all that the tree has collected, which the matcher leaves alone while a fire is
        due: what comes after a tick is folded after it. Read before the runs are made, since their
        waiting would silence what counts from the last run."""
        fires = {one.due.schedule_id: one.fires for one in plans}
        results: list[Collected] = []
        notes: list[str] = []
        first = {schedule: due[0].fire_time for schedule, due in fires.items() if due}
        for one in await tx.collections(list(fires), now, first):
            trigger = one.revision.spec.trigger
            try:
                ticks = [
                    Tick(at=fire.fire_time, nodes=nodes)
                    for fire in fires[one.schedule_id]
                    if fire.fire_time > one.facts.enabled_at and (nodes := ticking(trigger, fire.fire_time))
                ]
                done = advance(trigger, one.progress, one.bulk, (*one.given, *ticks), one.facts)
            except Exception as fault:
                await tx.set_aside(one.schedule_id, f"{type(fault).__name__}: {fault}", now)
                notes.append(f"{one.name} cannot be evaluated; what came for it is set aside: {fault!r}")
            else:
                at = frozenset(tick.at for tick in ticks)
                results.append(Collected(collecting=one, advance=done, ticks=at))
        return results, tuple(notes)

    async def _after(self, plans: Sequence[Plan], notes: tuple[str, ...], now: Instant, *, full: bool) -> Outcome:
        fires = sum(len(one.fires) for one in plans)
        wakes = frozenset({Topic.ADMIT}) if fires else frozenset[Topic]()
        if full:
            self._next = now
            return Outcome(did=len(plans), left=True, wakes=wakes | {Topic.BACKLOG}, notes=notes)
        self._next = await self._store.next_due()
        if any(one.postponed for one in plans):
            pause = now + self._settings.catch_up_pause
            soon = self._next if self._next is not None and self._next > now else None
            return Outcome(did=len(plans), next=earliest((pause, soon)), wakes=wakes, notes=notes)
        return Outcome(did=len(plans), next=self._next, wakes=wakes, notes=notes)


class SecondHand(Timekeeper):
    """A timekeeper that works only while there is a backlog: it plans one batch while the database writes the other's.

    The two take different clocks, as those of two processes do. Without a backlog it asks the database nothing.
    """

    name = "second hand"
    topics = frozenset({Topic.BACKLOG})
    _called = False

    def hear(self, topic: Topic) -> None:
        super().hear(topic)
        self._called = True

    async def step(self, now: Instant) -> Outcome:
        """Decide what is due, as long as batches come back full."""
        if not self._called:
            return Outcome()
        self._called = False  # before anything is awaited: a call that comes meanwhile is kept
        done = await super().step(now)
        self._called |= done.left
        return Outcome(did=done.did, left=done.left, wakes=done.wakes, notes=done.notes)


def _set_aside(due: Due, until: Instant) -> Plan:
    """Decide nothing about this clock, and look again at `until`. Its cursor stays: no fire is lost."""
    return Plan(
        due=due,
        fires=(),
        missed=(),
        cursor=due.cursor,
        cursor_rev=due.revisions[0].rev,
        next_due=until,
        last_fire=due.last_fire,
        gap=due.gap,
        postponed=0,
    )
