"""Policies, what is known of tables, and maintenance under way: the same in both stores."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from conformance.worlds import World
from tidegate.control import policies
from tidegate.domain.errors import NotFound, Stale
from tidegate.domain.ids import RunKey
from tidegate.domain.instants import DAY
from tidegate.domain.maintenance.budget import Spend
from tidegate.domain.retry import Finish
from tidegate.domain.runs import State
from tidegate.ports.engine import AttemptEnd
from tidegate.ports.tables import CareOrder, CarePlace, Measured, Seen, Settlement, Switch

pytestmark = pytest.mark.anyio
FLIGHTS, WEATHER = "lake.raw.flights", "lake.raw.weather"


async def see(world: World, *seen: Seen, after: int = 0) -> None:
    async with world.store.changing() as tx:
        await tx.see_tables(seen, world.at(after))


def order(run: RunKey, bytes: int = 100, operation: str = "expire_snapshots") -> CareOrder:
    return CareOrder(
        run=run, table=FLIGHTS, operation=operation, policy="nightly", policy_rev=1, manual=False, bytes=bytes
    )


@pytest.mark.requirement("CARE-1")
async def test_a_policy_counts_its_revisions_and_keeps_them(world: World) -> None:
    async with world.store.changing() as tx:
        first = await tx.put_policy("nightly", {"spec": {"tables": "lake.*"}}, "ann", world.at(0))
        second = await tx.put_policy("nightly", {"spec": {"tables": "lake.raw.*"}}, "bob", world.at(1))
    assert (first.rev, second.rev) == (1, 2)
    assert list(await world.store.policies()) == [second]
    async with world.store.changing() as tx:
        assert await tx.delete_policy("nightly", "ann", world.at(2))
        assert not await tx.delete_policy("nightly", "ann", world.at(3))
    assert list(await world.store.policies()) == []
    async with world.store.changing() as tx:
        assert (await tx.put_policy("nightly", {"spec": {}}, "ann", world.at(4))).rev == 4
    assert [(rev, author) for rev, _, author, _ in await world.store.policy_revisions("nightly")] == [
        (4, "ann"),
        (3, "ann"),
        (2, "bob"),
        (1, "ann"),
    ]


@pytest.mark.requirement("CARE-14")
async def test_the_switch_says_who_and_why(world: World) -> None:
    assert await world.store.maintenance() == Switch()
    async with world.store.changing() as tx:
        assert await tx.set_automatic(False, "ann", "migration", world.at(1))
        assert not await tx.set_automatic(False, "bob", "", world.at(2))
    found = await world.store.maintenance()
    assert found == Switch(automatic=False, who="ann", since=world.at(1), reason="migration")
    async with world.store.changing() as tx:
        assert await tx.set_automatic(True, "bob", "", world.at(3))
        assert (await tx.lock_maintenance()).automatic


async def test_a_table_is_news_only_when_it_changed(world: World) -> None:
    await see(world, Seen(table=FLIGHTS, location="a"), Seen(table=WEATHER, location="b"))
    first = {one.table: one for one in await world.store.tables()}
    await see(world, Seen(table=FLIGHTS, location="a"), Seen(table=WEATHER, location=None), after=1)
    news = await world.store.tables(since=max(one.version for one in first.values()))
    assert [(one.table, one.location, one.seen_at) for one in news] == [(WEATHER, None, world.at(1))]
    assert [one.table for one in await world.store.tables([FLIGHTS, "lake.raw.none"])] == [FLIGHTS]


@pytest.mark.requirement("CARE-5")
async def test_health_is_kept_as_history_and_an_error_takes_none_of_it_away(world: World) -> None:
    await see(world, Seen(table=FLIGHTS, location="a"))
    async with world.store.changing() as tx:
        whole = {"data_files": 12, "files": [{"partition": "", "sizes": "x"}], "snapshot_times": "y"}
        good = Measured(table=FLIGHTS, location="a", health=whole, score=55.0)
        await tx.record_health([good, Measured(table="lake.raw.none", location="a")], world.at(1))
    async with world.store.changing() as tx:
        await tx.record_health([Measured(table=FLIGHTS, location="b", error="no such file")], world.at(2))
    (found,) = await world.store.tables()
    assert (found.health, found.score, found.error) == (whole, 55.0, "no such file")
    assert (found.assessed, found.assessed_at) == ("b", world.at(2))
    async with world.store.changing() as tx:
        later = Measured(table=FLIGHTS, location="c", health={"data_files": 3}, score=None)
        await tx.record_health([later], world.at(3))
    history = await world.store.table_history(FLIGHTS, None, 10)
    assert list(history) == [(world.at(3), {"data_files": 3}, None), (world.at(1), {"data_files": 12}, 55.0)]
    assert list(await world.store.table_history(FLIGHTS, world.at(3), 1)) == [(world.at(1), {"data_files": 12}, 55.0)]


@pytest.mark.requirement("CARE-7")
async def test_what_is_reserved_counts_until_it_is_settled_once(world: World) -> None:
    schedule = await world.schedule("care", due=None)
    run = await world.manual(schedule, world.at(1))
    async with world.store.changing() as tx:
        await tx.lock_maintenance()
        await tx.reserve([order(run)], world.at(1))
    (open_one,) = await world.store.open_care()
    assert (open_one.order, open_one.state, open_one.note) == (order(run), State.WAITING, None)
    spend = Spend(at=world.at(1), table=FLIGHTS, bytes=100, open=True)
    assert await world.store.spent(world.at(5), ["nightly"]) == {"nightly": [spend]}  # it is open, so it counts
    settled = Settlement(run=run, outcome="succeeded", bytes=70, result={"files_before": 9, "files_after": 2})
    async with world.store.changing() as tx:
        assert set(await tx.settle_care([settled], world.at(6))) == {run}
        assert set(await tx.settle_care([settled], world.at(7))) == set()
    assert list(await world.store.open_care()) == []
    assert await world.store.spent(world.at(5), ["nightly"]) == {}
    spend = replace(spend, bytes=70, open=False)
    assert await world.store.spent(world.at(1), ["nightly", "daily"]) == {"nightly": [spend]}
    assert await world.store.spent(world.at(1), ["daily"]) == {}
    (done,) = await world.store.care_of(FLIGHTS, None, 10)
    assert (done.bytes, done.outcome, done.settled_at) == (70, "succeeded", world.at(6))
    assert done.result == settled.result
    assert list(await world.store.care_of(WEATHER, None, 10)) == []


async def test_no_run_is_lost_between_two_pages_where_several_began_at_one_instant(world: World) -> None:
    schedule = await world.schedule("care", due=None)
    runs = [await world.manual(schedule, world.at(1)) for _ in range(5)]
    async with world.store.changing() as tx:
        await tx.reserve([order(run) for run in runs], world.at(1))
    read: list[RunKey] = []
    before = None
    while page := await world.store.care_of(FLIGHTS, before, 2):
        read += [one.order.run for one in page]
        before = page[-1].at, page[-1].order.run
    assert read == sorted(runs, reverse=True)


async def test_how_a_maintenance_run_stands_is_seen_with_what_it_left(world: World) -> None:
    schedule = await world.schedule("care", due=None)
    run = await world.manual(schedule, world.at(1))
    async with world.store.changing() as tx:
        await tx.reserve([order(run)], world.at(1))
    await world.admit(world.at(1))
    (launch,) = await world.begin_runs(world.at(2))
    (running,) = await world.store.open_care()
    assert (running.state, running.started_at, running.finished_at) == (State.RUNNING, world.at(2), None)
    note = {"code": "maintenance.done", "message": "9 files became 2.", "result": {"files_after": 2}}
    done = Finish(outcome=State.SUCCEEDED, reason="")
    end = AttemptEnd(attempt=launch.attempt, outcome="succeeded", error=note, ago=0, ran=True, then=done)
    async with world.store.transaction(world.worker) as tx:
        await tx.ended([end], world.at(3))
    (ended,) = await world.store.open_care()
    assert (ended.state, ended.note, ended.finished_at) == (State.SUCCEEDED, note, world.at(3))


async def test_what_became_of_operations_is_kept_by_table(world: World) -> None:
    async with world.store.changing() as tx:
        first = {"expire_snapshots": {"failures": 1}, "rewrite_manifests": {"failures": 0}}
        await tx.put_care({FLIGHTS: first, WEATHER: {"expire_snapshots": {"failures": 2}}})
    read = await world.store.changed_care(CarePlace(), 9)
    async with world.store.changing() as tx:
        await tx.put_care({FLIGHTS: {"expire_snapshots": {"failures": 3}}})
    assert await world.store.care([FLIGHTS]) == {
        FLIGHTS: {"expire_snapshots": {"failures": 3}, "rewrite_manifests": {"failures": 0}}
    }
    assert set(await world.store.care()) == {FLIGHTS, WEATHER}
    assert [(one.place.table, one.place.operation) for one in read] == [
        (FLIGHTS, "expire_snapshots"),
        (FLIGHTS, "rewrite_manifests"),
        (WEATHER, "expire_snapshots"),
    ]
    assert (await world.store.changed_care(read[0].place, 1))[0] == read[1]
    (news,) = await world.store.changed_care(read[-1].place, 9)
    assert (news.place.table, news.history) == (FLIGHTS, {"failures": 3})


async def test_no_table_is_changed_behind_the_back_of_who_reads_changes(world: World) -> None:
    """One transaction draws a version and commits late, another draws a higher one meanwhile."""
    await see(world, Seen(table=FLIGHTS, location="a"), Seen(table=WEATHER, location="a"))
    assert len(await world.store.changed_tables(0, 1)) == 1
    version = (await world.store.changed_tables(0, 9))[-1].version
    found = []

    async def read() -> None:
        nonlocal version
        for one in await world.store.changed_tables(version, 9):
            found.append(one.table)
            version = one.version

    async with world.store.changing() as tx:
        await tx.see_tables([Seen(table=FLIGHTS, location="b")], world.at(1))
        await tx.now()  # it waits for nobody: its version is drawn
        other = asyncio.create_task(see(world, Seen(table=WEATHER, location="b"), after=1))
        await asyncio.wait({other}, timeout=0.05)
        await read()
    await other
    await read()
    assert sorted(found) == [FLIGHTS, WEATHER]
    assert (await world.store.versions([WEATHER, "lake.raw.none"])).keys() == {WEATHER}


async def test_what_is_rolled_back_was_never_there(world: World) -> None:
    with pytest.raises(RuntimeError):
        async with world.store.changing() as tx:
            await tx.lock_maintenance()
            await tx.put_policy("nightly", {"spec": {}}, "ann", world.at(0))
            await tx.see_tables([Seen(table=FLIGHTS, location="a")], world.at(0))
            raise RuntimeError
    assert (list(await world.store.policies()), list(await world.store.tables())) == ([], [])


@pytest.mark.requirement("CARE-5", "OPS-9")
async def test_retention_takes_whole_days_of_health_and_of_settled_maintenance(world: World) -> None:
    await see(world, Seen(table=FLIGHTS, location="a"), after=-10 * DAY)
    schedule = await world.schedule("care", due=None)
    days = (-10, -9, -8, -5, -1)
    runs = {day: await world.manual(schedule, world.at(day * DAY)) for day in days}
    for day, run in runs.items():
        async with world.store.changing() as tx:
            await tx.reserve([order(run)], world.at(day * DAY))
            await tx.record_health([Measured(table=FLIGHTS, location="a", health={"files": day})], world.at(day * DAY))
            if day != -8:
                await tx.settle_care([Settlement(run=run, outcome="cancelled", bytes=0)], world.at(day * DAY + 1))

    async def left() -> tuple[list[int], list[int]]:
        kept = [round((one.at - world.start) / DAY) for one in await world.store.care_of(FLIGHTS, None, 10)]
        health = await world.store.table_history(FLIGHTS, None, 10)
        return kept, [round((at - world.start) / DAY) for at, _, _ in health]

    await world.store.drop_expired(world.start, {"events": DAY})
    assert await left() == ([-1, -5, -8, -9, -10],) * 2
    await world.store.drop_expired(world.start, {"runs": 5 * DAY})
    assert await left() == ([-1, -5, -8], [-1, -5])  # the day on which something is open stays, and all after it
    async with world.store.changing() as tx:
        await tx.settle_care([Settlement(run=runs[-8], outcome="cancelled", bytes=0)], world.at(0))
    await world.store.drop_expired(world.start, {"runs": 5 * DAY})
    assert await left() == ([-1, -5], [-1, -5])


@pytest.mark.requirement("CARE-1", "CARE-7")
async def test_a_transaction_reads_what_it_wrote_and_what_others_have_committed_since(world: World) -> None:
    schedule = await world.schedule("care", due=None)
    run = await world.manual(schedule, world.at(1))
    await see(world, Seen(table=FLIGHTS, location="a"))
    async with world.store.changing() as tx:
        await tx.put_policy("nightly", {"spec": {"tables": "lake.*"}}, "ann", world.at(1))
        assert [one.name for one in await tx.policies()] == ["nightly"]
        assert list(await world.store.policies()) == []
        await tx.reserve([order(run)], world.at(1))
        await tx.put_care({FLIGHTS: {"expire_snapshots": {"n": 1}}})
        assert [one.order for one in await tx.open_care()] == [order(run)]
        assert await tx.care([FLIGHTS]) == {FLIGHTS: {"expire_snapshots": {"n": 1}}}
        assert await tx.spent(world.at(0), ["nightly"]) == {
            "nightly": [Spend(at=world.at(1), table=FLIGHTS, bytes=100, open=True)]
        }
        assert list(await tx.table_names()) == [FLIGHTS]
        await see(world, Seen(table=WEATHER, location="b"))
        assert list(await tx.table_names()) == [FLIGHTS, WEATHER]
    assert [one.name for one in await world.store.policies()] == ["nightly"]


@pytest.mark.requirement("CARE-1")
async def test_a_policy_that_was_changed_meanwhile_is_not_deleted_for_its_old_revision(world: World) -> None:
    async with world.store.changing() as tx:
        await tx.put_policy("nightly", {"spec": {"tables": "lake.*"}}, "ann", world.at(0))
    async with world.store.changing() as tx:
        await tx.lock_maintenance()
        late = asyncio.create_task(policies.delete(world.another(), "nightly", who="bob", expected=1))
        await asyncio.sleep(0.1)
        assert not late.done()
        await tx.put_policy("nightly", {"spec": {"tables": "lake.raw.*"}}, "ann", world.at(1))
    with pytest.raises(Stale, match="revision 2 is the newest"):
        await late
    assert [one.rev for one in await world.store.policies()] == [2]
    await policies.delete(world.store, "nightly", who="bob", expected=2)
    with pytest.raises(NotFound):
        await policies.delete(world.store, "nightly", who="bob", expected=2)
