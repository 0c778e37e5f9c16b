"""One HTTP call, from its order to its verdict: `python -m tidegate.launchers.http_call ORDER`, under the shim.

Every request names the attempt: `Idempotency-Key` is its identity, `Tidegate-Run-Key` is the same for every attempt of
the run. With a secret it is signed as the Standard Webhooks specification says.

An answer of 202 with a `Location` means that the work goes on there: it is asked every few seconds (as `Retry-After`
says) until it answers something else. That address is written down, so that a later attempt of the run, after this
machine died, goes on asking there and does not call again. Stopped meanwhile, it is told by DELETE. At another origin
(scheme, host or port) than the program's it gets neither the program's headers nor a signature: secrets are for whom
the program names, not for whom an answer names. Redirects are not followed.

Ends: an answer whose status is one of `success`, else `http.status`; `http.unreachable` when nothing could be sent,
which is the backend's fault and not the program's; `http.no_answer` when the connection broke after sending: whether
the call was carried out is not known, and the next attempt sends the same `Tidegate-Run-Key`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from tidegate.domain.signing import key_of, signature
from tidegate.domain.variables import is_variable
from tidegate.launchers.answers import PACKED, Beginning

CONNECT = 10.0
"""Seconds for a connection to be made. An answer may take as long as the schedule's `timeout.run` allows."""
ASK_EVERY, ASK_MOST = 5.0, 60.0
"""Seconds between two questions where the work goes on, when it does not say, and at most."""
SHOWN = 65_536
"""Bytes of an answer that go to the log."""
STOPPED = 143
SECRET, HEADER = "TIDEGATE_HTTP_SECRET", "TIDEGATE_HTTP_HEADER_"
KEEP_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),  # who is gone without a word is found out
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6))
        if hasattr(socket, name)
    ),
]


class Stopped(Exception):
    """It was asked to end."""


class Ended(Exception):
    """How it ended, if not well."""

    def __init__(self, code: str, message: str, outcome: str = "failed") -> None:
        super().__init__(message)
        self.code, self.outcome = code, outcome


class Call:
    """One call."""

    def __init__(self, order: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self.order = order
        self.environment = environment
        self.directory = Path(order["directory"])
        self.goes_on = ""  # where the work goes on
        transport = httpx.HTTPTransport(socket_options=KEEP_ALIVE)
        self.client = httpx.Client(
            timeout=httpx.Timeout(None, connect=CONNECT),
            mounts=_mounts(transport),
            headers={"Accept-Encoding": PACKED},
        )

    def run(self) -> None:
        """Make it. Raises Ended, Stopped."""
        known = next(filter(None, map(_where, self.order["earlier"])), "")
        if known:
            say(f"an earlier attempt was accepted and has not ended: asking {known}")
            self._await(known, 0.0)
            return
        answer = self._ask(self.order["method"], self.order["url"], content=self._body())
        if answer.status_code == 202 and "Location" in answer.headers and 202 not in self.order["success"]:
            place = str(answer.url.join(answer.headers["Location"]))
            self._await(place, pause_of(answer))
            return
        self._judge(answer)

    def stop(self) -> None:
        """Tell who works for us that nobody wants it any more."""
        if not self.goes_on:
            say("stopped; the receiver cannot be told: it had not answered")
            return
        try:
            headers = self._headers(self.goes_on, b"")
            with self.client.stream("DELETE", self.goes_on, headers=headers, timeout=5.0) as answer:
                say(f"stopped: DELETE {self.goes_on} answered {answer.status_code}")
        except httpx.HTTPError as fault:
            say(f"stopped: DELETE {self.goes_on} failed: {fault}")

    def _await(self, place: str, pause: float) -> None:
        """Ask where the work goes on until it has ended; what is temporary is asked again."""
        self.goes_on = place
        with suppress(OSError):
            write(self.directory / "remote.json", {"location": place})
        if self._elsewhere(place):
            say(f"{place} is {self._elsewhere(place)}: asking without the program's headers and without a signature")
        failures = 0
        while True:
            time.sleep(pause)
            try:
                answer = self._ask("GET", place)
            except Ended as fault:
                if fault.code == "http.wrong":  # and will be
                    raise
                failures += 1
                pause = min(ASK_EVERY * failures, ASK_MOST)
                say(f"{fault}; asking again in {pause:g} s")
                continue
            if answer.status_code in (404, 410):
                raise Ended("http.lost", f"{place} answered {answer.status_code}: what was begun is not known there")
            if answer.status_code == 202 or answer.status_code == 429 or answer.status_code >= 500:
                pause = pause_of(answer)
                continue
            if answer.status_code == 303:  # it is done, and its result lies elsewhere
                return
            self._judge(answer)
            return

    def _ask(self, method: str, url: str, content: bytes = b"") -> httpx.Response:
        """One request; its answer is in the log. Raises Ended where there is none."""
        headers = self._headers(url, content)
        if content and isinstance(self.order["body"], str):
            headers.setdefault("Content-Type", "text/plain; charset=utf-8")
        elif content:
            headers.setdefault("Content-Type", "application/json")
        try:
            with self.client.stream(method, url, headers=headers, content=content or None) as answer:
                say(f"{method} {url} answered {answer.status_code} {answer.reason_phrase}".rstrip())
                self._show(answer)
                return answer
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError) as fault:
            raise Ended("http.unreachable", f"{method} {url} could not be sent: {fault}", "refused") from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL, ValueError) as fault:
            raise Ended("http.wrong", f"{method} {url} cannot be sent: {fault}") from None
        except httpx.HTTPError as fault:
            raise Ended(
                "http.no_answer", f"{method} {url} got no answer: {str(fault) or type(fault).__name__}"
            ) from None

    def _show(self, answer: httpx.Response) -> None:
        seen = Beginning(answer.headers.get("Content-Encoding", ""), SHOWN)
        for part in answer.iter_raw():
            seen.take(part)
        if seen.body:
            say(seen.body.decode("utf-8", "replace"))
        if seen.broken:
            say("… the rest of the answer cannot be unpacked")
        if seen.more:
            say(f"… the rest of the answer is not shown (more than {SHOWN} bytes)")

    def _judge(self, answer: httpx.Response) -> None:
        if succeeded(answer.status_code, self.order["success"]):
            return
        said = f"{answer.request.method} {answer.request.url} answered {answer.status_code}"
        if answer.is_redirect:
            said += f", which leads to {answer.headers.get('Location')}: name that address in the program"
        if elsewhere := self._elsewhere(str(answer.request.url)):
            said += f" (being {elsewhere}, it was asked without the program's headers and without a signature)"
        raise Ended("http.status", f"{said}; expected {', '.join(map(str, self.order['success']))}")

    def _body(self) -> bytes:
        """The body; where the program has none, what the run is, for those methods that carry one."""
        body = self.order["body"]
        if body is None and self.order["method"] in ("POST", "PUT", "PATCH"):
            body = self.order["run"]
        if body is None:
            return b""
        return body.encode() if isinstance(body, str) else json.dumps(body, ensure_ascii=False).encode()

    def _elsewhere(self, url: str) -> str:
        """That a URL is at another origin than the program's, in words; empty: it is not. Raises Ended."""
        try:
            here, there = origin_of(self.order["url"]), origin_of(url)
        except (httpx.InvalidURL, ValueError) as fault:
            raise Ended("http.wrong", f"{url} cannot be asked: {fault}") from None
        return "" if here == there else f"at {there}, which is not the program's {here}"

    def _headers(self, url: str, content: bytes) -> dict[str, str]:
        """What goes to `url`; secrets go to the program's own origin only."""
        order, run = self.order, self.order["run"]
        headers = {
            "User-Agent": "tidegate",
            "Idempotency-Key": order["identity"],
            "Tidegate-Run": run["id"],
            "Tidegate-Run-Key": order["run_key"],
            "Tidegate-Attempt": str(run["attempt"]),
            "Tidegate-Fence": str(run["fence"]),
        }
        if self._elsewhere(url):
            return headers
        if order["signed"]:
            identity, at = order["identity"], int(time.time())  # noqa: TID251
            headers["Webhook-Id"], headers["Webhook-Timestamp"] = identity, str(at)
            headers["Webhook-Signature"] = signature(key_of(self.environment[SECRET]), identity, at, content)
        return headers | {
            name: self.environment[HEADER + name] if is_variable(value) else str(value)
            for name, value in order["headers"].items()
        }


def origin_of(url: str) -> str:
    """`https://example.com:8443`: whom one talks to; the port of its scheme is left out. Raises httpx.InvalidURL."""
    parts = httpx.URL(url)
    return f"{parts.scheme}://{parts.netloc.decode('ascii')}"


def succeeded(status: int, success: Sequence[int | str]) -> bool:
    """Whether a status is one of `success`: numbers, or classes like `2xx`."""
    return any(status == one if isinstance(one, int) else status // 100 == int(one[0]) for one in success)


def pause_of(answer: httpx.Response) -> float:
    """Seconds until the next question, as the answer says in `Retry-After`, within reason."""
    try:
        wanted = float(answer.headers.get("Retry-After", ASK_EVERY))
    except ValueError:  # a date: nobody's clock is trusted for that
        wanted = ASK_EVERY
    if not wanted >= 0:  # a negative number, or none, says nothing
        wanted = ASK_EVERY
    return min(max(wanted, 0.1), ASK_MOST)


def _where(directory: str) -> str:
    """Where the work of an earlier attempt goes on, unless that attempt ended."""
    if (Path(directory) / "verdict.json").exists():
        return ""
    try:
        return str(json.loads((Path(directory) / "remote.json").read_text())["location"])
    except (OSError, ValueError, KeyError):
        return ""


def _mounts(transport: httpx.HTTPTransport) -> dict[str, httpx.HTTPTransport] | None:
    """Keep-alive, unless a proxy of the environment is in between: then httpx makes its own."""
    proxied = any(
        os.environ.get(name) for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy")
    )
    return None if proxied else {"all://": transport}


def write(path: Path, value: Any) -> None:
    """A file that appears whole."""
    draft = path.with_name(f".{path.name}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(value, file)
    draft.replace(path)


def say(text: str) -> None:
    print(text, flush=True)


def main(path: str) -> int:
    call = Call(json.loads(Path(path).read_text()), os.environ)
    outcome, error, status = "succeeded", None, 0

    def stopped(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Stopped

    try:
        signal.signal(signal.SIGTERM, stopped)
        call.run()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except Stopped:
        call.stop()
        outcome, error, status = "cancelled", {"code": "cancelled", "message": "It was asked to end."}, STOPPED
    except Exception as fault:
        end = fault if isinstance(fault, Ended) else Ended("http.wrong", f"The call cannot be made: {fault!r}")
        say(f"{end.code}: {end}")
        outcome, error, status = end.outcome, {"code": end.code, "message": str(end)}, 1
    with suppress(OSError):
        write(call.directory / "verdict.json", {"outcome": outcome, "error": error})
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
