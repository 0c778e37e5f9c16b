"""The database goes away, comes back, cuts connections, answers nothing to a COMMIT; processes freeze and die."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conformance.worlds import HOST, World, plan_of
from waiting import comes
from wires import wire

from tidegate.domain.errors import CommitUnknown, Fenced, Refused, Unavailable
from tidegate.domain.instants import HOUR, MILLISECOND, MINUTE, SECOND
from tidegate.store import connection, migrate
from tidegate.store.embedded import EmbeddedServer, Shutdown
from tidegate.store.store import PostgresStore
from tidegate.store.transactions import I

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(database_url: str, anyio_backend: str) -> AsyncIterator[World]:
    async with await World.begin(PostgresStore(database_url), lambda: PostgresStore(database_url)) as made:
        yield made


def admin(url: str, statement: str, *parameters: object) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement, parameters)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


def cut(url: str, purpose: str = "%") -> int:
    """Terminate the store's connections."""
    found = admin(
        url,
        "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND application_name LIKE %s",
        f"tidegate{purpose}",
    )
    return len(found)


# ── the server ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.requirement("HA-8")
@pytest.mark.parametrize("how", list(Shutdown))
async def test_the_database_goes_away_and_comes_back(tmp_path: Path, how: Shutdown) -> None:
    server = EmbeddedServer(tmp_path, settings={"shared_buffers": "16MB"})
    url = server.start()
    try:
        migrate.upgrade(url)
        async with await World.begin(PostgresStore(url), lambda: PostgresStore(url)) as world:
            await world.schedule("orders", due=0)
            server.stop(how)
            for _ in range(3):
                with pytest.raises(Unavailable):
                    await world.store.now()
                with pytest.raises(Unavailable):
                    await world.fire()
            assert server.start() == url
            assert len(await world.fire()) == 1
            assert await world.store.now() > world.start
            await world.store.beat(world.scheduler, world.at(MINUTE))
            assert len(await world.admit(world.at(SECOND))) == 1
    finally:
        server.stop(Shutdown.IMMEDIATE)


@pytest.mark.requirement("HA-8")
async def test_cut_connections_cost_at_most_the_transaction_they_were_in(world: World, database_url: str) -> None:
    await world.schedule("orders", due=0)
    with pytest.raises(Unavailable):
        async with world.store.transaction(world.scheduler) as tx:
            due = await tx.claim_due(world.start, 10)
            cut(database_url)
            await tx.record([plan_of(one) for one in due], world.start)
    assert len(await world.fire()) == 1


async def test_idle_connections_that_were_cut_are_not_used(world: World, database_url: str) -> None:
    await asyncio.gather(*(world.store.now() for _ in range(5)))
    assert cut(database_url) >= 5
    assert len(await asyncio.gather(*(world.store.now() for _ in range(5)))) == 5


async def test_a_database_without_the_schema_says_what_to_do(postgres: EmbeddedServer) -> None:
    store = PostgresStore(postgres.url)
    with pytest.raises(Refused, match="tidegate db upgrade"):
        await store.next_due()
    await store.close()


async def test_a_connection_is_not_held_longer_than_a_transaction(world: World) -> None:
    """More at once than there are connections: they take turns."""
    assert len(await asyncio.gather(*(world.store.now() for _ in range(40)))) == 40


async def test_a_cancelled_call_leaves_a_usable_store(world: World) -> None:
    await world.schedule("orders", due=0)

    async def stuck() -> None:
        async with world.store.transaction(world.scheduler) as tx:
            await tx.claim_due(world.start, 10)
            await asyncio.sleep(60)

    task = asyncio.create_task(stuck())
    await asyncio.sleep(0.1)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert len(await world.fire()) == 1


@pytest.mark.slow
@pytest.mark.requirement("HA-5")
async def test_who_sleeps_in_a_transaction_loses_its_locks(world: World) -> None:
    await world.schedule("orders", due=0)
    with pytest.raises(Unavailable):
        async with world.store.transaction(world.scheduler) as tx:
            due = await tx.claim_due(world.start, 10)
            await asyncio.sleep(2.4)
            assert len(await world.fire()) == 1
            await tx.record([plan_of(one) for one in due], world.start)


@pytest.mark.slow
@pytest.mark.requirement("HA-2", "HA-5")
async def test_who_sleeps_in_the_middle_of_a_pipeline_loses_its_locks_when_its_heartbeat_is_late(world: World) -> None:
    """To the server it is at work: nothing but the others' look ends that."""
    await world.schedule("orders", due=0)
    late = world.at(3 * SECOND)
    with pytest.raises(Unavailable):
        async with world.store.transaction(world.scheduler) as tx:
            assert len(await tx.claim_due(world.start, 10)) == 1
            await tx.session.send(I.now)  # no Sync follows
            await asyncio.sleep(2.1)
            for one in (world.scheduler, world.worker):
                await world.another().beat(one, late)
            await world.another().silent(late, HOUR)
            assert await world.fire() == [], "everybody's heart beats: it may be at work"
            await world.another().silent(world.at(6 * SECOND), HOUR)
            await asyncio.sleep(0.1)
            assert len(await world.fire()) == 1


async def test_a_partition_that_another_process_dropped_is_made_anew(world: World, database_url: str) -> None:
    await world.schedule("orders", due=0)
    await world.fire()
    [name] = admin(database_url, "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'event'::regclass")
    admin(database_url, f"DROP TABLE {name[0]}")
    with pytest.raises(Unavailable):
        await world.fire(world.at(MINUTE))
    assert len(await world.fire(world.at(MINUTE))) == 1


# ── a COMMIT without an answer ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("RUN-1")
@pytest.mark.parametrize("committed", [False, True], ids=["it_did_not_commit", "it_did"])
async def test_a_commit_without_an_answer_is_said_to_be_unknown(
    world: World, database_url: str, committed: bool
) -> None:
    await world.schedule("orders", due=0)
    async with wire(database_url) as (cable, url):
        store = PostgresStore(url)
        with pytest.raises(CommitUnknown):
            async with store.transaction(world.scheduler) as tx:
                due = await tx.claim_due(world.start, 10)
                await tx.record([plan_of(one) for one in due], world.start)
                cable.cut_after, cable.cut_before = committed, not committed
        await store.close()
    # The look before the repeat: the clock has moved, or it has not.
    assert await world.store.next_due() == (world.at(MINUTE) if committed else world.start)
    fired = await world.fire()
    while not (committed or fired):  # the server has yet to see that the connection is gone
        await asyncio.sleep(0.02)
        fired = await world.fire()
    assert len(fired) == (0 if committed else 1)
    page, _ = await world.store.runs(None, schedule=None, states=[], since=None, before=None, limit=10)
    assert len(page) == 1


@pytest.mark.requirement("HA-4", "HA-8")
async def test_an_answer_that_never_comes_is_not_waited_for(
    database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As behind a pooler that stands while the server behind it is gone: the connection stays up and says nothing."""
    monkeypatch.setattr(connection, "ANSWER", 0.5)
    async with (
        wire(database_url) as (cable, url),
        await World.begin(PostgresStore(url), lambda: PostgresStore(url)) as world,
    ):
        await world.schedule("orders", due=0)
        for ask in (world.store.now, world.fire, lambda: world.store.beat(world.scheduler, world.at(SECOND))):
            cable.muted = True
            with pytest.raises(Unavailable):
                await asyncio.wait_for(ask(), 10)
            cable.muted = False
            await world.store.now()
        with pytest.raises(CommitUnknown):
            async with world.store.transaction(world.scheduler) as tx:
                await tx.claim_due(world.start, 10)
                cable.muted = True
        cable.muted = False
        assert len(await world.fire(world.at(MINUTE))) == 1, "and what is asked next is asked anew"
    assert "did not answer for 0.5 s" in caplog.text


async def test_who_gets_no_connection_is_told_so_and_waits_no_longer(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "TURN", 0.2)
    store = PostgresStore(database_url, size=1)
    async with store.changing() as tx:
        with pytest.raises(Unavailable, match=r"1 connections? .*in use for 0\.2 s") as busy:
            await asyncio.wait_for(store.now(), 10)
        await tx.now()
    assert (busy.value.code, "database.connections" in busy.value.remedy) == ("connections_busy", True)
    assert await store.now(), "and whoever comes later gets it"
    await store.close()


# ── who is dead ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("HA-2")
async def test_the_end_of_its_session_shows_a_dead_member_at_once(world: World, database_url: str) -> None:
    assert list(await world.store.silent(world.start, HOUR)) == []
    assert cut(database_url, f" instance {world.worker.instance_id}") == 1
    just_started = await world.store.silent(world.start, HOUR)
    assert list(just_started) == []  # the server is younger than the patience: all sessions may have been lost with it
    silent = await world.store.silent(world.start, MILLISECOND)
    assert [one.id for one in silent] == [world.worker.instance_id]


@pytest.mark.requirement("HA-2")
async def test_a_member_that_lives_takes_its_session_lock_again(world: World, database_url: str) -> None:
    cut(database_url, f" instance {world.worker.instance_id}")
    await world.store.beat(world.worker, world.at(1))
    assert list(await world.store.silent(world.at(1), MILLISECOND)) == []


@pytest.mark.requirement("HA-2")
async def test_the_next_in_the_ring_hears_the_end_of_a_session_at_once(world: World, database_url: str) -> None:
    """Each waits for the next; the last for the first. Nobody polls: what is heard comes with the end."""
    heard: dict[str, list[float]] = {"scheduler": [], "worker": []}
    clock = asyncio.get_running_loop().time
    members = {"scheduler": world.scheduler, "worker": world.worker}
    tasks = [
        asyncio.create_task(world.store.await_ends(fence, lambda role=role: heard[role].append(clock())))
        for role, fence in members.items()
    ]
    waits = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event = 'advisory' AND right(application_name, 5) = 'watch'"
    )
    try:
        await comes(lambda: admin(database_url, waits) == [(2,)])
        assert heard == {"scheduler": [], "worker": []}, "both live"
        began = clock()
        assert cut(database_url, f" instance {world.scheduler.instance_id}") == 1
        await comes(lambda: heard["worker"])
        assert heard["worker"][0] - began < 2 and not heard["scheduler"]
        await world.store.retire(await world.instance(world.scheduler), world.at(1))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.requirement("HA-2")
async def test_who_waits_for_an_end_says_so_when_the_connection_is_lost(world: World, database_url: str) -> None:
    waiting = asyncio.create_task(world.store.await_ends(world.scheduler, lambda: None))
    await comes(lambda: cut(database_url, " watch") == 1)
    with pytest.raises(Unavailable):
        await asyncio.wait_for(waiting, 5)


@pytest.mark.requirement("HA-5")
async def test_what_one_that_died_left_below_our_marks_is_found_when_it_is_declared_dead(world: World) -> None:
    """It recorded a run and did not admit it; meanwhile we have looked, and remember that nothing is that old."""
    await world.schedule("orders", due=0)
    other = world.another()
    async with other.transaction(world.worker) as tx:
        assert await tx.claim_waiting(world.at(HOUR), 10) == []
    other.parts.wake.seen(world.at(HOUR))
    assert await other.next_wake() is None
    assert len(await world.fire()) == 1
    async with other.transaction(world.worker) as tx:
        assert await tx.claim_waiting(world.at(HOUR), 10) == [], "it lies below the mark"
    await other.retire(await world.instance(world.scheduler), world.at(HOUR))
    async with other.transaction(world.worker) as tx:
        assert len(await tx.claim_waiting(world.at(HOUR), 10)) == 1


async def test_who_is_declared_dead_while_it_writes_writes_first_or_not_at_all(world: World) -> None:
    """A takeover waits for transactions under way, and those that come later are fenced."""
    await world.schedule("orders", due=0)
    other = world.another()
    victim = await world.instance(world.scheduler)
    async with world.store.transaction(world.scheduler) as tx:
        due = await tx.claim_due(world.start, 10)
        takeover = asyncio.create_task(other.retire(victim, world.at(1)))
        await asyncio.sleep(0.1)
        assert not takeover.done()
        await tx.record([plan_of(one) for one in due], world.start)
    assert await takeover
    with pytest.raises(Fenced):
        await world.fire(world.at(HOUR))
    assert await world.store.next_due() == world.at(MINUTE)


async def test_a_heartbeat_waits_for_no_transaction_of_its_own_instance(world: World) -> None:
    """Or those that come after it would wait behind it: beats, and with them everything, took 45 ms under load."""
    await world.schedule("orders", due=0)
    async with world.store.transaction(world.scheduler) as tx:
        assert len(await tx.claim_due(world.start, 10)) == 1
        await asyncio.wait_for(world.another().beat(world.scheduler, world.at(1)), 1)
        async with world.store.transaction(world.scheduler) as beside:
            assert await beside.claim_due(world.start, 10) == []


async def test_who_comes_while_a_takeover_is_under_way_is_fenced(world: World, database_url: str) -> None:
    """The fence waits for the takeover's commit and then sees it."""
    await world.schedule("orders", due=0)
    victim = await world.instance(world.scheduler)
    with psycopg.connect(database_url) as connection:
        connection.execute(
            I.retire.sql,
            {"id": victim.id, "epoch": victim.epoch, "now": world.at(1)},  # not committed yet
        )
        late = asyncio.create_task(world.fire(world.at(HOUR)))
        await asyncio.sleep(0.1)
        assert not late.done()
    with pytest.raises(Fenced):
        await late


async def test_a_pooler_in_transaction_mode_is_refused_with_what_to_do(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers all our connections by one session of the server."""
    store = PostgresStore(database_url)
    shared = await store.parts.database.connect()

    async def connect(*given: object, **more: object) -> Any:
        return shared

    monkeypatch.setattr(store.parts.database, "connect", connect)
    with pytest.raises(Refused, match="pooler in transaction mode") as refused:
        await store.register(role="worker", name="p", host=HOST, pid=1, now=0)
    assert refused.value.code == "pooler" and "session mode" in refused.value.remedy
    assert shared.closed
    await store.close()
    with psycopg.connect(database_url) as other:
        assert other.execute("SELECT count(*) FROM instance").fetchone() == (0,)


# ── wake-ups ───────────────────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def listening(store: Any) -> AsyncIterator[list[str]]:
    heard: list[str] = []
    task = asyncio.create_task(store.listen(heard.append))
    await comes(lambda: heard == [""])
    heard.clear()
    yield heard
    task.cancel()
    with suppress(asyncio.CancelledError, Unavailable):
        await task


async def test_others_hear_what_is_announced_and_oneself_does_not(world: World) -> None:
    other = world.another()
    async with listening(world.store) as mine, listening(other) as theirs:
        await world.store.announce(["ready", "admit"])
        await comes(lambda: sorted(theirs) == ["admit", "ready"])
        await other.announce(["stop"])
        await comes(lambda: mine == ["stop"])


@pytest.mark.requirement("LIFE-7")
async def test_what_people_change_is_announced_after_the_commit(world: World) -> None:
    other = world.another()
    async with listening(other) as heard:
        schedule = await world.schedule("orders", due=HOUR)
        await comes(lambda: heard == ["clock"])
        heard.clear()
        key = await world.manual(schedule, world.start)
        await comes(lambda: heard == ["admit"])
        heard.clear()
        await world.begin_runs(world.at(1))
        async with world.store.changing() as tx:
            await tx.request_stop(key, "ann", world.at(2))
        await comes(lambda: heard == ["stop"])
        heard.clear()
        with pytest.raises(ZeroDivisionError):
            async with world.store.changing() as tx:
                await tx.remove_schedule(schedule, world.at(3))
                raise ZeroDivisionError
        await asyncio.sleep(0.1)
        assert heard == []


async def test_a_listener_whose_connection_is_lost_says_so(world: World, database_url: str) -> None:
    heard: list[str] = []
    task = asyncio.create_task(world.store.listen(heard.append))
    await comes(lambda: heard == [""])
    cut(database_url, " listen")
    with pytest.raises(Unavailable):
        await asyncio.wait_for(task, 5)
    await world.store.announce(["clock"])


async def test_a_lost_announcement_is_made_up_for(world: World, database_url: str) -> None:
    """A clock that another process moved below this one's mark is found without having heard of it."""
    await world.schedule("far", due=HOUR)
    assert await world.fire(world.at(MINUTE)) == []
    assert await world.store.next_due() == world.at(HOUR)
    other = world.another()
    async with other.changing() as tx:
        [one] = await tx.lock_schedules("sales", ["far"])
    admin(database_url, "UPDATE clock SET next_due = %s WHERE schedule_id = %s", world.at(5), one.id)
    token = await world.store.acquire("reconciler", world.scheduler, world.start, HOUR)
    await world.store.resync(world.scheduler, token, world.at(MINUTE))
    assert await world.store.next_due() == world.at(5)


# ── drift ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_resync_mends_what_is_out_of_step(world: World, database_url: str) -> None:
    schedule = await world.schedule("orders", due=HOUR)
    forgotten = await world.manual(schedule, world.start)
    await world.begin_runs(world.at(1))
    other = await world.schedule("other", due=None)
    waiting = await world.manual(other, world.at(2))
    admin(database_url, "UPDATE limit_counter SET held = held + 3 WHERE key = %s", f"s{schedule}")
    admin(database_url, "UPDATE pool SET used = 7 WHERE name = 'default'")
    admin(database_url, "UPDATE run_live SET wake_at = NULL WHERE slot = %s", waiting.slot)
    admin(database_url, "UPDATE schedule SET deleted_at = 1 WHERE id = %s", schedule)
    token = await world.store.acquire("reconciler", world.scheduler, world.start, HOUR)
    found = await world.store.resync(world.scheduler, token, world.at(MINUTE))
    assert sorted((one.what, one.name) for one in found) == [
        ("clock", "sales/orders"),
        ("counter", f"s{schedule}"),
        ("pool", "default"),
        ("run", str(waiting)),
    ]
    assert await world.store.resync(world.scheduler, token, world.at(MINUTE)) == []
    assert await world.pool() == (8, 1)
    assert await world.store.next_due() is None
    assert [one.key for one in await world.waiting(world.at(MINUTE))] == [waiting]
    assert list(await world.store.holders(f"s{schedule}")) == [forgotten]
