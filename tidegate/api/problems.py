"""Every refusal as an RFC 9457 problem: {type, title, status, detail, code, errors: [{path, reason}]}.

One place maps errors to statuses. `code` is stable and meant for programs, `detail` for people. What is nobody's
fault but ours is a 500 without a stack trace; the trace goes to the log.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from tidegate.domain.errors import (
    Conflict,
    Fault,
    Fenced,
    Invalid,
    LaunchRefused,
    NotFound,
    Refused,
    Stale,
    TidegateError,
    Unavailable,
)

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = "1"  # seconds
TYPE = "about:blank"  # the title is the status's own phrase; `code` says more

_STATUS: tuple[tuple[type[TidegateError], int], ...] = (
    (Invalid, 422),
    (NotFound, 404),
    (Stale, 412),
    (Conflict, 409),
    (Refused, 422),
    (LaunchRefused, 409),
    (Fenced, 503),
    (Unavailable, 503),
)
_CODES = {
    400: "unreadable",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    422: "invalid",
    429: "too_many",
    503: "unavailable",
}


class FaultShape(BaseModel):
    """One wrong place."""

    path: str = Field(description="like `spec.constraints[1].max`")
    reason: str


class ProblemShape(BaseModel):
    """RFC 9457, with a stable `code` and every fault at once."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FaultShape] = []


class Problem(TidegateError):
    """A refusal that the doors themselves decide, with its status."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: str = "",
        faults: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail, code=code or _CODES.get(status, "error"))
        self.status = status
        self.faults = tuple(faults)
        self.headers = dict(headers or {})


def cut_off() -> Problem:
    """The client went away before all of its request was here, so nothing is done. Nobody reads it; it is counted."""
    return Problem(400, "The connection ended before the whole request was here; nothing was done.")


def render(
    status: int, detail: str, code: str, faults: Sequence[Fault] = (), headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """The answer. 503 and 429 always say when to come back."""
    body = {
        "type": TYPE,
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "errors": [{"path": fault.path, "reason": fault.reason} for fault in faults],
    }
    extra = dict(headers or {})
    if status in (429, 503):
        extra.setdefault("Retry-After", RETRY_AFTER)
    return JSONResponse(body, status, headers=extra, media_type=MEDIA_TYPE)


def of(error: TidegateError) -> JSONResponse:
    """The problem of one of our own errors."""
    match error:
        case Problem():
            return render(error.status, str(error), error.code, error.faults, error.headers)
        case Invalid():
            return render(422, str(error), error.code, error.faults)
        case _:
            status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
            return render(status, str(error), error.code)


def install(app: FastAPI) -> None:
    """Register the handlers: nothing leaves the doors in another form."""

    @app.exception_handler(TidegateError)
    async def ours(request: Request, error: TidegateError) -> JSONResponse:
        return of(error)

    @app.exception_handler(RequestValidationError)
    async def parameters(request: Request, error: RequestValidationError) -> JSONResponse:
        faults = [_parameter_fault(one) for one in error.errors()]
        return render(422, "; ".join(map(str, faults)), "invalid", faults)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        detail = str(error.detail)
        if error.status_code == 404:
            detail = f"There is nothing at {request.url.path}; /openapi.json lists what there is."
        elif error.status_code == 405 and ":" in (verb := request.url.path.rpartition("/")[2]):
            detail = f"There is no verb {':' + verb.rpartition(':')[2]!r} here in this version; see /openapi.json."
            return render(404, detail, _CODES[404])
        elif error.status_code == 405:
            allowed = (error.headers or {}).get("Allow", "")
            detail = f"{request.method} is not possible at {request.url.path}; {allowed or 'no method'} is."
        return render(error.status_code, detail, _CODES.get(error.status_code, "error"), headers=error.headers)

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return render(500, "Something went wrong inside Tidegate; its log says what.", "internal")


def _parameter_fault(error: Mapping[str, Any]) -> Fault:
    path = ".".join(str(part) for part in error["loc"][1:]) or str(error["loc"][0])
    return Fault(path, f"{error['msg']}; given was {json.dumps(error.get('input'), default=str)[:200]}")


RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"description": HTTPStatus(status).phrase, "model": ProblemShape, "content": {MEDIA_TYPE: {}}}
    for status in (400, 404, 409, 412, 413, 422, 503)
}
"""What any operation may answer besides success, for OpenAPI."""
