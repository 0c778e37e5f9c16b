"""Deciding maintenance: 10,000 tables with seven operations each, judged with every reason and selected under a budget.

Before that whole passes of the caretaker over as many tables in PostgreSQL (`kept`), of which `bench.caretaking` tells.
Then how good a selection by value is, against the optimum that dynamic programming finds.
"""

from __future__ import annotations

import random
from time import process_time

from bench import caretaking
from bench.figures import Figure, Say, at_least, at_most, median
from tidegate.domain.instants import DAY, HOUR, parse_instant
from tidegate.domain.maintenance.budget import Candidate, Room, select
from tidegate.domain.maintenance.choosing import decide_all
from tidegate.domain.maintenance.clock import Clock
from tidegate.domain.maintenance.debt import Debt
from tidegate.domain.maintenance.decision import Decision, Table, Terms, Verdict
from tidegate.domain.maintenance.health import Metric, TableHealth
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.maintenance.patterns import TablePattern
from tidegate.domain.maintenance.policy import Budget, Conditions, Policy, Rank, Rule, Schedule
from tidegate.domain.maintenance.state import History, Prediction, TableState
from tidegate.domain.triggers import Cron, Interval, WindowDays
from tidegate.domain.windows import Span

TABLES, ROUNDS = 10_000, 5
KNAPSACKS, ITEMS, ROOM = 20, 300, 2_000
NOW = parse_instant("2026-11-21T03:10:00Z")

_NIGHT = Span(start=60, end=360, timezone="Europe/Berlin")
_RULES: tuple[tuple[Operation, Schedule | None, dict[Metric, float]], ...] = (
    (
        Operation.REWRITE_DATA_FILES,
        Schedule(trigger=Cron(expression="0 1 * * *", timezone="Europe/Berlin"), window=_NIGHT),
        {Metric.SMALL_FILE_PERCENT: 20, Metric.DELETE_FILE_COUNT: 50},
    ),
    (Operation.REWRITE_POSITION_DELETE_FILES, None, {Metric.DELETE_FILE_COUNT: 20}),
    (Operation.REWRITE_MANIFESTS, None, {Metric.MANIFEST_COUNT: 50}),
    (Operation.EXPIRE_SNAPSHOTS, Schedule(trigger=Interval(every="PT6H")), {Metric.SNAPSHOT_COUNT: 50}),
    (Operation.REMOVE_ORPHAN_FILES, Schedule(trigger=WindowDays(every_days=7)), {}),
    (Operation.COMPUTE_PARTITION_STATS, Schedule(trigger=Cron(expression="30 6 * * *")), {}),
    (Operation.COMPUTE_TABLE_STATS, Schedule(trigger=Cron(expression="0 7 * * SUN")), {}),
)


def measure(say: Say, kept: int = 10_000) -> list[Figure]:
    """Raises AssertionError when the budget is overshot: a fast wrong answer is no figure."""
    tables = _tables()
    seconds = []
    for _ in range(ROUNDS):
        began = process_time()
        decided = decide_all(tables, Terms(clock=Clock(NOW)))
        seconds.append(process_time() - began)
        _check(decided)
    say(f"{len(tables):,} tables x {len(_RULES)} operations: {', '.join(f'{one:.2f}' for one in seconds)} s")
    count = f"{TABLES:,} tables x {len(_RULES)} operations"
    how = f"{count}, every reason, selected under a budget; processor time, best of {ROUNDS}"
    shares = [_share(seed) for seed in range(KNAPSACKS)]
    say(f"selection: {min(shares):.4f} to {max(shares):.4f} of the optimum")
    knapsacks = f"worst of {KNAPSACKS} random knapsacks of {ITEMS} operations"
    return [
        *caretaking.measure(say, kept),
        at_most("decide maintenance", min(seconds), "s", 1.0, how),
        at_most("decide maintenance, median", median(seconds), "s", None, how),
        at_least("selection under a budget", 100 * min(shares), "% of the optimum", 95, knapsacks),
    ]


def _tables() -> list[Table]:
    rng = random.Random(7)
    rules = {
        operation: Rule(operation=operation, schedule=schedule, when=Conditions(limits=limits) if limits else None)
        for operation, schedule, limits in _RULES
    }
    budget = Budget(tables=200, bytes=10**11)
    policy = Policy(name="lake", tables=TablePattern("lake.**"), operations=rules, budget=budget)
    return [_table(policy, number, rng) for number in range(TABLES)]


def _table(policy: Policy, number: int, rng: random.Random) -> Table:
    files = rng.randrange(1, 2_000)
    health = TableHealth(
        assessed_at=NOW - rng.randrange(HOUR),
        snapshot=number,
        changed_at=NOW - rng.randrange(3 * DAY),
        data_files=files,
        data_bytes=files << 22,
        small_files=rng.randrange(files),
        delete_files=rng.randrange(60),
        manifests=rng.randrange(100),
        manifest_bytes=rng.randrange(1 << 24),
        snapshots=rng.randrange(200),
    )
    histories = {
        operation: History(
            started_at=(at := NOW - rng.randrange(9 * DAY)),
            finished_at=at + 1,
            failures=rng.choice((0, 0, 0, 4)),
            failed_at=at,
            unchanged=rng.choice((0, 0, 6)),
        )
        for operation in Operation
        if rng.random() < 0.9
    }
    removes = rng.choice((0, rng.randrange(1, files + 1)))
    predicted = Prediction(removes=removes, files=removes, bytes=removes << 22)
    state = TableState(
        table=f"lake.raw.t{number}",
        since=NOW - 30 * DAY,
        health=health,
        histories=histories,
        predictions={Operation.REWRITE_DATA_FILES: predicted},
    )
    return Table(state=state, policy=policy, debt=Debt(score=rng.uniform(0, 1000), terms=()))


def _check(decided: dict[str, tuple[Decision, ...]]) -> None:
    chosen = [one for all_of in decided.values() for one in all_of if one.verdict is Verdict.RUN]
    assert 0 < len(chosen) <= 200 and sum(one.bytes or 0 for one in chosen) <= 10**11


def _share(seed: int) -> float:
    """The gain of a selection, as a share of the greatest that there is."""
    rng = random.Random(seed)
    items = [
        Candidate(
            table=f"t{number}",
            operation=Operation.REWRITE_DATA_FILES,
            bytes=rng.randrange(1, 200),
            since=NOW,
            gain=float(rng.randrange(1, 300)),
        )
        for number in range(ITEMS)
    ]
    chosen, _ = select(items, Room(Budget(bytes=ROOM), (), NOW), Rank.VALUE)
    assert sum(one.bytes or 0 for one in chosen) <= ROOM
    best = [0.0] * (ROOM + 1)
    for one in items:
        size = one.bytes or 0
        for at in range(ROOM, size - 1, -1):
            best[at] = max(best[at], best[at - size] + one.gain)
    return sum(one.gain for one in chosen) / best[ROOM]
