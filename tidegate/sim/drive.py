"""Drives coroutines by hand: who goes next is drawn from a seed, and time jumps when nobody can go.

There is no event loop. A task is a coroutine that is sent into until it awaits something of this module: a plain
`Turn` (others may go first), a `Sleep`, a `Blocked` (until a transaction has ended) or `Gone` (its process is dead: it
is never resumed). Tasks of a frozen process stay where they are until it thaws.

The order in which things happen depends on the seed and on nothing else: no wall clock, no hash, no address.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Any, Protocol

from tidegate.domain.instants import Duration, Instant
from tidegate.sim.clock import VirtualClock
from tidegate.sim.memory.tables import Transaction


class Turn:
    """Let others go first, perhaps."""

    def __await__(self) -> Generator[Any, None, None]:
        yield None


TURN = Turn()


class Sleep:
    __slots__ = ("duration",)

    def __init__(self, duration: Duration) -> None:
        self.duration = duration

    def __await__(self) -> Generator[Any, None, None]:
        yield self


class Blocked:
    __slots__ = ("holder",)

    def __init__(self, holder: Transaction) -> None:
        self.holder = holder

    def __await__(self) -> Generator[Any, None, None]:
        yield self


class Gone:
    """Never to be resumed."""

    def __await__(self) -> Generator[Any, None, None]:
        yield self


class Owner(Protocol):
    """Whose task it is. `frozen_until` > now: it does not go on before."""

    alive: bool
    frozen_until: Instant


Done = Callable[[Any, BaseException | None], None]


class Task:
    __slots__ = ("coroutine", "owner", "done")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], owner: Owner, done: Done) -> None:
        self.coroutine = coroutine
        self.owner = owner
        self.done = done


class Driver:
    """Ready tasks, alarms, and the clock."""

    def __init__(self, clock: VirtualClock, rng: Random) -> None:
        self.clock = clock
        self.rng = rng
        self._ready: list[Task] = []
        self._alarms: list[tuple[Instant, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, when: Instant, call: Callable[[], None]) -> None:
        """Call it at an instant (now, if that has passed)."""
        self._count += 1
        now = self.clock.instant
        heappush(self._alarms, (when if when > now else now, self._count, call))

    def spawn(self, coroutine: Coroutine[Any, Any, Any], owner: Owner, done: Done) -> None:
        self._ready.append(Task(coroutine, owner, done))

    def run(self, until: Instant) -> None:
        """Go on until nothing is left to do before `until`; the clock then shows it."""
        ready, alarms, draw, clock = self._ready, self._alarms, self.rng.random, self.clock
        while True:
            while ready:
                task = ready.pop()
                if others := len(ready):
                    chosen = int(draw() * (others + 1))
                    if chosen < others:
                        ready[chosen], task = task, ready[chosen]
                owner = task.owner
                if not owner.alive or owner.frozen_until > clock.instant:
                    self._cannot_go(task)
                    continue
                try:
                    wish = task.coroutine.send(None)
                except StopIteration as end:
                    task.done(end.value, None)
                except Exception as error:
                    task.done(None, error)
                else:
                    if wish is None:
                        ready.append(task)
                    else:
                        self._wait(task, wish)
            if not alarms or alarms[0][0] > until:
                clock.instant = max(clock.instant, until)
                return
            at = clock.instant = alarms[0][0]
            while alarms and alarms[0][0] == at:
                heappop(alarms)[2]()

    def _cannot_go(self, task: Task) -> None:
        """Its process is dead, or frozen for now."""
        owner = task.owner
        if owner.alive:
            self.at(owner.frozen_until, partial(self._ready.append, task))
        else:
            task.coroutine.close()

    def _wait(self, task: Task, wish: object) -> None:
        """It goes on when what it awaits has come."""
        go_on = partial(self._ready.append, task)
        if type(wish) is Sleep:
            self.at(self.clock.instant + wish.duration, go_on)
        elif type(wish) is Blocked:
            wish.holder.on_end.append(go_on)
        elif type(wish) is Gone:
            task.coroutine.close()
        else:
            raise AssertionError(f"a task awaits {wish!r}, which nobody here can give it")


def finish(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that has nothing to wait for."""
    try:
        wish = coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise AssertionError(f"it waits for {wish!r}, with nobody there to end that")
