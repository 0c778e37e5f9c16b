"""Programs of kind `spark_submit`: an application of its own on a cluster, started by Spark's own `spark-submit`.

In client mode the driver is a process of this machine under the shim, as a command is. In cluster mode a small process
waits for the driver that runs in the cluster, under the name that the cluster gave it (`remote.json`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tidegate.domain.errors import LaunchRefused
from tidegate.domain.ids import AttemptKey
from tidegate.domain.programs import SparkSubmit
from tidegate.domain.schedules import JsonObject
from tidegate.launchers.attempts import WITHHELD, environment_of
from tidegate.launchers.children import ORDER, REMOTE, VERDICT, ChildLauncher, read_json
from tidegate.launchers.places import LOG
from tidegate.ports.launching import Launch, Phase, Report, StopHow
from tidegate.ports.spark import SparkSettings

PROPERTIES = "spark.properties"
UNREACHED = (b"All masters are unresponsive", b"Failed to connect to master", b"Error connecting to master")
"""What Spark says when there was no cluster to take the application."""
LOOKED_AT = 65_536
"""Bytes at the end of a log in which that is looked for."""

log = logging.getLogger(__name__)


class SubmitLauncher(ChildLauncher):
    """Programs of kind `spark_submit`."""

    kinds = frozenset({"spark_submit"})
    module = "tidegate.pipeline.submit"

    def __init__(self, home: Path, settings: SparkSettings, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(home, environment)
        self._settings = settings
        self._launches: dict[str, Launch] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._forgetting: set[asyncio.Task[None]] = set()

    async def start(self, launch: Launch) -> str:
        backend_id = await super().start(launch)
        self._launches[launch.identity] = launch
        return backend_id

    async def seal(self, launch: Launch) -> Report | None:
        report = await super().seal(launch)
        if report is not None:
            self._launches[launch.identity] = launch
        return report

    def order(self, launch: Launch) -> JsonObject:
        spec = launch.program.spec
        assert isinstance(spec, SparkSubmit)
        made = launch.filled({"args": spec.args}, "the arguments of the application")
        for name, value in spec.conf.items():
            if isinstance(value, str):
                self.secret(launch, f"The setting {name}", value)
        return {
            "home": str(self.attempts.home),
            "java_home": self._settings.java_home,
            "application": spec.application,
            "main_class": spec.main_class,
            "master": spec.master or self._settings.master,
            "deploy_mode": spec.deploy_mode.value,
            "conf": dict(spec.conf),
            "args": [one if isinstance(one, str) else str(one) for one in made["args"]],
        }

    async def poll(self, attempts: Sequence[AttemptKey]) -> Sequence[Report]:
        """As commands; what no cluster took is the backend's fault, and what it took has the cluster's name."""
        found = []
        for report in await super().poll(attempts):
            directory = self.attempts.directory(report.attempt.identity)
            remote = read_json(directory / REMOTE).get("driver")
            if remote:
                report = replace(report, backend_id=str(remote))
            if report.phase is Phase.FINISHED and report.outcome == "failed" and _unreached(directory / LOG):
                error = {"code": "spark.master", "message": "No Spark master took the application; its log says more."}
                report = replace(report, outcome="refused", error={**(report.error or {}), **error})
            found.append(report)
        return found

    async def stop(self, attempt: AttemptKey, how: StopHow) -> None:
        identity = attempt.identity
        directory = self.attempts.directory(identity)
        driver = str(read_json(directory / REMOTE).get("driver") or "")
        if how is StopHow.KILL and driver and identity not in self._ending and not (directory / VERDICT).exists():
            # Who waits for the driver here is about to be killed: the cluster is told from here.
            task = self._ending[identity] = asyncio.create_task(self._kill_remote(identity, driver))
            task.add_done_callback(lambda _: self._ending.pop(identity))
        await super().stop(attempt, how)

    async def _kill_remote(self, identity: str, driver: str) -> None:
        directory = self.attempts.directory(identity)
        try:
            with (directory / LOG).open("ab") as output:
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", self.module, str(directory / ORDER), "--kill",
                    stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output,
                    env=self._environment_of(identity), start_new_session=True,
                )  # fmt: skip
            status = await process.wait()
        except OSError as fault:
            log.error("%s: the cluster was not told to end %s: %s", identity, driver, fault)
            return
        if status:
            log.error("%s: %s may go on in its cluster: exit status %d; its log says more", identity, driver, status)

    def _environment_of(self, identity: str) -> dict[str, str]:
        """The program's own, without what names the attempt: whatever bears that is about to be killed."""
        environment: Mapping[str, str] = self.environment
        if (launch := self._launches.get(identity)) is not None:
            try:
                context = self.attempts.directory(identity) / "context.json"
                environment = environment_of(launch, self.environment, context)
            except LaunchRefused as fault:
                log.warning("%s: it is ended without the environment of its program: %s", identity, fault)
        return {name: value for name, value in environment.items() if name not in WITHHELD}

    async def forget(self, attempts: Sequence[AttemptKey]) -> None:
        """What is still to be ended in its cluster is forgotten after that: its order says how."""
        ready = [one for one in attempts if one.identity not in self._ending]
        for attempt in attempts:
            if (ending := self._ending.get(attempt.identity)) is not None:
                task = asyncio.create_task(self._forget_after(ending, attempt))
                self._forgetting.add(task)
                task.add_done_callback(self._forgetting.discard)
        await super().forget(ready)
        for attempt in ready:
            self._launches.pop(attempt.identity, None)
            with suppress(OSError):  # secrets are in it
                (self.attempts.directory(attempt.identity) / PROPERTIES).unlink()

    async def _forget_after(self, ending: asyncio.Task[None], attempt: AttemptKey) -> None:
        await asyncio.wait([ending])
        await self.forget([attempt])

    async def close(self) -> None:
        if pending := [*self._ending.values(), *self._forgetting]:
            await asyncio.wait(pending, timeout=10)
        await super().close()


def _unreached(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOOKED_AT))
            end = file.read()
    except OSError:
        return False
    return any(words in end for words in UNREACHED)
