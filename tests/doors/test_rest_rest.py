"""The rest of the doors: previews, explanations, documents at once, applications, health, metrics, the audit log."""

import asyncio
import re
import time
from pathlib import Path

import pytest

from tidegate.api import reference
from tidegate.domain.instants import SECOND

from .conftest import Served, memory_doors, serve

NS = "/namespaces/default"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def served(served_by: Served) -> Served:
    """All of this holds over both stores."""
    return served_by


@pytest.mark.requirement("TIME-9", "OPS-1")
def test_a_trigger_that_is_not_declared_can_be_previewed_from_any_instant(served: Served) -> None:
    trigger = {"type": "cron", "expression": "30 2 * * *", "timezone": "Europe/Berlin"}
    body = {"trigger": trigger, "after": "2026-03-28T00:00:00Z", "count": 3}
    fires = served("POST", "/preview", json=body).json()["items"]
    assert [one["fire_time"] for one in fires] == [
        "2026-03-28T01:30:00Z",
        "2026-03-29T01:00:00Z",
        "2026-03-30T00:30:00Z",
    ]
    assert fires[0]["local_time"].startswith("2026-03-28T02:30:00")
    assert fires[1]["note"]
    assert served("GET", f"{NS}/schedules").json()["items"] == []


@pytest.mark.parametrize(
    "body",
    [{}, {"trigger": 3}, {"trigger": {"type": "never"}, "count": 0}, {"triger": {}}, {"trigger": {}, "after": 3}],
)
def test_a_wrong_preview_is_422(served: Served, body: dict[str, object]) -> None:
    assert served("POST", "/preview", json=body).status_code == 422


@pytest.mark.requirement("TIME-9")
def test_a_declared_schedule_is_previewed_as_if_it_were_enabled(served: Served) -> None:
    served.declare(trigger={"type": "interval", "every": "PT1H"})
    path = f"{NS}/schedules/s/preview?count=2&after=2026-01-01T00:30:00Z"
    fires = [one["fire_time"] for one in served("GET", path).json()["items"]]
    assert fires == ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"]


@pytest.mark.requirement("OPS-7")
def test_a_schedule_and_a_run_explain_themselves(served: Served) -> None:
    served.declare()
    told = served("GET", f"{NS}/schedules/s/explain").json()
    assert set(told) == {"verdict", "summary", "blocker", "earliest", "release", "tree"}
    assert told["verdict"] == "disabled"
    assert set(told["tree"]) == {"node", "satisfied", "value", "threshold", "why", "children"}
    run = served("POST", f"{NS}/schedules/s:trigger").json()
    assert served("GET", f"/runs/{run['id']}/explain").json()["verdict"] == "waiting"


@pytest.mark.requirement("FAIL-6")
def test_a_schedule_has_statistics(served: Served) -> None:
    served.declare()
    stats = served("GET", f"{NS}/schedules/s/stats").json()
    assert (stats["total_runs"], stats["last_start"], stats["total_duration"]) == (0, None, "PT0S")


def documents(*names: str, namespace: str = "sales") -> list[dict[str, object]]:
    program = {"type": "command", "argv": ["true"]}
    spec = {"program": "p", "trigger": {"type": "never"}}
    made: list[dict[str, object]] = [
        {"kind": "Schedule", "metadata": {"namespace": namespace, "name": name}, "spec": spec} for name in names
    ]
    made.append({"kind": "Program", "metadata": {"namespace": namespace, "name": "p"}, "spec": program})
    return [{"apiVersion": "tidegate/v1", **one} for one in made]


@pytest.mark.requirement("OPS-4")
def test_documents_are_applied_together_in_any_order_and_again_without_effect(served: Served) -> None:
    body = {"documents": documents("a", "b")}
    assert {one["result"] for one in served("POST", "/apply?dry_run=true", json=body).json()["items"]} == {"created"}
    assert served("GET", "/namespaces/sales/schedules").json()["items"] == []
    done = served("POST", "/apply", json=body).json()["items"]
    assert {one["result"] for one in done} == {"created"}
    assert any(one["hint"] and "tidegate enable" in one["hint"] for one in done)
    assert {one["result"] for one in served("POST", "/apply", json=body).json()["items"]} == {"unchanged"}


@pytest.mark.requirement("OPS-4")
def test_one_bad_document_stops_all_before_anything_is_written(served: Served) -> None:
    given = documents("a", "b")
    given[1]["spec"] = {"program": "p", "trigger": {"type": "cron", "expression": "0 0 31 2 *"}}
    given[0]["spec"] = {"program": "nope", "priority": 1000}
    answer = served("POST", "/apply", json={"documents": given})
    assert answer.status_code == 422
    paths = [fault["path"] for fault in answer.json()["errors"]]
    assert any(path.startswith("documents[0].spec") for path in paths)
    assert any(path.startswith("documents[1].spec.trigger") for path in paths)
    assert served("GET", "/namespaces/sales/programs").json()["items"] == []


@pytest.mark.requirement("OPS-4")
def test_a_diff_says_what_would_change_field_by_field(served: Served) -> None:
    given = documents("a")
    assert not any(one["exists"] for one in served("POST", "/diff", json={"documents": given}).json()["items"])
    served("POST", "/apply", json={"documents": given})
    assert all(one["same"] for one in served("POST", "/diff", json={"documents": given}).json()["items"])
    given[0]["spec"] = {"program": "p", "trigger": {"type": "never"}, "priority": 70}
    changed = [one for one in served("POST", "/diff", json={"documents": given}).json()["items"] if not one["same"]]
    assert [field["path"] for one in changed for field in one["fields"]] == ["spec.priority"]


@pytest.mark.requirement("LIFE-6")
def test_an_application_is_deployed_as_a_whole_and_its_plan_changes_nothing(served: Served) -> None:
    path = f"{NS}/applications/etl"
    program = {"metadata": {"name": "p"}, "spec": {"type": "command", "argv": ["true"]}}
    schedules = [
        {"metadata": {"name": name}, "spec": {"program": "p", "trigger": {"type": "never"}}} for name in ("a", "b")
    ]
    body = {"programs": [program], "schedules": schedules}
    plan = served("PUT", f"{path}?dry_run=true", json=body).json()
    assert (plan["created"], plan["programs"]["created"]) == (["a", "b"], ["p"])
    assert served("GET", path).status_code == 404
    assert served("PUT", path, json=body).json()["created"] == ["a", "b"]
    done = served("PUT", path, json={**body, "schedules": schedules[:1]}).json()
    assert (done["deleted"], done["unchanged"]) == (["b"], ["a"])
    kept = served("PUT", f"{path}?update_schedules=false", json={**body, "schedules": []}).json()
    assert kept["deleted"] == []
    assert served("GET", path).json()["metadata"]["name"] == "etl"
    assert served("DELETE", path).status_code == 204
    assert served("GET", f"{NS}/schedules").json()["items"] == []


@pytest.mark.requirement("LIFE-8")
def test_every_change_is_on_record_with_who_and_what(served: Served) -> None:
    served.declare()
    served("PATCH", f"{NS}/schedules/s", json={"spec": {"priority": 70}}, headers={"tidegate-user": "ada"})
    items = served("GET", "/audit").json()["items"]
    assert (items[0]["who"], items[0]["action"], items[0]["name"]) == ("ada", "updated", "s")
    first = served("GET", "/audit?limit=1").json()
    rest = served("GET", "/audit", params={"cursor": first["next"]}).json()
    assert first["items"] + rest["items"] == items


@pytest.mark.requirement("CATCH-8")
def test_the_ledger_is_proved_over_rest(served: Served) -> None:
    served.declare(enabled=True)
    answer = served("GET", "/audit/ledger").json()
    assert (answer["holds"], answer["lost"], answer["findings"]) == (True, 0, [])


def test_a_run_without_attempts_has_an_empty_log(served: Served) -> None:
    served.declare()
    run = served("POST", f"{NS}/schedules/s:trigger").json()
    said = served("GET", f"/runs/{run['id']}/logs?offset=0").json()
    assert said == {"attempt": None, "offset": 0, "text": "", "next_offset": 0, "complete": False}
    assert served("GET", f"/runs/{run['id']}/logs?attempt=1").status_code == 404


async def _register(store: object, role: str, heartbeat: int) -> None:
    await store.register(role=role, name=role, host="h", pid=1, now=heartbeat)  # type: ignore[attr-defined]


@pytest.mark.requirement("OPS-13")
def test_ready_means_that_database_scheduler_and_worker_work() -> None:
    doors = memory_doors()
    for served in serve(doors):
        answer = served("GET", "/readyz")
        assert answer.status_code == 503
        assert {fault["path"] for fault in answer.json()["errors"]} == {"scheduler", "worker"}
        now = time.time_ns() // 1000
        asyncio.run(_register(doors.store, "scheduler", now))
        asyncio.run(_register(doors.store, "worker", now - 3600 * SECOND))
        assert {fault["path"] for fault in served("GET", "/readyz").json()["errors"]} == {"worker"}
        asyncio.run(_register(doors.store, "worker", now))
        answer = served("GET", "/readyz")
        assert (answer.status_code, answer.json()["status"]) == (200, "ready")
        assert {one["role"] for one in served("GET", "/instances").json()["items"]} >= {"scheduler", "worker"}
        assert served("GET", "/leases").status_code == 200


@pytest.mark.requirement("OPS-8")
def test_metrics_tell_of_runs_pools_and_requests(served: Served) -> None:
    served.declare()
    served("POST", f"{NS}/schedules/s:trigger")
    text = served("GET", "/metrics").text
    assert 'tidegate_runs_live{namespace="default",state="waiting"} 1.0' in text
    assert 'tidegate_pool_slots{pool="default"}' in text
    assert "tidegate_database_up 1.0" in text
    assert 'tidegate_http_request_seconds_count{method="PUT"' in text
    assert "{namespace}" in text, "requests are counted by route, not by name"


@pytest.mark.requirement("OPS-1")
def test_openapi_lists_every_route_and_every_document(served: Served) -> None:
    found = served("GET", "/openapi.json").json()
    assert found["openapi"].startswith("3.")
    assert served.http.get("/api/v1/openapi.json").json() == found
    one = found["paths"]["/api/v1/namespaces/{namespace}/schedules/{name}"]
    assert {"get", "put", "patch", "delete"} <= set(one)
    for path in (":enable", ":disable", ":trigger", "/preview", "/explain", "/stats", "/revisions"):
        assert f"/api/v1/namespaces/{{namespace}}/schedules/{{name}}{path}" in found["paths"]
    for path in ("", "/logs", "/explain", ":cancel", ":rerun"):
        assert f"/api/v1/runs/{{run}}{path}" in found["paths"]
    assert {"Schedule", "Program", "Application", "Namespace", "Pool"} <= set(found["components"]["schemas"])


def test_the_page_of_operations_is_made_from_the_code_and_each_says_what_it_does() -> None:
    told = reference.page()
    assert (ROOT / "docs/reference/rest.md").read_text() == told
    rows = [line.split("|")[1:-1] for line in told.splitlines() if line.startswith("| ")][2:]
    made_up = re.compile(r"([A-Z][a-z]+ )+[A-Z][a-z]+\.")  # by FastAPI, where nothing is said
    assert [path for _, path, _, what in rows if made_up.fullmatch(what.strip())] == []
