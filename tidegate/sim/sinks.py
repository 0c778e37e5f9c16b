"""What sinks stand for, outside: targets that are slow, down, take a part, or whose answer is lost.

What arrived stays on record for the laws. What a process had under way arrives although it died meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from tidegate.control import sinks
from tidegate.documents.declared import Sink
from tidegate.domain.instants import SECOND
from tidegate.domain.sinks import SinkSpec
from tidegate.ports.records import Metadata
from tidegate.ports.sinks import Delivery, Message
from tidegate.sim.faults import NONE

if TYPE_CHECKING:
    from tidegate.sim.process import Process
    from tidegate.sim.workload import People

DECLARED = {"all": ("*",), "ends": ("run.succeeded", "run.failed", "run.crashed")}
DOWN, PARTLY, PIECEMEAL = 0.1, 0.2, 0.4
SLOWEST = 3 * SECOND


async def declare(people: People, name: str) -> None:
    """One of them."""
    spec = SinkSpec(type="webhook", url="http://example.org", topics=DECLARED[name])
    declaration = Sink(metadata=Metadata(namespace="", name=name, labels={}), spec=spec, document={"spec": {}})
    await sinks.put(people.store, declaration, who="somebody")


@dataclass(slots=True)
class Targets:
    """What arrived at each: (position, lane, instant), in order."""

    rng: Random
    got: dict[str, list[tuple[int, str, int]]] = field(default_factory=dict)


class SimSinks:
    """A process's way to the targets."""

    def __init__(self, targets: Targets, process: Process) -> None:
        self.targets = targets
        self.process = process

    def open(self, name: str, spec: SinkSpec) -> SimSink:
        return SimSink(self, self.targets.got.setdefault(name, []))


class SimSink:
    def __init__(self, way: SimSinks, got: list[tuple[int, str, int]]) -> None:
        self._way = way
        self._got = got
        self._done: Delivery | None = None

    def begin(self, messages: Sequence[Message]) -> None:
        rng, sim = self._way.targets.rng, self._way.process.sim
        fate = rng.random() if sim.rates is not NONE else 1.0
        told = arrives = len(messages)
        if fate < DOWN:
            told = arrives = 0
        elif fate < PARTLY:
            told = rng.randint(0, len(messages))
            arrives = rng.randint(told, len(messages))  # an answer may be lost
        fault = "" if told == len(messages) else "it is gone."
        if PARTLY <= fate < PIECEMEAL and len(messages) > 1:  # it works, and takes some at a time
            told = arrives = rng.randint(1, len(messages))

        def end() -> None:
            self._got.extend((int(one.id), one.lane, one.at) for one in messages[:arrives])
            self._done = Delivery(passed=told, fault=fault)
            if self._way.process.alive:
                self._way.process.backend_news()

        sim.driver.at(sim.clock.instant + int(rng.random() ** 2 * SLOWEST), end)

    def result(self) -> Delivery | None:
        done, self._done = self._done, None
        return done

    async def close(self) -> None:
        """What is under way arrives all the same."""
