"""Programs of kind `spark_submit`: an application of its own on a cluster, started by Spark's own `spark-submit`.

In client mode the driver is a process of this machine under the shim, as a command is. In cluster mode a small process
waits for the driver that runs in the cluster, under the name that the cluster gave it (`remote.json`).
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tidegate.domain.ids import AttemptKey
from tidegate.domain.programs import SparkSubmit
from tidegate.domain.schedules import JsonObject
from tidegate.launchers.children import ORDER, REMOTE, VERDICT, ChildLauncher, read_json
from tidegate.ports.launching import Launch, Phase, Report, StopHow
from tidegate.ports.spark import SparkSettings

PROPERTIES = "spark.properties"
UNREACHED = (b"All masters are unresponsive", b"Failed to connect to master", b"Error connecting to master")
"""What Spark says when there was no cluster to take the application."""
LOOKED_AT = 65_536
"""Bytes at the end of a log in which that is looked for."""


class SubmitLauncher(ChildLauncher):
    """Programs of kind `spark_submit`."""

    kinds = frozenset({"spark_submit"})
    module = "tidegate.pipeline.submit"

    def __init__(self, home: Path, settings: SparkSettings, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(home, environment)
        self._settings = settings
        self._ending: set[asyncio.Task[None]] = set()

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
            if report.phase is Phase.FINISHED and report.outcome == "failed" and _unreached(directory / "log"):
                error = {"code": "spark.master", "message": "No Spark master took the application; its log says more."}
                report = replace(report, outcome="refused", error={**(report.error or {}), **error})
            found.append(report)
        return found

    async def stop(self, attempt: AttemptKey, how: StopHow) -> None:
        directory = self.attempts.directory(attempt.identity)
        remote = read_json(directory / REMOTE)
        if how is StopHow.KILL and remote and not (directory / VERDICT).exists():
            # Who waits for the driver here is about to be killed: the cluster is told from here.
            task = asyncio.create_task(self._kill_remote(directory))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        await super().stop(attempt, how)

    async def _kill_remote(self, directory: Path) -> None:
        with suppress(OSError), (directory / "log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", self.module, str(directory / ORDER), "--kill",
                stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, env={**self.environment},
                start_new_session=True,
            )  # fmt: skip
            await process.wait()

    async def forget(self, attempts: Sequence[AttemptKey]) -> None:
        await super().forget(attempts)
        for attempt in attempts:  # secrets are in it
            with suppress(OSError):
                (self.attempts.directory(attempt.identity) / PROPERTIES).unlink()

    async def close(self) -> None:
        if self._ending:
            await asyncio.wait(self._ending, timeout=10)
        await super().close()


def _unreached(log: Path) -> bool:
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOOKED_AT))
            end = file.read()
    except OSError:
        return False
    return any(words in end for words in UNREACHED)
