"""Every law of this directory is held by each store: PostgreSQL, and the one in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from conformance.worlds import World


@pytest.fixture(params=["postgres", "memory"])
async def world(request: pytest.FixtureRequest, anyio_backend: str) -> AsyncIterator[World]:
    """A fresh store with a scheduler and a worker registered in it."""
    if request.param == "postgres":
        from tidegate.store.store import PostgresStore

        url = request.getfixturevalue("emptied_database_url")
        store: Any = PostgresStore(url)
        again: Callable[[], Any] = lambda: PostgresStore(url)  # noqa: E731
        async with await World.begin(store, again) as made:
            yield made
        return
    memory = pytest.importorskip("tidegate.sim.memory")
    time = [1_800_000_000_000_000]
    store = memory.MemoryStore(lambda: time[0])
    async with await World.begin(store, lambda: store) as made:
        made.time = time
        yield made
