"""The listening half of a pooled process: what it knows (the Desk), and who may ask (the Door, a thread)."""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from tidegate.launchers import pool_wire, shim
from tidegate.launchers.places import attempt_directory
from tidegate.launchers.pool_journal import Journal, finished_line
from tidegate.launchers.python_output import Output

IDLE = 60.0
"""Seconds without a worker and without work after which a host ends."""
DRAIN_EVERY = 0.25
"""Seconds between two looks for output that came below Python."""


class Connection:
    """One worker. Sending never waits: what the socket does not take is kept until it does."""

    def __init__(self, peer: socket.socket, wake: Callable[[], None]) -> None:
        """`wake` lets the listener know that something is left to be sent."""
        self.peer = peer
        self._wake = wake
        self.unpacker = pool_wire.Unpacker()
        self._lock = threading.Lock()
        self._out = bytearray()
        peer.setblocking(False)

    def send(self, messages: list[Any]) -> None:
        with self._lock:
            self._out += pool_wire.pack(messages)
        if self.push():
            self._wake()

    def push(self) -> bool:
        """Send what there is; whether something is left."""
        with self._lock:
            try:
                while self._out:
                    del self._out[: self.peer.send(self._out)]
            except BlockingIOError:
                return True
            except OSError:
                self._out.clear()  # it is gone; the journal has it for the next one
            return False


class Desk:
    """What both threads know. An order goes from `queued` to `current` to `finished`, each move under the lock."""

    def __init__(self, journal: Journal, main: threading.Thread, cancellation: Callable[[], Any]) -> None:
        self.lock = threading.Lock()
        self.journal = journal
        self.queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.queued: dict[str, list[Any]] = {}
        self.current: str | None = None
        self.finished: dict[str, list[Any]] = {}
        self.owners: dict[str, Connection] = {}
        self.cancellation = cancellation()
        self.retiring = False
        self._new_cancellation = cancellation
        self._main = main

    # ── main thread ──

    def take(self, identity: str) -> list[Any] | None:
        """Make a queued order the current one; None when it was taken back."""
        with self.lock:
            order = self.queued.pop(identity, None)
            if order is not None:
                self.current, self.cancellation = identity, self._new_cancellation()
            return order

    def finish(self, identity: str, outcome: str, error: Any) -> list[Any]:
        how = [outcome, error, shim.monotonic_us()]
        with self.lock:
            self.current = None
            self.finished[identity] = how
        return how

    def report(self, ended: list[tuple[str, list[Any]]], began: str | None) -> None:
        """Put ends and a begin on record, then tell their owners. Raises OSError when the journal is not writable."""
        lines = "".join([finished_line(identity, how) for identity, how in ended])
        messages: dict[Connection, list[Any]] = {}
        for identity, how in ended:
            if (owner := self.owners.get(identity)) is not None:
                messages.setdefault(owner, []).append(["done", identity, *how])
        if began is not None:
            lines += f"b {began}\n"
            if (owner := self.owners.get(began)) is not None:
                messages.setdefault(owner, []).append(["began", began])
        try:
            if lines:
                with self.lock:
                    self.journal.append(lines)
                    if began is None:
                        self.journal.compact(self.finished.items())
        except OSError:
            if began is not None:
                raise
        finally:
            for owner, news in messages.items():
                owner.send(news)

    def retire(self) -> None:
        """Take nothing more and give back what has not begun."""
        with self.lock:
            self.retiring = True
            back, self.queued = self.queued, {}
        for identity in back:
            if (owner := self.owners.pop(identity, None)) is not None:
                owner.send([["retiring"], ["returned", [identity]]])

    # ── listener ──

    def accept(self, order: list[Any], owner: Connection, home: str) -> list[Any] | None:
        """Queue an order; an answer where it is not taken."""
        identity = order[0]
        with self.lock:
            if self.retiring:
                return ["returned", [identity]]
            if identity in self.queued or identity == self.current or identity in self.finished:
                return None
            if os.path.exists(f"{attempt_directory(home, identity)}/{shim.CLAIM}"):
                return ["sealed", identity]
            self.queued[identity] = order
            self.owners[identity] = owner
        self.queue.put(identity)
        return None

    def find(self, identities: list[str], owner: Connection) -> dict[str, Any]:
        """What is known of these; whoever asks is told of their ends from now on."""
        found: dict[str, Any] = {}
        with self.lock:
            for identity in identities:
                if identity in self.finished:
                    found[identity] = self.finished[identity]
                elif identity == self.current:
                    found[identity] = "running"
                elif identity in self.queued:
                    found[identity] = "queued"
                else:
                    continue
                self.owners[identity] = owner
        return found

    def stop(self, identity: str) -> list[Any] | None:
        """Ask it to end. The end of one that had not begun is answered."""
        with self.lock:
            if identity == self.current:
                self.cancellation.requested = True
                signal.pthread_kill(self._main.ident or 0, signal.SIGUSR1)
                return None
            if self.queued.pop(identity, None) is None:
                return None
            error = {"code": "program.stopped", "message": "Stopped before it began.", "exit_status": None}
            how = self.finished[identity] = ["cancelled", error, shim.monotonic_us()]
            with contextlib.suppress(OSError):
                self.journal.append(finished_line(identity, how))
        return ["done", identity, *how]

    def kill(self, identity: str) -> list[Any] | None:
        """End it by force. There is no way to end a function but with its process, and all that it started."""
        with self.lock:
            if identity == self.current:
                with contextlib.suppress(OSError):
                    self.journal.append(f"k {identity}\n")
                for _ in range(200):
                    children = shim.descendants()
                    if not children:
                        break
                    for pid in children:
                        with contextlib.suppress(OSError):
                            os.kill(pid, signal.SIGKILL)
                    time.sleep(0.005)
                os.kill(os.getpid(), signal.SIGKILL)
        return self.stop(identity)

    def recall(self, owner: Connection) -> list[Any]:
        with self.lock:
            back = [identity for identity in self.queued if self.owners.get(identity) is owner]
            for identity in back:
                del self.queued[identity]
                del self.owners[identity]
        return ["returned", back]

    def forget(self, identities: list[str]) -> None:
        with self.lock:
            for identity in identities:
                self.finished.pop(identity, None)
                self.owners.pop(identity, None)
            with contextlib.suppress(OSError):
                self.journal.append(f"g {' '.join(identities)}\n")


class Door(threading.Thread):
    """Takes what workers send. The host's home is two levels above its directory."""

    def __init__(self, desk: Desk, listener: socket.socket, output: Output, home: str) -> None:
        super().__init__(name="door", daemon=True)
        self._desk = desk
        self._home = home
        self._listener = listener
        self._output = output
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, None)
        self._connections: set[Connection] = set()
        self._woken, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._woken, selectors.EVENT_READ, "wake")

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._waker, b".")

    def welcome(self, peer: socket.socket) -> None:
        connection = Connection(peer, self._wake)
        self._connections.add(connection)
        self._selector.register(peer, selectors.EVENT_READ, connection)
        connection.send([["hello"]])

    def run(self) -> None:
        alone_since = time.monotonic()
        while True:
            busy = self._desk.current is not None or bool(self._desk.queued)
            waiting = sum(connection.push() for connection in self._connections) > 0
            for key, _ in self._selector.select(0.02 if waiting else DRAIN_EVERY if busy else IDLE / 4):
                if key.data is None:
                    with contextlib.suppress(OSError):
                        self.welcome(self._listener.accept()[0])
                elif key.data == "wake":
                    os.read(self._woken, 4096)
                else:
                    self._hear(key.data)
            if busy:
                with contextlib.suppress(OSError):
                    self._output.drain()
            if busy or self._connections:
                alone_since = time.monotonic()
            elif time.monotonic() - alone_since > IDLE:
                self._desk.queue.put(None)
                return

    def _hear(self, connection: Connection) -> None:
        try:
            data = connection.peer.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(connection.peer)
            connection.peer.close()
            self._connections.discard(connection)
            return
        answers = [self._obey(connection, *message) for message in connection.unpacker.feed(data)]
        if news := [answer for answer in answers if answer is not None]:
            connection.send(news)

    def _obey(self, connection: Connection, kind: str, *rest: Any) -> list[Any] | None:
        desk = self._desk
        match kind:
            case "start":
                return desk.accept(list(rest), connection, self._home)
            case "find":
                return ["found", rest[0], desk.find(rest[1], connection)]
            case "stop":
                return desk.stop(rest[0])
            case "kill":
                return desk.kill(rest[0])
            case "recall":
                return desk.recall(connection)
            case "forget":
                desk.forget(rest[0])
            case "quit":
                desk.retire()
                desk.queue.put(None)
        return None

    def close(self, patience: float) -> None:
        """Give the workers what is still to be sent to them, if they take it soon."""
        deadline = time.monotonic() + patience
        while sum(c.push() for c in list(self._connections)) > 0 and time.monotonic() < deadline:
            time.sleep(0.01)
