"""One embedded PostgreSQL, one set of jars and one warm driver for all Spark tests."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from tidegate.domain.ids import AttemptKey, ProgramId, RunKey, ScheduleId
from tidegate.domain.programs import Maintenance, ProgramRef, PySpark, SparkSql
from tidegate.domain.runs import Cause
from tidegate.launchers.spark import SparkLauncher
from tidegate.launchers.spark_drivers import end_drivers
from tidegate.ports.launching import Launch, Phase, Report
from tidegate.ports.spark import SparkSettings
from tidegate.store import migrate
from tidegate.store.embedded import EmbeddedServer, Shutdown

ENDED = (Phase.FINISHED, Phase.GONE)


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.get_closest_marker("spark"):
            # One worker of xdist, so that there is one driver; a cold start with downloads takes its time.
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.timeout(400))


class Lake:
    """A home with a catalog, and the launcher of a worker on it."""

    def __init__(self, home: Path, url: str, jars: Path) -> None:
        self.home, self.url = home, url
        self.settings = SparkSettings(jars_dir=str(jars), conf={"spark.sql.shuffle.partitions": "2"})
        self._slots = itertools.count(time.time_ns() // 1000)

    def key(self) -> RunKey:
        return RunKey(next(self._slots), ScheduleId(7), 0)

    def launch(
        self,
        spec: PySpark | SparkSql | Maintenance,
        *,
        key: RunKey | None = None,
        number: int = 1,
        arguments: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        evidence: Mapping[str, Any] | None = None,
    ) -> Launch:
        return Launch(
            attempt=AttemptKey(key or self.key(), number),
            fence=40 + number,
            namespace="sales",
            schedule="load",
            program=ProgramRef(id=ProgramId(1), rev=1, namespace="sales", name="load", spec=spec),
            arguments=arguments or {},
            cause=Cause.FIRE,
            caused_by="clock",
            fire_time=1_800_000_000_000_000,
            previous_fire_time=None,
            inputs=inputs or {},
            evidence=evidence,
        )

    @asynccontextmanager
    async def worker(self, settings: SparkSettings | None = None) -> AsyncIterator[SparkLauncher]:
        launcher = SparkLauncher(self.home, settings or self.settings, self.url)
        await launcher.open()
        try:
            yield launcher
        except BaseException:
            end_drivers(self.home)  # else a failed test's endless query slows down all that follow
            raise
        finally:
            await launcher.close()

    def run(self, spec: PySpark | SparkSql | Maintenance, **given: Any) -> tuple[Report, str]:
        """Run one attempt to its end with a worker of its own; its report and log."""

        async def scenario() -> tuple[Report, str]:
            async with self.worker() as launcher:
                launch = self.launch(spec, **given)
                await launcher.start(launch)
                report = await self.until(launcher, launch, *ENDED)
                return report, self.log(launch)

        return asyncio.run(scenario())

    def sql(self, text: str) -> str:
        report, log = self.run(SparkSql(sql=text))
        assert report.outcome == "succeeded", log
        return log

    def care(self, table: str, operation: str, *, outcome: str = "succeeded", **given: Any) -> dict[str, Any]:
        """Run a maintenance operation; what its run has to tell."""
        arguments = {"table": f"lake.{table}", "operation": operation, **given}
        report, log = self.run(Maintenance(), arguments=arguments)
        assert report.outcome == outcome, (report, log)
        note = dict(report.error or {})
        return {**note.pop("result", {}), **note}

    def content(self, table: str) -> str:
        """How many rows, and the sum of their ids."""
        asked = f"SELECT 'rows=' || count(*) || ' sum=' || coalesce(sum(id), 0) FROM lake.{table}"
        found = re.findall(r"rows=\d+ sum=\d+", self.sql(asked))
        assert found
        return str(found[-1])

    async def until(self, launcher: SparkLauncher, launch: Launch, *phases: Phase, seconds: float = 240) -> Report:
        async def one_of() -> Report | None:
            for report in await launcher.poll([launch.attempt]):
                if report.phase in phases or report.phase in ENDED:
                    return report
            return None

        report = await self.eventually(one_of, seconds=seconds)
        assert report.phase in phases, (report, self.log(launch))
        return report

    async def eventually(self, ask: Callable[[], Awaitable[Any]], *, seconds: float = 60) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := await ask()):
            assert time.monotonic() < deadline, "it did not come true in time"
            await asyncio.sleep(0.02)
        return found

    def log(self, launch: Launch) -> str:
        path = self.home / "attempts"
        found = list(path.glob(f"*/{launch.identity}/log"))
        return found[0].read_text() if found else ""

    def driver_pids(self) -> list[int]:
        return [pid for folder in (self.home / "drivers").glob("*-*/") if _lives(pid := _pid(folder))]

    def metadata(self, table: str) -> dict[str, Any]:
        """What the catalog itself says of a table, without Spark."""
        namespace, name = table.split(".")
        with psycopg.connect(self.url) as connection:
            row = connection.execute(
                "SELECT metadata_location FROM lake.iceberg_tables WHERE table_namespace = %s AND table_name = %s",
                [namespace, name],
            ).fetchone()
        assert row is not None, f"there is no {table}"
        found: dict[str, Any] = json.loads(Path(row[0].removeprefix("file:")).read_text())
        return found

    def snapshots(self, table: str) -> list[dict[str, Any]]:
        """Each snapshot's operation and stamps, oldest first."""
        metadata = self.metadata(table)
        found = sorted(metadata.get("snapshots", []), key=lambda one: one["sequence-number"])
        return [
            {name.removeprefix("tidegate."): value for name, value in one["summary"].items() if name[:8] == "tidegate"}
            | {"operation": one["summary"]["operation"]}
            for one in found
        ]


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, ValueError):
        return False


def _pid(folder: Path) -> int:
    try:
        return int(json.loads((folder / "status.json").read_text())["pid"])
    except (OSError, ValueError):
        return -1


@pytest.fixture(scope="session")
def jars() -> Path:
    """Kept between sessions, since they are 50 MB; their hashes are checked each time."""
    folder = Path(os.environ.get("TIDEGATE_TEST_JARS", Path(tempfile.gettempdir()) / f"tidegate-jars-{os.getuid()}"))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory, jars: Path) -> Iterator[Lake]:
    home = tmp_path_factory.mktemp("lake")
    server = EmbeddedServer(home)
    migrate.upgrade(server.start())  # the catalog is in the ledger's database, and maintenance asks both
    try:
        yield Lake(home, server.tcp_url, jars)
    finally:
        end_drivers(home)
        server.stop(Shutdown.IMMEDIATE)
