"""Deadlines of live runs in PostgreSQL. See `ports.deadlines`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.domain.deadlines import Telling, Watched, first_look
from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.schedules import Deadline
from tidegate.store.arrays import Ints, Texts
from tidegate.store.sql import load
from tidegate.store.transactions import Parts, Tx, ascending, columns

Q = load("deadlines")


class DeadlinesTx(Tx):
    """See `ports.deadlines.DeadlinesTx`."""

    async def claim_terms(self, now: Instant, limit: int) -> Sequence[Watched]:
        rows = await self.fetch(Q.claim, now=now, limit=limit)
        revisions = await self.parts.definitions.revisions(self.session, {(row[1], row[6]) for row in rows})
        found, undeclared = [], []
        for slot, schedule, order, base, told, started, rev, namespace, name, usual in rows:
            key = RunKey(slot, ScheduleId(schedule), order)
            deadline = revisions[schedule, rev].spec.deadline
            if deadline is None or base is None:
                undeclared.append(Telling(key=key, news=(), told=frozenset(told.split()), next=None))
                continue
            found.append(
                Watched(
                    key=key,
                    namespace=namespace,
                    schedule=name,
                    deadline=deadline,
                    base=base,
                    started_at=started,
                    usual=usual,
                    told=frozenset(told.split()),
                )
            )
        await self.tell_terms(undeclared, now)
        return found

    async def tell_terms(self, tellings: Sequence[Telling], now: Instant) -> None:
        if not tellings:
            return
        tellings = sorted(tellings, key=lambda one: ascending(one.key))
        await self.session.send(
            Q.tell,
            **columns(one.key for one in tellings)._asdict(),
            nexts=Ints(one.next for one in tellings),
            tolds=Texts(" ".join(sorted(one.told)) for one in tellings),
        )


def first_looks(given: Iterable[tuple[Deadline | None, Instant]]) -> dict[str, Ints]:
    """Columns of new runs: when to look at their deadlines, and what these count from."""
    pairs = [(None, None) if deadline is None else (first_look(deadline, base), base) for deadline, base in given]
    return {"deadlines": Ints(at for at, _ in pairs), "deadline_bases": Ints(base for _, base in pairs)}


async def next_term(parts: Parts) -> Instant | None:
    """When the next live run is to be looked at."""
    row = await parts.database.row(Q.next)
    return row[0] if row else None
