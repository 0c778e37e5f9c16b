"""Laws of what is found at declaration: contradictions are named with their place, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain import windows
from tidegate.domain.constraints import (
    Blackout,
    Concurrency,
    Constraint,
    Delay,
    Load,
    MinInterval,
    Rate,
    Unmet,
    Window,
)
from tidegate.domain.fires import next_fire
from tidegate.domain.instants import DAY, HOUR, MINUTE, SECOND, parse_instant
from tidegate.domain.schedules import (
    CatchUp,
    CatchUpPolicy,
    Deadline,
    ScheduleSpec,
    ThenWaiting,
    Waiting,
    WaitingPolicy,
)
from tidegate.domain.triggers import All, AnyOf, At, Cron, Interval, Partition, ProgramStatus, Trigger, Weekday
from tidegate.domain.verification import Around, verify
from tidegate.domain.windows import Span

pytestmark = pytest.mark.requirement("GATE-15")
NOW = parse_instant("2026-03-01T12:00:30Z")
NIGHT = Span(start=22 * 60, end=6 * 60)
AROUND = Around(program="sales/load", pool="default", pools={"default": 4}, calendars=frozenset({"bank"}))


def spec(*constraints: Constraint, trigger: Trigger | None = None, **said: Any) -> ScheduleSpec:
    made = ScheduleSpec(program="load", trigger=trigger or Cron(expression="0 12 * * *"), constraints=constraints)
    return replace(made, **said)


def told(found: ScheduleSpec, around: Around = AROUND) -> list[tuple[str, str]]:
    return [(fault.path, fault.reason) for fault in verify(found, around, NOW)]


def paths(found: ScheduleSpec, around: Around = AROUND) -> list[str]:
    return [path for path, _ in told(found, around)]


def test_what_is_consistent_has_no_warnings() -> None:
    fine = spec(
        Concurrency(max=1),
        Concurrency(max=2, scope="program"),
        Concurrency(max=3, scope="group:nightly"),
        Window(span=NIGHT),
        Delay(duration=5 * MINUTE),
        MinInterval(duration=HOUR),
        Blackout(calendar="bank"),
        Load(resource="pool:default", below=80),
        trigger=Cron(expression="0 23 * * *"),
        groups=("nightly",),
        waiting=WaitingPolicy(timeout=HOUR),
        deadline=Deadline(start=HOUR, finish=2 * HOUR),
    )
    assert told(fine) == []


def test_a_window_that_no_fire_meets_is_named() -> None:
    ((path, reason),) = told(spec(Concurrency(max=1), Window(span=NIGHT)))
    assert path == "spec.constraints[1]" and "every run waits until it opens" in reason
    ((_, reason),) = told(spec(Window(span=NIGHT, unmet=Unmet.SKIP)))
    assert "every run is skipped" in reason
    ((_, reason),) = told(spec(Window(span=NIGHT), waiting=WaitingPolicy(timeout=HOUR)))
    assert "expires after waiting.timeout PT1H" in reason


def test_a_delay_may_carry_a_fire_into_its_window() -> None:
    assert told(spec(Window(span=NIGHT), Delay(duration=11 * HOUR))) == []
    assert paths(spec(Window(span=NIGHT), Delay(duration=HOUR))) == ["spec.constraints[0]"]


@given(
    start=st.integers(0, 1439),
    length=st.integers(1, 1440),
    days=st.sets(st.sampled_from(list(Weekday)), min_size=1),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia"]),
    minute=st.integers(0, 59),
    hour=st.one_of(st.just("*"), st.integers(0, 23)),
    day=st.sampled_from(["* *", "* MON", "1 *", "* SAT,SUN"]),
)
def test_a_window_is_named_only_if_no_fire_of_half_a_year_falls_into_it(
    start: int, length: int, days: set[Weekday], zone: str, minute: int, hour: int | str, day: str
) -> None:
    dom, dow = day.split()
    span = Span(start=start, end=(start + length - 1) % 1440 + 1, timezone=zone, days=tuple(sorted(days)))
    trigger = Cron(expression=f"{minute} {hour} {dom} * {dow}", timezone=zone)
    if paths(spec(Window(span=span), trigger=trigger)):
        at, fires = next_fire(trigger, NOW), 0
        while at is not None and at < NOW + 40 * DAY and fires < 1000:
            assert not windows.is_open(span, at)
            at, fires = next_fire(trigger, at), fires + 1


def test_two_windows_that_are_never_open_together_are_named() -> None:
    day = Window(span=Span(start=8 * 60, end=18 * 60))
    both = spec(Window(span=NIGHT), day, trigger=Cron(expression="0 * * * *"))
    ((path, reason),) = told(both)
    assert (path, "never open at the same time as spec.constraints[0]" in reason) == ("spec.constraints[1]", True)


def test_a_delay_longer_than_the_waiting_timeout_is_named() -> None:
    late = spec(Delay(duration=2 * HOUR), waiting=WaitingPolicy(timeout=HOUR))
    assert "every run expires" in told(late)[0][1]
    forced = spec(Delay(duration=2 * HOUR), waiting=WaitingPolicy(timeout=HOUR, then=ThenWaiting.RUN))
    assert "goes without it" in told(forced)[0][1]


@pytest.mark.parametrize(
    ("constraint", "every", "warned"),
    [
        (MinInterval(duration=HOUR), "PT5M", True),
        (MinInterval(duration=5 * MINUTE), "PT1H", False),
        (Rate(max=10, per=HOUR), "PT5M", True),
        (Rate(max=12, per=HOUR), "PT5M", False),
        (Rate(max=1, per=HOUR, unmet=Unmet.SKIP), "PT5M", False),
    ],
)
def test_fires_that_come_faster_than_they_may_start_are_named(constraint: Constraint, every: str, warned: bool) -> None:
    made = spec(constraint, trigger=Interval(every=every))
    assert paths(made) == (["spec.constraints[0]"] if warned else [])
    assert paths(replace(made, waiting=WaitingPolicy(runs=Waiting.MERGE))) == []  # merged they cannot pile up


def test_a_maximum_that_a_wider_one_forbids_is_named() -> None:
    made = spec(
        Concurrency(max=3), Concurrency(max=2, scope="program"), Concurrency(max=1, scope="group:g"), groups=("g",)
    )
    assert paths(made) == ["spec.constraints[0].max", "spec.constraints[0].max", "spec.constraints[1].max"]
    assert paths(spec(Concurrency(max=5))) == ["spec.constraints[0].max"]  # the pool has four slots
    assert paths(spec(Concurrency(max=1, scope="group:other"))) == ["spec.constraints[0].scope"]
    assert paths(spec(Concurrency(max=1, scope="group:g")), replace(AROUND, program_groups=("g",))) == []


def test_what_does_not_exist_is_named() -> None:
    made = spec(Blackout(calendar="bnak"), Load(resource="pool:gpu", below=50), Load(resource="probe", below=1))
    assert paths(made) == ["spec.constraints[0].calendar", "spec.constraints[1].resource"]


def test_a_trigger_with_nothing_to_come_is_named() -> None:
    assert paths(spec(trigger=At(time=NOW - SECOND))) == ["spec.trigger"]
    assert paths(spec(trigger=At(time=NOW + SECOND))) == []


def test_a_catch_up_window_shorter_than_the_interval_is_named() -> None:
    weekly = spec(trigger=Interval(every="P1W"), catch_up=CatchUp(policy=CatchUpPolicy.ALL))
    assert paths(weekly) == ["spec.catch_up.window"]
    assert paths(replace(weekly, catch_up=CatchUp(policy=CatchUpPolicy.ALL, window=8 * DAY))) == []
    assert paths(replace(weekly, catch_up=CatchUp())) == []


def test_a_deadline_that_cannot_be_met_is_named() -> None:
    assert paths(spec(Delay(duration=HOUR), deadline=Deadline(start=HOUR))) == ["spec.deadline.start"]
    assert paths(spec(deadline=Deadline(start=HOUR, finish=MINUTE))) == ["spec.deadline.finish"]


def status(program: str) -> ProgramStatus:
    return ProgramStatus(program=program, outcomes=("succeeded",))


def test_programs_that_start_each_other_for_ever_are_named() -> None:
    assert paths(spec(trigger=status("sales/load"))) == ["spec.trigger"]  # of itself
    around = replace(
        AROUND,
        starts={
            "sales/load": [("sales/mart", "sales/build")],
            "sales/mart": [("sales/report", "sales/print"), ("sales/mail", "sales/send")],
        },
    )
    circle = spec(trigger=AnyOf(triggers=(Cron(expression="0 12 * * *"), status("sales/report"))))
    ((path, reason),) = told(circle, around)
    assert path == "spec.trigger.triggers[1]"
    assert "sales/report -> sales/load -> sales/mart -> sales/report (by sales/build, sales/print)" in reason
    assert paths(spec(trigger=status("sales/other")), around) == []
    held = All(triggers=(Partition(dataset="a.b.c"), status("sales/report")))
    assert paths(spec(trigger=held), around) == []  # data ends that circle
