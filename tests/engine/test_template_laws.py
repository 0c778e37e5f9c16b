"""Arguments built from what a run was given: filled in once, when it goes, by the engine of the real system."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.domain.errors import Invalid
from tidegate.sim.testing import World

PROGRAM = {"kind": "Program", "metadata": {"name": "count"}, "spec": {"type": "command", "argv": ["true"]}}
CRON = {"type": "cron", "expression": "0 * * * *"}


def schedule(arguments: dict[str, Any], trigger: dict[str, Any] = CRON, **spec: Any) -> dict[str, Any]:
    whole = {"program": "count", "trigger": trigger, "arguments": arguments, **spec}
    return {"kind": "Schedule", "metadata": {"name": "count"}, "spec": whole}


@pytest.mark.requirement("DATA-11")
def test_arguments_of_a_clock_run_are_filled_in_from_its_times(world: World) -> None:
    arguments = {"day": "{{ fire_time | date:'%Y-%m-%d' }}", "since": "{{ previous_fire_time }}", "plain": 3}
    world.deploy([PROGRAM, schedule(arguments)], at="2026-03-28T22:30Z")
    world.advance("2h")
    told = sorted((one.arguments["day"], one.arguments["since"] or "") for one in world.runs("count"))
    assert told == [("2026-03-28", ""), ("2026-03-29", "2026-03-28T23:00:00Z")]
    assert {one.arguments["plain"] for one in world.runs("count")} == {3}


def test_arguments_given_by_hand_are_taken_as_they_are(world: World) -> None:
    world.deploy([PROGRAM, schedule({"day": "{{ fire_time }}", "by": "{{ cause.type }}"})], at="2026-03-28T22:30Z")
    world.trigger("count", day="{{ nonsense }}")
    world.advance("1m")
    [one] = world.runs("count")
    assert one.arguments == {"day": "{{ nonsense }}", "by": "manual"}


def test_an_unknown_name_is_refused_when_it_is_declared(world: World) -> None:
    with pytest.raises(Invalid, match=r"spec\.arguments\.n.*did you mean 'fire_time'"):
        world.deploy([PROGRAM, schedule({"n": "{{ fire_tme }}"})])
    flights = {"type": "partition", "dataset": "lake.raw.flights"}
    with pytest.raises(Invalid, match=r"spec\.arguments\.n.*is no dataset of the trigger; did you mean 'flights'"):
        world.deploy([PROGRAM, schedule({"n": "{{ inputs.flihgts.rows }}"}, flights)])
    world.deploy([PROGRAM, schedule({"n": "{{ inputs.flights.rows }}"}, flights)])


def test_a_template_that_cannot_be_filled_in_fails_its_run_and_says_why(world: World) -> None:
    world.deploy([PROGRAM, schedule({"n": "{{ fire_time | count }}"})], at="2026-03-28T22:30Z")
    world.advance("1h")
    [one] = world.runs("count")
    assert one.state == "failed"
    assert "arguments.n" in one.reason and "takes a list" in one.reason
