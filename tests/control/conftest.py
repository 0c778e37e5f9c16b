"""A memory store on a clock that stands still until a test moves it, with a program to schedule."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import pytest

from tidegate.control import programs, schedules
from tidegate.documents import declared, parse
from tidegate.domain.instants import Instant, parse_duration, parse_instant
from tidegate.sim.memory import MemoryStore

T = TypeVar("T")


@dataclass
class Desk:
    """What a person at the keyboard has: a store, the time, and short ways to say things."""

    at: Instant = field(default_factory=lambda: parse_instant("2026-03-01T12:00:30Z"))

    def __post_init__(self) -> None:
        self.store = MemoryStore(lambda: self.at)

    def do(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(what)

    def later(self, span: str) -> Instant:
        self.at += parse_duration(span)
        return self.at

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
