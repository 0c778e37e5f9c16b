"""Events: published, listed, and which schedules they reach; what could not be taken, and is given again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.control.common import LIMIT, Page, bounded, not_found
from tidegate.domain.errors import Conflict
from tidegate.domain.instants import Instant
from tidegate.domain.schedules import JsonObject
from tidegate.domain.triggers import Trigger, below
from tidegate.ports.collecting import EventRecord, NewEvent, Receipt, SetAside
from tidegate.ports.control import ControlStore
from tidegate.ports.records import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A leaf of a schedule's trigger that an event reaches. `leaf` is its path, e.g. `trigger.triggers[1]`."""

    namespace: str
    schedule: str
    leaf: str
    type: str


async def publish(store: ControlStore, events: Sequence[NewEvent]) -> Sequence[Receipt]:
    """All of them, or none. A repeat (the same id, the same event) changes nothing. Raises Conflict when an id was
    used before for another event."""
    async with store.changing() as tx:
        now = await tx.now()
        receipts = await tx.publish(events, now)
        clashes = [event for event, receipt in zip(events, receipts, strict=True) if receipt.conflict]
        if clashes:
            raise Conflict(
                f"the id {clashes[0].id!r} was used before for another event of {clashes[0].source!r}",
                remedy="An id names one event for good: choose another, or leave it out.",
            )
    return receipts


async def page(
    store: ControlStore,
    *,
    type: str | None = None,
    key: str | None = None,
    since: Instant | None = None,
    cursor: str | None = None,
    limit: int = LIMIT,
) -> Page[EventRecord]:
    """The log, newest first."""
    found, onward = await store.events(type=type, key=key, since=since, before=cursor, limit=bounded(limit))
    return Page(tuple(found), onward)


async def subscribers(store: ControlStore, type: str, key: str, payload: JsonObject | None = None) -> Sequence[Reached]:
    """Which leaves an event would reach now. Without a payload also those that ask for one that matches."""
    reached = []
    for one in await store.subscribers(type, key, payload):
        record = await store.schedule(one.namespace, one.schedule)
        if record is not None:
            paths = leaf_paths(record.spec.trigger)
            if one.node < len(paths):
                path, leaf = paths[one.node]
                reached.append(Reached(namespace=one.namespace, schedule=one.schedule, leaf=path, type=leaf.TYPE))
    return reached


async def set_asides(
    store: ControlStore, namespace: str | None, *, cursor: str | None = None, limit: int = LIMIT
) -> Page[SetAside]:
    """What schedules could not take, newest first."""
    found = await store.set_asides(namespace, cursor, bounded(limit) + 1)
    more = len(found) > bounded(limit)
    chosen = tuple(found[: bounded(limit)])
    return Page(chosen, str(chosen[-1].id) if more else None)


async def replay(store: ControlStore, set_aside: int, *, who: str) -> SetAside:
    """Give what was set aside to its schedule again. Raises NotFound."""
    found = next((one for one in await store.set_asides(None, str(set_aside + 1), 1) if one.id == set_aside), None)
    if found is None:
        raise not_found("set-aside", str(set_aside))
    async with store.changing() as tx:
        now = await tx.now()
        await tx.replay(set_aside, now)
        after = {"set_aside": set_aside, "count": found.count}
        change = Change(
            who=who,
            action="replayed",
            kind="Schedule",
            namespace=found.namespace,
            name=found.schedule,
            before=None,
            after=after,
        )
        await tx.record_change(change, now)
    return found


def leaf_paths(trigger: Trigger, at: str = "trigger") -> list[tuple[str, Trigger]]:
    """Every node with its path in the document, in preorder: a node's number is its place here."""
    found = [(at, trigger)]
    inner = below(trigger)
    single = trigger.TYPE == "quiet"
    for index, one in enumerate(inner):
        found += leaf_paths(one, f"{at}.trigger" if single else f"{at}.triggers[{index}]")
    return found
