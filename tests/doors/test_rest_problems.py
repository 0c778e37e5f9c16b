"""Every refusal is a problem: RFC 9457, a stable code, every fault at once, whatever went wrong."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest

from tidegate.api.context import Doors
from tidegate.api.reading import encode_cursor
from tidegate.domain.errors import Unavailable
from tidegate.sim.memory import MemoryStore
from tidegate.store.store import PostgresStore

from .conftest import NoLogs, Served, memory_doors, serve

NS = "/namespaces/default"


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Check that it is one, and give it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    said: dict[str, Any] = answer.json()
    assert set(said) == {"type", "title", "status", "detail", "code", "errors"}
    assert (said["status"], said["code"]) == (status, code)
    assert said["detail"]
    return said


@pytest.mark.requirement("OPS-1")
def test_an_unknown_route_is_a_problem(served: Served) -> None:
    problem(served("GET", "/nothing"), 404, "not_found")
    problem(served.http.get("/"), 404, "not_found")


@pytest.mark.requirement("OPS-1")
def test_a_query_parameter_that_is_not_there_is_refused_with_the_nearest(served: Served) -> None:
    said = problem(served("POST", "/apply", json={"documents": []}, params={"dryrun": "true", "x": 1}), 422, "invalid")
    assert [one["path"] for one in said["errors"]] == ["dryrun", "x"]
    assert "did you mean" in said["errors"][0]["reason"] and "dry_run" in said["errors"][0]["reason"]
    problem(served("GET", f"{NS}/runs", params={"stat": "failed"}), 422, "invalid")
    assert served("GET", f"{NS}/runs", params={"state": "failed", "limit": 3}).status_code == 200


def test_a_method_that_is_not_possible_names_those_that_are(served: Served) -> None:
    answer = served("POST", f"{NS}/schedules/x")
    problem(answer, 405, "method_not_allowed")
    assert "GET" in answer.headers["allow"]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"{", id="cut_off"),
        pytest.param(b"{'a': 1}", id="not_json"),
        pytest.param(b'{"a": NaN}', id="nan"),
        pytest.param(b'{"spec": {}, "spec": {}}', id="key_twice"),
        pytest.param(b"\xff\xfe\x00", id="not_text"),
        pytest.param(b"[" * 100_000, id="bottomless"),
    ],
)
def test_a_body_that_cannot_be_read_is_400(served: Served, body: bytes) -> None:
    problem(served("PUT", f"{NS}/programs/p", content=body), 400, "unreadable")


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"3", b"true"])
def test_a_body_that_is_no_object_is_422(served: Served, body: bytes) -> None:
    problem(served("PUT", f"{NS}/programs/p", content=body), 422, "invalid")


def test_every_fault_of_a_document_is_told_at_once_with_its_path(served: Served) -> None:
    spec = {"progam": "p", "trigger": {"type": "cron", "expression": "* * *"}, "priority": 101}
    said = problem(served("PUT", f"{NS}/schedules/s", json={"spec": spec}), 422, "invalid")
    reasons = {fault["path"]: fault["reason"] for fault in said["errors"]}
    assert {"spec.program", "spec.progam", "spec.priority", "spec.trigger.expression"} <= set(reasons)
    assert "did you mean 'program'" in reasons["spec.progam"]


def test_an_unknown_program_is_422_at_its_path(served: Served) -> None:
    served.declare()
    body = {"spec": {"program": "q", "trigger": {"type": "never"}}}
    said = problem(served("PUT", f"{NS}/schedules/t", json=body), 422, "invalid")
    assert [fault["path"] for fault in said["errors"]] == ["spec.program"]


def test_what_only_policies_make_is_refused_by_name(served: Served) -> None:
    said = problem(served("PUT", f"{NS}/programs/p", json={"spec": {"type": "maintenance"}}), 422, "invalid")
    assert "declare a MaintenancePolicy" in said["errors"][0]["reason"]


@pytest.mark.requirement("LIFE-3", "GATE-15")
@pytest.mark.parametrize(
    ("body", "path", "says"),
    [
        pytest.param({"mode": "hodl"}, "mode", "did you mean 'hold'", id="unknown_mode"),
        pytest.param({"mode": "enabled"}, "mode", "way to rest", id="no_rest"),
        pytest.param({"mode": 1}, "mode", "way to rest", id="mode_as_a_number"),
        pytest.param({"mode": "hold", "expire": "yes"}, "expire", "must be true or false", id="expire_as_text"),
        pytest.param({"mode": "drop", "expire": True}, "expire", "holds no runs", id="nothing_to_expire"),
        pytest.param({"modus": "hold"}, "modus", "did you mean 'mode'", id="unknown_key"),
    ],
)
def test_an_unknown_way_to_rest_is_named_and_changes_nothing(
    served: Served, body: dict[str, object], path: str, says: str
) -> None:
    served.declare()
    before = served("GET", f"{NS}/schedules/s").json()
    said = problem(served("POST", f"{NS}/schedules/s:disable", json=body), 422, "invalid")
    assert said["errors"][0]["path"] == path and says in said["errors"][0]["reason"]
    assert served("GET", f"{NS}/schedules/s").json() == before


def test_names_that_are_not_there_suggest_the_nearest(served: Served) -> None:
    served.declare("orders")
    said = problem(served("GET", f"{NS}/schedules/ordres"), 404, "not_found")
    assert "did you mean 'orders'" in said["detail"]


@pytest.mark.parametrize(
    ("path", "where"),
    [
        pytest.param(f"{NS}/runs?limit=0", "limit", id="limit_too_small"),
        pytest.param(f"{NS}/runs?limit=1001", "limit", id="limit_too_large"),
        pytest.param(f"{NS}/runs?limit=many", "limit", id="limit_no_number"),
        pytest.param(f"{NS}/runs?state=done", "state", id="unknown_state"),
        pytest.param(f"{NS}/runs?since=yesterday", "since", id="no_instant"),
        pytest.param(f"{NS}/runs?since=2026-01-01T00:00:00", "since", id="instant_without_zone"),
        pytest.param(f"{NS}/schedules/s/preview?count=0", "count", id="count_too_small"),
        pytest.param(f"{NS}/schedules/s/preview?after=x", "after", id="after_no_instant"),
    ],
)
def test_a_wrong_parameter_is_422_and_named(served: Served, path: str, where: str) -> None:
    served.declare()
    said = problem(served("GET", path), 422, "invalid")
    assert [fault["path"] for fault in said["errors"]] == [where]


LISTS = {
    f"{NS}/schedules": "schedules",
    f"{NS}/programs": "programs",
    f"{NS}/runs": "runs",
    "/queue": "queue",
    "/audit": "changes",
    "/events": "events",
}


POSITIONS = ["x", "", "1.x", "9" * 30, "1.2.3.4", "-", "1:2", "\u0661", "1.2.3:1", None, "other", "no base64"]


def test_a_forged_cursor_is_400(served_by: Served) -> None:
    for path, kind in LISTS.items():
        for position in POSITIONS:
            cursor = encode_cursor(kind, position) if position is not None else "c2NoZW"
            if position == "other":
                cursor = encode_cursor("runs" if path != f"{NS}/runs" else "schedules", 1)
            said = problem(served_by("GET", path, params={"cursor": cursor or "!!"}), 400, "unreadable")
            assert [fault["path"] for fault in said["errors"]] == ["cursor"], (path, position)


@pytest.mark.parametrize("run", ["x", "r", "r1-2", "r1-2-3-4", "r1-2-%20", "rzzzzzzzzzzzzzz-1-0"])
def test_what_is_no_run_id_is_404(served: Served, run: str) -> None:
    problem(served("GET", f"/runs/{run}"), 404, "not_found")


@pytest.mark.requirement("OPS-10")
@pytest.mark.parametrize("host", ["evil.example", "tidegate.example:7420", "10.0.0.1", "", "127.0.0.1.evil.example"])
def test_a_host_that_is_not_this_machine_is_refused(served: Served, host: str) -> None:
    problem(served("GET", "/healthz", headers={"host": host}), 403, "host")


@pytest.mark.requirement("OPS-10")
@pytest.mark.parametrize("host", ["localhost", "localhost:7420", "127.0.0.1", "127.1.2.3:80", "[::1]:7420"])
def test_every_name_of_this_machine_is_welcome(served: Served, host: str) -> None:
    assert served("GET", "/healthz", headers={"host": host}).status_code == 200


@pytest.mark.requirement("OPS-10")
def test_a_page_of_another_site_may_not_speak_to_us(served: Served) -> None:
    problem(served("POST", "/preview", json={}, headers={"origin": "https://evil.example"}), 403, "origin")
    for origin in ("null", "http://[x", "http://[::1", "http://localhost:7420]"):
        problem(served("POST", "/preview", json={}, headers={"origin": origin}), 403, "origin")
    assert served("GET", "/healthz", headers={"origin": "http://localhost:7420"}).status_code == 200


def chunks(body: bytes) -> Iterator[bytes]:
    yield from (body[at : at + 100] for at in range(0, len(body), 100))


def test_a_body_beyond_the_limit_is_413_also_when_its_length_is_not_told() -> None:
    for served in serve(memory_doors(body_limit=1000)):
        body = b'{"spec": "' + b"x" * 2000 + b'"}'
        problem(served("PUT", f"{NS}/programs/p", content=body), 413, "too_large")
        problem(served("PUT", f"{NS}/programs/p", content=chunks(body)), 413, "too_large")
        problem(served("PUT", f"{NS}/programs/p", content=body, headers={"idempotency-key": "k"}), 413, "too_large")


def test_no_nul_reaches_the_store(served: Served) -> None:
    problem(served("GET", f"{NS}/schedules/a%00b"), 400, "unreadable")
    problem(served("GET", f"{NS}/runs?schedule=%00"), 400, "unreadable")
    body = json.dumps({"spec": {"type": "command", "argv": ["a\0b"]}})
    assert served("PUT", f"{NS}/programs/p", content=body).status_code == 422
    body = '{"spec": {"type": "command", "argv": ["\\ud800"]}}'
    assert served("PUT", f"{NS}/programs/p", content=body).status_code == 422


class Away(MemoryStore):
    """A database that does not answer."""

    async def now(self) -> int:
        raise Unavailable("The database does not answer: connection refused", code="database_unreachable")

    def changing(self) -> Any:
        raise Unavailable("The database does not answer: connection refused", code="database_unreachable")

    async def schedule(self, namespace: str, name: str) -> Any:
        raise Unavailable("The database does not answer: connection refused", code="database_unreachable")


@pytest.mark.requirement("HA-8", "OPS-11")
def test_a_database_that_is_away_is_503_with_when_to_come_back() -> None:
    for served in serve(Doors(store=Away(lambda: 0), logs=NoLogs())):
        for answer in (served("GET", f"{NS}/schedules/s"), served("GET", f"{NS}/schedules/s/stats")):
            problem(answer, 503, "database_unreachable")
            assert int(answer.headers["retry-after"]) >= 1
        ready = served("GET", "/readyz")
        assert [fault["path"] for fault in problem(ready, 503, "not_ready")["errors"]] == ["database"]
        assert ready.headers["retry-after"]
        assert served("GET", "/healthz").status_code == 200
        assert "tidegate_database_up 0.0" in served("GET", "/metrics").text


class Broken(MemoryStore):
    """A store with a bug."""

    async def schedule(self, namespace: str, name: str) -> Any:
        raise RuntimeError("secret detail")


def test_what_nobody_foresaw_is_a_500_without_a_trace() -> None:
    for served in serve(Doors(store=Broken(lambda: 0), logs=NoLogs())):
        answer = served("GET", f"{NS}/schedules/s")
        problem(answer, 500, "internal")
        assert "secret" not in answer.text
        assert "Traceback" not in answer.text


def test_a_verb_of_a_later_version_is_not_there(served: Served) -> None:
    served.declare()
    said = problem(served("POST", f"{NS}/schedules/s:hindcast", json={}), 404, "not_found")
    assert "no verb ':hindcast'" in said["detail"]


def test_what_is_not_kept_of_a_pool_is_refused(served: Served) -> None:
    body = {"metadata": {"name": "small", "owner": "ann"}, "spec": {"slots": 1}}
    said = problem(served("POST", "/pools", json=body), 422, "invalid")
    assert [fault["path"] for fault in said["errors"]] == ["metadata.owner"]


def test_a_message_ends_before_its_remedy_begins(served: Served) -> None:
    served.declare()
    body = {"metadata": {"name": "s"}, "spec": {"program": "p", "trigger": {"type": "never"}}}
    said = problem(served("POST", f"{NS}/schedules", json=body), 409, "conflict")
    assert said["detail"] == "schedule 's' exists already. Update it, or choose another name."


@pytest.mark.requirement("OPS-11")
def test_a_full_disk_of_the_database_is_a_503_that_says_so(database_url: str) -> None:
    """The server's own error, met in the middle of a change: nothing of it is kept, and reading goes on."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$"
        )
    for served in serve(Doors(store=PostgresStore(database_url), logs=NoLogs())):
        served.declare()
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("CREATE TRIGGER no_room BEFORE INSERT ON change FOR EACH ROW EXECUTE FUNCTION no_room()")
        answer = served("POST", f"{NS}/schedules/s:enable", json={})
        said = problem(answer, 503, "disk_full")
        assert "disk is full" in said["detail"] and "Make room" in said["detail"]
        assert answer.headers["retry-after"]
        assert served("GET", f"{NS}/schedules/s").json()["status"]["enabled"] is False
        assert served("GET", "/healthz").status_code == 200
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("DROP TRIGGER no_room ON change")
        assert served("POST", f"{NS}/schedules/s:enable", json={}).json()["status"]["enabled"] is True


def test_if_match_is_never_passed_over(served: Served) -> None:
    """Where there is no revision it cannot hold."""
    for path, body in (
        ("/pools/small", {"spec": {"slots": 1}}),
        ("/namespaces/sales", {}),
        (f"{NS}/applications/a", {}),
    ):
        said = problem(served("PUT", path, json=body, headers={"if-match": '"1"'}), 412, "stale")
        assert "leave it out" in said["detail"]
        assert served("GET", path).status_code == 404
        assert served("PUT", path, json=body, headers={"if-match": "*"}).is_success
        problem(served("DELETE", path, headers={"if-match": '"1"'}), 412, "stale")
        assert served("GET", path, headers={"if-match": '"1"'}).status_code == 200


@pytest.mark.requirement("OPS-1")
def test_a_refusal_repeats_little_of_what_was_given(served: Served) -> None:
    served.declare()
    long = "x" * 100_000
    spec = {"program": "p", "trigger": {"type": "interval", "every": long}, "retry": {"then": long, "delay": long}}
    for answer in (
        served("PUT", "/namespaces/default/schedules/t", json={"spec": spec}),
        served("GET", "/runs", params={"state": long[:5000]}),
        served("GET", "/runs", params={"since": long[:5000]}),
        served("PUT", "/namespaces/default/schedules/s", json={"spec": {}}, headers={"If-Match": long[:5000]}),
        served("POST", "/events", json={"type": long, "key": long, "time": long}),
        served("POST", "/apply", json={"documents": [{"kind": "Bad"}] * 2000}),
    ):
        assert answer.status_code in (412, 422)
        assert len(answer.json()["detail"]) < 5000
        assert all(len(one["reason"]) < 1001 for one in answer.json()["errors"])
    assert len(answer.json()["errors"]) == 4000, "every fault is told, also when the message does not"


@pytest.mark.requirement("OPS-4")
@pytest.mark.parametrize("kind", ["Schedule", "Program", "Pool", "Dataset", "listed"])
def test_what_is_declared_twice_in_one_request_is_refused(served: Served, kind: str) -> None:
    def document(kind: str, name: str, /, **spec: Any) -> dict[str, Any]:
        return {"apiVersion": "tidegate/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}

    program = document("Program", "p", type="command", argv=["true"])
    documents = {
        "Schedule": [program, *([document("Schedule", "s", program="p", trigger={"type": "never"})] * 2)],
        "Program": [program, program],
        "Pool": [document("Pool", "z", slots=1), document("Pool", "z", slots=2)],
        "Dataset": [document("Dataset", "d", kind="files", name=name) for name in ("x", "y")],
        "listed": [program, document("Application", "a", programs=[program])],
    }[kind]
    said = problem(served("POST", "/apply", json={"documents": documents}), 422, "invalid")
    assert "is declared twice; also at documents[" in said["detail"]
    assert served("GET", f"{NS}/programs").json()["items"] == []


def test_an_event_type_that_cannot_be_is_not_just_unheard_of(served: Served) -> None:
    for path in ("/events", "/events/subscribers"):
        said = problem(served("GET", path, params={"type": "user_x", "key": "a/b"}), 422, "invalid")
        assert said["errors"][0]["path"] == "type"
        assert served("GET", path, params={"type": "user.x", "key": "a/b"}).status_code == 200


def test_sentences_of_a_refusal_end_before_the_remedy_begins(served: Served) -> None:
    one = {"type": "user.x", "key": "a/b", "id": "i"}
    served("POST", "/events", json=one)
    said = problem(served("POST", "/events", json={**one, "payload": {"n": 1}}), 409, "conflict")
    assert "of 'a'. An id" in said["detail"]


@pytest.mark.requirement("OPS-7")
def test_durations_and_instants_of_a_tree_are_written_as_everywhere(served: Served) -> None:
    calm = {"type": "quiet", "trigger": {"type": "event", "event": "user.x"}, "for": "PT10M"}
    silence = {"type": "elapsed", "since": "last_run", "after": "PT4H"}
    served.declare(enabled=True, trigger={"type": "any", "triggers": [calm, silence]})
    for path in ("explain", "progress"):
        tree = json.dumps(served("GET", f"{NS}/schedules/s/{path}").json()["tree"])
        assert '"threshold": "PT10M"' in tree
        assert '"threshold": "PT4H"' in tree
