"""From a commit to a run that knows exactly what is new: watcher, matcher and admitter on the real store."""

from __future__ import annotations

from typing import Any

import pytest

from lake.conftest import Watching, rows
from tidegate.control import apply
from tidegate.documents.parsing import parse
from tidegate.domain.instants import SECOND
from tidegate.engine.admitter import Admitter
from tidegate.engine.matcher import Matcher

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
    await watching.watchers[0].step(watching.now)
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
