"""How fast the simulator is: calm, as a multiple of real time, and faulted, in fires a second of one core."""

from __future__ import annotations

from bench.figures import Figure, Say, at_least
from tidegate.sim import speed

HOURS = 10.0


def measure(say: Say) -> list[Figure]:
    """Both in processor time, since the machine may be shared."""
    say(f"{HOURS:.0f} calm virtual hours")
    calm, shared = speed.measure(HOURS), speed.measure(HOURS, schedulers=3)
    say("faults at every call, laws included")
    faulted = speed.measure_faulted()
    return [
        at_least("simulator, calm", HOURS * 3600 / calm.seconds, "x real time", 100_000, "ten minutely schedules"),
        at_least("simulator, three schedulers", HOURS * 3600 / shared.seconds, "x real time", 100_000, "and a worker"),
        at_least("simulator, faulted", faulted.fires / faulted.seconds, "fires/s", 2_000, "three seeds, laws checked"),
    ]
