"""Triggers by data, events, programs and silence in the World that users test with."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate import App, Event, Run, cron, event, since_last_run, table
from tidegate.domain.errors import Invalid
from tidegate.sim.testing import World

orders = table("lake.raw.orders")
weather = table("lake.raw.weather")
seen: list[Any] = []


def refresh(run: Run) -> None:
    seen.append(run)


def app_of(when: Any, **said: Any) -> App:
    app = App("shop")
    app.schedule("refresh", app.python(refresh), when=when, **said)
    return app


chain = App("chain")


@chain.python
def load(run: Run, day: str = "") -> None:
    run.publish(Event("user.loaded", "orders", {"day": day}))


@chain.python
def report(run: Run) -> None:
    seen.append(run.upstream)


@chain.python
def mail(run: Run) -> None:
    seen.append(run.events[0]["payload"])


chain.schedule("load", load.bind(day="monday"), when=cron("0 6 * * *"))
chain.schedule("report", report, when=load.succeeded())
chain.schedule("mail", mail, when=event("user.loaded"))


def world_of(when: Any, **said: Any) -> World:
    seen.clear()
    world = World(execute=True)
    world.deploy(app_of(when, **said), at="2026-03-29T00:00Z")
    return world


@pytest.mark.requirement("DATA-2", "DATA-7", "DATA-11")
def test_a_gigabyte_or_four_hours_since_the_last_run() -> None:
    world = world_of(orders.new(bytes="1 GB") | since_last_run("4h"))
    world.publish(orders.updated(bytes="600 MB"))
    world.advance("3h59m")
    assert not world.runs("refresh")
    world.advance("1m")
    (run,) = world.runs("refresh")
    assert run.inputs[orders].bytes == 600_000_000
    world.publish(orders.updated(bytes="600 MB"))
    world.publish(orders.updated(bytes="600 MB", rows=7))
    assert [run.inputs[orders].bytes for run in world.runs("refresh")] == [600_000_000, 1_200_000_000]
    assert [run.inputs[orders].events for run in seen] == [1, 2]


@pytest.mark.requirement("DATA-5", "DATA-6")
def test_both_or_what_is_there_after_two_hours() -> None:
    world = world_of((orders.new() & weather.new()).max_wait("2h", then="run"))
    world.publish(orders.updated(rows=1))
    world.publish(weather.updated(rows=2))
    world.publish(orders.updated(rows=3))
    world.advance("2h")
    first, second = world.runs("refresh")
    assert (first.inputs[orders].rows, first.inputs[weather].rows, first.timed_out_waiting) == (1, 2, False)
    assert (second.inputs[orders].rows, second.inputs[weather].rows, second.timed_out_waiting) == (3, 0, True)
    assert second.inputs[weather].is_empty


@pytest.mark.requirement("DATA-8")
def test_quiet_waits_for_silence_but_not_for_ever() -> None:
    world = world_of(event("user.landed", key="default/eu").quiet("10m", max_wait="1h"))
    for _ in range(20):
        world.publish(Event("user.landed", "eu"))
        world.advance("5m")
    assert [len(run.events) for run in seen] == [12]
    world.advance("1h")
    assert [len(run.events) for run in seen] == [12, 8]


@pytest.mark.requirement("DATA-9")
def test_at_ten_in_the_evening_if_there_is_new_data() -> None:
    world = world_of(cron("0 22 * * *", latch="0s") & orders.new())
    world.advance("1d")
    assert not world.runs("refresh")
    world.publish(orders.updated(rows=1))
    world.advance("21h")
    assert not world.runs("refresh")
    world.advance("1h")
    assert len(world.runs("refresh")) == 1


@pytest.mark.requirement("DATA-4", "DATA-11", "EVENT-6")
def test_a_program_starts_another_and_tells_it_what_it_was() -> None:
    seen.clear()
    world = World(execute=True)
    world.deploy(chain, at="2026-03-29T00:00Z")
    world.advance("7h")
    (upstream,) = [one for one in seen if not isinstance(one, dict)]
    assert (upstream.program, upstream.outcome, upstream.arguments) == ("load", "succeeded", {"day": "monday"})
    assert [one for one in seen if isinstance(one, dict)] == [{"day": "monday"}]


@pytest.mark.requirement("GATE-10", "GATE-16")
def test_what_comes_while_a_run_waits_is_in_its_input_and_reaches_the_next_if_it_never_starts() -> None:
    world = world_of(orders.new())
    world.behave("refresh", takes="1h")
    world.publish(orders.updated(rows=1))
    world.publish(orders.updated(rows=2))
    world.publish(orders.updated(rows=4))
    running, waiting = world.runs("refresh")
    world.cancel(waiting)
    world.publish(orders.updated(rows=8))
    world.advance("2h")
    assert [run.inputs[orders].rows for run in world.runs("refresh") if run.started_at] == [1, 14]
    assert running.inputs[orders].rows == 1


@pytest.mark.requirement("DATA-11")
def test_by_hand_a_run_sees_what_is_there_and_takes_nothing() -> None:
    world = world_of(orders.new(rows=10))
    world.publish(orders.updated(rows=6))
    by_hand = world.trigger("refresh")
    assert world.run(by_hand).inputs[orders].rows == 6
    world.publish(orders.updated(rows=6))
    assert world.runs("refresh")[-1].inputs[orders].rows == 12


def test_what_may_not_be_published_is_refused() -> None:
    world = world_of(orders.new())
    with pytest.raises(Invalid, match="run.succeeded"):
        world.publish(Event("run.succeeded", "shop/refresh"))
