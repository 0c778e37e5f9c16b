"""Lets waiting runs go, as far as constraints, counters and slots allow.

One transaction claims the runs, locks every counter and pool they touch, re-judges every constraint and applies the
verdicts. Two admitters therefore never both see the last free place of a limit. A run that waits stores the one instant
or key that can change its verdict; nothing looks at it before.

What if this process dies: before the commit nothing happened; after it the runs are ready and any worker takes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.domain.admission import AdmissionFacts, Admit, Candidate, Decision, Discard, admit, fill, needs_of
from tidegate.domain.crashes import decided, undecided
from tidegate.domain.evidence import shown, take
from tidegate.domain.ids import Fence, RunKey
from tidegate.domain.instants import MILLISECOND, MINUTE, SECOND, Duration, Instant
from tidegate.domain.programs import Publish
from tidegate.domain.progress import advance
from tidegate.domain.runs import MERGING
from tidegate.domain.schedules import Waiting
from tidegate.domain.triggers import collects
from tidegate.engine.outcome import Batch, Outcome, Topic
from tidegate.ports.collecting import AdmittingStore, Collected, Collecting, Pin, Pinned, PinningTx


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmitterSettings:
    batch: int = 500
    """Runs in the first transaction; it adapts."""
    beside_backlog: int = 100
    """Runs in a transaction while fires wait to be recorded, which comes first: most of them find no slot anyway."""
    pause: Duration = 50 * MILLISECOND
    """Between two of those."""
    crash_wait: Duration = 5 * MINUTE
    """How long the oldest scheduler must have been up before a crashed run starts again (`domain.crashes`)."""
    patience: Duration = 5 * SECOND
    """Silence after which a scheduler counts as gone."""


class Admitter:
    name = "admitter"
    topics = frozenset({Topic.ADMIT, Topic.BACKLOG})

    def __init__(self, store: AdmittingStore, fence: Fence, settings: AdmitterSettings = AdmitterSettings()) -> None:
        self._store = store
        self._fence = fence
        self._batch = Batch(settings.batch)
        self._settings = settings
        self._backlog = False
        self._rest_until: Instant = 0

    def hear(self, topic: Topic) -> None:
        """Every step looks anyway; only how much it takes depends on this."""
        self._backlog |= topic is Topic.BACKLOG

    async def step(self, now: Instant) -> Outcome:
        """Judge every run that something woke, up to a batch."""
        if now < self._rest_until:
            return Outcome(next=self._rest_until)
        with self._batch.trying():
            return await self._admit(now)

    async def _admit(self, now: Instant) -> Outcome:
        small, self._backlog = self._backlog, False
        if small:
            self._rest_until = now + self._settings.pause
        limit = min(self._batch.size, self._settings.beside_backlog) if small else self._batch.size

        async with self._store.transaction(self._fence) as tx:
            candidates = await tx.claim_waiting(now, limit)
            if self._undecided(candidates):
                oldest = await tx.oldest_scheduler(now, self._settings.patience)
                candidates = [self._decided(one, oldest) for one in candidates]
            if candidates:
                facts = await tx.admission_facts(needs_of(candidates), now)
                verdicts = self._judge(candidates, facts, now)
                pinned, notes = await self._close(tx, candidates, verdicts, now)
                verdicts = _filled(candidates, verdicts, pinned)
                await tx.settle(verdicts, now)
            else:
                verdicts, notes = [], tuple[str, ...]()

        full = len(candidates) >= limit if small else self._batch.took(len(candidates))
        wakes = set[Topic]()
        wakes.update(Topic.PUBLISH if _publishes(one) else Topic.READY for one in verdicts if isinstance(one, Admit))
        if any(isinstance(one, Discard) for one in verdicts):
            wakes.add(Topic.CLOCK)  # an after_finish clock may go on
        upcoming = None if full else await self._store.next_wake()
        return Outcome(did=len(candidates), left=full, next=upcoming, wakes=frozenset(wakes), notes=notes)

    def _judge(self, candidates: Sequence[Candidate], facts: AdmissionFacts, now: Instant) -> list[Decision]:
        return admit(candidates, facts, now=now)

    def _undecided(self, candidates: Sequence[Candidate]) -> bool:
        return any(undecided(one.crash) for one in candidates)

    def _decided(self, run: Candidate, oldest: Instant) -> Candidate:
        """When it may start again if it crashed: said once, kept with the run."""
        if run.crash is None:
            return run
        return replace(run, crash=decided(run.crash, oldest=oldest, wait=self._settings.crash_wait))

    async def _close(
        self, tx: PinningTx, candidates: Sequence[Candidate], verdicts: Sequence[Decision], now: Instant
    ) -> tuple[Mapping[RunKey, Pinned], tuple[str, ...]]:
        """Close the input of runs that go now and whose trees collect: what came up to here goes along."""
        going = {one.key for one in verdicts if isinstance(one, Admit)}
        runs = [one for one in candidates if one.key in going and not one.closed and collects(one.spec.trigger)]
        if not runs:
            return {}, ()
        read = {one.schedule_id: one for one in await tx.collections([run.key.schedule_id for run in runs], now)}
        pins, notes = list[Pin](), list[str]()
        for run in runs:
            try:
                pin, collected = _closing(run, read.get(run.key.schedule_id), now)
            except Exception as fault:  # it goes all the same, with what it has
                notes.append(f"{run.key} goes without what came since it was made: {fault!r}")
                pin, collected = Pin(key=run.key, present=False, moves=run.cause in MERGING), None
            if collected is not None:
                del read[run.key.schedule_id]  # is taken
                await tx.collect([collected], now)
            pins.append(pin)
        return await tx.pin(pins, now), tuple(notes)


def _publishes(going: Admit) -> bool:
    return isinstance(going.program.spec, Publish)


def _filled(
    candidates: Sequence[Candidate], verdicts: Sequence[Decision], pinned: Mapping[RunKey, Pinned]
) -> list[Decision]:
    """The verdicts with the arguments of runs that go filled in from what each was given."""
    by_key = {one.key: one for one in candidates}
    found: list[Decision] = []
    for verdict in verdicts:
        if isinstance(verdict, Admit):
            given = pinned.get(verdict.key)
            evidence, inputs = (given.evidence, given.inputs) if given else (None, None)
            found.append(fill(verdict, by_key[verdict.key], evidence, inputs))
        else:
            found.append(verdict)
    return found


def _closing(run: Candidate, collecting: Collecting | None, now: Instant) -> tuple[Pin, Collected | None]:
    """Under `all` a run has what made it; else the one that goes takes everything. A run that a person asks for looks
    at the progress and leaves it there."""
    made_by_trigger = run.cause in MERGING
    if collecting is None or (made_by_trigger and run.spec.waiting.runs is Waiting.ALL):
        return Pin(key=run.key, present=False, moves=made_by_trigger), None
    trigger = collecting.revision.spec.trigger
    done = advance(trigger, collecting.progress, collecting.bulk, collecting.given, collecting.facts)
    if not made_by_trigger:
        return Pin(key=run.key, present=True, moves=False, shown=shown(trigger, done.progress, now)), None
    everything = take(trigger, done, collecting.facts, now)
    return (
        Pin(key=run.key, present=True, moves=True),
        Collected(collecting=collecting, advance=everything, into=run.key),
    )
