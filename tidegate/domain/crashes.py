"""When a run is started again whose attempt crashed: not before its backoff, nor soon after the schedulers came up.

A crash, here, is a possible crash that another found open: the worker that wrote it down is gone, and so is the
program, without having said how it ended. That is what a machine or a deployment that goes down leaves behind, and
starting everything again in the first seconds after it came up is how it goes down once more. So such a run waits until
the oldest scheduler now alive has been up for a while (`scheduler.crash_wait`). No such crash is an attempt whose end
its own worker saw (only the backoff holds its run), nor one that was sealed before it began (nothing crashed: it goes
at once).

The instant is decided once, by the first scheduler that looks, and stays with the run: a scheduler that restarts
afterwards, again and again, does not push it on (FAIL-4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.domain.constraints import MET, Verdict, Wait
from tidegate.domain.instants import Duration, Instant, format_instant

BACKOFF, CRASH_WAIT = "backoff", "crash_wait"
"""What the two questions are called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """Of a waiting run whose last attempt crashed. `retry_at`: its backoff. `restart_at`: not before then either; None:
    no scheduler has looked at it yet."""

    retry_at: Instant
    restart_at: Instant | None = None


def undecided(crash: Crash | None) -> bool:
    """Whether nobody has said yet when it may start again."""
    return crash is not None and crash.restart_at is None


def decided(crash: Crash, *, oldest: Instant, wait: Duration) -> Crash:
    """With its `restart_at`; one that has it keeps it. `oldest`: when the oldest living scheduler came up; `wait`: how
    long it must have been up."""
    return crash if crash.restart_at is not None else replace(crash, restart_at=oldest + wait)


def backoff(crash: Crash, attempts: int, now: Instant) -> Verdict:
    """Whether its backoff is over, after so many attempts."""
    if crash.retry_at <= now:
        return MET
    why = f"Attempt {attempts + 1} starts no earlier than {format_instant(crash.retry_at)}."
    return Wait(until=crash.retry_at, why=why)


def crash_wait(crash: Crash, now: Instant) -> Verdict:
    """Whether the schedulers have been up long enough. Where nobody has decided, a scheduler does in a moment."""
    if crash.restart_at is None:
        return Wait(
            why="Its attempt crashed while nobody looked after it; the next scheduler says when it starts again."
        )
    if crash.restart_at <= now:
        return MET
    why = (
        f"Its attempt crashed while nobody looked after it; it starts again no earlier than "
        f"{format_instant(crash.restart_at)}, when a scheduler has been up for scheduler.crash_wait."
    )
    return Wait(until=crash.restart_at, why=why)
