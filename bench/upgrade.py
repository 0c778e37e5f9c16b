"""A million runs, a hundred thousand that wait: the schema is upgraded while processes of the version before work on.

One is a thread with that version's statements. Where TIDEGATE_BENCH_BEFORE names a checkout of it (`git worktree add`),
its own `tidegate scheduler` and `worker` run too, with ten schedules due every second: measured is the longest time in
which none of their runs ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

from bench.before import BASE, Before, Locks, files, make
from bench.figures import Figure, Say, at_most, percentile
from bench.ground import Ground, ground
from tidegate.domain.instants import SECOND
from tidegate.domain.schedules import ScheduleSpec
from tidegate.domain.triggers import Interval
from tidegate.store import migrate
from tidegate.store.codec import encode

TICKING = 10
BESIDE = 6.0
"""Seconds before and after the upgrade that are looked at too."""


def measure(say: Say, *, runs: int = 1_000_000, live: int = 100_000) -> list[Figure]:
    checkout = os.environ.get("TIDEGATE_BENCH_BEFORE")
    with ground() as place:
        url = _database(place)
        make(url, runs, live)
        say(f"{runs:,} runs that ended and {live:,} that wait, at {BASE}")
        stored = files(url)
        with Locks(url) as locks:
            figure = _with_a_checkout(place, url, checkout) if checkout else _with_its_statements(url)
        rewritten = [name for name, file in files(url).items() if stored.get(name, file) != file]
        if rewritten or not migrate.status(url).current:
            raise SystemExit(f"not upgraded, or written anew: {rewritten}")
        say(f"locks that keep writers out, seen in {locks.looks:,} looks: {locks.held or 'none'}")
        what = f"the longest seen, on {runs:,} ended and {live:,} waiting runs"
        return [at_most("lock against writers", locks.longest * 1000, "ms", 1000, what), figure]


def _with_its_statements(url: str) -> Figure:
    with Before(url) as old:
        old.more(50)
        begun = len(old.lives)
        applied, took = _upgrade(url)
        ended = len(old.lives) + 1
        old.more(50)
    if old.faults:
        raise SystemExit(f"the version before said {old.faults}")
    usual, during = percentile(old.lives[:begun], 0.99), max(old.lives[max(begun - 1, 0) : ended])
    how = f"from made to its end; usually {usual * 1000:.0f} ms (p99); {applied} migrations in {took:.2f} s"
    return at_most("slowest run meanwhile", during * 1000, "ms", 2000, how)


def _with_a_checkout(place: Ground, url: str, checkout: str) -> Figure:
    with _at_work(place, url, checkout):
        began = time.time_ns() // 1000
        time.sleep(BESIDE)
        applied, took = _upgrade(url)
        time.sleep(BESIDE)
        gap = _longest_gap(url, began, time.time_ns() // 1000)
    how = (
        f"{TICKING} runs due every second, by scheduler and worker of {checkout}; {applied} migrations in {took:.2f} s"
    )
    return at_most("no run ended for", gap * 1000, "ms", 3000, how)


def _upgrade(url: str) -> tuple[int, float]:
    """How many migrations were applied, and in how many seconds."""
    began = time.monotonic()
    return len(migrate.upgrade(url)), time.monotonic() - began


def _database(place: Ground) -> str:
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE before")
    parts = {key: str(value) for key, value in conninfo_to_dict(place.url).items()}
    return "postgresql:///?" + urlencode({**parts, "dbname": "before"}, quote_via=quote)


@contextmanager
def _at_work(place: Ground, url: str, checkout: str) -> Iterator[None]:
    """Scheduler and worker of a checkout, at work while inside."""
    with psycopg.connect(url, autocommit=True) as connection:
        spec = encode(ScheduleSpec(program="noop", trigger=Interval(every="PT1S")))
        connection.execute("UPDATE revision SET spec = %s WHERE schedule_id <= %s", (spec, TICKING))
        connection.execute(
            "UPDATE clock SET cursor = n, next_due = n FROM (SELECT (extract(epoch FROM now()) * 1e6)::bigint AS n) d"
            " WHERE schedule_id <= %s",
            (TICKING,),
        )
    home = place.home / "before"
    home.mkdir(mode=0o700)
    environ = {**os.environ, "TIDEGATE_DATABASE_URL": url, "PYTHONPATH": str(Path(checkout).resolve())}
    processes = []
    with (home / "log").open("wb") as log:
        for role in ("scheduler", "worker"):
            command = [sys.executable, "-m", "tidegate.cli.main", role, "--home", str(home)]
            processes.append(subprocess.Popen(command, env=environ, stdout=log, stderr=log, cwd=checkout))
        try:
            _wait_for_runs(url, home / "log")
            yield
            if any(process.poll() is not None for process in processes):
                raise SystemExit(f"a process of the version before ended:\n{(home / 'log').read_text()}")
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(30)


def _wait_for_runs(url: str, log: Path) -> None:
    deadline = time.monotonic() + 60
    with psycopg.connect(url, autocommit=True) as connection:
        question = "SELECT count(*) FROM run WHERE schedule_id <= %s AND cause = 'fire' AND finished_at > slot + 10"
        while (connection.execute(question, (TICKING,)).fetchone() or (0,))[0] < 5 * TICKING:
            if time.monotonic() > deadline:
                raise SystemExit(f"the version before does not get to work:\n{log.read_text()}")
            time.sleep(0.2)


def _longest_gap(url: str, since: int, until: int) -> float:
    """Seconds in which none of the ticking schedules' runs ended."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT finished_at FROM run WHERE finished_at BETWEEN %s AND %s AND schedule_id <= %s ORDER BY 1",
            (since, until, TICKING),
        ).fetchall()
    ends = [since, *(int(at) for (at,) in rows), until]
    return max(after - before for before, after in zip(ends, ends[1:], strict=False)) / SECOND
