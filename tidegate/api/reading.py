"""What a request brings: a JSON body, a page to go on from, a revision that was seen."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Annotated, Any, NoReturn, TypeVar

from fastapi import Depends, Header, Query, Request
from fastapi.dependencies.models import Dependant
from starlette.requests import ClientDisconnect

from tidegate.api.problems import Problem, cut_off
from tidegate.control.common import sliced
from tidegate.documents.refusals import nearest
from tidegate.domain.errors import Fault, Stale
from tidegate.domain.instants import Instant, parse_instant
from tidegate.domain.jsonable import json_faults

Limit = Annotated[int, Query(ge=1, le=1000, description="most items of one page")]
Cursor = Annotated[str | None, Query(description="`next` of the page before", max_length=2000)]
IfNoneMatch = Annotated[str | None, Header(description="`*`: only if there is none yet")]
IfMatch = Annotated[str | None, Header(description="the ETag that was seen; 412 when it is no longer the newest")]

T = TypeVar("T")

_PATCH_TRIES = 5


async def json_body(request: Request) -> Any:
    """The body as JSON; None when it is empty. 400 when it is not JSON, 422 when no store could keep it."""
    try:
        raw = await request.body()
    except ClientDisconnect:
        raise cut_off() from None
    if not raw.strip():
        return None
    try:
        value = json.loads(raw, parse_constant=_not_json, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise Problem(400, f"The body is not JSON: {error}.", code="unreadable") from None
    faults = list(json_faults(value))
    if faults:
        raise Problem(422, "; ".join(map(str, faults)), faults=faults)
    return value


async def object_body(value: Annotated[Any, Depends(json_body)]) -> dict[str, Any]:
    """The body as an object; an empty one when there is none."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Problem(422, "The body must be an object.", faults=[Fault("", "must be an object")])
    return value


Body = Annotated[dict[str, Any], Depends(object_body)]


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is given twice in one object")
    return found


async def known_parameters(request: Request) -> None:
    """Whoever writes `dryrun` for `dry_run` must not change what he only wanted to look at. 422 for a query parameter
    that the operation does not have."""
    known = _query_parameters(request.scope["route"].dependant)
    faults = [
        Fault(name, f"is no parameter of this operation{nearest(name, known)}")
        for name in dict.fromkeys(request.query_params)
        if name not in known
    ]
    if faults:
        raise Problem(422, "; ".join(map(str, faults)), faults=faults)


def _query_parameters(of: Dependant) -> frozenset[str]:
    """By their names in the address, those of what it depends on included."""
    return frozenset(one.alias for one in of.query_params).union(*map(_query_parameters, of.dependencies))


def instant(text: str | None, name: str) -> Instant | None:
    """A query parameter that is an instant. 422 that names it otherwise."""
    if text is None or text == "":
        return None
    try:
        return parse_instant(text)
    except (ValueError, OverflowError) as error:
        fault = Fault(name, str(error))
        raise Problem(422, str(fault), faults=[fault]) from None


# ── pages ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def encode_cursor(kind: str, position: str | int | None) -> str | None:
    """An opaque, URL-safe cursor of a list's own position; None at the end."""
    if position is None:
        return None
    return base64.urlsafe_b64encode(f"{kind}:{position}".encode()).decode().rstrip("=")


_NUMBER, _RUN = r"-?\d{1,18}", r"-?\d{1,18}\.\d{1,18}\.-?\d{1,18}"
POSITIONS = {
    **dict.fromkeys(("schedules", "programs", "changes", "set-aside"), re.compile(_NUMBER, re.ASCII)),
    "events": re.compile(rf"(\d{{1,9}}\.)?{_NUMBER}", re.ASCII),  # with its day, where events lie by days
    "runs": re.compile(_RUN, re.ASCII),
    "queue": re.compile(rf"run\.\d{{1,9}}\.{_NUMBER}:{_RUN}|progress\.\d{{0,18}}", re.ASCII),
}
"""What a position of a list looks like, so that no store is asked for another; elsewhere it is a name."""
_NAMES = re.compile(r"[^\0]{1,300}")


def decode_cursor(kind: str, cursor: str | None) -> str | None:
    """The position again. 400 when it is not a cursor of this list."""
    if not cursor:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        text = ""
    found, _, position = text.partition(":")
    if found != kind or not POSITIONS.get(kind, _NAMES).fullmatch(position):
        reason = "is not the `next` of a page of this list"
        raise Problem(400, f"cursor {reason}", faults=[Fault("cursor", reason)])
    return position


def page_of(
    kind: str, found: Iterable[T], key: Callable[[T], str], cursor: str | None, limit: int
) -> tuple[Sequence[T], str | None]:
    """A page of a list that is read whole, with its `next`. 400 when the cursor is none of this list."""
    page = sliced(list(found), key, decode_cursor(kind, cursor), limit)
    return page.items, encode_cursor(kind, page.next)


# ── revisions ──────────────────────────────────────────────────────────────────────────────────────────────────────


def etag(revision: int) -> str:
    return f'"{revision}"'


def expected_revision(if_match: str | None, if_none_match: str | None = None) -> int | None:
    """The revision of an If-Match header; 0 (there must be none) for If-None-Match: *; None: any will do."""
    if if_none_match is not None and if_none_match.strip() == "*":
        return 0
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().removeprefix("W/").strip('"')
    if not text.isdecimal() or len(text) > 9:
        reason = "is not the ETag of anything here; it is a revision in quotes"
        raise Problem(412, f"If-Match {if_match[:60]!r} {reason}", code="stale")
    return int(text)


async def patched(expected: int | None, merge: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """What `merge` answers, which reads, merges and writes. Without If-Match it is done anew when somebody else was
    faster; with it, and in the end, raises Stale."""
    for _ in range(_PATCH_TRIES - 1):
        try:
            return await merge()
        except Stale:
            if expected is not None:
                raise
    return await merge()


async def unversioned(request: Request) -> None:
    """Of what has no revision none can be asked for: 412, rather than a condition that is passed over."""
    given = request.headers.get("if-match")
    if given is not None and given.strip() != "*" and request.method not in ("GET", "HEAD"):
        raise Problem(412, "This has no revisions, so If-Match cannot hold here; leave it out.", code="stale")


# ── bodies in OpenAPI ──────────────────────────────────────────────────────────────────────────────────────────────


def document_body(kind: str | None = None) -> dict[str, Any]:
    """A JSON body: a document (what the address says may be left out), or a small object that may be empty."""
    schema = {"$ref": f"#/components/schemas/{kind}"} if kind else {"type": "object"}
    return {"requestBody": {"required": kind is not None, "content": {"application/json": {"schema": schema}}}}


def patch_body() -> dict[str, Any]:
    """A merge patch (RFC 7396)."""
    schema = {"schema": {"type": "object"}}
    content = {"application/merge-patch+json": schema, "application/json": schema}
    return {"requestBody": {"required": True, "content": content}}
