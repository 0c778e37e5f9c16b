"""Maintenance policies over REST, and whether maintenance starts by itself."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from tidegate.api.context import Store, Who
from tidegate.api.reading import (
    Body,
    Cursor,
    IfMatch,
    IfNoneMatch,
    Limit,
    decode_cursor,
    document_body,
    encode_cursor,
    etag,
    expected_revision,
    page_of,
    patch_body,
    patched,
)
from tidegate.api.schedules import only, text
from tidegate.control import policies
from tidegate.control.common import Effect
from tidegate.documents import parsing, shapes, table_shapes
from tidegate.documents.declared import MaintenancePolicy
from tidegate.domain.maintenance.policy import Reach
from tidegate.ports.control import ControlStore
from tidegate.ports.tables import PolicyRecord

router = APIRouter(tags=["policies"])
ONE = "/policies/{name}"
KIND = MaintenancePolicy.KIND


@router.get("/policies")
async def list_policies(store: Store, limit: Limit = 100, cursor: Cursor = None) -> dict[str, Any]:
    """Policies, by name; `status.automatic`: whether maintenance starts by itself at all."""
    page = await policies.page(store, cursor=decode_cursor("policies", cursor), limit=limit)
    reach = await policies.reach(store)
    automatic = (await store.maintenance()).automatic
    items = [table_shapes.policy(one, reach.get(one.name, (Reach(), "")), automatic=automatic) for one in page.items]
    return shapes.page(items, encode_cursor("policies", page.next))


@router.post("/policies", status_code=201, openapi_extra=document_body(KIND))
async def create_policy(store: Store, who: Who, response: Response, body: Body) -> dict[str, Any]:
    """Create it; 409 when the name is taken."""
    declaration = parsing.parse(body, kind=KIND)
    assert isinstance(declaration, MaintenancePolicy)
    return await _put(store, declaration, who, response, expected=0)


@router.get(ONE)
async def get_policy(store: Store, response: Response, name: str) -> dict[str, Any]:
    """One policy, with its ETag."""
    record = await policies.get(store, name)
    response.headers["ETag"] = etag(record.rev)
    return await _shown(store, record)


@router.put(ONE, openapi_extra=document_body(KIND), responses={201: {"description": "Created"}})
async def put_policy(
    store: Store,
    who: Who,
    response: Response,
    name: str,
    body: Body,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> dict[str, Any]:
    """Create it or bring it to what is declared."""
    declaration = parsing.parse(body, kind=KIND, name=name)
    assert isinstance(declaration, MaintenancePolicy)
    return await _put(store, declaration, who, response, expected=expected_revision(if_match, if_none_match))


@router.patch(ONE, openapi_extra=patch_body())
async def patch_policy(
    store: Store, who: Who, response: Response, name: str, body: Body, if_match: IfMatch = None
) -> dict[str, Any]:
    """RFC 7396: what is given replaces, null takes away, everything else stays."""
    wanted = expected_revision(if_match)

    async def merge() -> dict[str, Any]:
        record = await policies.get(store, name)
        merged = parsing.merge_patch(await _shown(store, record), body)
        declaration = parsing.parse(merged, kind=KIND, name=name)
        assert isinstance(declaration, MaintenancePolicy)
        return await _put(store, declaration, who, response, expected=record.rev if wanted is None else wanted)

    return await patched(wanted, merge)


@router.delete(ONE, status_code=204)
async def delete_policy(store: Store, who: Who, name: str, if_match: IfMatch = None) -> None:
    """Nothing is started by it any more; what runs ends by itself."""
    await policies.delete(store, name, who=who, expected=expected_revision(if_match))


@router.get(ONE + "/revisions")
async def list_policy_revisions(store: Store, name: str, limit: Limit = 100, cursor: Cursor = None) -> dict[str, Any]:
    """Every revision, newest first; those of a deleted policy, too."""
    revisions = await policies.revisions(store, name)
    found, following = page_of("revisions", revisions, lambda one: str(one[0]), cursor, limit)
    return shapes.page((table_shapes.policy_revision(*one) for one in found), following)


async def _put(
    store: ControlStore, declaration: MaintenancePolicy, who: str, response: Response, *, expected: int | None
) -> dict[str, Any]:
    effect, record = await policies.put(store, declaration, who=who, expected=expected)
    response.status_code = 201 if effect is Effect.CREATED else 200
    response.headers["ETag"] = etag(record.rev)
    return await _shown(store, record)


async def _shown(store: ControlStore, record: PolicyRecord) -> dict[str, Any]:
    reach = await policies.reach(store)
    automatic = (await store.maintenance()).automatic
    return table_shapes.policy(record, reach.get(record.name, (Reach(), "")), automatic=automatic)


# ── maintenance that starts by itself ──────────────────────────────────────────────────────────────────────────────


@router.get("/maintenance")
async def get_maintenance(store: Store) -> dict[str, Any]:
    """Whether maintenance starts by itself; if not, by whose word, since when and why."""
    return table_shapes.switch(await store.maintenance())


@router.post("/maintenance:disable", openapi_extra=document_body())
async def disable_maintenance(store: Store, who: Who, body: Body) -> dict[str, Any]:
    """No maintenance starts by itself any more, of any table; by hand it does. What runs goes on. {reason?}"""
    only(body, "reason")
    return table_shapes.switch(await policies.switch(store, on=False, who=who, reason=text(body, "reason")))


@router.post("/maintenance:enable", openapi_extra=document_body())
async def enable_maintenance(store: Store, who: Who, body: Body) -> dict[str, Any]:
    """Maintenance starts by itself again, where policies say so. {reason?}"""
    only(body, "reason")
    return table_shapes.switch(await policies.switch(store, on=True, who=who, reason=text(body, "reason")))
