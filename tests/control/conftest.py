"""A memory store on a clock that stands still until a test moves it, with a program to schedule."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import pytest

from tidegate.control import audit as auditing
from tidegate.control import programs, runs, schedules
from tidegate.documents import declared, parse
from tidegate.domain.instants import Instant, parse_duration, parse_instant
from tidegate.engine.admitter import Admitter
from tidegate.engine.timekeeper import Timekeeper
from tidegate.ports.control import ScheduleRecord
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
