"""Budgets spent over all tables that they are shared by: the second half of the decision, after `decision.decide`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidegate.domain.collector import collector_resting
from tidegate.domain.maintenance.budget import Candidate, Room, select
from tidegate.domain.maintenance.decision import Because, Block, Decision, Table, Terms, Verdict, decide, hold
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.maintenance.policy import Policy, Rank
from tidegate.domain.maintenance.state import NO_HISTORY
from tidegate.domain.maintenance.value import value


def decide_all(tables: Iterable[Table], terms: Terms) -> dict[str, tuple[Decision, ...]]:
    """Everything about these tables, by table: each judged for itself, then the budgets spent over all of them.

    Budgets are a policy's, so all of a policy's tables must be among them for the answer about one to be right.
    """
    told = list(tables)
    with collector_resting():
        decisions = {one.state.table: decide(one, terms) for one in told}
        return decisions | spend(told, decisions, terms)


def spend(
    tables: Iterable[Table], decisions: Mapping[str, tuple[Decision, ...]], terms: Terms
) -> dict[str, tuple[Decision, ...]]:
    """The decisions that differ once every policy's budget is spent over these tables."""
    sharing: dict[str, list[Table]] = {}
    for one in tables:
        if not one.policy.budget.unlimited:
            sharing.setdefault(one.policy.name, []).append(one)
    changed: dict[str, tuple[Decision, ...]] = {}
    for ours in sharing.values():
        changed.update(choose(ours[0].policy, ours, decisions, terms))
    return changed


def choose(
    policy: Policy, tables: Sequence[Table], decisions: Mapping[str, tuple[Decision, ...]], terms: Terms
) -> dict[str, tuple[Decision, ...]]:
    """The decisions about a policy's tables once its budget is spent: what finds no room is held."""
    found: list[Candidate] = []
    for table in tables:
        name = table.state.table
        found += [_candidate(table, one, terms) for one in decisions[name] if one.verdict is Verdict.RUN]
    _, left = select(found, Room(policy.budget, terms.spent.get(policy.name, ()), terms.now), policy.rank)
    histories = {table.state.table: table.state.histories for table in tables}
    changed = {}
    for candidate, refusal in left:
        known = histories[candidate.table].get(candidate.operation, NO_HISTORY).held_at is not None
        block = Block(Because.NO_ROOM, refusal.until, refusal.why)
        verdict = Verdict.WAIT if known else Verdict.HOLD
        changed[candidate.table] = tuple(
            hold(one, block, verdict) if one.operation is candidate.operation else one
            for one in decisions[candidate.table]
        )
    return changed


def confirmed(chosen: Iterable[tuple[Table, Operation]], terms: Terms) -> list[tuple[Table, Decision]]:
    """Of what was chosen before, what newer facts let run as well: each table judged again, and only what still fits
    into what its policy's budget has left."""
    rooms: dict[str, Room] = {}
    found = []
    for table, operation in chosen:
        policy = table.policy
        room = rooms.get(policy.name)
        if room is None:
            room = rooms[policy.name] = Room(policy.budget, terms.spent.get(policy.name, ()), terms.now)
        for one in decide(table, terms):
            if one.operation is operation and one.verdict is Verdict.RUN:
                candidate = _candidate(table, one, terms)
                if room.fits(candidate):
                    room.take(candidate)
                    found.append((table, one))
    return found


def _candidate(table: Table, decision: Decision, terms: Terms) -> Candidate:
    history = table.state.histories.get(decision.operation, NO_HISTORY)
    gain = 0.0
    if table.policy.rank is Rank.VALUE:
        gain = value(decision.operation, decision.prediction, history, table.state.health).gain or 0.0
    return Candidate(
        table=table.state.table,
        operation=decision.operation,
        bytes=decision.bytes,
        since=history.held_at if history.held_at is not None else terms.now,
        debt=table.debt.score if table.debt is not None else 0.0,
        gain=gain,
    )
