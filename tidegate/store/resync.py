"""Looking for what is out of step, and mending it: the net under everything that is told rather than looked up.

Counters and pools are compared with the live runs in one statement, which sees one state of the world, in which they
always agree unless there is a fault. What differs is counted again under its lock: whoever changes what a run holds
also changes the counter, and waits for it.

A round looks at no more than `MOST` clocks and as many counters, and the next one goes on behind them: what a million
idle schedules cost is bounded, and up to so many are looked at in every round.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.domain.errors import Fenced
from tidegate.domain.ids import Fence, RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.schedules import Mode
from tidegate.domain.triggers import AfterFinish, Never
from tidegate.ports.engine import Drift
from tidegate.store.connection import Row, Session
from tidegate.store.holdings import wake
from tidegate.store.instances import check_fence
from tidegate.store.queues import POOL
from tidegate.store.sql import load
from tidegate.store.transactions import I, Parts, Tx, columns

Q = load("resync")
MOST = 10_000
_LAST = (1 << 63) - 1


async def resync(parts: Parts, fence: Fence, token: int, now: Instant) -> Sequence[Drift]:
    """See `ports.engine.ReconcilerStore`."""
    parts.due.lower()
    parts.wake.lower()
    found: list[Drift] = []
    async with parts.database.transaction() as session:
        await check_fence(session, fence)
        if await session.row(I.held_lease, token=token, id=fence.instance_id, now=now) is None:
            raise Fenced("The lease under which this resync was asked is another's by now.")
        tx = Tx(parts, session)
        found += await _clocks(parts, session, now)
        runs = await session.rows(Q.forgotten, now=now)
        found += await _runs(session, runs, now)
        found += await _counters(tx, now)
        found += await _pools(tx, now)
    return found


async def _clocks(parts: Parts, session: Session, now: Instant) -> list[Drift]:
    found = []
    after = parts.walk.clock
    end = await session.row(Q.clock_end, after=after, many=MOST - 1)
    upto = end[0] if end else _LAST
    parts.walk.clock = end[0] if end else 0
    for (
        schedule,
        name,
        rev,
        mode,
        next_due,
        cursor_rev,
        newest,
        newest_mode,
        deleted,
        after_finish,
    ) in await session.rows(Q.clock_drift, after=after, upto=upto):
        due = next_due
        rests = deleted or (not Mode(newest_mode).works and cursor_rev == newest)
        if rests:
            due = None
        elif next_due is None and cursor_rev != newest:
            revision = await parts.definitions.revisions(session, [(schedule, newest)])
            ticks = not isinstance(revision[schedule, newest].spec.trigger, Never | AfterFinish)
            due = now if ticks else None
        elif next_due is None and after_finish:
            due = now
        if (due, newest, newest_mode) == (next_due, rev, mode):
            continue
        mended = await session.row(
            Q.mend_clock,
            schedule=schedule,
            rev=newest,
            mode=newest_mode,
            next_due=due,
            old_rev=rev,
            old_mode=mode,
            old_due=next_due,
        )
        if mended is not None:
            found.append(
                Drift(
                    what="clock",
                    name=name,
                    found=f"revision {rev}, {mode}, due {next_due}",
                    mended=f"revision {newest}, {newest_mode}, due {due}",
                )
            )
    return found


async def _counters(tx: Tx, now: Instant) -> list[Drift]:
    found = []
    walk = tx.parts.walk
    after = walk.counter
    end = await tx.session.row(Q.counter_end, after=after, many=MOST - 1)
    walk.counter = end[0] if end else ""
    for key, held, _ in await tx.session.rows(Q.counter_drift, after=after, upto=end[0] if end else None):
        if await tx.session.row(Q.lock_counter, key=key) is None:
            continue
        row = await tx.session.row(Q.mend_counter, key=key)
        if row is not None and row[0] != held:
            found.append(Drift(what="counter", name=key, found=str(held), mended=str(row[0])))
            await wake(tx, [key], now)
    return found


async def _pools(tx: Tx, now: Instant) -> list[Drift]:
    found = []
    for name, used, _ in await tx.session.rows(Q.pool_drift):
        if await tx.session.row(Q.lock_pool, name=name) is None:
            continue
        row = await tx.session.row(Q.mend_pool, name=name)
        if row is not None and row[0] != used:
            found.append(Drift(what="pool", name=name, found=str(used), mended=str(row[0])))
            await wake(tx, [POOL + name], now)
    return found


async def _runs(session: Session, forgotten: Sequence[Row], now: Instant) -> list[Drift]:
    if not forgotten:
        return []
    keys = columns(RunKey(row[0], row[1], row[2]) for row in forgotten)._asdict()
    rows = await session.rows(Q.wake_forgotten, **keys, now=now)
    return [
        Drift(
            what="run",
            name=str(RunKey(row[0], ScheduleId(row[1]), row[2])),
            found="nothing would wake it",
            mended="is judged now",
        )
        for row in rows
    ]
