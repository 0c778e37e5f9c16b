"""How far the event log is settled: no open transaction can add anything up to there any more.

An open transaction may have drawn a position and not be seen yet. So the log is read only up to a position that was the
last one drawn at a moment since which every transaction then open has ended. Transactions have numbers, drawn before
their first position (the fence of the engine's, and the first statement of people's, see to that): whoever looks notes
the last position, then draws a number itself, and later waits until no lower number is open. That any open transaction
of the server holds it back, also one in another database, is the price; it is told.

All this is true of one server. One that took its place, or that crashed, may have forgotten the last positions and give
them out again, to other events: then everything is looked at anew.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tidegate.domain.instants import Instant

_MOST_MARKS = 1000


@dataclass(slots=True)
class Tide:
    """How far the log is known to be settled. `marks`: positions, with the number below which no transaction may be
    open any more."""

    pos: int = -1
    marks: deque[tuple[int, int]] = field(default_factory=deque)
    since: Instant | None = None  # when it was first held back
    server: int = 0  # which one this is known of, by when it started

    def meet(self, server: int, drawn: int, number: int) -> None:
        """Forget everything where another server answers, or one that has forgotten what was drawn from it."""
        newest = self.marks[-1] if self.marks else (self.pos, 0)
        if server != self.server or drawn < newest[0] or number < newest[1]:
            self.pos, self.since, self.server = -1, None, server
            self.marks.clear()

    def note(self, drawn: int, number: int) -> None:
        if len(self.marks) >= _MOST_MARKS:
            self.marks.pop()
        self.marks.append((drawn, number))

    def rise(self, oldest: int, now: Instant) -> None:
        """Every transaction below `oldest` has ended."""
        while self.marks and self.marks[0][1] <= oldest:
            self.pos, _ = self.marks.popleft()
            self.since = None
        if self.marks and self.since is None:
            self.since = now
