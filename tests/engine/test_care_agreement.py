"""What the status of a table says and what the engine does are one: policies, tables, people and time at random."""

from __future__ import annotations

import random
from typing import Any

import pytest
from engine.care import CareWorld
from engine.worlds import crank

from tidegate.control import policies, tables
from tidegate.domain.errors import TidegateError
from tidegate.domain.instants import DAY, HOUR, MINUTE
from tidegate.domain.maintenance.decision import Verdict
from tidegate.domain.maintenance.throttle import Ruling, Throttles

NAMES = [f"lake.raw.t{number}" for number in range(5)]
STEPS = 50


def operation(rng: random.Random) -> dict[str, Any]:
    triggers = [
        {"type": "cron", "expression": "0 */3 * * *"},
        {"type": "interval", "every": "PT2H"},
        {"type": "window_days", "every_days": 1},
    ]
    said: dict[str, Any] = {}
    if rng.random() < 0.6:
        said["schedule"] = {"trigger": rng.choice(triggers)}
        if rng.random() < 0.4:
            said["schedule"]["window"] = {"start": "01:00", "end": rng.choice(["09:00", "20:00"])}
    if rng.random() < 0.6:
        said["when"] = rng.choice(
            [{"small_file_percent": 20}, {"snapshot_count": 3, "logic": "all", "staleness": "1h"}]
        )
    if rng.random() < 0.3:
        said["min_interval"] = "PT90M"
    if rng.random() < 0.2:
        said["critical"] = {"max_delay": "P1D"}
    return said


def declare(world: CareWorld, rng: random.Random) -> None:
    chosen = rng.sample(["rewrite_data_files", "expire_snapshots", "rewrite_manifests", "compute_table_stats"], 2)
    budget = rng.choice([{}, {}, {"operations": 1}, {"tables": 2, "bytes": "40 MiB"}])
    world.policy(
        rng.choice(["one", "two"]),
        tables=rng.choice(["lake.**", "lake.raw.*", "lake.raw.t1"]),
        priority=rng.randrange(2),
        rank=rng.choice(["debt", "value"]),
        budget=budget,
        operations={name: operation(rng) for name in chosen},
    )


def happen(world: CareWorld, rng: random.Random) -> bool:
    """Something; whether a run ended, so that the engine knows more after its step than before."""
    match rng.randrange(8):
        case 0 | 1 | 2:
            world.write(rng.choice([1, 3, 9, 30]), rng.choice(NAMES))
        case 3:
            declare(world, rng)
        case 4:
            crank(policies.switch(world.store, on=rng.random() < 0.8, who="ann"))
        case 5:
            try:
                crank(tables.maintain(world.store, rng.choice(NAMES), who="ann"))
            except TidegateError:
                return False
        case _:
            for run in world.launch():
                name = world.run(run).given["table"]
                changed = rng.choice([True, False, None])
                if changed and rng.random() < 0.8:
                    world.lake.compact(name)
                outcome = rng.choice(["succeeded", "succeeded", "failed"])
                world.end(run, outcome, **({} if changed is None else {"changed": changed, "bytes_rewritten": 5}))
            return True
    return False


@pytest.mark.slow
@pytest.mark.requirement("CARE-8", "CARE-13")
@pytest.mark.parametrize("seed", range(4))
def test_what_the_status_shows_is_what_the_engine_does(seed: int) -> None:
    rng = random.Random(seed)
    strict = Throttles(failures=1, failure_wait=HOUR, unchanged=1, unchanged_wait=HOUR, min_interval=30 * MINUTE)
    ruling = Ruling() if seed < 2 else Ruling(conditions=seed % 2 == 0, throttles=strict)
    world = CareWorld(ruling)
    for name in NAMES:
        world.write(rng.randrange(1, 12), name)
    declare(world, rng)
    started = 0
    for _ in range(STEPS):
        ended = happen(world, rng)
        world.pass_time(rng.choice([MINUTE, 10 * MINUTE, HOUR, DAY // 3]))
        world.step(world.assessor)
        before = {one.order.run for one in world.open()}
        shown = {
            (name, one.operation.value)
            for name in NAMES
            for one in world.status(name).decisions
            if one.verdict is Verdict.RUN
        }
        world.step(world.caretaker)
        done = {(one.order.table, one.order.operation) for one in world.open() if one.order.run not in before}
        if not ended:
            assert done == shown
        started += len(done)
    assert started
