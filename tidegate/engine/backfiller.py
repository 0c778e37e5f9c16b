"""Walks backfills: makes their runs as places become free, and counts how they end.

One transaction claims backfills whose turn it is, locks their schedules' clocks, looks up what is on record of the next
fire times, lets `domain.backfills` decide, and writes runs, cursor and counts together. A pass looks at a bounded
number of fire times, over all backfills, so neither memory nor the time a clock is locked depends on a range's length.

What if this process dies: before the commit nothing happened; after it the runs are on record, and whichever scheduler
comes next counts them when they have ended. Two never walk one backfill (the store skips locked ones), and an instant
is in the hands of one backfill at a time (a unique key). While there is no backfill, the database is asked for one only
now and then, besides when somebody said that there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.domain.backfills import Backfill, BackfillState, Move, Reach, Standing, decide, reach
from tidegate.domain.ids import Fence
from tidegate.domain.instants import MILLISECOND, SECOND, Duration, Instant
from tidegate.engine.outcome import Outcome, Topic
from tidegate.ports.backfills import BackfillStore


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillerSettings:
    batch: int = 50
    """Backfills in one transaction."""
    fires: int = 2000
    """Fire times looked at in one transaction, over all of them together."""
    pause: Duration = 20 * MILLISECOND
    """Between two passes: clocks that are due come first."""
    look: Duration = 10 * SECOND
    """How often it looks for backfills while it knows of none."""


class Backfiller:
    name = "backfiller"
    topics = frozenset({Topic.BACKFILL, Topic.ADMIT})

    def __init__(self, store: BackfillStore, fence: Fence, settings: BackfillerSettings = BackfillerSettings()) -> None:
        self._store = store
        self._fence = fence
        self._settings = settings
        self._any = True  # whether there may be a backfill that is not over
        self._called = False
        self._look_at: Instant = 0
        self._rest_until: Instant = 0

    def hear(self, topic: Topic) -> None:
        self._called |= topic is Topic.BACKFILL

    async def step(self, now: Instant) -> Outcome:
        """One pass over the backfills whose turn it is."""
        if now < (until := self._rest_until if self._any or self._called else self._look_at):
            return Outcome(next=until)
        self._any, self._called = True, False  # before anything is awaited: what is said meanwhile is kept

        async with self._store.transaction(self._fence) as tx:
            found = await tx.claim_backfills(now, self._settings.batch)
            share = max(1, self._settings.fires // max(1, len(found)))
            reached, broken = _reached(found, share)
            spans = [(one.schedule_id, span) for one in found for span in reached[one.id].spans(one.asked)]
            standings = dict(await tx.standings(spans))
            moves: list[Move] = []
            for one in found:
                mine = {fire: standings[one.schedule_id, fire] for fire in reached[one.id].fires
                        if (one.schedule_id, fire) in standings}  # fmt: skip
                move = decide(one, reached[one.id], mine)
                if one.id in broken:
                    move = replace(move, state=BackfillState.PAUSED, more=False, over=False, reason=broken[one.id])
                moves.append(move)
                for made in move.make:  # another one of this pass may reach the same instant
                    standings[one.schedule_id, made.fire_time] = Standing.LIVE
            await tx.record_backfills(moves, now)

        return await self._after(moves, tuple(broken.values()), now)

    async def _after(self, moves: Sequence[Move], notes: tuple[str, ...], now: Instant) -> Outcome:
        made = any(move.make for move in moves)
        wakes = frozenset({Topic.ADMIT}) if made else frozenset[Topic]()
        more = any(move.more for move in moves) or len(moves) >= self._settings.batch
        self._rest_until = now + self._settings.pause
        if not moves and not await self._store.backfills_live():
            self._any = False
            self._look_at = now + self._settings.look
            return Outcome(next=self._look_at)
        return Outcome(did=len(moves), next=self._rest_until if more or made else None, wakes=wakes, notes=notes)


def _reached(found: Sequence[Backfill], share: int) -> tuple[dict[int, Reach], dict[int, str]]:
    """What each looks at; one whose fire times cannot be told is paused, and holds up no other."""
    reached: dict[int, Reach] = {}
    broken: dict[int, str] = {}
    for one in found:
        try:
            reached[one.id] = reach(one, share)
        except Exception as fault:
            reached[one.id] = Reach((), False)
            broken[one.id] = f"Its fire times cannot be told: {fault!r}"
    return reached, broken
