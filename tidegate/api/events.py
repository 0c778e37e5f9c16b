"""Events over REST: published, listed, whom they reach, and what was set aside."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query

from tidegate.api.context import Store, Who
from tidegate.api.problems import Problem
from tidegate.api.reading import Body, Cursor, Limit, decode_cursor, document_body, encode_cursor, instant, json_body
from tidegate.api.schedules import only
from tidegate.control import events
from tidegate.documents import event_shapes, shapes
from tidegate.documents.events import parse_events
from tidegate.domain.errors import Fault
from tidegate.domain.events import type_fault

router = APIRouter(tags=["events"])

TypeQuery = Annotated[str | None, Query(description="only of this type", max_length=200)]
KeyQuery = Annotated[str | None, Query(description="only of this key", max_length=400)]


@router.post("/events", status_code=202, openapi_extra=document_body("Event"))
async def publish(store: Store, body: Annotated[Any, Depends(json_body)]) -> dict[str, Any]:
    """Publish an event, or a list of events: all or none. The same id again changes nothing."""
    given = parse_events(body, await store.now())
    receipts = await events.publish(store, given)
    told = [event_shapes.receipt(event, receipt) for event, receipt in zip(given, receipts, strict=True)]
    return {"items": told, "next": None} if isinstance(body, list) else told[0]


@router.get("/events")
async def list_events(
    store: Store,
    type: TypeQuery = None,
    key: KeyQuery = None,
    since: Annotated[str | None, Query(description="arrived not before this instant (RFC 3339)")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> dict[str, Any]:
    """The log, newest first: what was published, and what happened to every run."""
    if type:
        _known(type)
    page = await events.page(
        store,
        type=type,
        key=key,
        since=instant(since, "since"),
        cursor=decode_cursor("events", cursor),
        limit=limit,
    )
    return shapes.page(map(event_shapes.event, page.items), encode_cursor("events", page.next))


@router.get("/events/subscribers")
async def subscribers(
    store: Store,
    type: Annotated[str, Query(description="the type of event", max_length=200)],
    key: Annotated[str, Query(description="its key, whole", max_length=400)],
) -> dict[str, Any]:
    """Which schedules, and which leaf of their trigger, such an event reaches."""
    _known(type)
    return shapes.page(map(event_shapes.reached, await events.subscribers(store, type, key)), None)


def _known(type: str) -> None:
    """422 for a type of which no event can exist, rather than nothing found."""
    if (wrong := type_fault(type)) is not None:
        fault = Fault("type", wrong)
        raise Problem(422, str(fault), faults=[fault])


@router.get("/events/set-aside")
async def list_set_aside(
    store: Store, namespace: str | None = None, limit: Limit = 100, cursor: Cursor = None
) -> dict[str, Any]:
    """What schedules could not take, with the error; newest first."""
    page = await events.set_asides(store, namespace, cursor=decode_cursor("set-aside", cursor), limit=limit)
    return shapes.page(map(event_shapes.set_aside, page.items), encode_cursor("set-aside", page.next))


@router.post("/events/set-aside/{number}:replay", status_code=202, openapi_extra=document_body())
async def replay(
    store: Store, who: Who, body: Body, number: Annotated[int, Path(ge=1, le=1 << 62, description="as listed")]
) -> dict[str, Any]:
    """Give what was set aside to its schedule again."""
    only(body)
    return event_shapes.set_aside(await events.replay(store, number, who=who))
