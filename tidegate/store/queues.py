"""Queues of waiting runs that have an instant: when their first are to be judged.

Who is held in a queue until an instant leaves that instant with the queue, not with the run: a hundred thousand that
wait for a window are one row. When it comes, the admitter claims the first of the queue, and says at the end of its
transaction what holds from then on: nothing where nobody is left, or what those were told who are held again, since
nobody in a queue can go before them. All instants of a transaction are written by one statement, in order, after
counters and pools (docs/explanation/locks.md).

Nothing that was said is lost: every change of an instant draws a new `turn`. Who replaces one knows the turn that it
had when it was looked at; has somebody said something since, the earlier of both instants holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from tidegate.domain.instants import Instant
from tidegate.store.arrays import Ints, Texts
from tidegate.store.connection import Row, Session
from tidegate.store.sql import load

Q = load("admission")
POOL = "pool:"
WHOLE = ("window:", "calendar:", "freeze", "resume:")
"""Queues that open for everybody in them at once."""
FEW = 20
"""How many of another queue are judged at a time: most of them will be held again."""
MOST_QUEUES = 50
"""Queues that one claim looks at."""
UNLIMITED = 2_147_483_647
OUT_OF_TURN = -1
"""`wake_limit` of a run in a pool's queue that was woken for another reason than a free slot."""


def is_counter(key: str) -> bool:
    """Whether a queue waits for a counter: s…, p…, g…"""
    return key[0] in "spg" and not key.startswith(POOL)


def limit_of(key: str | None, limit: int | None) -> int:
    """`wake_limit` of a run that is held there; 0 in queues that are not a counter's."""
    if key is None or not is_counter(key):
        return 0
    return UNLIMITED if limit is None else limit


class Writer(Protocol):
    """What a transaction has for this."""

    session: Session

    def tell(self, topic: str) -> None: ...


class Instants:
    """What one transaction says of queues: an instant, or that there is none, and the turn that this is an answer to
    (None: to nothing that was read)."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[Instant | None, int | None]] = {}

    def look(self, key: str, at: Instant) -> None:
        """The first of this queue are to be judged at `at`, whatever else is said of it."""
        known = self._said.get(key)
        at = at if known is None or known[0] is None else min(at, known[0])
        self._said[key] = (at, None)

    def answer(self, key: str, at: Instant | None, turn: int | None) -> None:
        """What holds from now on, by who looked at the queue's `turn`."""
        known = self._said.get(key)
        if known is None:
            self._said[key] = (at, turn)
        elif at is not None:
            self._said[key] = (at if known[0] is None else min(at, known[0]), known[1])

    async def write(self, tx: Writer) -> None:
        """Nothing else of the transaction may lock what comes before in the order of locks."""
        if not self._said:
            return
        said, self._said = self._said, {}
        keys = sorted(said)
        await tx.session.send(
            Q.put_instants,
            keys=Texts(keys),
            ats=Ints(said[key][0] for key in keys),
            turns=Ints(said[key][1] for key in keys),
        )
        if any(at is not None for at, _ in said.values()):
            tx.tell("admit")


class Heads:
    """The queues that a claim looked at: their turns, and of which of them somebody is left."""

    def __init__(self, due: Iterable[Row], room: int) -> None:
        self.turns: dict[str, int] = {row[0]: row[1] for row in due}
        share = max(1, room // max(1, len(self.turns)))
        self.counts = {key: share if key.startswith(WHOLE) else min(FEW, share) for key in self.turns}
        self._left = set(self.turns)

    def claimed(self, keys: Sequence[str]) -> None:
        """The queues of the runs that were claimed: who had fewer than were asked for has nobody left."""
        found = dict.fromkeys(self.counts, 0)
        for key in keys:
            found[key] += 1
        self._left = {key for key, count in found.items() if count >= self.counts[key]}

    def passed_over(self, keys: Iterable[str]) -> None:
        """Runs of these queues had to be left for next time."""
        self._left.update(key for key in keys if key in self.turns)

    def answer(self, instants: Instants) -> None:
        """Where nobody is left there is no instant any more."""
        for key, turn in self.turns.items():
            if key not in self._left:
                instants.answer(key, None, turn)


async def waited_for(session: Session, prefix: str) -> Sequence[str]:
    """The queues in which somebody waits whose names begin so. `prefix` is ASCII."""
    high = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    return [row[0] for row in await session.rows(Q.queues_between, low=prefix, high=high)]
