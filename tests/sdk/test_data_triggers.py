"""What people compose in Python is the document that they would write in YAML."""

from __future__ import annotations

import pytest

import tidegate
from tidegate import App, cron, event, every, n_of, since_last_event, since_last_run, table

flights, weather = table("lake.raw.flights"), table("lake.raw.weather")
NEW_FLIGHTS = {"type": "event", "event": "dataset.updated", "key": "lake.raw.flights"}
NEW_WEATHER = {"type": "event", "event": "dataset.updated", "key": "lake.raw.weather"}
GIGABYTE = {"type": "data_size", "dataset": "lake.raw.flights", "bytes": "1 GB"}


@pytest.mark.requirement("DATA-5", "DATA-7")
def test_or_is_any() -> None:
    composed = flights.new(bytes="1 GB") | since_last_run("4h")
    assert composed.document == {
        "type": "any",
        "triggers": [GIGABYTE, {"type": "elapsed", "since": "last_run", "after": "4h"}],
    }


@pytest.mark.requirement("DATA-6")
def test_and_is_all_and_may_wait_so_long() -> None:
    composed = (flights.new() & weather.new()).max_wait("2h", then="run")
    assert composed.document == {
        "type": "all",
        "triggers": [NEW_FLIGHTS, NEW_WEATHER],
        "max_wait": "2h",
        "then": "run",
    }


@pytest.mark.requirement("DATA-6")
def test_a_leaf_that_may_wait_so_long_is_an_all_of_one() -> None:
    assert flights.new(bytes="1 GB").max_wait("4h", then="run").document == {
        "type": "all",
        "triggers": [GIGABYTE],
        "max_wait": "4h",
        "then": "run",
    }


@pytest.mark.requirement("DATA-5")
def test_the_same_junction_is_flat_and_another_is_nested() -> None:
    a, b, c = event("user.a"), event("user.b"), event("user.c")
    assert [one["event"] for one in (a & b & c).document["triggers"]] == ["user.a", "user.b", "user.c"]
    assert [one["type"] for one in (a & b | c).document["triggers"]] == ["all", "event"]
    waited = (a & b).max_wait("1h") & c
    assert [one["type"] for one in waited.document["triggers"]] == ["all", "event"]  # its longest wait is its own
    assert n_of(2, a, b, c).document["n"] == 2


@pytest.mark.requirement("DATA-8")
def test_quiet_wraps_what_must_fall_silent() -> None:
    landed = event("user.file_landed", key="sales/eu")
    assert landed.quiet("10m", max_wait="1h").document == {
        "type": "quiet",
        "trigger": {"type": "event", "event": "user.file_landed", "key": "sales/eu"},
        "for": "10m",
        "max_wait": "1h",
    }


@pytest.mark.requirement("DATA-9")
def test_every_time_leaf_of_a_tree_takes_the_applications_zone() -> None:
    tree = (cron("0 22 * * *", latch="0s") & flights.new()) | every("P1D", timezone="UTC")
    located = tree.in_zone("Europe/Berlin")
    assert located["triggers"][0]["triggers"][0]["timezone"] == "Europe/Berlin"
    assert located["triggers"][0]["triggers"][0]["latch"] == "0s"
    assert located["triggers"][1]["timezone"] == "UTC"


@pytest.mark.requirement("DATA-1", "DATA-2")
def test_new_data_by_partitions_bytes_and_rows() -> None:
    assert flights.new(partitions=4).document == {"type": "partition", "dataset": "lake.raw.flights", "count": 4}
    assert flights.new(rows=5, bytes=7).document == {
        "type": "data_size",
        "dataset": "lake.raw.flights",
        "bytes": 7,
        "rows": 5,
    }
    assert [one["type"] for one in flights.new(partitions=1, rows=5).document["triggers"]] == ["partition", "data_size"]
    with pytest.raises(ValueError, match="give `partitions` too"):
        flights.new(changed=True)


@pytest.mark.requirement("DATA-4")
def test_programs_are_waited_for_by_name() -> None:
    app = App("orders", namespace="sales")
    load = app.command("load", "true")
    assert load.succeeded().document == {"type": "program_status", "program": "load", "outcomes": ["succeeded"]}
    assert load.ends("failed", "killed", count=3).document["outcomes"] == ["failed", "killed"]


@pytest.mark.requirement("DATA-7")
def test_silence_can_be_waited_for() -> None:
    assert since_last_event("1h", "user.beat", key="eu").document == {
        "type": "elapsed",
        "since": "last_event",
        "after": "1h",
        "event": "user.beat",
        "key": "eu",
    }


@pytest.mark.parametrize("combine", [lambda a, b: a and b, lambda a, b: a or b, lambda a, b: not a])
def test_a_trigger_is_neither_true_nor_false(combine) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TypeError, match="combine triggers with & "):
        combine(flights.new(), weather.new())


@pytest.mark.parametrize("path", ["orders", "lake.orders", "lake..orders", ""])
def test_a_table_is_named_by_its_whole_path(path: str) -> None:
    with pytest.raises(ValueError, match="catalog.namespace.table"):
        table(path)


@pytest.mark.requirement("EVENT-6")
def test_an_event_to_publish_is_a_body_of_the_rest_api() -> None:
    assert flights.updated(bytes="600 MB", partitions=["day=1"], id="a").document() == {
        "type": "dataset.updated",
        "key": "lake.raw.flights",
        "id": "a",
        "payload": {"bytes": 600_000_000, "partitions_added": ["day=1"]},
    }


def test_every_public_name_is_there() -> None:
    for name in tidegate.__all__:
        assert getattr(tidegate, name).__module__.startswith(("tidegate.sdk", "tidegate.domain.errors"))
