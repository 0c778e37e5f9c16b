"""How fast the simulator is: on a calm system (ten minutely schedules, heartbeats every 10 s), and on a faulty one."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from time import process_time

from tidegate.control import programs, schedules
from tidegate.documents.declared import Program, Schedule
from tidegate.domain.instants import HOUR, MINUTE
from tidegate.domain.programs import Command
from tidegate.domain.schedules import ScheduleSpec
from tidegate.domain.triggers import Cron
from tidegate.ports.records import Metadata
from tidegate.sim.drive import finish
from tidegate.sim.process import IDLE
from tidegate.sim.run import Scenario, simulate
from tidegate.sim.workload import Size
from tidegate.sim.world import Simulation

SCHEDULES = 10


@dataclass(frozen=True, slots=True)
class Speed:
    fires: int
    seconds: float  # of one core


def measure(hours: float, schedulers: int = 0) -> Speed:
    """Ten minutely schedules, programs of a second, heartbeats every 10 s, no faults, for so many virtual hours; with
    so many schedulers and a worker, or all in one process (0)."""
    sim = Simulation(1, rates=None, pace=IDLE, together=not schedulers, schedulers=schedulers, workers=1)
    finish(_declare(sim))
    sim.store.data.pool.rows["default"].slots = SCHEDULES
    sim.start()
    gc.collect()
    gc.freeze()
    began = process_time()
    sim.run(int(hours * HOUR))
    seconds = process_time() - began
    gc.unfreeze()
    return Speed(len(sim.store.data.run.rows), seconds)


def measure_faulted() -> Speed:
    """A hundred schedules of every kind for ten virtual minutes, with faults at every call, laws included."""
    size = Size(schedules=100, programs=40, slots=60, every=MINUTE)
    scenario = Scenario(span=10 * MINUTE, settle=MINUTE, schedulers=2, workers=2, size=size)
    began = process_time()
    fires = sum(simulate(seed, scenario).fires for seed in range(3))
    return Speed(fires, process_time() - began)


async def _declare(sim: Simulation) -> None:
    for number in range(SCHEDULES):
        name = f"n{number}"
        metadata = Metadata(namespace="speed", name=name, labels={})
        program = Program(metadata=metadata, spec=Command(argv=("true",)), document={})
        await programs.put(sim.store, program, who="speed")
        spec = ScheduleSpec(program=name, trigger=Cron(expression="* * * * *"))
        schedule = Schedule(metadata=metadata, spec=spec, enabled=True, document={"enabled": True})
        await schedules.put(sim.store, schedule, who="speed")
