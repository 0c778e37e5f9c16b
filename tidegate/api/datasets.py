"""Datasets over REST: named data that triggers wait for."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from tidegate.api.context import Store, Who
from tidegate.api.reading import Body, Cursor, Limit, decode_cursor, document_body, encode_cursor, patch_body
from tidegate.control import datasets
from tidegate.control.common import Effect
from tidegate.documents import event_shapes, parsing, shapes
from tidegate.documents.declared import Dataset
from tidegate.domain.errors import Conflict, NotFound
from tidegate.ports.control import ControlStore

router = APIRouter(tags=["datasets"])
ONE = "/datasets/{name}"


@router.get("/datasets")
async def list_datasets(store: Store, limit: Limit = 100, cursor: Cursor = None) -> dict[str, Any]:
    """Everything that is declared or waited for, and how far it was looked at."""
    page = await datasets.page(store, cursor=decode_cursor("datasets", cursor), limit=limit)
    return shapes.page(map(event_shapes.dataset, page.items), encode_cursor("datasets", page.next))


@router.post("/datasets", status_code=201, openapi_extra=document_body("Dataset"))
async def create_dataset(store: Store, who: Who, response: Response, body: Body) -> dict[str, Any]:
    """Declare it; 409 when it is declared."""
    declaration = parsing.parse(body, kind="Dataset")
    assert isinstance(declaration, Dataset)
    try:
        known = await datasets.get(store, declaration.name)
    except NotFound:
        return await _put(store, declaration, who, response)
    if known.document is not None:
        raise Conflict(f"dataset {declaration.metadata.name!r} exists already")
    return await _put(store, declaration, who, response)


@router.get(ONE)
async def get_dataset(store: Store, name: str) -> dict[str, Any]:
    """One dataset, by the name that triggers use or the one of its document."""
    return event_shapes.dataset(await datasets.get(store, name))


@router.put(ONE, openapi_extra=document_body("Dataset"), responses={201: {"description": "Created"}})
async def put_dataset(store: Store, who: Who, response: Response, name: str, body: Body) -> dict[str, Any]:
    """Declare it, or bring it to what is declared."""
    declaration = parsing.parse(body, kind="Dataset", name=name)
    assert isinstance(declaration, Dataset)
    return await _put(store, declaration, who, response)


@router.patch(ONE, openapi_extra=patch_body())
async def patch_dataset(store: Store, who: Who, response: Response, name: str, body: Body) -> dict[str, Any]:
    """RFC 7396: what is given replaces, null takes away, everything else stays."""
    record = await datasets.get(store, name)
    shown = event_shapes.dataset(record)
    merged = parsing.merge_patch({"metadata": shown["metadata"], "spec": shown["spec"]}, body)
    declaration = parsing.parse(merged, kind="Dataset", name=datasets.called(record))
    assert isinstance(declaration, Dataset)
    return await _put(store, declaration, who, response)


@router.delete(ONE, status_code=204)
async def delete_dataset(store: Store, who: Who, name: str) -> None:
    """Take the declaration back; who waits for it goes on waiting."""
    await datasets.delete(store, name, who=who)


async def _put(store: ControlStore, declaration: Dataset, who: str, response: Response) -> dict[str, Any]:
    effect = await datasets.put(store, declaration, who=who)
    response.status_code = 201 if effect is Effect.CREATED else 200
    return event_shapes.dataset(await datasets.get(store, declaration.name))
