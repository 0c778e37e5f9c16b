"""Many documents at once, fires of a trigger that is not declared, and what the ledger and the audit log hold."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import StreamingResponse

from tidegate.api.context import Here, Store, Who
from tidegate.api.problems import Problem, of
from tidegate.api.reading import Body, Cursor, Limit, decode_cursor, document_body, encode_cursor, instant, page_of
from tidegate.api.schedules import OnUpdateQuery, StrictQuery, only
from tidegate.control import apply as applying
from tidegate.control import audit as auditing
from tidegate.control import preview as previewing
from tidegate.control.common import OnUpdate
from tidegate.documents import audited, files, parsing, shapes
from tidegate.documents.declared import Declaration
from tidegate.domain.errors import Fault, Invalid, TidegateError
from tidegate.domain.instants import Instant
from tidegate.domain.naming import DEFAULT_NAMESPACE

router = APIRouter()

AT_A_STRETCH = 50
"""Documents that are checked between two turns of all else."""


@router.post("/apply", tags=["documents"], openapi_extra=document_body())
async def apply_documents(
    store: Store,
    who: Who,
    body: Body,
    on_update: OnUpdateQuery = OnUpdate.RESET,
    dry_run: Annotated[bool, Query(description="check everything and change nothing")] = False,
    strict: StrictQuery = False,
) -> dict[str, Any]:
    """{documents: [...]}: all of them are written, or none."""
    documents = await _documents(body)
    done = await applying.apply(store, documents, who=who, on_update=on_update, dry_run=dry_run, strict=strict)
    return shapes.page(map(shapes.applied, done), None)


@router.post("/diff", tags=["documents"], openapi_extra=document_body())
async def diff_documents(store: Store, body: Body) -> dict[str, Any]:
    """{documents: [...]}: how each differs from what is stored."""
    return shapes.page(map(shapes.difference, await applying.diff(store, await _documents(body))), None)


async def _documents(body: dict[str, Any]) -> Sequence[Declaration]:
    """Every document checked; the faults of all of them together. Thousands take seconds, in which all else goes on."""
    only(body, "documents", "namespace")
    given = body.get("documents")
    if not isinstance(given, list) or len(given) > files.MOST:
        many = f"; there are {len(given):,}: apply them in parts" if isinstance(given, list) else ""
        reason = f"must be a list of at most {files.MOST:,} documents{many}"
        raise Problem(422, f"documents {reason}", faults=[Fault("documents", reason)])
    namespace = body.get("namespace") or DEFAULT_NAMESPACE
    if not isinstance(namespace, str):
        raise Problem(422, "namespace must be text", faults=[Fault("namespace", "must be text")])
    found: list[Declaration] = []
    faults: list[Fault] = []
    for index, raw in enumerate(given):
        if not index % AT_A_STRETCH:
            await asyncio.sleep(0)
        try:
            found.append(parsing.parse(raw, default_namespace=namespace, at=f"documents[{index}]"))
        except Invalid as invalid:
            faults += invalid.faults
    if faults:
        raise Invalid(faults, what="the request")
    return found


@router.post("/preview", tags=["schedules"], openapi_extra=document_body())
async def preview_trigger(store: Store, body: Body) -> dict[str, Any]:
    """{trigger, after?, count?}: the fires of a trigger that is not declared."""
    only(body, "trigger", "after", "count")
    count, after = body.get("count", 10), body.get("after")
    faults: list[Fault] = []
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 1000:
        faults.append(Fault("count", "must be a whole number from 1 to 1000"))
    if after is not None and not isinstance(after, str):
        faults.append(Fault("after", "must be an instant such as 2026-03-29T00:00:00Z"))
    if "trigger" not in body:
        faults.append(Fault("trigger", "is missing: which trigger?"))
    if faults:
        raise Problem(422, "; ".join(map(str, faults)), faults=faults)
    trigger = parsing.parse_trigger(body["trigger"])
    fires = await previewing.of_trigger(store, trigger, after=instant(after, "after"), count=count)
    return shapes.page(map(shapes.preview, fires), None)


# ── what is on record ──────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/audit", tags=["audit"])
async def list_changes(
    store: Store, namespace: str | None = None, limit: Limit = 100, cursor: Cursor = None
) -> dict[str, Any]:
    """Who changed what, when, and what differed; newest first."""
    position = decode_cursor("changes", cursor)
    found = await store.changes(namespace, int(position) if position else None, limit)
    following = found[-1].id if len(found) == limit else None
    return shapes.page(map(shapes.change, found), encode_cursor("changes", following))


@router.get(
    "/audit/ledger", tags=["audit"], responses={200: {"content": {"application/json": {}, "application/x-ndjson": {}}}}
)
async def audit_ledger(
    here: Here,
    namespace: str | None = None,
    since: str | None = None,
    progress: Annotated[bool, Query(description="tell how far it is, as lines of JSON; the last is the proof")] = False,
) -> Any:
    """The proof: recomputes from the revisions which fires were due and compares with the ledger. Reads only."""
    begin = instant(since, "since")

    async def prove(tell: Callable[[auditing.Progress], None] | None) -> dict[str, Any]:
        proof = await auditing.audit(here.store, namespace=namespace, since=begin, kept=here.kept, on_progress=tell)
        return audited.audit(proof)

    if not progress:
        return await prove(None)
    return StreamingResponse(_told(prove), media_type="application/x-ndjson")


EVERY = 0.5  # seconds between two lines of progress


async def _told(
    prove: Callable[[Callable[[auditing.Progress], None]], Awaitable[dict[str, Any]]],
) -> AsyncIterator[str]:
    """Lines {progress}, then one line {audit} or {problem}."""
    newest: list[auditing.Progress] = []
    proving = asyncio.ensure_future(prove(newest.append))
    try:
        ended = False
        while not ended:
            ended = bool((await asyncio.wait({proving}, timeout=EVERY))[0])
            if newest:
                told, newest[:] = newest[-1], []
                yield json.dumps({"progress": audited.progress(told)}) + "\n"
        try:
            yield json.dumps({"audit": proving.result()}) + "\n"
        except TidegateError as error:
            yield bytes(of(error).body).decode().join(('{"problem": ', "}\n"))
    finally:
        proving.cancel()


@router.get("/instances", tags=["system"])
async def list_instances(store: Store, limit: Limit = 100, cursor: Cursor = None) -> dict[str, Any]:
    """Processes that are alive."""
    found, following = page_of("instances", await store.instances(), lambda one: f"{one.id:012}", cursor, limit)
    return shapes.page(map(shapes.instance, found), following)


@router.get("/leases", tags=["system"])
async def list_leases(store: Store, limit: Limit = 100, cursor: Cursor = None) -> dict[str, Any]:
    """Single-owner duties, and who has them; `lapsed`: nobody, its holder has lost it."""
    now = await store.now()
    found, following = page_of("leases", await store.leases(), lambda one: str(one["duty"]), cursor, limit)
    return shapes.page((_lease(dict(one), now) for one in found), following)


_TEXT: dict[str, Callable[[Any], Any]] = {"expires": shapes.moment, "instance_id": str}


def _lease(one: dict[str, Any], now: Instant) -> dict[str, Any]:
    told = {key: _TEXT[key](value) if isinstance(value, int) and key in _TEXT else value for key, value in one.items()}
    return {**told, "lapsed": one["expires"] is None or one["expires"] <= now}
