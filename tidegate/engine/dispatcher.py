"""Starts ready runs at their backends.

The order is what makes a crash harmless. First one transaction claims runs and opens an attempt for each: the possible
crash is on record. Only after its commit is a backend asked, by the attempt's deterministic identity. What the backend
answers is put into the watch, and the supervisor records it together with everything else it learns.

What if this process dies: before the commit nothing happened; after it the attempts are open and their instance is
silent, so another worker of this host adopts them and asks the backend what it has. If the answer to the commit was
lost, nothing is started on a guess: the supervisor looks the attempts up first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.domain.errors import CommitUnknown
from tidegate.domain.ids import Fence
from tidegate.domain.instants import Instant
from tidegate.engine.outcome import Batch, Outcome, Topic
from tidegate.engine.watch import Stage, Watch, start
from tidegate.ports.engine import WorkerStore
from tidegate.ports.launching import Launch, Launcher


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatcherSettings:
    batch: int = 500
    """Runs claimed in the first transaction; it adapts."""


class Dispatcher:
    name = "dispatcher"
    topics = frozenset({Topic.READY})

    def __init__(
        self,
        store: WorkerStore,
        fence: Fence,
        launchers: Mapping[str, Launcher],
        watch: Watch,
        settings: DispatcherSettings = DispatcherSettings(),
    ) -> None:
        self._store = store
        self._fence = fence
        self._launchers = launchers
        self._kinds = tuple(sorted(launchers))
        self._watch = watch
        self._batch = Batch(settings.batch)
        self._resting = False

    def hear(self, topic: Topic) -> None:
        """Every step looks anyway."""

    def rest(self) -> None:
        """Claim nothing more: this worker is shutting down."""
        self._resting = True

    async def step(self, now: Instant) -> Outcome:
        """Claim a batch of ready runs and start them."""
        if self._resting:
            return Outcome()

        launches, token = await self._claim(now)

        notes = []
        for entry in self._watch.claimed(launches, now):
            if note := await start(self._watch, entry, self._launchers[entry.launch.program.kind], now):
                notes.append(note)

        wakes = frozenset({Topic.BACKEND}) if launches else frozenset[Topic]()
        left = self._batch.took(len(launches))
        return Outcome(did=len(launches), left=left, next=token, wakes=wakes, notes=tuple(notes))

    async def _claim(self, now: Instant) -> tuple[Sequence[Launch], Instant | None]:
        launches: Sequence[Launch] = ()
        token: Instant | None = None
        try:
            async with self._store.transaction(self._fence) as tx:
                launches = await tx.claim_ready(self._kinds, now, self._batch.size)
                if len(launches) < self._batch.size:
                    token = await tx.next_token(self._kinds, now)
        except CommitUnknown:
            self._watch.doubt(launches, Stage.CLAIMED, now)
            raise
        return launches, token
