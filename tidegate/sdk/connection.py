"""A connection to the REST doors, in plain JSON: what `tidegate.Client` and every command speak through."""

from __future__ import annotations

import getpass
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from tidegate.domain.errors import Fault, TidegateError, Unavailable
from tidegate.domain.runs import ENDS

if TYPE_CHECKING:
    import httpx

DEFAULT_URL = "http://127.0.0.1:7420"
API = "/api/v1"
PAGE = 1000  # most items of one page
FOLLOW = 0.4  # seconds between two looks at a log that grows


class Problem(TidegateError):
    """The server refused (RFC 9457). `status` is the HTTP status, `code` is stable and meant for programs; `errors` are
    all wrong places, each with `path` and `reason`. `retryable`: the same again may work, after `retry_after` seconds.
    """

    def __init__(self, problem: Mapping[str, Any], status: int, retry_after: float | None = None) -> None:
        super().__init__(
            str(problem.get("detail") or problem.get("title") or f"HTTP {status}"),
            code=str(problem.get("code") or "error"),
        )
        self.status = status
        self.errors = tuple(
            Fault(str(one.get("path", "")), str(one.get("reason", ""))) for one in problem.get("errors") or ()
        )
        self.retryable = status in (429, 503)
        self.retry_after = retry_after


class Connection:
    """One connection to one server; threads may share it. Use as a context manager, or close it."""

    def __init__(self, url: str | None = None, *, timeout: float = 60.0) -> None:
        import httpx  # here, so that who speaks to nobody starts at once

        self.url = (url or os.environ.get("TIDEGATE_URL") or DEFAULT_URL).rstrip("/")
        try:
            parts = urlsplit(self.url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # half an IPv6 address, a port that is none
            usable = False
        if not usable:
            raise TidegateError(f"TIDEGATE_URL {self.url!r} is no address.", remedy=f"Write it like {DEFAULT_URL}.")
        local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        limits = httpx.Timeout(timeout, connect=5.0)
        self._http = httpx.Client(
            base_url=self.url,
            timeout=limits,
            trust_env=not local,
            headers={"Tidegate-User": _user()},
            verify=parts.scheme == "https",  # certificates take a while to load
        )

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the sockets back."""
        self._http.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        patience: float | None = None,
        **params: Any,
    ) -> Any:
        """The JSON answer. Parameters that are None are left out; `patience` in seconds instead of the connection's.
        Raises Problem or Unavailable."""
        url = path if path.startswith(("/healthz", "/readyz", "/metrics")) else API + path
        more: dict[str, Any] = {} if patience is None else {"timeout": patience}
        with self._explained():
            return _read(self._http.request(method, url, params=_told(params), json=body, headers=headers, **more))

    def lines(self, path: str, **params: Any) -> Iterator[dict[str, Any]]:
        """An answer that comes as lines of JSON, as they come. Raises Problem or Unavailable."""
        with self._explained(), self._http.stream("GET", API + path, params=_told(params)) as answer:
            if not answer.is_success:
                answer.read()
                _read(answer)
            for line in answer.iter_lines():
                found = json.loads(line)
                if "problem" in found:
                    raise Problem(found["problem"], found["problem"]["status"])
                yield found

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """What the connection does wrong, as a message."""
        import httpx

        try:
            yield
        except httpx.ConnectError:
            raise Unavailable(
                f"Nothing answers at {self.url}.", remedy="Start it with `tidegate up`, or name it in TIDEGATE_URL."
            ) from None
        except httpx.TimeoutException:
            raise Unavailable(f"{self.url} did not answer in time.", remedy="See /readyz for what is wrong.") from None
        except httpx.HTTPError as error:
            raise Unavailable(f"The connection to {self.url} broke: {error}.", remedy="Try again.") from None

    def get(self, path: str, **params: Any) -> Any:
        return self.call("GET", path, **params)

    def items(self, path: str, *, most: int | None = None, **params: Any) -> Iterator[dict[str, Any]]:
        """Items of a list, page by page, at most so many."""
        cursor, left = None, most
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            answer = self.get(path, limit=size, cursor=cursor, **params)
            yield from answer["items"]
            cursor = answer.get("next")
            left = None if left is None else left - len(answer["items"])
            if not cursor:
                return


def _user() -> str:
    """Who is at the keyboard, for the audit log."""
    try:
        return getpass.getuser().encode("ascii", "replace").decode()
    except (OSError, KeyError):
        return ""


def segment(text: str) -> str:
    """A name as one segment of a path."""
    return quote(text, safe="")


def _told(params: Mapping[str, Any]) -> dict[str, str]:
    return {key: _text(value) for key, value in params.items() if value is not None}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(answer: httpx.Response) -> Any:
    kind = answer.headers.get("content-type", "")
    try:
        body = answer.json() if "json" in kind else answer.text
    except ValueError:
        body = answer.text
    if answer.is_success:
        if "html" in kind:
            raise TidegateError(f"What answers at {answer.url} is not Tidegate.", remedy="Look at TIDEGATE_URL.")
        return body
    problem = body if isinstance(body, dict) else {"detail": f"{answer.url} answered {answer.status_code}."}
    after = answer.headers.get("retry-after", "")
    raise Problem(problem, answer.status_code, float(after) if after.isdecimal() else None)


# ── logs ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def log_pieces(
    connection: Connection, path: str, attempt: int | None = None, *, follow: bool = False
) -> Iterator[dict[str, Any]]:
    """A log of the run at `path`: {attempt, offset, text, next_offset, complete}, the last one without text. Of the
    newest attempt unless one is named; with `follow` as it grows, over all attempts to come, until the run has ended.
    """
    number, offset = attempt, 0
    while True:
        piece = connection.get(f"{path}/logs", offset=offset, attempt=number)
        number = number or piece["attempt"]
        offset = piece["next_offset"]
        yield piece
        if piece["text"]:
            continue
        if not follow:
            return
        if piece["complete"]:
            newer = None if attempt is not None else _newer(connection.get(path), number)
            if newer is None:
                return
            number, offset = newer, offset if newer == number else 0
        time.sleep(FOLLOW)


def _newer(run: Mapping[str, Any], number: int | None) -> int | None:
    """The attempt to go on with when this one has ended; itself while a retry is still to come; None at the end."""
    newest = max((int(one["number"]) for one in run.get("attempts") or ()), default=0)
    if number is not None and newest > number:
        return number + 1
    return None if run["state"] in ENDS else number
