"""What people do: declare schedules of every kind, then change, disable, enable, delete, trigger and cancel them.

Drawn from the seed. Everything goes through `tidegate.control`, as it would from the doors, and meets the same faults
as every other client: who gets no answer looks again later, as people do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from tidegate.control import pools, programs, runs, schedules
from tidegate.control.common import OnUpdate
from tidegate.documents.declared import Pool, Program, Schedule
from tidegate.domain.admission import SUSPENDED_MODES
from tidegate.domain.errors import TidegateError
from tidegate.domain.instants import HOUR, MINUTE, SECOND, Duration, Instant
from tidegate.domain.programs import Command, ProgramSpec, Python, SparkSql
from tidegate.domain.schedules import (
    CatchUp,
    CatchUpPolicy,
    Concurrency,
    Constraint,
    Mode,
    Retry,
    ScheduleSpec,
    ThenWaiting,
    Timeout,
    Unmet,
    Waiting,
    WaitingPolicy,
)
from tidegate.domain.triggers import AfterFinish, At, Cron, Interval, Trigger, WindowDays
from tidegate.ports.records import Metadata
from tidegate.sim import backfilling, gating, sinks
from tidegate.sim.drive import Sleep

if TYPE_CHECKING:
    from tidegate.sim.world import Simulation

NAMESPACE = "sim"
WHO = "somebody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is declared, and how often people do something."""

    schedules: int = 12
    programs: int = 5
    slots: int = 3
    """Of the pool `default`."""
    every: Duration = 2 * MINUTE
    """Between two things people do, on average."""
    backfills: float = 0.0
    """How likely what somebody does is about a backfill: asked for, paused, resumed or cancelled."""
    sinks: bool = False
    """Whether what happens is told to sinks."""
    gates: float = 0.0
    """How likely a schedule declares each kind of constraint beside concurrency, belongs to groups, or is suspended in
    another mode than drop; above 0 people also freeze, change calendars, and resources are read."""


class People:
    """One person, whose requests meet faults too. It has the form of a process that never dies."""

    def __init__(self, sim: Simulation, rng: Random, size: Size) -> None:
        self.sim = sim
        self.rng = rng
        self.size = size
        self.alive = True
        self.frozen_until: Instant = 0
        self.store: Any = sim.store
        self.program_names: list[str] = []
        self.specs: dict[str, ScheduleSpec] = {}
        self.program_limits: dict[str, int] = {}
        self.names: list[str] = []  # of schedules, also deleted ones
        self.done: dict[str, int] = {}

    # what is declared at the beginning
    async def declare(self) -> None:
        for name, slots in (("default", self.size.slots), ("spark", 2), ("narrow", 1)):
            rate = (5, SECOND, 5) if name == "spark" and self.rng.random() < 0.5 else None
            await self.insist(partial(self._pool, name, slots, rate))
        for number in range(self.size.programs):
            await self.insist(partial(self._program, f"p{number}"))
        for name in sinks.DECLARED if self.size.sinks else ():
            await self.insist(partial(sinks.declare, self, name))
        if self.size.gates:
            await self.insist(partial(gating.put_calendar, self))
        for _ in range(self.size.schedules):
            await self.insist(self._new_schedule)

    async def insist(self, ask: Callable[[], Awaitable[None]]) -> None:
        """Ask again until it is answered, a few times."""
        for _ in range(20):
            try:
                await ask()
                return
            except TidegateError as error:
                self.count(f"answered {error.code}")
                await Sleep(int(self.rng.random() * 2 * SECOND))

    async def live(self, until: Instant) -> None:
        """Do something now and then."""
        while True:
            await Sleep(int(self.rng.expovariate(1 / self.size.every)) + 1)
            if self.sim.clock.instant >= until:
                return
            try:
                await self._act()
            except TidegateError as error:
                self.count(f"answered {error.code}")

    async def _act(self) -> None:
        if self.size.gates and self.rng.random() < 0.2:
            await gating.act(self)
            return
        choose, names = self.rng.random(), sorted(self.specs)
        name = self.rng.choice(names) if names else ""
        if self.size.backfills and name and self.rng.random() < self.size.backfills:
            await backfilling.act(self, name)
            return
        if choose < 0.1 or not name:
            await self._new_schedule()
        elif choose < 0.3:
            self.count("triggered")
            await runs.trigger(self.store, NAMESPACE, name, who=WHO, arguments={"by": "hand"})
        elif choose < 0.5:
            await self._edit(name)
        elif choose < 0.65:
            self.count("disabled")
            mode = self.rng.choice(gating.RESTS) if self.size.gates else Mode.DROP
            expire = mode in SUSPENDED_MODES and self.rng.random() < 0.3
            await schedules.disable(self.store, NAMESPACE, name, who=WHO, mode=mode, expire=expire)
        elif choose < 0.8:
            self.count("enabled")
            await schedules.enable(self.store, NAMESPACE, name, who=WHO)
        elif choose < 0.84:
            self.count("deleted")
            self.specs.pop(name)
            await schedules.delete(self.store, NAMESPACE, name, who=WHO)
        elif choose < 0.88:
            self.count("resized")
            await self._pool(self.rng.choice(("default", "narrow")), self.rng.randint(1, 4), None)
        elif choose < 0.92:
            await self._rerun()
        elif choose < 0.94:
            self.count("reprogrammed")
            await self._program(self.rng.choice(self.program_names))
        else:
            await self._cancel()

    async def _cancel(self) -> None:
        data = self.sim.store.data
        live = sorted(data.live)
        if live:
            self.count("cancelled")
            key = self.rng.choice(live)
            await runs.cancel(self.store, str(key), who=WHO)
            self.sim.cancels.append((key, self.sim.clock.instant))

    async def _rerun(self) -> None:
        data = self.sim.store.data
        ended = [key for key in sorted(data.run.rows)[-50:] if key not in data.live]
        if ended:
            self.count("rerun")
            await runs.rerun(self.store, str(self.rng.choice(ended)), who=WHO)

    async def _pool(self, name: str, slots: int, rate: tuple[int, Duration, int] | None) -> None:
        metadata = Metadata(namespace="", name=name, labels={})
        borrow = ("default", 1 + slots % 2) if name == "narrow" and self.size.gates else None
        await pools.put(self.store, Pool(metadata=metadata, slots=slots, rate=rate, borrow=borrow), who=WHO)

    async def _program(self, name: str) -> None:
        pool = self.rng.choice((None, None, "narrow"))
        number = self.rng.randrange(1000)
        spec: ProgramSpec = self.rng.choice(
            (
                Command(argv=("do", str(number)), pool=pool),
                Python(entry=f"m{number}:f", pool=pool),
                SparkSql(sql=f"SELECT {number}"),
            )
        )
        metadata = Metadata(namespace=NAMESPACE, name=name, labels={})
        await programs.put(self.store, Program(metadata=metadata, spec=spec, document={"n": number}), who=WHO)
        if name not in self.program_names:
            self.program_names.append(name)
            if self.rng.random() < 0.3:
                self.program_limits[name] = self.rng.randint(1, 2)

    async def _new_schedule(self) -> None:
        gone = [name for name in self.names if name not in self.specs]
        if gone and self.rng.random() < 0.5:
            name = self.rng.choice(gone)
        else:
            name = f"s{len(self.names) + 1}"
            self.names.append(name)
        spec = self.draw_spec(self.rng.choice(self.program_names))
        self.specs[name] = spec
        self.count("declared")
        await self._put(name, spec, enabled=self.rng.random() < 0.95)

    async def _edit(self, name: str) -> None:
        """A new trigger, new policies, or new arguments only."""
        self.count("edited")
        old = self.specs[name]
        new = self.draw_spec(old.program)
        if self.rng.random() < 0.5:
            new = replace(old, arguments={"n": self.rng.randrange(1000)})
        self.specs[name] = new
        await self._put(name, new, enabled=None, keep=self.rng.random() < 0.3)

    async def _put(self, name: str, spec: ScheduleSpec, *, enabled: bool | None, keep: bool = False) -> None:
        document = {"spec": repr(spec)} if enabled is None else {"spec": repr(spec), "enabled": enabled}
        declaration = Schedule(
            metadata=Metadata(namespace=NAMESPACE, name=name, labels={}), spec=spec, enabled=enabled, document=document
        )
        await schedules.put(
            self.store, declaration, who=WHO, on_update=OnUpdate.KEEP if keep else OnUpdate.RESET
        )  # fmt: skip

    # what can be declared
    def draw_spec(self, program: str) -> ScheduleSpec:
        rng = self.rng
        timeout = rng.choice((None, 20 * SECOND, MINUTE))
        return ScheduleSpec(
            program=program,
            trigger=self.draw_trigger(),
            arguments={"n": rng.randrange(1000)},
            priority=rng.choice((0, 50, 50, 50, 100)),
            groups=gating.groups(program) if self.size.gates else (),
            constraints=self._constraints(program),
            waiting=WaitingPolicy(
                runs=rng.choice((Waiting.ALL, Waiting.ALL, *Waiting)) if self.size.gates else Waiting.ALL,
                timeout=rng.choice((None, None, None, 2 * MINUTE)),
                then=rng.choice(tuple(ThenWaiting)),
            ),
            catch_up=CatchUp(
                policy=rng.choice(tuple(CatchUpPolicy)),
                grace=rng.choice((0, 5 * SECOND, MINUTE)),
                window=rng.choice((10 * MINUTE, HOUR)),
                max=rng.choice((3, 100)),
            ),
            retry=Retry(max_attempts=rng.randint(1, 3), delay=rng.choice((0, 5 * SECOND)), max_delay=MINUTE),
            timeout=Timeout(run=timeout, grace=rng.choice((2 * SECOND, 10 * SECOND))),
        )

    def _constraints(self, program: str) -> tuple[Constraint, ...]:
        rng = self.rng
        found: list[Constraint] = []
        if rng.random() < 0.8:
            found.append(Concurrency(max=rng.randint(1, 2), unmet=rng.choice((Unmet.WAIT, Unmet.WAIT, Unmet.SKIP))))
        if program in self.program_limits:
            found.append(Concurrency(max=self.program_limits[program], scope="program"))
        if self.size.gates:
            found += gating.constraints(rng, self.size.gates, program)
        return tuple(found)

    def draw_trigger(self) -> Trigger:
        rng, now = self.rng, self.sim.clock.instant
        jitter = rng.choice((0, 0, 0, 3 * SECOND))
        start = rng.choice((None, None, None, now + 5 * MINUTE))
        end = rng.choice((None, None, None, now + 40 * MINUTE))
        match rng.choice(("cron", "cron", "seconds", "interval", "interval", "after_finish", "at", "window")):
            case "cron":
                return Cron(
                    expression=rng.choice(("* * * * *", "*/2 * * * *", "*/5 * * * *", "3,17,40-44 * * * *")),
                    timezone=rng.choice(("UTC", "Europe/Berlin", "Australia/Lord_Howe")),
                    jitter=jitter, start=start, end=end,
                )  # fmt: skip
            case "seconds":
                return Cron(
                    expression=rng.choice(("*/20 * * * * *", "5 * * * * *", "10-50/20 */2 * * * *")),
                    seconds=True, jitter=jitter, start=start, end=end,
                )  # fmt: skip
            case "interval":
                anchor = rng.choice((None, now - 1_234_567))
                every = rng.choice(("PT15S", "PT47S", "PT3M"))
                return Interval(every=every, anchor=anchor, jitter=jitter, start=start, end=end)
            case "window":
                at = 12 * 60 + rng.randrange(60)
                return WindowDays(every_days=1, earliest=at, latest=at + 20, jitter=jitter)
            case "after_finish":
                return AfterFinish(delay=rng.choice((SECOND, 30 * SECOND)))
            case _:
                return At(time=now + rng.randrange(1, 1800) * SECOND, jitter=jitter)

    def count(self, what: str) -> None:
        self.done[what] = self.done.get(what, 0) + 1

    # as a process, for its gate
    def crash(self, *, at_once: bool) -> None:
        """People do not crash."""

    def freeze(self, span: Duration) -> None:
        self.frozen_until = self.sim.clock.instant + span

    def leave_politely(self) -> None:
        """They are never asked to."""

    def reboot(self) -> None:
        """Their machine is not looked at."""

    def lose_session(self) -> None:
        """They have none."""

    def wrote(self, transaction: Any) -> None:
        """Not under a fence."""

    def called(self, name: str, args: tuple[Any, ...], answer: Any) -> None:
        """Nothing that laws want to know."""
