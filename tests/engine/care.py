"""A lake that lies in memory, and what looks after it: assessor and caretaker, cranked by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from engine.worlds import World, crank

from tidegate.control import care, policies, tables
from tidegate.documents import parsing
from tidegate.documents.declared import MaintenancePolicy
from tidegate.domain.errors import Unavailable
from tidegate.domain.ids import AttemptKey, RunKey
from tidegate.domain.instants import MINUTE, SECOND, Instant
from tidegate.domain.maintenance.health import MIB, PartitionFiles, TableHealth
from tidegate.domain.maintenance.throttle import DEFAULT_RULING, Ruling
from tidegate.domain.maintenance.wire import health_json
from tidegate.engine.assessor import Assessor
from tidegate.engine.caretaker import Caretaker, CaretakerSettings
from tidegate.ports.lake import Pointer
from tidegate.ports.launching import Phase, Report
from tidegate.ports.tables import Survey, SurveyOrder

FLIGHTS = "lake.raw.flights"
COMPACT: Mapping[str, Any] = {"rewrite_data_files": {"when": {"small_file_percent": 20}}}


class Lake:
    """Tables by name, each with its commits counted and so many small files; a catalog and a surveyor of them."""

    name = "lake"

    def __init__(self) -> None:
        self.commits: dict[str, int] = {}
        self.small: dict[str, int] = {}
        self.broken: dict[str, str] = {}
        self.away = ""
        self.measured: list[str] = []
        self.changed_at: dict[str, Instant] = {}
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    def write(self, table: str, files: int, now: Instant) -> None:
        """A commit of so many small files."""
        self.commits[table] = self.commits.get(table, 0) + 1
        self.small[table] = self.small.get(table, 0) + files
        self.changed_at[table] = now

    def compact(self, table: str) -> None:
        self.commits[table] += 1
        self.small[table] = 0

    async def tables(self) -> Sequence[Pointer]:
        if self.away:
            raise Unavailable(self.away)
        return [Pointer(dataset=table, location=f"{table}/{at}") for table, at in sorted(self.commits.items())]

    async def compare(self, seen: Mapping[str, str | None]) -> Sequence[Pointer]:
        raise NotImplementedError

    async def survey(self, orders: Sequence[SurveyOrder]) -> Sequence[Survey]:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return [self._survey(one) for one in orders]

    def _survey(self, order: SurveyOrder) -> Survey:
        table = order.table
        self.measured.append(table)
        if table in self.broken:
            return Survey(table=table, error=self.broken[table])
        small = self.small[table]
        health = TableHealth(
            assessed_at=order.now,
            snapshot=self.commits[table],
            changed_at=self.changed_at[table],
            rows=1,
            data_files=small + 1,
            data_bytes=small * MIB + 500 * MIB,
            small_files=small,
            large_files=0,
            delete_files=0,
            snapshots=self.commits[table],
            newest_snapshot_at=self.changed_at[table],
            oldest_snapshot_at=self.changed_at[table],
            snapshot_times=(self.changed_at[table],),
            manifests=1,
            manifest_bytes=1000,
            partitions=1,
            most_files_in_partition=small + 1,
            columns=("id", "day", "where.city"),
            files=(PartitionFiles(partition="", sizes=(*([MIB] * small), 500 * MIB)),),
        )
        return Survey(table=table, health=health_json(health))

    async def close(self) -> None: ...


class CareWorld(World):
    def __init__(self, ruling: Ruling = DEFAULT_RULING) -> None:
        super().__init__()
        self.lake, self.ruling = Lake(), ruling
        self.assessor = Assessor(self.store, self.lake, self.lake, self.fence)
        self.caretaker = Caretaker(self.store, care.begin, self.fence, CaretakerSettings(ruling=ruling))
        self.hands = self.worker()

    def policy(self, name: str = "nightly", tables: str = "lake.**", **spec: Any) -> None:
        spec = {"tables": tables, "operations": COMPACT, **spec}
        document = {"kind": "MaintenancePolicy", "apiVersion": "tidegate/v1", "metadata": {"name": name}, "spec": spec}
        parsed = parsing.parse(document)
        assert isinstance(parsed, MaintenancePolicy)
        crank(policies.put(self.store, parsed, who="ann"))

    def write(self, files: int = 10, table: str = FLIGHTS) -> None:
        self.lake.write(table, files, self.now)

    def look(self) -> None:
        """A pass of everything that looks, after a while."""
        self.pass_time(MINUTE)
        self.step(self.assessor)
        self.step(self.caretaker)

    def open(self) -> list[Any]:
        return list(crank(self.store.open_care()))

    def launch(self) -> list[RunKey]:
        """Admit and launch what may start; the runs that run now."""
        self.step(self.admitter)
        self.hands.dispatch()
        self.hands.supervise()
        return [one.order.run for one in self.open() if one.state.value == "running"]

    def end(self, run: RunKey, outcome: str = "succeeded", **result: Any) -> None:
        key = AttemptKey(run, 1)
        error = {"code": "maintenance.done", "message": "done", "result": result} if result else None
        self.backend.reports[key] = Report(attempt=key, phase=Phase.FINISHED, outcome=outcome, error=error)
        self.pass_time(SECOND)
        self.hands.supervise()

    def lose(self, run: RunKey) -> None:
        """Its process is gone without a word."""
        key = AttemptKey(run, 1)
        self.backend.reports[key] = Report(attempt=key, phase=Phase.GONE, error={"code": "spark.driver_died"})
        self.pass_time(SECOND)
        self.hands.supervise()

    def status(self, table: str = FLIGHTS) -> tables.Status:
        return crank(tables.status(self.store, table, ruling=self.ruling))

    def verdicts(self, table: str = FLIGHTS) -> dict[str, str]:
        return {one.operation.value: one.verdict.value for one in self.status(table).decisions}

    def history(self, table: str = FLIGHTS) -> list[Any]:
        return list(crank(self.store.care_of(table, None, 100)))
