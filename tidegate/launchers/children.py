"""Programs that a small Python process of their own attends to, under the shim that commands run under.

The process outlives the worker, its end is known whoever lives, and its tree can be ended: what commands have. Beside
what those leave in the attempt's directory there is

    order.json      what it is to do; no secret is in it, those are read from the environment
    remote.json     what it has begun elsewhere (an address, a driver's name): where a later attempt looks first
    verdict.json    how it ended, where more is known than an exit status
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from tidegate.domain.errors import Invalid, LaunchRefused
from tidegate.domain.ids import AttemptKey
from tidegate.domain.schedules import JsonObject
from tidegate.launchers.attempts import environment_of, of_worker, refuse
from tidegate.launchers.context import context_of, run_key
from tidegate.launchers.places import write_private
from tidegate.launchers.process import CommandLine, ProcessLauncher
from tidegate.ports.launching import Launch, Phase, Report

ORDER = "order.json"
REMOTE = "remote.json"
VERDICT = "verdict.json"
TOLD = frozenset({"succeeded", "failed", "refused", "lost", "crashed"})
"""Outcomes that a child may tell."""


class ChildLauncher(ProcessLauncher):
    """Subclass with the module that is run (`python -m MODULE ORDER`) and what its order says."""

    module: ClassVar[str]

    def order(self, launch: Launch) -> JsonObject:
        """What the child has to know beyond who it is. Raises Invalid for templates that cannot be filled in,
        LaunchRefused."""
        raise NotImplementedError

    def command_line(self, launch: Launch, directory: Path) -> CommandLine:
        environment = environment_of(launch, self.environment, directory / "context.json")
        environment |= {"PYTHONUNBUFFERED": "1"}
        argv = (sys.executable, "-m", self.module, str(directory / ORDER))
        return CommandLine(sys.executable, argv, environment)

    async def start(self, launch: Launch) -> str:
        if self.attempts.claim(launch.identity) is None:
            order = self._order(launch)
            directory = self.attempts.prepare(launch)
            try:
                write_private(str(directory / ORDER), json.dumps(order))
            except OSError as error:
                refuse(error, directory)
        return await super().start(launch)

    def _order(self, launch: Launch) -> dict[str, Any]:
        attempt = launch.attempt
        earlier = [AttemptKey(attempt.run, number) for number in range(attempt.number - 1, 0, -1)]
        try:
            own = self.order(launch)
        except Invalid as wrong:
            said = "; ".join(map(str, wrong.faults))
            raise LaunchRefused(f"It cannot be started: {said}.", code="program.invalid", retryable=False) from wrong
        return {
            "identity": launch.identity,
            "directory": str(self.attempts.directory(launch.identity)),
            "earlier": [str(self.attempts.directory(one.identity)) for one in earlier],
            "run": context_of(launch),
            "run_key": run_key(attempt.run, launch.namespace, launch.schedule),
            **own,
        }

    def secret(self, launch: Launch, what: str, value: str) -> str:
        """The value of `env:NAME` in the worker's environment, or the text as it is. Raises LaunchRefused."""
        return of_worker(launch, what, value, self.environment)

    async def poll(self, attempts: Sequence[AttemptKey]) -> Sequence[Report]:
        reports = await super().poll(attempts)
        return [with_verdict(one, self.attempts.directory(one.attempt.identity)) for one in reports]

    async def forget(self, attempts: Sequence[AttemptKey]) -> None:
        await super().forget(attempts)
        for attempt in attempts:  # remote.json and the verdict stay: a later attempt looks at them
            with suppress(OSError):
                (self.attempts.directory(attempt.identity) / ORDER).unlink()


def with_verdict(report: Report, directory: Path) -> Report:
    """A process's report, with what the child said beyond its exit status. One that was stopped is stopped, whatever it
    said; one that says so itself was ended by a stranger, and has failed as a command would have."""
    if report.phase is not Phase.FINISHED or report.outcome == "cancelled":
        return report
    verdict = read_json(directory / VERDICT)
    outcome, error = verdict.get("outcome"), verdict.get("error")
    if outcome not in TOLD or (outcome == "succeeded") != (report.outcome == "succeeded"):
        return report
    status = (report.error or {}).get("exit_status")
    told = None if error is None else {"exit_status": status, **error}
    if outcome == "crashed":
        return replace(report, phase=Phase.GONE, outcome=None, error=told)
    return replace(report, outcome=outcome, error=told)


def read_json(path: Path) -> Mapping[str, Any]:
    """What stands in a file of an attempt; empty when there is none, or half of one."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
