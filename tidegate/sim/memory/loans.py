"""What pools may borrow (domain/slots), in memory: as a transaction sees it, or as it is committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tidegate.domain.constraints import Loan
from tidegate.domain.ids import RunKey
from tidegate.domain.slots import pool_key
from tidegate.sim.memory.data import Data
from tidegate.sim.memory.rows import PoolRow, RunRow

Get = Callable[[Any, Any], Any]
Own = Mapping[RunKey, RunRow | None]


def loans_of(pools: Iterable[str], data: Data, get: Get, own: Own) -> dict[str, Loan]:
    """Of each of these pools that may borrow: of which, and how many more."""
    found = {}
    for name in sorted(pools):
        row: PoolRow | None = get(data.pool, name)
        if row is not None and row.borrow is not None:
            found[name] = Loan(row.borrow[0], max(0, row.borrow[1] - borrowed(name, data, own)))
    return found


def borrowed(pool: str, data: Data, own: Own) -> int:
    """How many slots of another pool its runs have."""
    rows = (own.get(key) or data.run.rows[key] for key in {*data.live, *own} if key in own or key in data.run.rows)
    return sum(run.slot_held and run.borrower == pool for run in rows)


def queued_of(loans: Mapping[str, Loan], queue: Callable[[str], int]) -> dict[str, int]:
    """How many wait for slots of each lender, in its own queue."""
    return {loan.lender: queue(pool_key(loan.lender)) for loan in loans.values()}


def room(pool: str, data: Data, get: Get, own: Own, queue: Callable[[str], int]) -> int:
    """How many of its runs may have a slot now: of its own, and of those that it may borrow."""
    row: PoolRow | None = get(data.pool, pool)
    if row is None:
        return 0
    free = max(0, row.slots - row.used)
    for loan in loans_of([pool], data, get, own).values():
        lender: PoolRow | None = get(data.pool, loan.lender)
        if lender is not None and not queue(pool_key(loan.lender)):
            free += max(0, min(lender.slots - lender.used, loan.left))
    return free
