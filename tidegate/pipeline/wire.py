"""JSON lines over a Unix socket: what a driver, the workers and its children say to each other.

A request is `{"id": n, "op": name, ...}`; its answer `{"id": n, "ok": true, ...}` or `{"id": n, "ok": false, "code",
"message"}`. A driver also says `{"event": name, ...}` unasked. A connection's end means that its other end is gone.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

Message = dict[str, Any]


class Line:
    """One connection. Sending is safe from every thread; one thread reads."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._reader = connection.makefile("rb")
        self._lock = threading.Lock()

    def send(self, message: Message) -> bool:
        """False when the other end is gone."""
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        try:
            with self._lock:
                self._socket.sendall(data)
        except OSError:
            return False
        return True

    def receive(self) -> Iterator[Message]:
        """Messages until the connection ends."""
        while True:
            try:
                data = self._reader.readline()
            except (OSError, ValueError):
                return
            if not data.endswith(b"\n"):
                return
            yield json.loads(data)

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class Caller:
    """The asking side, for a child: calls wait for their answer; `on_end` is called when the driver is gone."""

    def __init__(self, path: str, on_end: Callable[[], None]) -> None:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        self._line = Line(connection)
        self._on_end = on_end
        self._answers: dict[int, Message] = {}
        self._arrived = threading.Condition()
        self._last = 0
        self._ended = False
        threading.Thread(target=self._listen, name="tidegate-driver", daemon=True).start()

    def call(self, op: str, *, wait: bool = True, timeout: float | None = None, **given: Any) -> Message:
        """The answer. Raises ConnectionError when the driver is gone, TimeoutError after `timeout` seconds."""
        with self._arrived:
            self._last += 1
            number = self._last
        if not self._line.send({"id": number, "op": op, **given}):
            raise ConnectionError("the Spark driver is gone")
        if not wait:
            return {}
        with self._arrived:
            there = self._arrived.wait_for(lambda: number in self._answers or self._ended, timeout)
            if number in self._answers:
                return self._answers.pop(number)
        raise ConnectionError("the Spark driver is gone") if there else TimeoutError(f"no answer within {timeout} s")

    def _listen(self) -> None:
        for message in self._line.receive():
            with self._arrived:
                self._answers[message.get("id", -1)] = message
                self._arrived.notify_all()
        with self._arrived:
            self._ended = True
            self._arrived.notify_all()
        self._on_end()
