"""The sections and their keys, each with its default and its meaning."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from tidegate.domain.instants import DAY, HOUR, MINUTE, SECOND, format_duration
from tidegate.domain.maintenance.throttle import Ruling, Throttles
from tidegate.settings.values import Size, Span, Wait, read_catalogs, read_database, read_names, read_pairs

BEATS = 2
"""Heartbeats that may be late or lost before a process is declared dead."""

Kind: TypeAlias = Literal["pyspark", "spark_sql", "python", "command", "spark_submit", "http", "maintenance"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DatabaseSettings(Section):
    """Where everything is stored."""

    url: Annotated[str, BeforeValidator(read_database)] = Field(
        default="", description="PostgreSQL 15 or later, `postgresql://…`; empty: the embedded server of the home"
    )
    connections: int = Field(default=8, ge=2, le=200, description="most connections that one process keeps open")


class ApiSettings(Section):
    """Where people and programs reach it."""

    host: str = Field(
        default="127.0.0.1", description="address to listen on; only loopback while there is no authentication"
    )
    port: int = Field(default=7420, ge=0, le=65535, description="port to listen on; 0: any free one")
    body_limit: Size = Field(default=4_000_000, description="largest request body that is read")
    update_schedules: bool = Field(
        default=True, description="whether deploying an application also creates, replaces and deletes its schedules"
    )


class SchedulerSettings(Section):
    """What happens as time passes."""

    batch: int = Field(default=500, ge=1, le=10_000, description="most clocks, or runs, that one transaction decides")
    catch_up_per_pass: int = Field(
        default=100, ge=1, description="most missed fires that one pass launches, over all schedules together"
    )
    poll: Span = Field(default=SECOND, description="longest sleep, should every notification be lost")
    heartbeat: Span = Field(default=SECOND, description="how often each process says that it is alive")
    patience: Span = Field(
        default=5 * SECOND,
        description="silence after which a process is declared dead and fenced; at least twice the heartbeat",
    )
    crash_wait: Wait = Field(
        default=5 * MINUTE,
        description="how long the oldest scheduler must have been up before a run starts again that crashed while "
        "nobody looked after it; PT0S: at once",
    )
    resync: Span = Field(default=30 * SECOND, description="how often the store is compared with itself and mended")
    partitions_ahead: Span = Field(default=14 * DAY, description="how far ahead daily partitions are made")

    @model_validator(mode="after")
    def _outlasts_heartbeats(self) -> Self:
        """Else healthy processes declare each other dead, one after the other, for ever."""
        if self.patience < BEATS * self.heartbeat:
            least, given = format_duration(BEATS * self.heartbeat), format_duration(self.patience)
            raise ValueError(f"patience must be at least {BEATS} times heartbeat, so {least}, and is {given}")
        return self


class WorkerSettings(Section):
    """Where programs are started."""

    kinds: Annotated[tuple[Kind, ...], BeforeValidator(read_names)] = Field(
        default=KINDS, description="kinds of programs that this worker starts"
    )
    python_processes: int = Field(default=2, ge=1, le=256, description="pooled processes for Python functions")
    shutdown: Span = Field(
        default=10 * SECOND, description="how long attempts may go on after `tidegate up` was asked to stop"
    )


class SparkSettings(Section):
    """How Spark is started."""

    master: str = Field(default="local[*]", description="where Spark runs: `local[*]`, `spark://…`, `yarn`, `k8s://…`")
    conf: Annotated[dict[str, str], BeforeValidator(read_pairs)] = Field(
        default_factory=dict, description='any Spark property, `"spark.some.key" = "value"`'
    )
    driver_memory: str = Field(
        default="1g", pattern=r"^[0-9]+[kmgtKMGT]$", description="heap of each driver's JVM (`spark.driver.memory`)"
    )
    drivers: int = Field(default=1, ge=1, le=64, description="most warm drivers at a time")
    attempts_per_driver: int = Field(
        default=4, ge=1, description="a further driver is started when each has this many attempts"
    )
    idle: Span = Field(default=10 * MINUTE, description="a warm driver with nothing to do for so long ends")
    patience: Span = Field(
        default=2 * MINUTE,
        description="a driver that does not answer for so long, or whose JVM does not, hangs: it is killed, and what "
        "it ran is tried again as `retry` says",
    )
    start_timeout: Span = Field(
        default=180 * SECOND, description="how long a driver may take to come up, downloading the jars included"
    )
    catalog: str = Field(default="lake", description="name of the Iceberg catalog, in Spark and in PyIceberg")
    catalog_schema: str = Field(default="lake", description="PostgreSQL schema of the catalog's tables")
    warehouse: str = Field(default="", description="where new tables go; empty: `warehouse` in the home")
    java_home: str = Field(
        default="", description="Java 17 or 21; empty: JAVA_HOME, `java` on PATH, else the one that comes as a package"
    )
    jars_dir: str = Field(default="", description="where the jars are kept; empty: `jars` in the home")
    trust_store: str = Field(
        default="", description="a Java trust store to download jars with; empty: made from the system's certificates"
    )
    trust_store_password: str = Field(default="changeit", description="its password")
    ivy_settings: str = Field(default="", description="an Ivy settings file, for a company's mirror")
    log_level: str = Field(default="WARN", description="what Spark itself logs")


class LakeSettings(Section):
    """How tables are watched, and which catalogs there are."""

    poll: Span = Field(default=5 * SECOND, description="how often the tables that somebody waits for are looked at")
    spark_above: int = Field(
        default=200, ge=1, description="when more tables than this changed at once, a Spark job reads them"
    )
    measure: Span = Field(default=10 * SECOND, description="how often to look which tables of a policy have changed")
    measure_rest: Span = Field(default=30 * SECOND, description="least span between two measurements of one table")
    maintain: Span = Field(default=5 * SECOND, description="how often it is decided what maintenance is to run")
    catalogs: Annotated[dict[str, dict[str, str]], BeforeValidator(read_catalogs)] = Field(
        default_factory=dict,
        description="further Iceberg catalogs, `[lake.catalogs.NAME]`: `type` is `rest` (with its `uri`) or `jdbc` "
        "(with its PostgreSQL `url` and `schema`); all other keys are Iceberg's own. "
        "One of the name in spark.catalog adds keys to that catalog",
    )


class MaintenanceSettings(Section):
    """What holds for the maintenance of all tables, whatever their policies say. Schedulers and API processes must have
    the same, or `tidegate tables status` shows what one that is set so would do."""

    conditions: bool = Field(
        default=True,
        description="whether the conditions of policies (`when`) count; false: what has a schedule goes by that alone, "
        "what has none runs by hand only",
    )
    min_interval: Wait = Field(
        default=0,
        description="between two starts of an operation on a table at least, also where a policy says less",
    )
    failures: int = Field(
        default=3, ge=0, le=1000, description="failures in a row after which an operation waits; 0: it never does"
    )
    failure_wait: Span = Field(default=6 * HOUR, description="how long it waits then, after each further failure")
    unchanged: int = Field(
        default=5,
        ge=0,
        le=1000,
        description="runs in a row that changed nothing after which an operation comes less often, until there is new "
        "data; 0: it never does",
    )
    reduction: float = Field(
        default=50, ge=0, le=99, description="by how many percent its frequency falls then; 50: twice the interval"
    )
    unchanged_wait: Span = Field(default=6 * HOUR, description="how long its interval is then at least")

    @property
    def ruling(self) -> Ruling:
        """As decisions take it."""
        throttles = Throttles(**self.model_dump(exclude={"conditions"}))
        return Ruling(throttles=throttles, conditions=self.conditions)


class RetentionSettings(Section):
    """How long history is kept; whole days are dropped, never rows that are still open."""

    runs: Span = Field(default=90 * DAY, description="runs, attempts, missed stretches, health of tables, maintenance")
    events: Span = Field(default=30 * DAY, description="the event log")
    logs: Span = Field(default=30 * DAY, description="log files of attempts")


class LogSettings(Section):
    """What the processes say on standard error."""

    level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(lambda v: str(v).lower())] = Field(
        default="info", description="least severity that is shown"
    )
    format: Literal["text", "json"] = Field(default="text", description="lines for people, or one JSON object each")
