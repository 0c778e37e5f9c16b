"""A memory store on a clock that stands still until a test moves it, with a program to schedule."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import httpx
import pytest
from fastapi import FastAPI

from tidegate.api.app import create_app
from tidegate.api.context import Doors
from tidegate.control import audit as auditing
from tidegate.control import programs, runs, schedules
from tidegate.documents import declared, parse
from tidegate.domain.ids import AttemptKey
from tidegate.domain.instants import Instant, parse_duration, parse_instant
from tidegate.engine.admitter import Admitter
from tidegate.engine.matcher import Matcher
from tidegate.engine.timekeeper import Timekeeper
from tidegate.ports.launching import LogChunk
from tidegate.ports.records import ScheduleRecord
from tidegate.sim.memory import MemoryStore

T = TypeVar("T")


@dataclass
class Desk:
    """What a person at the keyboard has: a store, the time, and short ways to say things."""

    at: Instant = field(default_factory=lambda: parse_instant("2026-03-01T12:00:30Z"))

    def __post_init__(self) -> None:
        self.store = MemoryStore(lambda: self.at)
        self.fence = self.do(self.store.register(role="scheduler", name="s", host="h", pid=1, now=self.at))
        self.timekeeper = Timekeeper(self.store, self.fence)
        self.matcher = Matcher(self.store, self.fence)
        self.admitter = Admitter(self.store, self.fence)

    def do(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(what)

    def later(self, span: str) -> Instant:
        self.at += parse_duration(span)
        return self.at

    def tick(self) -> None:
        """One pass of the clock and of admission, as a living scheduler makes all the time."""
        self.do(self.timekeeper.step(self.at))
        self.do(self.admitter.step(self.at))

    def states(self, name: str = "orders") -> list[str]:
        """The states of a schedule's runs and stretches, oldest first; a stretch with its count."""
        page = self.do(runs.page(self.store, "sales", schedule=name, limit=1000))
        return [one.state.value + (f"*{one.count}" if one.count > 1 else "") for one in reversed(page.items)]

    def record(self, name: str = "orders") -> ScheduleRecord:
        return self.do(schedules.get(self.store, "sales", name))

    def audit(self, **how: Any) -> auditing.Audit:
        return self.do(auditing.audit(self.store, **how))

    def program(self, name: str = "load", **spec: Any) -> programs.Written:
        raw = {"spec": {"type": "command", "argv": ["true"], **spec}}
        made = cast(declared.Program, parse(raw, kind="Program", namespace="sales", name=name))
        return self.do(programs.put(self.store, made, who="ann"))

    def declare(
        self, name: str = "orders", *, metadata: dict[str, Any] | None = None, **spec: Any
    ) -> declared.Schedule:
        said = {"program": "load", "trigger": {"type": "cron", "expression": "* * * * *"}, **spec}
        raw = {"metadata": {**(metadata or {}), "name": name}, "spec": said}
        return cast(declared.Schedule, parse(raw, kind="Schedule", namespace="sales", name=name))

    def put(self, name: str = "orders", *, on_update: str = "reset", **said: Any) -> schedules.Written:
        made = self.declare(name, **said)
        kept = schedules.OnUpdate(on_update)
        return self.do(schedules.put(self.store, made, who="ann", on_update=kept))


@pytest.fixture
def desk() -> Desk:
    made = Desk()
    made.program()
    return made


class NoLogs:
    """Attempts that printed nothing."""

    async def read(self, attempt: AttemptKey, offset: int, limit: int = 65536) -> LogChunk:
        return LogChunk(text="", next_offset=offset, complete=True)


SALES = "/namespaces/sales"


@dataclass
class Rest:
    """The desk's store behind the REST doors: what a person or a script asks for, and what a living scheduler does."""

    desk: Desk
    app: FastAPI

    def ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                return await client.request(method, f"/api/v1{path}", **given)

        return self.desk.do(asked())

    def __call__(self, method: str, path: str, body: Any = None, **given: Any) -> Any:
        answer = self.ask(method, path, json=body, **given)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def put(self, name: str = "s", *, on_update: str | None = None, **spec: Any) -> Any:
        """A schedule of the program `load`, enabled unless it says otherwise."""
        body = {"spec": {"enabled": True, "program": "load", **spec}}
        how = {} if on_update is None else {"params": {"on_update": on_update}}
        return self("PUT", f"{SALES}/schedules/{name}", body, **how)

    def disable(self, mode: str, name: str = "s", **how: Any) -> Any:
        return self("POST", f"{SALES}/schedules/{name}:disable", {"mode": mode, **how})

    def enable(self, name: str = "s") -> Any:
        return self("POST", f"{SALES}/schedules/{name}:enable", {})

    def publish(self, count: int = 1, type: str = "user.landed", key: str = "sales/x") -> None:
        for _ in range(count):
            self.desk.later("1ms")
            self("POST", "/events", {"type": type, "key": key})

    def later(self, span: str) -> None:
        """Time goes by, and a living scheduler with it."""
        self.desk.later(span)
        self.works()

    def works(self) -> None:
        """The scheduler until nothing is left for it."""
        desk = self.desk
        for _ in range(100):
            did = [desk.do(part.step(desk.at)).did for part in (desk.matcher, desk.timekeeper, desk.admitter)]
            if not any(did):
                return
        raise AssertionError("the scheduler comes to no end")

    def runs(self, name: str = "s") -> list[Any]:
        """Oldest first."""
        items = self("GET", f"{SALES}/runs?schedule={name}&limit=1000")["items"]
        return sorted(items, key=lambda one: (one["created_at"], one["fire_time"] or ""))

    def states(self, name: str = "s") -> list[str]:
        return [one["state"] for one in self.runs(name)]

    def holds(self) -> bool:
        """What `tidegate audit` says."""
        return bool(self("GET", "/audit/ledger")["holds"])


@pytest.fixture(scope="session")
def app() -> FastAPI:
    return create_app(Doors(store=MemoryStore(lambda: 0), logs=NoLogs()))


@pytest.fixture
def rest(desk: Desk, app: FastAPI) -> Rest:
    app.state.doors = Doors(store=desk.store, logs=NoLogs())
    return Rest(desk, app)
