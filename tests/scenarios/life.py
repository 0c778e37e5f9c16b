"""Stories of a schedule's life: how it rests, what is in flight meanwhile, what an edit meets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .stages import Cast, Story

MANY = [{"type": "concurrency", "max": 9}]


def rests_in_every_way(cast: Cast) -> Story:
    """Kept, in a backlog, held, dropped: what is collected, what is made and what starts."""
    cast.program()
    cast.put(trigger=cast.trigger(3), waiting="all", constraints=MANY)

    def disable(mode: str) -> None:
        cast("POST", "/schedules/s:disable", {"mode": mode, "reason": "holidays"})

    def enable() -> None:
        cast("POST", "/schedules/s:enable", {})

    cast.partitions(2)
    disable("keep")
    cast.partitions(4)
    yield cast.stage.span("1m")
    assert cast.runs() == []
    enable()
    cast.partitions(1)
    yield from cast.until(lambda: len(cast.launched()) == 1)
    assert len(cast.launched()[0]["inputs"][0]["partitions"]) == 7  # passed by in the count, and not lost as input

    disable("backlog")
    cast.partitions(6)
    yield from cast.until(lambda: len(cast.waiting()) == 2)
    yield cast.stage.span("1m")
    assert len(cast.launched()) == 1
    assert {one["constraint"] for run in cast.waiting() for one in run["waiting_for"]} == {"suspended"}
    enable()
    yield from cast.until(lambda: len(cast.launched()) == 3)

    disable("hold")
    cast.partitions(6)
    yield from cast.until(lambda: [one["cause"]["events"]["count"] for one in cast.waiting()] == [6])
    yield cast.stage.span("1m")
    assert len(cast.launched()) == 3
    enable()
    yield from cast.until(lambda: len(cast.launched()) == 4)

    cast.partitions(2)
    disable("drop")
    cast.partitions(2)
    enable()
    cast.partitions(2)
    yield cast.stage.span("1m")
    assert len(cast.runs()) == 4
    cast.partitions(1)
    yield from cast.until(lambda: [one["state"] for one in cast.runs()] == ["succeeded"] * 5)


def disabled_while_a_run_is_in_flight(cast: Cast) -> Story:
    """What runs ends by itself, however its schedule rests meanwhile."""
    name = f"long-{cast.namespace}"
    cast.program(name, cast.stage.takes(name, cast.stage.span("4m")))
    for number, mode in enumerate(("drop", "keep", "backlog", "hold")):
        cast.put(mode, program=name, trigger=cast.trigger(1, dataset=mode), priority=number, constraints=MANY)
        cast.partitions(1, dataset=mode)
    yield from cast.until(lambda: all(len(cast.launched(mode)) == 1 for mode in ("drop", "keep", "backlog", "hold")))
    for mode in ("drop", "keep", "backlog", "hold"):
        cast("POST", f"/schedules/{mode}:disable", {"mode": mode})
    yield cast.stage.span("4m")

    def ends() -> list[Any]:
        return [one["state"] for mode in ("drop", "keep", "backlog", "hold") for one in cast.runs(mode)]

    yield from cast.until(lambda: ends() == ["succeeded"] * 4)


def dropped_between_two_attempts(cast: Cast) -> Story:
    """Under drop no further attempt starts; under hold the retry goes on, since the run has begun."""
    retry = {"max_attempts": 3, "delay": cast.span("5m")}
    for mode in ("drop", "hold"):
        name = f"fails-{mode}-{cast.namespace}"
        cast.program(name, cast.stage.fails(name))
        cast.put(mode, program=name, trigger=cast.trigger(1, dataset=mode), retry=retry)
        cast.partitions(1, dataset=mode)
    both = ("drop", "hold")
    yield from cast.until(lambda: all(len(one["attempts"]) == 1 for mode in both for one in cast.runs(mode)[:1]))
    yield from cast.until(lambda: all(len(cast.waiting(mode)) == 1 for mode in both))
    for mode in both:
        cast("POST", f"/schedules/{mode}:disable", {"mode": mode})
    yield cast.stage.span("16m")
    yield from cast.until(lambda: cast.runs("hold")[0]["state"] == "failed")
    assert len(cast.runs("hold")[0]["attempts"]) == 3
    (dropped,) = cast.runs("drop")
    assert (len(dropped["attempts"]), dropped["state"] in ("superseded", "cancelled", "failed")) == (1, True)


def dropped_or_deleted_during_an_attempt(cast: Cast) -> Story:
    """The attempt ends by itself, and when it has failed no further one starts."""
    retry = {"max_attempts": 3, "delay": cast.span("1m")}
    names = ("drop", "delete", "hold")
    for name in names:
        program = f"fails-late-{name}-{cast.namespace}"
        cast.program(program, cast.stage.fails(program, cast.stage.span("3m")))
        cast.put(name, program=program, trigger=cast.trigger(1, dataset=name), retry=retry)
        cast.partitions(1, dataset=name)
    yield from cast.until(lambda: all(len(cast.launched(name)) == 1 for name in names))
    cast("POST", "/schedules/drop:disable", {"mode": "drop"})
    cast("POST", "/schedules/hold:disable", {"mode": "hold"})
    cast("DELETE", "/schedules/delete")
    yield cast.stage.span("15m")
    yield from cast.until(lambda: cast.runs("hold")[0]["state"] == "failed")

    def ends(name: str) -> list[tuple[str, int]]:
        return [(one["state"], len(one["attempts"])) for one in cast.runs(name)]

    assert ends("hold") == [("failed", 3)]
    assert ends("drop") == ends("delete") == [("cancelled", 1)]


def edited_between_satisfaction_and_launch(cast: Cast) -> Story:
    """What is satisfied and not launched ends by an edit, or takes the new revision where that was asked for."""
    cast.program()
    wait = [{"type": "delay", "duration": cast.span("5m")}]
    for name in ("resets", "keeps"):
        cast.put(name, trigger=cast.trigger(2), constraints=wait, arguments={"revision": 1})
    cast.partitions(2)
    yield from cast.until(lambda: len(cast.waiting("resets")) == len(cast.waiting("keeps")) == 1)
    said = {"program": "load", "enabled": True, "trigger": cast.trigger(2), "constraints": wait}
    body = {"spec": {**said, "arguments": {"revision": 2}}}
    cast("PUT", "/schedules/resets", body)
    cast("PUT", "/schedules/keeps", body, on_update="keep")
    yield cast.stage.span("6m")
    yield from cast.until(lambda: [one["state"] for one in cast.runs("keeps")] == ["succeeded"])
    assert cast.runs("keeps")[0]["arguments"] == {"revision": 2}
    assert [one["state"] for one in cast.runs("resets")] == ["superseded"]


LIFE: tuple[Callable[[Cast], Story], ...] = (
    rests_in_every_way,
    disabled_while_a_run_is_in_flight,
    dropped_between_two_attempts,
    dropped_or_deleted_during_an_attempt,
    edited_between_satisfaction_and_launch,
)
