"""Specs survive being stored, and equal ones are equal as text."""

from __future__ import annotations

import json
from typing import Any

import any_constraint
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.calendars import Calendar
from tidegate.domain.constraints import CustomConstraint
from tidegate.domain.programs import PROGRAMS
from tidegate.domain.schedules import ScheduleSpec
from tidegate.domain.triggers import (
    TRIGGERS,
    All,
    AnyOf,
    Cron,
    Custom,
    Elapsed,
    Happened,
    NOf,
    Quiet,
    Since,
    Then,
    Trigger,
    nodes,
)
from tidegate.store.codec import decode_program, decode_schedule, encode
from tidegate.store.facts import decode_calendar

scalars = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
documents = st.dictionaries(st.text(), st.recursive(scalars | st.text(), lambda inner: st.lists(inner, max_size=3)))


def fields_of(kind: type[Any]) -> dict[str, Any]:
    names = {name for base in kind.__mro__ for name in getattr(base, "__annotations__", {})}
    return {name: documents for name in ("arguments", "environment", "conf") if name in names}


def composed(inner: st.SearchStrategy[Trigger]) -> st.SearchStrategy[Trigger]:
    """Every composite over these."""
    several = st.lists(inner, min_size=1, max_size=4).map(tuple)
    waits = st.none() | st.integers(0, 2**53)
    return st.one_of(
        st.builds(Quiet, trigger=inner, silence=st.integers(0, 2**53), max_wait=waits),
        st.builds(All, triggers=several, max_wait=waits, then=st.sampled_from(Then)),
        st.builds(AnyOf, triggers=several),
        st.builds(NOf, n=st.integers(1, 4), triggers=several),
    )


special: dict[type[Any], st.SearchStrategy[Any]] = {
    Happened: st.builds(Happened, match=st.none() | documents),
    Custom: st.builds(Custom, parameters=documents),
}
leaves = st.one_of(*(special.get(kind, st.builds(kind)) for kind in TRIGGERS if kind not in (Quiet, All, AnyOf, NOf)))
trees: st.SearchStrategy[Trigger] = st.recursive(leaves, composed, max_leaves=12)
custom = st.builds(
    CustomConstraint,
    plugin=st.just("p"),
    parameters=st.dictionaries(st.text(max_size=3), scalars, max_size=2),
    unmet=any_constraint.unmet,
)
schedules = st.builds(
    ScheduleSpec,
    trigger=trees,
    constraints=st.lists(any_constraint.constraint | custom, max_size=2).map(tuple),
    deadline=st.none() | any_constraint.deadlines,
    **fields_of(ScheduleSpec),
)


@given(schedules)
def test_schedules_survive(spec: ScheduleSpec) -> None:
    text = encode(spec)
    assert decode_schedule(text) == spec
    assert encode(decode_schedule(text)) == text


@pytest.mark.parametrize("kind", PROGRAMS, ids=lambda kind: kind.TYPE)
def test_programs_survive(kind: type[Any]) -> None:
    @given(st.builds(kind, **fields_of(kind)))
    def survives(spec: Any) -> None:
        assert decode_program(encode(spec)) == spec

    survives()


@given(
    st.builds(
        Calendar,
        name=st.text(),
        timezone=any_constraint.zones,
        days=st.frozensets(st.integers(-(10**5), 10**5)),
        rules=st.lists(st.text()).map(tuple),
        spans=st.lists(st.tuples(st.integers(), st.integers())).map(tuple),
    )
)
def test_calendars_survive(calendar: Calendar) -> None:
    assert decode_calendar(encode(calendar)) == calendar


def test_every_trigger_survives_at_any_depth() -> None:
    tree: Trigger = AnyOf(
        triggers=(
            Quiet(trigger=NOf(n=1, triggers=(Happened(event="user.a", match={"a": [1, {"b": None}]}),)), silence=1),
            All(triggers=(Custom(plugin="p", parameters={"x": {}}), Elapsed(since=Since.LAST_RUN, after=2))),
        )
    )
    for _ in range(20):
        tree = All(triggers=(tree, Cron(expression="* * * * *", latch=0)), max_wait=3, then=Then.DISCARD)
    found = decode_schedule(encode(ScheduleSpec(program="p", trigger=tree)))
    assert found.trigger == tree
    assert [type(one) for one in nodes(found.trigger)] == [type(one) for one in nodes(tree)]


def test_the_text_says_everything_so_that_a_later_default_changes_nothing() -> None:
    found = json.loads(encode(ScheduleSpec(program="p", trigger=Cron(expression="* * * * *"))))
    assert found["priority"] == 50 and found["trigger"]["dst_gap"] == "shift" and found["timeout"]["run"] is None


def test_order_of_keys_and_of_writing_does_not_matter() -> None:
    one = ScheduleSpec(program="p", trigger=Cron(expression="* * * * *"), arguments={"a": 1, "b": 2})
    two = ScheduleSpec(arguments={"b": 2, "a": 1}, trigger=Cron(expression="* * * * *"), program="p")
    assert encode(one) == encode(two)
    assert decode_schedule(encode(one)) is decode_schedule(encode(two))


def test_what_an_older_version_did_not_write_takes_its_default() -> None:
    text = '{"program":"p","trigger":{"type":"cron","expression":"* * * * *"}}'
    assert decode_schedule(text) == ScheduleSpec(program="p", trigger=Cron(expression="* * * * *"))


def test_what_a_newer_version_wrote_is_not_ignored() -> None:
    with pytest.raises(TypeError):
        decode_schedule('{"program":"p","trigger":{"type":"cron","expression":"* * * * *","later":1}}')
