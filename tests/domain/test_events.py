"""Which events may be published, and what an event counts for."""

from __future__ import annotations

import pytest

from tidegate.domain import events
from tidegate.domain.instants import DAY

NOW = 1_790_000_000_000_000


def _places(type: str, key: str, payload: dict[str, object] | None = None, time: int | None = None) -> list[str]:
    return [fault.path for fault in events.faults(type, key, payload or {}, time, NOW)]


@pytest.mark.requirement("EVENT-4", "EVENT-6")
@pytest.mark.parametrize(
    ("type", "key", "payload"),
    [
        ("user.file_landed", "sales/eu", {"path": "a/b", "deep": {"x": [1]}}),
        ("dataset.updated", "lake.raw.orders", {"rows": 1, "bytes": 0, "files": 2, "partitions_added": ["day=1"]}),
        ("dataset.updated", "a-stream", {}),
    ],
)
def test_what_anybody_may_publish(type: str, key: str, payload: dict[str, object]) -> None:
    assert _places(type, key, payload, NOW) == []


@pytest.mark.requirement("EVENT-4")
@pytest.mark.parametrize(
    ("type", "key", "payload", "time", "place"),
    [
        ("user.", "a/b", {}, None, "type"),
        ("file_landed", "a/b", {}, None, "type"),
        ("run.succeeded", "a/b", {}, None, "type"),
        ("dataset.gap", "lake.raw.orders", {}, None, "type"),
        ("user.x", "without-a-namespace", {}, None, "key"),
        ("user.x", "a/b\n", {}, None, "key"),
        ("dataset.updated", "", {}, None, "key"),
        ("dataset.updated", "t", {"rows": -1}, None, "payload.rows"),
        ("dataset.updated", "t", {"bytes": "1 GB"}, None, "payload.bytes"),
        ("dataset.updated", "t", {"partitions_added": "day=1"}, None, "payload.partitions_added"),
        ("dataset.updated", "t", {"row": 1}, None, "payload.row"),
        ("user.x", "a/b", {"blob": "x" * 10_000_000}, None, "payload"),
        ("user.x", "a/b", {}, NOW + DAY + 1, "time"),
    ],
)
def test_what_nobody_may_publish_is_refused_by_its_place(
    type: str, key: str, payload: dict[str, object], time: int | None, place: str
) -> None:
    assert _places(type, key, payload, time) == [place]


def test_every_event_of_the_interface_is_a_type() -> None:
    ends = ("succeeded", "failed", "timed_out", "cancelled", "crashed")
    never_started = ("skipped", "merged", "expired", "superseded", "missed")
    for end in (*ends, *never_started, "waiting", "ready", "started", "stopping"):
        assert events.is_type(f"run.{end}")
    assert not events.is_type("run.running")


@pytest.mark.requirement("EVENT-4")
def test_a_namespace_may_be_left_out_inside_ones_own() -> None:
    assert events.qualified("user.x", "eu", "sales") == "sales/eu"
    assert events.qualified("user.x", "other/eu", "sales") == "other/eu"
    assert events.qualified("run.failed", "load", "sales") == "sales/load"
    assert events.qualified("dataset.updated", "lake.raw.orders", "sales") == "lake.raw.orders"


@pytest.mark.requirement("DATA-2")
def test_only_new_data_counts_as_rows_and_bytes() -> None:
    amount = events.amount_of("dataset.updated", {"rows": 3, "bytes": 5})
    assert (amount.n, amount.rows, amount.bytes) == (1, 3, 5)
    assert events.amount_of("user.x", {"rows": 3}).rows == 0
