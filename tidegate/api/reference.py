"""The page of all REST operations: `python -m tidegate.api.reference` prints docs/reference/rest.md."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, cast

from tidegate.api.app import PREFIX, create_app
from tidegate.api.context import Doors

METHODS = ("get", "post", "put", "patch", "delete")
HEAD = """\
# REST

Under `/api/v1`; health and metrics lie outside. `/openapi.json` describes every shape. This page is made by
`python -m tidegate.api.reference`.

- **Bodies** are the YAML documents as JSON; apiVersion, kind, namespace and name may be left out where the path says
  them. A key that is not known is an error. At most `api.body_limit` bytes.
- **Lists** answer `{"items": [...], "next": cursor or null}`, newest first; `limit` is 100 unless said, at most 1000;
  `cursor` is the `next` of the page before.
- **Parameters** that an operation does not have are refused with 422: `?dryrun=true` must not change anything.
- **Errors** are problems of RFC 9457, `application/problem+json`: `{type, title, status, detail, code, errors: [{path,
  reason}]}`, with every fault at once. 400 cannot be read, 403 not from here, 404 not there, 405 not that method, 409
  not as things stand, 412 changed in between, 413 too large, 422 wrong, 503 something needed is away (with
  `Retry-After`).
- **Revisions**: schedules and programs answer with an `ETag`; a write with `If-Match` is refused with 412 when somebody
  else was faster, `If-None-Match: *` only creates. What has no revisions (namespaces, pools, applications) refuses
  an `If-Match` with 412 rather than pass it over.
- **Repeats**: a write with an `Idempotency-Key` that was carried out before changes nothing and gets the same answer,
  also when the server died in between. The same key with another request is 422. A request that did not come whole does
  nothing, and its key is free. Keys are kept for a day.
- **Who**: nobody is authenticated yet, so only this machine may ask; `Tidegate-User` says who asks, for the audit log.

| Method | Path | Parameters | What it does |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The page."""
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in _rows(_schema()))


def _schema() -> dict[str, Any]:
    nothing = cast(Any, None)  # describing the doors opens none of them
    return create_app(Doors(store=nothing, logs=nothing)).openapi()


def _rows(schema: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    for path, item in sorted(schema["paths"].items()):
        for method in METHODS:
            if (operation := item.get(method)) is not None:
                told = operation.get("description") or f"{operation['summary']}."
                named = [f"`{one['name']}`" for one in operation.get("parameters", ()) if one["in"] == "query"]
                yield method.upper(), f"`{path.removeprefix(PREFIX)}`", " ".join(named), " ".join(told.split())


if __name__ == "__main__":
    sys.stdout.write(page())
