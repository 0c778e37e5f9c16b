"""Several people change the same thing at once, each through a process of their own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tidegate.control import applications, programs, schedules
from tidegate.documents import parse_application
from tidegate.domain.errors import Stale
from tidegate.store.store import PostgresStore
from tidegate.wiring import ensure_pools

pytestmark = pytest.mark.anyio
NEVER = {"type": "never"}


def application(argument: str, *names: str) -> Any:
    spec = {"program": "load", "trigger": NEVER, "arguments": {"by": argument}}
    raw = {
        "programs": [{"metadata": {"name": "load"}, "spec": {"type": "command", "argv": [argument]}}],
        "schedules": [{"metadata": {"name": name}, "spec": spec} for name in names],
    }
    return parse_application(raw, namespace="sales", name="etl")


@pytest.mark.requirement("LIFE-6", "LIFE-4")
async def test_of_deployments_at_once_the_last_one_stands_as_a_whole(emptied_database_url: str) -> None:
    stores = [PostgresStore(emptied_database_url) for _ in range(3)]
    await ensure_pools(stores[0])
    sets = {"ann": ("a", "b", "c"), "bob": ("b", "c", "d"), "eve": ("a", "x")}
    for _ in range(4):
        await asyncio.gather(
            *(
                applications.deploy(store, application(who, *names), who=who)
                for store, (who, names) in zip(stores, sets.items(), strict=True)
            )
        )
        found = (await schedules.page(stores[0], "sales")).items
        (who,) = {one.spec.arguments["by"] for one in found}
        assert sorted(one.metadata.name for one in found) == sorted(sets[who])
        assert (await programs.get(stores[0], "sales", "load")).ref.spec.argv == (who,)  # type: ignore[union-attr]
    for store in stores:
        await store.close()


@pytest.mark.requirement("LIFE-4", "LIFE-7")
async def test_of_changes_made_for_the_same_revision_one_is_taken(emptied_database_url: str) -> None:
    stores = [PostgresStore(emptied_database_url) for _ in range(4)]
    await ensure_pools(stores[0])
    await applications.deploy(stores[0], application("ann", "s"), who="ann")

    async def change(number: int, store: PostgresStore) -> bool:
        (made,) = application(f"p{number}", "s").schedules
        try:
            await schedules.put(store, made, who=f"p{number}", expected=1)
        except Stale:
            return False
        return True

    done = await asyncio.gather(*(change(number, store) for number, store in enumerate(stores)))
    assert sum(done) == 1
    record = await schedules.get(stores[0], "sales", "s")
    assert (record.rev, record.spec.arguments["by"]) == (2, f"p{done.index(True)}")
    for store in stores:
        await store.close()
