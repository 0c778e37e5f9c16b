"""The in-memory store's transactions: what is locked, who waits, and what others see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tidegate.domain.errors import Conflict, Fenced, Unavailable
from tidegate.domain.ids import Fence
from tidegate.domain.programs import Command
from tidegate.domain.schedules import Mode, ScheduleSpec
from tidegate.domain.triggers import Interval
from tidegate.ports.control import ControlTx
from tidegate.ports.records import ClockState, Metadata
from tidegate.sim.memory import MemoryStore

NOW = 1_000_000_000


def store() -> MemoryStore:
    return MemoryStore(lambda: NOW)


def law(body: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run it in an event loop."""

    def test() -> None:
        asyncio.run(body())

    return test


async def declare(tx: ControlTx, name: str) -> int:
    """A schedule that is due."""
    about = Metadata(namespace="n", name=name, labels={})
    program = await tx.write_program(about, Command(argv=("true",)), {}, "me", NOW)
    spec = ScheduleSpec(program=name, trigger=Interval(every="PT1S"))
    clock = ClockState(cursor=0, cursor_rev=1, next_due=NOW - 1)
    return await tx.create_schedule(
        about, spec, {}, program=program.id, mode=Mode.ENABLED, reason="", author="me", now=NOW, clock=clock
    )


async def member(there: MemoryStore) -> Fence:
    return await there.register(role="all", name="a", host="h", pid=1, now=NOW)


@law
async def test_what_is_claimed_is_skipped_by_others() -> None:
    there = store()
    fence, other = await member(there), await member(there)
    async with there.changing() as tx:
        await declare(tx, "one")
        await declare(tx, "two")
    async with there.transaction(fence) as mine:
        assert len(await mine.claim_due(NOW, 1)) == 1
        async with there.transaction(other) as theirs:
            assert [due.name for due in await theirs.claim_due(NOW, 10)] == ["n/two"]
    async with there.transaction(other) as theirs:
        assert len(await theirs.claim_due(NOW, 10)) == 2


@law
async def test_nothing_is_seen_before_the_commit_and_nothing_stays_of_a_rollback() -> None:
    there = store()
    with pytest.raises(RuntimeError):
        async with there.changing() as tx:
            await declare(tx, "one")
            assert await there.schedule("n", "one") is None
            raise RuntimeError
    assert await there.schedule("n", "one") is None
    assert await there.next_due() is None
    async with there.changing() as tx:
        await declare(tx, "one")
    assert await there.next_due() == NOW - 1


@law
async def test_who_needs_a_locked_row_waits_for_its_holder() -> None:
    there = store()
    async with there.changing() as tx:
        await declare(tx, "one")
    order = []

    async def second() -> None:
        async with there.changing() as tx:
            order.append("asks")
            await tx.lock_schedules("n", ["one"])
            order.append("has")

    async with there.changing() as tx:
        await tx.lock_schedules("n", ["one"])
        waiting = asyncio.create_task(second())
        await asyncio.sleep(0.01)
        order.append("gives")
    await waiting
    assert order == ["asks", "gives", "has"]


@law
async def test_two_of_one_name_conflict_also_when_they_come_at_once() -> None:
    there = store()

    async def second() -> None:
        async with there.changing() as tx:
            await declare(tx, "one")

    async with there.changing() as tx:
        await declare(tx, "one")
        waiting = asyncio.create_task(second())
        await asyncio.sleep(0.01)
    with pytest.raises(Conflict):
        await waiting


@law
async def test_transactions_that_wait_for_each_other_are_not_left_waiting() -> None:
    there = store()
    async with there.changing() as tx:
        await declare(tx, "one")
        await declare(tx, "two")

    async def second() -> None:
        async with there.changing() as tx:
            await tx.lock_schedules("n", ["two"])
            await asyncio.sleep(0.01)
            await tx.lock_schedules("n", ["one"])

    waiting = asyncio.create_task(second())
    with pytest.raises(Unavailable, match="deadlock"):
        async with there.changing() as tx:
            await tx.lock_schedules("n", ["one"])
            await asyncio.sleep(0.02)
            await tx.lock_schedules("n", ["two"])
    await waiting


@law
async def test_a_takeover_waits_for_open_transactions_and_fences_the_next() -> None:
    there = store()
    fence = await member(there)
    [instance] = await there.alive()
    async with there.transaction(fence):
        takeover = asyncio.create_task(there.retire(instance, NOW))
        await asyncio.sleep(0.01)
        assert not takeover.done()
    assert await takeover
    with pytest.raises(Fenced):
        async with there.transaction(fence):
            pass
    with pytest.raises(Fenced):
        await there.beat(fence, NOW)


@law
async def test_a_transaction_that_the_server_ended_cannot_commit() -> None:
    there = store()
    transaction = there.changing()
    with pytest.raises(Unavailable):
        async with transaction as tx:
            await declare(tx, "one")
            transaction.kill()
    assert await there.schedule("n", "one") is None
