"""What people do about gates: constraints of every type, groups, calendars that change, freezes, readings.

Spans are short, so that in an hour many windows open and close, and many rates are used up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import TYPE_CHECKING

from tidegate.control import freezing
from tidegate.domain.calendars import Calendar
from tidegate.domain.constraints import (
    Blackout,
    Concurrency,
    Constraint,
    Delay,
    Load,
    MinInterval,
    Rate,
    Unmet,
    Window,
)
from tidegate.domain.instants import DAY, MINUTE, SECOND
from tidegate.domain.schedules import Mode
from tidegate.domain.windows import Span
from tidegate.ports.probing import Reading

if TYPE_CHECKING:
    from tidegate.sim.workload import People

RESTS = (Mode.DROP, Mode.KEEP, Mode.BACKLOG, Mode.HOLD)
CALENDAR = "holidays"
RESOURCES = ("cores", "lag")
GROUP_MOST = 2
"""What every schedule in a group says of it, so that laws know."""


def groups(program: str) -> tuple[str, ...]:
    """The groups of a schedule follow from its program."""
    return ("even",) if program.endswith(("0", "2", "4")) else ()


def constraints(rng: Random, likely: float, program: str) -> list[Constraint]:
    """Some of each type, most of which wait."""
    found: list[Constraint] = []
    if groups(program):
        found.append(Concurrency(max=GROUP_MOST, scope="group:even"))

    def perhaps(make: Callable[[Unmet], Constraint]) -> None:
        if rng.random() < likely:
            found.append(make(rng.choice((Unmet.WAIT, Unmet.WAIT, Unmet.WAIT, Unmet.SKIP))))

    perhaps(lambda unmet: Delay(duration=rng.choice((5, 40)) * SECOND, unmet=unmet))
    perhaps(lambda unmet: _window(rng, unmet))
    perhaps(lambda unmet: MinInterval(duration=rng.choice((20, 90)) * SECOND, unmet=unmet))
    perhaps(
        lambda unmet: Rate(
            max=rng.randint(1, 3),
            per=rng.choice((30 * SECOND, 2 * MINUTE)),
            scope=rng.choice(("schedule", "program")),
            unmet=unmet,
        )
    )
    perhaps(lambda unmet: Load(resource=rng.choice(RESOURCES), below=rng.choice((30.0, 70.0)), unmet=unmet))
    perhaps(lambda unmet: Load(resource="pool:default", below=70.0, unmet=unmet))
    perhaps(lambda unmet: Blackout(calendar=rng.choice((CALENDAR, CALENDAR, "missing")), unmet=unmet))
    return found


def _window(rng: Random, unmet: Unmet) -> Window:
    """A few minutes somewhere in the hours that are simulated, or all but these."""
    start = 12 * 60 + rng.randrange(rng.choice((8, 60)))
    span = rng.choice((1, 2, 3, 10, 1430))
    end = (start + span) % 1440 or 1440
    return Window(span=Span(start=start, end=end), stop_at_end=rng.random() < 0.5, unmet=unmet)


async def act(people: People) -> None:
    """Freeze, or let go; or change the calendar."""
    if people.rng.random() < 0.5:
        await put_calendar(people)
        return
    if await people.store.frozen() is None:
        people.count("frozen")
        await freezing.freeze(people.store, who="somebody", reason="a test")
    else:
        people.count("unfrozen")
        await freezing.unfreeze(people.store, who="somebody")


async def put_calendar(people: People) -> None:
    """Closed for a minute or ten from soon on, or not at all; sometimes the calendar goes."""
    people.count("calendar")
    rng, now = people.rng, people.sim.clock.instant
    begin = now + rng.randrange(60) * SECOND
    spans = ((begin, begin + rng.choice((MINUTE, 10 * MINUTE))),) if rng.random() < 0.7 else ()
    days = frozenset((now // DAY,)) if rng.random() < 0.1 else frozenset[int]()
    async with people.store.changing() as tx:
        at = await tx.now()
        if rng.random() < 0.1:
            await tx.delete_calendar(CALENDAR, at)
        else:
            await tx.put_calendar(Calendar(name=CALENDAR, days=days, spans=spans), {}, at)


class Readings:
    """`ports.probing.Probes`: numbers as they are drawn. Now and then there is none."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.every = dict.fromkeys(RESOURCES, 15 * SECOND)

    async def read(self, names: Collection[str]) -> Mapping[str, Reading]:
        found = {}
        for name in sorted(names):
            value = self.rng.choice((None, 10.0, 10.0, 50.0, 90.0))
            found[name] = Reading(value, "" if value is not None else "no answer")
        return found
