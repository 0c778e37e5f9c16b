"""A wire between one process and PostgreSQL that can be cut, slowed, made to swallow everything, and to lose exactly
the answer to a COMMIT.

It follows the frontend's messages just far enough to know a COMMIT, also a prepared one. Each process has a wire of its
own, so that one can be cut off while the others go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from enum import Enum


class Loss(Enum):
    """What is lost of the next COMMIT."""

    ANSWER = "the answer: it happened, and nobody is told"
    COMMIT = "the COMMIT itself: it did not happen, and nobody is told"
    LATE = "the connection: it happens a moment after everybody gave up on it"


LATE_BY = 0.7


class Frontend:
    """The messages that a client sends, as far as they tell of COMMITs. Bytes come in any pieces."""

    def __init__(self) -> None:
        self._buffer = b""
        self._started = False
        self._commits: set[bytes] = set()  # names of prepared statements that are a COMMIT

    def commits(self, data: bytes) -> bool:
        """Whether a COMMIT is executed in what came now."""
        self._buffer += data
        found = False
        while (message := self._next()) is not None:
            kind, body = message
            if kind == b"Q":
                found |= body.rstrip(b"\0").strip().upper() == b"COMMIT"
            elif kind == b"P":
                name, query = body.split(b"\0", 2)[:2]
                if query.strip().upper() == b"COMMIT":
                    self._commits.add(name)
                else:
                    self._commits.discard(name)
            elif kind == b"B":
                found |= body.split(b"\0", 2)[1] in self._commits
        return found

    def _next(self) -> tuple[bytes, bytes] | None:
        head = 0 if not self._started else 1
        if len(self._buffer) < head + 4:
            return None
        size = head + int.from_bytes(self._buffer[head : head + 4], "big")
        if len(self._buffer) < size:
            return None
        kind, body = self._buffer[:head], self._buffer[head + 4 : size]
        self._buffer = self._buffer[size:]
        if not self._started and body[:4] not in (_SSL, _GSS):
            self._started = True
        return kind or b"startup", body


_SSL, _GSS = (80877103).to_bytes(4, "big"), (80877104).to_bytes(4, "big")


class Wire:
    """Carries connections to a port of this machine. What is said to it may be said from any thread."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[_Carried] = set()
        self.delay = 0.0
        """Seconds that every piece takes longer, in both directions."""
        self.dark = False
        """Nothing arrives, in either direction; nobody is told."""
        self.losing: Loss | None = None
        """What is lost of the next COMMIT; None again once that happened."""
        self.lost: dict[Loss, int] = dict.fromkeys(Loss, 0)
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name=f"wire {self.port}", daemon=True
        )
        self._thread.start()
        self._ready.wait(10)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._carry, sock=self._listener)
        self._ready.set()
        await self._stop.wait()
        server.close()
        while self._open:
            for one in list(self._open):
                one.cut()
            self.dark = False
            await asyncio.sleep(0.02)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        carried = _Carried(self, reader, writer)
        self._open.add(carried)
        try:
            await carried.run(self._to)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(carried)
            carried.cut()

    def cut(self) -> None:
        """Reset every connection."""
        self._call(self._cut)

    def _cut(self) -> None:
        for one in list(self._open):
            one.cut()

    def close(self) -> None:
        """Reset everything and end."""
        self._call(self._stop.set)
        self._thread.join(5)

    def _call(self, what: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(what)


class _Carried:
    """One connection."""

    def __init__(self, wire: Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._wire = wire
        self._reader, self._writer = reader, writer
        self._forth: asyncio.StreamWriter | None = None
        self._muted = False
        self._frontend = Frontend()

    async def run(self, port: int) -> None:
        back, self._forth = await asyncio.open_connection("127.0.0.1", port)
        answers = asyncio.create_task(self._pass(back, self._writer))
        try:
            while data := await self._reader.read(65536):
                await self._hold()
                if self._frontend.commits(data) and self._wire.losing is not None:
                    how, self._wire.losing = self._wire.losing, None
                    self._wire.lost[how] += 1
                    if not await self._lose(how, data, self._forth):
                        return
                    continue
                self._forth.write(data)
                await self._forth.drain()
        finally:
            answers.cancel()

    async def _lose(self, how: Loss, data: bytes, forth: asyncio.StreamWriter) -> bool:
        """Whether the connection goes on (never; the client is cut off as if the network had failed)."""
        self._muted = True
        if how is Loss.ANSWER:
            forth.write(data)
            await forth.drain()
            await asyncio.sleep(0.3)
        elif how is Loss.LATE:
            self._writer.transport.abort()
            await asyncio.sleep(LATE_BY)
            forth.write(data)
            await forth.drain()
            await asyncio.sleep(0.3)
        return False

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await self._hold()
                if not self._muted:
                    writer.write(data)
                    await writer.drain()
            if not self._muted:
                writer.close()
        except OSError:  # the server reset it, as when it is stopped at once
            if not self._muted:
                writer.transport.abort()

    async def _hold(self) -> None:
        if self._wire.delay:
            await asyncio.sleep(self._wire.delay)
        while self._wire.dark:
            await asyncio.sleep(0.05)

    def cut(self) -> None:
        for end in (self._writer, self._forth):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.transport.abort()
