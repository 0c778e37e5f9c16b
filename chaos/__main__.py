"""`make chaos`, or `python -m chaos`: real processes, real faults, and a history that proves what came of it.

    python -m chaos --seconds 20 --seed 7          # the short form
    python -m chaos --minutes 60                   # the long one

Exit status 0 when every law held, 1 when one did not; then everything is kept where the last lines say.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import psycopg

from chaos.cluster import Cluster
from chaos.faults import Chaos
from chaos.history import History, read
from chaos.laws import judge
from chaos.workload import NAMES, Workload

QUIET = 4.0
"""Seconds after the last event until silence has decided everything."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    seconds = options.minutes * 60 if options.minutes else options.seconds
    home = Path(options.home or tempfile.mkdtemp(prefix="tidegate-chaos-"))
    if home.exists() and not (home.is_dir() and not any(home.iterdir())):
        raise SystemExit(f"{home} is no empty directory; name one that is, one that is not there yet, or none")
    rng = Random(f"chaos {options.seed}")
    cluster = Cluster(home, schedulers=options.schedulers, workers=options.workers, apis=options.apis)
    chaos = Chaos(cluster, Random(f"faults {options.seed}"), pause=options.pause, freeze=options.freeze)
    began = time.monotonic()
    try:
        cluster.start()
        print(f"{len(cluster.members)} processes are up after {time.monotonic() - began:.1f} s", flush=True)
        history, audit, slowest = _live(cluster, chaos, rng, seconds)
    except BaseException:
        cluster.stop()
        print(f"what is there: {home}", file=sys.stderr)
        raise
    left = cluster.stop()
    found = judge(history)
    found["everybody_leaves_when_asked"] = left
    found["nobody_ends_by_itself"] = cluster.unasked
    found["the_audit_holds"] = [] if audit == "holds" else [audit]
    broken = sum(map(len, found.values()))
    print(_again(options))
    print(_report(history, chaos, found, seconds, time.monotonic() - began, slowest), flush=True)
    if broken:
        print(f"again: {_again(options)}; kept: {home}")
        return 1
    if not options.home:
        shutil.rmtree(home, ignore_errors=True)
    return 0


def _live(cluster: Cluster, chaos: Chaos, rng: Random, seconds: float) -> tuple[History, str, float]:
    """Work under faults, then calm, then rest; what is on record, and how long it took to come to rest."""
    work = Workload([one.url for one in cluster.of("api")], cluster.journal, rng)
    work.declare()
    fed, done = threading.Event(), threading.Event()
    publishers = work.run(fed)
    faults = threading.Thread(target=chaos.run, args=(done,), name="faults")
    faults.start()
    time.sleep(seconds)
    done.set()
    faults.join()
    cluster.calm()
    tending = threading.Event()
    tender = threading.Thread(target=_tend, args=(cluster, tending))
    tender.start()
    calm = time.monotonic()
    try:
        fed.set()
        for one in publishers:
            one.join(150)
        if any(one.is_alive() for one in publishers):
            raise SystemExit("what was published was never acknowledged")
        time.sleep(QUIET)
        work.rest(*(name for name in NAMES if name != "follows"))
        _drain(cluster)
        time.sleep(1.0)
        work.rest("follows")
        _drain(cluster)
        slowest = time.monotonic() - calm
        audit = _audit(cluster)
        history = read(cluster.server.url, cluster.of("api")[0].url, cluster.journal)
        history.published, history.triggered, history.once_at = work.published, work.triggered, work.once_at
        return history, audit, slowest
    finally:
        tending.set()
        tender.join()


def _tend(cluster: Cluster, stop: threading.Event) -> None:
    """Who is dead comes up again; nothing else is done to anybody."""
    rng = Random(0)
    while not stop.wait(0.1):
        cluster.tend(rng)


def _drain(cluster: Cluster, patience: float = 90.0) -> None:
    """Until nothing waits or runs, or no less of it than `patience` seconds ago, which the laws then tell."""
    least, deadline = None, time.monotonic() + patience
    with psycopg.connect(cluster.server.url, autocommit=True) as connection:
        while time.monotonic() < deadline:
            row = connection.execute(
                "SELECT (SELECT count(*) FROM run_live) + (SELECT count(*) FROM event_inbox)"
                " + (SELECT count(*) FROM sink WHERE pos < (SELECT coalesce(max(pos), 0) FROM event))"
            ).fetchone()
            if row == (0,) and cluster.ready():
                return
            if row is not None and (least is None or row[0] < least):
                least, deadline = row[0], time.monotonic() + patience
            time.sleep(0.1)


def _audit(cluster: Cluster) -> str:
    """Tidegate's own word."""
    done = subprocess.run(
        [sys.executable, "-m", "tidegate.cli.main", "audit"],
        env={"TIDEGATE_URL": cluster.of("api")[0].url, "PATH": "/usr/bin:/bin", **_python()},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return "holds" if done.returncode == 0 else (done.stdout + done.stderr).strip()


def _python() -> dict[str, str]:
    import os

    return {name: os.environ[name] for name in ("PYTHONPATH", "HOME") if name in os.environ}


def _report(
    history: History, chaos: Chaos, found: dict[str, list[str]], seconds: float, took: float, slowest: float
) -> str:
    outcomes = Counter(str(run.outcome) for run in history.runs)
    for stretch in history.stretches:
        outcomes[stretch.outcome] += stretch.n
    ends = Counter(one.outcome for one in history.attempts)
    late = sorted(run.created_at - run.slot for run in history.runs if run.cause == "fire")
    lines = [
        f"{seconds:g} s of faults, {took:.0f} s in all; at rest {slowest:.1f} s after the last fault",
        f"  faults    {sum(chaos.counts.values())}: " + _listed(chaos.counts),
        f"  fires     {len(late)}; recorded after p50 {_ms(late, 0.5)}, p99 {_ms(late, 0.99)}, most {_ms(late, 1)}",
        f"  runs      {len(history.runs)}: " + _listed(outcomes),
        f"  attempts  {len(history.attempts)}: " + _listed(ends),
        f"  events    {len(history.published)} acknowledged, each once in the log; "
        f"{len(history.triggered)} runs asked for by hand",
        f"  sink      {len(history.arrived)} events",
        f"  journal   {len(history.journal)} lines of the programs' own",
    ]
    for law, faults in found.items():
        lines.append(f"  {'BROKEN' if faults else 'held':8}  {law.replace('_', ' ')}")
        lines += [f"              {fault}" for fault in faults[:10]]
        if len(faults) > 10:
            lines.append(f"              and {len(faults) - 10} more")
    return "\n".join(lines)


def _again(options: argparse.Namespace) -> str:
    """The command that draws the same faults."""
    said = {name: value for name, value in vars(options).items() if name != "home" and value not in (None, 0.0)}
    return " ".join(["python -m chaos", *(f"--{name} {value:g}" for name, value in said.items())])


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


def _ms(values: Sequence[int], share: float) -> str:
    if not values:
        return "-"
    if share == 0.5:
        return f"{statistics.median(values) / 1000:.0f} ms"
    return f"{values[min(len(values) - 1, int(share * len(values)))] / 1000:.0f} ms"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="how long faults are let loose")
    parser.add_argument("--minutes", type=float, default=0.0, help="the same in minutes")
    parser.add_argument("--seed", type=int, default=1, help="draws the faults")
    parser.add_argument("--schedulers", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--apis", type=int, default=2)
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between two faults, on average")
    parser.add_argument("--freeze", type=float, default=9.0, help="the longest freeze and darkness, in seconds")
    parser.add_argument("--home", help="where everything is kept; left out: a directory that is removed afterwards")
    return parser


if __name__ == "__main__":
    sys.exit(main())
