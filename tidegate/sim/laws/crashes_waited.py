"""A run whose attempt crashed while nobody looked after it starts again no earlier than was said, once (FAIL-4).

Said is that the oldest scheduler alive then has been up for `crash_wait`. Which ones were alive is known here from
their registrations alone: the instant must be that of one who had not ended when the run was judged. Whoever comes and
goes afterwards, the instant stays.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.domain.ids import RunKey
from tidegate.domain.instants import SECOND, Instant
from tidegate.sim.history import History, Violation, when
from tidegate.sim.memory.rows import DecisionRow

LAW = "crashes_waited"
SLACK = 20 * SECOND
"""Who declares somebody dead has read the time before, and commits a while later."""


def check(history: History) -> Iterator[Violation]:
    said: dict[tuple[RunKey, int], Instant] = {}
    for decision in history.decisions:
        if not decision.crashed:
            continue
        which = (decision.run, decision.attempts)
        before = said.get(which)
        if decision.what == "admit":
            yield from _admitted(history, decision, before)
        elif decision.restart_at is not None:
            if before is not None and before != decision.restart_at:
                slid = (
                    f"was to start again at {when(before)}, and at {when(decision.now)} at {when(decision.restart_at)}"
                )
                yield Violation(LAW, f"run {decision.run} {slid}")
            if before is None and decision.restart_at not in _possible(history, decision.now):
                wrong = f"of nobody who was up at {when(decision.now)}"
                yield Violation(LAW, f"run {decision.run} starts again at {when(decision.restart_at)}, {wrong}")
            said[which] = decision.restart_at


def _admitted(history: History, decision: DecisionRow, said: Instant | None) -> Iterator[Violation]:
    earliest = min(_possible(history, decision.now)) if said is None else said
    if decision.now < earliest:
        told = f"was admitted at {when(decision.now)}, to start again no earlier than {when(earliest)}"
        yield Violation(LAW, f"run {decision.run} {told}")


def _possible(history: History, now: Instant) -> set[Instant]:
    """When schedulers that were up at `now` have been up for long enough."""
    return {
        since + history.crash_wait
        for _, since, until in history.schedulers
        if since <= now and (until is None or until >= now - SLACK)
    }
