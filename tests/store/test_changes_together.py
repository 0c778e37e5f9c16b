"""Several people change the same thing at once, each through a process of their own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tidegate.control import (
    applications,
    calendars,
    namespaces,
    policies,
    pools,
    programs,
    schedules,
    sinks,
    sources,
    tables,
)
from tidegate.control.apply import apply
from tidegate.documents import parse_application
from tidegate.documents.parsing import parse
from tidegate.domain.errors import Conflict, Stale
from tidegate.ports.tables import Seen
from tidegate.store.store import PostgresStore

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


@pytest.mark.requirement("LIFE-6")
async def test_the_same_documents_in_another_order_wait_for_each_other_in_no_circle(emptied_database_url: str) -> None:
    stores = [PostgresStore(emptied_database_url) for _ in range(4)]
    raw = [
        {
            "apiVersion": "tidegate/v1",
            "kind": "Program",
            "metadata": {"name": f"p{number}"},
            "spec": {"type": "command", "argv": ["true"]},
        }
        for number in range(10)
    ]
    documents = [parse(one) for one in raw]
    for store in stores:
        await store.pools()  # its connections are open then, so that they really meet
    done = await asyncio.gather(
        *(apply(store, documents[::order], who="ann") for store, order in zip(stores, (1, -1, 1, -1), strict=True)),
        return_exceptions=True,
    )
    assert {type(one) for one in done} <= {tuple, Conflict}  # who comes second may find it there
    assert any(isinstance(one, tuple) for one in done)
    for store in stores:
        await store.close()


NEW = {
    "Namespace": (namespaces.put, {}),
    "Pool": (pools.put, {"slots": 2}),
    "Calendar": (calendars.put, {"timezone": "UTC", "days": ["2026-12-24"]}),
    "Sink": (sinks.put, {"type": "webhook", "url": "http://127.0.0.1:1/"}),
    "Source": (
        sources.put,
        {"type": "kafka", "servers": "127.0.0.1:1", "topics": ["t"], "event": {"type": "user.t", "key": "a/b"}},
    ),
}


@pytest.mark.requirement("LIFE-6")
@pytest.mark.parametrize("kind", NEW)
async def test_of_several_who_create_one_name_at_once_one_does(emptied_database_url: str, kind: str) -> None:
    stores = [PostgresStore(emptied_database_url) for _ in range(4)]
    put, spec = NEW[kind]
    body = {"apiVersion": "tidegate/v1", "kind": kind, "metadata": {"name": "mine"}, "spec": spec}
    for store in stores:
        await store.pools()
    done = await asyncio.gather(
        *(put(store, parse(body), who="ann", new=True) for store in stores),  # type: ignore[operator]
        return_exceptions=True,
    )
    assert sorted(type(one).__name__ for one in done) == ["Conflict", "Conflict", "Conflict", "Effect"]
    for store in stores:
        await store.close()


MANY = 24
"""Three times as many as a store has connections."""


def named(kind: str, name: str, spec: Any) -> Any:
    return parse({"apiVersion": "tidegate/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})


def table(number: int) -> str:
    return f"lake.raw.t{number}"


def policy(number: int) -> Any:
    return named("MaintenancePolicy", f"p{number}", {"tables": table(number), "operations": {"expire_snapshots": {}}})


@pytest.mark.requirement("LIFE-6", "CARE-1")
@pytest.mark.parametrize("what", ["apply", "policies", "maintain"])
async def test_more_declarations_at_once_than_connections_all_come_through(
    emptied_database_url: str, what: str
) -> None:
    """Each holds one: if it wanted a second one, nobody would ever get any."""
    store = PostgresStore(emptied_database_url)
    async with store.changing() as tx:
        seen = [Seen(table=table(number), location="a") for number in range(MANY)]
        await tx.see_tables(seen, await tx.now())

    async def one(number: int) -> Any:
        if what == "apply":
            dataset = named("Dataset", f"d{number}", {"name": f"lake.raw.d{number}"})
            return await apply(store, [named("Namespace", f"n{number}", {}), dataset, policy(number)], who="ann")
        if what == "policies":
            return await policies.put(store, policy(number), who="ann")
        return await tables.maintain(store, table(number), who="ann", operation="expire_snapshots")

    await asyncio.wait_for(asyncio.gather(*(one(number) for number in range(MANY))), 60)
    assert await asyncio.wait_for(store.now(), 10)
    assert len(await store.policies()) == (0 if what == "maintain" else MANY)
    assert len(await store.open_care()) == (MANY if what == "maintain" else 0)
    await store.close()
