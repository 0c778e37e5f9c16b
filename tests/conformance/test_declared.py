"""What is declared beside schedules is told to those whom it concerns, and wakes no clock."""

from __future__ import annotations

import pytest

from conformance.worlds import World
from tidegate.domain.instants import MINUTE
from tidegate.domain.sinks import SinkSpec
from tidegate.engine.assessor import Assessor
from tidegate.engine.caretaker import Caretaker
from tidegate.engine.intake import Intake
from tidegate.engine.outcome import SHARED, Topic
from tidegate.engine.relay import Relay
from tidegate.engine.timekeeper import Timekeeper

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("LIFE-7")]


async def test_what_is_declared_beside_schedules_is_told_as_that(world: World) -> None:
    spec, document = SinkSpec(type="table", table="audit.events"), {"spec": {"type": "table", "table": "audit.events"}}
    async with world.store.changing() as tx:
        await tx.put_sink("audit", spec, document, world.start)
        assert set(tx.topics) == {Topic.DECLARED}
    async with world.store.changing() as tx:
        await tx.put_dataset("lake.sales.a", kind="iceberg", watch=MINUTE, document={}, now=world.start)
        assert set(tx.topics) == {Topic.DECLARED}
    async with world.store.changing() as tx:
        await tx.put_policy("nightly", {}, "ann", world.start)
        assert set(tx.topics) == {Topic.DECLARED}
    async with world.store.changing() as tx:
        assert await tx.delete_sink("audit")
        assert set(tx.topics) == {Topic.DECLARED}


def test_who_waits_for_clocks_is_not_woken_by_it_and_the_others_are() -> None:
    assert Topic.DECLARED in SHARED and Topic.DECLARED not in Timekeeper.topics
    assert all(Topic.CLOCK not in part.topics for part in (Relay, Intake, Assessor, Caretaker))
    assert all(Topic.DECLARED in part.topics for part in (Relay, Intake, Assessor, Caretaker))
