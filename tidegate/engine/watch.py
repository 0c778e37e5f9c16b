"""The attempts that this worker looks after, in memory: shared by dispatcher and supervisor.

What is here is a copy. The store says which attempts are open and whose they are; after a crash the next worker builds
its own watch from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tidegate.domain.errors import Fenced, LaunchRefused
from tidegate.domain.ids import AttemptKey
from tidegate.domain.instants import MILLISECOND, SECOND, Instant
from tidegate.domain.runs import State
from tidegate.domain.schedules import JsonObject
from tidegate.domain.stopping import Asked, Ended, Rung, StopReason, verdict
from tidegate.ports.engine import OpenAttempt
from tidegate.ports.launching import Launch, Launcher

_SHUTDOWN = {
    "code": "worker.shutdown",
    "message": "Its worker was shut down; the run goes on when one is there again.",
    "exit_status": None,
}
START_TRIES = 3
"""How often a launch whose answer never came is repeated before the backend is made to say what it has."""


class Stage(Enum):
    """What is known of the backend's side of an attempt."""

    ASKING = "asking"
    """The dispatcher is asking the backend to start it; nobody else may."""
    CLAIMED = "claimed"
    """On record as a possible crash; the backend was not asked, or its answer never came. To be started (again)."""
    ADOPTED = "adopted"
    """Another worker's, or not to be started any more: find it at the backend, or make sure that it never starts."""
    LAUNCHED = "launched"
    """The backend has it and is polled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How an attempt ended, until that is on record."""

    ended: Ended
    at: Instant
    ran: bool
    error: JsonObject | None = None
    permanent: bool = False

    @property
    def why(self) -> str:
        return str((self.error or {}).get("message") or "")


@dataclass(slots=True, kw_only=True)
class Watched:
    """One attempt under this worker's care."""

    launch: Launch
    stage: Stage
    created_at: Instant
    backend_id: str = ""
    started_at: Instant | None = None  # when the program was seen to run
    recorded: bool = False  # `running` is on record
    asked: Asked | None = None
    marked: bool = False  # `stopping` is on record
    rung: Rung = Rung.NONE  # the last rung of the stopping ladder that the backend was told
    orphan: bool = False  # another worker began it, and was lost
    tries: int = 0
    again_at: Instant = 0  # not before then is the backend asked again
    end: End | None = None

    @property
    def key(self) -> AttemptKey:
        return self.launch.attempt

    def ask_to_stop(self, reason: StopReason, at: Instant, *, on_record: bool) -> None:
        """The first reason stays."""
        if self.asked is None:
            self.asked = Asked(reason=reason, at=at)
            self.marked = on_record

    def close(self, ended: Ended, at: Instant, *, ran: bool, error: JsonObject | None = None) -> None:
        """It ended at `at`. What it was asked to stop for before that instant rules over what it says of itself."""
        if self.end is not None:
            return
        reason = self.asked.reason if self.asked is not None and self.asked.at <= at else None
        if reason is StopReason.SHUTDOWN:  # not its doing: counts as no crash, and not in the statistics
            ran, error = False, _SHUTDOWN
        self.end = End(ended=verdict(ended, reason), at=at, ran=ran, error=error)

    def refuse(self, refusal: LaunchRefused, now: Instant) -> None:
        error = {"code": refusal.code, "message": str(refusal), "exit_status": None}
        self.end = End(ended=Ended.REFUSED, at=now, ran=False, error=error, permanent=not refusal.retryable)

    def try_later(self, now: Instant) -> None:
        self.again_at = now + min(5 * SECOND, (100 * MILLISECOND) << min(self.tries, 10))
        self.tries += 1


@dataclass(frozen=True, slots=True)
class Doubt:
    """A commit that got no answer: since when, and what is to be done should it have happened."""

    since: Instant
    stage: Stage


@dataclass(slots=True)
class Watch:
    """What dispatcher and supervisor of one worker share."""

    attempts: dict[AttemptKey, Watched] = field(default_factory=dict)
    doubts: dict[AttemptKey, Doubt] = field(default_factory=dict)
    """Attempts whose claim or adoption may have been committed although the answer was lost."""

    def __len__(self) -> int:
        return len(self.attempts)

    def __iter__(self) -> Iterator[Watched]:
        return iter(self.attempts.values())

    def claimed(self, launches: Sequence[Launch], now: Instant) -> list[Watched]:
        """What the dispatcher claimed and is about to start."""
        taken = [Watched(launch=launch, stage=Stage.ASKING, created_at=now) for launch in launches]
        self.attempts.update((one.key, one) for one in taken)
        return taken

    def adopted(self, attempt: OpenAttempt, now: Instant, stage: Stage = Stage.ADOPTED) -> None:
        """An open attempt that became this worker's."""
        if attempt.launch.attempt in self.attempts:
            return
        entry = Watched(
            launch=attempt.launch,
            stage=stage,
            created_at=attempt.created_at,
            started_at=attempt.started_at,
            orphan=stage is Stage.ADOPTED,
            recorded=attempt.state is not State.STARTING and attempt.started_at is not None,
        )
        self.attempts[entry.key] = entry
        self.asked(attempt, now)

    def doubt(self, launches: Sequence[Launch], stage: Stage, now: Instant) -> None:
        """The commit that made them this worker's got no answer; the supervisor finds out."""
        self.doubts.update((launch.attempt, Doubt(now, stage)) for launch in launches)

    def asked(self, attempt: OpenAttempt, now: Instant) -> None:
        """Somebody asked one of them to stop."""
        entry = self.attempts.get(attempt.launch.attempt)
        if entry is not None and attempt.stop is not None:
            at = now if attempt.stop_at is None else attempt.stop_at
            entry.ask_to_stop(StopReason(attempt.stop), at, on_record=True)


async def start(watch: Watch, entry: Watched, launcher: Launcher, now: Instant) -> str | None:
    """Ask the backend to start it; a sentence when that went wrong. One that fails never stops the next."""
    try:
        entry.backend_id = await launcher.start(entry.launch)
        entry.stage = Stage.LAUNCHED
    except LaunchRefused as refusal:
        entry.refuse(refusal, now)
        return f"{entry.launch.identity}: {refusal}"
    except Fenced:  # whoever sealed it owns it now
        watch.attempts.pop(entry.key, None)
        return f"{entry.launch.identity}: another worker has sealed it; it is left to that one."
    except Exception as fault:  # nobody knows whether it runs: ask again under the same identity
        entry.stage = Stage.CLAIMED
        entry.try_later(now)
        return f"{entry.launch.identity}: the backend did not answer: {fault!r}"
    return None
