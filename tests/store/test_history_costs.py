"""What maintenance is decided by (durations, rates, failures in a row) is what history says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from conformance.worlds import World
from psycopg.rows import dict_row

from tidegate.control import care
from tidegate.domain.instants import HOUR, MINUTE, SECOND, Duration
from tidegate.domain.maintenance.state import SMOOTHING
from tidegate.domain.maintenance.wire import history_of
from tidegate.domain.retry import Finish
from tidegate.domain.runs import State
from tidegate.engine.caretaker import Caretaker
from tidegate.ports.engine import AttemptEnd
from tidegate.ports.tables import CareOrder
from tidegate.store.store import PostgresStore

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
TABLE, OPERATION = "lake.raw.flights", "rewrite_data_files"
PAST: list[tuple[str, Duration, dict[str, Any] | None]] = [
    ("succeeded", 10 * SECOND, {"changed": True, "bytes_rewritten": 4000}),
    ("failed", 3 * SECOND, None),
    ("succeeded", 30 * SECOND, {"changed": True, "bytes_rewritten": 3000}),
    ("succeeded", 2 * SECOND, {"changed": False, "bytes_rewritten": 0}),
    ("cancelled", 9 * SECOND, None),
    ("failed", 5 * SECOND, None),
    ("timed_out", 6 * SECOND, None),
]


@pytest.fixture
async def world(emptied_database_url: str, anyio_backend: str) -> AsyncIterator[World]:
    url = emptied_database_url
    async with await World.begin(PostgresStore(url), lambda: PostgresStore(url)) as made:
        yield made


@pytest.mark.requirement("OPS-9", "CARE-6", "FAIL-7")
async def test_what_is_expected_of_an_operation_follows_from_its_rows_of_history(
    world: World, emptied_database_url: str
) -> None:
    schedule = await world.schedule("care", due=None)
    caretaker = Caretaker(world.store, care.begin, world.scheduler)
    for number, (outcome, took, result) in enumerate(PAST):
        at = world.at(number * HOUR)
        run = await world.manual(schedule, at)
        order = CareOrder(run=run, table=TABLE, operation=OPERATION, policy="", policy_rev=0, manual=True, bytes=0)
        async with world.store.changing() as tx:
            await tx.reserve([order], at)
        launches = await world.begin_runs(at + SECOND)
        note = None if result is None else {"code": "maintenance.done", "message": "done", "result": result}
        async with world.store.transaction(world.worker) as tx:
            then = Finish(outcome=State(outcome), reason="")
            [launch] = launches
            end = AttemptEnd(attempt=launch.attempt, outcome=outcome, error=note, ago=0, ran=True, then=then)
            await tx.ended([end], at + SECOND + took)
        await caretaker.step(at + MINUTE)

    known = history_of((await world.store.care([TABLE]))[TABLE][OPERATION])
    with psycopg.connect(emptied_database_url, row_factory=dict_row) as connection:
        rows = connection.execute(
            "SELECT outcome, changed, duration_seconds, bytes_rewritten FROM tidegate_history.maintenance"
            " WHERE table_name = %s AND operation = %s ORDER BY finished_at",
            [TABLE, OPERATION],
        ).fetchall()
    assert [row["outcome"] for row in rows] == [outcome for outcome, _, _ in PAST]
    worked = [row for row in rows if row["outcome"] == "succeeded" and row["changed"]]
    seconds, rate = None, None
    for row in worked:
        fresh = row["bytes_rewritten"] / row["duration_seconds"]
        seconds = smoothed(seconds, row["duration_seconds"])
        rate = smoothed(rate, fresh)
    judged = [row for row in rows if row["outcome"] != "cancelled"]
    streak = next(place for place, row in enumerate(reversed(judged)) if row["outcome"] == "succeeded")
    assert known.seconds == pytest.approx(seconds) and known.bytes_per_second == pytest.approx(rate)
    assert (known.failures, known.unchanged) == (streak, 1) == (2, 1)


def smoothed(old: float | None, new: float) -> float:
    return new if old is None else (1 - SMOOTHING) * old + SMOOTHING * new
