"""Publishers, and people who declare triggers that wait for what they publish: data, events, programs, silence.

Drawn from the seed and met by every fault, as `workload` is; in a namespace of their own. What is published without an
answer is published again under its id, as publishers do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from tidegate.control import events, programs, runs, schedules
from tidegate.control.common import OnUpdate
from tidegate.documents.declared import Program, Schedule
from tidegate.domain.errors import TidegateError
from tidegate.domain.instants import MINUTE, SECOND, Duration, Instant
from tidegate.domain.programs import Command
from tidegate.domain.schedules import Concurrency, Constraint, Mode, ScheduleSpec, Waiting, WaitingPolicy
from tidegate.domain.triggers import (
    All,
    AnyOf,
    Cron,
    DataSize,
    Elapsed,
    Happened,
    NOf,
    Partition,
    ProgramStatus,
    Quiet,
    Since,
    Then,
    Trigger,
)
from tidegate.ports.collecting import NewEvent
from tidegate.ports.records import Metadata
from tidegate.sim.drive import Sleep
from tidegate.sim.workload import People, Size

if TYPE_CHECKING:
    from tidegate.sim.world import Simulation

SPACE = "feeds"
WHO = "somebody"
DATASETS = ("lake.raw.orders", "lake.raw.flights")
PROGRAMS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Feeds:
    """How many schedules wait, how often something is published, and how often somebody changes a schedule."""

    schedules: int = 8
    every: Duration = 4 * SECOND
    change: Duration = 2 * MINUTE
    rests: tuple[Mode, ...] = (Mode.DROP,)
    """How schedules are disabled."""


class Feeders(People):
    """A publisher and those who wait for it, in one: everything they do is one thing after the other."""

    def __init__(self, sim: Simulation, rng: Random, feeds: Feeds, name: str = "feed") -> None:
        super().__init__(sim, rng, Size())
        self.feeds = feeds
        self.name = name
        self.trees: dict[str, ScheduleSpec] = {}
        self.numbers = 0
        self.snapshots = dict.fromkeys(DATASETS, 0)

    async def declare(self) -> None:
        for number in range(PROGRAMS):
            await self.insist(partial(self._program, f"f{number}"))
        for _ in range(self.feeds.schedules):
            await self.insist(self._tree)

    async def live(self, until: Instant) -> None:
        share = self.feeds.every / (self.feeds.every + self.feeds.change)
        pause = self.feeds.every * (1 - share)
        while True:
            await Sleep(int(self.rng.expovariate(1 / pause)) + 1)
            if self.sim.clock.instant >= until:
                return
            try:
                if self.rng.random() < share:
                    await self._change()
                else:
                    await self._publish()
            except TidegateError as error:
                self.count(f"answered {error.code}")

    async def publish(self, until: Instant) -> None:
        """Nothing but publishing."""
        while self.sim.clock.instant < until:
            await Sleep(int(self.rng.expovariate(1 / self.feeds.every)) + 1)
            try:
                await self._publish()
            except TidegateError as error:
                self.count(f"answered {error.code}")

    # publishing
    async def _publish(self) -> None:
        """One transaction of one to five events, again and again until it is answered."""
        batch = [self._event() for _ in range(self.rng.choice((1, 1, 1, 2, 5)))]
        for _ in range(5):
            try:
                receipts = await events.publish(self.store, batch)
            except TidegateError as error:
                self.count(f"answered {error.code}")
                await Sleep(int(self.rng.random() * SECOND))
                continue
            self.count("published")
            self.sim.published.extend(zip(batch, receipts, strict=True))
            return

    def _event(self) -> NewEvent:
        rng = self.rng
        self.numbers += 1
        number = f"e{self.numbers}"
        if rng.random() < 0.5:
            payload = {"size": rng.choice(("small", "large")), "n": self.numbers}
            which = rng.choice(("user.landed", "user.landed", "user.left"))
            return NewEvent(type=which, key=f"{SPACE}/{rng.choice('ab')}", payload=payload, id=number, source=self.name)
        dataset = rng.choice(DATASETS)
        before = self.snapshots[dataset]
        self.snapshots[dataset] += 1
        names = [f"day={rng.randrange(40)}" for _ in range(rng.randrange(3))]
        told = {
            "rows": rng.randrange(50),
            "bytes": rng.randrange(5000),
            "partitions_added": names,
            "snapshot": before + 1,
            "previous_snapshot": before,
        }
        return NewEvent(type="dataset.updated", key=dataset, payload=told, id=number, source=self.name)

    # waiting for it
    async def _program(self, name: str) -> None:
        metadata = Metadata(namespace=SPACE, name=name, labels={})
        await programs.put(self.store, Program(metadata=metadata, spec=Command(argv=(name,)), document={}), who=WHO)

    async def _change(self) -> None:
        choose, name = self.rng.random(), self.rng.choice(sorted(self.trees) or ["t1"])
        if choose < 0.15 or name not in self.trees:
            await self._tree()
        elif choose < 0.35:
            self.count("tree edited")
            other = replace(self.trees[name], arguments={"n": self.rng.randrange(1000)})
            await self._declare_tree(name, other if self.rng.random() < 0.5 else self.draw(), None)
        elif choose < 0.55:
            self.count("tree disabled")
            await schedules.disable(self.store, SPACE, name, who=WHO, mode=self.rng.choice(self.feeds.rests))
        elif choose < 0.8:
            self.count("tree enabled")
            await schedules.enable(self.store, SPACE, name, who=WHO)
        elif choose < 0.9:
            self.count("tree triggered")
            await runs.trigger(self.store, SPACE, name, who=WHO)
        elif choose < 0.93:
            self.count("tree deleted")
            del self.trees[name]
            await schedules.delete(self.store, SPACE, name, who=WHO)
        else:
            await self._cancel_or_rerun()

    async def _cancel_or_rerun(self) -> None:
        data = self.sim.store.data
        mine = [key for key in sorted(data.run.rows) if data.schedule.rows[key.schedule_id].metadata.namespace == SPACE]
        live = [key for key in mine if key in data.live]
        if live and self.rng.random() < 0.5:
            self.count("tree's run cancelled")
            key = self.rng.choice(live)
            await runs.cancel(self.store, str(key), who=WHO)
            self.sim.cancels.append((key, self.sim.clock.instant))
        elif ended := [key for key in mine[-50:] if key not in data.live]:
            self.count("tree's run again")
            await runs.rerun(self.store, str(self.rng.choice(ended)), who=WHO)

    async def _tree(self) -> None:
        self.count("tree declared")
        await self._declare_tree(f"t{self.done['tree declared']}", self.draw(), True)

    async def _declare_tree(self, name: str, spec: ScheduleSpec, enabled: bool | None) -> None:
        document = {"spec": repr(spec)} if enabled is None else {"spec": repr(spec), "enabled": enabled}
        metadata = Metadata(namespace=SPACE, name=name, labels={})
        declaration = Schedule(metadata=metadata, spec=spec, enabled=enabled, document=document)
        self.trees[name] = spec
        await schedules.put(self.store, declaration, who=WHO, on_update=OnUpdate.RESET)

    def draw(self) -> ScheduleSpec:
        """A tree, and how its runs wait."""
        rng = self.rng
        limits: tuple[Constraint, ...] = (Concurrency(max=1),) if rng.random() < 0.7 else ()
        return ScheduleSpec(
            program=f"f{rng.randrange(PROGRAMS)}",
            trigger=self.draw_tree(2),
            arguments={"n": rng.randrange(1000)},
            constraints=limits,
            waiting=WaitingPolicy(
                runs=rng.choice((Waiting.MERGE, Waiting.ALL, Waiting.ALL, Waiting.LATEST)),
                timeout=rng.choice((None, None, None, 20 * SECOND)),
                max=rng.choice((3, 1000)),
            ),
        )

    def draw_tree(self, depth: int) -> Trigger:
        rng = self.rng
        if depth and rng.random() < 0.6:
            inner = tuple(self.draw_tree(depth - 1) for _ in range(rng.choice((2, 2, 3))))
            wait = rng.choice((None, 20 * SECOND, MINUTE))
            match rng.choice(("all", "any", "any", "n_of", "quiet", "timed")):
                case "all":
                    return All(triggers=inner, max_wait=wait, then=rng.choice((Then.RUN, Then.RUN, Then.DISCARD)))
                case "any":
                    return AnyOf(triggers=inner)
                case "n_of":
                    return NOf(n=2, triggers=inner)
                case "quiet":
                    return Quiet(trigger=inner[0], silence=rng.choice((5 * SECOND, 15 * SECOND)), max_wait=wait)
                case _:
                    tick = Cron(expression=rng.choice(("* * * * *", "*/2 * * * *")), latch=rng.choice((None, 0)))
                    both = All(triggers=(tick, self.draw_leaf()))
                    return rng.choice((both, AnyOf(triggers=(tick, self.draw_leaf())), AnyOf(triggers=(tick, both))))
        return self.draw_leaf()

    def draw_leaf(self) -> Trigger:
        rng = self.rng
        dataset = rng.choice(DATASETS)
        match rng.choice(("event", "event", "size", "partition", "program", "since_run", "since_event")):
            case "event":
                return Happened(
                    event="user.landed",
                    key=rng.choice((None, f"{SPACE}/a")),
                    match=rng.choice((None, {"size": "large"})),
                    count=rng.choice((1, 2, 3, 7)),
                )
            case "size":
                return DataSize(dataset=dataset, rows=rng.choice((None, 100)), bytes=rng.choice((2_000, 20_000)))
            case "partition":
                return Partition(dataset=dataset, count=rng.choice((1, 4)))
            case "program":
                outcomes = rng.choice((("succeeded",), ("failed", "crashed", "cancelled"), ("started",)))
                return ProgramStatus(program=f"sim/p{rng.randrange(3)}", outcomes=outcomes, count=rng.choice((1, 3)))
            case "since_run":
                return Elapsed(since=Since.LAST_RUN, after=rng.choice((30 * SECOND, 2 * MINUTE)))
            case _:
                after = rng.choice((10 * SECOND, 30 * SECOND))
                return Elapsed(since=Since.LAST_EVENT, after=after, event="user.left")
