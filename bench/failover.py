"""A scheduler is killed, or freezes, while another lives: how long until the next launch, and how late anything is.

Two schedulers and a worker as processes of their own, ten fires a second. Each trial hits one of the schedulers with
SIGKILL (it is started again afterwards) or SIGSTOP. Measured from the tables: from the instant of the fault to the
first attempt of a fire that was due after it, and the latest attempt of all fires due within seconds of it. Afterwards
each fire must be on record exactly once.
"""

from __future__ import annotations

import signal
import tempfile
import time
from pathlib import Path
from random import Random
from time import sleep

import httpx
import psycopg

from bench.figures import Figure, Say, at_most, median, percentile
from chaos.cluster import Cluster, Member

SCHEDULES = 10
FROZEN = 7.0
NAMESPACE = "/api/v1/namespaces/bench"


def measure(say: Say, *, kills: int = 200, freezes: int = 10) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="tidegate-failover-") as folder:
        cluster = Cluster(Path(folder), schedulers=2, workers=1, apis=1)
        try:
            cluster.start()
            _declare(cluster.of("api")[0].url)
            sleep(3)
            killed = [_kill(cluster, number) for number in range(kills)]
            say(f"{kills} kills done")
            frozen = [_freeze(cluster, number) for number in range(freezes)]
            sleep(3)
            return _figures(cluster, killed, frozen)
        finally:
            cluster.stop()


def _declare(url: str) -> None:
    with httpx.Client(base_url=url, trust_env=False, timeout=30) as http:
        program = {"spec": {"type": "command", "argv": ["true"]}}
        http.put(f"{NAMESPACE}/programs/noop", json=program).raise_for_status()
        for number in range(SCHEDULES):
            anchor = f"2026-01-01T00:00:00.{number}00Z"
            trigger = {"type": "interval", "every": "PT1S", "anchor": anchor}
            spec = {"enabled": True, "program": "noop", "trigger": trigger, "constraints": [], "waiting": "all"}
            http.put(f"{NAMESPACE}/schedules/s{number}", json={"spec": spec}).raise_for_status()


def _kill(cluster: Cluster, number: int) -> int:
    """The instant at which it was killed. Both schedulers are there again when this returns."""
    victim = _ready(cluster)[number % 2]
    sleep(0.2 + Random(number).random() * 0.3)
    at = time.time_ns() // 1000
    cluster.signal(victim, signal.SIGKILL)
    sleep(1.0)
    cluster.tend(Random(0))
    return at


def _freeze(cluster: Cluster, number: int) -> int:
    victim = _ready(cluster)[number % 2]
    at = time.time_ns() // 1000
    cluster.signal(victim, signal.SIGSTOP)
    sleep(FROZEN)
    cluster.signal(victim, signal.SIGCONT)
    return at


def _ready(cluster: Cluster) -> list[Member]:
    """Both schedulers, registered."""
    deadline = time.monotonic() + 60
    pids = "SELECT pid FROM instance WHERE role = 'scheduler' AND ended_at IS NULL"
    with psycopg.connect(cluster.server.url, autocommit=True) as connection:
        while time.monotonic() < deadline:
            cluster.tend(Random(0))
            there = {pid for (pid,) in connection.execute(pids)}
            found = cluster.of("scheduler")
            if all(one.alive and one.process is not None and one.process.pid in there for one in found):
                return found
            sleep(0.02)
    raise RuntimeError("a scheduler did not come back")


def _figures(cluster: Cluster, killed: list[int], frozen: list[int]) -> list[Figure]:
    with psycopg.connect(cluster.server.url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT r.slot::bigint, a.created_at::bigint FROM run r"
            " JOIN attempt a USING (slot, schedule_id, ord) WHERE a.number = 1 ORDER BY 1"
        ).fetchall()
        gaps = connection.execute(
            "SELECT count(*) FROM (SELECT slot - lag(slot) OVER (PARTITION BY schedule_id ORDER BY slot) AS step"
            " FROM run) g WHERE step <> 1000000"
        ).fetchone()
        stretches = connection.execute("SELECT count(*) FROM fire_range").fetchone()
    assert gaps == (0,) and stretches == (0,), f"fires were lost or doubled: {gaps}, missed: {stretches}"

    def next_launch(at: int) -> float:
        return min(created - at for slot, created in rows if slot >= at) / 1000

    def latest(at: int, span: float) -> float:
        return (
            max((created - slot for slot, created in rows if at - 200_000 <= slot <= at + span * 1e6), default=0) / 1000
        )

    def calm() -> float:
        """What is usual between the faults: how late the launches of fires are, that were due well before the next."""
        faults = sorted([*killed, *frozen])
        usual = [
            (created - slot) / 1000
            for slot, created in rows
            if all(not at - 200_000 <= slot <= at + 8_000_000 for at in faults)
        ]
        return median(usual) if usual else 0.0

    after, worst = [next_launch(at) for at in killed], [latest(at, 1.0) for at in killed]
    how = f"{len(killed)} trials, two schedulers, {SCHEDULES} fires a second; usually {calm():.0f} ms late"
    found = []
    if killed:
        found += [
            at_most("kill -9 to the next launch, p50", median(after), "ms", 100, how),
            at_most("kill -9 to the next launch, p99", percentile(after, 0.99), "ms", 1000, how),
            at_most("the latest launch around it, p50", median(worst), "ms", None, "fires due from 0.2 s before on"),
            at_most("the latest launch around it, p99", percentile(worst, 0.99), "ms", None, "the same"),
        ]
    if frozen:
        late = [latest(at, FROZEN) for at in frozen]
        told = f"{len(frozen)} trials of {FROZEN:g} s, one of two schedulers stopped (SIGSTOP)"
        found += [
            at_most("latest launch in a freeze, p50", median(late), "ms", None, told),
            at_most("latest launch in a freeze, most", max(late), "ms", 5000, told),
        ]
    return found
