"""A year of missed fires of a minutely schedule, decided: pass by pass until nothing is left, without a database."""

from __future__ import annotations

from time import perf_counter

from bench.figures import Figure, Say, at_most, median
from tidegate.domain.clocks import Due
from tidegate.domain.ids import ProgramId, ScheduleId
from tidegate.domain.instants import DAY, SECOND, Instant, parse_instant
from tidegate.domain.planning import plan
from tidegate.domain.programs import Command, ProgramRef
from tidegate.domain.schedules import CatchUp, CatchUpPolicy, Mode, Revision, ScheduleSpec
from tidegate.domain.triggers import Cron

FROM = parse_instant("2025-01-01T00:00:00Z")
NOW = FROM + 365 * DAY + 30 * SECOND
MINUTES = 365 * 24 * 60
CAP = 100  # catch-up launches of one pass, as the scheduler's setting
ROUNDS = 5


def measure(say: Say) -> list[Figure]:
    """Raises AssertionError when a fire is lost or doubled: a fast wrong answer is no figure."""
    everything = CatchUp(policy=CatchUpPolicy.ALL, window=400 * DAY, max=MINUTES)
    cases = (("latest", CatchUp(policy=CatchUpPolicy.LATEST), 1.0), ("all", everything, None))
    figures = []
    for name, policy, goal in cases:
        rounds = [_decide(policy) for _ in range(ROUNDS if goal else 1)]
        seconds, passes, ran, missed = min(rounds)
        say(f"{name}: {ran:,} run, {missed:,} missed, in {passes:,} passes")
        assert ran + missed == MINUTES, (ran, missed)
        how = f"{ran:,} run and {missed:,} missed in {passes:,} passes of at most {CAP}; planned only, not stored"
        figures.append(at_most(f"a missed year of minutes, {name}", median([one[0] for one in rounds]), "s", goal, how))
    return figures


def _decide(policy: CatchUp) -> tuple[float, int, int, int]:
    """Seconds, passes, fires that run and fires that do not."""
    spec = ScheduleSpec(program="noop", trigger=Cron(expression="* * * * *", timezone="Europe/Berlin"), catch_up=policy)
    due = Due(
        schedule_id=ScheduleId(1),
        name="bench/minutely",
        revisions=(Revision(schedule_id=ScheduleId(1), rev=1, valid_from=FROM, mode=Mode.ENABLED, spec=spec),),
        program=ProgramRef(id=ProgramId(1), rev=1, namespace="bench", name="noop", spec=Command(argv=("true",))),
        cursor=FROM,
        next_due=FROM + 60 * SECOND,
        last_fire=None,
        gap=None,
    )
    began = perf_counter()
    passes = ran = missed = 0
    at: Instant | None = due.next_due
    while at is not None and at <= NOW:
        (made,) = plan([due], now=NOW, cap=CAP)
        passes += 1
        ran += len(made.fires)
        missed += sum(stretch.n for stretch in made.missed)
        at = made.next_due
        due = due._replace(cursor=made.cursor, next_due=at or 0, last_fire=made.last_fire, gap=made.gap)
    return perf_counter() - began, passes, ran, missed
