"""The client of the REST doors that every command uses: TIDEGATE_URL, default http://127.0.0.1:7420."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from tidegate.domain.errors import Fault, TidegateError, Unavailable

if TYPE_CHECKING:
    import httpx

DEFAULT_URL = "http://127.0.0.1:7420"
API = "/api/v1"
PAGE = 1000  # most items of one page


class Answered(TidegateError):
    """The server refused: its problem, as an error of ours."""

    def __init__(self, problem: Mapping[str, Any], status: int) -> None:
        faults = [Fault(str(one.get("path", "")), str(one.get("reason", ""))) for one in problem.get("errors") or ()]
        super().__init__(str(problem.get("detail") or problem.get("title") or f"HTTP {status}"))
        self.code = str(problem.get("code", "error"))
        self.status = status
        self.faults = tuple(faults)


class Client:
    """One connection to one server. Use as a context manager."""

    def __init__(self, url: str | None = None, *, timeout: float = 60.0) -> None:
        import httpx  # here, so that commands that speak to nobody start at once

        self.url = (url or os.environ.get("TIDEGATE_URL") or DEFAULT_URL).rstrip("/")
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
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

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def call(self, method: str, path: str, *, body: Any = None, **params: Any) -> Any:
        """The JSON answer. Parameters that are None are left out. Raises Answered or Unavailable."""
        url = path if path.startswith(("/healthz", "/readyz", "/metrics")) else API + path
        with self._explained():
            return _read(self._http.request(method, url, params=_told(params), json=body))

    def lines(self, path: str, **params: Any) -> Iterator[dict[str, Any]]:
        """An answer that comes as lines of JSON, as they come. Raises Answered or Unavailable."""
        with self._explained(), self._http.stream("GET", API + path, params=_told(params)) as answer:
            if not answer.is_success:
                answer.read()
                _read(answer)
            for line in answer.iter_lines():
                found = json.loads(line)
                if "problem" in found:
                    raise Answered(found["problem"], found["problem"]["status"])
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


def nothing_there(client: Client, namespace: str | None, schedule: str | None = None) -> str | None:
    """Why a list may be empty: there is no such namespace, or no such schedule in it. None: it is just empty."""
    places = [f"/namespaces/{segment(namespace)}"] if namespace not in (None, "default") else []
    if namespace is not None and schedule is not None:
        places.append(f"/namespaces/{segment(namespace)}/schedules/{segment(schedule)}")
    for place in places:
        try:
            client.get(place)
        except Answered as error:
            if error.status == 404:
                return str(error)
    return None


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
        return body
    problem = body if isinstance(body, dict) else {"detail": f"{answer.url} answered {answer.status_code}."}
    raise Answered(problem, answer.status_code)
