"""The examples are what people copy: both ways of writing the flights must say the same."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tidegate.documents import parse
from tidegate.sdk.loading import load_apps

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


@pytest.fixture
def examples_on_path() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before


def test_the_yaml_and_the_python_example_declare_the_same(examples_on_path: None) -> None:
    [app] = load_apps(str(EXAMPLES / "flights.py"))
    declared = {(d["kind"], d["metadata"]["name"]): d for d in app.documents()}
    written = {
        (d["kind"], d["metadata"]["name"]): d
        for d in YAML(typ="safe", pure=True).load_all((EXAMPLES / "flights.yaml").read_text())
    }
    assert declared.keys() == written.keys()
    for name, document in written.items():
        assert document["metadata"]["application"] == app.name
        if name[0] == "Schedule":
            ours, theirs = parse(document), parse(declared[name])
            assert (ours.spec, ours.enabled) == (theirs.spec, theirs.enabled)
        else:
            assert document["spec"]["type"] == declared[name]["spec"]["type"]
            assert document["spec"].get("sql") == declared[name]["spec"].get("sql")


@pytest.mark.slow
def test_a_fire_time_names_one_day_and_the_next_fire_the_next_day(examples_on_path: None) -> None:
    from datetime import UTC, datetime, timedelta

    sys.path.insert(0, str(EXAMPLES))
    from flights_data import day_of, rows_per_day

    start = datetime(2026, 11, 21, tzinfo=UTC)
    days = [day_of(start + timedelta(seconds=5 * n), 5) for n in range(365)]
    assert len(set(days)) == 365
    assert sum(rows_per_day().values()) == 336_776
    assert sum(rows_per_day("weather").values()) == 26_115
