"""What people declare: revisions, deletion, applications, pools, the audit log."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.worlds import NS, TRUE, World, about, at_most, plan_of
from tidegate.domain.errors import Conflict
from tidegate.domain.instants import HOUR, MINUTE, SECOND
from tidegate.domain.planning import Stretch
from tidegate.domain.programs import Command, PySpark
from tidegate.domain.runs import State
from tidegate.domain.schedules import CatchUp, CatchUpPolicy, Mode, Retry, ScheduleSpec, Timeout
from tidegate.domain.triggers import Cron, Interval, Weekday, WindowDays
from tidegate.ports.records import Change, ClockState

pytestmark = pytest.mark.anyio


async def revise(
    world: World, name: str, *, span: int, next_due: int | None, mode: Mode = Mode.ENABLED, **said: Any
) -> int:
    """A new revision, valid from `span` on, with the cursor as it stands."""
    async with world.store.changing() as tx:
        [old] = await tx.lock_schedules(NS, [name])
        spec = ScheduleSpec(**{"program": "job", "trigger": Interval(every="PT1M"), **said})
        rev: int = await tx.revise_schedule(
            old.id,
            spec,
            {"program": "job", "changed": True},
            program=old.program.id,
            mode=mode,
            reason="because",
            author="bob",
            valid_from=world.at(span),
            clock=ClockState(cursor=old.cursor, cursor_rev=old.cursor_rev, next_due=next_due),
        )
        return rev


async def test_a_schedule_is_read_as_it_was_written(world: World) -> None:
    spec = {
        "trigger": WindowDays(
            every_days=3, days=(Weekday.MON, Weekday.SUN), earliest=60, latest=30, timezone="Asia/Tokyo"
        ),
        "arguments": {"region": "eu", "deep": [1, {"x": None}], "text": "Grüße"},
        "priority": 7,
        "groups": ("nightly",),
        "constraints": at_most(3, "program"),
        "catch_up": CatchUp(policy=CatchUpPolicy.ALL, max=5),
        "retry": Retry(max_attempts=4, factor=1.5),
        "timeout": Timeout(run=HOUR),
    }
    number = await world.schedule("orders", due=MINUTE, **spec)
    found = await world.store.schedule(NS, "orders")
    assert found.spec == ScheduleSpec(program="job", **spec)
    assert (found.id, found.rev, found.mode, found.next_due) == (number, 1, Mode.ENABLED, world.at(MINUTE))
    assert (found.program.name, found.program.spec, found.program.rev) == ("job", TRUE, 1)
    assert (found.metadata.name, found.created_at, found.document) == ("orders", world.start, {"program": "job"})
    assert await world.store.schedule(NS, "other") is None
    assert await world.store.schedule("other", "orders") is None


async def test_a_name_is_taken_once(world: World) -> None:
    await world.schedule("orders")
    with pytest.raises(Conflict):
        await world.schedule("orders")
    assert len(await world.store.schedules(NS, None, 10)) == 1


async def test_what_is_rolled_back_was_never_declared(world: World) -> None:
    with pytest.raises(ZeroDivisionError):
        async with world.store.changing() as tx:
            ref = await tx.write_program(about("job"), TRUE, {}, "ann", world.start)
            await tx.create_schedule(
                about("orders"),
                ScheduleSpec(program="job", trigger=Interval(every="PT1M")),
                {},
                program=ref.id,
                mode=Mode.ENABLED,
                reason="",
                author="ann",
                now=world.start,
                clock=ClockState(cursor=world.start, cursor_rev=1, next_due=world.start),
            )
            raise ZeroDivisionError
    assert await world.store.schedule(NS, "orders") is None
    assert await world.store.next_due() is None


@pytest.mark.requirement("LIFE-4")
async def test_a_revision_takes_effect_when_it_is_answered(world: World) -> None:
    await world.schedule("orders", due=0)
    rev = await revise(world, "orders", span=SECOND, next_due=world.at(HOUR), priority=80)
    assert rev == 2
    found = await world.store.schedule(NS, "orders")
    assert (found.rev, found.spec.priority, found.reason, found.next_due) == (2, 80, "because", world.at(HOUR))
    assert await world.fire(world.at(MINUTE)) == []
    history = await world.store.revisions(found.id)
    assert [(one.rev, author) for one, _, author, _ in history] == [(2, "bob"), (1, "ann")]
    assert history[0][1] == {"program": "job", "changed": True}


@pytest.mark.requirement("CATCH-8")
async def test_fires_of_an_older_revision_come_with_every_revision_since(world: World) -> None:
    await world.schedule("orders", due=0, priority=10)
    await revise(world, "orders", span=SECOND, next_due=world.start, priority=20)
    await revise(world, "orders", span=2 * SECOND, next_due=world.start, priority=30, mode=Mode.DROP)
    async with world.store.transaction(world.scheduler) as tx:
        [due] = await tx.claim_due(world.at(MINUTE), 10)
        assert [(one.rev, one.spec.priority, one.mode) for one in due.revisions] == [
            (1, 10, Mode.ENABLED),
            (2, 20, Mode.ENABLED),
            (3, 30, Mode.DROP),
        ]
        await tx.record([plan_of(due)], world.at(MINUTE))
    async with world.store.transaction(world.scheduler) as tx:
        [due] = await tx.claim_due(world.at(HOUR), 10)
    assert [one.rev for one in due.revisions] == [3]


async def test_a_candidate_is_judged_by_the_newest_revision(world: World) -> None:
    await world.schedule("orders", due=0)
    [key] = await world.fire()
    await world.program("job", Command(argv=("false",)))
    await revise(world, "orders", span=SECOND, next_due=world.at(HOUR), arguments={"new": True})
    [candidate] = await world.waiting(world.at(MINUTE))
    assert (candidate.key, candidate.spec.arguments) == (key, {"new": True})
    assert (candidate.program.rev, candidate.program.spec) == (2, Command(argv=("false",)))


@pytest.mark.requirement("LIFE-4")
async def test_what_was_admitted_keeps_what_it_was_admitted_with(world: World) -> None:
    await world.schedule("orders", due=0, timeout=Timeout(run=HOUR))
    await world.fire()
    await world.admit(world.at(1))
    await world.program("job", Command(argv=("false",)))
    [launch] = await world.launch(world.at(2))
    assert (launch.program.rev, launch.program.spec, launch.timeout) == (1, TRUE, HOUR)


async def test_a_wider_limit_lets_those_who_wait_be_judged_again(world: World) -> None:
    schedule = await world.schedule("orders", due=None, constraints=at_most(1))
    keys = [await world.manual(schedule, world.at(number)) for number in range(3)]
    assert await world.admit(world.at(SECOND)) == keys[:1]
    await revise(world, "orders", span=2 * SECOND, next_due=None, constraints=at_most(3))
    assert await world.admit(world.at(HOUR)) == keys[1:]


@pytest.mark.requirement("LIFE-5")
async def test_a_deleted_schedule_is_gone_and_its_history_stays(world: World) -> None:
    schedule = await world.schedule("orders", due=0)
    [done] = await world.fire()
    await world.end(await world.begin_runs(world.at(1)), world.at(2))
    [waiting] = await world.fire(world.at(MINUTE))
    async with world.store.changing() as tx:
        await tx.remove_schedule(schedule, world.at(MINUTE + 1))
        assert await tx.end_waiting(schedule, State.SUPERSEDED, "deleted", world.at(MINUTE + 1)) == 1
    assert await world.store.schedule(NS, "orders") is None
    assert await world.store.next_due() is None
    assert await world.state(waiting) is State.SUPERSEDED
    assert (await world.record(done)).schedule == "orders"
    again = await world.schedule("orders", due=HOUR)
    assert again != schedule


async def test_ending_what_waits_spares_what_runs(world: World) -> None:
    schedule = await world.schedule("orders", due=None, constraints=at_most(2))
    keys = [await world.manual(schedule, world.at(number)) for number in range(4)]
    await world.admit(world.at(SECOND), limit=1)
    [launch] = await world.launch(world.at(SECOND))
    await world.admit(world.at(2 * SECOND))  # the second is ready, the others wait
    async with world.store.changing() as tx:
        assert await tx.end_waiting(schedule, State.SUPERSEDED, "updated", world.at(3 * SECOND)) == 3
    assert [await world.state(key) for key in keys] == [State.STARTING, *[State.SUPERSEDED] * 3]
    assert await world.pool() == (8, 1)
    await world.end([launch], world.at(MINUTE))
    assert await world.pool() == (8, 0)


async def test_programs_have_revisions(world: World) -> None:
    first = await world.program("job")
    second = await world.program("job", PySpark(entry="a:b", conf={"x": "1"}))
    assert (first.id, first.rev, second.id, second.rev) == (first.id, 1, first.id, 2)
    found = await world.store.program(NS, "job")
    assert (found.ref, found.ref.kind, found.ref.pool) == (second, "pyspark", "spark")
    async with world.store.changing() as tx:
        await tx.delete_program(first.id, world.at(1))
    assert await world.store.program(NS, "job") is None
    assert (await world.program("job")).id != first.id


async def test_schedules_are_found_by_application_and_by_program(world: World) -> None:
    await world.schedule("a", program="one")
    await world.schedule("b", program="two")
    async with world.store.changing() as tx:
        [a, b] = await tx.lock_schedules(NS, ["b", "a", "nobody"])
        await tx.describe_schedule(b.id, about("b", application="etl", labels={"team": "core"}, owner="me"))
        assert [one.metadata.name for one in await tx.lock_schedules_of(NS, application="etl")] == ["b"]
        assert [one.metadata.name for one in await tx.lock_schedules_of(NS, program=a.program.id)] == ["a"]
        assert await tx.lock_schedules_of("elsewhere") == []
    found = await world.store.schedule(NS, "b")
    assert (found.metadata.labels, found.metadata.owner, found.rev) == ({"team": "core"}, "me", 1)


async def test_lists_are_pages_newest_first(world: World) -> None:
    for number in range(5):
        await world.schedule(f"s{number}")
    first = await world.store.schedules(NS, None, 2)
    assert [one.metadata.name for one in first] == ["s4", "s3"]
    rest = await world.store.schedules(None, str(first[-1].id), 10)
    assert [one.metadata.name for one in rest] == ["s2", "s1", "s0"]
    assert await world.store.schedules("elsewhere", None, 10) == []
    programs = await world.store.programs(NS, None, 10)
    assert [one.ref.name for one in programs] == ["job"]


async def test_namespaces_are_made_once_and_deleted_empty(world: World) -> None:
    async with world.store.changing() as tx:
        assert not await tx.ensure_namespace(NS, world.start)
        assert await tx.ensure_namespace("new", world.start)
        assert not await tx.put_namespace("new", {"a": 1}, world.start)
        assert await tx.put_namespace("newer", {}, world.start)
    assert dict(await world.store.namespaces())["new"] == {"a": 1}
    await world.program("job")
    with pytest.raises(Conflict, match=r"not empty \(program job\)"):
        async with world.store.changing() as tx:
            await tx.delete_namespace(NS)
    for name in "fedcba":
        await world.program(name)
    with pytest.raises(Conflict, match=r"\(program a, program b, program c, program d, program e and 2 more\)") as full:
        async with world.store.changing() as tx:
            await tx.delete_namespace(NS)
    assert "delete application" in full.value.remedy
    async with world.store.changing() as tx:
        assert await tx.delete_namespace("new")
        assert not await tx.delete_namespace("nowhere")


async def test_applications_are_kept(world: World) -> None:
    async with world.store.changing() as tx:
        assert await tx.lock_application(NS, "etl") is None
        await tx.put_application(NS, "etl", {"v": 1}, world.start)
    async with world.store.changing() as tx:
        assert await tx.lock_application(NS, "etl") == {"v": 1}
        await tx.put_application(NS, "etl", {"v": 2}, world.start)
    assert list(await world.store.applications(None)) == [(NS, "etl", {"v": 2})]
    assert list(await world.store.applications("elsewhere")) == []
    async with world.store.changing() as tx:
        assert await tx.delete_application(NS, "etl")
        assert not await tx.delete_application(NS, "etl")


async def test_a_pool_in_use_stays(world: World) -> None:
    await world.schedule("orders", due=0)
    async with world.store.changing() as tx:
        assert await tx.put_pool("spare", 2, (5, SECOND, 10))
        assert not await tx.put_pool("spare", 3, (5, SECOND, 10))
    spare = next(one for one in await world.store.pools() if one.name == "spare")
    assert (spare.slots, spare.used, spare.rate_max, spare.rate_per, spare.rate_burst) == (3, 0, 5, SECOND, 10)
    with pytest.raises(Conflict):
        async with world.store.changing() as tx:
            await tx.delete_pool("default")
    async with world.store.changing() as tx:
        assert await tx.delete_pool("spare")
        assert not await tx.delete_pool("spare")


@pytest.mark.requirement("LIFE-8")
async def test_changes_are_kept_newest_first(world: World) -> None:
    async with world.store.changing() as tx:
        for number in range(3):
            change = Change(
                who="ann",
                action="updated",
                kind="Schedule",
                namespace=NS,
                name=f"s{number}",
                before=None,
                after={"n": number},
            )
            await tx.record_change(change, world.at(number))
    found = await world.store.changes(None, None, 2)
    assert [(one.name, one.after, one.at) for one in found] == [
        ("s2", {"n": 2}, world.at(2)),
        ("s1", {"n": 1}, world.at(1)),
    ]
    rest = await world.store.changes(NS, found[-1].id, 10)
    assert [one.name for one in rest] == ["s0"]
    assert await world.store.changes("elsewhere", None, 10) == []


async def test_answers_are_remembered_once(world: World) -> None:
    assert await world.store.remembered("k") is None
    await world.store.remember("k", "digest", 201, {"a": [1]}, world.start)
    await world.store.remember("k", "other", 500, None, world.start)
    assert await world.store.remembered("k") == ("digest", 201, {"a": [1]})


async def test_stretches_are_recorded_once(world: World) -> None:
    schedule = await world.schedule("orders", due=None)
    stretch = Stretch(
        from_fire=world.start, to_fire=world.at(MINUTE), n=2, rev=1, outcome=State.SUPERSEDED, reason="disabled"
    )
    for _ in range(2):
        async with world.store.changing() as tx:
            await tx.record_stretches(schedule, [stretch], world.at(HOUR))
    page, _ = await world.store.runs(NS, schedule="orders", states=[], since=None, before=None, limit=10)
    assert [(one.count, one.state, one.reason, one.fire_time, one.fire_time_to) for one in page] == [
        (2, State.SUPERSEDED, "disabled", world.start, world.at(MINUTE))
    ]


async def test_the_time_within_a_transaction_is_the_statement_s(world: World) -> None:
    async with world.store.changing() as tx:
        first = await tx.now()
        assert await tx.now() >= first >= world.start


async def test_an_odd_trigger_survives(world: World) -> None:
    trigger = Cron(expression="0 0 L * 5#2", timezone="Australia/Lord_Howe", jitter=5, start=1, end=None, seconds=False)
    await world.schedule("orders", trigger=trigger)
    assert (await world.store.schedule(NS, "orders")).spec.trigger == trigger


@pytest.mark.requirement("RUN-1")
async def test_that_a_request_was_carried_out_is_committed_with_it(world: World) -> None:
    with pytest.raises(ZeroDivisionError):
        async with world.store.changing() as tx:
            assert await tx.remember("k", "digest", {}, world.start)
            raise ZeroDivisionError
    assert await world.store.remembered("k") is None
    async with world.store.changing() as tx:
        assert await tx.remember("k", "digest", {"run": "r1"}, world.start)
    assert await world.store.remembered("k") == ("digest", 0, {"run": "r1"})
    async with world.store.changing() as tx:
        assert not await tx.remember("k", "digest", {"run": "r2"}, world.start)
    await world.store.remember("k", "other", 201, {}, world.start)
    assert await world.store.remembered("k") == ("digest", 0, {"run": "r1"})
    await world.store.remember("k", "digest", 201, {"a": 1}, world.start)
    assert await world.store.remembered("k") == ("digest", 201, {"a": 1})
