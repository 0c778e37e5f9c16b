"""The eight test scenarios of the data-platform text, each as written: what is configured, what is done, what follows.

Durations are those of the text; a stage may play them faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from .stages import Cast, Story


def _began(run: Any) -> datetime:
    """A start is the beginning of the first attempt, which is committed before anything is launched; `started_at` is
    when the backend has it, which a crowded machine reports late."""
    return datetime.fromisoformat(run["attempts"][0]["created_at"])


def any_partition_with_a_minimum_interval(cast: Cast) -> Story:
    """1. The first of five partitions within five minutes triggers a run; those after it do not, since not enough time
    has passed. When it has, one run takes them all."""
    cast.program()
    cast.put(trigger=cast.trigger(), constraints=[{"type": "min_interval", "duration": cast.span("5m")}])
    cast.partitions()
    yield from cast.until(lambda: len(cast.launched()) == 1)
    (first,) = cast.launched()
    enough = _began(first) + timedelta(microseconds=cast.stage.span("5m"))
    for _ in range(4):
        yield cast.stage.span("50s")
        cast.partitions()
        before = len(cast.launched())
        assert before == 1 or cast.stage.now() > enough
    yield cast.stage.span("100s")
    yield from cast.until(lambda: sum(len(one["inputs"][0]["partitions"]) for one in cast.launched()) == 5)
    first, second = cast.launched()
    assert _began(second) >= enough
    assert [len(one["inputs"][0]["partitions"]) for one in (first, second)] == [1, 4]
    yield cast.stage.span("6m")
    assert len(cast.runs()) == 2


def application(cast: Cast, schedules: Mapping[str, Any], *programs: str) -> dict[str, Any]:
    return {
        "programs": [
            {"metadata": {"name": name}, "spec": {"type": "command", "argv": ["true"]}}
            for name in programs or ("load",)
        ],
        "schedules": [
            {"metadata": {"name": name}, "spec": {"program": "load", "enabled": True, **spec}}
            for name, spec in schedules.items()
        ],
    }


def properties_updated_by_deployment(cast: Cast) -> Story:
    """2. Runs get the schedule's properties as arguments; after a deployment with new ones, the next run gets those."""
    for number, value in enumerate(("old", "new"), start=1):
        said = {"trigger": cast.trigger(), "arguments": {"property": value, "round": number}}
        cast("PUT", "/applications/app", application(cast, {"s": said}))
        cast.partitions()
        yield from cast.until(lambda number=number: [one["state"] for one in cast.runs()] == ["succeeded"] * number)
    assert [one["arguments"] for one in cast.runs()] == [
        {"property": "old", "round": 1},
        {"property": "new", "round": 2},
    ]


def a_different_set_of_schedules(cast: Cast) -> Story:
    """3. Without updating schedules a deployment leaves the original set, and only those launch; with it, only those of
    the new application are listed and launch."""
    by = {name: {"trigger": cast.trigger(dataset=name)} for name in ("stays", "goes", "changes", "comes")}
    original = {name: by[name] for name in ("stays", "goes", "changes")}
    cast("PUT", "/applications/app", application(cast, original))
    changed = {"trigger": by["changes"]["trigger"], "arguments": {"changed": True}}
    other = {"stays": by["stays"], "changes": changed, "comes": by["comes"]}

    def listed() -> set[str]:
        return {one["metadata"]["name"] for one in cast("GET", "/schedules")["items"]}

    def launches() -> dict[str, int]:
        return {name: len(cast.launched(name)) for name in by}

    cast("PUT", "/applications/app", application(cast, other), update_schedules=False)
    assert listed() == set(original)
    for name in by:
        cast.partitions(dataset=name)
    yield from cast.until(lambda: launches() == {"stays": 1, "goes": 1, "changes": 1, "comes": 0})
    assert cast.launched("changes")[0]["arguments"] == {}

    cast("PUT", "/applications/app", application(cast, other), update_schedules=True)
    assert listed() == set(other)
    for name in by:
        cast.partitions(dataset=name)
    yield from cast.until(lambda: launches() == {"stays": 2, "goes": 1, "changes": 2, "comes": 1})
    assert cast.launched("changes")[1]["arguments"] == {"changed": True}
    yield cast.stage.span("1m")
    assert launches() == {"stays": 2, "goes": 1, "changes": 2, "comes": 1}


def an_update_while_partitions_are_counted(cast: Cast) -> Story:
    """4. One of five came before an update: after it five are needed again, and the run has the new properties."""
    cast.program()
    cast.put(trigger=cast.trigger(5), arguments={"property": "old"})
    cast.partitions(1)
    cast.put(trigger=cast.trigger(5), arguments={"property": "new"})
    cast.partitions(4)
    yield cast.stage.span("10s")
    assert cast.runs() == []
    cast.partitions(1)
    yield from cast.until(lambda: len(cast.launched()) == 1)
    assert cast.runs()[0]["arguments"] == {"property": "new"}


def an_update_while_a_delay_runs(cast: Cast) -> Story:
    """5. Five came and ten minutes of delay run; after an update to three and a tenth of a second, three more launch
    the program with the new properties, and nothing else does."""
    cast.program()

    def put(many: int, delay: str, value: str) -> None:
        constraints = [{"type": "delay", "duration": delay}]
        cast.put(trigger=cast.trigger(many), constraints=constraints, arguments={"property": value})

    put(5, cast.span("10m"), "old")
    cast.partitions(5)
    yield from cast.until(lambda: len(cast.waiting()) == 1)
    put(3, "PT0.1S", "new")
    assert cast.launched() == []
    cast.partitions(3)
    yield from cast.until(lambda: len(cast.launched()) == 1)
    assert cast.launched()[0]["arguments"] == {"property": "new"}
    yield cast.stage.span("11m")
    assert [one["state"] for one in cast.runs()] == ["superseded", "succeeded"]


def deleted_before_the_last_partition(cast: Cast) -> Story:
    """6. Four of five came; deleted, the schedule launches nothing when the fifth comes."""
    cast.program()
    cast.put(trigger=cast.trigger(5))
    cast.partitions(4)
    cast("DELETE", "/schedules/s")
    cast.partitions(1)
    yield cast.stage.span("10s")
    assert cast.runs() == []


def deleted_half_a_second_before_the_delay_ends(cast: Cast) -> Story:
    """7. A delay of 40 seconds runs; deleted 500 milliseconds before it ends, the schedule launches nothing."""
    cast.program()
    delay = max(cast.stage.span("40s"), 5_000_000)  # half a second of it stays half a second
    constraints = [{"type": "delay", "duration": f"PT{delay / 1e6}S"}]
    cast.put(trigger=cast.trigger(5), constraints=constraints)
    began = cast.stage.now()
    cast.partitions(5)
    yield from cast.until(lambda: len(cast.waiting()) == 1)
    passed = round((cast.stage.now() - began) / timedelta(microseconds=1))
    yield max(delay - 500_000 - passed, 0)
    assert cast.launched() == []
    cast("DELETE", "/schedules/s")
    yield cast.stage.span("2m") + 1_000_000
    assert [one["state"] for one in cast.runs()] == ["superseded"]


def all_constraints_at_the_same_time(cast: Cast) -> Story:
    """8. A run is launched only when the trigger and all constraints hold at the same time: a delay, a window, and a
    limit that a run of another schedule uses up until both hold."""
    stage, second = cast.stage, timedelta(seconds=1)
    opens = (stage.now() + 70 * second).replace(second=0, microsecond=0)  # of a window nothing is shorter than a minute
    until_open = round((opens - stage.now()) / timedelta(microseconds=1))
    load = f"load-{cast.namespace}"
    cast.program(load, stage.takes(load, until_open + stage.span("3m")))
    cast.put("busy", program=load, trigger={"type": "never"})
    window = {"type": "window", "start": f"{opens:%H:%M}", "end": f"{opens + timedelta(hours=1):%H:%M}"}
    delay = {"type": "delay", "duration": cast.span("30s")}
    limit = {"type": "concurrency", "max": 1, "scope": "program"}
    cast.put(program=load, trigger=cast.trigger(2), constraints=[limit, delay, window])
    (busy,) = [cast("POST", "/schedules/busy:trigger", {})]
    yield from cast.until(lambda: len(cast.launched("busy")) == 1)

    def held_by() -> set[str]:
        return {one["constraint"] for run in cast.waiting() for one in run["waiting_for"]}

    cast.partitions(1)
    yield stage.span("5s")
    assert cast.runs() == []  # constraints or not, the trigger does not hold
    cast.partitions(1)
    yield from cast.until(lambda: held_by() == {"concurrency", "delay", "window"})
    told = cast("GET", "/schedules/s/explain")
    assert told["verdict"] == "waiting" and told["blocker"] in ("window", "delay")  # whichever holds it longer
    assert datetime.fromisoformat(told["earliest"]) >= opens
    yield stage.span("1m")
    assert cast.launched() == []
    yield max(round((opens - stage.now()) / timedelta(microseconds=1)), 0)
    yield from cast.until(lambda: cast("GET", "/schedules/s/explain")["blocker"] == "concurrency")
    assert busy["id"] in cast("GET", "/schedules/s/explain")["release"]
    assert cast.launched() == []
    yield stage.span("3m")
    yield from cast.until(lambda: len(cast.launched()) == 1)
    ended = cast.runs("busy")[0]["finished_at"]
    assert cast.launched()[0]["started_at"] >= ended


SCENARIOS: tuple[Callable[[Cast], Story], ...] = (
    any_partition_with_a_minimum_interval,
    properties_updated_by_deployment,
    a_different_set_of_schedules,
    an_update_while_partitions_are_counted,
    an_update_while_a_delay_runs,
    deleted_before_the_last_partition,
    deleted_half_a_second_before_the_delay_ends,
    all_constraints_at_the_same_time,
)
