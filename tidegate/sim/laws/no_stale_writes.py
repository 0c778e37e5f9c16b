"""Who was declared dead never writes again, and a duty has one holder at a time, whose token only rises."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.domain.instants import Instant
from tidegate.sim.history import History, Violation

LAW = "no_stale_writes"


def check(history: History) -> Iterator[Violation]:
    retired: set[tuple[int, int]] = set()
    for what, instance, epoch in history.writes:
        if what == "retired":
            retired.add((instance, epoch))
        elif (instance, epoch) in retired:
            yield Violation(LAW, f"instance {instance} wrote after it had been declared dead")
    yield from _leases(history)
    highest = 0
    for token, _, _ in history.resyncs:
        if token < highest:
            yield Violation(LAW, f"a resync under token {token}, after one under {highest}")
        highest = max(highest, token)


def _leases(history: History) -> Iterator[Violation]:
    holders: dict[str, tuple[int, int, Instant]] = {}  # duty -> token, instance, until
    for duty, token, instance, start, end in history.grants:
        before = holders.get(duty)
        if before is not None:
            if token < before[0] or (token == before[0] and instance != before[1]):
                yield Violation(LAW, f"{duty}: token {token} was granted after {before[0]}")
            if token == before[0] and start >= before[2]:
                yield Violation(LAW, f"{duty}: a lease that had expired was renewed instead of taken anew")
        holders[duty] = (token, instance, end)
