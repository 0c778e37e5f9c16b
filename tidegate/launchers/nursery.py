"""The process that forks shims: one a worker, small, so that a start costs a fork and not a Python.

It is `launchers.shim` run as a script; orders go to it through a socket, answers come back through a pipe, each with
the token of its order. Its death costs nobody an exit status: every shim lives on by itself (decision 2).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import struct
import sys
from typing import Any

from tidegate.launchers import shim
from tidegate.launchers.processes import this_boot

ANSWER_WITHIN = 30.0
"""Seconds for a shim to answer before its identity is sealed."""


class Nursery:
    """The worker's hold on the process that forks shims; begun when first needed and again when it has died."""

    def __init__(self) -> None:
        self._orders: socket.socket | None = None
        self._replies = -1
        self._pid = 0
        self._buffer = b""
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._tokens = itertools.count()
        self._sending = asyncio.Lock()

    async def fork(self, order: dict[str, Any]) -> dict[str, Any]:
        """Order a shim; its answer. Raises TimeoutError when none comes and ConnectionError when the nursery died."""
        loop = asyncio.get_running_loop()
        if self._orders is None:
            self.begin()
        assert self._orders is not None
        token = next(self._tokens)
        answer: asyncio.Future[dict[str, Any]] = loop.create_future()
        self._waiting[token] = answer
        body = json.dumps({"token": token, "boot": this_boot(), **order}).encode()
        try:
            async with self._sending:
                await loop.sock_sendall(self._orders, struct.pack("!I", len(body)) + body)
            return await asyncio.wait_for(answer, ANSWER_WITHIN)
        except (TimeoutError, OSError):
            self.end()  # dead or frozen: the next order goes to a new one
            raise
        finally:
            self._waiting.pop(token, None)

    def begin(self) -> None:
        """Spawn it. From then on its answers are read in the running loop. Raises OSError."""
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        actions = [
            (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
            (os.POSIX_SPAWN_DUP2, writing, 1),
            (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
        ]
        argv = [sys.executable, "-I", "-S", shim.__file__]
        try:
            self._pid = os.posix_spawn(sys.executable, argv, {}, file_actions=actions, setsid=True)
        except OSError:
            ours.close()
            os.close(reading)
            raise
        finally:
            theirs.close()
            os.close(writing)
        ours.setblocking(False)
        os.set_blocking(reading, False)
        self._orders, self._replies, self._buffer = ours, reading, b""
        asyncio.get_running_loop().add_reader(reading, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._replies, 65536)
        except BlockingIOError:
            return
        if not data:
            self.end()
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            answer = json.loads(line)
            waiting = self._waiting.get(answer.pop("token"))
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)

    def end(self) -> None:
        """Let the nursery go; shims live on."""
        if self._orders is None:
            return
        asyncio.get_running_loop().remove_reader(self._replies)
        os.close(self._replies)
        self._orders.close()
        self._orders = None
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self._pid, signal.SIGKILL)  # our own child, not reaped yet: nobody else can have its pid
            os.waitpid(self._pid, 0)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("the process that forks shims is gone"))
