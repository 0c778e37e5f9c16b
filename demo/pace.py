"""How long the demo waits: until something has happened, with a word now and then, and never beyond a limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Pace:
    """Seconds; `clock` and `sleep` are replaced by tests."""

    look_every: float = 0.5
    tell_every: float = 10.0
    clock: Callable[[], float] = field(default=time.monotonic)
    sleep: Callable[[float], None] = field(default=time.sleep)

    def until(
        self, done: Callable[[], bool], limit: float, *, look: Callable[[], None], tell: Callable[[], None]
    ) -> bool:
        """Look again and again until it is done; `tell` speaks every few seconds. False when the limit came first."""
        began = told = self.clock()
        while True:
            look()
            if done():
                return True
            now = self.clock()
            if now - began >= limit:
                return False
            if now - told >= self.tell_every:
                told = now
                tell()
            self.sleep(self.look_every)

    def during(self, seconds: float, *, look: Callable[[], None], tell: Callable[[], None]) -> None:
        """Look for so many seconds."""
        self.until(lambda: False, seconds, look=look, tell=tell)
