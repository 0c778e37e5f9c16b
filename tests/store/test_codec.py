"""Specs survive being stored, and equal ones are equal as text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.programs import PROGRAMS
from tidegate.domain.schedules import ScheduleSpec
from tidegate.domain.triggers import Cron
from tidegate.store.codec import decode_program, decode_schedule, encode

scalars = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
documents = st.dictionaries(st.text(), st.recursive(scalars | st.text(), lambda inner: st.lists(inner, max_size=3)))


def fields_of(kind: type[Any]) -> dict[str, Any]:
    names = {name for base in kind.__mro__ for name in getattr(base, "__annotations__", {})}
    return {name: documents for name in ("arguments", "environment", "conf") if name in names}


@given(st.builds(ScheduleSpec, **fields_of(ScheduleSpec)))
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
