"""What constraints read, beside the run itself: for the admitter under lock, for people as it is.

The freeze and calendars are shared by an advisory lock until the commit, so whoever changes them comes before, and is
seen, or after, and finds those in their queue who were held meanwhile. A reading is not: one that arrives while a run
is being judged may pass it by, and the next one does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import cast

from tidegate.domain.calendars import Calendar
from tidegate.domain.constraints import AdmissionFacts, Gauge, Loan, Needs, Starts
from tidegate.domain.instants import Duration, Instant
from tidegate.store.arrays import Ints, Texts
from tidegate.store.codec import decode
from tidegate.store.connection import Row, Session
from tidegate.store.sql import load

Q = load("gates")
ADMISSION = load("admission")

MOST_QUEUED = 1001
"""So many at most are counted in the queue of a pool of which others borrow: one more than are judged at a time."""


@lru_cache(maxsize=1000)
def decode_calendar(text: str) -> Calendar:
    """A calendar; equal texts share one value."""
    return cast(Calendar, decode(Calendar, text))


def facts_of(
    counters: Sequence[Row],
    pools: Sequence[Row],
    loans: Sequence[Row],
    frozen: Sequence[Row],
    gauges: Sequence[Row],
    calendars: Sequence[Row],
    starts: Mapping[str, Starts],
) -> AdmissionFacts:
    """From rows of `admission.counters`, `lock_pools`, `loans`, `gates.frozen`, `gauges` and `calendars_named`."""
    return AdmissionFacts(
        held={row[0]: row[1] for row in counters if row[1]},
        free={row[0]: row[1] for row in pools},
        slots={row[0]: row[2] for row in pools},
        first={row[0]: row[3] for row in pools if row[3] is not None},
        loans={row[0]: Loan(lender=row[1], left=row[2]) for row in loans},
        queued={row[1]: row[3] for row in loans},
        starts=starts,
        gauges={row[0]: Gauge(value=row[1], at=row[2], error=row[3], stale_at=row[4]) for row in gauges},
        calendars={row[0]: decode_calendar(row[1]) for row in calendars},
        frozen=frozen[0][2] if frozen else None,
    )


async def read_starts(session: Session, wanted: Mapping[str, tuple[int, Duration]], now: Instant) -> dict[str, Starts]:
    """As they are logged."""
    if not wanted:
        return {}
    keys = sorted(wanted)
    rows = await session.rows(
        Q.starts,
        keys=Texts(keys),
        manys=Ints(wanted[key][0] for key in keys),
        backs=Ints(wanted[key][1] for key in keys),
        now=now,
    )
    return {row[0]: Starts(newest=tuple(row[2]), pending=row[1]) for row in rows}


async def keep_starts(session: Session, key: str, back: Duration, now: Instant) -> None:
    """From now on the starts under this locked counter are kept so long; what is on record of earlier ones is added,
    of groups only what is alive."""
    await session.send(Q.keep, key=key, back=back)
    if key[0] == "g":
        await session.send(Q.recall_group, key=key, now=now)
        return
    number = int(key[1:])
    program = number if key[0] == "p" else None
    schedules = [number]
    if program is not None:
        schedules = [row[0] for row in await session.rows(Q.schedules_of, program=program)]
    await session.send(Q.recall, key=key, schedules=Ints(schedules), program=program, since=now - back, now=now)


async def present_facts(session: Session, needs: Needs, now: Instant) -> AdmissionFacts:
    """What the admitter would see now, nothing locked. Starts that nobody has asked for yet are not known."""
    return facts_of(
        await session.rows(ADMISSION.counters, keys=Texts(sorted(needs.counters))),
        await session.rows(Q.pools_named, names=Texts(sorted(needs.pools)), now=now),
        await session.rows(ADMISSION.loans, names=Texts(sorted(needs.pools)), most=MOST_QUEUED),
        await session.rows(Q.frozen),
        await session.rows(Q.gauges, resources=Texts(sorted(needs.resources))) if needs.resources else [],
        await session.rows(Q.calendars_named, names=Texts(sorted(needs.calendars))) if needs.calendars else [],
        await read_starts(session, needs.starts, now),
    )
