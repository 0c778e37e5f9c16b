"""Runs over REST: listed, looked into, followed, cancelled, repeated; and the queue of those that wait."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from tidegate.api.context import Here, Store, Who
from tidegate.api.problems import Problem
from tidegate.api.reading import Body, Cursor, Limit, decode_cursor, document_body, encode_cursor, instant
from tidegate.api.schedules import only
from tidegate.control import explain as explaining
from tidegate.control import progress as progressing
from tidegate.control import runs
from tidegate.documents import event_shapes, refusals, shapes
from tidegate.domain.errors import Fault, NotFound
from tidegate.domain.ids import AttemptKey, parse_run_id
from tidegate.domain.runs import ENDS, State
from tidegate.ports.records import RunRecord

router = APIRouter(tags=["runs"])

StateQuery = Annotated[str | None, Query(description="states, separated by commas; left out: all")]
SinceQuery = Annotated[str | None, Query(description="fire time, or making, not before this instant (RFC 3339)")]
ScheduleQuery = Annotated[str | None, Query(description="only of this schedule", max_length=200)]
RunId = Annotated[str, Path(description="as lists give it", examples=["r6bvnq2k0w-1a-0"])]
CHUNK = 262_144  # bytes of a log in one answer


@router.get("/runs")
async def list_all_runs(
    store: Store,
    namespace: str | None = None,
    schedule: ScheduleQuery = None,
    state: StateQuery = None,
    since: SinceQuery = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> dict[str, Any]:
    """Runs of all namespaces, newest first; a stretch of missed fires is one item."""
    page = await runs.page(
        store,
        namespace,
        schedule=schedule,
        states=_states(state),
        since=instant(since, "since"),
        cursor=decode_cursor("runs", cursor),
        limit=limit,
    )
    return shapes.page(map(shapes.run, page.items), encode_cursor("runs", page.next))


@router.get("/namespaces/{namespace}/runs")
async def list_runs(
    store: Store,
    namespace: str,
    schedule: ScheduleQuery = None,
    state: StateQuery = None,
    since: SinceQuery = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> dict[str, Any]:
    """Runs of a namespace, newest first; a stretch of missed fires is one item."""
    return await list_all_runs(store, namespace, schedule, state, since, limit, cursor)


def _states(text: str | None) -> frozenset[State]:
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    faults = [
        Fault("state", refusals.unknown(word, "a state", [one.value for one in State]))
        for word in words
        if word not in list(State)
    ]
    if faults:
        raise Problem(422, "; ".join(map(str, faults)), faults=faults)
    return frozenset(State(word) for word in words)


@router.get("/runs/{run}")
@router.get("/namespaces/{namespace}/runs/{run}")
async def get_run(store: Store, run: RunId, namespace: str | None = None) -> dict[str, Any]:
    """One run with its attempts."""
    return shapes.run(await _found(store, run, namespace))


@router.get("/runs/{run}/explain")
@router.get("/namespaces/{namespace}/runs/{run}/explain")
async def explain_run(store: Store, run: RunId, namespace: str | None = None) -> dict[str, Any]:
    """Why it has not started, or why it did and how it ended."""
    await _found(store, run, namespace)
    return shapes.explain(await explaining.of_run(store, run))


@router.get("/runs/{run}/logs")
@router.get("/namespaces/{namespace}/runs/{run}/logs")
async def read_log(
    here: Here,
    run: RunId,
    namespace: str | None = None,
    offset: Annotated[int, Query(ge=0, le=1 << 62, description="`next_offset` of the answer before")] = 0,
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000, description="which attempt; left out: the newest")] = None,
) -> dict[str, Any]:
    """A piece of an attempt's log from an offset in bytes; ask again from `next_offset` until `complete`."""
    record = await _found(here.store, run, namespace)
    numbers = [one.key.number for one in record.attempts]
    if attempt is not None and attempt not in numbers:
        raise NotFound(f"run {run} has no attempt {attempt}; it made {len(numbers)}")
    if not numbers:
        ended = record.state in ENDS
        return {"attempt": None, "offset": offset, "text": "", "next_offset": offset, "complete": ended}
    number = attempt or max(numbers)
    chunk = await here.logs.read(AttemptKey(record.key, number), offset, CHUNK)
    return {
        "attempt": number,
        "offset": offset,
        "text": chunk.text,
        "next_offset": chunk.next_offset,
        "complete": chunk.complete,
    }


@router.post("/runs/{run}:cancel", status_code=202, openapi_extra=document_body())
@router.post("/namespaces/{namespace}/runs/{run}:cancel", status_code=202, openapi_extra=document_body())
async def cancel_run(store: Store, who: Who, run: RunId, body: Body, namespace: str | None = None) -> dict[str, Any]:
    """Waiting: it ends at once. In flight: it is asked to end, then made to. 409 when it ended otherwise."""
    only(body, "reason")
    await _found(store, run, namespace)
    return shapes.run(await runs.cancel(store, run, who=who))


@router.post("/runs/{run}:rerun", status_code=202, openapi_extra=document_body())
@router.post("/namespaces/{namespace}/runs/{run}:rerun", status_code=202, openapi_extra=document_body())
async def rerun_run(store: Store, who: Who, run: RunId, body: Body, namespace: str | None = None) -> dict[str, Any]:
    """A new run with the old one's inputs, arguments and fire time. 409 while the old one lives."""
    only(body)
    await _found(store, run, namespace)
    return shapes.run(await runs.rerun(store, run, who=who))


async def _found(store: Store, run: str, namespace: str | None) -> RunRecord:
    try:
        parse_run_id(run)
    except ValueError as error:
        raise NotFound(f"{error}.") from None
    record = await runs.get(store, run)
    if namespace is not None and record.namespace != namespace:
        raise NotFound(f"run {run} is not in namespace {namespace!r}.")
    return record


@router.get("/queue", tags=["queue"])
async def queue(
    store: Store, namespace: str | None = None, limit: Limit = 100, cursor: Cursor = None
) -> dict[str, Any]:
    """Waiting runs, the next to start first, then triggers that are partly satisfied."""
    kind, _, rest = (decode_cursor("queue", cursor) or "run.0.").partition(".")
    items: list[dict[str, Any]] = []
    if kind == "run":
        before, _, position = rest.partition(".")
        page = await runs.queue(store, namespace, cursor=position or None, limit=limit)
        items += [shapes.queue_item(one, position=int(before) + n) for n, one in enumerate(page.items, start=1)]
        if page.next is not None:
            return shapes.page(items, encode_cursor("queue", f"run.{int(before) + len(items)}.{page.next}"))
        rest = ""
    if len(items) >= limit:
        return shapes.page(items, encode_cursor("queue", "progress."))
    gathered = await progressing.page(store, namespace, cursor=rest or None, limit=limit - len(items))
    items += map(event_shapes.progress_item, gathered.items)
    return shapes.page(items, encode_cursor("queue", gathered.next and f"progress.{gathered.next}"))
