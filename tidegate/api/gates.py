"""Calendars and the freeze over REST: what holds back everything that names it, and simply everything."""

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
from tidegate.api.schedules import only, text
from tidegate.control import calendars, freezing
from tidegate.documents import shapes
from tidegate.documents.declared import Calendar
from tidegate.ports.control import ControlStore

router = APIRouter(dependencies=[Depends(unversioned)])
ONE = "/calendars/{name}"


async def _calendar(store: ControlStore, name: str) -> dict[str, Any]:
    return shapes.calendar(*await calendars.get(store, name), await store.now())


NAMED = Named(Calendar, calendars.put, _calendar)


@router.get("/calendars", tags=["calendars"])
async def list_calendars(store: Store, limit: Limit = 100, cursor: Cursor = None) -> dict[str, Any]:
    """Calendars, and until when each is closed now."""
    page = await calendars.page(store, cursor=decode_cursor("calendars", cursor), limit=limit)
    now = await store.now()
    return shapes.page((shapes.calendar(*one, now) for one in page.items), encode_cursor("calendars", page.next))


@router.post("/calendars", tags=["calendars"], status_code=201, openapi_extra=document_body("Calendar"))
async def create_calendar(store: Store, who: Who, response: Response, body: Body) -> dict[str, Any]:
    """Create it; 409 when the name is taken."""
    return await NAMED.created(store, who, response, body)


@router.get(ONE, tags=["calendars"])
async def get_calendar(store: Store, name: str) -> dict[str, Any]:
    """One calendar, and until when it is closed now."""
    return await _calendar(store, name)


@router.put(ONE, tags=["calendars"], openapi_extra=document_body("Calendar"), responses=CREATED)
async def put_calendar(store: Store, who: Who, response: Response, name: str, body: Body) -> dict[str, Any]:
    """Create it or bring it to what is declared."""
    return await NAMED.replaced(store, who, response, name, body)


@router.patch(ONE, tags=["calendars"], openapi_extra=patch_body())
async def patch_calendar(store: Store, who: Who, response: Response, name: str, body: Body) -> dict[str, Any]:
    """RFC 7396: what is given replaces, null takes away, everything else stays."""
    return await NAMED.patched(store, who, response, name, body)


@router.delete(ONE, tags=["calendars"], status_code=204)
async def delete_calendar(store: Store, who: Who, name: str) -> None:
    """Delete it; what names it waits until there is one of the name again."""
    await calendars.delete(store, name, who=who)


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
