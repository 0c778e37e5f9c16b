"""The warm Spark drivers of a home, seen from a worker: started when first needed, found again by the next worker.

    HOME/drivers/<digest>-<n>/    one driver: spec.json (0600), status.json, log, tmp/

A driver is started with its listening socket made already, so a connection waits instead of failing while Spark comes
up. Drivers whose digest is not that of today's settings finish what they have and get nothing new.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tidegate.domain.errors import Refused, Unavailable
from tidegate.domain.instants import SECOND
from tidegate.launchers.attempts import WITHHELD
from tidegate.launchers.places import write_private
from tidegate.launchers.processes import ProcessRef, alive, send
from tidegate.ports.spark import SPEC, STATUS, DriverSpec

PROGRAM = "tidegate.pipeline.driver"
_SOCKET_LIMIT = 100
ANSWER = 5.0
"""Seconds that a driver may take to say how it is."""
HELLO = 30.0
"""Seconds that one may take to answer for the first time; Spark comes up only after that."""
_KEPT = 3
"""So many folders of ended drivers stay, for their logs."""


log = logging.getLogger(__name__)


class Link:
    """A worker's connection to one driver."""

    def __init__(self, folder: Path, on_event: Callable[[dict[str, Any]], None], on_end: Callable[[], None]) -> None:
        self.folder = folder
        self.alive = False
        self._on_event = on_event
        self._on_end = on_end
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._listener: asyncio.Task[None] | None = None
        self.child = 0
        """Its pid when this worker started it: then it has to be reaped here."""
        self.silent = 0.0
        """For how many seconds it was waited for since it last answered. Time in which nobody asked does not count:
        a worker that was frozen itself must not take its drivers for hung."""

    @property
    def digest(self) -> str:
        return self.folder.name.partition("-")[0]

    @property
    def pid(self) -> int:
        return self.child or read_status(self.folder).get("pid", 0)

    async def connect(self) -> None:
        """Raises OSError when there is no driver behind the socket."""
        path = socket_path(self.folder)
        reader, self._writer = await asyncio.open_unix_connection(path, limit=1 << 24)
        self.alive = True
        self._listener = asyncio.create_task(self._listen(reader))
        await self.call("hello")

    async def call(self, op: str, **given: Any) -> dict[str, Any]:
        """The driver's answer. Raises ConnectionError when it is gone before it answers."""
        if not self.alive or self._writer is None:
            raise ConnectionError("the driver is gone")
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._writer.write(json.dumps({"id": number, "op": op, **given}).encode() + b"\n")
            await self._writer.drain()
            return dict(await answer)
        finally:
            self._waiting.pop(number, None)
            if answer.done() and not answer.cancelled():
                answer.exception()  # of one that is gone before it was asked: heard of already

    async def load(self) -> int:
        """How many attempts it has. Raises ConnectionError when it is gone or does not answer in time."""
        try:
            answer = await asyncio.wait_for(self.call("load"), ANSWER)
        except TimeoutError:
            self.silent += ANSWER
            raise ConnectionError("the driver does not answer") from None
        self.silent = 0.0
        return int(answer["attempts"])

    def tell(self, op: str, **given: Any) -> None:
        """Without waiting for its answer, which may never come."""
        if self.alive and self._writer is not None:
            self._writer.write(json.dumps({"id": 0, "op": op, **given}).encode() + b"\n")

    def kill(self) -> bool:
        """It hangs: end it with its JVM, which is in its session. Whether it was there."""
        ref = _driver(self.folder)
        if ref is None or not alive(ref):
            return False
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(ref.pid, signal.SIGKILL)
        return True

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                message = json.loads(line)
                if "event" in message:
                    self._on_event(message)
                elif (waiting := self._waiting.get(message["id"])) is not None and not waiting.done():
                    waiting.set_result(message)
        except (OSError, ValueError):
            pass
        finally:
            self.alive = False
            if self._writer is not None:
                self._writer.close()
            self._reap_later()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError("the driver is gone"))
            self._on_end()

    async def close(self) -> None:
        """Let go; the driver goes on."""
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)
        if self._writer is not None:
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()

    async def discard(self) -> None:
        """End a driver that this worker has started and has not begun to use."""
        if self.child:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.child, signal.SIGKILL)
        await self.close()
        self._reap_later()

    def _reap_later(self) -> None:
        for later in (0.2, 2.0, 20.0):  # the connection ends a moment before the process does
            asyncio.get_running_loop().call_later(later, self.reap)

    def reap(self) -> None:
        if self.child:
            with suppress(ChildProcessError):
                os.waitpid(self.child, os.WNOHANG)


class Drivers:
    """All drivers that this worker knows."""

    def __init__(
        self,
        home: Path,
        spec: DriverSpec,
        environment: Mapping[str, str],
        on_event: Callable[[dict[str, Any]], None],
        on_end: Callable[[], None],
    ) -> None:
        self.root = home / "drivers"
        self.spec = spec
        self._environment = environment
        self._on_event = on_event
        self._on_end = on_end
        self._links: list[Link] = []
        self._starting = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Find the drivers that run, and write down what processes of their own build their session from."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(str(self.root / SPEC), self.spec.dump())
        for folder in sorted(self.root.glob("*-*/")):
            link = Link(folder, self._on_event, self._on_end)
            try:
                await asyncio.wait_for(link.connect(), 5)
            except (OSError, TimeoutError):
                await link.close()
                continue
            self._links.append(link)
        await asyncio.to_thread(self._sweep)
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """Ask every driver again and again how it is; kill one that has been silent for too long."""
        patience = self.spec.settings.patience / SECOND
        while True:
            if not any(link.silent for link in self._links if link.alive):
                await asyncio.sleep(ANSWER)
            await asyncio.sleep(0.1)
            for link in [link for link in self._links if link.alive]:
                with suppress(ConnectionError):
                    await link.load()
                if link.silent >= patience and link.kill():
                    log.error("the Spark driver %s did not answer for %.0f s: killed", link.folder.name, link.silent)

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        for link in self._links:
            await link.close()
        self._links.clear()

    def by_pid(self, pid: int) -> Link | None:
        return next((link for link in self._links if link.alive and link.pid == pid), None)

    async def obtain(self) -> Link:
        """A driver that takes attempts: the one with the fewest, or a new one. Raises Refused or Unavailable."""
        async with self._starting:
            for link in [link for link in self._links if not link.alive]:
                link.reap()
                self._links.remove(link)
            fit = [link for link in self._links if link.digest == self.spec.digest and not link.silent]
            loads: list[tuple[int, Link]] = []
            for link in fit:
                with suppress(ConnectionError):
                    loads.append((await link.load(), link))
            loads.sort(key=lambda pair: pair[0])
            settings = self.spec.settings
            full = loads and loads[0][0] >= settings.attempts_per_driver and len(loads) < settings.drivers
            return loads[0][1] if loads and not full else await self._start()

    async def _start(self) -> Link:
        folder = self.root / f"{self.spec.digest}-{secrets.token_hex(4)}"
        link = Link(folder, self._on_event, self._on_end)
        try:
            link.child = self._spawn(folder)  # in no thread: who is cancelled meanwhile has to know whom to end
            await asyncio.wait_for(link.connect(), HELLO)
        except BaseException as fault:
            await link.discard()
            if isinstance(fault, TimeoutError):
                said = f"The Spark driver gave no sign of life in {HELLO:.0f} s; see {folder / 'log'}."
                raise Unavailable(said) from None
            if isinstance(fault, OSError):
                raise Refused(f"A Spark driver cannot be started: {fault}.", code="spark.driver") from fault
            raise
        self._links.append(link)
        return link

    def _spawn(self, folder: Path) -> int:
        folder.mkdir(mode=0o700)
        write_private(str(folder / SPEC), self.spec.dump())
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(socket_path(folder))
        os.chmod(socket_path(folder), 0o600)
        listener.listen(64)
        output = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        environment = {name: value for name, value in self._environment.items() if name not in WITHHELD}
        # Programs' modules are looked for where the worker runs; Spark's Python workers must find them too.
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (os.getcwd(), environment.get("PYTHONPATH"))))
        argv = [sys.executable, "-m", PROGRAM, str(folder)]
        argv += ["--spec", str(folder / SPEC), "--listen", "3"]
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, output, 2),
            (os.POSIX_SPAWN_DUP2, listener.fileno(), 3),
        ]
        try:
            return os.posix_spawn(sys.executable, argv, environment, file_actions=actions, setsid=True)
        finally:
            listener.close()
            os.close(output)

    def _sweep(self) -> None:
        """Remove what ended drivers left; the newest few keep their log."""
        known = {link.folder for link in self._links}
        ended = [folder for folder in self.root.glob("*-*/") if folder not in known and not _lives(folder)]
        ended.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
        for number, folder in enumerate(ended):
            Path(socket_path(folder)).unlink(missing_ok=True)
            shutil.rmtree(folder if number >= _KEPT else folder / "tmp", ignore_errors=True)
            (folder / "spark.properties").unlink(missing_ok=True)


def end_drivers(home: Path, *, patience: float = 10.0) -> int:
    """End every driver of a home, politely and then by force; how many there were. For those who shut a home down."""
    found = [ref for folder in (home / "drivers").glob("*-*/") if (ref := _driver(folder)) is not None and alive(ref)]
    for ref in found:
        send(ref, signal.SIGTERM)
    deadline = time.monotonic() + patience
    while any(alive(ref) for ref in found) and time.monotonic() < deadline:
        time.sleep(0.05)
    for ref in found:
        send(ref, signal.SIGKILL)
    return len(found)


def read_status(folder: Path) -> dict[str, Any]:
    """What a driver last said of itself; empty when it never did."""
    try:
        status: dict[str, Any] = json.loads((folder / STATUS).read_text())
    except (OSError, ValueError):
        return {}
    return status


def socket_path(folder: Path) -> str:
    """Where a driver listens: in its folder, or in the temporary one when the path is too long for a Unix socket."""
    path = str(folder / "socket")
    if len(os.fsencode(path)) <= _SOCKET_LIMIT:
        return path
    private = Path(tempfile.gettempdir()) / f"tidegate-{os.getuid()}"
    private.mkdir(mode=0o700, exist_ok=True)
    found = private.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077 or private.is_symlink():
        raise Refused(f"{private} belongs to somebody else or is open to others.", remedy="Choose a shorter home.")
    return str(private / hashlib.sha256(os.fsencode(path)).hexdigest()[:24])


def _driver(folder: Path) -> ProcessRef | None:
    status = read_status(folder)
    if "pid" in status:
        return ProcessRef(status["boot"], status["pid"], status["start"])
    return None


def _lives(folder: Path) -> bool:
    ref = _driver(folder)
    if ref is not None:
        return alive(ref)
    # It may be about to write its first status: what is new is left alone.
    return time.time_ns() / 1e9 - folder.stat().st_mtime < 30
