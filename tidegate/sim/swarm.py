"""Swarm: each seed draws its own mix of faults and options, so that seeds do not all try the same.

A single rich mix hides things: where everything fails all the time nothing gets far, and a fault that always comes with
another is never seen alone. So each kind of fault is left out in half of the seeds and up to four times as frequent in
some; processes, schedules, gates, feeds, habits of programs and the pace of the parts are drawn too.

`Coverage` adds up which kinds of faults struck at which calls, over all seeds: what was never tried is not proven.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from random import Random

from tidegate.domain.instants import MILLISECOND, MINUTE, SECOND, Duration
from tidegate.domain.schedules import Mode
from tidegate.engine.membership import MembershipSettings
from tidegate.engine.supervisor import SupervisorSettings
from tidegate.engine.timekeeper import TimekeeperSettings
from tidegate.sim.backend import ROUGH
from tidegate.sim.faults import USUAL, Rates
from tidegate.sim.feeds import Feeds
from tidegate.sim.process import Pace, new_rng
from tidegate.sim.run import Scenario
from tidegate.sim.workload import Size


def mix(seed: int, span: Duration) -> Scenario:
    """What this seed is tried on, for that much virtual time."""
    rng = new_rng(seed, "swarm")
    return Scenario(
        span=span,
        schedulers=rng.choice((1, 2, 3, 3)),
        workers=rng.choice((1, 2, 4)),
        size=Size(
            schedules=rng.choice((3, 6, 12, 25)),
            programs=rng.choice((1, 3, 8)),
            slots=rng.choice((1, 3, 8)),
            every=rng.choice((5 * SECOND, 30 * SECOND, 5 * MINUTE)),
            gates=rng.choice((0.0, 0.0, 0.05, 0.3)),
        ),
        feeds=_feeds(rng),
        rates=_rates(rng),
        habits=replace(
            ROUGH, fails=rng.choice((0.0, ROUGH.fails, 0.6)), longest=rng.choice((2 * SECOND, ROUGH.longest))
        ),
        pace=_pace(rng),
    )


def _rates(rng: Random) -> Rates:
    """Of each kind none, the usual, or several times as many."""
    drawn = {}
    for one in fields(Rates):
        usual = getattr(USUAL, one.name)
        if isinstance(usual, float):
            drawn[one.name] = usual * rng.choice((0.0, 0.0, 0.0, 1.0, 2.0, 4.0))
    freezes = rng.choice((USUAL.freezes, (0.1, 1.0), (15.0, 60.0)))
    restarts = rng.choice((USUAL.restarts, (0.05, 0.5), (10.0, 60.0)))
    return replace(USUAL, **drawn, freezes=freezes, restarts=restarts)


def _feeds(rng: Random) -> Feeds | None:
    if rng.random() < 0.5:
        return None
    return Feeds(
        schedules=rng.choice((3, 10)),
        every=rng.choice((2 * SECOND, 20 * SECOND)),
        change=rng.choice((20 * SECOND, 3 * MINUTE)),
        rests=rng.choice(((Mode.DROP,), tuple(Mode)[1:])),
    )


def _pace(rng: Random) -> Pace:
    """How impatient processes are with each other, and how much one pass does."""
    heartbeat, patience = rng.choice(((SECOND, 5 * SECOND), (4 * SECOND, 12 * SECOND), (10 * SECOND, 30 * SECOND)))
    look = rng.choice((250 * MILLISECOND, 5 * SECOND))
    return Pace(
        poll=rng.choice((SECOND, 10 * SECOND)),
        membership=MembershipSettings(heartbeat=heartbeat, look=look, patience=patience),
        supervisor=SupervisorSettings(look=rng.choice((SECOND, 8 * SECOND)), poll=rng.choice((SECOND, 8 * SECOND))),
        timekeeper=TimekeeperSettings(batch=rng.choice((1, 7, 500)), catch_up_per_pass=rng.choice((2, 100))),
    )


@dataclass(slots=True)
class Coverage:
    """Which kinds of faults struck at which calls of a port."""

    struck: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, points: Mapping[tuple[str, str], int]) -> None:
        self.struck.update(points)

    @property
    def calls(self) -> list[str]:
        return sorted({call for _, call in self.struck})

    @property
    def kinds(self) -> list[str]:
        return sorted({kind for kind, _ in self.struck})

    def never(self) -> list[tuple[str, str]]:
        """Kinds that can strike at any call, and calls at which they did not. What belongs to certain calls only (an
        answer lost, a backend that fails) is left out."""
        return [(kind, call) for kind in self._anywhere() for call in self.calls if not self.struck[kind, call]]

    def _anywhere(self) -> Iterable[str]:
        return [kind for kind in self.kinds if "." not in kind]

    def told(self) -> str:
        """In a few lines."""
        anywhere, calls, never = list(self._anywhere()), self.calls, self.never()
        possible = len(anywhere) * len(calls)
        missing = Counter(call for _, call in never)
        lines = [
            f"fault points: {possible - len(never)} of {possible} were struck "
            f"({len(anywhere)} kinds of faults x {len(calls)} calls of ports), {sum(self.struck.values())} times"
        ]
        if missing:
            least = ", ".join(f"{call} ({count})" for call, count in missing.most_common(8))
            lines.append(f"  least tried (kinds that never struck there): {least}")
        return "\n".join(lines)
