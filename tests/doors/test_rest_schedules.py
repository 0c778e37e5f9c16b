"""Schedules and programs over REST: declared, changed, switched, each write in force when it is answered."""

import asyncio
from typing import Any

import httpx
import pytest

from tidegate.api.app import create_app
from tidegate.api.context import Doors
from tidegate.api.idempotency import Idempotency
from tidegate.domain.errors import Unavailable
from tidegate.store.store import PostgresStore

from .conftest import NoLogs, Served, memory_doors

NS = "/namespaces/default"
AT_TWO = {"type": "cron", "expression": "0 2 * * *"}
ONE = f"{NS}/schedules/s"


@pytest.fixture
def served(served_by: Served) -> Served:
    """All of this holds over both stores."""
    return served_by


@pytest.mark.requirement("OPS-1", "LIFE-2")
def test_a_new_schedule_is_201_with_its_place_and_starts_disabled(served: Served) -> None:
    assert served("PUT", f"{NS}/programs/p", json={"spec": {"type": "command", "argv": ["true"]}}).status_code == 201
    body = {"spec": {"program": "p", "trigger": {"type": "never"}}}
    answer = served("PUT", ONE, json=body)
    assert answer.status_code == 201
    assert answer.headers["location"] == "/api/v1/namespaces/default/schedules/s"
    assert answer.headers["etag"] == '"1"'
    made = answer.json()
    assert made["status"]["enabled"] is False
    assert made["metadata"]["namespace"] == "default"
    assert served("GET", ONE).json() == made


@pytest.mark.requirement("LIFE-7")
def test_an_equal_document_disturbs_nothing(served: Served) -> None:
    made = served.declare()
    again = served("PUT", ONE, json={"spec": made["spec"]})
    assert (again.status_code, again.headers["etag"]) == (200, '"1"')
    assert len(served("GET", f"{ONE}/revisions").json()["items"]) == 1


def test_the_collection_creates_and_never_overwrites(served: Served) -> None:
    served.declare("other")
    body = {"metadata": {"name": "s"}, "spec": {"program": "p", "trigger": {"type": "never"}}}
    assert served("POST", f"{NS}/schedules", json=body).status_code == 201
    again = served("POST", f"{NS}/schedules", json=body)
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    body = {"metadata": {"name": "p"}, "spec": {"type": "command", "argv": ["false"]}}
    assert served("POST", f"{NS}/programs", json=body).status_code == 409
    for what, spec in (("namespaces", {}), ("pools", {"slots": 3})):
        body = {"metadata": {"name": "new"}, "spec": spec}
        assert served("POST", f"/{what}", json=body).status_code == 201
        assert served("POST", f"/{what}", json=body).status_code == 409


def test_what_the_address_says_must_not_be_said_otherwise(served: Served) -> None:
    made = served.declare()
    body = {"kind": "Program", "metadata": {"namespace": "x", "name": "y"}, "spec": made["spec"]}
    answer = served("PUT", ONE, json=body)
    assert answer.status_code == 422
    assert {"kind", "metadata.namespace", "metadata.name"} <= {fault["path"] for fault in answer.json()["errors"]}


def test_an_answer_can_be_edited_and_sent_back(served: Served) -> None:
    made = served.declare()
    made["spec"]["priority"] = 70
    answer = served("PUT", ONE, json=made)
    assert (answer.status_code, answer.json()["spec"]["priority"]) == (200, 70)


# ── revisions ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_a_change_of_what_was_seen_before_is_412(served: Served, method: str) -> None:
    made = served.declare()
    assert served("PATCH", ONE, json={"spec": {"priority": 60}}, headers={"if-match": '"1"'}).status_code == 200
    given = {} if method == "DELETE" else {"json": {"spec": {**made["spec"], "priority": 1}}}
    answer = served(method, ONE, headers={"if-match": '"1"'}, **given)
    assert (answer.status_code, answer.json()["code"]) == (412, "stale")
    answer = served(method, ONE, headers={"if-match": '"2"'}, **given)
    assert answer.is_success, answer.text


def test_an_if_match_that_is_no_revision_is_412(served: Served) -> None:
    served.declare()
    assert served("PATCH", ONE, json={}, headers={"if-match": '"x"'}).status_code == 412
    assert served("PATCH", ONE, json={}, headers={"if-match": "*"}).status_code == 200


def test_if_none_match_creates_only(served: Served) -> None:
    made = served.declare()
    answer = served("PUT", ONE, json={"spec": made["spec"]}, headers={"if-none-match": "*"})
    assert answer.status_code in (409, 412)
    assert served("PUT", f"{NS}/schedules/t", json={"spec": made["spec"]}, headers={"if-none-match": "*"}).is_success


def test_a_patch_replaces_what_it_names_and_null_takes_away(served: Served) -> None:
    served.declare(arguments={"a": 1, "b": 2}, priority=60)
    answer = served("PATCH", ONE, json={"spec": {"arguments": {"a": None, "c": 3}, "priority": None}})
    spec = answer.json()["spec"]
    assert spec["arguments"] == {"b": 2, "c": 3}
    assert "priority" not in spec
    assert spec["trigger"]["expression"] == "0 2 * * *"


def test_a_patch_of_a_program_a_pool_and_a_namespace(served: Served) -> None:
    served.declare()
    assert served("PATCH", f"{NS}/programs/p", json={"spec": {"argv": ["false"]}}).json()["spec"]["argv"] == ["false"]
    assert served("PATCH", "/pools/default", json={"spec": {"slots": 3}}).json()["spec"]["slots"] == 3
    assert (
        served("PATCH", "/namespaces/default", json={"metadata": {"owner": "me"}}).json()["metadata"]["owner"] == "me"
    )
    assert served("PATCH", f"{NS}/schedules/none", json={}).status_code == 404


# ── switched, asked for ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("LIFE-2")
def test_enable_and_disable_are_in_force_when_they_are_answered(served: Served) -> None:
    served.declare()
    on = served("POST", f"{ONE}:enable").json()
    assert on["status"]["enabled"] is True
    assert on["status"]["next_fire"] is not None
    off = served("POST", f"{ONE}:disable", json={"reason": "holiday"}).json()
    assert (off["status"]["enabled"], off["status"]["mode"], off["status"]["next_fire"]) == (False, "drop", None)
    assert "holiday" in off["status"]["reason"]
    kinds = [one["enabled"] for one in served("GET", f"{ONE}/revisions").json()["items"]]
    assert kinds == [False, True, False]


@pytest.mark.parametrize("body", [{"mod": "drop"}, {"mode": "sleep"}, {"mode": 3}, {"reason": 3}, {"expire": True}])
def test_a_wrong_disable_is_422(served: Served, body: dict[str, object]) -> None:
    served.declare()
    assert served("POST", f"{ONE}:disable", json=body).status_code == 422


def test_a_run_asked_for_is_202_and_stands_in_the_lists(served: Served) -> None:
    served.declare()
    answer = served("POST", f"{ONE}:trigger", json={"arguments": {"day": 1}}, headers={"tidegate-user": "ada"})
    assert answer.status_code == 202
    run = answer.json()
    assert (run["state"], run["cause"]["type"], run["cause"]["by"]) == ("waiting", "manual", "ada")
    assert served("GET", f"/runs/{run['id']}").json()["id"] == run["id"]
    assert served("GET", f"{NS}/runs/{run['id']}").status_code == 200
    assert served("GET", f"/namespaces/other/runs/{run['id']}").status_code == 404
    for path in ("/runs", f"{NS}/runs", f"{NS}/runs?schedule=s", f"{NS}/runs?state=waiting,running"):
        assert [one["id"] for one in served("GET", path).json()["items"]] == [run["id"]], path
    assert served("GET", f"{NS}/runs?state=failed").json()["items"] == []
    assert [one["run"] for one in served("GET", "/queue").json()["items"]] == [run["id"]]


@pytest.mark.requirement("RUN-9")
def test_a_waiting_run_is_cancelled_at_once_and_only_once(served: Served) -> None:
    served.declare()
    run = served("POST", f"{ONE}:trigger").json()
    answer = served("POST", f"/runs/{run['id']}:cancel")
    assert (answer.status_code, answer.json()["state"]) == (202, "cancelled")
    again = served("POST", f"/runs/{run['id']}:cancel")
    assert (again.status_code, again.json()["finished_at"]) == (202, answer.json()["finished_at"])
    again = served("POST", f"/runs/{run['id']}:rerun")
    assert (again.status_code, again.json()["cause"]["type"]) == (202, "rerun")


def test_a_deleted_schedule_is_gone_and_its_name_is_free(served: Served) -> None:
    served.declare()
    assert served("DELETE", ONE).status_code == 204
    assert served("GET", ONE).status_code == 404
    assert served("DELETE", ONE).status_code == 404
    served.declare()
    assert served("DELETE", f"{NS}/programs/p").status_code == 204
    assert served("GET", ONE).status_code == 404, "a program takes its schedules along"


# ── lists ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("what", ["schedules", "programs", "runs"])
def test_pages_put_together_are_the_whole_list_newest_first(served: Served, what: str) -> None:
    for number in range(7):
        if what == "programs":
            body = {"spec": {"type": "command", "argv": ["true"]}}
            served("PUT", f"{NS}/programs/p{number}", json=body)
        else:
            served.declare(f"s{number}")
            if what == "runs":
                assert served("POST", f"{NS}/schedules/s{number}:trigger").status_code == 202
    whole = served("GET", f"{NS}/{what}").json()["items"]
    pages: list[object] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = served("GET", f"{NS}/{what}", params={"limit": 3, **({"cursor": cursor} if cursor else {})}).json()
        assert set(answer) == {"items", "next"}
        assert len(answer["items"]) <= 3
        pages += answer["items"]
        cursor = answer["next"]
        assert cursor is None or cursor.replace("-", "").replace("_", "").isalnum()
    assert pages == whole
    key = "schedule" if what == "runs" else "metadata"
    names = [one[key] if what == "runs" else one[key]["name"] for one in whole]
    assert [name for name in names if name[-1].isdigit()] == [f"{names[0][0]}{n}" for n in range(6, -1, -1)]


# ── repeated ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_request_repeated_with_its_key_changes_nothing(served: Served) -> None:
    served.declare()
    key = {"idempotency-key": "once"}
    first, second = (served("POST", f"{ONE}:trigger", headers=key) for _ in range(2))
    assert first.json() == second.json()
    assert (second.status_code, second.headers["idempotency-replayed"]) == (202, "true")
    assert len(served("GET", f"{NS}/runs").json()["items"]) == 1
    other = served("POST", f"{ONE}:trigger", json={"arguments": {"a": 1}}, headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key")
    assert served("POST", f"{ONE}:trigger", headers={"idempotency-key": "twice"}).status_code == 202


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", f"{ONE}:trigger", {"arguments": {"a": 1}}, 202),
        ("POST", f"{NS}/schedules", {"metadata": {"name": "t"}, "spec": {"program": "p", "trigger": AT_TWO}}, 201),
        ("POST", "/pools", {"metadata": {"name": "small"}, "spec": {"slots": 1}}, 201),
        ("PUT", ONE, {"spec": {"program": "p", "priority": 7, "trigger": AT_TWO}}, 200),
        ("POST", f"{ONE}:enable", {}, 200),
        ("DELETE", ONE, None, 204),
    ],
)
def test_a_crash_before_the_answer_is_kept_repeats_nothing(
    served_by: Served, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: Any, status: int
) -> None:
    """What was done and that it was done are one commit."""

    async def dies(*given: Any) -> None:
        raise Unavailable("the process died here")

    served_by.declare()
    key = {"idempotency-key": "once"}
    with monkeypatch.context() as patch:
        patch.setattr(type(served_by.doors.store), "remember", dies)
        assert served_by(method, path, json=body, headers=key).status_code == 503
    changes = served_by("GET", "/audit").json()["items"]
    again = served_by(method, path, json=body, headers=key)
    assert (again.status_code, again.headers["idempotency-replayed"]) == (status, "true"), again.text
    assert served_by("GET", "/audit").json()["items"] == changes
    if "trigger" in path:
        [run] = served_by("GET", f"{NS}/runs").json()["items"]
        assert again.json() == run
    elif status == 201:
        assert again.json()["metadata"]["name"] == body["metadata"]["name"]


@pytest.mark.anyio
async def test_of_two_processes_one_carries_a_request_out(database_url: str) -> None:
    """The second is undone and gets the first one's answer."""
    stores = [PostgresStore(database_url), PostgresStore(database_url)]
    apps = [create_app(Doors(store=store, logs=NoLogs())) for store in stores]
    clients = [
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost/api/v1", timeout=20)
        for app in apps
    ]
    program = {"spec": {"type": "command", "argv": ["true"]}}
    await clients[0].put(f"{NS}/programs/p", json=program)
    await clients[0].put(ONE, json={"spec": {"program": "p", "trigger": AT_TWO}})
    for number in range(5):
        asked = (client.post(f"{ONE}:trigger", headers={"idempotency-key": f"k{number}"}) for client in clients)
        first, second = await asyncio.gather(*asked)
        assert first.status_code == second.status_code == 202
        assert first.json()["id"] == second.json()["id"]
    assert len((await clients[0].get(f"{NS}/runs")).json()["items"]) == 5
    for one in [*clients]:
        await one.aclose()
    for store in stores:
        await store.close()


@pytest.mark.anyio
async def test_requests_with_one_key_go_one_after_another_whatever_a_lock_is_made_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also one that comes while a second waits and the first has just ended."""

    class Plain:
        """A lock that tells nobody who waits."""

        def __init__(self) -> None:
            self.lock = REALLY()

        async def __aenter__(self) -> None:
            await self.lock.acquire()

        async def __aexit__(self, *fault: object) -> None:
            self.lock.release()

    doors, inside, most, gates = memory_doors(), 0, 0, [asyncio.Event() for _ in range(3)]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        order.append(scope["path"])
        await gates[int(scope["path"][-1])].wait()
        inside -= 1
        await send({"type": "http.response.start", "status": 409, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def until(begun: int) -> None:
        while len(order) < begun:
            await asyncio.sleep(0.01)
        for _ in range(10):  # whoever may go on as well does
            await asyncio.sleep(0)

    REALLY, order = asyncio.Lock, list[str]()
    monkeypatch.setattr("tidegate.api.idempotency.asyncio.Lock", Plain)
    once = Idempotency(app, lambda: doors.store)
    client = httpx.AsyncClient(transport=httpx.ASGITransport(once), base_url="http://localhost")  # type: ignore[arg-type]
    ask = lambda n: asyncio.create_task(client.post(f"/{n}", headers={"idempotency-key": "k"}))  # noqa: E731
    asked = [ask(0), ask(1)]
    await until(1)
    gates[0].set()
    await until(2)
    asked.append(ask(2))
    await until(2)
    gates[1].set()
    gates[2].set()
    assert [one.status_code for one in await asyncio.gather(*asked)] == [409] * 3
    assert order == ["/0", "/1", "/2"] and most == 1
    assert not once.under_way, "what nobody wants is kept by nobody"
    await client.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("key", [b"once", None])
async def test_a_client_that_goes_away_in_the_middle_of_its_body_asked_for_nothing(
    key: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Else `:trigger` with arguments would be one without, and the repeat would be refused as another request."""
    app, body = create_app(memory_doors()), b'{"arguments": {"a": 1}}'
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost/api/v1")
    await client.put(f"{NS}/programs/p", json={"spec": {"type": "command", "argv": ["true"]}})
    await client.put(ONE, json={"spec": {"program": "p", "trigger": AT_TWO}})
    path = f"/api/v1{ONE}:trigger"
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    headers += [(b"idempotency-key", key)] if key else []
    for cut in (b"", body[:9]):
        said = [{"type": "http.request", "body": cut, "more_body": True}, {"type": "http.disconnect"}]
        sent: list[Any] = []

        async def receive(said: list[Any] = said) -> Any:
            return said.pop(0)

        async def send(message: Any, sent: list[Any] = sent) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
                 "headers": headers, "http_version": "1.1", "scheme": "http", "server": ("localhost", 80)}  # fmt: skip
        await app(scope, receive, send)
        assert [one["status"] for one in sent if "status" in one] == [400], "nobody reads it"
        assert (await client.get(f"{NS}/runs")).json()["items"] == []
    again = await client.post(f"{ONE}:trigger", content=body, headers={"idempotency-key": "once"})
    assert again.status_code == 202
    assert "idempotency-replayed" not in again.headers
    assert not [one for one in caplog.records if one.levelname in ("WARNING", "ERROR")]
    await client.aclose()


def test_a_refusal_is_not_remembered(served: Served) -> None:
    key = {"idempotency-key": "k"}
    assert served("POST", f"{ONE}:trigger", headers=key).status_code == 404
    served.declare()
    assert served("POST", f"{ONE}:trigger", headers=key).status_code == 202


def test_a_replayed_answer_without_a_body_is_one(served: Served) -> None:
    served.declare()
    for _ in range(2):
        answer = served("DELETE", ONE, headers={"idempotency-key": "d"})
        assert (answer.status_code, answer.content) == (204, b"")


# ── switched, with a reason ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("LIFE-2", "LIFE-8")
def test_the_reason_of_a_switch_stays_with_its_revision(served: Served) -> None:
    served.declare()
    enabled = served("POST", f"{ONE}:enable", json={"reason": "the source is back"}).json()
    assert enabled["status"]["reason"] == "the source is back"
    disabled = served("POST", f"{ONE}:disable", json={"reason": "the source is late"}).json()
    assert disabled["status"]["reason"] == "the source is late"
    told = served("GET", f"{ONE}/revisions").json()["items"]
    assert [one["reason"] for one in told[:2]] == ["the source is late", "the source is back"]


def test_a_list_of_schedules_asks_once_for_their_statistics(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        served.declare(f"s{number}")
    store, asked = served.doors.store, []
    known = store.stats_of

    async def counted(schedules: Any) -> Any:
        asked.append(list(schedules))
        return await known(schedules)

    monkeypatch.setattr(store, "stats_of", counted)
    items = served("GET", f"{NS}/schedules").json()["items"]
    assert len(items) == 3
    assert [len(one) for one in asked] == [3]


@pytest.mark.requirement("OPS-1")
def test_every_list_is_in_pages(served: Served) -> None:
    """What is read whole too: revisions, processes, leases."""
    served.declare()
    for reason in "abc":  # the first finds it disabled, as it was made
        assert served("POST", f"{ONE}:disable", json={"reason": reason}).status_code == 200
        assert served("POST", f"{ONE}:enable").status_code == 200
    seen, cursor = [], None
    while True:
        given = {"limit": 2} if cursor is None else {"limit": 2, "cursor": cursor}
        answer = served("GET", f"{ONE}/revisions", params=given).json()
        assert len(answer["items"]) <= 2
        seen += [one["revision"] for one in answer["items"]]
        if (cursor := answer["next"]) is None:
            break
    assert seen == sorted(seen, reverse=True) and len(seen) == len(set(seen)) == 6
    for path in ("/instances", "/leases"):
        assert served("GET", path, params={"limit": 1}).status_code == 200
        assert served("GET", path, params={"cursor": "x"}).status_code == 400


def test_a_page_goes_on_where_the_last_one_seen_is_gone(served: Served) -> None:
    for name in ("a1", "a2", "a3"):
        assert served("PUT", f"/pools/{name}", json={"spec": {"slots": 1}}).is_success
    page = served("GET", "/pools", params={"limit": 2}).json()
    assert [one["metadata"]["name"] for one in page["items"]] == ["a1", "a2"]
    assert served("DELETE", "/pools/a2").is_success
    after = served("GET", "/pools", params={"limit": 1, "cursor": page["next"]}).json()
    assert [one["metadata"]["name"] for one in after["items"]] == ["a3"]
