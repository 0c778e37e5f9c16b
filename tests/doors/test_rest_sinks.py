"""Sinks over REST."""

from __future__ import annotations

import pytest

from .conftest import Served

HOOK = "/sinks/hook"
SPEC = {"type": "webhook", "url": "https://example.org/hook", "topics": ["run.*"], "secret": "env:HOOK_KEY"}


@pytest.fixture
def served(served_by: Served) -> Served:
    """All of this holds over both stores."""
    return served_by


@pytest.mark.requirement("EVENT-9", "OPS-1")
def test_a_sink_is_made_read_changed_and_deleted(served: Served) -> None:
    made = served("PUT", HOOK, json={"metadata": {"owner": "core"}, "spec": SPEC})
    assert made.status_code == 201, made.text
    status = made.json().pop("status")
    assert made.json()["spec"] == SPEC and made.json()["metadata"] == {"name": "hook", "owner": "core"}
    assert (status["delivered"], status["set_aside"], status["behind"], status["error"]) == (0, 0, 0, None)
    assert status["refused"] == []
    assert served("PUT", HOOK, json=made.json()).status_code == 200, "an answer can be sent back"
    changed = served("PATCH", HOOK, json={"spec": {"topics": None}}).json()
    assert changed["spec"] == {**SPEC, "topics": ["*"]}
    assert [one["metadata"]["name"] for one in served("GET", "/sinks").json()["items"]] == ["hook"]
    assert served("POST", "/sinks", json={"metadata": {"name": "hook"}, "spec": SPEC}).status_code == 409
    assert served("DELETE", HOOK).status_code == 204
    assert served("DELETE", HOOK).status_code == served("GET", HOOK).status_code == 404
    told = [one["action"] for one in served("GET", "/audit").json()["items"] if one["kind"] == "Sink"]
    assert told == ["deleted", "updated", "created"]


@pytest.mark.requirement("EVENT-9", "OPS-1")
def test_what_a_sink_refused_is_asked_for_again_or_there_is_none(served: Served) -> None:
    served("PUT", HOOK, json={"spec": SPEC})
    asked = served("POST", f"{HOOK}:replay", json={})
    assert (asked.status_code, asked.json()) == (202, {"sink": "hook", "events": 0})
    assert served("POST", f"{HOOK}:replay", json={"position": "7"}).status_code == 404
    for position in ("x", "", -1, 7):
        answer = served("POST", f"{HOOK}:replay", json={"position": position})
        assert answer.status_code == 422
        (fault,) = answer.json()["errors"]
        assert fault == {"path": "position", "reason": "must be the position of an event, as `refused` shows it"}
    assert served("POST", f"{HOOK}:replay", json={"positions": "7"}).status_code == 422
    assert served("POST", "/sinks/none:replay", json={}).status_code == 404


@pytest.mark.parametrize(
    ("spec", "path", "says"),
    [
        pytest.param({"type": "pigeon"}, "spec", "not a type of sink (known: kafka, webhook, table)", id="type"),
        pytest.param({"type": "webhook", "url": "ftp://x/y"}, "spec.url", "http://", id="address"),
        pytest.param({**SPEC, "url": "https://ada:pw@x/y"}, "spec.url", "no user and password", id="password"),
        pytest.param({**SPEC, "secret": "hunter2"}, "spec.secret", "env:NAME", id="secret"),
        pytest.param({**SPEC, "topics": ["runs.*"]}, "spec.topics", "run.*", id="topics"),
        pytest.param({"type": "kafka"}, "spec.servers", "missing", id="servers"),
        pytest.param({"type": "kafka", "servers": "a:1", "topic": "a b"}, "spec.topic", "no name", id="topic"),
        pytest.param(
            {"type": "kafka", "servers": "a:1", "options": {"sasl.password": "hunter2"}},
            "spec.options",
            "holds a secret",
            id="secret_option",
        ),
        pytest.param(
            {"type": "kafka", "servers": "a:1", "options": {"acks": "1"}}, "spec.options", "acknowledge", id="ours"
        ),
        pytest.param({"type": "table", "table": "events"}, "spec.table", "schema.table", id="table"),
    ],
)
def test_what_is_no_sink_is_422_with_its_place_and_never_repeats_a_secret(
    served: Served, spec: dict[str, object], path: str, says: str
) -> None:
    answer = served("PUT", HOOK, json={"spec": spec})
    assert answer.status_code == 422
    reasons = {fault["path"]: fault["reason"] for fault in answer.json()["errors"]}
    assert says in reasons[path], reasons
    assert "hunter2" not in answer.text


@pytest.mark.requirement("OPS-1")
def test_a_sink_is_applied_and_compared_with_other_documents(served: Served) -> None:
    sink = {"apiVersion": "tidegate/v1", "kind": "Sink", "metadata": {"name": "hook"}, "spec": SPEC}
    (first,) = served("POST", "/apply", json={"documents": [sink]}).json()["items"]
    assert (first["kind"], first["name"]) == ("Sink", "hook")
    (difference,) = served("POST", "/diff", json={"documents": [sink]}).json()["items"]
    assert difference["same"]
