"""Gates in the World that users test their applications in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tidegate import every
from tidegate.domain.errors import Invalid
from tidegate.sim.testing import World, WorldRun

ANY = {"type": "concurrency", "max": 8}


def only(type: str, **said: Any) -> list[dict[str, Any]]:
    return [{"type": type, **said}]


def began(runs: list[WorldRun]) -> list[str]:
    """Times of day at which they started."""
    return [f"{run.started_at:%H:%M}" for run in runs if run.started_at is not None]


@pytest.fixture
def morning() -> World:
    return World(at="2026-06-01T08:00Z")


@pytest.mark.requirement("GATE-5", "GATE-10")
def test_what_waits_for_the_night_merges_and_starts_when_it_comes(morning: World) -> None:
    night = only("window", start="22:30", end="06:00", timezone="Europe/Berlin")
    morning.schedule("load", when=every("1h"), only=night, waiting={"runs": "merge"})
    morning.advance("1d")
    runs = [run for run in morning.runs("load") if run.state != "merged"]
    assert began(runs)[:3] == ["20:30", "21:00", "22:00"], "Berlin is two hours ahead"
    assert "window is 22:30 to 06:00" in runs[-1].waiting_for[0]["why"]


@pytest.mark.requirement("GATE-3", "GATE-4", "GATE-6")
def test_delays_rates_and_intervals_pass_in_virtual_time(morning: World) -> None:
    morning.schedule("a", when=every("10m"), only=[*only("rate", max=2, per="1h"), ANY])
    morning.schedule("b", when=every("1h"), only=only("delay", duration="5m"))
    morning.schedule("c", when=every("10m"), only=[*only("min_interval", duration="25m"), ANY])
    morning.advance("3h")
    assert began(morning.runs("a")) == ["08:10", "08:20", "09:10", "09:20", "10:10", "10:20"]
    assert began(morning.runs("b")) == ["09:05", "10:05"]
    assert began(morning.runs("c")) == ["08:10", "08:35", "09:00", "09:25", "09:50", "10:15", "10:40"]


@pytest.mark.requirement("GATE-7")
def test_a_reading_opens_and_a_pool_that_empties_does(morning: World) -> None:
    morning.schedule("probe", only=only("load", resource="cores", below=10))
    morning.schedule("polite", when=every("1h"), only=only("load", resource="pool:default", below=30))
    morning.schedule("busy", when=every("1h"), only=[ANY])
    morning.behave("busy", takes="90m")
    for _ in range(3):
        morning.trigger("busy")  # three of eight slots
    morning.read("cores", 50)
    morning.advance("1h")
    morning.read("cores", 5)
    morning.advance("2h")
    [polite, *_] = morning.runs("polite")
    assert polite.fire_time == datetime(2026, 6, 1, 9, tzinfo=UTC)
    assert polite.started_at == datetime(2026, 6, 1, 9, 30, tzinfo=UTC)


@pytest.mark.requirement("GATE-8")
def test_a_freeze_holds_and_lets_go(morning: World) -> None:
    morning.schedule("a", when=every("10m"), only=[ANY])
    morning.freeze("moving house")
    morning.advance("30m")
    assert [run.state for run in morning.runs("a")] == ["waiting"] * 3
    assert "moving house" in morning.runs("a")[0].waiting_for[0]["why"]
    morning.unfreeze()
    morning.advance("1m")
    assert [run.state for run in morning.runs("a")] == ["succeeded"] * 3


@pytest.mark.requirement("GATE-8")
def test_a_calendar_closes_its_days(morning: World) -> None:
    morning.calendar("holidays", timezone="Europe/Berlin", days=["2026-06-02"], rules=["0 0 * * SAT,SUN"])
    morning.schedule(
        "a", when=every("1d", anchor="2026-06-01T09:00Z"), only=[*only("blackout", calendar="holidays"), ANY]
    )
    morning.advance("7d")
    days = [f"{run.started_at:%d %H:%M}" for run in morning.runs("a") if run.started_at is not None]
    assert days == ["01 09:00", "02 22:00", "03 09:00", "04 09:00", "05 09:00", "07 22:00", "07 22:00"]


@pytest.mark.requirement("LIFE-3")
@pytest.mark.parametrize(
    ("mode", "rests", "then"),
    [
        ("drop", [], []),
        ("keep", [], []),
        ("backlog", ["waiting"] * 3, ["succeeded"] * 3),
        ("hold", ["waiting", "merged", "merged"], ["succeeded", "merged", "merged"]),
    ],
)
def test_schedules_rest_in_four_ways(morning: World, mode: str, rests: list[str], then: list[str]) -> None:
    morning.schedule("a", when=every("10m"), only=[ANY], catch_up={"policy": "none"})
    morning.disable("a", mode=mode)
    morning.advance("35m")
    assert [run.state for run in morning.runs("a")] == rests
    morning.enable("a")
    morning.advance("1m")
    assert [run.state for run in morning.runs("a")] == then


@pytest.mark.requirement("GATE-15")
def test_what_cannot_hold_is_refused(morning: World) -> None:
    with pytest.raises(Invalid, match="start"):
        morning.schedule("a", only=only("window", start="10:00", end="10:00"))


@pytest.mark.requirement("GATE-14")
def test_the_important_goes_first_and_nothing_starves(morning: World) -> None:
    """One slot, and more important work than it takes: what is less important starts when it has waited its points."""
    morning.deploy({"kind": "Pool", "metadata": {"name": "default"}, "spec": {"slots": 1}})
    morning.schedule("important", when=every("1m"), only=[{"type": "concurrency", "max": 100}], priority=60)
    morning.behave("important", takes="2m")
    morning.schedule("modest", only=[ANY], priority=30)
    morning.advance("10m")
    asked = morning.now
    run = morning.trigger("modest")
    for _ in range(80):
        morning.advance("1m")
        if (found := morning.run(run).started_at) is not None:
            break
    assert found is not None
    assert (found - asked).total_seconds() <= 70 * 60, "the bound: 100 - its priority, in minutes"
    assert (found - asked).total_seconds() > 5 * 60
