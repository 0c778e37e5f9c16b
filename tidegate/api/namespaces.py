"""Namespaces and pools over REST: what lies in no namespace."""

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
from tidegate.control import namespaces, pools
from tidegate.documents import shapes
from tidegate.documents.declared import Namespace, Pool
from tidegate.ports.control import ControlStore

router = APIRouter(dependencies=[Depends(unversioned)])
NAMESPACE = "/namespaces/{name}"
POOL = "/pools/{name}"


async def _namespace(store: ControlStore, name: str) -> dict[str, Any]:
    record = await namespaces.get(store, name)
    return shapes.namespace(record.name, record.document)


NAMESPACES = Named(Namespace, namespaces.put, _namespace)


async def _pool(store: ControlStore, name: str) -> dict[str, Any]:
    return shapes.pool(await pools.get(store, name))


POOLS = Named(Pool, pools.put, _pool)


@router.get("/namespaces", tags=["namespaces"])
async def list_namespaces(store: Store, limit: Limit = 100, cursor: Cursor = None) -> dict[str, Any]:
    """Namespaces."""
    page = await namespaces.page(store, cursor=decode_cursor("namespaces", cursor), limit=limit)
    items = (shapes.namespace(one.name, one.document) for one in page.items)
    return shapes.page(items, encode_cursor("namespaces", page.next))


@router.post("/namespaces", tags=["namespaces"], status_code=201, openapi_extra=document_body("Namespace"))
async def create_namespace(store: Store, who: Who, response: Response, body: Body) -> dict[str, Any]:
    """Create it; 409 when the name is taken."""
    return await NAMESPACES.created(store, who, response, body)


@router.get(NAMESPACE, tags=["namespaces"])
async def get_namespace(store: Store, name: str) -> dict[str, Any]:
    """One namespace."""
    return await _namespace(store, name)


@router.put(NAMESPACE, tags=["namespaces"], openapi_extra=document_body("Namespace"), responses=CREATED)
async def put_namespace(store: Store, who: Who, response: Response, name: str, body: Body) -> dict[str, Any]:
    """Create it or bring it to what is declared."""
    return await NAMESPACES.replaced(store, who, response, name, body)


@router.patch(NAMESPACE, tags=["namespaces"], openapi_extra=patch_body())
async def patch_namespace(store: Store, who: Who, response: Response, name: str, body: Body) -> dict[str, Any]:
    """RFC 7396: what is given replaces, null takes away, everything else stays."""
    return await NAMESPACES.patched(store, who, response, name, body)


@router.delete(NAMESPACE, tags=["namespaces"], status_code=204)
async def delete_namespace(store: Store, who: Who, name: str) -> None:
    """Delete it; 409 while something lives in it."""
    await namespaces.delete(store, name, who=who)


# ── pools ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/pools", tags=["pools"])
async def list_pools(store: Store, limit: Limit = 100, cursor: Cursor = None) -> dict[str, Any]:
    """Pools, and how many of their slots are taken."""
    page = await pools.page(store, cursor=decode_cursor("pools", cursor), limit=limit)
    return shapes.page(map(shapes.pool, page.items), encode_cursor("pools", page.next))


@router.post("/pools", tags=["pools"], status_code=201, openapi_extra=document_body("Pool"))
async def create_pool(store: Store, who: Who, response: Response, body: Body) -> dict[str, Any]:
    """Create it; 409 when the name is taken."""
    return await POOLS.created(store, who, response, body)


@router.get(POOL, tags=["pools"])
async def get_pool(store: Store, name: str) -> dict[str, Any]:
    """One pool, and how many of its slots are taken."""
    return await _pool(store, name)


@router.put(POOL, tags=["pools"], openapi_extra=document_body("Pool"), responses=CREATED)
async def put_pool(store: Store, who: Who, response: Response, name: str, body: Body) -> dict[str, Any]:
    """Create it or bring it to what is declared."""
    return await POOLS.replaced(store, who, response, name, body)


@router.patch(POOL, tags=["pools"], openapi_extra=patch_body())
async def patch_pool(store: Store, who: Who, response: Response, name: str, body: Body) -> dict[str, Any]:
    """RFC 7396: what is given replaces, null takes away, everything else stays."""
    return await POOLS.patched(store, who, response, name, body)


@router.delete(POOL, tags=["pools"], status_code=204)
async def delete_pool(store: Store, who: Who, name: str) -> None:
    """Delete it; 409 while something runs in it."""
    await pools.delete(store, name, who=who)
