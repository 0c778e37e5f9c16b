"""Schedules over REST: declared, read, changed, switched, tried out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from tidegate.api.context import Store, Who
from tidegate.api.problems import Problem
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
    instant,
    page_of,
    patch_body,
    patched,
)
from tidegate.control import explain as explaining
from tidegate.control import preview as previewing
from tidegate.control import progress as progressing
from tidegate.control import runs, schedules
from tidegate.control.common import Effect, OnUpdate
from tidegate.documents import event_shapes, parsing, refusals, shapes
from tidegate.documents.declared import Schedule
from tidegate.domain.errors import Fault
from tidegate.domain.jsonable import say
from tidegate.domain.schedules import Mode
from tidegate.ports.control import ControlStore
from tidegate.ports.records import ScheduleRecord, Stats

router = APIRouter(tags=["schedules"])
ONE = "/namespaces/{namespace}/schedules/{name}"
ALL = "/namespaces/{namespace}/schedules"

OnUpdateQuery = Annotated[OnUpdate, Query(description="what becomes of waiting runs when the document differs")]
StrictQuery = Annotated[bool, Query(description="refuse what contradicts itself, instead of warning")]


async def shown(store: ControlStore, record: ScheduleRecord, warnings: Sequence[Fault] = ()) -> dict[str, Any]:
    """The shape of one schedule; after a write with what contradicts itself in it."""
    stats = await store.stats(record.id)
    impossible = await progressing.unsatisfiable(store, record.spec.trigger)
    found = shapes.schedule(record, stats, next_fire=schedules.next_fire(record), unsatisfiable=impossible)
    if warnings:
        found["status"]["warnings"] = shapes.warnings(warnings)
    return found


@router.get(ALL)
async def list_schedules(store: Store, namespace: str, limit: Limit = 100, cursor: Cursor = None) -> dict[str, Any]:
    """Schedules of a namespace, newest first."""
    position = decode_cursor("schedules", cursor)
    page = await schedules.page(store, namespace, cursor=position, limit=limit)
    stats = await store.stats_of([record.id for record in page.items])
    impossible = await progressing.unsatisfiable_of(store, {one.id: one.spec.trigger for one in page.items})
    items = (
        shapes.schedule(
            record,
            stats.get(record.id, Stats()),
            next_fire=schedules.next_fire(record),
            unsatisfiable=impossible.get(record.id),
        )
        for record in page.items
    )
    return shapes.page(items, encode_cursor("schedules", page.next))


@router.post(ALL, status_code=201, openapi_extra=document_body("Schedule"))
async def create_schedule(
    store: Store, who: Who, response: Response, namespace: str, body: Body, strict: StrictQuery = False
) -> dict[str, Any]:
    """Create it; 409 when the name is taken."""
    declaration = parsing.parse(body, kind="Schedule", namespace=namespace)
    assert isinstance(declaration, Schedule)
    return await _put(store, declaration, who, response, OnUpdate.RESET, expected=0, strict=strict)


@router.get(ONE)
async def get_schedule(store: Store, response: Response, namespace: str, name: str) -> dict[str, Any]:
    """One schedule, with its status and its ETag."""
    record = await schedules.get(store, namespace, name)
    response.headers["ETag"] = etag(record.rev)
    return await shown(store, record)


@router.put(ONE, openapi_extra=document_body("Schedule"), responses={201: {"description": "Created"}})
async def put_schedule(
    store: Store,
    who: Who,
    response: Response,
    namespace: str,
    name: str,
    body: Body,
    on_update: OnUpdateQuery = OnUpdate.RESET,
    strict: StrictQuery = False,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> dict[str, Any]:
    """Create it or bring it to what is declared; an equal document disturbs nothing."""
    declaration = parsing.parse(body, kind="Schedule", namespace=namespace, name=name)
    assert isinstance(declaration, Schedule)
    expected = expected_revision(if_match, if_none_match)
    return await _put(store, declaration, who, response, on_update, expected=expected, strict=strict)


@router.patch(ONE, openapi_extra=patch_body())
async def patch_schedule(
    store: Store,
    who: Who,
    response: Response,
    namespace: str,
    name: str,
    body: Body,
    on_update: OnUpdateQuery = OnUpdate.RESET,
    strict: StrictQuery = False,
    if_match: IfMatch = None,
) -> dict[str, Any]:
    """RFC 7396: what is given replaces, null takes away, everything else stays."""
    wanted = expected_revision(if_match)

    async def merge() -> dict[str, Any]:
        record = await schedules.get(store, namespace, name)
        merged = parsing.merge_patch(shapes.schedule_document(record), body)
        declaration = parsing.parse(merged, kind="Schedule", namespace=namespace, name=name)
        assert isinstance(declaration, Schedule)
        expected = wanted if wanted is not None else record.rev
        return await _put(store, declaration, who, response, on_update, expected=expected, strict=strict)

    return await patched(wanted, merge)


@router.delete(ONE, status_code=204)
async def delete_schedule(store: Store, who: Who, namespace: str, name: str, if_match: IfMatch = None) -> None:
    """Nothing of it starts any more; what runs ends by itself."""
    await schedules.delete(store, namespace, name, who=who, expected=expected_revision(if_match))


async def _put(
    store: ControlStore,
    declaration: Schedule,
    who: str,
    response: Response,
    on_update: OnUpdate,
    *,
    expected: int | None,
    strict: bool,
) -> dict[str, Any]:
    written = await schedules.put(store, declaration, who=who, on_update=on_update, expected=expected, strict=strict)
    metadata = written.record.metadata
    response.headers["ETag"] = etag(written.record.rev)
    response.headers["Location"] = f"/api/v1/namespaces/{metadata.namespace}/schedules/{metadata.name}"
    response.status_code = 201 if written.effect is Effect.CREATED else 200
    return await shown(store, written.record, written.warnings)


# ── switched and asked for ─────────────────────────────────────────────────────────────────────────────────────────


@router.post(ONE + ":enable", openapi_extra=document_body())
async def enable_schedule(
    store: Store, who: Who, response: Response, namespace: str, name: str, body: Body, if_match: IfMatch = None
) -> dict[str, Any]:
    """Let it work: it reacts to what comes from now on. {reason?}"""
    only(body, "reason")
    record = await schedules.enable(
        store, namespace, name, who=who, reason=text(body, "reason"), expected=expected_revision(if_match)
    )
    response.headers["ETag"] = etag(record.rev)
    return await shown(store, record)


@router.post(ONE + ":disable", openapi_extra=document_body())
async def disable_schedule(
    store: Store, who: Who, response: Response, namespace: str, name: str, body: Body, if_match: IfMatch = None
) -> dict[str, Any]:
    """Let it rest; running attempts end by themselves. {mode?, reason?, expire?}

    `drop`: waiting runs end, nothing is collected. `keep`: what waits starts when it may, nothing new comes. `backlog`:
    runs are made and wait until it is enabled. `hold`: the same, merged into one. `expire`: held runs expire."""
    only(body, "mode", "reason", "expire")
    mode, expire = _mode(body)
    record = await schedules.disable(
        store,
        namespace,
        name,
        who=who,
        mode=mode,
        reason=text(body, "reason"),
        expire=expire,
        expected=expected_revision(if_match),
    )
    response.headers["ETag"] = etag(record.rev)
    return await shown(store, record)


@router.post(ONE + ":trigger", status_code=202, openapi_extra=document_body())
async def trigger_schedule(store: Store, who: Who, namespace: str, name: str, body: Body) -> dict[str, Any]:
    """Ask for a run now; also while it is disabled. {arguments?}"""
    only(body, "arguments")
    given = body.get("arguments")
    arguments = None if given is None else parsing.parse_arguments(given)
    return shapes.run(await runs.trigger(store, namespace, name, who=who, arguments=arguments))


_RESTS = [one.value for one in Mode if one is not Mode.ENABLED]


def _mode(body: Mapping[str, Any]) -> tuple[Mode, bool]:
    """How it is to rest, and whether what it holds expires."""
    given, expire = body.get("mode") or Mode.DROP.value, body.get("expire") or False
    faults = []
    if not isinstance(given, str) or given not in _RESTS:
        faults.append(Fault("mode", refusals.unknown(str(given), "a way to rest", _RESTS)))
    if not isinstance(expire, bool):
        faults.append(Fault("expire", "must be true or false"))
    elif expire and given in (Mode.DROP, Mode.KEEP):
        faults.append(Fault("expire", f"mode {given!r} holds no runs that could expire; leave it out"))
    if faults:
        raise Problem(422, "; ".join(map(str, faults)), faults=faults)
    return Mode(given), expire


def only(body: Mapping[str, Any], *known: str) -> None:
    """Refuse unknown keys, with the nearest."""
    faults = [Fault(key, refusals.unknown(key, "a key here", known)) for key in body if key not in known]
    if faults:
        raise Problem(422, "; ".join(map(str, faults)), faults=faults)


def text(body: Mapping[str, Any], key: str) -> str:
    """A text that may be left out."""
    value = body.get(key)
    if value is None:
        return ""
    if isinstance(value, str) and len(value) <= 1000:
        return value
    told = f"{len(value):,}" if isinstance(value, str) else say(value)
    fault = Fault(key, f"must be text of at most 1000 characters, not {told}")
    raise Problem(422, str(fault), faults=[fault])


# ── looked at ──────────────────────────────────────────────────────────────────────────────────────────────────────

Count = Annotated[int, Query(ge=1, le=1000, description="how many fires")]
After = Annotated[str | None, Query(description="fires after this instant (RFC 3339); left out: now")]


@router.get(ONE + "/preview")
async def preview_schedule(
    store: Store, namespace: str, name: str, count: Count = 10, after: After = None
) -> dict[str, Any]:
    """Its next fires, as if it were enabled."""
    fires = await previewing.of_schedule(store, namespace, name, after=instant(after, "after"), count=count)
    return shapes.page(map(shapes.preview, fires), None)


@router.get(f"{ONE}/progress")
async def schedule_progress(store: Store, namespace: str, name: str) -> dict[str, Any]:
    """What its trigger has collected, what it lacks, and when silence alone will decide."""
    found = await progressing.of_schedule(store, namespace, name)
    if found is None:
        return {
            "namespace": namespace,
            "schedule": name,
            "satisfied": False,
            "why": "It collects nothing: its trigger waits for a clock only, or it rests.",
            "unsatisfiable": None,
            "fired_at": None,
            "next_check_at": None,
            "tree": None,
        }
    return event_shapes.progress(found)


@router.get(ONE + "/explain")
async def explain_schedule(store: Store, namespace: str, name: str) -> dict[str, Any]:
    """Why it has not run, and what would let it."""
    return shapes.explain(await explaining.of_schedule(store, namespace, name))


@router.get(ONE + "/stats")
async def schedule_stats(store: Store, namespace: str, name: str) -> dict[str, Any]:
    """Totals, streaks, last start, finish and success, next start."""
    record = await schedules.get(store, namespace, name)
    return shapes.stats(await store.stats(record.id), next_start=record.next_due if record.mode.works else None)


@router.get(ONE + "/revisions")
async def schedule_revisions(
    store: Store, namespace: str, name: str, limit: Limit = 100, cursor: Cursor = None
) -> dict[str, Any]:
    """What it said, when, by whom; newest first."""
    record = await schedules.get(store, namespace, name)
    revisions = await store.revisions(record.id)
    found, following = page_of("revisions", revisions, lambda one: str(one[0].rev), cursor, limit)
    return shapes.page((shapes.revision(*one) for one in found), following)
