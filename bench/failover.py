"""A scheduler is killed, or freezes, while another lives: how long until the next launch, and how late anything is.

Two schedulers and a worker as processes of their own, a fire every 50 ms. Each trial hits one of the schedulers with
SIGKILL (another takes its place afterwards) or SIGSTOP, at any moment. A launch is what the program itself, a Python
function, reads from the clock. Two figures of each kill: from its instant to the first launch of a fire that
was due after it, and the latest launch among all fires that were due around it: what the dead one had in hand is among
them. Afterwards each fire must be on record exactly once, and each run started once.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import sleep
from typing import Any

import psycopg

from bench import ground
from bench.figures import Figure, Say, at_most, median, percentile
from bench.schedulers import Schedulers, schedulers
from tidegate.domain.ids import AttemptKey, RunKey, ScheduleId
from tidegate.domain.instants import MILLISECOND, SECOND, Instant
from tidegate.domain.programs import Python
from tidegate.domain.triggers import Interval
from tidegate.launchers.logs import FileLogs
from tidegate.store.store import PostgresStore

PROGRAM = """\
import time
def stamp() -> None:
    print(f"started={time.time_ns()}")
"""
FIRES = 20
"""A second."""
BEFORE = 200 * MILLISECOND
"""What was due so long before a fault may still have been in hand."""
FROZEN = 7 * SECOND


@dataclass(frozen=True)
class Fire:
    """When it was due, recorded, admitted, claimed by a worker, and when its program started. Microseconds."""

    due: Instant
    recorded: Instant
    admitted: Instant
    claimed: Instant
    started: Instant

    @property
    def late(self) -> float:
        """Milliseconds."""
        return (self.started - self.due) / 1000

    def __str__(self) -> str:
        steps = (self.recorded - self.due, self.admitted - self.recorded, self.claimed - self.admitted)
        recorded, admitted, claimed = (f"{one / 1000:.0f}" for one in steps)
        started = f"{(self.started - self.claimed) / 1000:.0f}"
        return f"due to recorded {recorded} ms, to admitted {admitted}, to claimed {claimed}, to started {started}"


def measure(say: Say, *, kills: int = 200, freezes: int = 20) -> list[Figure]:
    """The first three seconds are not counted: connections and caches come up in them."""
    with ground.ground({"track_commit_timestamp": "on"}) as place:
        asyncio.run(_declare(place))
        with schedulers(place, 2) as some, ground.roles(place, "worker"):
            sleep(4)
            began = _now()
            sleep(2)
            killed: list[tuple[Instant, int]] = []
            for number in range(kills):
                killed.append(_kill(some, Random(number)))
                if number % 50 == 49:
                    say(f"{number + 1} kills done, load {os.getloadavg()[0]:.1f}")
            some.ready()
            sleep(2)
            frozen = [_freeze(some, Random(number)) for number in range(freezes)]
            until = _now()
            _wait(place.url, until)
        fires = asyncio.run(_read(place, began, until))
        seen = _seen(place.url, killed)
    return _figures(say, fires, [at for at, _ in killed], frozen, seen)


def _now() -> Instant:
    return time.time_ns() // 1000


async def _declare(place: ground.Ground) -> None:
    (place.home / "programs.py").write_text(PROGRAM)
    program = Python(entry=f"{place.home}/programs.py:stamp")
    store = PostgresStore(place.url)
    try:
        async with store.changing() as tx:
            await tx.put_pool("default", 200, None)  # how many may run is not what is measured
        now = await store.now()
        for number in range(FIRES):
            anchor = now // SECOND * SECOND + number * SECOND // FIRES
            await ground.declare(store, f"tick{number}", program, Interval(every="PT1S", anchor=anchor), ())
    finally:
        await store.close()


def _kill(some: Schedulers, rng: Random) -> tuple[Instant, int]:
    """When one was killed, and its pid. Its successor comes up when what is measured is over."""
    some.ready()
    sleep(0.4 + rng.random() * 0.2)
    victim = rng.choice(some.running)
    at = _now()
    some.kill(victim)
    sleep(0.7)
    some.start()
    assert victim.pid is not None
    return at, victim.pid


def _freeze(some: Schedulers, rng: Random) -> Instant:
    some.ready()  # the one that was frozen before has registered anew
    sleep(0.5 + rng.random() * 0.2)
    victim = rng.choice(some.running).pid
    assert victim is not None
    at = _now()
    os.kill(victim, signal.SIGSTOP)
    sleep(FROZEN / SECOND)
    os.kill(victim, signal.SIGCONT)
    return at


def _wait(url: str, until: Instant) -> None:
    """Until whatever was due by then has ended, or a minute is over: then `_read` says what is missing."""
    deadline = time.monotonic() + 60
    with psycopg.connect(url, autocommit=True) as connection:
        live = "SELECT FROM run_live WHERE slot <= %(at)s"
        question = f"SELECT (SELECT min(next_due) FROM clock) > %(at)s AND NOT EXISTS ({live})"
        while (
            connection.execute(question.encode(), {"at": until}).fetchone() != (True,) and time.monotonic() < deadline
        ):
            sleep(0.01)


async def _read(place: ground.Ground, after: Instant, until: Instant) -> list[Fire]:
    """Every fire due in between. Raises AssertionError where one is missing, doubled or did not succeed."""
    committed = "(extract(epoch FROM pg_xact_commit_timestamp({}.xid::xid)) * 1000000)::bigint"
    question = (
        f"SELECT r.slot, r.schedule_id, r.ord, r.outcome, a.created_at, "
        f"{committed.format('w')}, {committed.format('e')}, "
        "(SELECT count(*) FROM attempt o WHERE (o.slot, o.schedule_id, o.ord) = (r.slot, r.schedule_id, r.ord)) "
        "FROM run r JOIN attempt a USING (slot, schedule_id, ord) "
        "JOIN event w ON (w.slot, w.schedule_id, w.type) = (r.slot, r.schedule_id, 'run.waiting') "
        "JOIN event e ON (e.slot, e.schedule_id, e.type) = (r.slot, r.schedule_id, 'run.ready') "
        "WHERE r.slot > %s AND r.slot <= %s ORDER BY r.slot"
    )
    with psycopg.connect(place.url) as connection:
        rows: list[tuple[Any, ...]] = connection.execute(question, (after, until)).fetchall()
        gaps = connection.execute(
            "SELECT count(*) FROM (SELECT slot - lag(slot) OVER (PARTITION BY schedule_id ORDER BY slot) AS step"
            " FROM run) g WHERE step <> 1000000"
        ).fetchone()
        stretches = connection.execute("SELECT count(*) FROM fire_range").fetchone()
    assert gaps == (0,) and stretches == (0,), f"fires were lost or doubled: {gaps}, missed: {stretches}"
    logs, found = FileLogs(Path(place.home)), []
    for slot, schedule, order, outcome, claimed, recorded, admitted, attempts in rows:
        assert (outcome, attempts) == ("succeeded", 1), (slot, schedule, outcome, attempts)
        said = (await logs.read(AttemptKey(RunKey(slot, ScheduleId(schedule), order), 1), 0)).text
        started = re.findall(r"started=(\d+)", said)
        assert len(started) == 1, said
        found.append(Fire(slot, recorded, admitted, claimed, int(started[0]) // 1000))
    wanted = (until - after) // SECOND * FIRES
    assert len(found) >= wanted, f"of {wanted} fires only {len(found)} were launched"
    return found


def _seen(url: str, killed: Sequence[tuple[Instant, int]]) -> list[float]:
    """After how many milliseconds each of those who were killed was declared dead."""
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT pid, ended_at::bigint FROM instance WHERE ended_at IS NOT NULL").fetchall()
    ends: dict[int, int] = dict(rows)
    return [max(0.0, (ends[pid] - at) / 1000) for at, pid in killed]  # a look that had begun already may see it


def _figures(
    say: Say, fires: Sequence[Fire], killed: Sequence[Instant], frozen: Sequence[Instant], seen: Sequence[float]
) -> list[Figure]:
    faults = [(at, at + SECOND) for at in killed] + [(at, at + FROZEN + 2 * SECOND) for at in frozen]
    calm = [one for one in fires if all(not begin - BEFORE <= one.due <= end for begin, end in faults)]
    usual = f"usually {median([one.late for one in calm]):.0f} ms late, p99 {_most(calm):.0f} ms" if calm else ""
    say(f"{len(fires):,} fires, {len(calm):,} of them far from any fault: {usual}")

    def around(at: Instant, span: int) -> Fire:
        return max((one for one in fires if at - BEFORE <= one.due <= at + span), key=lambda one: one.late)

    found = []
    if killed:
        nexts = [min(one.started for one in fires if one.due >= at) - at for at in killed]
        after, latest = [one / 1000 for one in nexts], [around(at, SECOND // 2) for at in killed]
        worst = sorted(zip(latest, seen, strict=True), key=lambda one: -one[0].late)
        for fire, dead in worst[:5]:
            say(f"{fire.late:.0f} ms late: {fire}; declared dead after {dead:.0f} ms")
        how = f"{len(killed)} trials, two schedulers, {FIRES} fires a second; {usual}"
        late = [one.late for one in latest]
        for name, values, goals in (
            ("kill -9 to the next launch", after, (100, None, 1000)),
            ("the latest launch around it", late, (None, None, 1000)),
            ("kill -9 to declared dead", seen, (None, None, None)),
        ):
            for share, goal in zip((0.5, 0.95, 0.99), goals, strict=True):
                found.append(at_most(f"{name}, p{share * 100:.0f}", percentile(values, share), "ms", goal, how))
            found.append(at_most(f"{name}, most", max(values), "ms", None, how))
    if frozen:
        stopped = [around(at, FROZEN) for at in frozen]
        for one in sorted(stopped, key=lambda one: -one.late)[:3]:
            say(f"{one.late:.0f} ms late in a freeze: {one}")
        told = f"{len(frozen)} trials of {FROZEN / SECOND:g} s, one of two schedulers stopped (SIGSTOP)"
        lags = [one.late for one in stopped]
        found += [
            at_most("latest launch in a freeze, p50", median(lags), "ms", None, told),
            at_most("latest launch in a freeze, most", max(lags), "ms", 5000, told),
        ]
    return found


def _most(fires: Sequence[Fire]) -> float:
    return percentile([one.late for one in fires], 0.99)
