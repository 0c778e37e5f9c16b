"""Sources over REST: where events come from outside."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Response

from tidegate.api.context import Store, Who
from tidegate.api.named import CREATED, Named
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
from tidegate.control import sources
from tidegate.documents import event_shapes, shapes
from tidegate.documents.declared import Source
from tidegate.ports.control import ControlStore

router = APIRouter(dependencies=[Depends(unversioned)])
ONE = "/sources/{name}"


async def _source(store: ControlStore, name: str) -> dict[str, Any]:
    return event_shapes.source(await sources.get(store, name))


NAMED = Named(Source, sources.put, _source)


@router.get("/sources", tags=["sources"])
async def list_sources(store: Store, limit: Limit = 100, cursor: Cursor = None) -> dict[str, Any]:
    """Sources, how far each has read, and what it set aside."""
    page = await sources.page(store, cursor=decode_cursor("sources", cursor), limit=limit)
    return shapes.page(map(event_shapes.source, page.items), encode_cursor("sources", page.next))


@router.post("/sources", tags=["sources"], status_code=201, openapi_extra=document_body("Source"))
async def create_source(store: Store, who: Who, response: Response, body: Body) -> dict[str, Any]:
    """Create it; 409 when the name is taken."""
    return await NAMED.created(store, who, response, body)


@router.get(ONE, tags=["sources"])
async def get_source(store: Store, name: str) -> dict[str, Any]:
    """One source, up to where it has read, and the latest of what it set aside."""
    return await _source(store, name)


@router.put(ONE, tags=["sources"], openapi_extra=document_body("Source"), responses=CREATED)
async def put_source(store: Store, who: Who, response: Response, name: str, body: Body) -> dict[str, Any]:
    """Create it, or bring it to what is declared: then it keeps its places."""
    return await NAMED.replaced(store, who, response, name, body)


@router.patch(ONE, tags=["sources"], openapi_extra=patch_body())
async def patch_source(store: Store, who: Who, response: Response, name: str, body: Body) -> dict[str, Any]:
    """RFC 7396: what is given replaces, null takes away, everything else stays."""
    return await NAMED.patched(store, who, response, name, body)


@router.delete(ONE, tags=["sources"], status_code=204)
async def delete_source(store: Store, who: Who, name: str) -> None:
    """Delete it with its places: one of the name that comes later begins anew."""
    await sources.delete(store, name, who=who)
