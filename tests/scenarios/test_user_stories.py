"""User stories 1, 6 and 7 of the data-platform text, in virtual time: thousands of schedules at fixed times, priorities
when there is more work than room, and maintenance once a day in a window."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tidegate.sim.testing import World, WorldRun

MINUTE = timedelta(minutes=1)


def delay_of(run: WorldRun) -> timedelta:
    assert run.started_at is not None and run.fire_time is not None
    return run.started_at - run.fire_time


@pytest.mark.slow
@pytest.mark.requirement("LIFE-7", "TIME-2")
def test_story_1_five_thousand_schedules_run_at_their_times() -> None:
    world = World(at="2026-03-10T23:00Z")
    program = {"kind": "Program", "metadata": {"name": "load"}, "spec": {"type": "command", "argv": ["true"]}}
    schedules = [
        {
            "kind": "Schedule",
            "metadata": {"name": f"feed-{number}"},
            "spec": {
                "program": "load",
                "trigger": {"type": "cron", "expression": f"{number % 60} {number % 24} * * *"},
            },
        }
        for number in range(5000)
    ]
    world.deploy([program, *schedules])
    world.advance("25h")
    runs = world.runs()
    times = Counter(run.schedule for run in runs)
    assert len(times) == 5000 and set(times.values()) <= {1, 2}  # two of those of the twenty-fifth hour
    for run in runs:
        number = int(run.schedule.removeprefix("feed-"))
        assert run.fire_time is not None
        assert (run.fire_time.minute, run.fire_time.hour) == (number % 60, number % 24)
        assert run.state == "succeeded" and delay_of(run) <= MINUTE
    assert world.missed() == 0


@pytest.mark.requirement("GATE-14", "FAIL-8")
def test_story_6_important_feeds_are_on_time_and_the_others_catch_up() -> None:
    """For three hours there is a quarter more work than two slots can do. The less important wait for up to 45 minutes;
    80 points of priority are worth 80 minutes, so nothing important ever waits for them."""
    world = World(at="2026-03-10T00:00Z")
    world.deploy({"kind": "Pool", "metadata": {"name": "small"}, "spec": {"slots": 2}})
    spec = {"type": "command", "argv": ["true"], "pool": "small"}
    busy = {"type": "cron", "expression": "*/10 0-2 * * *"}
    for name, priority in (("high", 90), *((f"low-{number}", 10) for number in range(4))):
        world.deploy({"kind": "Program", "metadata": {"name": name}, "spec": spec})
        world.behave(name, takes="5m")
        world.schedule(name, when=busy, priority=priority, waiting="all")
    world.advance("8h")
    high, low = world.runs("high"), [run for run in world.runs() if run.schedule != "high"]
    assert {run.state for run in (*high, *low)} == {"succeeded"}
    assert len(high) == 17 and len(low) == 4 * 17  # nothing is dropped; the first minute of the day had passed
    assert all(delay_of(run) <= 5 * MINUTE for run in high)  # at most until a slot is free
    assert 30 * MINUTE < max(map(delay_of, low)) < 80 * MINUTE
    for run in low:  # due when they were due, whatever the room
        assert run.fire_time is not None and run.fire_time.minute % 10 == 0 and run.fire_time.hour < 3
    last = max(run.started_at for run in low if run.started_at is not None)
    assert last < datetime.fromisoformat("2026-03-10T04:00Z")  # caught up


@pytest.mark.requirement("GATE-5", "DATA-5")
@pytest.mark.parametrize("begin", ["2026-03-20T12:00Z", "2026-10-18T12:00Z"], ids=["spring", "autumn"])
def test_story_7_maintenance_runs_once_a_night_in_its_window(begin: str) -> None:
    zone = ZoneInfo("Europe/Berlin")
    window = {"type": "window", "start": "22:00", "end": "06:00", "timezone": "Europe/Berlin", "stop_at_end": True}
    daily = {"type": "cron", "expression": "0 15 * * *", "timezone": "Europe/Berlin"}
    at_ten = {"type": "cron", "expression": "0 22 * * *", "timezone": "Europe/Berlin", "latch": "0s"}
    if_new = {"type": "all", "triggers": [at_ten, {"type": "partition", "dataset": "lake.raw.feed"}]}
    world = World(at=begin)
    world.schedule("daily", when=daily, only=[window])
    world.schedule("if-new", when=if_new, only=[window])
    for day in range(14):
        if day % 3 == 0:
            added = {"partitions_added": [f"d={day}"]}
            world.publish({"type": "dataset.updated", "key": "lake.raw.feed", "payload": added})
        world.advance("24h")
    nights = [run.started_at.astimezone(zone) for run in world.runs("daily") if run.started_at is not None]
    assert len(nights) == 14 == len({night.date() for night in nights})
    assert {(night.hour, night.minute) for night in nights} == {(22, 0)}
    assert len(world.runs("if-new")) == 5
    assert all(run.state == "succeeded" for run in world.runs())


@pytest.mark.requirement("GATE-5")
def test_what_still_runs_when_the_window_closes_is_stopped_if_that_was_asked_for() -> None:
    world = World(at="2026-03-10T12:00Z")
    window = {"type": "window", "start": "22:00", "end": "06:00", "stop_at_end": True}
    world.schedule("long", when={"type": "cron", "expression": "0 23 * * *"}, only=[window])
    world.behave("long", takes="12h")
    world.advance("24h")
    (run,) = world.runs("long")
    assert run.state == "cancelled" and "window" in run.reason
    assert run.finished_at is not None
    assert timedelta() <= run.finished_at - datetime.fromisoformat("2026-03-11T06:00Z") <= MINUTE
