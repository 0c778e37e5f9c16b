"""What runs programs, outside of every worker: it survives them, remembers identities, and misbehaves as drawn.

`Backend` is the world's side: executions begin, last, end, hang, ignore a polite stop, die without a word. A
`SimLauncher` is one process's way to it, behind that process's gate. What really started stays on record for the laws.

An identity that was forgotten stays known as ended: `start` is idempotent by identity for ever, which is what the
launchers of the product keep an attempt's directory for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from tidegate.domain.errors import Fenced, LaunchRefused, Unavailable
from tidegate.domain.ids import AttemptKey
from tidegate.domain.instants import SECOND, Duration, Instant
from tidegate.ports.launching import Launch, Phase, Report, StopHow
from tidegate.sim.drive import Driver

if TYPE_CHECKING:
    from tidegate.sim.faults import Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How programs behave: chances, and how long they take at most (a third of it on average)."""

    fails: float = 0.0
    dies: float = 0.0
    """Ends without a word."""
    hangs: float = 0.0
    stubborn: float = 0.0
    """Ignores a polite stop."""
    zombie: float = 0.0
    """Ignores being killed."""
    warm_up: Duration = 0
    longest: Duration = SECOND
    steady: bool = False
    """Every program takes exactly `longest`."""


CALM = Habits(steady=True)
ROUGH = Habits(
    fails=0.1, dies=0.03, hangs=0.01, stubborn=0.3, zombie=0.01, warm_up=2 * SECOND, longest=30 * SECOND
)  # fmt: skip


@dataclass(eq=False, slots=True)
class Execution:
    """One thing that really ran."""

    attempt: AttemptKey
    fence: int
    namespace: str
    schedule: str
    program_id: int
    pool: str
    kind: str
    host: str
    started_at: Instant
    runs_from: Instant
    backend_id: str
    stubborn: bool
    zombie: bool
    ended_at: Instant | None = None
    phase: Phase = Phase.STARTING
    outcome: str | None = None
    exit_status: int | None = None
    polite_at: Instant | None = None
    killed_at: Instant | None = None
    message: str = "it failed"


@dataclass(slots=True)
class Backend:
    """Every execution of the world, by identity."""

    driver: Driver
    rng: Random
    habits: Habits
    known: dict[AttemptKey, Execution] = field(default_factory=dict)
    sealed: dict[AttemptKey, Instant] = field(default_factory=dict)
    history: list[Execution] = field(default_factory=list)
    launchers: list[SimLauncher] = field(default_factory=list)
    script: Callable[[Launch, Execution], tuple[Duration, str]] | None = None
    """Says how long an execution takes and how it ends, instead of habits (`crashed`: without a word)."""

    def begin(self, launch: Launch, host: str) -> Execution:
        """Really start it."""
        now, habits, rng = self.driver.clock.instant, self.habits, self.rng
        steady = habits.steady
        warm = 0 if steady or not habits.warm_up else int(rng.random() * habits.warm_up)
        one = Execution(
            launch.attempt, launch.fence, launch.namespace, launch.schedule, launch.program.id, launch.program.pool,
            launch.program.kind, host, now, now + warm, f"x{len(self.history) + 1}",
            not steady and rng.random() < habits.stubborn, not steady and rng.random() < habits.zombie,
        )  # fmt: skip
        self.known[launch.attempt] = one
        self.history.append(one)
        if self.script is not None:
            lasts, outcome = self.script(launch, one)
            phase = Phase.GONE if outcome == "crashed" else Phase.FINISHED
            self.driver.at(now + lasts, lambda: self.end(one, phase, None if phase is Phase.GONE else outcome))
        elif steady:
            self.driver.at(now + habits.longest, lambda: self.end(one, Phase.FINISHED, "succeeded"))
        else:
            self._plan(one, now + warm)
        return one

    def _plan(self, one: Execution, ready: Instant) -> None:
        habits, rng = self.habits, self.rng
        lasts = int(habits.longest * rng.random() ** 2)
        fate = rng.random()
        if fate < habits.hangs:
            return
        if fate < habits.hangs + habits.dies:
            self.driver.at(ready + lasts, lambda: self.end(one, Phase.GONE, None))
        elif fate < habits.hangs + habits.dies + habits.fails:
            self.driver.at(ready + lasts, lambda: self.end(one, Phase.FINISHED, "failed"))
        else:
            self.driver.at(ready + lasts, lambda: self.end(one, Phase.FINISHED, "succeeded"))
        if ready > one.started_at:
            self.driver.at(ready, lambda: self.changed(one))

    def end(self, one: Execution, phase: Phase, outcome: str | None) -> None:
        if one.ended_at is None:
            one.ended_at = self.driver.clock.instant
            one.phase = phase
            one.outcome = outcome
            self.changed(one)

    def stop(self, one: Execution, how: StopHow) -> None:
        now = self.driver.clock.instant
        if how is StopHow.KILL:
            one.killed_at = one.killed_at or now
            if not one.zombie:
                self.driver.at(now + int(self.rng.random() * SECOND), lambda: self.end(one, Phase.FINISHED, "failed"))
        else:
            one.polite_at = one.polite_at or now
            if not one.stubborn:
                delay = int(self.rng.random() * 5 * SECOND)
                self.driver.at(now + delay, lambda: self.end(one, Phase.FINISHED, "cancelled"))

    def changed(self, one: Execution) -> None:
        """Tell the launchers of its host that had to do with it. Where things go wrong, some do not hear it."""
        for launcher in self.launchers:
            if one.attempt in launcher.asked and (launcher.gate is None or self.rng.random() > 0.1):
                launcher.on_change()

    def reboot(self, host: str) -> None:
        """Everything that runs on that host is gone, without a word."""
        for one in self.known.values():
            if one.host == host:
                self.end(one, Phase.GONE, None)

    def report(self, one: Execution) -> Report:
        now = self.driver.clock.instant
        if one.ended_at is not None:
            return Report(
                attempt=one.attempt,
                phase=one.phase,
                backend_id=one.backend_id,
                outcome=one.outcome,
                error=None if one.outcome == "succeeded" else {"code": "program.exit", "message": one.message},
                ago=now - one.ended_at,
            )
        phase = Phase.RUNNING if now >= one.runs_from else Phase.STARTING
        return Report(attempt=one.attempt, phase=phase, backend_id=one.backend_id)


class SimLauncher:
    """A process's way to the backend. Without a gate nothing goes wrong."""

    def __init__(self, backend: Backend, host: str, kinds: Sequence[str], gate: Gate | None) -> None:
        self.kinds = frozenset(kinds)
        self.host = host
        self.on_change: Callable[[], None] = _nobody
        self.asked: set[AttemptKey] = set()
        """Attempts that it was asked to start or to seal, and not yet to forget: of those it hears."""
        self._backend = backend
        self.gate = gate

    async def open(self) -> None:
        self._backend.launchers.append(self)

    async def close(self) -> None:
        self._backend.launchers.remove(self)

    async def start(self, launch: Launch) -> str:
        fault = None
        if self.gate is not None:
            await self.gate.backend_call("backend start")
            fault = self.gate.backend(("refused", "silent", "unheard"))
            if fault == "silent":
                raise Unavailable("the backend does not answer")
        backend = self._backend
        self.asked.add(launch.attempt)
        if launch.attempt in backend.sealed:
            raise Fenced(f"{launch.identity} was sealed.")
        one = backend.known.get(launch.attempt)
        if one is None:
            if fault == "refused":
                raise LaunchRefused("the backend is busy", retryable=backend.rng.random() < 0.9)
            one = backend.begin(launch, self.host)
        if fault == "unheard":
            raise Unavailable("the backend's answer was lost")
        return one.backend_id

    async def seal(self, launch: Launch) -> Report | None:
        if self.gate is not None:
            await self.gate.backend_call("backend seal")
            if self.gate.backend(("silent",)):
                raise Unavailable("the backend does not answer")
        self.asked.add(launch.attempt)
        one = self._backend.known.get(launch.attempt)
        if one is None:
            self._backend.sealed[launch.attempt] = self._backend.driver.clock.instant
            return None
        return self._backend.report(one)

    async def poll(self, attempts: Sequence[AttemptKey]) -> Sequence[Report]:
        if self.gate is not None:
            await self.gate.backend_call("backend poll")
            if self.gate.backend(("silent",)):
                raise Unavailable("the backend does not answer")
        """Silent about what runs as before, and where things go wrong sometimes about others."""
        backend = self._backend
        known, now = backend.known, backend.driver.clock.instant
        news = [
            one
            for key in attempts
            if (one := known.get(key)) is not None and (one.ended_at is not None or now < one.runs_from)
        ]
        if self.gate is not None:
            news = [one for one in news if backend.rng.random() > 0.02 or one.ended_at is None]
        return [backend.report(one) for one in news]

    async def stop(self, attempt: AttemptKey, how: StopHow) -> None:
        if self.gate is not None:
            await self.gate.backend_call("backend stop")
            if self.gate.backend(("silent",)):
                raise Unavailable("the backend does not answer")
        one = self._backend.known.get(attempt)
        if one is not None and one.ended_at is None:
            self._backend.stop(one, how)

    async def forget(self, attempts: Sequence[AttemptKey]) -> None:
        if self.gate is not None:
            await self.gate.backend_call("backend forget")
        self.asked.difference_update(attempts)


def _nobody() -> None:
    return None
