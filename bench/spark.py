"""No-op programs on a warm Spark driver: one statement of SQL, and one PySpark function in a child process.

A person triggers a run and waits for its end, again and again, with scheduler and worker running as always; the first
runs bring the driver up and are not counted. What the function itself reads from the clock is its start. A statement
cannot tell when it began, so its whole run stands for that, recorded end and all: an upper bound.
"""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

from bench import ground
from bench.figures import Figure, Say, at_most, median
from tidegate.control import runs as control
from tidegate.domain.ids import AttemptKey
from tidegate.domain.instants import SECOND
from tidegate.domain.programs import PySpark, SparkSql
from tidegate.domain.runs import ENDS, State
from tidegate.domain.triggers import Cron
from tidegate.launchers.logs import FileLogs
from tidegate.store.store import PostgresStore

JARS = Path(__file__).resolve().parent.parent / ".venv" / "jars"
WARM_UP = 3
PROGRAM = """import time
def noop(run, spark):
    print(f"started={time.time_ns() // 1000}", flush=True)
"""


def measure(say: Say, *, runs: int = 15) -> list[Figure]:
    """Medians; needs Java and the jars, which a first run fetches."""
    environment = {"TIDEGATE_SPARK__JARS_DIR": str(JARS)}
    with ground.ground() as place, ground.roles(place, "scheduler", "worker", environment=environment):
        return asyncio.run(_measure(say, place, runs))


async def _measure(say: Say, place: ground.Ground, runs: int) -> list[Figure]:
    file = place.home / "programs.py"
    file.write_text(PROGRAM)
    store = PostgresStore(place.url)
    never = Cron(expression="0 0 1 1 *", timezone="UTC")
    found = {}
    try:
        for name, program in (("sql", SparkSql(sql="SELECT 1")), ("pyspark", PySpark(entry=f"{file}:noop"))):
            await ground.declare(store, name, program, never)
            times = [await _once(store, place, name) for _ in range(WARM_UP + runs)]
            found[name] = times[WARM_UP:]
            starts, ends = ([one[column] for one in found[name]] for column in (0, 1))
            say(f"{name}: started after {median(starts):.0f} ms, ended {median(ends):.0f}, first run {times[0][1]:.0f}")
    finally:
        await store.close()
    sql, pyspark = found["sql"], found["pyspark"]
    how = f"from the request of a run, on a warm driver; median of {runs}"
    return [
        at_most(
            "no-op Spark SQL ended", median([one[1] for one in sql]), "ms", 300, f"{how}; an upper bound of started"
        ),
        at_most("no-op PySpark started", median([one[0] for one in pyspark]), "ms", 2000, how),
        at_most("no-op PySpark ended", median([one[1] for one in pyspark]), "ms", None, how),
    ]


async def _once(store: PostgresStore, place: ground.Ground, schedule: str) -> tuple[float, float]:
    """Milliseconds from the request to the start, where the program says when it was, and to the end on record."""
    run = await control.trigger(store, ground.NAMESPACE, schedule, who="bench")
    deadline = time.monotonic() + 240
    while run.state not in ENDS:
        assert time.monotonic() < deadline, f"{schedule} does not end: {run.state}"
        await asyncio.sleep(0.01)
        run = await control.get(store, str(run.key))
    said = (await FileLogs(place.home).read(AttemptKey(run.key, 1), 0)).text
    assert run.state is State.SUCCEEDED, said
    assert run.finished_at is not None
    started = re.search(r"started=(\d+)", said)
    at = int(started[1]) if started else run.finished_at
    return (at - run.key.slot) / SECOND * 1000, (run.finished_at - run.key.slot) / SECOND * 1000
