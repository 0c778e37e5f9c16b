"""From a commit to a run that knows exactly what is new: watcher, matcher and admitter on the real store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lake.conftest import Watching, rows
from lake.test_care_attempts import Attempted
from tidegate.control import apply, care
from tidegate.documents.parsing import parse
from tidegate.domain.instants import SECOND
from tidegate.domain.maintenance.operations import Operation
from tidegate.engine.admitter import Admitter
from tidegate.engine.matcher import Matcher
from tidegate.ports.maintaining import Wish

pytestmark = pytest.mark.anyio
FLIGHTS, WEATHER = "lake.raw.flights", "lake.raw.weather"


async def deploy(watching: Watching, trigger: dict[str, Any], arguments: dict[str, Any]) -> None:
    spec = {"program": "mart", "enabled": True, "trigger": trigger, "arguments": arguments}
    documents = [
        {"kind": "Program", "metadata": {"name": "mart"}, "spec": {"type": "command", "argv": ["true"]}},
        {"kind": "Schedule", "metadata": {"name": "mart"}, "spec": spec},
    ]
    declared = [parse({"apiVersion": "tidegate/v1", **one}) for one in documents]
    await apply.apply(watching.store, declared, who="ann")
    watching.now = await watching.store.now()
    watching.watchers[0]._stale = True


async def turn(watching: Watching) -> list[Any]:
    """Look at the tables, bring what is new to the triggers, let runs go; all runs, oldest first."""
    watching.now += 6 * SECOND
    await watching.step(watching.watchers[0])
    for part in (Matcher(watching.store, watching.fence), Admitter(watching.store, watching.fence)):
        for _ in range(3):
            await part.step(watching.now)
    page, _ = await watching.store.runs(None, schedule=None, states=(), since=None, before=None, limit=99)
    return list(page)[::-1]


@pytest.mark.requirement("DATA-1", "DATA-11", "LAKE-1")
async def test_a_run_is_given_the_range_that_made_it_run_and_gives_it_back_when_it_never_starts(
    watching: Watching,
) -> None:
    flights = watching.make()
    flights.append(rows(("00", 0)))
    past = flights.current_snapshot().snapshot_id  # type: ignore[union-attr]
    arguments = {"days": "{{ inputs.flights.partitions | join:',' }}", "upto": "{{ inputs.flights.to_snapshot }}"}
    await deploy(watching, {"type": "partition", "dataset": FLIGHTS, "count": 2}, arguments)
    assert await turn(watching) == []
    flights.append(rows(("01", 1)))
    assert await turn(watching) == []
    flights.append(rows(("01", 1)))
    assert await turn(watching) == []
    flights.append(rows(("02", 2)))
    [first] = await turn(watching)
    upto = flights.current_snapshot().snapshot_id  # type: ignore[union-attr]
    given = first.inputs[FLIGHTS]
    assert (given["from_snapshot"], given["to_snapshot"], given["rows"]) == (past, upto, 3)
    assert given["partitions"] == ["day=01", "day=02"]
    assert first.arguments == {"days": "day=01,day=02", "upto": upto}
    await end(watching, first.key)
    watching.catalog.drop_table("raw.flights")
    fresh = watching.make()
    fresh.append(rows(("07", 1), ("08", 1)))
    second = (await turn(watching))[-1]
    given = second.inputs[FLIGHTS]
    assert (given["from_snapshot"], given["to_snapshot"]) == (None, fresh.current_snapshot().snapshot_id)  # type: ignore[union-attr]
    # The first one never started, so its range is in the next one's input.
    assert second.arguments["days"] == "day=01,day=02,day=07,day=08"
    assert given["rows"] == 5


@pytest.mark.requirement("CARE-11", "DATA-11")
async def test_the_snapshots_that_are_needed_are_those_that_somebody_will_read_on_from(watching: Watching) -> None:
    """A cursor, what is owed to a schedule, and the range of a live run; of a run that has ended no more."""
    flights = watching.make()
    flights.append(rows(("00", 0)))
    past = flights.current_snapshot().snapshot_id  # type: ignore[union-attr]

    async def needed() -> list[int]:
        found = await watching.store.snapshots_needed([FLIGHTS, WEATHER])
        assert set(found) <= {FLIGHTS}
        return list(found.get(FLIGHTS, ()))

    assert await needed() == []
    await deploy(watching, {"type": "partition", "dataset": FLIGHTS, "count": 2}, {})
    await turn(watching)
    assert await needed() == [past]
    flights.append(rows(("01", 1)))
    await turn(watching)
    middle = flights.current_snapshot().snapshot_id  # type: ignore[union-attr]
    assert await needed() == sorted([past, middle]), "what is owed begins after the first, the watcher is at the second"
    flights.append(rows(("02", 2)))
    [run] = await turn(watching)
    last = flights.current_snapshot().snapshot_id  # type: ignore[union-attr]
    assert await needed() == sorted([past, last])
    await end(watching, run.key)
    await turn(watching)
    assert await needed() == sorted([past, last]), "it never started: its range is owed again"


async def end(watching: Watching, run: Any) -> None:
    """Cancel a run that has not started, so that the next may go."""
    async with watching.store.changing() as tx:
        await tx.request_stop(run, "ann", watching.now)


@pytest.mark.requirement("DATA-4", "DATA-11")
async def test_a_dataset_that_brought_nothing_is_an_empty_input(watching: Watching) -> None:
    flights = watching.make()
    watching.make("raw.weather")
    either = {
        "type": "any",
        "triggers": [{"type": "data_size", "dataset": name, "rows": 1} for name in (FLIGHTS, WEATHER)],
    }
    await deploy(watching, either, {"n": "{{ inputs.weather.rows }}"})
    await turn(watching)
    flights.append(rows(("01", 1)))
    [one] = await turn(watching)
    assert set(one.inputs) == {FLIGHTS, WEATHER}
    assert (one.inputs[WEATHER]["from_snapshot"], one.inputs[WEATHER]["to_snapshot"]) == (None, None)
    assert one.arguments == {"n": 0}


@pytest.mark.requirement("CARE-11", "DATA-11")
async def test_what_was_needed_by_nobody_when_a_run_was_made_stays_where_somebody_reads_from_it_by_now(
    watching: Watching, database_url: str, tmp_path: Path
) -> None:
    """A run may begin hours after it was made, and an attempt is tried again by what it was given."""
    flights = watching.make()
    for number in range(4):
        flights.append(rows((f"{number:02}", number)))
    ids = [one.snapshot_id for one in flights.snapshots()]
    given = care.arguments_of(Wish(table=FLIGHTS, operation=Operation.EXPIRE_SNAPSHOTS, options={"older_than": 1000}))

    def asked() -> tuple[list[int], int]:
        attempt = Attempted(flights.metadata_location, tmp_path, database=database_url, **given)
        end = attempt.end()
        assert end["outcome"] == "succeeded", end
        return [one for one in ids if any(str(one) in text for text in attempt.asked)], len(attempt.asked)

    assert asked() == (ids[:3], 1), "all but the newest"
    async with watching.store.changing() as tx:
        await tx.put_dataset(FLIGHTS, kind="iceberg", watch=None, document={}, now=watching.now)
    await deploy(watching, {"type": "partition", "dataset": FLIGHTS, "count": 2}, {})
    await turn(watching)
    flights.append(rows(("04", 4)))
    ids = [one.snapshot_id for one in flights.snapshots()]
    assert asked() == (ids[:3], 1), "the watcher is to read on behind the fourth"
