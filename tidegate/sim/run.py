"""One simulated history from one seed: build the world, let it live, let it come to rest, take the testimony."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from tidegate.domain.errors import TidegateError
from tidegate.domain.instants import HOUR, MINUTE, Duration, Instant
from tidegate.domain.runs import Cause
from tidegate.sim.backend import CALM, ROUGH, Habits
from tidegate.sim.clock import VirtualClock
from tidegate.sim.faults import NONE, USUAL, FaultyStore, Gate, Rates, Tally
from tidegate.sim.feeds import Feeders, Feeds
from tidegate.sim.gating import Readings
from tidegate.sim.history import History, Violation, observe, snapshot
from tidegate.sim.laws import judge
from tidegate.sim.memory import MemoryStore
from tidegate.sim.process import Pace, Parts, new_rng
from tidegate.sim.sinks import Targets
from tidegate.sim.workload import People, Size
from tidegate.sim.world import Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What a seed is let loose on. The seed itself varies how often things go wrong."""

    span: Duration = HOUR
    settle: Duration = 2 * MINUTE
    """How long the calm after the faults lasts before what lives is looked at, and again until it is looked at anew."""
    faults: bool = True
    schedulers: int | None = None
    """None: one to three, as the seed says."""
    workers: int | None = None
    """None: one to four, on two hosts where there are more than two."""
    size: Size = Size()
    feeds: Feeds | None = None
    """What is published, and who waits for it; None: nothing."""
    rates: Rates = USUAL
    habits: Habits = ROUGH
    pace: Pace = Pace()
    parts: Parts = Parts()
    store: Callable[[VirtualClock], MemoryStore] = MemoryStore


@dataclass(frozen=True, slots=True)
class Verdict:
    history: History
    violations: tuple[Violation, ...]
    asked: dict[str, int]  # what people did
    tally: Tally = field(default_factory=Tally)

    @property
    def decided(self) -> int:
        """Fires of clocks that have an outcome, one by one."""
        history = self.history
        return sum(run.cause is Cause.FIRE for run in history.runs) + sum(one.n for one in history.stretches)

    @property
    def fires(self) -> int:
        return len(self.history.runs)


def simulate(seed: int, scenario: Scenario = Scenario()) -> Verdict:
    """The history of one seed, judged."""
    rng = new_rng(seed, "people")
    schedulers = scenario.schedulers or rng.choice((1, 2, 2, 3))
    workers = scenario.workers or rng.choice((1, 2, 2, 4))
    rates = scenario.rates.scaled(rng.choice((0.3, 1.0, 1.0, 2.0))) if scenario.faults else None
    sim = Simulation(
        seed,
        schedulers=schedulers,
        workers=workers,
        rates=rates if rates is not None else NONE,
        habits=scenario.habits if scenario.faults else CALM,
        pace=scenario.pace,
        parts=scenario.parts,
        store=scenario.store,
    )
    if scenario.size.gates:
        sim.probes = Readings(new_rng(seed, "readings"))
    if scenario.size.sinks:
        sim.targets = Targets(new_rng(seed, "sinks"))
    sim.backfills = scenario.size.backfills > 0
    people = settle_people(sim, rng, scenario.size)
    until = sim.clock.instant + scenario.span

    async def live() -> None:
        await people.declare()
        await people.live(until)

    sim.start()
    sim.driver.spawn(live(), people, _ended(sim))
    if scenario.feeds is not None:
        feeders = Feeders(sim, new_rng(seed, "feeds"), scenario.feeds)
        settle(sim, feeders)
        sim.driver.spawn(_feed(feeders, until), feeders, _ended(sim))
        other = Feeders(sim, new_rng(seed, "other feeds"), scenario.feeds, "other")
        settle(sim, other)
        sim.driver.spawn(other.publish(until), other, _ended(sim))
        people.done = other.done = feeders.done
    sim.run(scenario.span)

    sim.calm(scenario.settle)
    first = snapshot(sim)
    sim.run(scenario.settle)
    history = observe(sim, (first, snapshot(sim)))
    return Verdict(history, tuple(judge(history)), dict(sorted(people.done.items())), sim.tally)


def settle_people(sim: Simulation, rng: Random, size: Size) -> People:
    """People whose requests meet every fault but their own death."""
    people = People(sim, rng, size)
    settle(sim, people)
    return people


def settle(sim: Simulation, people: People) -> None:
    """Give them a gate of their own."""
    gate = Gate(
        people, sim.rng, replace(sim.rates, crash=0.0, vanish=0.0, session=0.0, leave=0.0, reboot=0.0), sim.tally
    )
    people.store = FaultyStore(gate, sim.store)
    sim.gates.append(gate)


async def _feed(feeders: Feeders, until: Instant) -> None:
    await feeders.declare()
    await feeders.live(until)


def _ended(sim: Simulation) -> Callable[[object, BaseException | None], None]:
    def ended(result: object, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, TidegateError):
            sim.fault("people", error)

    return ended
