"""Programs over REST."""

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
    patch_body,
    patched,
)
from tidegate.control import programs
from tidegate.control.common import Effect
from tidegate.documents import parsing, shapes
from tidegate.documents.declared import Program
from tidegate.ports.control import ControlStore

router = APIRouter(tags=["programs"])
ONE = "/namespaces/{namespace}/programs/{name}"
ALL = "/namespaces/{namespace}/programs"


@router.get(ALL)
async def list_programs(store: Store, namespace: str, limit: Limit = 100, cursor: Cursor = None) -> dict[str, Any]:
    """Programs of a namespace, newest first."""
    page = await programs.page(store, namespace, cursor=decode_cursor("programs", cursor), limit=limit)
    return shapes.page(map(shapes.program, page.items), encode_cursor("programs", page.next))


@router.post(ALL, status_code=201, openapi_extra=document_body("Program"))
async def create_program(store: Store, who: Who, response: Response, namespace: str, body: Body) -> dict[str, Any]:
    """Create it; 409 when the name is taken."""
    declaration = parsing.parse(body, kind="Program", namespace=namespace)
    assert isinstance(declaration, Program)
    return await _put(store, declaration, who, response, 0)


@router.get(ONE)
async def get_program(store: Store, response: Response, namespace: str, name: str) -> dict[str, Any]:
    """One program, with its ETag."""
    record = await programs.get(store, namespace, name)
    response.headers["ETag"] = etag(record.ref.rev)
    return shapes.program(record)


@router.put(ONE, openapi_extra=document_body("Program"), responses={201: {"description": "Created"}})
async def put_program(
    store: Store,
    who: Who,
    response: Response,
    namespace: str,
    name: str,
    body: Body,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> dict[str, Any]:
    """Create it or bring it to what is declared; later launches take the new revision."""
    declaration = parsing.parse(body, kind="Program", namespace=namespace, name=name)
    assert isinstance(declaration, Program)
    return await _put(store, declaration, who, response, expected_revision(if_match, if_none_match))


@router.patch(ONE, openapi_extra=patch_body())
async def patch_program(
    store: Store, who: Who, response: Response, namespace: str, name: str, body: Body, if_match: IfMatch = None
) -> dict[str, Any]:
    """RFC 7396: what is given replaces, null takes away, everything else stays."""
    wanted = expected_revision(if_match)

    async def merge() -> dict[str, Any]:
        record = await programs.get(store, namespace, name)
        merged = parsing.merge_patch(shapes.program_document(record), body)
        declaration = parsing.parse(merged, kind="Program", namespace=namespace, name=name)
        assert isinstance(declaration, Program)
        return await _put(store, declaration, who, response, record.ref.rev if wanted is None else wanted)

    return await patched(wanted, merge)


@router.delete(ONE, status_code=204)
async def delete_program(store: Store, who: Who, namespace: str, name: str, if_match: IfMatch = None) -> None:
    """Delete it and every schedule that names it."""
    await programs.delete(store, namespace, name, who=who, expected=expected_revision(if_match))


async def _put(
    store: ControlStore, declaration: Program, who: str, response: Response, expected: int | None
) -> dict[str, Any]:
    written = await programs.put(store, declaration, who=who, expected=expected)
    ref = written.record.ref
    response.headers["ETag"] = etag(ref.rev)
    response.headers["Location"] = f"/api/v1/namespaces/{ref.namespace}/programs/{ref.name}"
    response.status_code = 201 if written.effect is Effect.CREATED else 200
    return shapes.program(written.record)
