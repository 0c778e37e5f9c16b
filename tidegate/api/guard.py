"""What is decided before a request is looked at: who may speak to us at all, and how much.

Without authentication only this machine may: the socket is bound to loopback, and a browser that was led here under
another name (DNS rebinding: the Host header gives it away) or by another site's page (the Origin header) is refused.
A body beyond the limit is refused while it is being read, not after.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.api.problems import Problem, of
from tidegate.settings import is_loopback


def _host_of(address: str) -> str:
    """The host of `http://HOST:PORT` or `//HOST:PORT`; empty where there is none."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


class Guard:
    """Pure ASGI middleware."""

    def __init__(self, app: ASGIApp, *, body_limit: int, loopback_only: bool = True) -> None:
        self.app = app
        self.body_limit = body_limit
        self.loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if problem := self._refuse(scope):
            await of(problem)(scope, receive, send)
            return
        await self.app(scope, self._limited(receive), send)

    def _refuse(self, scope: Scope) -> Problem | None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin", "")
        if self.loopback_only and not is_loopback(_host_of(f"//{host}")):
            return Problem(403, f"The host {host!r} is not this machine; use localhost or 127.0.0.1.", code="host")
        if self.loopback_only and origin and not is_loopback(_host_of(origin)):
            return Problem(403, f"A page of {origin!r} may not speak to Tidegate.", code="origin")
        if "\0" in scope["path"] or b"%00" in scope.get("query_string", b""):
            return Problem(400, "The address holds a NUL character, which nothing here is named by.")
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self.body_limit:
            return self._too_large()
        return None

    def _limited(self, receive: Receive) -> Receive:
        seen = 0

        async def limited() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.body_limit:
                raise self._too_large()  # out of the reader, so that nothing more is read
            return message

        return limited

    def _too_large(self) -> Problem:
        return Problem(413, f"The body is larger than {self.body_limit} bytes (api.body_limit).", code="too_large")
