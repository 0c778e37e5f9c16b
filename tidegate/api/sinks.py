"""Sinks over REST: where the event log is delivered to."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Response

from tidegate.api.context import Store, Who
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
from tidegate.control import sinks
from tidegate.control.common import Effect
from tidegate.documents import event_shapes, parsing, shapes
from tidegate.documents.declared import Sink
from tidegate.domain.errors import Conflict, NotFound
from tidegate.ports.control import ControlStore

router = APIRouter(dependencies=[Depends(unversioned)])
ONE = "/sinks/{name}"
CREATED: dict[int | str, dict[str, Any]] = {201: {"description": "Created"}}


@router.get("/sinks", tags=["sinks"])
async def list_sinks(store: Store, limit: Limit = 100, cursor: Cursor = None) -> dict[str, Any]:
    """Sinks, how far each has come, and what it set aside."""
    page = await sinks.page(store, cursor=decode_cursor("sinks", cursor), limit=limit)
    return shapes.page(map(event_shapes.sink, page.items), encode_cursor("sinks", page.next))


@router.post("/sinks", tags=["sinks"], status_code=201, openapi_extra=document_body("Sink"))
async def create_sink(store: Store, who: Who, response: Response, body: Body) -> dict[str, Any]:
    """Create it; 409 when the name is taken."""
    declaration = parsing.parse(body, kind="Sink")
    assert isinstance(declaration, Sink)
    try:
        await sinks.get(store, declaration.metadata.name)
    except NotFound:
        return await _put(store, declaration, who, response)
    raise Conflict(f"sink {declaration.metadata.name!r} exists already")


@router.get(ONE, tags=["sinks"])
async def get_sink(store: Store, name: str) -> dict[str, Any]:
    """One sink, how far it has come, and the latest of what it set aside."""
    return event_shapes.sink(await sinks.get(store, name))


@router.put(ONE, tags=["sinks"], openapi_extra=document_body("Sink"), responses=CREATED)
async def put_sink(store: Store, who: Who, response: Response, name: str, body: Body) -> dict[str, Any]:
    """Create it, or bring it to what is declared: then it keeps its place in the log."""
    declaration = parsing.parse(body, kind="Sink", name=name)
    assert isinstance(declaration, Sink)
    return await _put(store, declaration, who, response)


@router.patch(ONE, tags=["sinks"], openapi_extra=patch_body())
async def patch_sink(store: Store, who: Who, response: Response, name: str, body: Body) -> dict[str, Any]:
    """RFC 7396: what is given replaces, null takes away, everything else stays."""
    stored = event_shapes.sink(await sinks.get(store, name))
    declaration = parsing.parse(parsing.merge_patch(stored, body), kind="Sink", name=name)
    assert isinstance(declaration, Sink)
    return await _put(store, declaration, who, response)


@router.delete(ONE, tags=["sinks"], status_code=204)
async def delete_sink(store: Store, who: Who, name: str) -> None:
    """Delete it with its place in the log: one of the name that comes later begins anew."""
    await sinks.delete(store, name, who=who)


async def _put(store: ControlStore, declaration: Sink, who: str, response: Response) -> dict[str, Any]:
    effect = await sinks.put(store, declaration, who=who)
    response.status_code = 201 if effect is Effect.CREATED else 200
    return event_shapes.sink(await sinks.get(store, declaration.metadata.name))
