"""`tidegate.Client`: all of REST through a real server, typed, with refusals that say what to do."""

import dataclasses
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tidegate import App, Client, Event, Problem, TidegateError, Unavailable, cron, never
from tidegate.api.app import create_app
from tidegate.documents import shapes
from tidegate.domain.evidence import upstream_of
from tidegate.domain.ids import AttemptKey, RunKey
from tidegate.ports.records import AttemptRecord
from tidegate.ports.tables import TableRecord
from tidegate.sdk import answers, connection, records
from tidegate.sdk.run import Upstream

from .conftest import Served, memory_doors, tidegate

ELSEWHERE = {
    "/healthz": "/readyz says that too",
    "/metrics": "is Prometheus's text, not JSON",
    "/api/v1/namespaces/{namespace}/runs/{run}": "the ids of runs are good without a namespace",
}
"""Operations that no method asks for, by the beginning of their path, and why."""
NIGHTLY = {"spec": {"program": "p", "trigger": cron("0 2 * * *").document}}
TABLE = "lake.raw.flights"
POLICY = {"spec": {"tables": "lake.raw.*", "operations": {"expire_snapshots": {"when": {"snapshot_count": 9}}}}}
TRUE = {"spec": {"type": "command", "argv": ["true"]}}


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with Client(served.url) as one:
        one.programs.put("p", TRUE)
        one.schedules.put("s", NIGHTLY)
        found = TableRecord(table=TABLE, version=1, location="a", known_at=0, seen_at=0)
        served.doors.store.data.lake_table.rows[TABLE] = found  # type: ignore[attr-defined]
        yield one


def _everything(client: Client) -> None:
    """Every method once, against the real doors; each answer has the shape that it promises."""
    for kept, document, changes in (
        (client.programs, TRUE, {"spec": {"argv": ["false"]}}),
        (client.schedules, NIGHTLY, {"spec": {"priority": 60}}),
        (client.pools, {"spec": {"slots": 3}}, {"spec": {"slots": 4}}),
        (client.namespaces, {}, {"metadata": {"owner": "core"}}),
        (client.datasets, {"spec": {"kind": "files", "name": "x"}}, {"metadata": {"description": "new"}}),
        (client.calendars, {"spec": {"days": ["2026-12-25"]}}, {"spec": {"timezone": "Europe/Berlin"}}),
        (
            client.sinks,
            {"spec": {"type": "webhook", "url": "https://x.example/hook"}},
            {"spec": {"topics": ["run.failed"]}},
        ),
        (
            client.sources,
            {
                "spec": {
                    "type": "kafka",
                    "servers": "k:9092",
                    "topics": ["orders"],
                    "event": {"type": "user.order", "key": "sales/{{ key }}"},
                }
            },
            {"spec": {"begin": "oldest"}},
        ),
        (client.policies, POLICY, {"spec": {"priority": 3}}),
    ):
        made = kept.create({**document, "metadata": {"name": "x"}})
        assert kept.get("x") == made == kept.put("x", document)
        changed = kept.patch("x", changes)
        assert changed != made and changed in list(kept.list())
        kept.delete("x")
    app = App("etl")
    app.schedule("never", app.command("load", "true"), when=never())
    assert client.applications.deploy(app, dry_run=True).created == ("never",)
    assert client.applications.deploy(app).programs.created == ("load",)
    assert [client.applications.get("etl")] == list(client.applications.list())
    document = {"apiVersion": "tidegate/v1", "kind": "Schedule", "metadata": {"name": "s"}, **NIGHTLY}
    assert [one.same for one in client.diff([document])] == [True]
    assert [one.result for one in client.apply([document])] == ["unchanged"]
    assert client.schedules.enable("s").status.enabled
    assert client.schedules.disable("s", reason="tests").status.reason == "tests"
    assert client.schedules.preview("s", count=2) == client.preview(cron("0 2 * * *"), count=2)
    assert client.schedules.explain("s").tree.node == "schedule"
    assert client.schedules.stats("s").total_duration == timedelta(0)
    assert client.schedules.progress("s").tree is None
    assert [one.revision for one in client.schedules.revisions("s")] == [3, 2, 1]

    assert client.freeze(reason="tests").frozen and client.frozen().reason == "tests"
    client.unfreeze()
    assert not client.frozen().frozen
    run = client.schedules.trigger("s", key="one")
    assert client.schedules.trigger("s", key="one") == run
    assert run.created_at is not None and abs(run.created_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert [run] == list(client.runs.list(states=["waiting"], schedule="s")) == list(client.runs.list(everywhere=True))
    assert [one.run for one in client.queue()] == [run.id]
    assert client.runs.explain(run).verdict == "waiting"
    assert client.runs.logs(run) == ""
    with pytest.raises(TimeoutError, match="still waiting"):
        client.runs.wait(run, timeout=0)
    assert client.runs.cancel(run).state == "cancelled"
    assert client.runs.wait(run).ended and list(client.runs.follow(run)) == []
    assert client.runs.rerun(run.id).cause.type == "rerun"

    ago = datetime.now(UTC) - timedelta(days=3)
    client.schedules.enable("s")
    client.schedules.disable("s")
    plan = client.backfills.preview("s", start=ago, concurrency=2)
    assert (plan.id, plan.total, plan.count, len(plan.items)) == (None, 3, 3, 3)
    asked = client.backfills.create("s", start=ago, key="two")
    assert asked == client.backfills.create("s", start=ago, key="two") and asked.id is not None
    assert client.backfills.pause(asked.id, reason="tests").state == "paused"
    assert client.backfills.resume(asked.id).state == "running"
    with pytest.raises(TimeoutError, match="running at 0 %"):
        client.backfills.wait(asked.id, timeout=0)
    assert client.backfills.cancel(asked.id).finished_at is not None
    backfill = client.backfills.wait(asked.id)
    assert [backfill] == list(client.backfills.list()) == list(client.backfills.list(everywhere=True, schedule="s"))
    named = client.backfills.create("s", keys=[plan.items[0].fire_time], order="newest", reprocess="all")
    assert [one.fire_time for one in named.items] == [plan.items[0].fire_time]

    (receipt,) = client.events.publish(Event("user.done", "x", {"n": 1}, id="one"))
    assert (receipt.key, receipt.repeated) == ("default/x", False)
    assert client.events.publish(Event("user.done", "x", {"n": 1}, id="one"))[0].repeated
    assert [one.payload for one in client.events.list(type="user.done", key="x")] == [{"n": 1}]
    assert client.events.subscribers("user.done", "x") == ()
    assert list(client.events.set_aside()) == []
    with pytest.raises(Problem, match="7"):
        client.events.replay("7")
    client.sinks.put("told", {"spec": {"type": "webhook", "url": "https://x.example/hook"}})
    assert client.sinks.replay("told") == 0
    with pytest.raises(Problem, match="7"):
        client.sinks.replay("told", position="7")
    client.sinks.delete("told")
    assert [one.revision for one in client.tables.policy_revisions("x")] == [3, 2, 1]
    client.policies.put("x", POLICY)
    assert not client.tables.disable(reason="tests").automatic and client.tables.automatic().reason == "tests"
    assert client.tables.enable().automatic
    assert [one.table for one in client.tables.list()] == [TABLE] == [client.tables.get(TABLE).table]
    assert client.tables.health(TABLE).debt.score == 0 and list(client.tables.history(TABLE)) == []
    assert [one.operation for one in client.tables.status(TABLE).operations] == ["expire_snapshots"]
    assert client.tables.maintain(TABLE, dry_run=True)[0].run is None
    (begun,) = client.tables.maintain(TABLE, "expire_snapshots")
    assert [one.run for one in client.tables.runs(TABLE)] == [begun.run]
    parts = dict(zip(("catalog", "namespace", "table"), TABLE.split("."), strict=True))
    assert client.connection.call("POST", "/maintenance/trigger", body=parts)["items"]
    assert client.connection.get("/tables/raw/flights/trigger-status")["policy"] == "x"
    assert client.audit().holds and client.audit(everywhere=True).schedules >= 1
    assert "s" in {one.name for one in client.changes()}
    assert client.instances() == () and client.leases() == ()
    assert set(client.health().missing) == {"scheduler", "worker"}
    client.applications.delete("etl")


@pytest.mark.requirement("OPS-1", "OPS-3")
def test_each_operation_of_rest_has_a_method(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = set[tuple[str, str]]()
    send = httpx.Client.send

    def noted(self: httpx.Client, request: httpx.Request, **given: Any) -> httpx.Response:
        asked.add((request.method, request.url.path))
        return send(self, request, **given)

    monkeypatch.setattr(httpx.Client, "send", noted)
    _everything(client)
    paths = create_app(memory_doors()).openapi()["paths"]
    operations = {(method.upper(), path) for path, item in paths.items() for method in item}

    def is_of(operation: tuple[str, str], request: tuple[str, str]) -> bool:
        pattern = re.sub(r"\\{\w+\\}", "[^/:]+", re.escape(operation[1]))
        return operation[0] == request[0] and re.fullmatch(pattern, request[1]) is not None

    silent = {one for one in operations if not any(is_of(one, request) for request in asked)}
    assert {one for one in silent if not one[1].startswith(tuple(ELSEWHERE))} == set()


UNTOLD = {"apiVersion", "next_offset", "complete"}
"""What an answer has and a shape leaves out."""
SPARE = {"decides_at", "disabled", "warnings"}
"""What a shape has and not every answer does."""


def test_the_shapes_have_all_that_answers_say_and_nothing_else(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set[type]()
    plain = answers._read

    def compared(kind: Any, given: Any) -> Any:
        if dataclasses.is_dataclass(kind):
            names = {one.name for one in dataclasses.fields(kind)}
            assert (set(given) - names - UNTOLD, names - set(given) - SPARE) == (set(), set()), kind
            seen.add(kind)
        return plain(kind, given)

    monkeypatch.setattr(answers, "_read", compared)
    _everything(client)
    log = {"attempt": 1, "offset": 0, "text": "x", "next_offset": 1, "complete": True}
    assert answers.read(answers.LogPiece, log).text == "x"
    assert answers.read(answers.RunInput, shapes.run_input("lake.raw.x", {"rows": 3})).rows == 3
    failed = AttemptRecord(
        key=AttemptKey(RunKey(1, 2, 3), 1),
        state="failed",
        backend="process",
        backend_id=None,
        fence=1,
        host="",
        created_at=0,
        started_at=1,
        finished_at=None,
        error={"code": "program.exit", "exit_status": 3},
    )
    attempt = answers.read(answers.Attempt, shapes.attempt(failed))
    assert attempt.error is not None and attempt.error.exit_status == 3
    assert attempt.started_at == datetime(1970, 1, 1, microsecond=1, tzinfo=UTC)
    answers.read(Upstream, upstream_of(RunKey(1, 2, 3), "n", "s", "p", "succeeded", 0, {}))
    for module in (answers, records):
        shapely = {one for one in vars(module).values() if dataclasses.is_dataclass(one)}
        assert {one.__name__ for one in shapely - seen} <= NOT_ANSWERED_HERE


NOT_ANSWERED_HERE = {
    "Contradiction",
    "Waiting",
    "Field",
    "Finding",
    "Subscriber",
    "SetAside",
    "Instance",
    "Lease",
    "Health",
}
"""Shapes of which an empty server on its own has none."""


@pytest.mark.requirement("OPS-3")
def test_what_is_wrong_is_told_all_at_once_with_its_place(client: Client) -> None:
    with pytest.raises(Problem) as caught:
        client.schedules.patch("s", {"spec": {"priority": 101, "progam": "p"}})
    assert (caught.value.status, caught.value.code, caught.value.retryable) == (422, "invalid", False)
    assert {one.path for one in caught.value.errors} == {"spec.priority", "spec.progam"}
    assert "spec.priority" in str(caught.value)
    with pytest.raises(Problem, match="nobody") as missing:
        client.schedules.get("nobody")
    assert missing.value.status == 404


def test_who_was_slower_is_refused(client: Client) -> None:
    seen = client.schedules.get("s").status.revision
    client.schedules.patch("s", {"spec": {"priority": 1}}, revision=seen)
    with pytest.raises(Problem) as caught:
        client.schedules.put("s", NIGHTLY, revision=seen)
    assert caught.value.status == 412
    with pytest.raises(Problem):
        client.programs.delete("p", revision=7)


def test_each_namespace_has_its_own_names(client: Client) -> None:
    sales = client.within("sales")
    sales.programs.put("p", TRUE)
    sales.schedules.put("s", NIGHTLY)
    run = sales.schedules.trigger("s")
    assert list(client.runs.list()) == [] and list(sales.runs.list()) == [run]
    assert client.runs.get(run.id) == run
    assert [one.run for one in client.queue(everywhere=True)] == [run.id]


def test_lists_go_on_over_pages(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PAGE", 2)
    pool = {"apiVersion": "tidegate/v1", "kind": "Pool", "spec": {"slots": 1}}
    client.apply({**pool, "metadata": {"name": f"p{number}"}} for number in range(7))
    names = [one.name for one in client.pools.list()]
    assert len(names) == len(set(names)) >= 7
    assert [one.name for one in client.pools.list(limit=3)] == names[:3]


def test_a_run_is_waited_for_however_it_ends(client: Client) -> None:
    run = client.schedules.trigger("s")
    other = threading.Thread(target=lambda: (time.sleep(0.1), client.runs.cancel(run)))
    other.start()
    ended = client.runs.wait(run, timeout=20)
    other.join()
    assert (ended.state, ended.succeeded) == ("cancelled", False)


def test_what_a_log_has_said_is_not_said_again_while_the_next_attempt_is_waited_for(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {1: "one\n", 2: "two\n"}
    looks = iter([(1, "waiting"), (1, "waiting"), (2, "running"), (2, "succeeded")])

    def get(self: Any, path: str, *, offset: int = 0, attempt: int | None = None) -> Any:
        if path.endswith("/logs"):
            text = texts[attempt or 1][offset:]
            return {"attempt": attempt or 1, "offset": offset, "text": text, "next_offset": 4, "complete": True}
        newest, state = next(looks)
        return {"attempts": [{"number": number + 1} for number in range(newest)], "state": state}

    monkeypatch.setattr(connection.Connection, "get", get)
    monkeypatch.setattr(connection, "FOLLOW", 0)
    assert [(one.attempt, one.text) for one in client.runs.follow("r")] == [(1, "one\n"), (2, "two\n")]


def test_who_cannot_be_reached_is_named_with_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with Client(url) as nobody, pytest.raises(Unavailable, match=re.escape(url) + ".*`tidegate up`"):
            nobody.health()
    with pytest.raises(TidegateError, match="is no address"):
        Client("nowhere")


def test_the_address_is_that_of_the_environment(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_URL", served.url)
    with Client() as client:
        assert not client.health().ready


def test_importing_tidegate_brings_no_http_and_no_validation() -> None:
    code = "import sys, tidegate; tidegate.Client, tidegate.Problem; print({'httpx', 'pydantic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_answers_cannot_be_changed(client: Client) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        client.schedules.get("s").status.revision = 3  # type: ignore[misc]


def test_the_command_and_the_client_say_the_same(client: Client, served: Served) -> None:
    told = tidegate("get", "schedules", "-o", "json", url=served.url).json
    assert [one["metadata"]["name"] for one in told] == [one.name for one in client.schedules.list()]
