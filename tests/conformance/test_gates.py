"""Queues with instants, starts, calendars, the freeze, readings and suspension: what both stores promise the admitter.

Runs are judged by the very rule of the engine (`domain.admission.admit`).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from conformance.worlds import NS, World
from tidegate.domain.admission import Admit, Discard, Hold, admit, needs_of
from tidegate.domain.calendars import Calendar
from tidegate.domain.constraints import (
    AdmissionFacts,
    Blackout,
    Concurrency,
    Gauge,
    Load,
    MinInterval,
    Rate,
    Window,
)
from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import DAY, HOUR, MINUTE, SECOND, Instant
from tidegate.domain.runs import Cause, State
from tidegate.domain.schedules import Mode, ScheduleSpec, WaitingPolicy
from tidegate.domain.triggers import Never
from tidegate.domain.windows import Span
from tidegate.ports.records import ClockState

pytestmark = pytest.mark.anyio
START = 1_800_000_000 * SECOND  # 2027-01-15 08:00 UTC: what the worlds of a memory store begin with
WIDE = Concurrency(max=1000)


async def judge(world: World, now: Instant, *, limit: int = 100) -> list[RunKey]:
    """One pass of the admitter; who goes, in order."""
    async with world.store.transaction(world.scheduler) as tx:
        found = await tx.claim_waiting(now, limit)
        verdicts: list[Any] = []
        if found:
            verdicts = admit(found, await tx.admission_facts(needs_of(found), now), now=now)
            await tx.settle(verdicts, now)
    return [one.key for one in verdicts if isinstance(one, Admit)]


async def looks(world: World, now: Instant) -> int:
    """How many runs are judged until nothing is left to be judged at `now`."""
    count = 0
    for _ in range(1000):
        async with world.store.transaction(world.scheduler) as tx:
            found = await tx.claim_waiting(now, 100)
            if found:
                count += len(found)
                await tx.settle(admit(found, await tx.admission_facts(needs_of(found), now), now=now), now)
        upcoming = await world.store.next_wake()
        if not found and (upcoming is None or upcoming > now):
            return count
    raise AssertionError("it never comes to rest")


async def scheduled(world: World, name: str, *constraints: Any, slots: int = 1000, **said: Any) -> ScheduleId:
    async with world.store.changing() as tx:
        await tx.put_pool("default", slots, None)
    said = {"due": None, "trigger": Never(), **said}
    return await world.schedule(name, constraints=(*constraints, WIDE), **said)


async def waiting(world: World, schedule: ScheduleId, now: Instant, *, priority: int = 50) -> RunKey:
    """A run that is bound by everything: not one that a person asked for by hand."""
    async with world.store.changing() as tx:
        key: RunKey = await tx.add_run(
            schedule,
            cause=Cause.RERUN,
            caused_by="ann",
            fire_time=None,
            previous_fire=None,
            given=None,
            priority=priority,
            now=now,
        )
        return key


async def revised(world: World, schedule: ScheduleId, name: str, now: Instant, **change: Any) -> None:
    if world.time:  # the store in memory reads its clock
        world.time[0] = now
    async with world.store.changing() as tx:
        [old] = await tx.lock_schedules(NS, [name])
        said = {"mode": old.mode, "held_expires": False, "spec": old.spec, **change}
        spec: ScheduleSpec = said.pop("spec")
        await tx.revise_schedule(
            schedule,
            spec,
            {},
            program=old.program.id,
            reason="",
            author="ann",
            valid_from=now,
            clock=ClockState(cursor=old.cursor, cursor_rev=old.cursor_rev, next_due=old.next_due),
            **said,
        )


def later(world: World, span: int) -> Window:
    """A window that opens `span` after the start, for an hour, to the minute."""
    minute = (world.start + span) // MINUTE % 1440
    return Window(span=Span(start=minute, end=(minute + 60 - 1) % 1440 + 1))


def opening(world: World, span: int) -> Instant:
    return (world.start + span) // MINUTE * MINUTE


# ── queues with an instant ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("GATE-12", "GATE-14")
async def test_what_waits_for_a_window_is_looked_at_when_it_opens_and_in_order_of_rank(world: World) -> None:
    schedule = await scheduled(world, "night", later(world, 2 * HOUR))
    low = await waiting(world, schedule, world.at(0), priority=10)
    high = await waiting(world, schedule, world.at(1), priority=90)
    old = [await waiting(world, schedule, world.at(2 + number)) for number in range(3)]
    assert await judge(world, world.at(SECOND)) == []
    assert (await world.record(low)).wake_key == (await world.record(high)).wake_key != None  # noqa: E711
    opens = opening(world, 2 * HOUR)
    assert await world.store.next_wake() == opens
    assert await judge(world, opens - 1) == []
    assert await judge(world, opens, limit=2) == [high, old[0]]
    assert await world.store.next_wake() == opens  # more are left
    assert await judge(world, opens, limit=2) == [old[1], old[2]]
    assert await judge(world, opens, limit=2) == [low]
    assert await judge(world, opens, limit=2) == []
    assert await world.store.next_wake() is None


@pytest.mark.requirement("GATE-12", "GATE-19")
async def test_a_window_that_closes_again_holds_the_rest_for_its_next_opening(world: World) -> None:
    schedule = await scheduled(world, "night", later(world, 2 * HOUR), slots=1)
    keys = [await waiting(world, schedule, world.at(number)) for number in range(4)]
    await judge(world, world.at(SECOND))
    opens = opening(world, 2 * HOUR)
    assert await judge(world, opens, limit=1) == keys[:1]
    assert await looks(world, opens + HOUR) <= 3
    for key in keys[1:]:
        assert (await world.record(key)).wake_key != "pool:default"
    assert await world.store.next_wake() == opens + DAY


@pytest.mark.requirement("GATE-12")
async def test_a_queue_from_which_all_have_gone_comes_to_rest(world: World) -> None:
    schedule = await scheduled(world, "night", later(world, 2 * HOUR))
    key = await waiting(world, schedule, world.start)
    await judge(world, world.at(SECOND))
    async with world.store.changing() as tx:
        await tx.request_stop(key, "ann", world.at(MINUTE))
    opens = opening(world, 2 * HOUR)
    assert await looks(world, opens) == 0
    assert await world.store.next_wake() is None


async def test_what_expires_in_a_queue_is_looked_at_then(world: World) -> None:
    schedule = await scheduled(world, "night", later(world, 2 * HOUR), waiting=WaitingPolicy(timeout=HOUR))
    key = await waiting(world, schedule, world.start)
    await judge(world, world.at(SECOND))
    assert await world.store.next_wake() == world.at(HOUR)
    assert await judge(world, world.at(HOUR)) == []
    assert await world.state(key) is State.EXPIRED


# ── starts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def launched(world: World, now: Instant) -> None:
    launches = await world.launch(now)
    async with world.store.transaction(world.worker) as tx:
        from tidegate.ports.engine import Started

        await tx.started([Started(attempt=one.attempt, backend_id="x") for one in launches], now)


@pytest.mark.requirement("GATE-3", "GATE-12")
async def test_a_rate_counts_first_starts_and_lets_the_next_go_when_one_leaves_the_span(world: World) -> None:
    schedule = await scheduled(world, "slow", Rate(max=2, per=HOUR))
    keys = [await waiting(world, schedule, world.at(number)) for number in range(50)]
    assert await judge(world, world.at(SECOND), limit=1) == keys[:1]
    await launched(world, world.at(MINUTE))  # a start counts from its first attempt, not from its admission
    assert await judge(world, world.at(2 * MINUTE)) == keys[1:2]
    await launched(world, world.at(3 * MINUTE))
    assert await looks(world, world.at(4 * MINUTE)) <= 40
    assert await world.store.next_wake() == world.at(MINUTE + HOUR)
    assert await judge(world, world.at(MINUTE + HOUR) - 1) == []
    assert await judge(world, world.at(MINUTE + HOUR)) == keys[2:3]
    await launched(world, world.at(MINUTE + HOUR))
    assert await looks(world, world.at(MINUTE + HOUR)) <= 20  # a few of the 47, not all of them
    assert await world.store.next_wake() == world.at(3 * MINUTE + HOUR)


@pytest.mark.requirement("GATE-3")
async def test_a_run_that_ends_without_having_started_is_no_start(world: World) -> None:
    schedule = await scheduled(world, "slow", Rate(max=1, per=DAY))
    first, second = [await waiting(world, schedule, world.at(number)) for number in range(2)]
    assert await judge(world, world.at(SECOND)) == [first]
    assert await looks(world, world.at(2 * SECOND)) <= 2
    async with world.store.changing() as tx:
        await tx.request_stop(first, "ann", world.at(MINUTE))
    assert await judge(world, world.at(MINUTE)) == [second]


@pytest.mark.requirement("GATE-3", "GATE-11")
async def test_a_rate_sees_what_started_before_anybody_asked(world: World) -> None:
    schedule = await scheduled(world, "slow")
    await waiting(world, schedule, world.start)
    launches = await world.begin_runs(world.at(SECOND))
    await world.end(launches, world.at(MINUTE))
    [ended] = launches
    spec = ScheduleSpec(program="job", trigger=Never(), constraints=(Rate(max=1, per=HOUR), WIDE))
    await revised(world, schedule, "slow", world.at(2 * MINUTE), spec=spec)
    key = await waiting(world, schedule, world.at(3 * MINUTE))
    assert await judge(world, world.at(3 * MINUTE)) == []
    upcoming = await world.store.next_wake()
    assert upcoming == world.at(SECOND + HOUR)
    assert await judge(world, upcoming) == [key]
    assert ended.attempt.run != key


@pytest.mark.requirement("GATE-6")
async def test_a_minimum_interval_is_the_program_s_under_any_schedule(world: World) -> None:
    one = await scheduled(world, "one", MinInterval(duration=HOUR))
    two = await scheduled(world, "two", MinInterval(duration=HOUR))
    first = await waiting(world, one, world.at(0))
    second = await waiting(world, two, world.at(1))
    assert await judge(world, world.at(SECOND)) == [first]
    await launched(world, world.at(MINUTE))
    assert await looks(world, world.at(2 * MINUTE)) <= 2
    assert await judge(world, world.at(MINUTE + HOUR) - 1) == []
    assert await judge(world, world.at(MINUTE + HOUR)) == [second]


# ── counters ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("GATE-1")
async def test_the_runs_of_a_group_share_its_limit_whatever_schedule_they_are_of(world: World) -> None:
    limit = Concurrency(max=2, scope="group:crm")
    schedules = [await scheduled(world, name, limit, groups=("crm",), program=f"job{name}") for name in ("a", "b", "c")]
    keys = [await waiting(world, one, world.at(number)) for number, one in enumerate(schedules)]
    assert await judge(world, world.at(SECOND)) == keys[:2]
    assert (await world.record(keys[2])).wake_key == f"g{NS}/crm"
    launches = await world.launch(world.at(2 * SECOND))
    await world.end(launches[:1], world.at(3 * SECOND))
    assert await judge(world, world.at(3 * SECOND)) == [keys[2]]


@pytest.mark.requirement("GATE-1", "GATE-14")
async def test_who_waits_under_a_wider_limit_is_not_held_up_by_those_under_a_narrow_one(world: World) -> None:
    wide = await scheduled(world, "wide", Concurrency(max=3, scope="program"))
    narrow = await scheduled(world, "narrow", Concurrency(max=1, scope="program"))
    running = [await waiting(world, wide, world.at(number)) for number in range(3)]
    assert await judge(world, world.at(SECOND)) == running
    for number in range(5):
        await waiting(world, narrow, world.at(2 * SECOND + number), priority=90)
    behind = await waiting(world, wide, world.at(3 * SECOND), priority=1)
    assert await judge(world, world.at(4 * SECOND)) == []
    await world.end((await world.launch(world.at(5 * SECOND)))[:1], world.at(6 * SECOND))
    assert await judge(world, world.at(6 * SECOND)) == [behind]


@pytest.mark.requirement("GATE-14")
async def test_a_point_of_priority_is_worth_a_minute_of_waiting(world: World) -> None:
    schedule = await scheduled(world, "busy", slots=1)
    first = await waiting(world, schedule, world.start)
    assert await judge(world, world.at(0)) == [first]
    old = await waiting(world, schedule, world.at(SECOND), priority=50)
    ahead = await waiting(world, schedule, world.at(9 * MINUTE), priority=60)
    behind = await waiting(world, schedule, world.at(12 * MINUTE), priority=60)
    assert await judge(world, world.at(13 * MINUTE)) == []
    page, _ = await world.store.queue(None, None, 10)
    assert [one.key for one in page] == [ahead, old, behind]
    order = []
    now = world.at(14 * MINUTE)
    for _ in range(3):
        await world.end(await world.launch(now), now + SECOND)
        order += await judge(world, now + 2 * SECOND)
        now += MINUTE
    assert order == [ahead, old, behind]


# ── calendars, the freeze, readings ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("GATE-8")
async def test_nothing_starts_while_everything_is_frozen_and_all_goes_on_in_order_afterwards(world: World) -> None:
    schedule = await scheduled(world, "any")
    async with world.store.changing() as tx:
        assert await tx.freeze("ann", "migration", world.start)
        assert not await tx.freeze("bob", "too", world.start)
    frozen = await world.store.frozen()
    assert (frozen.who, frozen.since, frozen.reason) == ("ann", world.start, "migration")
    low = await waiting(world, schedule, world.at(1), priority=1)
    high = await waiting(world, schedule, world.at(2), priority=99)
    assert await judge(world, world.at(SECOND)) == []
    assert await world.store.next_wake() is None
    async with world.store.changing() as tx:
        assert await tx.unfreeze(world.at(MINUTE))
        assert not await tx.unfreeze(world.at(MINUTE))
    assert await world.store.frozen() is None
    assert await judge(world, world.at(MINUTE)) == [high, low]


@pytest.mark.requirement("GATE-8", "GATE-11")
async def test_a_freeze_waits_for_who_is_admitting_and_nobody_admits_after_it(world: World) -> None:
    schedule = await scheduled(world, "any")
    key = await waiting(world, schedule, world.start)
    froze = asyncio.Event()

    async def freeze() -> None:
        async with world.another().changing() as tx:
            await tx.freeze("ann", "", world.at(SECOND))
        froze.set()

    async with world.store.transaction(world.scheduler) as tx:
        found = await tx.claim_waiting(world.at(SECOND), 10)
        facts = await tx.admission_facts(needs_of(found), world.at(SECOND))
        task = asyncio.create_task(freeze())
        await asyncio.sleep(0.05)
        assert not froze.is_set()
        await tx.settle(admit(found, facts, now=world.at(SECOND)), world.at(SECOND))
    await task
    assert await world.state(key) is State.READY
    await waiting(world, schedule, world.at(2 * SECOND))
    assert await judge(world, world.at(3 * SECOND)) == []


@pytest.mark.requirement("GATE-7")
async def test_a_blackout_ends_with_its_calendar_or_when_that_is_changed(world: World) -> None:
    schedule = await scheduled(world, "shop", Blackout(calendar="holidays"))
    key = await waiting(world, schedule, world.start)
    assert await judge(world, world.at(SECOND)) == []  # there is no such calendar: it says so, and waits for it
    assert await world.store.next_wake() is None
    closed = Calendar(name="holidays", spans=((world.start - HOUR, world.at(3 * HOUR)),))
    async with world.store.changing() as tx:
        assert await tx.put_calendar(closed, {"kind": "Calendar"}, world.at(MINUTE))
    assert list(await world.store.calendars()) == [(closed, {"kind": "Calendar"})]
    assert await looks(world, world.at(MINUTE)) == 1
    assert await world.store.next_wake() == world.at(3 * HOUR)
    shorter = Calendar(name="holidays", days=frozenset({1, 2}), spans=((world.start - HOUR, world.at(HOUR)),))
    async with world.store.changing() as tx:
        assert not await tx.put_calendar(shorter, {}, world.at(2 * MINUTE))
    assert await looks(world, world.at(2 * MINUTE)) == 1
    assert await world.store.next_wake() == world.at(HOUR)
    assert await judge(world, world.at(HOUR)) == [key]
    async with world.store.changing() as tx:
        assert await tx.delete_calendar("holidays", world.at(HOUR))
        assert not await tx.delete_calendar("holidays", world.at(HOUR))


@pytest.mark.requirement("GATE-5")
async def test_a_reading_lets_those_go_whose_limit_it_meets(world: World) -> None:
    busy = await scheduled(world, "busy", Load(resource="cpu", below=50))
    idle = await scheduled(world, "idle", Load(resource="cpu", below=20))
    first, second = await waiting(world, busy, world.at(0)), await waiting(world, idle, world.at(1))
    assert await judge(world, world.at(SECOND)) == []
    assert list(await world.store.awaited()) == ["cpu"]
    for value, wanted in ((80.0, []), (30.0, [first]), (None, []), (10.0, [second])):
        now = world.at(MINUTE) if value != 10.0 else world.at(2 * MINUTE)
        gauge = Gauge(value=value, at=now, error="" if value is not None else "no answer")
        await world.store.record_gauge(world.scheduler, "cpu", gauge, now)
        assert await judge(world, now) == wanted
        assert await looks(world, now) == 0
    assert list(await world.store.awaited()) == []


def _without_zeros(facts: AdmissionFacts) -> AdmissionFacts:
    """A counter that nobody holds may be there or not."""
    return replace(facts, held={key: count for key, count in facts.held.items() if count})


async def test_people_see_what_the_admitter_would(world: World) -> None:
    limits = (Rate(max=3, per=HOUR), Blackout(calendar="holidays"), Load(resource="cpu", below=50))
    schedule = await scheduled(world, "all", *limits)
    gauge = Gauge(value=3.0, at=world.start)
    await world.store.record_gauge(world.scheduler, "cpu", gauge, world.start)
    async with world.store.changing() as tx:
        await tx.put_calendar(Calendar(name="holidays"), {}, world.start)
    key = await waiting(world, schedule, world.start)
    async with world.store.transaction(world.scheduler) as tx:
        found = await tx.claim_waiting(world.at(SECOND), 10)
        needs = needs_of(found)
        facts = await tx.admission_facts(needs, world.at(SECOND))
        assert _without_zeros(await world.store.admission_facts(needs)) == _without_zeros(facts)
        await tx.settle(admit(found, facts, now=world.at(SECOND)), world.at(SECOND))
    assert await world.state(key) is State.READY
    facts = await world.store.admission_facts(needs)
    assert facts.held[f"s{schedule}"] == 1 and facts.free["default"] == 999
    assert facts.starts[f"s{schedule}"].pending == 1


# ── suspension ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("LIFE-3")
@pytest.mark.parametrize("mode", [Mode.BACKLOG, Mode.HOLD])
async def test_what_a_suspension_held_goes_when_it_ends(world: World, mode: Mode) -> None:
    schedule = await scheduled(world, "orders")
    await revised(world, schedule, "orders", world.at(1), mode=mode)
    keys = [await waiting(world, schedule, world.at(MINUTE + number)) for number in range(3)]
    by_hand = await world.manual(schedule, world.at(MINUTE + 3))
    assert await judge(world, world.at(2 * MINUTE)) == [by_hand]
    assert await world.store.next_wake() is None
    await revised(world, schedule, "orders", world.at(HOUR), mode=Mode.ENABLED)
    assert await judge(world, world.at(HOUR)) == keys


@pytest.mark.requirement("LIFE-3", "GATE-16")
async def test_waiting_time_stands_still_while_a_suspension_holds_unless_it_says_otherwise(world: World) -> None:
    policy = WaitingPolicy(timeout=HOUR)
    for name, expires in (("stands", False), ("goes on", True)):
        schedule = await scheduled(world, name.replace(" ", "-"), later(world, 20 * HOUR), waiting=policy)
        before = await waiting(world, schedule, world.start)
        said = {"mode": Mode.BACKLOG, "held_expires": expires}
        await revised(world, schedule, name.replace(" ", "-"), world.at(10 * MINUTE), **said)
        during = await waiting(world, schedule, world.at(20 * MINUTE))
        await looks(world, world.at(5 * HOUR))
        if expires:
            assert await world.state(before) is await world.state(during) is State.EXPIRED
            continue
        await revised(world, schedule, "stands", world.at(10 * HOUR), mode=Mode.ENABLED)
        await looks(world, world.at(10 * HOUR))
        assert (await world.record(before)).expires_at == world.at(10 * HOUR + 50 * MINUTE)
        assert (await world.record(during)).expires_at == world.at(11 * HOUR)
        await looks(world, world.at(10 * HOUR + 55 * MINUTE))
        assert await world.state(before) is State.EXPIRED
        assert await world.state(during) is State.WAITING


@pytest.mark.requirement("LIFE-3")
async def test_everything_merges_into_one_run_while_a_schedule_is_on_hold(world: World) -> None:
    schedule = await scheduled(world, "orders", due=0)
    await revised(world, schedule, "orders", world.at(0), mode=Mode.HOLD)
    [first] = await world.fire(world.start)
    [second] = await world.fire(world.at(MINUTE))
    assert await world.state(second) is State.MERGED
    assert (await world.record(second)).merged_into == str(first)
    assert await judge(world, world.at(2 * MINUTE)) == []
    await revised(world, schedule, "orders", world.at(HOUR), mode=Mode.ENABLED)
    assert await judge(world, world.at(HOUR)) == [first]


@pytest.mark.requirement("LIFE-3")
async def test_a_revision_remembers_whether_held_runs_expire(world: World) -> None:
    schedule = await scheduled(world, "orders")
    await revised(world, schedule, "orders", world.at(1), mode=Mode.BACKLOG, held_expires=True)
    async with world.store.changing() as tx:
        assert [one.held_expires for one in await tx.revisions_from(schedule, 1)] == [False, True]
    assert [one[0].held_expires for one in await world.store.revisions(schedule)] == [True, False]


# ── the end of a window ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("GATE-4")
async def test_who_goes_through_a_window_that_stops_carries_its_end_along(world: World) -> None:
    span = later(world, 0).span
    schedule = await scheduled(world, "night", Window(span=span, stop_at_end=True))
    await waiting(world, schedule, world.start)
    await judge(world, world.at(SECOND))
    [launch] = await world.launch(world.at(SECOND))
    ends = opening(world, 0) + HOUR
    assert launch.stop_by == ends
    async with world.store.transaction(world.worker) as tx:
        await tx.stopping([(launch.attempt, "window")], ends)
    [asked] = await world.store.stop_requests(world.worker)
    assert (asked.stop, asked.launch.stop_by) == ("window", ends)


async def test_a_skip_is_judged_when_everything_else_is_met(world: World) -> None:
    from tidegate.domain.schedules import Unmet

    skip = Concurrency(max=1, unmet=Unmet.SKIP)
    schedule = await scheduled(world, "night", later(world, 2 * HOUR), skip)
    keys = [await waiting(world, schedule, world.at(number)) for number in range(2)]
    await judge(world, world.at(SECOND))
    assert [await world.state(key) for key in keys] == [State.WAITING] * 2
    async with world.store.transaction(world.scheduler) as tx:
        opens = opening(world, 2 * HOUR)
        found = await tx.claim_waiting(opens, 10)
        verdicts = admit(found, await tx.admission_facts(needs_of(found), opens), now=opens)
        await tx.settle(verdicts, opens)
    assert [type(one) for one in verdicts] == [Admit, Discard]
    assert await world.state(keys[1]) is State.SKIPPED


@pytest.mark.requirement("GATE-14")
async def test_a_new_revision_does_not_let_a_waiting_run_pass_those_before_it(world: World) -> None:
    """It is judged again since its limits may have changed; the slot that is free then is the next one's."""
    now = world.at(MINUTE)
    names = ("busy", "first", "second", "third")
    schedules = {name: await scheduled(world, name, slots=1) for name in names}
    busy, first, second, third = [
        await waiting(world, schedule, world.at(place)) for place, schedule in enumerate(schedules.values())
    ]
    assert await judge(world, now) == [busy]
    launches = await world.begin_runs(now)
    await world.end(launches, now)
    await revised(world, schedules["third"], "third", now)
    async with world.store.transaction(world.scheduler) as tx:
        found = {one.key: one for one in await tx.claim_waiting(now, 10)}
        assert found.keys() == {first, third}
        facts = await tx.admission_facts(needs_of(list(found.values())), now)
        held = Hold(key=first, until=world.at(HOUR), wake_key=None, waiting_for=())
        await tx.settle([held, *admit([found[third]], facts, now=now)], now)
    assert await world.state(third) is State.WAITING
    assert await judge(world, now) == [second]
    await world.end(await world.begin_runs(now), now)
    assert await judge(world, now) == [third], "it has its turn again"
