"""Resources are read, and who waits for one is judged again when it has a new reading."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest
from worlds import World, crank

from tidegate.domain.constraints import Load
from tidegate.domain.ids import RunKey
from tidegate.domain.instants import HOUR, SECOND, Duration
from tidegate.domain.runs import State
from tidegate.engine.outcome import Outcome, Topic
from tidegate.engine.prober import Prober
from tidegate.ports.probing import Reading

FAST, SLOW = 2 * SECOND, 30 * SECOND


@dataclass
class FakeProbes:
    """Readings that are set by hand."""

    every: Mapping[str, Duration]
    values: dict[str, Reading] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def read(self, names: Collection[str]) -> Mapping[str, Reading]:
        self.asked += names
        return {name: self.values.get(name, Reading(None, "no answer")) for name in names}


class Bench:
    """A world with a prober and an hourly schedule that wants a resource below a limit."""

    def __init__(self, resource: str, below: float, **pools: int) -> None:
        self.world = World(**pools)
        self.probes = FakeProbes({"cores": FAST, "lag": SLOW})
        self.prober = Prober(self.world.store, self.probes, self.world.fence)
        program = self.world.program()
        constraints = (Load(resource=resource, below=below),)
        due = self.world.now + HOUR
        self.schedule = self.world.schedule(program, due=due, constraints=constraints)
        self.other = self.world.schedule(program, "other", constraints=())
        self.busy = self.world.trigger(self.other)  # has a slot of the pool
        self.settle()
        self.world.pass_time(HOUR)
        self.world.step(self.world.timekeeper())
        self.run = RunKey(due, self.schedule, 0)

    def probe(self, *, after: Duration = 0) -> Outcome:
        self.world.pass_time(after)
        return self.world.step(self.prober)

    def settle(self) -> None:
        while self.world.step(self.world.admitter).left:
            pass

    def state(self) -> State:
        """After the admitter has looked."""
        self.settle()
        found: State = self.world.run(self.run).state
        return found


@pytest.mark.requirement("GATE-7", "GATE-13")
def test_a_run_waits_until_a_reading_is_below_its_limit() -> None:
    bench = Bench("cores", 50)
    bench.probes.values["cores"] = Reading(80.0)
    assert bench.state() is State.WAITING, "there is no reading yet"
    assert bench.probe().wakes == {Topic.ADMIT}
    assert bench.state() is State.WAITING
    bench.probes.values["cores"] = Reading(50.0)
    bench.probe(after=FAST)
    assert bench.state() is State.WAITING, "below means less than"
    bench.probes.values["cores"] = Reading(49.9)
    bench.probe(after=FAST)
    assert bench.state() is State.READY


@pytest.mark.requirement("GATE-7")
def test_what_cannot_be_read_holds_back_and_says_why() -> None:
    bench = Bench("cores", 50)
    bench.probes.values["cores"] = Reading(None, "it answered 500")
    outcome = bench.probe()
    assert "cores cannot be read: it answered 500" in outcome.notes
    assert bench.state() is State.WAITING
    record = crank(bench.world.store.run(bench.run))
    assert record is not None and "it answered 500" in record.waiting_for[0]["why"]
    assert bench.probe(after=FAST).notes == (), "told once"
    bench.probes.values["cores"] = Reading(1.0)
    assert bench.probe(after=FAST).notes == ("cores can be read again.",)
    assert bench.state() is State.READY


@pytest.mark.requirement("GATE-7")
def test_a_resource_that_no_probe_reads_is_named_with_the_remedy() -> None:
    bench = Bench("coers", 50)
    assert bench.state() is State.WAITING
    bench.probe()
    assert bench.state() is State.WAITING
    record = crank(bench.world.store.run(bench.run))
    assert record is not None and "[probes.coers]" in record.waiting_for[0]["why"]


def test_each_probe_is_read_by_its_own_clock_whether_somebody_waits_or_not() -> None:
    bench = Bench("cores", 50)
    for _ in range(31):
        bench.probe(after=SECOND)
    assert bench.probes.asked.count("cores") == 16
    assert bench.probes.asked.count("lag") == 2


@pytest.mark.requirement("GATE-7")
def test_a_pool_that_gets_emptier_lets_go_on_who_waits_for_that() -> None:
    bench = Bench("pool:default", 50, default=2)
    assert bench.state() is State.WAITING, "one of two slots is in use"
    bench.probe()
    assert bench.state() is State.WAITING
    bench.world.cancel(bench.busy)
    bench.probe(after=SECOND)
    assert bench.state() is State.READY


def test_a_pool_that_does_not_change_is_written_down_only_now_and_then() -> None:
    bench = Bench("pool:default", 0.5, default=2)
    assert bench.state() is State.WAITING
    bench.probes.every = {}
    told = [bench.probe(after=SECOND).did for _ in range(30)]
    assert sum(told) == 3 and told[0] == 1


def test_one_of_two_probers_works_and_the_other_takes_over() -> None:
    bench = Bench("cores", 50)
    bench.probes.values["cores"] = Reading(10.0)
    assert bench.probe().did
    world, probes = bench.world, FakeProbes({"cores": FAST})
    fence = crank(world.store.register(role="scheduler", name="two", host="h", pid=2, now=world.now))
    second = Prober(world.store, probes, fence)
    assert world.step(second).did == 0 and probes.asked == []
    crank(world.store.leave(world.fence, world.now))
    world.pass_time(10 * SECOND)
    assert world.step(second).did == 1
