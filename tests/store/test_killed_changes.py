"""kill -9 at each statement of an update, a suspension, a deployment: what was there before is there, or what was asked
for, and never anything between (LIFE-4)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

EVENTS = {"type": "event", "event": "user.landed", "key": "x", "count": 5}
COMMAND = {"type": "command", "argv": ["true"]}


def application(schedules: dict[str, Any], **program: Any) -> Any:
    """`etl` of the namespace sales, with one program."""
    from tidegate.documents import parse_application

    raw = {
        "programs": [{"metadata": {"name": "load"}, "spec": {**COMMAND, **program}}],
        "schedules": [
            {"metadata": {"name": name}, "spec": {"program": "load", "enabled": True, "trigger": EVENTS, **spec}}
            for name, spec in schedules.items()
        ],
    }
    return parse_application(raw, namespace="sales", name="etl")


async def begin(store: Any) -> None:
    """Schedules that have collected something, with runs that wait."""
    from tidegate.control import applications, runs
    from tidegate.control import events as publishing
    from tidegate.ports.collecting import NewEvent

    await applications.deploy(store, application({"a": {}, "b": {}, "c": {}}), who="ann")
    await publishing.publish(store, [NewEvent(type="user.landed", key="sales/x")])
    for name in "abc":
        await runs.trigger(store, "sales", name, who="ann")


async def update(store: Any) -> None:
    from tidegate.control import schedules

    (made,) = application({"a": {"priority": 70}}).schedules
    await schedules.put(store, made, who="eve")


async def suspend(store: Any) -> None:
    from tidegate.control import schedules
    from tidegate.domain.schedules import Mode

    await schedules.disable(store, "sales", "b", who="eve", mode=Mode.KEEP, reason="holidays")


async def disable(store: Any) -> None:
    from tidegate.control import schedules

    await schedules.disable(store, "sales", "b", who="eve")


async def deploy(store: Any) -> None:
    from tidegate.control import applications

    asked = application({"a": {"priority": 80}, "b": {}, "d": {}}, argv=["false"])
    await applications.deploy(store, asked, who="eve")


async def delete(store: Any) -> None:
    from tidegate.control import programs
    from tidegate.domain.errors import NotFound

    try:
        await programs.delete(store, "sales", "load", who="eve")
    except NotFound:
        return


CHANGES: dict[str, Callable[[Any], Awaitable[None]]] = {
    "update": update,
    "suspend": suspend,
    "disable": disable,
    "deploy": deploy,
    "delete": delete,
}


async def state(store: Any) -> str:
    """Everything that a person can see of it."""
    from tidegate.control import applications, programs, progress, runs, schedules
    from tidegate.documents import event_shapes, shapes
    from tidegate.ports.records import Stats

    seen: dict[str, Any] = {"applications": [], "programs": [], "schedules": [], "progress": []}
    for one in (await applications.page(store, "sales")).items:
        seen["applications"].append(dict(one.document))
    seen["programs"] = [shapes.program(one) for one in (await programs.page(store, "sales")).items]
    for record in (await schedules.page(store, "sales")).items:
        seen["schedules"].append(shapes.schedule(record, Stats(), next_fire=None))
        gathered = await progress.of_schedule(store, "sales", record.metadata.name)
        seen["progress"].append(None if gathered is None else event_shapes.progress(gathered)["tree"]["value"])
    seen["runs"] = [shapes.run(one) for one in (await runs.page(store, "sales")).items]
    seen["changes"] = [one.id for one in await store.changes(None, None, 100)]
    return json.dumps(seen, default=str)


# ── in a process of its own, so that it can be killed ──────────────────────────────────────────────────────────────


def visit(url: str, what: Callable[[Any], Awaitable[Any]]) -> Any:
    from tidegate.store.store import PostgresStore

    async def asked() -> Any:
        store = PostgresStore(url)
        try:
            return await what(store)
        finally:
            await store.close()

    return asyncio.run(asked())


def killed_at(number: int) -> None:
    """Die by SIGKILL when the server has carried out so many statements of transactions."""
    from tidegate.store.connection import Session

    sent, carried_out = Session.send, 0

    async def send(self: Any, query: Any, /, **parameters: Any) -> Any:
        nonlocal carried_out
        cursor = await sent(self, query, **parameters)
        carried_out += 1
        if carried_out == number:
            if self._pipeline is not None:
                await self._pipeline.sync()
            os.kill(os.getpid(), signal.SIGKILL)
        return cursor

    Session.send = send  # type: ignore[method-assign]


def main(url: str, name: str) -> None:
    """Try the change, killed at its first statement, its second, and so on until it gets through."""
    change = CHANGES[name]
    old = visit(url, state)
    number, kills, new = 0, 0, None
    while new is None:
        number += 1
        child = os.fork()
        if child == 0:
            killed_at(number)
            visit(url, change)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status)
        assert killed or os.WEXITSTATUS(status) == 0, "the change failed"
        kills += killed
        seen = visit(url, state)
        if seen != old or not killed:
            new = seen
    assert new != old, "the change changed nothing"
    visit(url, change)
    assert visit(url, state) == new, "asked for again, it is what was asked for already"
    print(json.dumps({"kills": kills}))


@pytest.mark.slow
@pytest.mark.requirement("LIFE-4", "LIFE-6")
def test_a_change_that_is_killed_leaves_the_old_or_the_new(database_url: str) -> None:
    visit(database_url, begin)
    told = {}
    for name in CHANGES:
        done = subprocess.run(
            [sys.executable, __file__, database_url, name], capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, f"{name}: {done.stderr[-3000:]}"
        told[name] = json.loads(done.stdout)["kills"]
    assert all(kills >= 5 for kills in told.values()), told


if __name__ == "__main__":
    main(*sys.argv[1:])
