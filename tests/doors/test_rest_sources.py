"""Sources over REST."""

from __future__ import annotations

import pytest

from .conftest import Served

SHOP = "/sources/shop"
SPEC = {
    "type": "kafka",
    "servers": "k:9092",
    "topics": ["orders"],
    "event": {"type": "user.order", "key": "sales/{{ value.region }}"},
    "format": "json",
    "begin": "oldest",
    "secret": "env:SHOP_KEY",
}


@pytest.fixture
def served(served_by: Served) -> Served:
    """All of this holds over both stores."""
    return served_by


@pytest.mark.requirement("EVENT-9", "OPS-1")
def test_a_source_is_made_read_changed_and_deleted(served: Served) -> None:
    made = served("PUT", SHOP, json={"metadata": {"owner": "core"}, "spec": SPEC})
    assert made.status_code == 201, made.text
    status = made.json().pop("status")
    assert made.json()["spec"] == SPEC and made.json()["metadata"] == {"name": "shop", "owner": "core"}
    assert (status["received"], status["set_aside"], status["missed"], status["error"]) == (0, 0, 0, None)
    assert (status["partitions"], status["refused"]) == ([], [])
    assert served("PUT", SHOP, json=made.json()).status_code == 200, "an answer can be sent back"
    changed = served("PATCH", SHOP, json={"spec": {"begin": None}}).json()
    assert changed["spec"] == {**SPEC, "begin": "newest"}
    assert [one["metadata"]["name"] for one in served("GET", "/sources").json()["items"]] == ["shop"]
    assert served("POST", "/sources", json={"metadata": {"name": "shop"}, "spec": SPEC}).status_code == 409
    assert served("DELETE", SHOP).status_code == 204
    assert served("DELETE", SHOP).status_code == served("GET", SHOP).status_code == 404
    told = [one["action"] for one in served("GET", "/audit").json()["items"] if one["kind"] == "Source"]
    assert told == ["deleted", "updated", "created"]


EVENT = {"type": "user.x", "key": "a/b"}


@pytest.mark.parametrize(
    ("spec", "path", "says"),
    [
        pytest.param({"type": "pigeon"}, "spec.type", "kafka", id="type"),
        pytest.param({"topics": []}, "spec.topics", "must not be empty", id="topics"),
        pytest.param({"topics": ["a b"]}, "spec.topics[0]", "no name of a Kafka topic", id="topic"),
        pytest.param({"event": {"type": "run.failed", "key": "a/b"}}, "spec.event.type", "by Tidegate", id="own"),
        pytest.param({"event": {**EVENT, "key": "b"}}, "spec.event", "whole key", id="key"),
        pytest.param({"event": {**EVENT, "key": "a/{{ val.x }}"}}, "spec.event.key", "'value'", id="template"),
        pytest.param({"event": {**EVENT, "payload": "text"}}, "spec.event.payload", "mapping", id="payload"),
        pytest.param({"secret": "hunter2"}, "spec.secret", "env:NAME", id="secret"),
        pytest.param({"options": {"ssl.key.password": "hunter2"}}, "spec.options", "holds a secret", id="option"),
        pytest.param({"options": {"group.id": "x"}}, "spec.options", "no group is joined", id="ours"),
        pytest.param({"servers": None}, "spec.servers", "missing", id="servers"),
    ],
)
def test_what_is_no_source_is_422_with_its_place_and_never_repeats_a_secret(
    served: Served, spec: dict[str, object], path: str, says: str
) -> None:
    given = {key: value for key, value in {**SPEC, **spec}.items() if value is not None}
    answer = served("PUT", SHOP, json={"spec": given})
    assert answer.status_code == 422, answer.text
    reasons = {fault["path"]: fault["reason"] for fault in answer.json()["errors"]}
    assert says in reasons.get(path, ""), reasons
    assert "hunter2" not in answer.text


@pytest.mark.requirement("OPS-1")
def test_a_source_is_applied_and_compared_with_other_documents(served: Served) -> None:
    source = {"apiVersion": "tidegate/v1", "kind": "Source", "metadata": {"name": "shop"}, "spec": SPEC}
    (first,) = served("POST", "/apply", json={"documents": [source]}).json()["items"]
    assert (first["kind"], first["name"]) == ("Source", "shop")
    (difference,) = served("POST", "/diff", json={"documents": [source]}).json()["items"]
    assert difference["same"]


@pytest.mark.requirement("OPS-1")
def test_the_log_is_read_page_by_page(served: Served) -> None:
    for first in (0, 3):
        events = [{"type": "user.x", "key": "a/b", "payload": {"n": n}} for n in range(first, first + 3)]
        assert served("POST", "/events", json=events).status_code == 202
    found: list[int] = []
    asked: dict[str, object] = {"type": "user.x", "limit": 4}
    while asked:
        answer = served("GET", "/events", params=asked)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += [one["payload"]["n"] for one in page["items"]]
        asked = {**asked, "cursor": page["next"]} if page["next"] else {}
    assert found == [5, 4, 3, 2, 1, 0]
