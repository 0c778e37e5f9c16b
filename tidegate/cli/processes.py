"""The children of `tidegate up`: one process per role, started, watched, started again, ended.

Who dies with whom: a child dies with its parent, also when the parent is killed with SIGKILL, since nobody would be
left to end it: on Linux the kernel sees to it (PR_SET_PDEATHSIG), elsewhere the end of its standard input does. What a
child starts for users (attempts, warm drivers) is in sessions of its own and is adopted by the next worker instead.

A child that ends without being asked is started again: at once when it had lived for a while, else after a pause that
doubles up to ten seconds, each time with a line that says so.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

SETTLED = 20.0  # seconds after which a child counts as having started well
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 10.0
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a child is started."""

    name: str
    argv: tuple[str, ...]
    environ: Mapping[str, str]
    pass_fds: tuple[int, ...] = ()


class Child:
    """One role's process, over all its lives."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self._started = 0.0
        self._pause = 0.0
        self._due = 0.0  # monotonic instant of the next start

    @property
    def name(self) -> str:
        return self.recipe.name

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    def start(self) -> None:
        """Start it. Raises OSError when the machine has no process left to give."""
        self.process = subprocess.Popen(
            self.recipe.argv,
            stdin=subprocess.PIPE,  # its end of file tells the child that we are gone
            env=dict(self.recipe.environ),
            pass_fds=self.recipe.pass_fds,
            start_new_session=True,  # Ctrl-C is for the parent, which ends the others in order
        )
        self._started = time.monotonic()
        self.starts += 1

    def ended(self) -> int | None:
        """Its exit status if it has ended and that was not known yet; decides when it starts again."""
        if self.process is None or (status := self.process.poll()) is None:
            return None
        self._let_go()
        settled = time.monotonic() - self._started > SETTLED
        self._pause = 0.0 if settled else min(LONGEST_PAUSE, max(FIRST_PAUSE, self._pause * 2))
        self._due = time.monotonic() + self._pause
        return status

    @property
    def pause(self) -> float:
        """Seconds between its last end and its next start."""
        return self._pause

    @property
    def wait(self) -> float:
        """Seconds until it is to be started again; 0 when it is due."""
        return max(0.0, self._due - time.monotonic())

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def join(self, seconds: float) -> bool:
        """Wait until it has ended; False when it has not."""
        if self.process is None:
            return True
        try:
            self.process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        self._let_go()
        return True

    def _let_go(self) -> None:
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
        self.process = None


class Tree:
    """All children together."""

    def __init__(self, recipes: Sequence[Recipe], say: Callable[[str], None]) -> None:
        self.children = [Child(recipe) for recipe in recipes]
        self._say = say

    def __getitem__(self, name: str) -> Child:
        return next(child for child in self.children if child.name == name)

    def tend(self) -> float:
        """Reap what ended, start what is due; seconds until something is due again."""
        soonest = LONGEST_PAUSE
        for child in self.children:
            if (status := child.ended()) is not None:
                again = f"again in {child.pause:.2g} s" if child.pause else "again now"
                self._say(f"{child.name} ended unasked ({_in_words(status)}); starting it {again}")
            if child.process is None:
                if child.wait:
                    soonest = min(soonest, child.wait)
                else:
                    child.start()
        return soonest

    def stop(self, names: Collection[str], seconds: float) -> list[str]:
        """Ask these to end and wait; names of those that had to be killed."""
        chosen = [child for child in self.children if child.name in names]
        for child in chosen:
            child.signal(signal.SIGTERM)
        deadline = time.monotonic() + seconds
        stubborn = [child for child in chosen if not child.join(deadline - time.monotonic())]
        for child in stubborn:
            child.signal(signal.SIGKILL)
            child.join(5.0)
        return [child.name for child in stubborn]


def _in_words(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


# ── signals of the parent ──────────────────────────────────────────────────────────────────────────────────────────


class Signals:
    """What the parent was asked, and a sleep that any signal ends."""

    def __init__(self) -> None:
        self.asked: signal.Signals | None = None
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    @contextmanager
    def installed(self) -> Iterator[Signals]:
        """While inside: SIGTERM, SIGINT and SIGHUP ask to end, SIGCHLD wakes. Main thread only."""
        numbers = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD]
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # under nohup
            numbers.remove(signal.SIGHUP)
        before = {number: signal.getsignal(number) for number in numbers}
        wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        try:
            for number in numbers:
                signal.signal(number, self._note)
            yield self
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._reader.close()
            self._writer.close()

    def _note(self, number: int, frame: object) -> None:
        if number != signal.SIGCHLD and self.asked is None:
            self.asked = signal.Signals(number)

    def sleep(self, seconds: float) -> None:
        """Until a signal comes, at most so long."""
        readable, _, _ = select.select([self._reader], [], [], seconds)
        if readable:
            self._reader.recv(4096)


# ── the child's side ───────────────────────────────────────────────────────────────────────────────────────────────


def die_with(parent: int) -> None:
    """Called first of all in a child: from now on it does not outlive `parent`."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before we could ask
        os._exit(1)
    threading.Thread(target=_watch_input, name="parent-watch", daemon=True).start()


def _watch_input() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)
