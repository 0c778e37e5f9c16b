"""The REST doors as one ASGI application."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from tidegate.api import (
    applications,
    backfills,
    datasets,
    events,
    gates,
    health,
    ledger,
    metrics,
    namespaces,
    policies,
    problems,
    programs,
    runs,
    schedules,
    sinks,
    sources,
    tables,
)
from tidegate.api.context import Doors
from tidegate.api.guard import Guard
from tidegate.api.idempotency import Idempotency
from tidegate.api.reading import known_parameters
from tidegate.documents import kinds
from tidegate.documents.events import Event

PREFIX = "/api/v1"
TITLE = "Tidegate"
SUMMARY = "A data-aware scheduler for Spark lakehouses."


def create_app(doors: Doors) -> FastAPI:
    """The application over a store. Every path but health and metrics lies under /api/v1."""
    app = FastAPI(
        title=TITLE,
        summary=SUMMARY,
        version=version("tidegate"),
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=problems.RESPONSES,
        redirect_slashes=False,
    )
    app.state.doors = doors
    for router in (
        schedules.router,
        programs.router,
        applications.router,
        namespaces.router,
        gates.router,
        runs.router,
        backfills.router,
        events.router,
        datasets.router,
        sinks.router,
        sources.router,
        policies.router,
        tables.router,
        ledger.router,
    ):
        app.include_router(router, prefix=PREFIX, dependencies=[Depends(known_parameters)])
    app.include_router(health.router)
    app.include_router(metrics.router)
    problems.install(app)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    app.get(f"{PREFIX}/openapi.json", include_in_schema=False)(app.openapi)
    app.add_middleware(Idempotency, store=lambda: app.state.doors.store)
    app.add_middleware(Guard, body_limit=doors.body_limit, loopback_only=doors.loopback_only)
    app.add_middleware(metrics.Requests, registry=doors.registry)
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """OpenAPI with the documents as schemas. The address says kind and name, so only `spec` is required."""
    if app.openapi_schema is None:
        schema = get_openapi(title=TITLE, summary=SUMMARY, version=app.version, routes=app.routes)
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        template = "#/components/schemas/{model}"
        pairs = [(model, "validation") for model in (*kinds.MODELS.values(), Event)]
        _, found = models_json_schema(pairs, ref_template=template)  # type: ignore[arg-type]
        schemas.update(found.get("$defs", {}))
        for name in kinds.MODELS:
            schemas[name] = {
                **schemas[name],
                "required": ["spec"] if "spec" in schemas[name].get("required", ()) else [],
            }
        app.openapi_schema = schema
    return app.openapi_schema
