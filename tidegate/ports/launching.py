"""How a backend is spoken to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from tidegate.domain import templates
from tidegate.domain.evidence import told
from tidegate.domain.ids import AttemptKey
from tidegate.domain.instants import Duration, Instant, format_instant
from tidegate.domain.programs import ProgramRef
from tidegate.domain.runs import Cause
from tidegate.domain.schedules import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One attempt to be started: everything a backend and a program may know of it."""

    attempt: AttemptKey
    fence: int
    namespace: str
    schedule: str
    program: ProgramRef
    arguments: JsonObject
    cause: Cause
    caused_by: str
    fire_time: Instant | None
    previous_fire_time: Instant | None
    timeout: Duration | None = None
    grace: Duration = 30_000_000
    inputs: JsonObject = field(default_factory=dict)  # by dataset, see domain.evidence
    evidence: JsonObject | None = None
    stop_by: Instant | None = None  # what still runs then is stopped: the window closes that it was admitted through

    @property
    def identity(self) -> str:
        return self.attempt.identity

    def filled(self, parts: JsonObject, what: str) -> dict[str, Any]:
        """Parts of the program's spec with their templates filled in from this run (see `domain.templates`).

        Raises Invalid with every fault; `what` they stand in is said."""
        known = told(self.evidence, self.inputs)
        context = templates.context(
            fire_time=None if self.fire_time is None else format_instant(self.fire_time),
            previous_fire_time=None if self.previous_fire_time is None else format_instant(self.previous_fire_time),
            cause=self.cause.value,
            by=self.caused_by,
            inputs=known["inputs"],
            upstream=known["upstream"],
            timed_out_waiting=known["timed_out_waiting"],
        )
        return templates.render(parts, {**context, templates.ARGUMENTS: self.arguments}, at="", what=what)


class Phase(StrEnum):
    """What a backend says of an attempt."""

    STARTING = "starting"
    """It has the launch; the program does not run yet (a driver is coming up)."""
    RUNNING = "running"
    FINISHED = "finished"
    GONE = "gone"
    """It was there and is no more, without having said how it ended: a crash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A backend's answer about one attempt. `outcome` (when finished): succeeded, failed, cancelled, lost."""

    attempt: AttemptKey
    phase: Phase
    backend_id: str = ""
    outcome: str | None = None
    error: JsonObject | None = None  # {code, message, exit_status}
    ago: Duration = 0  # how long before the answer it finished
    ran: bool = True  # finished only: whether anything of it can have run


class StopHow(StrEnum):
    """How an attempt is made to end."""

    POLITE = "polite"
    """Asked to: it has its grace to tidy up."""
    KILL = "kill"
    """Ended, with everything that it started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """A piece of what an attempt printed."""

    text: str
    next_offset: int  # in bytes: where to read on
    complete: bool  # the attempt has ended and this is its last chunk


class Launcher(Protocol):
    """A backend. Everything is asked by identity, so that a stranger can go on where a dead process stopped.

    No method may block the loop for long: a slow backend answers STARTING and reports later. `on_change` is called,
    from the loop's thread, whenever `poll` may have something new to say. `kinds`: the program kinds that it starts.
    """

    kinds: frozenset[str]
    on_change: Callable[[], None]

    async def open(self) -> None:
        """Before anything else, once: get ready, and find what runs since before this process."""

    async def close(self) -> None:
        """Let go of everything without ending what runs (it is adopted later)."""

    async def start(self, launch: Launch) -> str:
        """Start it; the backend id. Idempotent by identity. Raises LaunchRefused when nothing was started, and
        Fenced when the identity was sealed."""

    async def seal(self, launch: Launch) -> Report | None:
        """Find what was started under this identity; when nothing was, make sure that nothing ever can be, and
        answer None."""

    async def poll(self, attempts: Sequence[AttemptKey]) -> Sequence[Report]:
        """What is known of these attempts (started or adopted by this launcher); silent ones may be left out."""

    async def stop(self, attempt: AttemptKey, how: StopHow) -> None:
        """Ask it to end, or end it: the whole process tree. Safe to repeat. The end is reported by `poll`."""

    async def forget(self, attempts: Sequence[AttemptKey]) -> None:
        """Their ends are on record; what was kept to report them may go (logs stay)."""


class Logs(Protocol):
    """What attempts print, wherever it is kept."""

    async def read(self, attempt: AttemptKey, offset: int, limit: int = 65536) -> LogChunk:
        """At most about `limit` bytes from byte `offset` on; empty where there is nothing (yet)."""
