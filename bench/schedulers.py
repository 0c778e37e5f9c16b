"""Schedulers that are there in a moment: processes of their own, forked from one that has imported everything.

Each is what `tidegate scheduler` runs, with connections, a registration and a death of its own. Importing takes seconds
of CPU, which a benchmark that kills hundreds of them would measure instead.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from time import monotonic, sleep

import psycopg

from bench.ground import Ground
from tidegate import wiring
from tidegate.cli.roles import configure_logging
from tidegate.settings import Settings, load

COMES_UP = 60.0


class Schedulers:
    """Starts them, and waits for those it has started."""

    def __init__(self, place: Ground) -> None:
        self._place = place
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__])
        self.running: list[BaseProcess] = []

    def start(self, count: int = 1) -> None:
        """Begin so many more; `ready` waits for them."""
        for _ in range(count):
            one = self._context.Process(target=_schedule, args=(str(self._place.home), self._place.url), daemon=True)
            one.start()
            self.running.append(one)

    def ready(self) -> None:
        """Until all of them are registered. Raises RuntimeError when one does not come up."""
        deadline = monotonic() + COMES_UP
        wanted = {one.pid for one in self.running}
        question = "SELECT pid FROM instance WHERE role = 'scheduler' AND ended_at IS NULL"
        with psycopg.connect(self._place.url, autocommit=True) as connection:
            while not wanted <= {pid for (pid,) in connection.execute(question)}:
                if monotonic() > deadline or not all(one.is_alive() for one in self.running):
                    raise RuntimeError(f"a scheduler did not come up; see {self._place.home}/schedulers.log")
                sleep(0.02)

    def kill(self, one: BaseProcess) -> None:
        """As `kill -9` does."""
        one.kill()
        self.running.remove(one)
        one.join()

    def leave(self, one: BaseProcess) -> None:
        """Ask one to leave, and wait for it."""
        one.terminate()
        self.running.remove(one)
        one.join(20)

    def end(self) -> None:
        for one in self.running:
            if one.pid is not None:
                os.kill(one.pid, signal.SIGCONT)
                one.terminate()
        for one in self.running:
            one.join(20)
            if one.is_alive():
                one.kill()
                one.join()
        self.running.clear()


@contextmanager
def schedulers(place: Ground, count: int) -> Iterator[Schedulers]:
    """So many while inside, registered."""
    found = Schedulers(place)
    try:
        found.start(count)
        found.ready()
        yield found
    finally:
        found.end()


def _schedule(home: str, url: str) -> None:
    """What `tidegate scheduler` does, for as long as the benchmark lives."""
    log = os.open(f"{home}/schedulers.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    settings = load(environ={**os.environ, "TIDEGATE_HOME": home, "TIDEGATE_DATABASE_URL": url})
    configure_logging("scheduler", settings.log)
    asyncio.run(_until_asked(settings))


async def _until_asked(settings: Settings) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await wiring.run_scheduler(settings, stop)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
