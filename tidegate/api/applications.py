"""Applications over REST: programs and schedules deployed together."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from tidegate.api.context import Here, Store, Who
from tidegate.api.reading import Body, Cursor, Limit, decode_cursor, document_body, encode_cursor, unversioned
from tidegate.api.schedules import OnUpdateQuery, StrictQuery
from tidegate.control import applications
from tidegate.control.applications import ApplicationRecord
from tidegate.control.common import OnUpdate
from tidegate.documents import encode, parsing, shapes
from tidegate.ports.records import Metadata

router = APIRouter(tags=["applications"], dependencies=[Depends(unversioned)])
ONE = "/namespaces/{namespace}/applications/{name}"
ALL = "/namespaces/{namespace}/applications"


@router.get(ALL)
async def list_applications(store: Store, namespace: str, limit: Limit = 100, cursor: Cursor = None) -> dict[str, Any]:
    """Applications of a namespace."""
    page = await applications.page(store, namespace, cursor=decode_cursor("applications", cursor), limit=limit)
    return shapes.page(map(_shown, page.items), encode_cursor("applications", page.next))


@router.get(ONE)
async def get_application(store: Store, namespace: str, name: str) -> dict[str, Any]:
    """One application: the names of its programs and schedules."""
    return _shown(await applications.get(store, namespace, name))


@router.put(ONE, openapi_extra=document_body())
async def put_application(
    here: Here,
    who: Who,
    namespace: str,
    name: str,
    body: Body,
    update_schedules: Annotated[
        bool | None, Query(description="also create, replace and delete schedules; left out: api.update_schedules")
    ] = None,
    on_update: OnUpdateQuery = OnUpdate.RESET,
    dry_run: Annotated[bool, Query(description="say what would happen and change nothing")] = False,
    strict: StrictQuery = False,
) -> dict[str, Any]:
    """Deploy {programs: [...], schedules: [...]}: all or nothing. What is equal keeps its state."""
    deployed = await applications.deploy(
        here.store,
        parsing.parse_application(body, namespace=namespace, name=name),
        who=who,
        update_schedules=here.update_schedules if update_schedules is None else update_schedules,
        on_update=on_update,
        dry_run=dry_run,
        strict=strict,
    )
    return {**shapes.deployed(deployed), "disabled": list(deployed.disabled)}


@router.delete(ONE, status_code=204)
async def delete_application(store: Store, who: Who, namespace: str, name: str) -> None:
    """Delete it with its programs and schedules."""
    await applications.delete(store, namespace, name, who=who)


def _shown(record: ApplicationRecord) -> dict[str, Any]:
    said = dict(record.document)
    about = said.pop("metadata", None) or {}
    named = Metadata(namespace=record.namespace, name=record.name, labels={})
    metadata = {**shapes.metadata(named), **about}
    return {"apiVersion": encode.API_VERSION, "kind": "Application", "metadata": metadata, "spec": said}
