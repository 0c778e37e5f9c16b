"""Python functions in pooled processes that outlive the worker.

The worker keeps one queue; a host (`launchers.python_host`) is given orders ahead only as fast as it proves to be:
the window of one that ends them quickly doubles, that of one whose function takes long shrinks to the one it runs,
and what it was given beyond that is called back. So thousands of small functions a second travel in a few frames, and
a small one never waits behind a long one while another host is free. Hosts are added when no host gets on, up to
`processes`.

What if the worker dies here? Orders it had not sent never began, and a seal makes sure of it. Those it had sent are
run, and their ends kept, by hosts that do not care; the next worker finds them by identity (`seal`). What if a host
dies? Its journal says what it was running: that one has crashed. The others had not begun and go to another host.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.domain.errors import Fenced, LaunchRefused
from tidegate.domain.ids import AttemptKey
from tidegate.domain.programs import Python
from tidegate.launchers import pool_journal, shim
from tidegate.launchers.attempts import Attempts, extra_environment, refuse
from tidegate.launchers.context import about
from tidegate.launchers.places import attempt_directory
from tidegate.launchers.pool_link import WINDOW_MOST, Link, spawn
from tidegate.launchers.pool_search import Search
from tidegate.launchers.processes import alive, kill_tree, monotonic_us, send
from tidegate.ports.launching import Launch, Phase, Report, StopHow

TICK = 0.02
"""Seconds without an end after which a host counts as busy with something long."""
KILL_WITHIN = 1.0
"""Seconds for a host to end itself before the worker does it."""
STILLBORN_MOST = 3
"""Hosts that may die without a word, one after the other, before their orders are given up."""


@dataclass(slots=True)
class Track:
    """What is known of one attempt. `order` until it has begun; `link` is the host it was given to."""

    attempt: AttemptKey
    identity: str
    order: list[Any] | None
    link: Link | None = None
    phase: Phase = Phase.STARTING
    outcome: str | None = None
    error: Mapping[str, Any] | None = None
    at: int = 0
    stopped: bool = False

    def end(self, outcome: str, error: Mapping[str, Any] | None, at: int) -> None:
        self.phase, self.outcome, self.error, self.at, self.order = Phase.FINISHED, outcome, error, at, None

    def report(self, now: int) -> Report:
        return Report(
            attempt=self.attempt,
            phase=self.phase,
            backend_id=f"pool {self.link.ref.pid}" if self.link is not None else "pool",
            outcome=self.outcome,
            error=self.error,
            ago=max(0, now - self.at) if self.at else 0,
        )


class PythonPoolLauncher:
    """Programs of kind `python`, in at most `processes` processes."""

    kinds = frozenset({"python"})

    def __init__(self, home: Path, processes: int = 4, environment: Mapping[str, str] | None = None) -> None:
        """`environment` is where `env:NAME` is looked up (default: this process's)."""
        self.on_change: Callable[[], None] = lambda: None
        self._home = str(home)
        self._pools = home / "pools"
        self._attempts = Attempts(home)
        self._processes = processes
        self._environment = os.environ if environment is None else environment
        self._tracks: dict[str, Track] = {}
        self._keys: dict[AttemptKey, Track] = {}
        """The same tracks, so that a poll need not write an identity for every attempt (5 us each)."""
        self._queue: deque[str] = deque()
        self._links: list[Link] = []
        self._search = Search(self._pools, self._links, self._connect)
        self._tasks: set[asyncio.Task[None]] = set()
        self._soon = False
        self._ticking: asyncio.TimerHandle | None = None
        self._stillborn = 0

    # ── the port ──

    async def open(self) -> None:
        await self._search.look()

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._ticking is not None:
            self._ticking.cancel()
        for link in list(self._links):
            link.flush()
            link.close()
        self._links.clear()

    async def end_hosts(self, patience: float = 5.0) -> None:
        """End the pool: every host as soon as it runs nothing, by force after `patience` seconds."""
        links = list(self._links)
        for link in links:
            link.retiring = True
            link.say("quit")
            link.flush()
        deadline = monotonic_us() + int(patience * 1e6)
        while any(alive(link.ref) for link in links) and monotonic_us() < deadline:
            await asyncio.sleep(0.02)
        for link in links:
            if alive(link.ref):
                await asyncio.to_thread(_end_by_force, link)

    async def start(self, launch: Launch) -> str:
        if launch.attempt in self._keys:
            return "pool"
        identity = launch.attempt.identity
        if os.path.exists(f"{attempt_directory(self._home, identity)}/{shim.CLAIM}"):
            raise Fenced(f"Attempt {identity} was sealed: another worker found that it had not started.")
        track = Track(launch.attempt, identity, self._order(launch, identity))
        self._tracks[identity] = self._keys[launch.attempt] = track
        self._queue.append(identity)
        self._distribute_soon()
        return "pool"

    def _order(self, launch: Launch, identity: str) -> list[Any]:
        spec = launch.program.spec
        assert isinstance(spec, Python)
        environment = extra_environment(launch, self._environment) if spec.environment else {}
        return ["start", identity, spec.entry, launch.arguments, environment, about(launch)]

    async def seal(self, launch: Launch) -> Report | None:
        identity = launch.attempt.identity
        if identity not in self._tracks:
            if (state := await self._search.find(identity)) is None:
                # The seal first, the question second: see python_host for why none can slip through in between.
                self._attempts.seal(identity)
                state = await self._search.find(identity)
                if state is None:
                    return None
                self._unseal(identity)
            self._adopt(launch.attempt, state)
        return self._tracks[identity].report(monotonic_us())

    def _adopt(self, attempt: AttemptKey, state: tuple[Link | None, Any]) -> None:
        link, told = state
        track = self._tracks[attempt.identity] = self._keys[attempt] = Track(attempt, attempt.identity, None, link)
        match told:
            case "running":
                track.phase = Phase.RUNNING
            case "queued":
                pass
            case "gone":
                track.phase = Phase.GONE
            case "silent":
                self._ask_again(track)
            case [outcome, error, at]:
                track.end(outcome, error, at)
        if link is not None and track.phase in (Phase.RUNNING, Phase.STARTING):
            link.given[attempt.identity] = track.phase is Phase.RUNNING

    def _ask_again(self, track: Track) -> None:
        """A host is alive and does not answer: whether it has this attempt is not known yet, so nothing is said."""

        async def ask() -> None:
            identity = track.attempt.identity
            while (state := await self._search.find(identity)) is not None and state[1] == "silent":
                await asyncio.sleep(1)
            if state is None:
                track.end("lost", _error("lost", "It had not begun; it is sealed now."), monotonic_us())
            else:
                self._unseal(identity)
                self._adopt(track.attempt, state)
            self.on_change()

        self._spawn(ask())

    def _unseal(self, identity: str) -> None:
        directory = attempt_directory(self._home, identity)
        with contextlib.suppress(OSError):
            os.unlink(f"{directory}/{shim.CLAIM}")
            os.rmdir(directory)

    async def poll(self, attempts: Sequence[AttemptKey]) -> Sequence[Report]:
        now = monotonic_us()
        tracks = self._keys
        return [tracks[attempt].report(now) for attempt in attempts if attempt in tracks]

    async def stop(self, attempt: AttemptKey, how: StopHow) -> None:
        track = self._tracks.get(attempt.identity)
        if track is None or track.phase in (Phase.FINISHED, Phase.GONE):
            return
        track.stopped = True
        if track.link is None:
            with contextlib.suppress(ValueError):
                self._queue.remove(attempt.identity)
                track.end("cancelled", _error("program.stopped", "Stopped before it began."), monotonic_us())
                self.on_change()
            return
        match how:
            case StopHow.POLITE:
                track.link.say("stop", attempt.identity)
            case StopHow.KILL:
                track.link.say("kill", attempt.identity)
                self._spawn(self._force(track, track.link))
        track.link.flush()

    async def forget(self, attempts: Sequence[AttemptKey]) -> None:
        by_link: dict[Link, list[str]] = {}
        for attempt in attempts:
            track = self._keys.pop(attempt, None)
            if track is None:
                continue
            del self._tracks[track.identity]
            if track.link is not None:
                by_link.setdefault(track.link, []).append(track.identity)
            self._search.forget(track.identity)
        for link, identities in by_link.items():
            link.say("forget", identities)
        self._distribute_soon()

    # ── giving out ──

    def _distribute_soon(self) -> None:
        """Once per turn of the loop, however many starts there were in it."""
        if not self._soon:
            self._soon = True
            asyncio.get_running_loop().call_soon(self._distribute)

    def _distribute(self) -> None:
        self._soon = False
        usable = [link for link in self._links if not link.retiring]
        if self._queue and not usable:
            self._grow()
            usable = [link for link in self._links if not link.retiring]
        while self._queue and (link := min(usable, key=_load, default=None)) is not None and link.free > 0:
            # a few at a time, so that the load stays even without looking at every host for every order
            for _ in range(min(len(self._queue), max(1, link.free // 2))):
                self._give(link, self._queue.popleft())
        for link in self._links:
            link.flush()
        if self._ticking is None and (self._queue or any(len(link.given) > 1 for link in usable)):
            self._ticking = asyncio.get_running_loop().call_later(TICK, self._tick)

    def _give(self, link: Link, identity: str) -> None:
        track = self._tracks.get(identity)
        if track is None or track.order is None:
            return
        track.link = link
        link.given[identity] = False
        link.say(*track.order)

    def _tick(self) -> None:
        """See who gets on, call back what waits behind something long, add a host where nobody does."""
        self._ticking = None
        usable = [link for link in self._links if not link.retiring]
        moving = 0
        for link in usable:
            moving += link.done_lately
            if link.done_lately == 0 and link.said_hello and len(link.given) > 1:
                link.window = 1
                link.say("recall")
            link.done_lately = 0
        if self._queue and moving < 20 and all(link.free <= 0 for link in usable):
            for _ in range(min(2, len(self._queue), self._processes - len(usable))):
                self._grow()
        self._distribute()

    def _grow(self) -> None:
        if self._stillborn >= STILLBORN_MOST:
            self._give_up()
            return
        try:
            link = spawn(self._pools)
        except OSError as error:
            self._fail_queued(_error(*_why(error, self._pools)))
            return
        self._connect(link)

    def _give_up(self) -> None:
        """Hosts do not even come up: say so instead of trying for ever; a later attempt tries again."""
        self._stillborn = 0
        message = "The processes for Python functions end as soon as they are started; pools/*/host.log says why."
        self._fail_queued(_error("python.host", message))

    def _fail_queued(self, error: Mapping[str, Any]) -> None:
        while self._queue:
            if (track := self._tracks.get(self._queue.popleft())) is not None:
                track.end("lost", error, monotonic_us())
        self.on_change()

    # ── hearing ──

    def _connect(self, link: Link) -> None:
        link.on_message, link.on_news, link.on_death = self._hear, self._heard, self._died
        self._links.append(link)
        link.open()

    def _hear(self, link: Link, message: list[Any]) -> None:
        match message:
            case ["began", identity]:
                if (track := self._tracks.get(identity)) is not None and track.phase is Phase.STARTING:
                    track.phase, track.order = Phase.RUNNING, None
                    link.given[identity] = True
            case ["done", identity, outcome, error, at]:
                link.given.pop(identity, None)
                link.done_lately += 1
                if link.done_lately > link.window:
                    link.window = min(2 * link.window, WINDOW_MOST)
                if (track := self._tracks.get(identity)) is not None:
                    track.end(outcome, error, at)
            case ["returned", identities]:
                self._take_back(link, identities)
            case ["sealed", identity]:
                link.given.pop(identity, None)
                if (track := self._tracks.get(identity)) is not None:
                    track.end("lost", _error("fenced", "It was sealed by another worker."), monotonic_us())
            case ["found", token, states]:
                self._search.answer(token, link, states)
            case ["retiring"]:
                link.retiring = True
            case ["hello"]:
                link.said_hello, self._stillborn = True, 0

    def _heard(self) -> None:
        self._distribute()
        self.on_change()

    def _take_back(self, link: Link, identities: Sequence[str]) -> None:
        """They have not begun: to the head of the queue, in their order."""
        for identity in reversed(identities):
            link.given.pop(identity, None)
            track = self._tracks.get(identity)
            if track is None:
                continue
            track.link = None
            if track.stopped:
                track.end("cancelled", _error("program.stopped", "Stopped before it began."), monotonic_us())
            elif track.order is not None:
                self._queue.appendleft(identity)
            else:  # adopted from another worker: only that one had the order
                track.end("lost", _error("lost", "It was queued and has not begun."), monotonic_us())

    def _died(self, link: Link) -> None:
        self._links.remove(link)
        if not link.said_hello:
            self._stillborn += 1
        self._spawn(self._bury(link))

    async def _bury(self, link: Link) -> None:
        """Nothing that it started may go on; then its journal says what became of what it was given."""
        await asyncio.to_thread(kill_tree, link.ref)
        await link.reap()
        found = pool_journal.read(str(link.directory))
        back = []
        for identity in link.given:
            if (track := self._tracks.get(identity)) is None or track.link is not link:
                continue
            if identity in found.finished:
                track.end(*found.finished[identity])
            elif identity in found.killed:
                track.end("cancelled", _error("program.stopped", "Ended by force."), monotonic_us())
            elif identity in found.running:
                track.phase, track.at = Phase.GONE, monotonic_us()
            else:
                back.append(identity)
        self._take_back(link, back)
        self._search.bury(link.directory, found, mine=self._tracks.keys())
        self._distribute()
        self.on_change()

    async def _force(self, track: Track, link: Link) -> None:
        """A host whose function holds the interpreter's lock hears nothing: freeze it, see what it runs, end it."""
        await asyncio.sleep(KILL_WITHIN)
        identity = track.attempt.identity
        if track.phase is not Phase.RUNNING or not send(link.ref, signal.SIGSTOP):
            return
        found = pool_journal.read(str(link.directory))
        if identity in found.running:
            with contextlib.suppress(OSError):
                pool_journal.mark_killed(str(link.directory), identity)
            await asyncio.to_thread(_end_by_force, link)
        else:
            send(link.ref, signal.SIGCONT)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _end_by_force(link: Link) -> None:
    kill_tree(link.ref)
    send(link.ref, signal.SIGKILL)
    kill_tree(link.ref)


def _load(link: Link) -> float:
    return len(link.given) / link.window


def _error(code: str, message: str) -> Mapping[str, Any]:
    return {"code": code, "message": message, "exit_status": None}


def _why(error: OSError, path: Path) -> tuple[str, str]:
    try:
        refuse(error, path)
    except LaunchRefused as refused:
        return refused.code, str(refused)
