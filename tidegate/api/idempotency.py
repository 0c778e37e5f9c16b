"""`Idempotency-Key`: a request that is repeated with its key changes nothing and is answered as the first time.

That it was carried out is committed with the change itself (see `remembering`), its answer right afterwards. A crash
between the two leaves the notes: the repeat is then answered from them, by what there is now.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.api.context import STORE
from tidegate.api.problems import Problem, cut_off, of
from tidegate.api.remembering import Remembering
from tidegate.domain.errors import TidegateError
from tidegate.ports.control import ControlStore

CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
LONGEST = 255
PREFIX = "/api/v1"


@dataclass(slots=True)
class _Turns:
    """Requests with one key go one after another; `wanted` by so many, the one under way among them."""

    lock: asyncio.Lock
    wanted: int = 0


class Idempotency:
    """Pure ASGI middleware. `store` is asked for lazily, since it is opened after the application is made."""

    def __init__(self, app: ASGIApp, store: Callable[[], ControlStore]) -> None:
        self.app = app
        self.store = store
        self.under_way: dict[str, _Turns] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = Headers(scope=scope).get("idempotency-key") if scope["type"] == "http" else None
        if key is None or scope["method"] not in CHANGING:
            await self.app(scope, receive, send)
            return
        try:
            await self._once(key, scope, receive, send)
        except TidegateError as error:
            await of(error)(scope, receive, send)

    async def _once(self, key: str, scope: Scope, receive: Receive, send: Send) -> None:
        if not 0 < len(key) <= LONGEST:
            raise Problem(422, f"The Idempotency-Key must have 1 to {LONGEST} characters.", code="idempotency_key")
        body = await _whole(receive)
        request = _digest(scope, body)
        turns = self.under_way.setdefault(key, _Turns(asyncio.Lock()))
        turns.wanted += 1
        try:
            async with turns.lock:
                await self._answer(key, request, body, scope, receive, send)
        finally:
            turns.wanted -= 1
            if not turns.wanted:
                del self.under_way[key]

    async def _answer(self, key: str, request: str, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        store = self.store()
        if (known := await store.remembered(key)) is not None:
            await self._repeat(known, request, body, scope, receive, send)
            return
        taken, seen = Taken(send), Remembering(store, key, request)
        await self.app({**scope, STORE: seen}, _again(body, receive), taken)
        if seen.repeated and (known := await store.remembered(key)) is not None:  # another process was faster
            await self._repeat(known, request, body, scope, receive, send)
            return
        if 200 <= taken.status < 300:
            answer = {"headers": taken.headers, "body": json.loads(taken.body) if taken.body else None}
            await store.remember(key, request, taken.status, answer, await store.now())
        await taken.pass_on()

    async def _repeat(
        self, known: tuple[str, int, Any], request: str, body: bytes, scope: Scope, receive: Receive, send: Send
    ) -> None:
        digest, status, answer = known
        if digest != request:
            raise Problem(
                422, "This Idempotency-Key was used for another request; take a new one.", code="idempotency_key"
            )
        if status:
            await _replayed(status, answer)(scope, receive, send)
            return
        taken = Taken(send)
        status = await self._made_again(answer, body, scope, receive, taken)
        told = {"headers": taken.headers, "body": json.loads(taken.body) if taken.body else None}
        await _replayed(status, told)(scope, receive, send)

    async def _made_again(
        self, notes: Mapping[str, Any], body: bytes, scope: Scope, receive: Receive, taken: Taken
    ) -> int:
        """The answer of a request that was carried out and whose process then died; its status."""
        post = scope["method"] == "POST"
        look: str | None = None
        if post and "run" in notes:
            look, status = f"{PREFIX}/runs/{notes['run']}", 202
        elif post and "backfill" in notes:
            look, status = f"{PREFIX}/backfills/{notes['backfill']}", 202
        elif post and "events" in notes:
            items = [{"position": str(one.pop("pos")), **one} for one in map(dict, notes["events"])]
            many = isinstance(json.loads(body), list)
            await JSONResponse({"items": items, "next": None} if many else items[0], 202)(scope, receive, taken)
            return 202
        elif scope["method"] == "DELETE":
            return 204
        elif post and (made := _address(notes)).rpartition("/")[0] == scope["path"]:
            look, status = made, 201
        if look is None:  # what says the same twice changes nothing the second time
            await self.app(scope, _again(body, receive), taken)
            return taken.status
        there = {**scope, "method": "GET", "path": look, "raw_path": look.encode(), "query_string": b""}
        await self.app(there, _again(b"", receive), taken)
        return status if taken.status == 200 else taken.status


def _address(notes: Mapping[str, Any]) -> str:
    """Where that which a request changed last can be read."""
    kind, namespace, name = notes.get("change") or ("", "", "")
    plural = f"{kind.lower()}s"
    return f"{PREFIX}/namespaces/{namespace}/{plural}/{name}" if namespace else f"{PREFIX}/{plural}/{name}"


class Taken:
    """Holds an answer back until it is remembered: what a client was told survives a crash."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._messages: list[Message] = []
        self.status = 500
        self.headers: dict[str, str] = {}
        self.body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            found = Headers(raw=message["headers"])
            self.headers = {name: found[name] for name in ("etag", "location") if name in found}
        else:
            self.body += message.get("body", b"")
        self._messages.append(message)

    async def pass_on(self) -> None:
        for message in self._messages:
            await self._send(message)


def _replayed(status: int, answer: Any) -> ASGIApp:
    headers = {**answer["headers"], "Idempotency-Replayed": "true"}
    if answer["body"] is None:
        return _Empty(status, headers)
    return JSONResponse(answer["body"], status, headers=headers)


class _Empty:
    def __init__(self, status: int, headers: dict[str, str]) -> None:
        self.status = status
        self.headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": b""})


def _digest(scope: Scope, body: bytes) -> str:
    said = b"\0".join((scope["method"].encode(), scope["path"].encode(), scope.get("query_string", b""), body))
    return hashlib.sha256(said).hexdigest()


async def _whole(receive: Receive) -> bytes:
    """The body. Raises Problem: the client went away before it was whole."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise cut_off()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    told = False

    async def again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
