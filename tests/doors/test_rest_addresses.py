"""Addresses, settings and constants of sinks and sources that can never work are refused when they are written."""

from __future__ import annotations

import pytest

from tidegate.documents.sinks import sink_of

from .conftest import Served

HOOK = "/sinks/hook"
SPEC = {"type": "webhook", "url": "https://example.org/hook"}
SHOP = {"type": "kafka", "servers": "k:9092", "topics": ["orders"], "event": {"type": "user.x", "key": "a/b"}}
EVENT = {"type": "user.x", "key": "a/b"}
pytestmark = pytest.mark.requirement("EVENT-9")


def refused(served: Served, place: str, spec: dict[str, object], path: str, says: str) -> None:
    answer = served("PUT", place, json={"spec": spec})
    assert answer.status_code == 422, answer.text
    reasons = {fault["path"]: fault["reason"] for fault in answer.json()["errors"]}
    assert says in reasons.get(path, ""), reasons
    assert "hunter2" not in answer.text


@pytest.mark.parametrize(
    ("spec", "path", "says"),
    [
        *[
            pytest.param({"type": "webhook", "url": url}, "spec.url", says, id=repr(url))
            for url, says in {
                "http://x:abc/": "'abc' is no port",
                "http://x:99999/": "'99999' is no port",
                "http://x:0/": "'0' is no port",
                "http://x\n/": "line ends",
                "http://x y/": "without spaces",
                "http://[::1/": "in brackets",
                "http://[::1]x/": "no host:port",
            }.items()
        ],
        *[
            pytest.param({"type": "kafka", "servers": servers}, "spec.servers", says, id=repr(servers))
            for servers, says in {
                "x:y": "server 1, 'x:y': 'y' is no port",
                "a:1, x:99999": "server 2, 'x:99999': '99999' is no port",
                "a b:1": "'a b:1' is no host:port",
                ",": "server 1 of the list is empty",
                "x:1,,y:2": "server 2 of the list is empty",
                "kafka://x:1": "is no port",
                "user:hunter2@h:1": "no user and password",
            }.items()
        ],
        *[
            pytest.param({"type": "kafka", "servers": "a:1", "options": {key: value}}, "spec.options", says, id=key)
            for key, value, says in [
                ("sasl.jaas.config", "password=hunter2", "holds a secret"),
                ("oauth_cb", "x", "no text but code"),
                ("plugin.library.paths", "/tmp/x.so", "run code in the scheduler"),
                ("sasl.kerberos.kinit.cmd", "x", "run code in the scheduler"),
                ("sasl.kerberos.principal", "a; touch b", "letters, digits"),
            ]
        ],
        *[
            pytest.param({"type": "table", "table": "audit.x", "url": url}, "spec.url", says, id=url)
            for url, says in {
                "postgresql://h:99999999/d": "is no port",
                "postgresql://h:x/d": "is no port",
                "postgresql://h/d?foo=bar": 'parameter: "foo"',
                "postgresql://u:hunter2@h/d": "no password",
                "postgresql://[h/d": "no IPv6 address",
                "mysql://h/d": "postgresql://USER@HOST/NAME",
            }.items()
        ],
        *[
            pytest.param({"type": "table", "table": table}, "spec.table", "is not for tables of sinks", id=table)
            for table in ("tidegate_history.runs", "information_schema.x", "pg_catalog.pg_class", "pg_temp.x")
        ],
        pytest.param({"type": "table", "table": "public.run"}, "spec", "Tidegate's own tables", id="own_table"),
        *[
            pytest.param({**SPEC, "topics": [topic]}, "spec.topics", "after `user.` come 1 to 100", id=topic[:20])
            for topic in ("user.", "user. x*", "user." + "a" * 100_000)
        ],
        pytest.param({**SPEC, "secret": "file:/" + "a" * 10_000}, "spec.secret", "at most 1000 char", id="long_secret"),
    ],
)
def test_a_sink_that_can_never_work_is_422_with_its_place(
    served: Served, spec: dict[str, object], path: str, says: str
) -> None:
    refused(served, HOOK, spec, path, says)


@pytest.mark.parametrize(
    ("spec", "path", "says"),
    [
        pytest.param({"options": {"sasl.jaas.config": "password=hunter2"}}, "spec.options", "a secret", id="jaas"),
        pytest.param({"options": {"plugin.library.paths": "/x.so"}}, "spec.options", "would run code", id="plugin"),
        pytest.param({"servers": "user:hunter2@h:1"}, "spec.servers", "no user and password", id="password"),
        pytest.param({"servers": "x:1,,y:2"}, "spec.servers", "server 2 of the list is empty", id="empty_server"),
        pytest.param({"event": {**EVENT, "time": "x"}}, "spec.event.time", "2026", id="time"),
        pytest.param({"event": {**EVENT, "time": "9999-12-31T00:00:00Z"}}, "spec.event.time", "2199", id="far"),
        pytest.param({"event": {**EVENT, "id": ""}}, "spec.event.id", "must not be empty", id="id"),
        pytest.param({"event": {**EVENT, "id": "x" * 201}}, "spec.event.id", "200", id="long_id"),
        pytest.param({"event": {**EVENT, "key": "-/x"}}, "spec.event", "is not a key", id="no_key"),
    ],
)
def test_a_source_that_would_set_every_message_aside_is_422_with_its_place(
    served: Served, spec: dict[str, object], path: str, says: str
) -> None:
    refused(served, "/sources/shop", {**SHOP, **spec}, path, says)


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "webhook", "url": "https://[::1]:8443/a?b=c"},
        {"type": "webhook", "url": "http://müller.example/ä", "topics": ["user.*", "user.a.*", "user.*.done", "run.*"]},
        {"type": "kafka", "servers": "a, b:9092, [::1]:9092, SASL_SSL://c:1"},
        {"type": "kafka", "servers": "a:1", "options": {"sasl.kerberos.principal": "tide/host.example@REALM"}},
        {"type": "table", "table": "public.events", "url": "postgresql://u@h:5432,h2:5433/d?connect_timeout=5"},
        {"type": "table", "table": "page.events", "url": "postgresql:///d?host=/run"},
    ],
)
def test_what_may_work_is_taken(served: Served, spec: dict[str, object]) -> None:
    answer = served("PUT", HOOK, json={"spec": spec})
    assert answer.status_code == 201, answer.text


def test_what_an_older_version_took_is_read_as_it_is(served: Served) -> None:
    for spec in (
        {"type": "webhook", "url": "http://x:abc/"},
        {"type": "kafka", "servers": ",", "options": {"oauth_cb": "x"}},
        {"type": "table", "table": "public.run", "topics": ["user."]},
    ):
        read = sink_of(spec)
        for key in ("url", "servers", "table"):
            assert getattr(read, key) == spec.get(key, "")
    assert sink_of({"type": "webhook", "url": "http://x"}).topics == ("*",)
