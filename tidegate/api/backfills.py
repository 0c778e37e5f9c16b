"""Backfills over REST: asked for, looked at, paused, resumed, cancelled."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from tidegate.api.context import Store, Who
from tidegate.api.problems import Problem
from tidegate.api.reading import Body, Cursor, Limit, decode_cursor, document_body, encode_cursor
from tidegate.api.schedules import ONE, only, text
from tidegate.control import backfills
from tidegate.documents import backfills as documents
from tidegate.documents import refusals, shapes
from tidegate.domain.backfills import BackfillState
from tidegate.domain.errors import Fault

router = APIRouter(tags=["backfills"])
BackfillId = Annotated[str, Path(description="as lists give it", examples=["b17"])]
StateQuery = Annotated[str | None, Query(description="states, separated by commas; left out: all")]
ScheduleQuery = Annotated[str | None, Query(description="only of this schedule", max_length=200)]


@router.post(ONE + ":backfill", status_code=202, openapi_extra=document_body())
async def backfill_schedule(store: Store, who: Who, namespace: str, name: str, body: Body) -> dict[str, Any]:
    """Run past fire times. {start, end?, order?, concurrency?, reprocess?, dry_run?}, or keys (fire times) for a range.

    `start` up to, not at, `end` (left out: now). `order`: oldest or newest first. `reprocess` none: only what never
    got a run; failed: also what no run did; all: everything not under way. `dry_run`: only tell what it would do."""
    wish, dry_run = documents.parse_backfill(body)
    if dry_run:
        return documents.previewed(await backfills.preview(store, namespace, name, wish), None, namespace, name)
    record, shown = await backfills.create(store, namespace, name, wish, who=who)
    return documents.previewed(shown, record, namespace, name)


@router.get("/backfills")
@router.get("/namespaces/{namespace}/backfills")
async def list_backfills(
    store: Store,
    namespace: str | None = None,
    schedule: ScheduleQuery = None,
    state: StateQuery = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> dict[str, Any]:
    """Backfills, newest first; what each has in hand is told one by one."""
    page = await backfills.page(
        store,
        namespace,
        schedule=schedule,
        states=_states(state),
        cursor=decode_cursor("backfills", cursor),
        limit=limit,
    )
    told = (documents.backfill(record, (), None) for record in page.items)
    return shapes.page(told, encode_cursor("backfills", page.next))


@router.get("/backfills/{backfill}")
async def get_backfill(store: Store, backfill: BackfillId) -> dict[str, Any]:
    """One backfill: how far it is, and (a hundred of) the fire times that it has in hand."""
    return _shown(await backfills.get(store, backfill))


@router.post("/backfills/{backfill}:pause", status_code=202, openapi_extra=document_body())
async def pause_backfill(store: Store, who: Who, backfill: BackfillId, body: Body) -> dict[str, Any]:
    """Make no further run, and take back those that wait; what runs goes on. {reason?}"""
    only(body, "reason")
    return _shown(await backfills.pause(store, backfill, who=who, reason=text(body, "reason")))


@router.post("/backfills/{backfill}:resume", status_code=202, openapi_extra=document_body())
async def resume_backfill(store: Store, who: Who, backfill: BackfillId, body: Body) -> dict[str, Any]:
    """Go on where it stood. {reason?}"""
    only(body, "reason")
    return _shown(await backfills.resume(store, backfill, who=who, reason=text(body, "reason")))


@router.post("/backfills/{backfill}:cancel", status_code=202, openapi_extra=document_body())
async def cancel_backfill(store: Store, who: Who, backfill: BackfillId, body: Body) -> dict[str, Any]:
    """End it for good. Its runs: those that wait end at once, those in flight are asked to stop. {reason?}"""
    only(body, "reason")
    return _shown(await backfills.cancel(store, backfill, who=who, reason=text(body, "reason")))


def _shown(seen: backfills.Seen) -> dict[str, Any]:
    return documents.backfill(seen.record, seen.items, seen.left)


def _states(given: str | None) -> frozenset[BackfillState]:
    words = [word.strip() for word in (given or "").split(",") if word.strip()]
    known = [one.value for one in BackfillState]
    faults = [Fault("state", refusals.unknown(word, "a state", known)) for word in words if word not in known]
    if faults:
        raise Problem(422, "; ".join(map(str, faults)), faults=faults)
    return frozenset(BackfillState(word) for word in words)
