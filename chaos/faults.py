"""What is done to the cluster, drawn from a seed: the kinds take turns, so that each comes also in a short run."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from random import Random

from chaos.cluster import Cluster, Member
from chaos.proxy import Loss

ROLES = ("scheduler", "scheduler", "worker", "worker", "api")


class Chaos:
    """One fault after another until it is told to stop. `pause`: seconds between two, on average."""

    def __init__(self, cluster: Cluster, rng: Random, *, pause: float = 0.5, freeze: float = 9.0) -> None:
        self.cluster = cluster
        self.rng = rng
        self.pause = pause
        self.freeze = freeze
        """The longest freeze and the longest darkness, in seconds; longer than the patience of the others."""
        self.counts: Counter[str] = Counter()
        self._later: list[tuple[float, Callable[[], object]]] = []
        self._kinds: dict[str, tuple[Callable[[], object], int]] = {
            "kill -9": (self._kill, 3),
            "SIGSTOP, later SIGCONT": (self._freeze, 2),
            "SIGTERM": (self._leave, 1),
            "immediate stop of the database": (self._stop_database, 1),
            "backends terminated": (self._terminate, 2),
            "connections cut": (self._cut, 2),
            "connections slow": (self._slow, 1),
            "black hole": (self._dark, 1),
            "answer to a COMMIT lost": (lambda: self._lose(Loss.ANSWER), 4),
            "COMMIT lost": (lambda: self._lose(Loss.COMMIT), 2),
            "COMMIT arrives late": (lambda: self._lose(Loss.LATE), 2),
        }

    def run(self, stop: threading.Event) -> None:
        """Blocks until `stop`. What lasts is ended by `Cluster.calm`."""
        deck: list[str] = []
        next_at = time.monotonic()
        while not stop.wait(0.02):
            now = time.monotonic()
            due = [what for at, what in self._later if at <= now]
            self._later = [(at, what) for at, what in self._later if at > now]
            for what in due:
                what()
            self.cluster.tend(self.rng)
            if now >= next_at:
                if not deck:
                    deck = [kind for kind, (_, weight) in self._kinds.items() for _ in range(weight)]
                    self.rng.shuffle(deck)
                kind = deck.pop()
                if self._kinds[kind][0]() is not False and kind not in _COUNTED_BY_THE_WIRE:
                    self.counts[kind] += 1
                next_at = time.monotonic() + self.pause * (0.5 + self.rng.random())
        for how, count in self.cluster.lost_commits().items():
            self.counts[_BY_LOSS[how]] = count

    def _somebody(self) -> Member | None:
        role = self.rng.choice(ROLES)
        living = [one for one in self.cluster.of(role) if one.alive and not one.frozen]
        return self.rng.choice(living) if living else None

    def _kill(self) -> bool:
        one = self._somebody()
        return one is not None and self.cluster.signal(one, signal.SIGKILL)

    def _leave(self) -> bool:
        one = self._somebody()
        return one is not None and self.cluster.signal(one, signal.SIGTERM)

    def _freeze(self) -> bool:
        one = self._somebody()
        if one is None or not self.cluster.signal(one, signal.SIGSTOP):
            return False
        self._in(self._span(), lambda: self.cluster.signal(one, signal.SIGCONT))
        return True

    def _stop_database(self) -> bool:
        if self.cluster.database_away:
            return False
        self.cluster.stop_database()
        self._in(self.rng.choice((0.0, 0.5, 2.0)), self.cluster.start_database)
        return True

    def _terminate(self) -> bool:
        return not self.cluster.database_away and self.cluster.terminate_backends(self.rng, self.rng.random()) > 0

    def _cut(self) -> bool:
        one = self._somebody()
        if one is None:
            return False
        one.wire.cut()
        return True

    def _slow(self) -> bool:
        one = self._somebody()
        if one is None:
            return False
        one.wire.delay = self.rng.choice((0.02, 0.1, 0.4))

        def quick() -> None:
            one.wire.delay = 0.0

        self._in(self._span() / 2, quick)
        return True

    def _dark(self) -> bool:
        one = self._somebody()
        if one is None:
            return False
        one.wire.dark = True

        def light() -> None:
            one.wire.dark = False

        self._in(self._span(), light)
        return True

    def _lose(self, how: Loss) -> bool:
        one = self._somebody()
        if one is None:
            return False
        one.wire.losing = how
        return True

    def _span(self) -> float:
        return self.freeze * self.rng.choice((0.05, 0.2, 1.0))

    def _in(self, seconds: float, what: Callable[[], object]) -> None:
        self._later.append((time.monotonic() + seconds, what))


_BY_LOSS = {
    Loss.ANSWER: "answer to a COMMIT lost",
    Loss.COMMIT: "COMMIT lost",
    Loss.LATE: "COMMIT arrives late",
}
_COUNTED_BY_THE_WIRE = frozenset(_BY_LOSS.values())
