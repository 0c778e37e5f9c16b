"""What runs: a closed union of values. How each is started is the launchers' business."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias

from tidegate.domain.ids import ProgramId
from tidegate.domain.schedules import JsonObject


class Isolation(StrEnum):
    """Where a Spark program's driver lives."""

    SHARED = "shared"
    """In a warm driver: a child process over Spark Connect, or a session of its own for SQL."""
    PROCESS = "process"
    """In a process and JVM of its own: for programs that need a SparkContext, RDDs or CALL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What every program takes. `pool` None means the kind's own (`POOLS`), else `default`."""

    pool: str | None = None
    groups: tuple[str, ...] = ()
    arguments: JsonObject = field(default_factory=dict)
    environment: JsonObject = field(default_factory=dict)
    """Extra environment variables; a value `env:NAME` is read from the worker's own environment at launch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PySpark(Common):
    """`entry`: `package.module:function`, `path/file.py:function` or `path/file.py` (the file is run as a script)."""

    TYPE: ClassVar[str] = "pyspark"
    entry: str
    conf: JsonObject = field(default_factory=dict)
    isolation: Isolation = Isolation.SHARED
    remote: str | None = None
    """A Spark Connect server instead of a driver of ours: `sc://HOST:PORT`, or `env:NAME` that holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSql(Common):
    """One or more SQL statements separated by `;`. `{name}` is replaced by the run's argument as a SQL literal."""

    TYPE: ClassVar[str] = "spark_sql"
    sql: str
    conf: JsonObject = field(default_factory=dict)
    isolation: Isolation = Isolation.SHARED


@dataclass(frozen=True, slots=True, kw_only=True)
class Python(Common):
    """A function in a pooled process, without Spark. `entry` as for PySpark, with a function."""

    TYPE: ClassVar[str] = "python"
    entry: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Common):
    """A process. `argv[0]` is looked up on PATH; nothing is given to a shell."""

    TYPE: ClassVar[str] = "command"
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance(Common):
    """One operation on one table, on Spark: which and how is in the run's arguments (`domain.maintenance`)."""

    TYPE: ClassVar[str] = "maintenance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish(Common):
    """An event, and nothing else: no worker takes part. `event` is its type. Text in `key` and `payload` may hold the
    templates of `domain.templates`, `arguments.NAME` among them."""

    TYPE: ClassVar[str] = "publish"
    event: str
    key: str
    payload: JsonObject = field(default_factory=dict)


class DeployMode(StrEnum):
    """Where the driver of a submitted application runs."""

    CLIENT = "client"
    """On the worker's machine."""
    CLUSTER = "cluster"
    """In the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSubmit(Common):
    """An application that `spark-submit` starts. `master` None: the worker's setting. Text in `args` may hold the
    templates of `domain.templates`; values `env:NAME` of `conf` are read from the worker's own environment."""

    TYPE: ClassVar[str] = "spark_submit"
    application: str
    master: str | None = None
    deploy_mode: DeployMode = DeployMode.CLIENT
    main_class: str | None = None
    conf: JsonObject = field(default_factory=dict)
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Http(Common):
    """A call of another system. `url`, text in `headers` and `body` may hold the templates of `domain.templates`; a
    header of `env:NAME`, and `secret` (always `env:NAME`), are read from the worker's own environment.

    `body`: JSON, or text as it is; None: the run, as JSON, where the method carries one. `success`: statuses or
    classes of them (`2xx`)."""

    TYPE: ClassVar[str] = "http"
    url: str
    method: str = "POST"
    headers: JsonObject = field(default_factory=dict)
    body: Any = None
    success: tuple[int | str, ...] = ("2xx",)
    secret: str | None = None


ProgramSpec: TypeAlias = PySpark | SparkSql | Python | Command | SparkSubmit | Http | Publish | Maintenance
PROGRAMS: tuple[type[ProgramSpec], ...] = (PySpark, SparkSql, Python, Command, SparkSubmit, Http, Publish, Maintenance)
POOLS = {
    PySpark.TYPE: "spark",
    SparkSql.TYPE: "spark",
    Maintenance.TYPE: "spark",
    SparkSubmit.TYPE: SparkSubmit.TYPE,
    Http.TYPE: Http.TYPE,
    Publish.TYPE: Publish.TYPE,
}
"""The pools of kinds that have one of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRef:
    """A program as the engine needs it. (id, rev) never changes its meaning, so it may be cached for ever."""

    id: ProgramId
    rev: int
    namespace: str
    name: str
    spec: ProgramSpec

    @property
    def kind(self) -> str:
        return self.spec.TYPE

    @property
    def pool(self) -> str:
        return self.spec.pool or POOLS.get(self.spec.TYPE, "default")
