"""Arguments are filled in from what the run was given; what is wrong is said where it stands, when it is declared."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.errors import Invalid
from tidegate.domain.templates import context, faults, render

FLIGHTS = {
    "from_snapshot": 3,
    "to_snapshot": 1 << 62,
    "rows": 7,
    "bytes": 8,
    "events": 2,
    "partitions": ["day=1", "day=2"],
}
EMPTY = {"from_snapshot": None, "to_snapshot": None, "rows": 0, "bytes": 0, "events": 0, "partitions": []}
RUN = context(
    fire_time="2026-03-29T00:30:00Z",
    previous_fire_time=None,
    cause="evidence",
    by="trigger",
    inputs={"lake.raw.flights": FLIGHTS, "lake.raw.weather": EMPTY, "other.raw.weather": EMPTY},
    upstream={
        "id": "r1",
        "program": "sales/load",
        "outcome": "succeeded",
        "arguments": {"region": "eu", "deep": {"n": 1}},
    },
)
DATASETS = ("lake.raw.flights", "lake.raw.weather", "other.raw.weather")


def filled(text: Any) -> Any:
    return render({"x": text}, RUN)["x"]


@pytest.mark.requirement("DATA-11")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ inputs.flights.partitions }}", ["day=1", "day=2"]),
        ("{{inputs.lake.raw.flights.to_snapshot}}", 1 << 62),
        ("{{ inputs[lake.raw.flights].rows }}", 7),
        ("{{ inputs.lake.raw.weather.rows }}", 0),
        ("{{ upstream.arguments.region }}", "eu"),
        ("{{ upstream.arguments }}", {"region": "eu", "deep": {"n": 1}}),
        ("{{ upstream.arguments.deep.n }}", 1),
        ("{{ cause.type }}", "evidence"),
        ("{{ previous_fire_time }}", None),
        ("{{ timed_out_waiting }}", False),
        ("from {{ inputs.flights.from_snapshot }} to {{ inputs.flights.rows }}", "from 3 to 7"),
        ('{{ fire_time | date:"%Y-%m-%d" }}', "2026-03-29"),
        ("{{ fire_time | date: '%H:%M', 'Europe/Berlin' }}", "01:30"),
        ("day {{ previous_fire_time | date:%Y | default:never }}", "day never"),
        ("{{ inputs.flights.partitions | join:', ' }}", "day=1, day=2"),
        ("{{ inputs.flights.partitions|last }}", "day=2"),
        ("{{ inputs.lake.raw.weather.partitions|first }}", None),
        ("{{ inputs.flights.partitions|count }}", 2),
        ("{{{{ jinja }}", "{{ jinja }}"),
        ("no template { } }}", "no template { } }}"),
        (["a", {"b": "{{ cause.by }}"}, 3], ["a", {"b": "trigger"}, 3]),
    ],
)
def test_a_template_becomes_what_it_names(text: Any, value: Any) -> None:
    assert filled(text) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ inputs.flihgts.rows }}", "did you mean 'flights'"),
        ("{{ inputs.flights.row }}", "did you mean 'rows'"),
        ("{{ inputs.weather.rows }}", "write the whole path"),
        ("{{ fire_tiem }}", "did you mean 'fire_time'"),
        ("{{ fire_time.year }}", "has no parts"),
        ("{{ upstream.args }}", "did you mean 'arguments'"),
        ("{{ }}", "a name is missing"),
        ("{{ inputs. }}", "a name is missing"),
        ("{{ fire_time | dat:'%Y' }}", "did you mean 'date'"),
        ("{{ fire_time | date }}", "a format, like"),
        ("{{ fire_time | date:'%Y','Europe/Berln' }}", "Europe/Berlin"),
        ("{{ inputs.flights }}", "name one thing of the dataset"),
        ("{{ fire_time + 1 }}", "is not understood"),
        ("{{ __import__('os').system('x') }}", "is not understood"),
        ("{{ cause.__class__ }}", "is not known of the cause"),
    ],
)
def test_what_can_be_known_to_be_wrong_is_said_when_it_is_declared(text: str, said: str) -> None:
    [fault] = faults({"a": ["x", text]}, DATASETS, upstream=True, at="spec.arguments")
    assert fault.path == "spec.arguments.a[1]"
    assert said in fault.reason
    if said != "has no parts":
        return
    with pytest.raises(Invalid):
        filled(text)


def test_upstream_without_a_program_is_said() -> None:
    [fault] = faults({"a": "{{ upstream.id }}"}, (), upstream=False, at="spec.arguments")
    assert "waits for no program" in fault.reason


def test_a_name_that_is_not_there_when_it_runs_is_said_with_its_place() -> None:
    with pytest.raises(Invalid, match=r"arguments\.a\[0\].*regoin.*did you mean 'region'"):
        render({"a": ["{{ upstream.arguments.regoin }}"]}, RUN)


def test_no_upstream_is_null() -> None:
    alone = {**RUN, "upstream": None}
    assert render({"a": "{{ upstream.arguments.region | default:all }}"}, alone) == {"a": "all"}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda one: st.lists(one) | st.dictionaries(st.text(), one),
        max_leaves=8,
    )
)
def test_what_has_no_template_stays_as_it_is(value: Any) -> None:
    if "{{" not in str(value):
        assert filled(value) == value


@given(st.text(alphabet="{} .|:'\"[]ainputs_flgh0", max_size=30))
def test_whatever_is_written_is_filled_in_or_refused(text: str) -> None:
    said = faults({"x": text}, DATASETS, upstream=True, at="")
    try:
        filled(text)
    except Invalid:
        assert said
