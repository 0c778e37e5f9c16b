"""Slots of pools: a pool's own, and those that it borrows of another one while nobody waits for them there (GATE-14).

A pool may say `borrow: {from: OTHER, max: N}`. When its own slots are taken, one of its runs takes a slot of OTHER,
never more than N at a time, and only while no run of OTHER waits in OTHER's own queue: a slot is its own pool's first,
also when it comes free again. A borrowed slot goes back to where it came from at the end of the attempt. What is
borrowed is not lent on: OTHER's free slots are its own.
"""

from __future__ import annotations

from functools import lru_cache

from tidegate.domain.constraints import MET, POOL, AdmissionFacts, Loan, Met, Wait


def pool_key(pool: str) -> str:
    """What a run that lacks a slot waits for."""
    return f"{POOL}{pool}"


def judge_slot(pool: str, rank: int, queued: str | None, facts: AdmissionFacts) -> Met | Wait:
    """Whether a run of this rank may have a slot of its pool now. `queued`: the queue that it was woken from; who was
    not woken for a slot leaves it to those who wait and come first by rank."""
    free = facts.free.get(pool)
    if free is None:
        return _no_slot(pool, f"There is no pool {pool}; declare it, or name another in the program.")
    if free <= 0 and (refused := _no_loan(pool, facts)):
        return _no_slot(pool, refused)
    first = facts.first.get(pool)
    if first is None or first >= rank or queued == pool_key(pool):
        return MET
    return _no_slot(pool, f"Others wait for a slot of pool {pool} and come first.")


def lender(pool: str, facts: AdmissionFacts) -> str | None:
    """Of which pool a run that may go now takes its slot; None: of its own."""
    return None if facts.free[pool] > 0 else facts.loans[pool].lender


def take_slot(pool: str, of: str | None, free: dict[str, int], loans: dict[str, Loan]) -> None:
    """Use a slot up in these facts, one of `of` where it is borrowed."""
    free[of or pool] -= 1
    if of is not None:
        loans[pool] = loans[pool]._replace(left=loans[pool].left - 1)


def went_through(pool: str, before: str | None, after: str | None, queued: dict[str, int]) -> None:
    """A run of this pool was judged; it waited in queue `before` and waits in queue `after` from now on."""
    own = pool_key(pool)
    if pool in queued and (before == own) != (after == own):
        queued[pool] += 1 if after == own else -1


def _no_loan(pool: str, facts: AdmissionFacts) -> str:
    """Why a run whose pool has no slot left cannot borrow one; empty when it can."""
    loan = facts.loans.get(pool)
    if loan is None:
        return f"Every slot of pool {pool} is taken."
    if loan.left <= 0:
        return f"Every slot of pool {pool} is taken, and it borrows of pool {loan.lender} what it may."
    if facts.queued.get(loan.lender, 0) > 0:
        return f"Every slot of pool {pool} is taken, and pool {loan.lender} needs its own."
    if facts.free.get(loan.lender, 0) <= 0:
        return f"Every slot of pool {pool} is taken, and of pool {loan.lender}, of which it may borrow."
    return ""


@lru_cache(maxsize=1024)
def _no_slot(pool: str, why: str) -> Wait:
    """At midnight a hundred thousand runs get the same answer."""
    return Wait(why=why, key=pool_key(pool))
