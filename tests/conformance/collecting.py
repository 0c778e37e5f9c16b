"""What the laws of collecting are told in: somebody listens, somebody publishes, the engine's own parts look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conformance.worlds import TRUE, World, plan_of
from tidegate.domain.collected import Tick
from tidegate.domain.fires import ticking
from tidegate.domain.ids import ScheduleId
from tidegate.domain.instants import SECOND, Instant
from tidegate.domain.programs import ProgramSpec
from tidegate.domain.progress import advance
from tidegate.domain.schedules import Mode, Waiting, WaitingPolicy
from tidegate.domain.triggers import Happened, Trigger
from tidegate.engine.admitter import Admitter
from tidegate.engine.matcher import Matcher
from tidegate.ports.collecting import Collected, NewEvent, Receipt
from tidegate.ports.records import ClockState, RunRecord

LANDED = "user.landed"
KEY = "sales/eu"
ALL_RUNS = WaitingPolicy(runs=Waiting.ALL)
MERGING = WaitingPolicy(runs=Waiting.MERGE)


def landed(count: int = 1, key: str | None = KEY, match: Any = None) -> Happened:
    return Happened(event=LANDED, key=key, count=count, match=match)


async def listen(
    world: World,
    name: str,
    trigger: Trigger,
    *,
    program: str = "job",
    spec: ProgramSpec = TRUE,
    waiting: WaitingPolicy = ALL_RUNS,
    now: Instant | None = None,
    **said: Any,
) -> ScheduleId:
    """An enabled schedule whose tree collects from `now` on."""
    number = await world.schedule(name, due=None, trigger=trigger, program=program, spec=spec, waiting=waiting, **said)
    await reset(world, number, world.start if now is None else now)
    return number


async def reset(world: World, schedule: ScheduleId, now: Instant) -> None:
    async with world.store.changing() as tx:
        await tx.reset_progress(schedule, now)


async def switch(world: World, name: str, mode: Mode, now: Instant) -> None:
    """As a person enables and disables: a revision, then its progress."""
    async with world.store.changing() as tx:
        [one] = await tx.lock_schedules("sales", [name])
        await tx.revise_schedule(
            one.id, one.spec, {}, program=one.program.id, mode=mode, reason="", author="ann", valid_from=now,
            clock=ClockState(cursor=now, cursor_rev=one.rev + 1, next_due=None),
        )  # fmt: skip
        await tx.reset_progress(one.id, now)


def event(key: str = KEY, type: str = LANDED, **said: Any) -> NewEvent:
    about = {name: said.pop(name) for name in ("id", "source", "time") if name in said}
    return NewEvent(type=type, key=key, payload=said, **about)


def commit(table: str, snapshot: int, *, rows: int = 10, bytes: int = 1000, before: int | None = None) -> NewEvent:
    """New data in a table."""
    said: dict[str, Any] = {"snapshot": snapshot, "rows": rows, "bytes": bytes, "partitions_added": [f"d={snapshot}"]}
    if before is not None:
        said["previous_snapshot"] = before
    return NewEvent(type="dataset.updated", key=table, payload=said, source="watcher")


async def publish(world: World, *events: NewEvent, now: Instant | None = None) -> Sequence[Receipt]:
    async with world.store.changing() as tx:
        found: Sequence[Receipt] = await tx.publish(list(events), world.start if now is None else now)
        return found


async def match(world: World, now: Instant | None = None) -> int:
    """The matcher until nothing is left for it; how many trees it advanced."""
    matcher = Matcher(world.store, world.scheduler)
    done = 0
    for _ in range(100):
        outcome = await matcher.step(world.start if now is None else now)
        assert not outcome.notes, outcome.notes
        done += outcome.did
        if not outcome.did and not await world.store.inbox_waits():
            return done
    raise AssertionError("the matcher comes to no end")


async def tick(world: World, tree: Trigger, now: Instant, fires: int) -> None:
    """The timekeeper, once: so many fires of the one clock that is due, each a second after the one before."""
    async with world.store.transaction(world.scheduler) as tx:
        [due] = await tx.claim_due(now, 10)
        plan = plan_of(due, fires=fires, next_in=SECOND)
        times = [one.fire_time for one in plan.fires]
        [one] = await tx.collections([due.schedule_id], now, {due.schedule_id: times[0]})
        ticks = [Tick(at=at, nodes=ticking(tree, at)) for at in times]
        done = advance(tree, one.progress, one.bulk, (*one.given, *ticks), one.facts)
        await tx.record([plan], now)
        await tx.collect([Collected(collecting=one, advance=done, ticks=frozenset(times))], now)


async def admit(world: World, now: Instant) -> None:
    """The admitter, once: it closes the input of what goes."""
    outcome = await Admitter(world.store, world.scheduler).step(now)
    assert not outcome.notes, outcome.notes


async def runs(world: World, schedule: str) -> list[RunRecord]:
    """Runs of a schedule, oldest first."""
    page, _ = await world.store.runs("sales", schedule=schedule, states=[], since=None, before=None, limit=1000)
    return sorted([await world.record(one.key) for one in page], key=lambda run: run.key)


def counted(run: RunRecord) -> int:
    """Events in a run's evidence."""
    assert run.evidence is not None
    return sum(leaf["n"] for leaf in run.evidence["leaves"])


async def collected(world: World, schedule: ScheduleId, now: Instant | None = None) -> int:
    """Events that a tree has and that no fire consumed, with what came and was not looked at."""
    [one] = await world.store.collected([schedule], world.start if now is None else now)
    there = sum(tally.amount.n for tally in one.progress.tallies.values())
    return there + sum(bulk.amount.n for bulk in one.bulk) + sum(hasattr(given, "pos") for given in one.given)
