"""The rest of the doors: previews, explanations, documents at once, applications, health, metrics, the audit log."""

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tidegate.api import ledger, reference
from tidegate.api.context import Doors
from tidegate.cli import reason
from tidegate.domain.errors import Unavailable
from tidegate.domain.instants import DAY, SECOND, format_instant, parse_instant
from tidegate.engine.meters import Meters
from tidegate.engine.reporter import Reporter
from tidegate.sim.memory import MemoryStore

from .conftest import NoLogs, Served, memory_doors, serve, tidegate

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


# ── the audit of the ledger ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_an_audit_that_takes_long_tells_how_far_it_is(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.declare()
    since = format_instant(time.time_ns() // 1000 - 3600 * SECOND)
    store = served.doors.store
    known = store.books

    async def slow(*given: Any) -> Any:
        await asyncio.sleep(0.3)
        return await known(*given)

    monkeypatch.setattr(ledger, "EVERY", 0.05)
    monkeypatch.setattr(reason, "QUIET", 0)
    monkeypatch.setattr(store, "books", slow)
    whole = served("GET", "/audit/ledger", params={"since": since}).json()
    told = served("GET", "/audit/ledger", params={"since": since, "progress": True})
    assert told.headers["content-type"].startswith("application/x-ndjson")
    *on_the_way, last = [json.loads(line) for line in told.text.splitlines()]
    assert on_the_way and all(set(one["progress"]) == {"schedules", "fires", "findings", "at"} for one in on_the_way)
    assert last["audit"] == {**whole, "until": last["audit"]["until"]}
    said = tidegate("audit", "--since", since, url=served.url)
    assert (said.status, "The ledger holds" in said.out, "1 schedules, 0 fires up to" in said.err) == (0, True, True)


def test_an_audit_that_fails_on_the_way_is_a_problem(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def gone(*given: Any) -> Any:
        raise Unavailable("the database went away", code="database_unreachable")

    monkeypatch.setattr(served.doors.store, "books", gone)
    [line] = served("GET", "/audit/ledger", params={"progress": True}).text.splitlines()
    assert json.loads(line)["problem"]["code"] == "database_unreachable"
    said = tidegate("audit", url=served.url)
    assert (said.status, "the database went away" in said.err) == (1, True)


def test_the_audit_goes_no_further_back_than_history_is_kept() -> None:
    for served in serve(memory_doors(kept=3 * DAY)):
        served.declare()
        told = served("GET", "/audit/ledger", params={"since": "2000-01-01T00:00:00Z"}).json()
        assert parse_instant(told["until"]) - parse_instant(told["since"]) == 3 * DAY


def test_lists_of_applications_are_whole(served: Served) -> None:
    body = {
        "programs": [{"metadata": {"name": "p"}, "spec": {"type": "command", "argv": ["true"]}}],
        "schedules": [{"metadata": {"name": "s"}, "spec": {"program": "p", "trigger": {"type": "never"}}}],
    }
    served("PUT", "/namespaces/sales/applications/etl", json=body)
    one = served("GET", "/namespaces/sales/applications/etl").json()
    assert served("GET", "/namespaces/sales/applications").json()["items"] == [one]
    assert one["spec"] == {"programs": ["p"], "schedules": ["s"]}
    assert one["metadata"] == {
        "namespace": "sales",
        "name": "etl",
        "application": None,
        "labels": {},
        "owner": "",
        "description": "",
    }


def test_a_spec_is_told_in_the_order_in_which_people_write(served_by: Served) -> None:
    spec = {
        "enabled": True,
        "program": "p",
        "arguments": {"zz": 1, "a": {"then": 1, "type": 2}},
        "trigger": {"type": "cron", "expression": "0 2 * * *", "timezone": "Europe/Berlin"},
        "constraints": [{"type": "concurrency", "max": 1, "scope": "program", "unmet": "wait"}],
        "catch_up": {"policy": "latest", "grace": "PT1M", "window": "P1D", "max": 100},
        "retry": {"max_attempts": 5, "delay": "PT5M", "factor": 2, "max_delay": "PT1H", "then": "continue"},
    }
    told = served_by.declare(**spec)["spec"]
    assert told == spec
    assert json.dumps({**told, "arguments": 0}) == json.dumps({**spec, "arguments": 0})


def test_what_went_is_in_the_audit_log(served: Served) -> None:
    served("PUT", "/pools/small", json={"spec": {"slots": 3}})
    served("DELETE", "/pools/small")
    newest = served("GET", "/audit").json()["items"][0]
    assert (newest["action"], newest["before"], newest["after"]) == ("deleted", {"slots": 3}, None)


@pytest.mark.requirement("OPS-8")
def test_metrics_tell_what_the_parts_of_other_processes_count() -> None:
    store = MemoryStore(lambda: time.time_ns() // 1000)

    async def told() -> None:
        now = await store.now()
        fence = await store.register(role="scheduler", name="s1", host="h", pid=1, now=now)
        meters = Meters()
        meters.of("timekeeper").step(7, 0.25)
        meters.of("timekeeper").fail(0.5)
        await Reporter(store, fence, meters).step(now)

    asyncio.run(told())
    for served in serve(Doors(store=store, logs=NoLogs())):
        text = served("GET", "/metrics").text
        labels = '{name="s1",part="timekeeper",role="scheduler"}'
        for line in ("steps_total{} 2.0", "did_total{} 7.0", "failures_total{} 1.0", "seconds_total{} 0.75"):
            assert f"tidegate_part_{line.replace('{}', labels)}\n" in text
        assert f"tidegate_part_longest_seconds{labels} 0.5\n" in text
        assert 'tidegate_report_age_seconds{name="s1",role="scheduler"}' in text


def test_the_page_of_metrics_names_every_metric(served: Served) -> None:
    served.declare()
    page = (ROOT / "docs/reference/metrics.md").read_text()
    families = re.findall(r"^# TYPE (tidegate_\w+) ", served("GET", "/metrics").text, re.MULTILINE)
    assert len(families) > 12
    assert [one for one in families if f"`{one}`" not in page and not one.endswith("_created")] == []
