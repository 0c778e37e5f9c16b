"""Calendars and the freeze over REST: what holds back everything that names it, and simply everything."""

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
from tidegate.api.schedules import only, text
from tidegate.control import calendars, freezing
from tidegate.control.common import Effect
from tidegate.documents import parsing, shapes
from tidegate.documents.declared import Calendar
from tidegate.domain.errors import Conflict, NotFound
from tidegate.ports.control import ControlStore

router = APIRouter(dependencies=[Depends(unversioned)])
ONE = "/calendars/{name}"
CREATED: dict[int | str, dict[str, Any]] = {201: {"description": "Created"}}


@router.get("/calendars", tags=["calendars"])
async def list_calendars(store: Store, limit: Limit = 100, cursor: Cursor = None) -> dict[str, Any]:
    """Calendars, and until when each is closed now."""
    page = await calendars.page(store, cursor=decode_cursor("calendars", cursor), limit=limit)
    now = await store.now()
    return shapes.page((shapes.calendar(*one, now) for one in page.items), encode_cursor("calendars", page.next))


@router.post("/calendars", tags=["calendars"], status_code=201, openapi_extra=document_body("Calendar"))
async def create_calendar(store: Store, who: Who, response: Response, body: Body) -> dict[str, Any]:
    """Create it; 409 when the name is taken."""
    declaration = parsing.parse(body, kind="Calendar")
    assert isinstance(declaration, Calendar)
    try:
        await calendars.get(store, declaration.metadata.name)
    except NotFound:
        return await _put(store, declaration, who, response)
    raise Conflict(f"calendar {declaration.metadata.name!r} exists already")


@router.get(ONE, tags=["calendars"])
async def get_calendar(store: Store, name: str) -> dict[str, Any]:
    """One calendar, and until when it is closed now."""
    return shapes.calendar(*await calendars.get(store, name), await store.now())


@router.put(ONE, tags=["calendars"], openapi_extra=document_body("Calendar"), responses=CREATED)
async def put_calendar(store: Store, who: Who, response: Response, name: str, body: Body) -> dict[str, Any]:
    """Create it or bring it to what is declared."""
    declaration = parsing.parse(body, kind="Calendar", name=name)
    assert isinstance(declaration, Calendar)
    return await _put(store, declaration, who, response)


@router.patch(ONE, tags=["calendars"], openapi_extra=patch_body())
async def patch_calendar(store: Store, who: Who, response: Response, name: str, body: Body) -> dict[str, Any]:
    """RFC 7396: what is given replaces, null takes away, everything else stays."""
    stored = shapes.calendar(*await calendars.get(store, name), await store.now())
    declaration = parsing.parse(parsing.merge_patch(stored, body), kind="Calendar", name=name)
    assert isinstance(declaration, Calendar)
    return await _put(store, declaration, who, response)


@router.delete(ONE, tags=["calendars"], status_code=204)
async def delete_calendar(store: Store, who: Who, name: str) -> None:
    """Delete it; what names it waits until there is one of the name again."""
    await calendars.delete(store, name, who=who)


async def _put(store: ControlStore, declaration: Calendar, who: str, response: Response) -> dict[str, Any]:
    effect = await calendars.put(store, declaration, who=who)
    response.status_code = 201 if effect is Effect.CREATED else 200
    return shapes.calendar(*await calendars.get(store, declaration.metadata.name), await store.now())


# ── the freeze ─────────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/freeze", tags=["freeze"])
async def get_freeze(store: Store) -> dict[str, Any]:
    """Whether anything may start; if not, by whose word, since when and why."""
    return shapes.freeze(await store.frozen())


@router.put("/freeze", tags=["freeze"], openapi_extra=document_body())
async def put_freeze(store: Store, who: Who, body: Body) -> dict[str, Any]:
    """From now on nothing starts, whoever asks for it; what runs goes on. {reason?}"""
    only(body, "reason")
    return shapes.freeze(await freezing.freeze(store, who=who, reason=text(body, "reason")))


@router.delete("/freeze", tags=["freeze"], status_code=204)
async def delete_freeze(store: Store, who: Who) -> None:
    """Things may start again, first those of the highest rank."""
    await freezing.unfreeze(store, who=who)
