"""Namespaces and pools over REST: what lies in no namespace."""

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
from tidegate.control import namespaces, pools
from tidegate.control.common import Effect
from tidegate.documents import parsing, shapes
from tidegate.documents.declared import Namespace, Pool
from tidegate.domain.errors import Conflict, NotFound
from tidegate.ports.control import ControlStore

router = APIRouter(dependencies=[Depends(unversioned)])
NAMESPACE = "/namespaces/{name}"
POOL = "/pools/{name}"
CREATED: dict[int | str, dict[str, Any]] = {201: {"description": "Created"}}


@router.get("/namespaces", tags=["namespaces"])
async def list_namespaces(store: Store, limit: Limit = 100, cursor: Cursor = None) -> dict[str, Any]:
    """Namespaces."""
    page = await namespaces.page(store, cursor=decode_cursor("namespaces", cursor), limit=limit)
    items = (shapes.namespace(one.name, one.document) for one in page.items)
    return shapes.page(items, encode_cursor("namespaces", page.next))


@router.post("/namespaces", tags=["namespaces"], status_code=201, openapi_extra=document_body("Namespace"))
async def create_namespace(store: Store, who: Who, response: Response, body: Body) -> dict[str, Any]:
    """Create it; 409 when the name is taken."""
    declaration = parsing.parse(body, kind="Namespace")
    assert isinstance(declaration, Namespace)
    try:
        await namespaces.get(store, declaration.metadata.name)
    except NotFound:
        return await _put_namespace(store, declaration, who, response)
    raise Conflict(f"namespace {declaration.metadata.name!r} exists already")


@router.get(NAMESPACE, tags=["namespaces"])
async def get_namespace(store: Store, name: str) -> dict[str, Any]:
    """One namespace."""
    record = await namespaces.get(store, name)
    return shapes.namespace(record.name, record.document)


@router.put(NAMESPACE, tags=["namespaces"], openapi_extra=document_body("Namespace"), responses=CREATED)
async def put_namespace(store: Store, who: Who, response: Response, name: str, body: Body) -> dict[str, Any]:
    """Create it or bring it to what is declared."""
    declaration = parsing.parse(body, kind="Namespace", name=name)
    assert isinstance(declaration, Namespace)
    return await _put_namespace(store, declaration, who, response)


@router.patch(NAMESPACE, tags=["namespaces"], openapi_extra=patch_body())
async def patch_namespace(store: Store, who: Who, response: Response, name: str, body: Body) -> dict[str, Any]:
    """RFC 7396: what is given replaces, null takes away, everything else stays."""
    record = await namespaces.get(store, name)
    merged = parsing.merge_patch(shapes.namespace(record.name, record.document), body)
    declaration = parsing.parse(merged, kind="Namespace", name=name)
    assert isinstance(declaration, Namespace)
    return await _put_namespace(store, declaration, who, response)


@router.delete(NAMESPACE, tags=["namespaces"], status_code=204)
async def delete_namespace(store: Store, who: Who, name: str) -> None:
    """Delete it; 409 while something lives in it."""
    await namespaces.delete(store, name, who=who)


async def _put_namespace(store: ControlStore, declaration: Namespace, who: str, response: Response) -> dict[str, Any]:
    effect = await namespaces.put(store, declaration, who=who)
    response.status_code = 201 if effect is Effect.CREATED else 200
    record = await namespaces.get(store, declaration.metadata.name)
    return shapes.namespace(record.name, record.document)


# ── pools ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/pools", tags=["pools"])
async def list_pools(store: Store, limit: Limit = 100, cursor: Cursor = None) -> dict[str, Any]:
    """Pools, and how many of their slots are taken."""
    page = await pools.page(store, cursor=decode_cursor("pools", cursor), limit=limit)
    return shapes.page(map(shapes.pool, page.items), encode_cursor("pools", page.next))


@router.post("/pools", tags=["pools"], status_code=201, openapi_extra=document_body("Pool"))
async def create_pool(store: Store, who: Who, response: Response, body: Body) -> dict[str, Any]:
    """Create it; 409 when the name is taken."""
    declaration = parsing.parse(body, kind="Pool")
    assert isinstance(declaration, Pool)
    try:
        await pools.get(store, declaration.metadata.name)
    except NotFound:
        return await _put_pool(store, declaration, who, response)
    raise Conflict(f"pool {declaration.metadata.name!r} exists already")


@router.get(POOL, tags=["pools"])
async def get_pool(store: Store, name: str) -> dict[str, Any]:
    """One pool, and how many of its slots are taken."""
    return shapes.pool(await pools.get(store, name))


@router.put(POOL, tags=["pools"], openapi_extra=document_body("Pool"), responses=CREATED)
async def put_pool(store: Store, who: Who, response: Response, name: str, body: Body) -> dict[str, Any]:
    """Create it or bring it to what is declared."""
    declaration = parsing.parse(body, kind="Pool", name=name)
    assert isinstance(declaration, Pool)
    return await _put_pool(store, declaration, who, response)


@router.patch(POOL, tags=["pools"], openapi_extra=patch_body())
async def patch_pool(store: Store, who: Who, response: Response, name: str, body: Body) -> dict[str, Any]:
    """RFC 7396: what is given replaces, null takes away, everything else stays."""
    merged = parsing.merge_patch(shapes.pool(await pools.get(store, name)), body)
    declaration = parsing.parse(merged, kind="Pool", name=name)
    assert isinstance(declaration, Pool)
    return await _put_pool(store, declaration, who, response)


@router.delete(POOL, tags=["pools"], status_code=204)
async def delete_pool(store: Store, who: Who, name: str) -> None:
    """Delete it; 409 while something runs in it."""
    await pools.delete(store, name, who=who)


async def _put_pool(store: ControlStore, declaration: Pool, who: str, response: Response) -> dict[str, Any]:
    effect = await pools.put(store, declaration, who=who)
    response.status_code = 201 if effect is Effect.CREATED else 200
    return shapes.pool(await pools.get(store, declaration.metadata.name))
