"""Calls of another system: what is sent, what its answer means, and what a dead worker or machine changes."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import hmac
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
import pytest
from waiting import comes

from tidegate.domain.errors import LaunchRefused
from tidegate.domain.programs import Http
from tidegate.launchers.attempts import Attempts
from tidegate.launchers.http import HttpLauncher
from tidegate.launchers.http_call import SHOWN, origin_of, pause_of, succeeded
from tidegate.ports.launching import Launch, Phase, StopHow

from .helpers import driving, launch, run

pytestmark = [pytest.mark.slow, pytest.mark.requirement("RUN-6")]


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Other:
    """Another system, and what it was asked. `answers` says by path what it answers; 202 until `done`."""

    url: str = ""
    elsewhere: str = ""
    asked: list[Request] = field(default_factory=list)
    done: Event = field(default_factory=Event)
    let_go: Event = field(default_factory=Event)

    def answer(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        match request.method, request.path:
            case "DELETE", "/jobs/1":
                return 204, {}, b""
            case _, "/jobs/1":
                return (200, {}, b"done") if self.done.is_set() else (202, {"Retry-After": "0.1"}, b"")
            case _, "/begin":
                return 202, {"Location": "/jobs/1", "Retry-After": "0.1"}, b'{"accepted": true}'
            case _, "/begin-elsewhere":
                return 202, {"Location": f"{self.elsewhere}/jobs/1", "Retry-After": "0.1"}, b""
            case _, "/packed":
                return 200, {"Content-Encoding": "gzip"}, gzip.compress(b"x" * 5_000_000)
            case _, "/slow":
                self.let_go.wait(20)
                return 200, {}, b"at last"
            case _, path if path.startswith("/status/"):
                return int(path.removeprefix("/status/")), {"Location": "/elsewhere"}, b"because"
        return 200, {}, "schön".encode()

    def requests(self, method: str) -> list[Request]:
        return [one for one in self.asked if one.method == method]


@pytest.fixture
def other() -> Iterator[Other]:
    with serve(Other()) as known:
        yield known


@contextmanager
def serve(known: Other) -> Iterator[Other]:

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            known.asked.append(Request(self.command, self.path, dict(self.headers), body))
            status, headers, content = known.answer(known.asked[-1])
            try:
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                return

        do_GET = do_POST = do_PUT = do_DELETE = handle_any

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    serving = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=serving.serve_forever, daemon=True)
    thread.start()
    known.url = f"http://127.0.0.1:{serving.server_port}"
    yield known
    known.let_go.set()
    serving.shutdown()
    serving.server_close()
    thread.join()


def call(other: Other, path: str = "/", **said: Any) -> Http:
    return Http(url=other.url + path, **said)


def one(home: Path, what: Launch, environment: dict[str, str] | None = None) -> tuple[Any, str]:
    """Its end and its log."""

    async def work() -> Any:
        async with driving(HttpLauncher(home, {**os.environ, **(environment or {})})) as driver:
            return await driver.run(what)

    return run(work()), Attempts(home).log(what.identity).read_text()


def test_a_call_names_its_run_and_is_signed_and_writes_no_secret_down(tmp_path: Path, other: Other) -> None:
    spec = call(
        other,
        "/refresh/{{ arguments.region }}",
        headers={"Authorization": "env:TOKEN", "X-Day": '{{ fire_time | date:"%Y-%m-%d" }}'},
        body={"region": "{{ arguments.region }}", "n": 1},
        secret="env:SIGN",
    )
    what = launch(spec, arguments={"region": "eu"})
    report, log = one(tmp_path, what, {"TOKEN": "Bearer s3cret", "SIGN": "s3cret-too"})
    assert (report.outcome, report.error) == ("succeeded", None), log
    [asked] = other.asked
    assert (asked.method, asked.path) == ("POST", "/refresh/eu")
    assert json.loads(asked.body) == {"region": "eu", "n": 1}
    headers = asked.headers
    assert headers["Authorization"] == "Bearer s3cret" and headers["X-Day"] == "2026-03-29"
    assert headers["Idempotency-Key"] == what.identity and headers["Tidegate-Run"] == str(what.attempt.run)
    assert headers["Tidegate-Run-Key"].startswith("sales/orders@2026-03-29") and headers["Tidegate-Fence"] == "41"
    said = f"{headers['Webhook-Id']}.{headers['Webhook-Timestamp']}.".encode() + asked.body
    wanted = base64.b64encode(hmac.new(b"s3cret-too", said, hashlib.sha256).digest()).decode()
    assert headers["Webhook-Signature"] == f"v1,{wanted}"
    assert "answered 200" in log and "schön" in log
    kept = [path.read_text() for path in Attempts(tmp_path).directory(what.identity).iterdir() if path.is_file()]
    assert not any("s3cret" in text for text in kept)


def test_without_a_body_of_its_own_a_call_tells_the_run(tmp_path: Path, other: Other) -> None:
    what = launch(call(other), arguments={"region": "eu"})
    assert one(tmp_path, what)[0].outcome == "succeeded"
    told = json.loads(other.asked[0].body)
    assert (told["id"], told["arguments"], told["fence"]) == (str(what.attempt.run), {"region": "eu"}, 41)


@pytest.mark.parametrize(
    ("path", "said", "outcome", "code"),
    [
        ("/status/404", {}, "failed", "http.status"),
        ("/status/302", {}, "failed", "http.status"),
        ("/status/409", {"success": ("2xx", 409)}, "succeeded", None),
    ],
)
def test_an_answer_is_judged_by_its_status(
    tmp_path: Path, other: Other, path: str, said: dict[str, Any], outcome: str, code: str | None
) -> None:
    report, log = one(tmp_path, launch(call(other, path, **said)))
    assert (report.outcome, (report.error or {}).get("code")) == (outcome, code)
    assert "because" in log
    assert path != "/status/302" or "/elsewhere" in report.error["message"]


def test_of_an_answer_that_unpacks_to_much_more_only_what_is_shown_is_unpacked(tmp_path: Path, other: Other) -> None:
    report, log = one(tmp_path, launch(call(other, "/packed")))
    assert report.outcome == "succeeded"
    assert log.count("x") == SHOWN and "the rest of the answer is not shown" in log


def test_what_could_not_be_sent_is_not_the_programs_fault(tmp_path: Path) -> None:
    report, _ = one(tmp_path, launch(Http(url="http://127.0.0.1:1/")))
    assert (report.outcome, report.error["code"]) == ("refused", "http.unreachable")


def test_a_missing_secret_is_refused_by_its_name(tmp_path: Path) -> None:
    async def work() -> None:
        async with driving(HttpLauncher(tmp_path, {})) as driver:
            for said in ({"headers": {"Authorization": "env:NO_SUCH"}}, {"secret": "env:NO_SUCH"}):
                with pytest.raises(LaunchRefused, match="NO_SUCH"):
                    await driver.launcher.start(launch(Http(url="http://x/", **said)))
            with pytest.raises(LaunchRefused, match="did you mean"):
                await driver.launcher.start(
                    launch(Http(url="http://x/{{ arguments.regoin }}"), arguments={"region": 1})
                )

    run(work())


@pytest.mark.requirement("RUN-5")
def test_the_answer_outlives_the_worker(tmp_path: Path, other: Other) -> None:
    what = launch(call(other, "/slow"))

    async def work() -> None:
        async with driving(HttpLauncher(tmp_path)) as driver:
            await driver.launcher.start(what)
            await comes(lambda: bool(other.asked))
        async with driving(HttpLauncher(tmp_path)) as driver:
            assert (await driver.launcher.seal(what)).phase is Phase.RUNNING
            assert await driver.launcher.start(what)  # idempotent by identity
            other.let_go.set()
            assert (await driver.end(what)).outcome == "succeeded"
        assert len(other.asked) == 1

    run(work())


@pytest.mark.requirement("RUN-5")
def test_accepted_work_is_asked_for_until_it_ends_and_a_later_attempt_does_not_call_again(
    tmp_path: Path, other: Other
) -> None:
    first = launch(call(other, "/begin"), order=9001)
    second = launch(call(other, "/begin"), order=9001, attempt=2)

    async def work() -> None:
        async with driving(HttpLauncher(tmp_path)) as driver:
            await driver.launcher.start(first)
            await comes(lambda: len(other.requests("GET")) > 1)
            await driver.launcher.stop(first.attempt, StopHow.KILL)  # as if its machine had died
            await driver.end(first)
            (Attempts(tmp_path).directory(first.identity) / "verdict.json").unlink(missing_ok=True)
            await driver.launcher.start(second)
            asyncio.get_running_loop().call_later(0.3, other.done.set)
            assert (await driver.end(second)).outcome == "succeeded"
        assert len(other.requests("POST")) == 1

    run(work())


@pytest.mark.requirement("RUN-9")
def test_who_works_for_a_call_that_is_stopped_is_told(tmp_path: Path, other: Other) -> None:
    what = launch(call(other, "/begin"))

    async def work() -> None:
        async with driving(HttpLauncher(tmp_path)) as driver:
            await driver.launcher.start(what)
            await comes(lambda: bool(other.requests("GET")))
            await driver.launcher.stop(what.attempt, StopHow.POLITE)
            assert (await driver.end(what)).outcome == "cancelled"
        assert [one.path for one in other.requests("DELETE")] == ["/jobs/1"]

    run(work())


def test_a_call_that_a_stranger_ends_has_failed_as_a_command_would_have(tmp_path: Path, other: Other) -> None:
    what = launch(call(other, "/begin"))

    async def work() -> None:
        async with driving(HttpLauncher(tmp_path)) as driver:
            await driver.launcher.start(what)
            await comes(lambda: bool(other.requests("GET")))
            shim = psutil.Process(driver.launcher._watched[what.identity].shim.pid)
            for child in shim.children():
                child.terminate()
            report = await driver.end(what)
            assert report.outcome == "failed"
            assert (report.error["code"], report.error["exit_status"]) == ("program.exit", 143)

    run(work())


SECRETS = {"TOKEN": "Bearer s3cret", "SIGN": "s3cret-too"}


@pytest.mark.requirement("RUN-9")
@pytest.mark.parametrize("how", ["ended", "stopped", "earlier"])
def test_secrets_go_to_the_origin_that_the_program_names_and_to_no_other(
    tmp_path: Path, other: Other, how: str
) -> None:
    said = {"headers": {"Authorization": "env:TOKEN", "X-Api-Key": "env:TOKEN"}, "secret": "env:SIGN"}
    what = launch(call(other, "/begin-elsewhere", **said), order=9002)
    second = launch(call(other, "/begin-elsewhere", **said), order=9002, attempt=2)

    async def work(their: Other) -> None:
        async with driving(HttpLauncher(tmp_path, {**os.environ, **SECRETS})) as driver:
            await driver.launcher.start(what)
            await comes(lambda: bool(their.requests("GET")))
            if how == "earlier":
                await driver.launcher.stop(what.attempt, StopHow.KILL)
                await driver.end(what)
                (Attempts(tmp_path).directory(what.identity) / "verdict.json").unlink(missing_ok=True)
                their.asked.clear()
                await driver.launcher.start(second)
                await comes(lambda: bool(their.requests("GET")))
            if how == "stopped":
                await driver.launcher.stop(what.attempt, StopHow.POLITE)
            their.done.set()
            assert (await driver.end(second if how == "earlier" else what)).outcome in ("succeeded", "cancelled")

    with serve(Other()) as their:
        other.elsewhere = their.url
        run(work(their))
        assert other.asked[0].headers["Authorization"] == "Bearer s3cret"
        assert bool(their.requests("DELETE")) == (how == "stopped")
        for one in their.asked:
            assert "s3cret" not in str(one.headers) and "Webhook-Signature" not in one.headers
            assert "X-Api-Key" not in one.headers and one.headers["Tidegate-Fence"] == "41"
        log = Attempts(tmp_path).log(what.identity).read_text()
        assert f"is at {their.url}, which is not the program's {other.url}" in log


def test_a_place_that_cannot_be_asked_ends_the_call(tmp_path: Path, other: Other) -> None:
    other.elsewhere = "gopher://x"
    report, _ = one(tmp_path, launch(call(other, "/begin-elsewhere")))
    assert (report.outcome, report.error["code"]) == ("failed", "http.wrong")


def test_an_origin_is_whom_one_talks_to() -> None:
    assert origin_of("https://Example.com:443/a?b") == origin_of("https://user@example.com") == "https://example.com"
    assert origin_of("http://example.com") != origin_of("https://example.com")
    assert origin_of("http://[::1]:8080/") == "http://[::1]:8080"


def test_statuses_and_pauses_are_read_as_written() -> None:
    assert succeeded(204, ["2xx"]) and succeeded(409, ["2xx", 409]) and not succeeded(302, ["2xx"])

    class Answer:
        def __init__(self, **headers: str) -> None:
            self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    pauses = [pause_of(Answer(Retry_After=text)) for text in ("0", "7", "3600", "Fri, 31 Dec", "-5", "nan")]  # type: ignore[arg-type]
    assert (pauses, pause_of(Answer())) == ([0.1, 7.0, 60.0, 5.0, 5.0, 5.0], 5.0)  # type: ignore[arg-type]
