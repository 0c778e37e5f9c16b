"""Sinks over REST: where the event log is delivered to."""

from __future__ import annotations

import re
from typing import Any

from fastapi import APIRouter, Depends, Response

from tidegate.api.context import Store, Who
from tidegate.api.named import CREATED, Named
from tidegate.api.problems import Problem
from tidegate.api.reading import (
    Body,
    Cursor,
    Limit,
    decode_cursor,
    document_body,
    encode_cursor,
    patch_body,
    unversioned,
)
from tidegate.api.schedules import only
from tidegate.control import sinks
from tidegate.documents import event_shapes, shapes
from tidegate.documents.declared import Sink
from tidegate.domain.errors import Fault
from tidegate.ports.control import ControlStore

router = APIRouter(dependencies=[Depends(unversioned)])
ONE = "/sinks/{name}"


async def _sink(store: ControlStore, name: str) -> dict[str, Any]:
    return event_shapes.sink(await sinks.get(store, name))


NAMED = Named(Sink, sinks.put, _sink)


@router.get("/sinks", tags=["sinks"])
async def list_sinks(store: Store, limit: Limit = 100, cursor: Cursor = None) -> dict[str, Any]:
    """Sinks, how far each has come, and what it set aside."""
    page = await sinks.page(store, cursor=decode_cursor("sinks", cursor), limit=limit)
    return shapes.page(map(event_shapes.sink, page.items), encode_cursor("sinks", page.next))


@router.post("/sinks", tags=["sinks"], status_code=201, openapi_extra=document_body("Sink"))
async def create_sink(store: Store, who: Who, response: Response, body: Body) -> dict[str, Any]:
    """Create it; 409 when the name is taken."""
    return await NAMED.created(store, who, response, body)


@router.get(ONE, tags=["sinks"])
async def get_sink(store: Store, name: str) -> dict[str, Any]:
    """One sink, how far it has come, and the latest of what it set aside."""
    return await _sink(store, name)


@router.put(ONE, tags=["sinks"], openapi_extra=document_body("Sink"), responses=CREATED)
async def put_sink(store: Store, who: Who, response: Response, name: str, body: Body) -> dict[str, Any]:
    """Create it, or bring it to what is declared: then it keeps its place in the log."""
    return await NAMED.replaced(store, who, response, name, body)


@router.patch(ONE, tags=["sinks"], openapi_extra=patch_body())
async def patch_sink(store: Store, who: Who, response: Response, name: str, body: Body) -> dict[str, Any]:
    """RFC 7396: what is given replaces, null takes away, everything else stays."""
    return await NAMED.patched(store, who, response, name, body)


@router.delete(ONE, tags=["sinks"], status_code=204)
async def delete_sink(store: Store, who: Who, name: str) -> None:
    """Delete it with its place in the log: one of the name that comes later begins anew."""
    await sinks.delete(store, name, who=who)


@router.post(ONE + ":replay", tags=["sinks"], status_code=202, openapi_extra=document_body())
async def replay(store: Store, who: Who, name: str, body: Body) -> dict[str, Any]:
    """Send again what it refused: all of it, or the event at `position`. Answers how many events are sent."""
    only(body, "position")
    position = body.get("position")
    if position is not None and not (isinstance(position, str) and re.fullmatch(r"\d{1,18}", position, re.ASCII)):
        fault = Fault("position", "must be the position of an event, as `refused` shows it")
        raise Problem(422, str(fault), faults=[fault])
    asked = await sinks.replay(store, name, int(position) if position else None, who=who)
    return {"sink": name, "events": asked}
