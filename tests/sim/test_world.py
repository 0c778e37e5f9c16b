"""The World that users test their applications in: the real engine, virtual time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tidegate import App, Run, cron
from tidegate.domain.errors import Invalid, NotFound
from tidegate.sim.testing import World

PROGRAM = {"kind": "Program", "metadata": {"name": "count"}, "spec": {"type": "command", "argv": ["true"]}}


def schedule(name: str = "count", **spec: Any) -> dict[str, Any]:
    spec = {"program": "count", "trigger": {"type": "cron", "expression": "* * * * *"}, **spec}
    return {"kind": "Schedule", "metadata": {"name": name}, "spec": spec}


calls: list[Any] = []
app = App("greetings", timezone="Europe/Berlin")


@app.python
def hello(run: Run, who: str) -> None:
    calls.append((who, run.fire_time))
    if who == "nobody":
        raise LookupError("there is nobody")


app.schedule("hello", hello.bind(who="Berlin"), when=cron("30 7 * * MON-FRI"))


def test_the_fixture_is_a_world(world: World) -> None:
    world.deploy([PROGRAM, schedule()], at="2026-03-29T00:00Z")
    world.advance("1h")
    runs = world.runs("count")
    assert len(runs) == 60
    assert {run.state for run in runs} == {"succeeded"}
    assert runs[0].fire_time == datetime(2026, 3, 29, 0, 1, tzinfo=UTC)
    assert runs[1].previous_fire_time == runs[0].fire_time


@pytest.mark.requirement("TIME-2", "TIME-7")
def test_an_app_runs_at_its_local_time_also_when_clocks_change() -> None:
    world = World()
    world.deploy(app, at="2026-03-27T00:00Z")
    world.advance("4d")
    assert [run.fire_time and (run.fire_time.day, run.fire_time.hour) for run in world.runs("hello")] == [
        (27, 6),
        (30, 5),
    ]


def test_functions_are_called_only_when_asked_for() -> None:
    calls.clear()
    for execute in (False, True):
        world = World(execute=execute)
        world.deploy(app, at="2026-03-27T00:00Z")
        world.advance("1d")
    assert calls == [("Berlin", datetime(2026, 3, 27, 6, 30, tzinfo=UTC))]


def test_what_a_function_raises_fails_its_run() -> None:
    world = World(execute=True)
    world.deploy(app, at="2026-03-27T00:00Z")
    run = world.trigger("hello", who="nobody")
    world.advance("1s")
    run = world.run(run)
    assert (run.state, run.cause) == ("failed", "manual")
    assert run.attempts[0].error is not None and run.attempts[0].error["message"] == "LookupError: there is nobody"


@pytest.mark.requirement("FAIL-2")
def test_a_failing_attempt_is_tried_again() -> None:
    world = World()
    world.deploy([PROGRAM, schedule(retry={"max_attempts": 3, "delay": "PT10S"})])
    world.behave("count", takes="5s", outcomes=["failed", "crashed"])
    world.advance("2m")
    run = world.runs("count")[0]
    assert (run.state, [attempt.state for attempt in run.attempts]) == ("succeeded", ["failed", "crashed", "succeeded"])


@pytest.mark.requirement("FAIL-2")
def test_a_schedule_that_says_so_pauses_when_a_run_used_up_its_attempts() -> None:
    world = World()
    world.deploy([PROGRAM, schedule(retry={"max_attempts": 2, "delay": "PT1S", "then": "pause"})])
    world.behave("count", takes="5s", outcomes=["failed"] * 2)
    world.advance("10m")
    assert [run.state for run in world.runs("count")][:2] == ["failed", "waiting"], (
        "no data is lost, and nothing starts"
    )
    assert "suspended (hold)" in world.runs("count")[1].waiting_for[0]["why"]


@pytest.mark.requirement("CATCH-1", "CATCH-4", "OPS-11")
def test_of_an_outage_longer_than_the_window_the_rest_is_on_record_as_missed() -> None:
    world = World()
    world.deploy([PROGRAM, schedule(catch_up={"policy": "all", "window": "PT10M", "max": 100})])
    world.advance("1m")
    with world.down():
        world.advance("1h30s")
    world.advance("1m")
    assert world.missed("count") + len(world.runs("count")) == 62, "each fire has its outcome"
    assert world.missed("count") == 50


@pytest.mark.requirement("CATCH-1", "CATCH-4")
def test_the_newest_missed_fire_runs_when_the_scheduler_is_back() -> None:
    world = World()
    world.deploy([PROGRAM, schedule()])
    world.advance("1m")
    with world.down():
        world.advance("10m30s")
    assert (len(world.runs("count")), world.missed("count")) == (2, 9)


@pytest.mark.requirement("GATE-1")
def test_concurrency_holds_runs_back() -> None:
    world = World()
    world.deploy([PROGRAM, schedule()])
    world.behave("count", takes="150s")
    world.advance("3m")
    assert [run.state for run in world.runs("count")] == ["running", "waiting", "waiting"]
    assert world.runs("count")[1].waiting_for[0]["constraint"] == "concurrency"


@pytest.mark.requirement("LIFE-2", "CATCH-3")
def test_a_disabled_schedule_rests_and_is_not_caught_up() -> None:
    world = World()
    world.deploy([PROGRAM, schedule()])
    world.advance("2m")
    world.disable("count")
    world.advance("1h")
    world.enable("count")
    world.advance("1m")
    assert (len(world.runs("count")), world.missed("count")) == (3, 0)


def test_a_wrong_document_says_everything_that_is_wrong() -> None:
    with pytest.raises(Invalid) as refusal:
        World().deploy([PROGRAM, schedule(trigger={"type": "cron", "expression": "61 * * * *"}, priority=200)])
    assert {fault.path for fault in refusal.value.faults} == {"spec.trigger.expression", "spec.priority"}


def test_an_unknown_schedule_is_refused() -> None:
    with pytest.raises(NotFound):
        World().trigger("nothing")
