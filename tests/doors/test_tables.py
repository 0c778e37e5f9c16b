"""Policies and tables at the doors: declared, looked at, maintained by hand; wrong requests are told what is right."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidegate.domain.instants import DAY
from tidegate.domain.maintenance.health import MIB, PartitionFiles, TableHealth
from tidegate.domain.maintenance.wire import health_json
from tidegate.ports.tables import Measured, Seen

from .conftest import Said, Served, tidegate

FLIGHTS = "lake.raw.flights"
POLICY = """
apiVersion: tidegate/v1
kind: MaintenancePolicy
metadata: {name: nightly}
spec:
  tables: "lake.raw.*"
  operations:
    rewrite_data_files: {when: {small_file_percent: 20}}
    expire_snapshots: {schedule: {trigger: {type: interval, every: P1D}}}
"""


@pytest.fixture
def cli(served: Served) -> Callable[..., Said]:
    return lambda *arguments: tidegate(*arguments, url=served.url)


@pytest.fixture
def measured(served: Served) -> Served:
    """A table of twenty small files that was measured just now."""
    now = time.time_ns() // 1000
    health = TableHealth(
        assessed_at=now,
        snapshot=5,
        data_files=20,
        data_bytes=20 * MIB,
        small_files=20,
        large_files=0,
        newest_snapshot_at=now - 10 * DAY,
        snapshots=3,
        snapshot_times=(now - 30 * DAY, now - 20 * DAY, now - 10 * DAY),
        files=(PartitionFiles(partition="", sizes=(MIB,) * 20),),
    )

    async def put() -> None:
        async with served.doors.store.changing() as tx:
            await tx.see_tables([Seen(table=FLIGHTS, location="a"), Seen(table="lake.raw.new", location="b")], now)
            await tx.record_health([Measured(table=FLIGHTS, location="a", health=health_json(health))], now)

    asyncio.run(put())
    return served


def declare(served: Served, **spec: Any) -> None:
    body = {
        "spec": {"tables": "lake.raw.*", "operations": {"rewrite_data_files": {"when": {"small_file_percent": 20}}}}
    }
    body["spec"].update(spec)
    answer = served("PUT", "/policies/nightly", json=body)
    assert answer.is_success, answer.text


@pytest.mark.requirement("CARE-1", "OPS-3")
def test_a_policy_is_declared_changed_and_deleted(served: Served) -> None:
    declare(served)
    first = served("GET", "/policies/nightly")
    assert first.headers["etag"] == '"1"' and first.json()["status"]["revision"] == 1
    changed = served("PATCH", "/policies/nightly", json={"spec": {"priority": 7}}, headers={"If-Match": '"1"'})
    assert changed.json()["spec"]["priority"] == 7 and changed.json()["status"]["revision"] == 2
    assert served("PUT", "/policies/nightly", json={**first.json()}, headers={"If-Match": '"1"'}).status_code == 412
    assert served("POST", "/policies", json={**first.json()}).status_code == 409
    assert [one["revision"] for one in served("GET", "/policies/nightly/revisions").json()["items"]] == [2, 1]
    assert served("DELETE", "/policies/nightly").status_code == 204
    assert served("GET", "/policies/nightly").status_code == 404
    assert served("GET", "/policies/nightly/revisions").json()["items"][0]["spec"] is None


def test_a_policy_is_applied_once_and_told_apart(served: Served, cli: Callable[..., Said], tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    assert "created" in cli("apply", "-f", str(file)).out
    assert "unchanged" in cli("apply", "-f", str(file)).out
    assert cli("diff", "-f", str(file)).status == 0
    file.write_text(POLICY.replace("20", "30"))
    assert cli("diff", "-f", str(file)).status == 1
    listed = cli("get", "policies")
    assert "nightly" in listed.out and "lake.raw.*" in listed.out
    assert "rewrite_data_files" in cli("describe", "policy", "nightly").out
    assert "deleted" in cli("delete", "policy", "nightly").out


@pytest.mark.requirement("CARE-1", "CARE-3")
def test_a_policy_that_keeps_no_table_says_so(measured: Served, cli: Callable[..., Said]) -> None:
    declare(measured)
    rewrite = {"rewrite_data_files": {}}
    for name, tables in (("nothing", "lake.rwa.*"), ("behind", "lake.raw.*")):
        measured("PUT", f"/policies/{name}", json={"spec": {"tables": tables, "operations": rewrite}})
    measured("PATCH", "/policies/behind", json={"spec": {"priority": -1}})
    found = {one["metadata"]["name"]: one["status"] for one in measured("GET", "/policies").json()["items"]}
    assert {name: one["tables"] for name, one in found.items()} == {"nightly": 2, "nothing": 0, "behind": 0}
    assert found["nightly"]["warning"] is None and "none of the 2 tables" in found["nothing"]["warning"]
    assert "'nightly' speaks for them" in found["behind"]["warning"]
    assert measured("GET", "/policies/nothing").json()["status"] == found["nothing"]
    assert "nothing: It matches none" in cli("policies").err


@pytest.mark.requirement("CARE-5", "CARE-6")
def test_health_and_debt_are_told_with_their_reasons(measured: Served, cli: Callable[..., Said]) -> None:
    declare(measured)
    health = measured("GET", f"/tables/{FLIGHTS}/health").json()
    assert (health["snapshot"], health["metrics"]["small_file_percent"]) == ("5", 100)
    assert [(one["severity"], one["kind"]) for one in health["issues"]] == [("CRITICAL", "small_file_percent")]
    assert health["debt"]["score"] == pytest.approx(105, abs=0.01)
    assert [one["name"] for one in health["debt"]["terms"]] == ["critical_issues", "stale_metadata"]
    page = cli("tables", "health", FLIGHTS, "--history", "5")
    assert page.status == 0 and "105 of 1000" in page.out and "CRITICAL" in page.out
    listed = cli("tables")
    assert FLIGHTS in listed.out and "small_file_percent" in listed.out and "lake.raw.new" in listed.out
    assert [one["table"] for one in json.loads(cli("tables", "list", "-o", "json").out)] == [FLIGHTS, "lake.raw.new"]


@pytest.mark.requirement("CARE-5", "OPS-2")
def test_each_figure_is_shown_once_with_its_unit(measured: Served, cli: Callable[..., Said]) -> None:
    declare(measured)
    lines = [line.split(maxsplit=1) for line in cli("tables", "health", FLIGHTS).out.splitlines()]
    figures = {line[0]: line[1] for line in lines if len(line) == 2}
    assert (figures["file_count"], figures["total_size"]) == ("20", "20 MiB")
    assert (figures["small_file_percent"], figures["snapshot_count"]) == ("100 %", "3")
    assert figures["staleness"] == "10 d" and figures["small_file_bytes"].endswith("MiB")
    assert not figures.keys() & {"data_files", "data_bytes", "small_files", "snapshots", "newest_snapshot_at"}
    exact = measured("GET", f"/tables/{FLIGHTS}/health").json()["metrics"]
    assert (exact["data_bytes"], exact["total_size"]) == (20 * MIB, 20 * MIB)


@pytest.mark.requirement("CARE-8")
def test_the_status_has_every_reason(measured: Served, cli: Callable[..., Said]) -> None:
    declare(measured, operations={"rewrite_data_files": {"when": {"small_file_percent": 20}}, "rewrite_manifests": {}})
    status = measured("GET", f"/tables/{FLIGHTS}/trigger-status").json()
    assert {key: status[key] for key in ("catalog", "namespace", "table", "policy")} == {
        "catalog": "lake",
        "namespace": "raw",
        "table": "flights",
        "policy": "nightly",
    }
    rewrite, manifests = status["operations"]
    assert rewrite["should_run"] and rewrite["conditions_met"] == [
        {"name": "small_file_percent", "value": 100, "threshold": 20}
    ]
    assert not manifests["should_run"] and manifests["blocked_by"][0] == "schedule"
    assert measured("GET", "/tables/raw/flights/trigger-status").json() == status
    page = cli("tables", "status", FLIGHTS)
    assert "runs" in page.out and "by hand" in page.out


@pytest.mark.requirement("CARE-9", "CARE-10")
def test_by_hand_a_run_is_made_and_a_dry_run_makes_none(measured: Served, cli: Callable[..., Said]) -> None:
    declare(measured)
    dry = cli("tables", "maintain", FLIGHTS, "--operation", "rewrite_data_files", "--dry-run")
    assert dry.status == 0 and "20 files" in dry.out
    assert measured("GET", f"/tables/{FLIGHTS}/runs").json()["items"] == []
    answer = measured("POST", "/maintenance/trigger", json={"catalog": "lake", "namespace": "raw", "table": "flights"})
    assert answer.status_code == 202
    (started,) = answer.json()["items"]
    run = measured("GET", f"/runs/{started['run']}").json()
    assert (run["namespace"], run["schedule"]) == ("maintenance", f"{FLIGHTS}.rewrite_data_files")
    listed = cli("tables", "runs", FLIGHTS)
    assert "by hand" in listed.out and "under way" in listed.out
    assert "asked for it by hand" in cli("explain", started["run"]).out


@pytest.mark.requirement("CARE-14")
def test_automatic_maintenance_is_switched_off_and_on(served: Served, cli: Callable[..., Said]) -> None:
    off = cli("policies", "disable", "--reason", "migration")
    assert "switched off" in off.out and "migration" in off.out
    assert "switched off" in cli("policies").err
    assert served("GET", "/maintenance").json()["automatic"] is False
    assert "starts by itself" in cli("policies", "enable").out


@pytest.mark.requirement("OPS-2")
def test_a_wrong_option_is_named_and_a_table_is_not_deleted_here(measured: Served, cli: Callable[..., Said]) -> None:
    declare(measured)
    wrong = cli("tables", "maintain", FLIGHTS, "--operation", "rewrite_data")
    assert wrong.status == 1 and "--operation: " in wrong.err and "rewrite_data_files" in wrong.err
    assert "document" not in wrong.err
    kept = cli("delete", "table", FLIGHTS)
    assert kept.status == 2 and "drop the table in its catalog" in " ".join(kept.err.replace("│", " ").split())


@pytest.mark.requirement("CARE-14")
def test_every_policy_says_whether_maintenance_starts_by_itself(served: Served, cli: Callable[..., Said]) -> None:
    body = {"spec": {"tables": "lake.**", "operations": {"expire_snapshots": {}}}}
    assert served("PUT", "/policies/nightly", json=body).json()["status"]["automatic"] is True
    for verb, automatic in (("disable", False), ("enable", True)):
        cli("policies", verb)
        for words in (("policies",), ("policies", "list"), ("get", "policies")):
            assert [one["status"]["automatic"] for one in cli(*words, "-o", "json").json] == [automatic]
        assert served("GET", "/policies/nightly").json()["status"]["automatic"] is automatic


@pytest.mark.parametrize(
    ("request_", "status", "said"),
    [
        (("GET", "/tables/lake.raw.flight/health", None), 404, "did you mean 'lake.raw.flights'"),
        (("POST", f"/tables/{FLIGHTS}:maintain", {"operation": "vacuum"}), 422, "known: rewrite_data_files"),
        (("POST", f"/tables/{FLIGHTS}:maintain", {"operatoin": "x"}), 422, "operation"),
        (("POST", f"/tables/{FLIGHTS}:maintain", {"dry_run": "yes"}), 422, "true or false"),
        (("POST", "/maintenance/trigger", {"catalog": "lake", "table": 3}), 422, "namespace"),
        (
            ("PUT", "/policies/x", {"spec": {"tables": "flights", "operations": {"expire_snapshots": {}}}}),
            422,
            "tables",
        ),
        (("GET", "/policies/nightli", None), 404, "nightly"),
    ],
    ids=lambda one: one[1] if isinstance(one, tuple) else "",
)
def test_wrong_requests_are_told_what_is_right(
    measured: Served, request_: tuple[str, str, Any], status: int, said: str
) -> None:
    declare(measured)
    method, path, body = request_
    answer = measured(method, path, **({} if body is None else {"json": body}))
    assert answer.status_code == status and said in answer.text


@pytest.mark.slow
@pytest.mark.requirement("OPS-3", "CARE-1")
def test_maintenance_that_python_declares_is_deployed_with_its_application(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "care.py"
    file.write_text(
        "from tidegate import App, cron, expire_snapshots\n"
        "app = App('orders', timezone='Europe/Berlin')\n"
        "app.maintain('nightly', tables='lake.raw.*', operations=[expire_snapshots(when=cron('0 1 * * *'), keep=10)])\n"
    )
    planned = tidegate("deploy", str(file), "--dry-run", url=served.url)
    assert (planned.status, "+ MaintenancePolicy nightly" in planned.out) == (0, True)
    assert served("GET", "/policies/nightly").status_code == 404
    assert tidegate("deploy", str(file), "--yes", url=served.url).status == 0
    found = served("GET", "/policies/nightly").json()
    assert found["spec"]["operations"]["expire_snapshots"]["options"] == {"retain_last": 10}
    assert "= MaintenancePolicy nightly" in tidegate("deploy", str(file), "--dry-run", url=served.url).out
    file.write_text(file.read_text().replace("keep=10", "keeep=10"))
    refused = tidegate("deploy", str(file), "--yes", url=served.url)
    assert (refused.status, "keeep" in refused.err) == (1, True)
