"""Tells of deadlines that are at risk or missed, also of work that never started.

When a run is to be looked at is stored with it, from the transaction that makes it. What if this process dies: events
and what was told commit together, so each is told once, by whichever scheduler comes to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.domain.deadlines import News, look, missed_stretch
from tidegate.domain.ids import Fence
from tidegate.domain.instants import Instant
from tidegate.domain.planning import Plan
from tidegate.domain.runs import State
from tidegate.engine.outcome import Outcome, Topic
from tidegate.ports.collecting import NewEvent
from tidegate.ports.deadlines import DeadlinesStore

BATCH = 500


class Deadlines:
    name = "deadlines"
    topics = frozenset({Topic.ADMIT})

    def __init__(self, store: DeadlinesStore, fence: Fence) -> None:
        self._store = store
        self._fence = fence

    def hear(self, topic: Topic) -> None:
        """New runs may have nearer deadlines: `step` follows."""

    async def step(self, now: Instant) -> Outcome:
        """Look at the runs whose instant has come, up to a batch."""
        upcoming = await self._store.next_term()
        if upcoming is None or upcoming > now:
            return Outcome(next=upcoming)
        async with self._store.transaction(self._fence) as tx:
            runs = await tx.claim_terms(now, BATCH)
            tellings = [look(run, now) for run in runs]
            await tx.tell_terms(tellings, now)
            events = [_event(news) for telling in tellings for news in telling.news]
            if events:
                await tx.publish(events, now)
        left = len(runs) == BATCH
        wakes = frozenset({Topic.EVENTS}) if events else frozenset[Topic]()
        return Outcome(did=len(runs), left=left, next=None if left else await self._store.next_term(), wakes=wakes)


def missed_deadlines(plans: Sequence[Plan]) -> list[NewEvent]:
    """Of fires that will never run: they have missed the deadline that their revision declares."""
    found = []
    for one in plans:
        declared = {revision.rev: revision.spec.deadline for revision in one.due.revisions}
        for stretch in one.missed:
            deadline = declared.get(stretch.rev)
            if deadline is not None and stretch.outcome is State.MISSED:
                span = (stretch.from_fire, stretch.to_fire, stretch.n)
                found += [_event(news) for news in missed_stretch(one.due.name, deadline, span)]
    return found


def _event(news: News) -> NewEvent:
    payload = {name: value for name, value in news.items() if name != "type"}
    return NewEvent(type=news["type"], key=news["schedule"], payload=payload, source="deadlines")
