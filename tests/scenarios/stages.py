"""Where scenarios are played: a virtual world at full length, or the real system with times scaled down. Both are
spoken to through REST only."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Protocol

import httpx
from doors.running import Up
from fastapi import FastAPI

from tidegate.domain.instants import MILLISECOND, SECOND, Duration, format_duration, parse_duration
from tidegate.sim.testing import World


class Stage(Protocol):
    """`span("5m")` is five minutes of the story, as this stage plays them, in microseconds."""

    def ask(self, method: str, path: str, body: Any = None, **params: Any) -> httpx.Response: ...
    def span(self, text: str) -> Duration: ...
    def later(self, span: Duration) -> None: ...
    def now(self) -> datetime: ...
    def takes(self, program: str, span: Duration) -> Sequence[str]:
        """A command that takes so long; `program` is its name."""

    def fails(self, program: str, span: Duration = 0) -> Sequence[str]:
        """A command that always fails, after so long; `program` is its name."""

    @property
    def patience(self) -> Duration:
        """How long what should happen now may take."""


class Virtual:
    """The real engine on a virtual clock, behind the real doors."""

    patience = 2 * SECOND

    def __init__(self, world: World, app: FastAPI) -> None:
        self.world = world
        self.app = app

    def ask(self, method: str, path: str, body: Any = None, **params: Any) -> httpx.Response:
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                return await client.request(method, f"/api/v1{path}", json=body, params=params or None)

        answer = asyncio.run(asked())
        self.world.advance(MILLISECOND)  # a request takes its time
        return answer

    def span(self, text: str) -> Duration:
        return parse_duration(text)

    def later(self, span: Duration) -> None:
        self.world.advance(span)

    def now(self) -> datetime:
        return self.world.now

    def takes(self, program: str, span: Duration) -> Sequence[str]:
        self.world.behave(program, takes=span)
        return ["true"]

    def fails(self, program: str, span: Duration = 0) -> Sequence[str]:
        self.world.behave(program, takes=span, outcomes=["failed"] * 100)
        return ["false"]


class Real:
    """`tidegate up`, with its own database and worker. Each minute of a story is so many seconds."""

    patience = 20 * SECOND

    def __init__(self, up: Up, *, scale: float = 1 / 60) -> None:
        self.up = up
        self.scale = scale
        self.http = httpx.Client(base_url=f"{up.url}/api/v1", trust_env=False, timeout=30)

    def ask(self, method: str, path: str, body: Any = None, **params: Any) -> httpx.Response:
        return self.http.request(method, path, json=body, params=params or None)

    def span(self, text: str) -> Duration:
        return max(round(parse_duration(text) * self.scale), 100 * MILLISECOND)

    def later(self, span: Duration) -> None:
        time.sleep(span / SECOND)

    def now(self) -> datetime:
        return datetime.now(UTC)  # the database is on this machine

    def takes(self, program: str, span: Duration) -> Sequence[str]:
        return ["sleep", str(span / SECOND)]

    def fails(self, program: str, span: Duration = 0) -> Sequence[str]:
        return ["sh", "-c", f"sleep {span / SECOND}; exit 1"]


Story = Iterator[Duration]
"""A story tells how long it waits before it goes on."""


def play_at_once(stage: Stage, *stories: Story) -> None:
    """All of them at the same time, each by a person of its own."""
    with ThreadPoolExecutor(len(stories)) as people:
        for done in [people.submit(play, stage, story) for story in stories]:
            done.result()


def play(stage: Stage, *stories: Story) -> None:
    """All of them at the same time by one person, each to its end."""
    numbers = count()
    due: list[tuple[datetime, int, Story]] = [(stage.now(), next(numbers), story) for story in stories]
    heapq.heapify(due)
    while due:
        at, _, story = heapq.heappop(due)
        wait = round((at - stage.now()) / timedelta(microseconds=1))
        if wait > 0:
            stage.later(wait)
        span = next(story, None)
        if span is not None:
            heapq.heappush(due, (stage.now() + timedelta(microseconds=span), next(numbers), story))


class Cast:
    """What a story says and sees, in a namespace of its own."""

    def __init__(self, stage: Stage, namespace: str) -> None:
        self.stage = stage
        self.namespace = namespace
        self.url = f"/namespaces/{namespace}"
        self._partitions = count(1)

    def __call__(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        answer = self.stage.ask(method, f"{self.url}{path}", body, **params)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def span(self, text: str) -> str:
        """A duration of a document."""
        return format_duration(self.stage.span(text))

    def program(self, name: str = "load", argv: Sequence[str] = ("true",)) -> None:
        self("PUT", f"/programs/{name}", {"spec": {"type": "command", "argv": list(argv)}})

    def put(self, name: str = "s", **spec: Any) -> None:
        self("PUT", f"/schedules/{name}", {"spec": {"enabled": True, "program": "load", **spec}})

    def partitions(self, many: int = 1, dataset: str = "raw") -> None:
        """New partitions of a dataset, one after another."""
        for _ in range(many):
            name = f"p={next(self._partitions)}"
            event = {"type": "dataset.updated", "key": self.dataset(dataset), "payload": {"partitions_added": [name]}}
            assert self.stage.ask("POST", "/events", event).status_code == 202

    def dataset(self, name: str = "raw") -> str:
        return f"lake.{self.namespace}.{name}"

    def trigger(self, many: int = 1, dataset: str = "raw") -> dict[str, Any]:
        return {"type": "partition", "dataset": self.dataset(dataset), "count": many}

    def runs(self, name: str = "s") -> list[Any]:
        """Oldest first."""
        items = self("GET", f"/runs?schedule={name}&limit=1000")["items"]
        return sorted(items, key=lambda one: str(one["created_at"]))

    def launched(self, name: str = "s") -> list[Any]:
        """Runs whose program was started."""
        return [one for one in self.runs(name) if one["started_at"] is not None]

    def waiting(self, name: str = "s") -> list[Any]:
        return [one for one in self.runs(name) if one["state"] == "waiting"]

    def until(self, holds: Callable[[], Any]) -> Story:
        """Wait for what should happen now."""
        for _ in range(100):
            if holds():
                return
            yield self.stage.patience // 100
        raise AssertionError(f"it did not come to hold: {self.runs()}")
