"""`tidegate up`: scheduler, worker and API in one process tree, with a database of its own.

The parent does no work itself. It holds the home's lock, the embedded PostgreSQL and the listening socket (so that the
port stays ours while the API is started again), and looks after one child per role. What if it dies: the children die
with it, the database shuts down by itself, and what ran goes on and is adopted by the next `up`.
"""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from tidegate.cli import output
from tidegate.cli.options import Home
from tidegate.cli.processes import Recipe, Signals, Tree
from tidegate.domain.errors import Refused, TidegateError
from tidegate.domain.instants import SECOND

if TYPE_CHECKING:
    import psutil

    from tidegate.settings import Settings
    from tidegate.wiring import EmbeddedServer

MARK = "TIDEGATE_TREE"
"""In the environment of everything that an `up` starts, directly or not: which home it belongs to."""
SLOW_START = 30.0  # seconds after which we say what is missing
STOPPING = 10.0  # seconds that the worker may take beyond the time its attempts have
TICK = 1.0


def up(
    home: Home = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on. [default: 127.0.0.1]")] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Port to listen on. [default: 7420]")
    ] = None,
) -> None:
    """Run scheduler, worker and API on this machine, until Ctrl-C or SIGTERM."""
    from tidegate import settings as configuration
    from tidegate import wiring

    settings = configuration.load(home=home, flags={"api": {"host": host, "port": port}})
    refuse_beyond_loopback(settings.api.host)
    with ExitStack() as stack:
        lock = stack.enter_context(wiring.take_home(settings.home))
        listener = stack.enter_context(listen(settings.api.host, settings.api.port))
        signals = stack.enter_context(Signals().installed())
        Up(settings, lock.path, listener, signals).run()


def refuse_beyond_loopback(host: str) -> None:
    """Raises Refused for an address that other machines can reach."""
    from tidegate.settings import is_loopback

    if not is_loopback(host):
        raise Refused(
            f"Tidegate does not listen on {host!r}: without authentication it speaks to this machine only.",
            remedy="Choose a loopback address such as 127.0.0.1, and put a proxy that authenticates before it.",
            code="loopback",
        )


def listen(host: str, port: int) -> socket.socket:
    """The listening socket. Raises Refused, naming the remedy, when somebody else has the port."""
    name = host.strip("[]")
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or asyncio leaves Nagle on
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((name, port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        raise Refused(
            f"Port {port} of {host} cannot be had: {error.strerror or error}.",
            remedy="Something else listens there; choose another with --port, or stop it.",
            code="port_in_use",
        ) from None
    return listener


class Up:
    """One life of the whole tree."""

    def __init__(self, settings: Settings, home: Path, listener: socket.socket, signals: Signals) -> None:
        self.settings = settings
        self.home = home
        self.listener = listener
        self.signals = signals
        host, port = listener.getsockname()[:2]
        self.address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self.server: EmbeddedServer | None = None

    def run(self) -> None:
        """Until somebody asks to end. Whatever happens, nothing stays behind."""
        tree: Tree | None = None
        try:
            url = self._database()
            if self.signals.asked:
                return
            tree = Tree(self._recipes(url), self._say)
            tree.tend()
            self._watch(tree)
        finally:
            if tree is not None:
                self._stop(tree)
            if self.server is not None:
                self.server.stop()
            if tree is not None:
                self._say("stopped; nothing is left running")

    # ── coming up ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _database(self) -> str:
        """Its URL, once it answers and its schema is ours."""
        from tidegate import wiring

        url = self.settings.database.url
        if not url:
            self._say(f"home {self.home}")
            self._say("starting the embedded PostgreSQL")
            self.server = wiring.embedded_server(self.home)
            url = self.server.start()
        else:
            self._say(f"home {self.home}, database {wiring.without_password(url)}")
        for step in wiring.upgrade(url):
            self._say(f"schema upgraded: {step}")
        return url

    def _recipes(self, url: str) -> list[Recipe]:
        mark = {MARK: mark_of(self.home)}
        environ = {**os.environ, "TIDEGATE_HOME": str(self.home), "TIDEGATE_DATABASE_URL": url, **mark}
        environ["TIDEGATE_URL"] = self.address  # for programs that use the doors
        environ.pop("TIDEGATE_DATABASE__URL", None)

        def recipe(role: str, *more: str, fds: tuple[int, ...] = ()) -> Recipe:
            argv = (sys.executable, "-m", "tidegate.cli.main", role, "--home", str(self.home))
            return Recipe(role, (*argv, "--child-of", str(os.getpid()), *more), environ, fds)

        fd = self.listener.fileno()
        return [
            recipe("scheduler"),
            recipe("worker", "--end-attempts"),
            recipe("api", "--fd", str(fd), fds=(fd,)),
        ]

    # ── running ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _watch(self, tree: Tree) -> None:
        began, ready, warned = time.monotonic(), False, False
        while self.signals.asked is None:
            soon = tree.tend()
            self._keep_database()
            if not ready:
                missing = self._missing()
                ready = missing is not None and not missing
                waited = time.monotonic() - began
                if ready:
                    self._welcome(tree, waited)
                elif waited > SLOW_START and not warned:
                    warned = True
                    self._say(f"not ready yet: {'; '.join(missing or ['the API does not answer'])}")
            self.signals.sleep(min(soon, TICK if ready else 0.1))

    def _keep_database(self) -> None:
        """An embedded database that died is started again; the roles find it by themselves."""
        if self.server is None or self.server.running:
            return
        self._say("the embedded PostgreSQL ended unasked; starting it again")
        try:
            self.server.start()
        except TidegateError as error:
            self._say(str(error))
            self.signals.sleep(2.0)

    def _missing(self) -> list[str] | None:
        """What /readyz misses; None when it does not answer."""
        import httpx

        try:
            answer = httpx.get(f"{self.address}/readyz", timeout=2.0, trust_env=False)
            return [] if answer.status_code == 200 else [one["reason"] for one in answer.json().get("errors", ())]
        except (httpx.HTTPError, ValueError, KeyError):
            return None

    def _welcome(self, tree: Tree, waited: float) -> None:
        pids = ", ".join(f"{child.name} {child.pid}" for child in tree.children)
        database = "embedded PostgreSQL" if self.server is not None else "PostgreSQL"
        self._say(f"{database}, {pids} are up after {waited:.1f} s")
        output.err().print(Text(f"Tidegate is ready at {self.address}  (Ctrl-C stops it)", style="bold green"))

    # ── ending ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _stop(self, tree: Tree) -> None:
        """Scheduler first, so that nothing new starts; then the worker, with its attempts; the API last."""
        asked = self.signals.asked.name if self.signals.asked else "an error"
        span = self.settings.worker.shutdown / SECOND
        self._say(f"stopping ({asked}): attempts have {span:g} s to end")
        tree["scheduler"].signal(signal.SIGTERM)
        tree["worker"].signal(signal.SIGTERM)
        stubborn = tree.stop({"worker"}, span + STOPPING) + tree.stop({"scheduler", "api"}, 3.0)
        for name in stubborn:
            self._say(f"{name} did not end in time and was killed")
        for name in end_leftovers(self.home):
            self._say(f"ended what was left: {name}")

    def _say(self, text: str) -> None:
        output.note(f"tidegate: {text}")


def mark_of(home: Path) -> str:
    """The value of MARK for a home."""
    return hashlib.sha256(os.fsencode(home)).hexdigest()[:16]


def end_leftovers(home: Path) -> list[str]:
    """Kill what carries the mark of this home and still lives, e.g. attempts of a worker that was killed."""
    import psutil

    mark = mark_of(home)
    left = [process for process in psutil.process_iter() if process.pid != os.getpid() and _environ(process) == mark]
    names = []
    for process in left:
        try:
            names.append(f"{process.name()} (pid {process.pid})")
            process.kill()
        except psutil.Error:
            continue
    psutil.wait_procs(left, timeout=3.0)
    return names


def _environ(process: psutil.Process) -> str | None:
    import psutil

    try:
        environ: Mapping[str, str] = process.environ()
    except (psutil.Error, OSError):
        return None
    return environ.get(MARK)
