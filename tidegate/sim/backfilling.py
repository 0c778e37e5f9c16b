"""What people do about backfills: ask for some of the last while, pause, resume and cancel them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.control import backfills
from tidegate.domain.backfills import Order, Reprocess, Wish, has_fires, identity
from tidegate.domain.errors import TidegateError
from tidegate.domain.instants import MINUTE

if TYPE_CHECKING:
    from tidegate.sim.workload import People

NAMESPACE = "sim"  # as in `workload`
WHO = "somebody"


async def act(people: People, schedule: str) -> None:
    """Ask for one of this schedule, or change one that is not over."""
    rng, data = people.rng, people.sim.store.data
    live = sorted(number for number, row in data.backfill.rows.items() if row.finished_at is None)
    if live and rng.random() < 0.4:
        what, change = rng.choice(
            (("paused", backfills.pause), ("resumed", backfills.resume), ("resumed", backfills.resume),
             ("cancelled", backfills.cancel))
        )  # fmt: skip
        people.count(f"backfill {what}")
        await change(people.store, identity(rng.choice(live)), who=WHO)
        return
    now = people.sim.clock.instant
    start = now - rng.randrange(1, 30) * MINUTE
    wish = Wish(
        start=start,
        end=rng.choice((None, start + rng.randrange(1, 20) * MINUTE)),
        order=rng.choice(tuple(Order)),
        reprocess=rng.choice((Reprocess.NONE, *Reprocess)),
        concurrency=rng.randint(1, 4),
    )
    if not has_fires(people.specs[schedule].trigger):
        return
    try:
        await backfills.create(people.store, NAMESPACE, schedule, wish, who=WHO)
    except TidegateError as error:
        people.count(f"backfill answered {error.code}")
        raise
    people.count("backfill asked for")
