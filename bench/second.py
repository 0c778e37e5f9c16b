"""What a second scheduler adds on the same machine: fires recorded a second by two, against one.

Schedules are due in one second, and the schedulers run as they always do: processes of their own, which plan, record
and let go. One and two take turns, each after a round that warms it up; the ratio is that of a pair of neighbouring
rounds, the figure the median over the pairs. A second one can only add what the first leaves idle, and what binds
depends on the triggers. Composite ones cost the scheduler several times what they cost PostgreSQL, and one process
has one core for them. Of plain crons PostgreSQL has the larger share: one scheduler already keeps it busy.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass

import psutil
import psycopg

from bench import ground
from bench.figures import Figure, Say, at_least, median
from bench.schedulers import Schedulers, schedulers
from tidegate.domain.instants import SECOND, Instant
from tidegate.domain.programs import Command
from tidegate.domain.triggers import AnyOf, Cron, Trigger
from tidegate.store.store import PostgresStore

GRID = 10
"""Every trigger fires at every tenth second, so that a round needs to wait for no more."""
PATIENCE = 120.0
CALM = 0.2


@dataclass(frozen=True)
class Round:
    """Fires a second; microseconds of CPU that one took in schedulers and database; the share of all cores that went to
    others, this benchmark among them."""

    rate: float
    scheduler: float
    database: float
    others: float

    def __str__(self) -> str:
        spent = f"schedulers {self.scheduler:.0f}, database {self.database:.0f}"
        return f"{self.rate:,.0f}/s; CPU in us a fire: {spent}; others had {self.others:.0%}"


def measure(say: Say, *, composite: int = 3_000, plain: int = 20_000, rounds: int = 5) -> list[Figure]:
    """Raises AssertionError where a fire is missing or doubled."""
    with ground.ground({"track_commit_timestamp": "on"}) as place:
        cron = Cron(expression=f"*/{GRID} * * * * *", seconds=True)
        found = _case(say, place, "composite", composite, _composite(), rounds, 1.25) if composite else []
        return found + (_case(say, place, "plain", plain, cron, rounds, None) if plain else [])


def _composite() -> Trigger:
    """Every tenth second, of other quarters of the day by other rules: as one for weekdays and another for Sundays."""
    hours = ("0-5", "6-11", "12-17", "18-23")
    return AnyOf(triggers=tuple(Cron(expression=f"*/{GRID} * {span} * * *", seconds=True) for span in hours))


def _case(
    say: Say, place: ground.Ground, name: str, count: int, trigger: Trigger, rounds: int, goal: float | None
) -> list[Figure]:
    there = ground.Ground(place.home, place.server, place.database(name))
    asyncio.run(_declare(there.url, count, trigger))
    pairs: list[tuple[Round, Round]] = []
    with schedulers(there, 1) as some:
        for number in range(rounds):
            done = []
            for many in (1, 2):
                if many == 2:
                    some.start()
                    some.ready()
                _round(there, some, count)
                done.append(_round(there, some, count))
                say(f"{name}, round {number + 1}, {many} of them: {done[-1]}")
            some.leave(some.running[-1])
            pairs.append((done[0], done[1]))
    how = f"{count:,} {name} triggers due in one second; median of {rounds} rounds"
    found = [
        at_least(f"{name} fires, one scheduler", median([one.rate for one, _ in pairs]), "fires/s", None, how),
        at_least(f"{name} fires, two schedulers", median([two.rate for _, two in pairs]), "fires/s", None, how),
    ]
    calm = [(one, two) for one, two in pairs if max(one.others, two.others) < CALM]
    for chosen, where in ((pairs, ""), (calm, f", while others took under {CALM:.0%} of the machine")):
        if chosen:
            ratios = [two.rate / one.rate for one, two in chosen]
            told = f"median of {len(chosen)} pairs of rounds{where}: {min(ratios):.2f} to {max(ratios):.2f}"
            wanted = goal if chosen is calm or not calm else None
            found.append(at_least(f"two schedulers / one, {name}", median(ratios), "x", wanted, told))
    told = "the same from the CPU that schedulers and database took, as if two cores were theirs alone"
    alone = median([_alone(one, 1) for one, _ in pairs]) / median([_alone(two, 2) for _, two in pairs])
    found.append(at_least(f"two schedulers / one by CPU, {name}", alone, "x", None, told))
    return found


def _alone(one: Round, schedulers: int) -> float:
    """Microseconds a fire where nobody else wants the two cores: each scheduler has one core for its own work."""
    return max(one.scheduler / schedulers, (one.scheduler + one.database) / 2)


async def _declare(url: str, count: int, trigger: Trigger) -> None:
    store = PostgresStore(url)
    try:
        template = await ground.declare(store, "due", Command(argv=("true",)), trigger, ())
        _rest(url)
    finally:
        await store.close()
    ground.multiply(url, template, count - 1)


def _rest(url: str) -> None:
    """Nothing is due until `_round` says when."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE clock SET next_due = NULL")


def _round(place: ground.Ground, some: Schedulers, count: int) -> Round:
    """From the second in which all are due to the last commit."""
    at = _set(place.url)
    time.sleep(max(0.0, at / SECOND - time.time() - 0.2))
    before, busy = _cpu(place, some), _busy()
    with psycopg.connect(place.url, autocommit=True) as connection:
        deadline = time.monotonic() + PATIENCE
        question = "SELECT count(*), count(*) FILTER (WHERE slot = %s), count(DISTINCT schedule_id) FROM run"
        while (found := connection.execute(question, (at,)).fetchone()) != (count,) * 3:
            assert time.monotonic() < deadline, f"of {count} fires: {found}"
            time.sleep(0.2)
        after, most = _cpu(place, some), _busy()
        row = connection.execute(
            "SELECT count(*), extract(epoch FROM max(pg_xact_commit_timestamp(xid::xid))) FROM event "
            "WHERE type = 'run.waiting' AND slot = %s",
            (at,),
        ).fetchone()
    assert row is not None and row[0] == count, row
    _rest(place.url)
    _empty(place.url)
    spent = [late - early for early, late in zip(before, after, strict=True)]
    others = max(0.0, most[0] - busy[0] - sum(spent)) / (most[1] - busy[1])
    return Round(count / (float(row[1]) - at / SECOND), spent[0] / count * 1e6, spent[1] / count * 1e6, others)


def _empty(url: str) -> None:
    """The schedulers are at it, so that one may have to try again."""
    for _ in range(20):
        with suppress(psycopg.errors.DeadlockDetected):
            ground.empty(url)
            return
    raise RuntimeError("the ledger could not be emptied")


def _busy() -> tuple[float, float]:
    """Seconds of all cores so far: at work, and altogether."""
    times = psutil.cpu_times()
    return sum(times) - times.idle - times.iowait - times.guest - times.guest_nice, sum(times)


def _set(url: str) -> Instant:
    """Make every clock due at the next tenth second but one, and say so; which that is."""
    at = int(time.time() / GRID + 1.3) * GRID * SECOND
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE clock SET cursor = %s, next_due = %s, last_fire = NULL", (at - GRID * SECOND, at))
        connection.execute("VACUUM (ANALYZE) clock")
        connection.execute("NOTIFY tidegate, 'clock'")
    return at


def _cpu(place: ground.Ground, some: Schedulers) -> tuple[float, float]:
    pids = [one.pid for one in some.running if one.pid is not None]
    return sum(map(ground.cpu_of, pids)), ground.cpu_of(place.server_pid)
