"""`/metrics` for Prometheus.

What is true of the whole system (live runs, pools, instances, and what the parts of each scheduler, worker and API
process count, which they tell every 10 s) is read from the database when somebody looks, so that any API process tells
the same and nothing else has to be scraped. What this process did itself (requests) is counted here.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.api.context import Doors, Here
from tidegate.domain.errors import TidegateError
from tidegate.domain.instants import SECOND, Instant
from tidegate.domain.schedules import JsonObject
from tidegate.ports.engine import Instance
from tidegate.ports.records import PoolRecord

router = APIRouter(tags=["health"])
PATIENCE = 5.0  # seconds


class Requests:
    """ASGI middleware: how many requests, how they ended and how long they took."""

    def __init__(self, app: ASGIApp, registry: CollectorRegistry) -> None:
        self.app = app
        self.seconds = Histogram(
            "tidegate_http_request_seconds",
            "Requests that this process answered",
            ("method", "route", "status"),
            registry=registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, noting)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self.seconds.labels(scope["method"], route, status).observe(time.perf_counter() - began)


class Snapshot(Collector):
    """What the database says, once."""

    def __init__(
        self,
        now: Instant,
        live: dict[tuple[str, str], int],
        pools: list[PoolRecord],
        instances: list[Instance],
        reports: Sequence[tuple[Instance, Instant, JsonObject]],
    ) -> None:
        self.now, self.live, self.pools, self.instances, self.reports = now, live, pools, instances, reports

    def collect(self) -> Iterator[Metric]:
        yield from self._parts()
        runs = GaugeMetricFamily("tidegate_runs_live", "Runs that have not ended", labels=("namespace", "state"))
        for (namespace, state), count in sorted(self.live.items()):
            runs.add_metric((namespace, state), count)
        yield runs
        slots = GaugeMetricFamily("tidegate_pool_slots", "Slots of a pool", labels=("pool",))
        used = GaugeMetricFamily("tidegate_pool_slots_used", "Slots of a pool that are taken", labels=("pool",))
        for pool in self.pools:
            slots.add_metric((pool.name,), pool.slots)
            used.add_metric((pool.name,), pool.used)
        yield slots
        yield used
        roles = GaugeMetricFamily("tidegate_instances", "Processes that are alive", labels=("role",))
        for role, count in sorted(Counter(one.role for one in self.instances).items()):
            roles.add_metric((role,), count)
        yield roles
        silence = GaugeMetricFamily(
            "tidegate_heartbeat_age_seconds", "Time since a process last said that it is alive", labels=("role", "name")
        )
        for one in self.instances:
            silence.add_metric((one.role, one.name), max(0, self.now - one.heartbeat) / SECOND)
        yield silence

    def _parts(self) -> Iterator[Metric]:
        """What each process counts, part by part, as it told last (every 10 s)."""
        labels = ("role", "name", "part")
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {
            "steps": CounterMetricFamily("tidegate_part_steps", "Steps of a part", labels=labels),
            "did": CounterMetricFamily("tidegate_part_did", "What those steps dealt with", labels=labels),
            "failures": CounterMetricFamily("tidegate_part_failures", "Steps that failed", labels=labels),
            "seconds": CounterMetricFamily("tidegate_part_seconds", "Time in steps, waiting included", labels=labels),
            "longest": GaugeMetricFamily("tidegate_part_longest_seconds", "Longest step so far", labels=labels),
        }
        age = GaugeMetricFamily("tidegate_report_age_seconds", "Age of those counts", labels=labels[:2])
        for one, at, parts in self.reports:
            age.add_metric((one.role, one.name), max(0, self.now - at) / SECOND)
            for part, counted in sorted(parts.items()):
                for name, family in families.items():
                    family.add_metric((one.role, one.name, part), counted.get(name, 0))
        yield from families.values()
        yield age


@router.get("/metrics", response_class=Response)
async def metrics(here: Here) -> Response:
    """Prometheus text format; without the database only what this process knows, and `tidegate_database_up 0`."""
    registry = CollectorRegistry()
    up = GaugeMetricFamily("tidegate_database_up", "Whether the database answers")
    try:
        async with asyncio.timeout(PATIENCE):
            registry.register(await _snapshot(here))
        up.add_metric((), 1)
    except (TidegateError, TimeoutError):
        up.add_metric((), 0)
    registry.register(_Fixed(up))
    return Response(generate_latest(registry) + generate_latest(here.registry), media_type=CONTENT_TYPE_LATEST)


async def _snapshot(here: Doors) -> Snapshot:
    store = here.store
    return Snapshot(
        await store.now(),
        await store.live_counts(),
        list(await store.pools()),
        list(await store.instances()),
        await store.reports(),
    )


class _Fixed(Collector):
    def __init__(self, family: GaugeMetricFamily) -> None:
        self.family = family

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield self.family
