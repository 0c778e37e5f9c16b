"""Spark programs: PySpark functions and files, and Spark SQL.

A PySpark program is a process of its own under the same shim as a command, so it outlives the worker and its tree can
be ended; over Spark Connect it uses a warm driver, or with `isolation: process` a JVM that it starts. A SQL program
runs in a warm driver, which takes the attempt's claim as a shim would. Either way all truth lies in the attempt's
directory (`launchers.attempts`); beside what commands leave there:

    order.json      what the child or the driver is to run, and where
    spark.json      the program itself runs (before: Spark is coming up, STARTING)
    verdict.json    how it ended, where more is known than an exit status

The life of a start that needs a driver: directory, then a task waits for one, since it may have to come up. To that a
SQL order is handed, and it claims the identity; of a PySpark program the process is started, whose shim does. If the
worker dies before that, the next one seals the identity; which came first, claim or seal, says whether it began.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tidegate.domain.errors import Fenced, LaunchRefused, TidegateError
from tidegate.domain.ids import AttemptKey
from tidegate.domain.programs import Isolation, Maintenance, PySpark, SparkSql
from tidegate.domain.schedules import JsonObject
from tidegate.launchers.attempts import Attempts, Claim, environment_of, of_worker, refuse
from tidegate.launchers.children import ORDER, read_json, with_verdict
from tidegate.launchers.places import write_private
from tidegate.launchers.process import CommandLine, ProcessLauncher
from tidegate.launchers.processes import alive, monotonic_us, this_boot
from tidegate.launchers.spark_drivers import Drivers, end_drivers, socket_path
from tidegate.ports.launching import Launch, Phase, Report, StopHow
from tidegate.ports.spark import PROGRESS, SPEC, VERDICT, DriverSpec, SparkSettings

HAND_OVERS = 3
"""So many drivers in a row may end or die under an order before it is given up."""
AGAIN = 1.0
"""Seconds between two tries to seal what has not begun, where the disk does not let it."""
_CALL = re.compile(r"\bCALL\b", re.IGNORECASE)


class SparkLauncher:
    """Programs of kinds `pyspark` and `spark_sql`, and the maintenance of tables."""

    kinds = frozenset({"pyspark", "spark_sql", "maintenance"})

    def __init__(
        self, home: Path, settings: SparkSettings, catalog_url: str, environment: Mapping[str, str] | None = None
    ) -> None:
        """`catalog_url`: PostgreSQL by TCP (libpq form), for the Iceberg catalog. `environment`: the worker's own."""
        self.home = home
        self.settings = settings
        self.attempts = Attempts(home)
        self.environment = os.environ if environment is None else environment
        self.spec = DriverSpec(home=str(home), catalog_url=catalog_url, settings=settings)
        self.drivers = Drivers(home, self.spec, self.environment, self._heard, self._driver_ended)
        self._children = _Children(home, self.environment)
        self._on_change: Callable[[], None] = lambda: None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, Report] = {}
        self._in_driver: dict[str, bool] = {}
        self._seen_running: set[str] = set()

    @property
    def on_change(self) -> Callable[[], None]:
        return self._on_change

    @on_change.setter
    def on_change(self, tell: Callable[[], None]) -> None:
        self._on_change = tell
        self._children.on_change = tell

    async def open(self) -> None:
        await self.drivers.open()
        await self._children.open()

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._children.close()
        await self.drivers.close()

    async def end_drivers(self) -> int:
        """End all drivers of this home (a shutdown of everything); how many there were."""
        return await asyncio.to_thread(end_drivers, self.home)

    # ── starting ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def start(self, launch: Launch) -> str:
        identity = launch.identity
        if (claim := self.attempts.claim(identity)) is not None:
            if claim.sealed:
                raise Fenced(f"Attempt {identity} was sealed: another worker found that it had not started.")
            return _backend_id(claim)
        if identity in self._tasks:
            return "spark"
        directory = self.attempts.prepare(launch)
        in_driver = runs_in_driver(launch)
        order = self._order(launch, directory, in_driver)
        if not in_driver:
            self._children.command_line(launch, directory)  # what it refuses, no driver mends
        self._in_driver[identity] = in_driver
        if in_driver:
            self._write_order(order)
            work = self._hand_over(launch.attempt, order)
        elif launch.program.spec.TYPE == "pyspark" and order["isolation"] == Isolation.SHARED and not order["remote"]:
            work = self._start_beside_driver(launch, order)
        else:
            self._write_order(order)
            return await self._children.start(launch)
        self._tasks[identity] = asyncio.create_task(work)
        return "spark"

    def _write_order(self, order: dict[str, Any]) -> None:
        directory = Path(order["directory"])
        try:
            write_private(str(directory / ORDER), json.dumps(order))
        except OSError as fault:
            refuse(fault, directory)

    def _order(self, launch: Launch, directory: Path, in_driver: bool) -> dict[str, Any]:
        spec = launch.program.spec
        assert isinstance(spec, PySpark | SparkSql | Maintenance)
        later = AttemptKey(launch.attempt.run, launch.attempt.number + 1)
        return {
            "identity": launch.identity,
            "fence": launch.fence,
            "directory": str(directory),
            "kind": spec.TYPE,
            "entry": spec.entry if isinstance(spec, PySpark) else None,
            "sql": spec.sql if isinstance(spec, SparkSql) else None,
            "conf": {} if isinstance(spec, Maintenance) else dict(spec.conf),
            "remote": self._remote(launch, spec),
            "arguments": dict(launch.arguments),
            # No attempt of a run begins before the instant that the run's key names.
            "since": launch.attempt.run.slot,
            "isolation": Isolation.SHARED if in_driver else spec.isolation if isinstance(spec, PySpark) else "process",
            "in_driver": in_driver,
            "spec": str(self.drivers.root / SPEC),
            "next": str(self.attempts.directory(later.identity)),
        }

    def _remote(self, launch: Launch, spec: PySpark | SparkSql | Maintenance) -> str | None:
        """As it is declared: the child reads `env:NAME` itself, so that no token is written down."""
        remote = spec.remote if isinstance(spec, PySpark) else None
        if remote is not None:
            of_worker(launch, "The address of the Spark Connect server", remote, self.environment)
        return remote

    async def _hand_over(self, attempt: AttemptKey, order: dict[str, Any]) -> None:
        """Give a SQL attempt to a driver, waiting until one is up."""
        error: JsonObject = {"code": "spark.driver", "message": "No Spark driver stayed up long enough to take it."}
        try:
            for _ in range(HAND_OVERS):
                answer = await self._offer(order)
                if answer.get("ok") or self.attempts.claim(attempt.identity) is not None:
                    return
                if answer.get("code") != "spark.ending":
                    error = {"code": answer["code"], "message": answer["message"]}
                    break
            await self._close(attempt, "lost", error)
        except TidegateError as fault:
            await self._close(attempt, "lost", {"code": fault.code, "message": str(fault)})
        finally:
            self._tasks.pop(attempt.identity, None)
            self._on_change()

    async def _start_beside_driver(self, launch: Launch, order: dict[str, Any]) -> None:
        """Start the process of a PySpark attempt, waiting until the driver is up that it is to speak to."""
        attempt = launch.attempt
        try:
            order["socket"] = socket_path((await self.drivers.obtain()).folder)
            if self.attempts.claim(attempt.identity) is None:  # else it was stopped meanwhile
                self._write_order(order)
                await self._children.start(launch)
        except Fenced:
            return  # sealed in the last moment, by who says how it ended
        except Exception as fault:
            code = fault.code if isinstance(fault, TidegateError) else LaunchRefused.code
            await self._close(attempt, "refused", {"code": code, "message": str(fault)})
        finally:
            self._tasks.pop(attempt.identity, None)
            self._on_change()

    async def _offer(self, order: dict[str, Any]) -> dict[str, Any]:
        try:
            return await (await self.drivers.obtain()).call("run", order=order)
        except ConnectionError:
            return {"ok": False, "code": "spark.ending"}

    def _never_begun(self, attempt: AttemptKey, outcome: str, error: JsonObject) -> None:
        """Seal it, so that no driver can take it any more, and report its end; unless it has begun after all."""
        if self.attempts.seal(attempt.identity).sealed:
            with suppress(OSError), self.attempts.log(attempt.identity).open("a") as log:
                log.write(f"{error['code']}: {error['message']}\n")
            self._ends[attempt.identity] = Report(
                attempt=attempt, phase=Phase.FINISHED, backend_id="spark", outcome=outcome, error=error, ran=False
            )

    async def _close(self, attempt: AttemptKey, outcome: str, error: JsonObject) -> None:
        """`_never_begun`, unless it was stopped meanwhile, and as soon as the disk lets it: what has neither begun nor
        ended would hold its slot for ever."""
        while True:
            try:
                if self.attempts.claim(attempt.identity) is None:
                    self._never_begun(attempt, outcome, error)
                return
            except (LaunchRefused, OSError):
                await asyncio.sleep(AGAIN)

    async def seal(self, launch: Launch) -> Report | None:
        identity = launch.identity
        if identity not in self._tasks and identity not in self._ends and self.attempts.seal(identity).sealed:
            return None
        reports = await self.poll([launch.attempt])
        return reports[0] if reports else None

    # ── asking ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def poll(self, attempts: Sequence[AttemptKey]) -> Sequence[Report]:
        reports: list[Report] = []
        processes: list[AttemptKey] = []
        for attempt in attempts:
            identity = attempt.identity
            if identity in self._ends:
                reports.append(self._ends[identity])
            elif identity in self._tasks and self.attempts.claim(identity) is None:
                reports.append(Report(attempt=attempt, phase=Phase.STARTING, backend_id="spark"))
            elif not self._is_in_driver(identity):
                processes.append(attempt)
            elif (report := self._in_driver_report(attempt)) is not None:
                reports.append(report)
        reports += [self._with_verdict(report) for report in await self._children.poll(processes)]
        return reports

    def _in_driver_report(self, attempt: AttemptKey) -> Report | None:
        identity = attempt.identity
        claim = self.attempts.claim(identity)
        if claim is None or claim.owner is None:
            return None
        if claim.end is None and alive(claim.owner):
            return Report(attempt=attempt, phase=Phase.RUNNING, backend_id=_backend_id(claim))
        # Its end is written before its owner goes: look again now that the owner is known to be gone.
        claim = self.attempts.claim(identity) or claim
        assert claim.owner is not None
        if claim.end is None:
            gone: JsonObject = {"code": "spark.driver_died", "message": "The Spark driver that ran it died."}
            report = Report(attempt=attempt, phase=Phase.GONE, backend_id=_backend_id(claim), error=gone)
        else:
            verdict = read_json(self.attempts.directory(identity) / VERDICT)
            ago = max(0, monotonic_us() - claim.end.at) if claim.owner.boot == this_boot() else 0
            outcome = verdict.get("outcome") or ("failed" if claim.end.status else "succeeded")
            report = Report(
                attempt=attempt,
                phase=Phase.FINISHED,
                backend_id=_backend_id(claim),
                outcome=outcome,
                error=verdict.get("error"),
                ago=ago,
            )
        self._ends[identity] = report
        return report

    def _with_verdict(self, report: Report) -> Report:
        """A process's report, with what the child said of itself: that the program runs, and how it ended."""
        identity = report.attempt.identity
        if report.phase is Phase.RUNNING:
            if identity not in self._seen_running:
                if not (self.attempts.directory(identity) / PROGRESS).exists():
                    return replace(report, phase=Phase.STARTING)
                self._seen_running.add(identity)
            return report
        return with_verdict(report, self.attempts.directory(identity))

    def _is_in_driver(self, identity: str) -> bool:
        if identity not in self._in_driver:
            order = read_json(self.attempts.directory(identity) / ORDER)
            if not order:
                return False
            self._in_driver[identity] = bool(order["in_driver"])
        return self._in_driver[identity]

    # ── ending ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def stop(self, attempt: AttemptKey, how: StopHow) -> None:
        identity = attempt.identity
        if identity in self._ends:
            return
        in_driver = self._is_in_driver(identity)
        claim = self.attempts.claim(identity)
        if claim is None and (in_driver or identity in self._tasks):
            self._never_begun(attempt, "cancelled", {"code": "cancelled", "message": "Stopped before it had begun."})
            claim = self.attempts.claim(identity)
        if not in_driver:
            await self._children.stop(attempt, how)
            self._on_change()
            return
        if claim is not None and claim.owner is not None and claim.end is None:
            link = self.drivers.by_pid(claim.owner.pid)
            if link is not None:
                link.tell("stop", identity=identity)
        self._on_change()

    async def forget(self, attempts: Sequence[AttemptKey]) -> None:
        for attempt in attempts:
            identity = attempt.identity
            self._ends.pop(identity, None)
            self._seen_running.discard(identity)
            self._in_driver.pop(identity, None)
            self.attempts.tidy(identity)
            for name in (ORDER, PROGRESS, VERDICT):
                with suppress(OSError):
                    (self.attempts.directory(identity) / name).unlink()
        await self._children.forget(attempts)

    def _heard(self, event: dict[str, Any]) -> None:
        self._on_change()

    def _driver_ended(self) -> None:
        self._on_change()
        # The connection ends a moment before the process does; only then are its attempts known to be gone.
        loop = asyncio.get_running_loop()
        for later in (0.1, 0.5, 2.0):
            loop.call_later(later, self._on_change)


class _Children(ProcessLauncher):
    """The processes of PySpark attempts: `python -m tidegate.pipeline.child`, under the shim."""

    def command_line(self, launch: Launch, directory: Path) -> CommandLine:
        environment = environment_of(launch, self.environment, directory / "context.json")
        environment |= {"PYTHONUNBUFFERED": "1"}
        argv = (sys.executable, "-m", "tidegate.pipeline.child", str(directory / ORDER))
        return CommandLine(sys.executable, argv, environment)


def runs_in_driver(launch: Launch) -> bool:
    """Maintenance does. SQL does, unless it is to have a JVM of its own. CALL always has: what it commits could not be
    stamped else (RUN-7).

    The word is looked for everywhere, comments and strings included: a JVM too many costs seconds, no more.
    """
    spec = launch.program.spec
    if isinstance(spec, Maintenance):
        return True
    return isinstance(spec, SparkSql) and spec.isolation is Isolation.SHARED and not _CALL.search(spec.sql)


def _backend_id(claim: Claim) -> str:
    return f"pid {claim.owner.pid}" if claim.owner is not None else "spark"
