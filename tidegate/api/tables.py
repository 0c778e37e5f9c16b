"""Tables over REST: their health, what is decided about them and why, and maintenance by hand."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from tidegate.api.context import Here, Store, Who
from tidegate.api.reading import Body, Cursor, Limit, decode_cursor, document_body, encode_cursor
from tidegate.api.schedules import only
from tidegate.control import tables
from tidegate.documents import shapes, table_shapes
from tidegate.domain.errors import Fault, Invalid
from tidegate.ports.control import ControlStore

router = APIRouter(tags=["tables"])
ONE = "/tables/{table}"


@router.get("/tables")
async def list_tables(store: Store, limit: Limit = 100, cursor: Cursor = None) -> dict[str, Any]:
    """Every table of every catalog, by name, with its debt and the policy that speaks for it."""
    page = await tables.page(store, cursor=decode_cursor("tables", cursor), limit=limit)
    return shapes.page(map(table_shapes.table, page.items), encode_cursor("tables", page.next))


@router.get(ONE)
async def get_table(store: Store, table: str) -> dict[str, Any]:
    """One table, by its path catalog.namespace.table."""
    return table_shapes.table(await tables.get(store, table))


@router.get(ONE + "/health")
async def get_health(store: Store, table: str) -> dict[str, Any]:
    """Its figures, what is the matter, and its debt term by term."""
    return table_shapes.health(await tables.get(store, table), await store.now())


@router.get(ONE + "/history")
async def list_history(store: Store, table: str, limit: Limit = 100, cursor: Cursor = None) -> dict[str, Any]:
    """What was measured of it, newest first."""
    page = await tables.history(store, table, cursor=decode_cursor("history", cursor), limit=limit)
    return shapes.page((table_shapes.measured(*one) for one in page.items), encode_cursor("history", page.next))


@router.get(ONE + "/runs")
async def list_maintenance(store: Store, table: str, limit: Limit = 100, cursor: Cursor = None) -> dict[str, Any]:
    """Its maintenance, newest first, with what each really changed."""
    page = await tables.runs(store, table, cursor=decode_cursor("care", cursor), limit=limit)
    return shapes.page(map(table_shapes.care, page.items), encode_cursor("care", page.next))


@router.get(ONE + "/trigger-status")
async def get_trigger_status(here: Here, table: str) -> dict[str, Any]:
    """Of each operation whether it is to run now, and every reason: the very decision that the scheduler takes."""
    return table_shapes.trigger_status(await tables.status(here.store, table, ruling=here.ruling))


@router.get("/tables/{namespace}/{table}/trigger-status")
async def get_trigger_status_of(here: Here, namespace: str, table: str) -> dict[str, Any]:
    """The same for a table of the default catalog."""
    name = f"{here.catalog}.{namespace}.{table}"
    return table_shapes.trigger_status(await tables.status(here.store, name, ruling=here.ruling))


@router.post(ONE + ":maintain", status_code=202, openapi_extra=document_body())
async def maintain_table(store: Store, who: Who, table: str, body: Body) -> dict[str, Any]:
    """Start an operation, or all of its policy. {operation?, policy?, dry_run?}"""
    return await _maintain(store, table, body, who)


@router.post("/maintenance/trigger", status_code=202, openapi_extra=document_body())
async def trigger_maintenance(store: Store, who: Who, body: Body) -> dict[str, Any]:
    """The same by parts of the table's path. {catalog, namespace, table, operation?, policy?}"""
    given = dict(body)
    needed = ("catalog", "namespace", "table")
    faults = [Fault(one, "is missing: give it as text") for one in needed if not _is_text(given.get(one))]
    if faults:
        raise Invalid(faults, what="the request")
    rest = {key: value for key, value in given.items() if key not in needed}
    return await _maintain(store, ".".join(given[one] for one in needed), rest, who)


async def _maintain(store: ControlStore, table: str, body: Any, who: str) -> dict[str, Any]:
    only(body, "operation", "policy", "dry_run")
    given = dict(body)
    faults = [
        Fault(key, "must be text")
        for key in ("operation", "policy")
        if given.get(key) not in (None,) and not _is_text(given[key])
    ]
    dry_run = given.get("dry_run", False)
    if not isinstance(dry_run, bool):
        faults.append(Fault("dry_run", "must be true or false"))
    if faults:
        raise Invalid(faults, what="the request")
    started = await tables.maintain(
        store, table, who=who, operation=given.get("operation"), policy=given.get("policy"), dry_run=dry_run
    )
    return {"items": [table_shapes.maintained(table, one) for one in started], "next": None}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
