"""Maintenance of a real table, cancelled at random moments while a writer goes on: `bench cancels` in short."""

from __future__ import annotations

import asyncio
import random

import pytest

from bench.cancels import OPERATIONS, Rows
from tidegate.domain.programs import Maintenance
from tidegate.ports.launching import Phase, StopHow
from tidegate.ports.spark import DriverSpec

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.requirement("CARE-10", "CARE-11")
def test_maintenance_that_is_cancelled_while_a_writer_goes_on_loses_no_row(lake):
    """`python -m bench cancels` cancels 200, and measures how soon it is quiet."""
    rows = Rows(DriverSpec(home=str(lake.home), catalog_url=lake.url, settings=lake.settings))
    rows.append(96)
    rng = random.Random(5)

    async def scenario() -> list[str]:
        ends = []
        async with lake.worker() as launcher:
            for name, options in OPERATIONS[:5]:
                given = {"table": "lake.bench.cancelled", "operation": name, "options": options, "force": True}
                launch = lake.launch(Maintenance(), arguments=given)
                await launcher.start(launch)
                await lake.until(launcher, launch, Phase.RUNNING, Phase.FINISHED)
                await asyncio.to_thread(rows.append, 6)
                await asyncio.sleep(rng.uniform(0, 1.5))
                await launcher.stop(launch.attempt, StopHow.POLITE)
                ends.append((await lake.until(launcher, launch, Phase.FINISHED, seconds=60)).outcome)
                assert not await asyncio.to_thread(rows.lost), (name, ends, lake.log(launch))
        return ends

    try:
        ends = asyncio.run(scenario())
    finally:
        rows.catalog.engine.dispose()
    assert "cancelled" in ends and set(ends) <= {"cancelled", "succeeded"}, ends
