"""Launches as the dispatcher makes them, and a driver that waits for their ends as the supervisor does."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tidegate.domain.ids import AttemptKey, ProgramId, RunKey, ScheduleId
from tidegate.domain.programs import Command, ProgramRef, Python
from tidegate.domain.runs import Cause
from tidegate.launchers.attempts import Attempts
from tidegate.ports.launching import Launch, Launcher, Phase, Report

SLOT = 1_774_742_400_000_000  # 2026-03-29T00:00:00Z
_numbers = itertools.count(1)


def launch(spec: Command | Python, *, order: int | None = None, attempt: int = 1, **about: Any) -> Launch:
    """A launch of its own identity, unless `order` names one."""
    run = RunKey(SLOT, ScheduleId(7), next(_numbers) if order is None else order)
    given: dict[str, Any] = {
        "attempt": AttemptKey(run, attempt),
        "fence": 41,
        "namespace": "sales",
        "schedule": "orders",
        "program": ProgramRef(id=ProgramId(1), rev=1, namespace="sales", name="load", spec=spec),
        "arguments": {},
        "cause": Cause.FIRE,
        "caused_by": "clock",
        "fire_time": SLOT,
        "previous_fire_time": None,
    }
    return Launch(**(given | about))


def log_of(home: Path, what: Launch) -> str:
    return Attempts(home).log(what.identity).read_text()


def command(*argv: str, environment: Mapping[str, Any] | None = None, **about: Any) -> Launch:
    return launch(Command(argv=argv, environment=environment or {}), **about)


def shell(script: str, **about: Any) -> Launch:
    return command("sh", "-c", script, **about)


def function(entry: str, environment: Mapping[str, Any] | None = None, **about: Any) -> Launch:
    return launch(Python(entry=entry, environment=environment or {}), **about)


class Driver:
    """Polls when the launcher says that something has changed."""

    def __init__(self, launcher: Launcher) -> None:
        self.launcher = launcher
        self.changed = asyncio.Event()
        launcher.on_change = self.changed.set

    async def until(self, launch: Launch, wanted: Callable[[Report], bool], patience: float = 20.0) -> Report:
        async with asyncio.timeout(patience):
            while True:
                self.changed.clear()
                for report in await self.launcher.poll([launch.attempt]):
                    if wanted(report):
                        return report
                try:
                    await asyncio.wait_for(self.changed.wait(), 1.0)
                except TimeoutError:
                    continue

    async def end(self, launch: Launch, patience: float = 20.0) -> Report:
        return await self.until(launch, lambda report: report.phase in (Phase.FINISHED, Phase.GONE), patience)

    async def running(self, launch: Launch) -> Report:
        return await self.until(launch, lambda report: report.phase is Phase.RUNNING)

    async def run(self, launch: Launch) -> Report:
        await self.launcher.start(launch)
        return await self.end(launch)


@asynccontextmanager
async def driving(launcher: Launcher) -> Any:
    await launcher.open()
    try:
        yield Driver(launcher)
    finally:
        if hasattr(launcher, "end_hosts"):
            await launcher.end_hosts(patience=1.0)
        await launcher.close()


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)
