"""A worker's hold on one pooled process: its socket, what it was given, how it does."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import secrets
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tidegate
from tidegate.launchers import pool_wire
from tidegate.launchers.places import make_private
from tidegate.launchers.processes import ProcessRef, alive, open_pidfd, start_of, this_boot

WINDOW_MOST = 128
"""How many orders a fast host is given ahead."""


class Link:
    """One host. `given`: id -> whether it has begun there. All methods run in the loop's thread."""

    def __init__(self, directory: Path, peer: socket.socket, ref: ProcessRef, *, fit: bool) -> None:
        """`fit`: it runs in the environment that this worker has, and may be given work."""
        self.directory = directory
        self.ref = ref
        self.retiring = not fit
        self.given: dict[str, bool] = {}
        self.window = 2
        self.done_lately = 0
        self.said_hello = False
        self.dead = False
        self.on_message: Callable[[Link, list[Any]], None] = lambda link, message: None
        self.on_news: Callable[[], None] = lambda: None
        self.on_death: Callable[[Link], None] = lambda link: None
        self._peer = peer
        self._unpacker = pool_wire.Unpacker()
        self._messages: list[Any] = []
        self._out = bytearray()
        self._writing = False
        self._pidfd: int | None = None

    @property
    def free(self) -> int:
        """How many more orders it may be given now."""
        return 0 if self.dead or self.retiring else self.window - len(self.given)

    def open(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._peer, self._read)
        self._pidfd = open_pidfd(self.ref)  # a child that it forked may hold the socket open: watch the process too
        if self._pidfd is not None:
            loop.add_reader(self._pidfd, self._read)

    def say(self, *message: Any) -> None:
        """Buffered; `flush` sends it."""
        self._messages.append(message)

    def flush(self) -> None:
        if self._messages and not self.dead:
            self._out += pool_wire.pack(self._messages)
            self._messages = []
            self._push()

    def _push(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._out:
                del self._out[: self._peer.send(self._out)]
        except BlockingIOError:
            if not self._writing:
                self._writing = True
                loop.add_writer(self._peer, self._push)
            return
        except OSError:
            return  # its death is heard by reading
        if self._writing:
            self._writing = False
            loop.remove_writer(self._peer)

    def _read(self) -> None:
        try:
            data = self._peer.recv(1 << 18)
        except BlockingIOError:
            if alive(self.ref):
                return
            data = b""
        except OSError:
            data = b""
        if not data:
            self.close()
            self.on_death(self)
            return
        for message in self._unpacker.feed(data):
            self.on_message(self, message)
        self.on_news()

    def close(self) -> None:
        if self.dead:
            return
        self.dead = True
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._peer)
        loop.remove_writer(self._peer)
        self._peer.close()
        if self._pidfd is not None:
            loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    async def reap(self) -> None:
        """When it was our child, leave no zombie; its sockets close a moment before it has ended."""
        with contextlib.suppress(ChildProcessError):
            for _ in range(100):
                if os.waitpid(self.ref.pid, os.WNOHANG)[0]:
                    return
                await asyncio.sleep(0.01)


def fingerprint() -> str:
    """What makes a host fit for this worker: same release, interpreter, directory and environment."""
    facts = [tidegate.__file__, sys.version, sys.executable, os.getcwd(), sorted(os.environ.items())]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def spawn(pools: Path) -> Link:
    """Start a host. It can be spoken to at once; it answers when it is up."""
    directory = pools / secrets.token_hex(6)
    make_private(str(directory))
    ours, theirs = socket.socketpair()
    argv = [sys.executable, "-m", "tidegate.launchers.python_host", str(directory), fingerprint(), this_boot()]
    log = (os.POSIX_SPAWN_OPEN, 1, str(directory / "host.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    actions = [
        (os.POSIX_SPAWN_DUP2, theirs.fileno(), 3),
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        log,
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    environment = {name: value for name, value in os.environ.items() if name != "TIDEGATE_DATABASE_URL"}
    try:
        if theirs.fileno() == 3:
            os.set_inheritable(3, True)
        pid = os.posix_spawn(sys.executable, argv, environment, file_actions=actions, setsid=True)
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    ours.setblocking(False)
    return Link(directory, ours, ProcessRef(this_boot(), pid, start_of(pid) or 0), fit=True)


def who(directory: Path) -> tuple[ProcessRef, str] | None:
    """The process and fingerprint of a pool directory; None while its host is not up yet."""
    try:
        told = json.loads((directory / "host.json").read_text())
    except (OSError, ValueError):
        return None
    return ProcessRef(told["boot"], told["pid"], told["start"]), told["fingerprint"]
