"""What a webhook gets, and what its answers mean."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread

import pytest
from tenacity import wait_none

from tidegate.documents.references import revealed
from tidegate.domain.errors import Refused
from tidegate.domain.instants import SECOND
from tidegate.domain.sinks import SinkSpec
from tidegate.ports.sinks import Delivery, Message
from tidegate.sinks import webhook
from tidegate.sinks.opening import SinkOpener

pytestmark = pytest.mark.requirement("EVENT-9")


def message(number: int, lane: str = "sales/a", body: bytes = b"{}") -> Message:
    return Message(id=str(number), lane=lane, type="user.x", at=1_800_000_000 * SECOND, body=body)


@dataclass
class Answering:
    """An address, what it got, and what it will answer."""

    url: str
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answers: dict[str, list[int]] = field(default_factory=dict)  # id -> the next ones; then 200
    body: bytes = b""
    peers: set[tuple[str, int]] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)

    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.got]


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answering]:
    monkeypatch.setattr(webhook, "wait_random_exponential", lambda **_: wait_none())

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            with told.lock:
                told.peers.add(self.client_address)
                told.got.append(({key.lower(): value for key, value in self.headers.items()}, body))
                answers = told.answers.get(self.headers["webhook-id"], [])
                status = answers.pop(0) if answers else 200
            self.send_response(status)
            self.send_header("content-length", str(len(told.body)))
            self.end_headers()
            self.wfile.write(told.body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told = Answering(f"http://127.0.0.1:{server.server_port}/hook")
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield told
    server.shutdown()
    server.server_close()
    thread.join()


def deliver(url: str, messages: Sequence[Message], secret: str = "") -> Delivery:
    """As the relay does: begin, and ask until it is done."""

    async def run() -> Delivery:
        opener, done = SinkOpener(""), asyncio.Event()
        opener.on_change = done.set
        sink = opener.open("hook", SinkSpec(type="webhook", url=url, secret=secret))
        sink.begin(messages)
        await asyncio.wait_for(done.wait(), 20)
        result = sink.result()
        await sink.close()
        assert result is not None
        return result

    return asyncio.run(run())


def test_each_event_is_posted_with_its_id_in_the_order_of_its_lane(address: Answering) -> None:
    messages = [message(n, f"sales/{n % 3}", json.dumps({"n": n}).encode()) for n in range(30)]
    assert deliver(address.url, messages) == Delivery(passed=30)
    assert sorted(address.ids(), key=int) == [one.id for one in messages]
    for lane in range(3):
        mine = [int(one) for one in address.ids() if int(one) % 3 == lane]
        assert mine == sorted(mine)
    headers, body = next(one for one in address.got if one[0]["webhook-id"] == "7")
    assert json.loads(body) == {"n": 7} and headers["tidegate-type"] == "user.x"
    assert "webhook-signature" not in headers


def test_the_time_of_a_request_is_its_own_so_that_receivers_do_not_refuse_what_waited(address: Answering) -> None:
    address.answers["1"] = [503]
    began = int(time.time())
    deliver(address.url, [message(1)])
    stamps = [int(headers["webhook-timestamp"]) for headers, _ in address.got]
    assert len(stamps) == 2 and all(began <= stamp <= time.time() for stamp in stamps)


@pytest.mark.parametrize("prefix", ["", "whsec_"])
def test_with_a_secret_each_request_is_signed_by_it(
    address: Answering, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    key = b"a key of 24 bytes, or so"
    monkeypatch.setenv("HOOK_KEY", prefix + base64.b64encode(key).decode() if prefix else key.decode())
    deliver(address.url, [message(1, body=b'{"a":1}')], secret="env:HOOK_KEY")
    ((headers, body),) = address.got
    said = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body))
    wanted = base64.b64encode(hmac.new(key, said, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{wanted}"


def test_a_request_that_fails_is_tried_again_at_once(address: Answering) -> None:
    address.answers["2"] = [503, 500]
    assert deliver(address.url, [message(n) for n in range(4)]) == Delivery(passed=4)
    assert address.ids() == ["0", "1", "2", "2", "2", "3"]


@pytest.mark.parametrize("status", [401, 404, 302, 429, 500])
def test_what_concerns_the_address_holds_up_what_follows(address: Answering, status: int) -> None:
    address.answers["2"] = [status] * 9
    delivery = deliver(address.url, [message(n) for n in range(4)])
    assert (delivery.passed, delivery.refused) == (2, ()) and str(status) in delivery.fault
    assert "3" not in address.ids(), "what follows in its lane is not sent"


@pytest.mark.parametrize("status", [400, 413, 422])
def test_what_concerns_one_event_sets_that_one_aside(address: Answering, status: int) -> None:
    address.answers["2"] = [status]
    delivery = deliver(address.url, [message(n) for n in range(4)])
    assert (delivery.passed, delivery.fault) == (4, "")
    ((place, why),) = delivery.refused
    assert place == 2 and str(status) in why


def test_an_address_that_does_not_answer_is_a_fault_and_loses_nothing(address: Answering) -> None:
    delivery = deliver("http://127.0.0.1:1/hook", [message(1)])
    assert delivery.passed == 0 and "does not answer" in delivery.fault


def test_an_address_that_hangs_says_for_how_long_it_was_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "TIMEOUT", 0.05)
    monkeypatch.setattr(webhook, "TRIES", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        delivery = deliver(f"http://127.0.0.1:{silent.getsockname()[1]}/hook", [message(1)])
    assert delivery == Delivery(passed=0, fault="The address does not answer: no answer within 0.05 s.")


@contextmanager
def stream(begin: bytes, then: bytes, every: float) -> Iterator[str]:
    """An address that answers `begin`, and then the same again and again, until nobody listens."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.close_connection = True
            try:
                self.wfile.write(begin)
                while not over.wait(every):
                    self.wfile.write(then)
            except OSError:
                return

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    over = Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook"
    over.set()
    server.shutdown()
    server.server_close()
    thread.join()


CHUNK = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"


@pytest.mark.parametrize(("then", "every"), [(CHUNK, 0.0), (b"1\r\nx\r\n", 0.05)], ids=["fast", "slow"])
def test_an_answer_without_end_is_its_status_and_no_more(
    monkeypatch: pytest.MonkeyPatch, then: bytes, every: float
) -> None:
    monkeypatch.setattr(webhook, "TIMEOUT", 2.0)
    with stream(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", then, every) as url:
        assert deliver(url, [message(1), message(2)]) == Delivery(passed=2)
    with stream(b"HTTP/1.1 422 No\r\ntransfer-encoding: chunked\r\n\r\n", then, every) as url:
        assert deliver(url, [message(1)]) == Delivery(passed=1, refused=((0, "the address answers 422 No"),))


def test_a_head_without_end_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "TIMEOUT", 0.5)
    monkeypatch.setattr(webhook, "TRIES", 1)
    with stream(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n", 0.05) as url:
        delivery = deliver(url, [message(1)])
    assert delivery == Delivery(passed=0, fault="The address does not answer: no answer within 0.5 s.")


def test_an_answer_with_a_body_keeps_its_connection(address: Answering) -> None:
    address.body = b"thank you"
    assert deliver(address.url, [message(n) for n in range(3)]) == Delivery(passed=3)
    assert len(address.peers) == 1


def test_an_address_that_is_none_is_a_fault_of_the_sink() -> None:
    assert deliver("http://x:abc/", [message(1)]).fault == "The address does not answer: Invalid port: 'abc'."


def test_a_secret_that_is_not_there_is_told_by_its_place(tmp_path: object) -> None:
    with pytest.raises(Refused, match="NO_SUCH_KEY, which is not set"):
        SinkOpener("").open("hook", SinkSpec(type="webhook", url="http://x", secret="env:NO_SUCH_KEY"))
    with pytest.raises(Refused, match="cannot be read"):
        revealed(f"file:{tmp_path}/none")
