"""Swarm: each seed draws its own mix of faults and options, so that seeds do not all try the same.

A single rich mix hides things: where everything fails all the time nothing gets far, and a fault that always comes with
another is never seen alone. So each kind of fault is left out in half of the seeds and up to four times as frequent in
some; processes, schedules, gates, feeds, habits of programs and the pace of the parts are drawn too.

`Coverage` adds up which kinds of faults struck at which calls, over all seeds: what was never tried is not proven.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from random import Random
from textwrap import fill
from typing import Any

from tidegate.domain.instants import MILLISECOND, MINUTE, SECOND, Duration
from tidegate.domain.schedules import Mode
from tidegate.engine.membership import MembershipSettings
from tidegate.engine.supervisor import SupervisorSettings
from tidegate.engine.timekeeper import TimekeeperSettings
from tidegate.sim.backend import ROUGH
from tidegate.sim.faults import USUAL, Rates, Tally
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
            sinks=rng.random() < 0.4,
            backfills=rng.choice((0.0, 0.0, 0.1, 0.4)),
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
    drawn: dict[str, Any] = {}
    for one in fields(Rates):
        usual = getattr(USUAL, one.name)
        if isinstance(usual, float):
            drawn[one.name] = usual * rng.choice((0.0, 0.0, 0.0, 1.0, 2.0, 4.0))
    freezes = rng.choice((USUAL.freezes, (0.1, 1.0), (15.0, 60.0)))
    restarts = rng.choice((USUAL.restarts, (0.05, 0.5), (10.0, 60.0)))
    drawn["first"], drawn["lag"] = rng.choice((0.0, 0.5)), rng.choice((0, 0, 0, 2 * SECOND))
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
    """Which kinds of faults struck at which calls of a port, of all calls that were made."""

    struck: Counter[tuple[str, str]] = field(default_factory=Counter)
    made: Counter[str] = field(default_factory=Counter)

    def add(self, tally: Tally) -> None:
        self.struck.update(tally.points)
        self.made.update(tally.made)

    @property
    def calls(self) -> list[str]:
        return sorted({*self.made, *(call for _, call in self.struck)})

    @property
    def kinds(self) -> list[str]:
        return sorted({kind for kind, _ in self.struck})

    def never(self) -> list[tuple[str, str]]:
        """Kinds that can strike at any call, and calls at which they did not. What belongs to certain calls only (an
        answer lost, a backend that fails) is left out."""
        return [(kind, call) for kind in self._anywhere() for call in self.calls if not self.struck[kind, call]]

    def spared(self) -> list[str]:
        """Calls that were made, and at which nothing ever struck."""
        by_call = self._by_call()
        return [call for call in self.calls if not by_call[call]]

    def _anywhere(self) -> Iterable[str]:
        return [kind for kind in self.kinds if "." not in kind]

    def _by_call(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for (_, call), count in self.struck.items():
            found[call] += count
        return found

    def told(self) -> str:
        """How much was tried, and each call with how often something struck there, the least first."""
        anywhere, never, by_call = list(self._anywhere()), self.never(), self._by_call()
        possible = len(anywhere) * len(self.calls)
        each = ", ".join(f"{call} {by_call[call]}" for call in sorted(self.calls, key=lambda one: (by_call[one], one)))
        return (
            f"fault points: {possible - len(never)} of {possible} were struck "
            f"({len(anywhere)} kinds of faults x {len(self.calls)} calls of ports), {sum(self.struck.values())} times\n"
            + fill(each, width=120, initial_indent="  ", subsequent_indent="  ")
        )
