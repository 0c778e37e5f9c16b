"""A small world to crank the engine by hand: the store in memory, a clock that is set, a backend in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tidegate.domain.errors import CommitUnknown, Fenced, LaunchRefused, Unavailable
from tidegate.domain.ids import AttemptKey, Fence, ProgramId, RunKey, ScheduleId
from tidegate.domain.instants import HOUR, SECOND, Instant
from tidegate.domain.programs import Command, ProgramSpec
from tidegate.domain.runs import Cause, State
from tidegate.domain.schedules import Mode, ScheduleSpec
from tidegate.domain.triggers import Interval, Never
from tidegate.engine.admitter import Admitter
from tidegate.engine.dispatcher import Dispatcher
from tidegate.engine.membership import Membership
from tidegate.engine.outcome import Outcome, Part
from tidegate.engine.supervisor import Supervisor
from tidegate.engine.timekeeper import Timekeeper, TimekeeperSettings
from tidegate.engine.watch import Watch
from tidegate.ports.launching import Launch, Phase, Report, StopHow
from tidegate.ports.records import ClockState, Metadata
from tidegate.sim.memory import MemoryStore

T = TypeVar("T")
START = 1_700_000_000 * SECOND // HOUR * HOUR


def crank(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@dataclass
class Backend:
    """What outlives a worker: who was started, what became of them, whose identity is sealed."""

    reports: dict[AttemptKey, Report] = field(default_factory=dict)
    sealed: set[AttemptKey] = field(default_factory=set)
    started: list[AttemptKey] = field(default_factory=list)  # in order; an identity at most once
    stops: list[tuple[AttemptKey, StopHow]] = field(default_factory=list)
    forgotten: list[AttemptKey] = field(default_factory=list)

    def finish(self, key: AttemptKey, outcome: str, *, ago: int = 0, message: str = "") -> None:
        error = {"code": "program.exit", "message": message, "exit_status": 1} if message else None
        self.reports[key] = Report(attempt=key, phase=Phase.FINISHED, outcome=outcome, error=error, ago=ago)

    def set(self, key: AttemptKey, phase: Phase) -> None:
        self.reports[key] = Report(attempt=key, phase=phase)


class FakeLauncher:
    """A launcher whose every method can be made to fail. `hooks[name]` is called before the method does anything."""

    def __init__(self, backend: Backend, kinds: Collection[str] = ("command", "python")) -> None:
        self.kinds = frozenset(kinds)
        self.on_change: Callable[[], None] = lambda: None
        self.backend = backend
        self.hooks: dict[str, Callable[[Any], Awaitable[None] | None]] = {}
        self.calls: list[str] = []

    async def _hook(self, name: str, what: Any) -> None:
        self.calls.append(name)
        if (hook := self.hooks.get(name)) is not None and (waiting := hook(what)) is not None:
            await waiting

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def start(self, launch: Launch) -> str:
        await self._hook("start", launch)
        key = launch.attempt
        if key in self.backend.sealed:
            raise Fenced("sealed")
        if key not in self.backend.reports:
            self.backend.started.append(key)
            self.backend.set(key, Phase.RUNNING)
        return f"pid-{key.identity}"

    async def seal(self, launch: Launch) -> Report | None:
        await self._hook("seal", launch)
        key = launch.attempt
        if key in self.backend.reports:
            return self.backend.reports[key]
        self.backend.sealed.add(key)
        return None

    async def poll(self, attempts: Sequence[AttemptKey]) -> Sequence[Report]:
        await self._hook("poll", attempts)
        return [self.backend.reports[key] for key in attempts if key in self.backend.reports]

    async def stop(self, attempt: AttemptKey, how: StopHow) -> None:
        await self._hook("stop", (attempt, how))
        self.backend.stops.append((attempt, how))

    async def forget(self, attempts: Sequence[AttemptKey]) -> None:
        await self._hook("forget", attempts)
        self.backend.forgotten.extend(attempts)


def refuses(*, retryable: bool = True) -> Callable[[Any], None]:
    def hook(_: Any) -> None:
        raise LaunchRefused("The backend is full.", retryable=retryable)

    return hook


def breaks(times: int = 1_000_000) -> Callable[[Any], None]:
    left = [times]

    def hook(_: Any) -> None:
        if left[0] > 0:
            left[0] -= 1
            raise Unavailable("The backend does not answer.")

    return hook


class FaultyStore:
    """The store, with commits that get lost on the way there or on the way back."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.faults: list[str] = []  # for the next transactions: "lost" (not committed), "unknown" (committed), ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def transaction(self, fence: Fence) -> AbstractAsyncContextManager[Any]:
        fault = self.faults.pop(0) if self.faults else ""
        return self._faulty(fence, fault)

    @asynccontextmanager
    async def _faulty(self, fence: Fence, fault: str) -> Any:
        if fault == "lost":
            try:
                async with self._store.transaction(fence) as tx:
                    yield tx
                    raise CommitUnknown("The connection broke.")
            finally:
                pass
        else:
            async with self._store.transaction(fence) as tx:
                yield tx
            if fault == "unknown":
                raise CommitUnknown("The connection broke.")


class Worker:
    """Dispatcher and supervisor of one process, with its own launcher object over a shared backend."""

    def __init__(self, world: World, name: str, host: str) -> None:
        self.world = world
        self.host = host
        self.fence = crank(world.store.register(role="worker", name=name, host=host, pid=1, now=world.now))
        self.launcher = FakeLauncher(world.backend, ("command", "python", "maintenance"))
        self.watch = Watch()
        self.store = FaultyStore(world.store)
        launchers = dict.fromkeys(self.launcher.kinds, self.launcher)
        self.dispatcher = Dispatcher(self.store, self.fence, launchers, self.watch)  # type: ignore[arg-type]
        self.supervisor = Supervisor(self.store, self.fence, launchers, self.watch, host)  # type: ignore[arg-type]

    def dispatch(self) -> Outcome:
        return self.world.step(self.dispatcher)

    def supervise(self) -> Outcome:
        return self.world.step(self.supervisor)

    def die(self) -> None:
        """kill -9, as the database sees it."""
        self.world.store.lose_session(self.fence.instance_id)


class World:
    def __init__(self, **pools: int) -> None:
        self.now: Instant = START
        self.store = MemoryStore(lambda: self.now, tuple(pools.items()) or (("default", 8), ("spark", 2)))
        self.backend = Backend()
        self.fence = crank(self.store.register(role="scheduler", name="s", host="h", pid=1, now=self.now))
        self.admitter = Admitter(self.store, self.fence)
        self.membership = Membership(self.store, self.fence)

    def timekeeper(self, store: object = None, **settings: int) -> Timekeeper:
        chosen = TimekeeperSettings(**settings)
        return Timekeeper(self.store if store is None else store, self.fence, chosen)  # type: ignore[arg-type]

    def fires(self, schedule: ScheduleId) -> list[Instant]:
        """The fire times that became runs, ascending."""
        return sorted(key.slot for key in self.store.data.run.rows if key.schedule_id == schedule and key.ord == 0)

    def step(self, part: Part) -> Outcome:
        return crank(part.step(self.now))

    def pass_time(self, span: int) -> None:
        self.now += span

    def worker(self, name: str = "w", host: str = "h") -> Worker:
        return Worker(self, name, host)

    def program(self, name: str = "p", spec: ProgramSpec = Command(argv=("true",))) -> ProgramId:
        async def write() -> ProgramId:
            async with self.store.changing() as tx:
                metadata = Metadata(namespace="ns", name=name, labels={})
                return (await tx.write_program(metadata, spec, {}, "me", self.now)).id

        return crank(write())

    def schedule(self, program: ProgramId, name: str = "s", *, due: Instant | None = None, **spec: Any) -> ScheduleId:
        """Enabled, hourly unless `trigger` says otherwise; its clock stands at now."""
        spec.setdefault("trigger", Interval(every="PT1H") if due is not None else Never())

        async def create() -> ScheduleId:
            async with self.store.changing() as tx:
                return await tx.create_schedule(
                    Metadata(namespace="ns", name=name, labels={}),
                    ScheduleSpec(program="p", **spec),
                    {},
                    program=program,
                    mode=Mode.ENABLED,
                    reason="",
                    author="me",
                    now=self.now,
                    clock=ClockState(cursor=self.now, cursor_rev=1, next_due=due),
                )

        return crank(create())

    def trigger(self, schedule: ScheduleId, priority: int = 50) -> RunKey:
        async def add() -> RunKey:
            async with self.store.changing() as tx:
                return await tx.add_run(
                    schedule,
                    cause=Cause.MANUAL,
                    caused_by="me",
                    fire_time=None,
                    previous_fire=None,
                    given=None,
                    priority=priority,
                    now=self.now,
                )

        return crank(add())

    def cancel(self, run: RunKey) -> State:
        async def ask() -> State:
            async with self.store.changing() as tx:
                return await tx.request_stop(run, "me", self.now)

        return crank(ask())

    def run(self, key: RunKey) -> Any:
        return self.store.data.run.rows[key]

    def attempt(self, key: RunKey, number: int = 1) -> Any:
        return self.store.data.attempt.rows[AttemptKey(key, number)]

    def held(self, counter: str) -> int:
        row = self.store.data.counter.rows.get(counter)
        return 0 if row is None else row.held

    def used(self, pool: str = "default") -> int:
        return self.store.data.pool.rows[pool].used
