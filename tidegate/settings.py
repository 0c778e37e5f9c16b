"""Every setting there is: `tidegate.toml` in the home, overridden by TIDEGATE_SECTION__KEY, overridden by flags.

An unknown section or key is an error that names the nearest one. `python -m tidegate.settings` prints the one table of
all of them, which is docs/reference/settings.md; a test keeps the two equal. Durations are microseconds inside and
ISO 8601 (or `4h`) in the file.
"""

from __future__ import annotations

import dataclasses
import difflib
import ipaddress
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings.sources import InitSettingsSource

from tidegate.domain.errors import Fault, Invalid, Refused
from tidegate.domain.instants import DAY, MINUTE, SECOND, Duration, format_duration, parse_duration, parse_size
from tidegate.ports.probing import PROBE_KEYS, ProbeSpec

PREFIX = "TIDEGATE_"
FILE = "tidegate.toml"
Kind: TypeAlias = Literal["pyspark", "spark_sql", "python", "command", "spark_submit", "http", "maintenance"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def _duration(value: object) -> object:
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, int) and not isinstance(value, bool):  # a default, already in microseconds, is not read here
        raise ValueError(f"{value} is not a duration; write it with a unit, like PT30S or 30s")
    return value


def _size(value: object) -> object:
    return parse_size(value) if isinstance(value, str) else value


def _names(value: object) -> object:
    """A list, also written `a, b` in an environment variable; never empty."""
    found = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    if found == []:
        raise ValueError("must name at least one")
    return found


def _pairs(value: object) -> object:
    """A table, also written `k=v, k=v` in an environment variable."""
    if not isinstance(value, str):
        return value
    return {key.strip(): text.strip() for key, _, text in (part.partition("=") for part in _split(value))}


def _probe(value: object, name: str) -> ProbeSpec:
    """A probe, also written as JSON in an environment variable."""
    try:
        return ProbeSpec.of(name, json.loads(value) if isinstance(value, str) else value)
    except json.JSONDecodeError:
        raise ValueError("must be a table with `type`; in the environment as JSON") from None


def _probes(value: object) -> object:
    if not isinstance(value, Mapping):
        raise ValueError("must be probes by name, each a table of its own: [probes.NAME]")
    found, wrong = {}, []
    for name, given in value.items():
        try:
            found[name] = given if isinstance(given, ProbeSpec) else _probe(given, str(name))
        except ValueError as fault:
            wrong.append(str(fault))
    if wrong:
        raise ValueError("; ".join(wrong))
    return found


def _catalogs(value: object) -> object:
    """Tables by name, also written as JSON in an environment variable."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ValueError("must be catalogs by name; in the environment as JSON") from None
    if not isinstance(value, Mapping):
        raise ValueError("must be catalogs by name, each a table of its own")
    for name, given in value.items():
        if not isinstance(given, Mapping):
            raise ValueError(f"{name!r} must be a table with at least `type`")
        needs = {"rest": "uri", "jdbc": "type"}
        if given.get("type") not in needs:
            raise ValueError(f"the `type` of catalog {name!r} must be rest or jdbc")
        if needs[given["type"]] not in given:
            raise ValueError(f"catalog {name!r} lacks {needs[given['type']]!r}")
        if not name.isidentifier():
            raise ValueError(
                f"{name!r} is not a catalog's name: letters, digits and '_' (it begins the names of tables)"
            )
    return {name: {key: _plain(one) for key, one in given.items()} for name, given in value.items()}


def _plain(value: object) -> str:
    """A property as Iceberg wants it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _split(value: str) -> list[str]:
    return [part for part in value.split(",") if part.strip()]


def _database(value: object) -> object:
    """A connection URL that the driver understands."""
    if isinstance(value, str) and value:
        import psycopg  # here: it takes a while, and most settings have none
        from psycopg.conninfo import conninfo_to_dict

        try:
            conninfo_to_dict(value)
        except psycopg.ProgrammingError as error:
            reason = str(error).replace(value, "…").strip().rstrip(".")  # it may hold a password
            raise ValueError(f"is no address of a database ({reason}); write postgresql://USER@HOST/NAME") from None
    return value


Span = Annotated[Duration, BeforeValidator(_duration), Field(gt=0), "duration"]
Size = Annotated[int, BeforeValidator(_size), Field(gt=0), "size"]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DatabaseSettings(Section):
    """Where everything is stored."""

    url: Annotated[str, BeforeValidator(_database)] = Field(
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
    patience: Span = Field(default=5 * SECOND, description="silence after which a process is declared dead and fenced")
    resync: Span = Field(default=30 * SECOND, description="how often the store is compared with itself and mended")
    partitions_ahead: Span = Field(default=14 * DAY, description="how far ahead daily partitions are made")


class WorkerSettings(Section):
    """Where programs are started."""

    kinds: Annotated[tuple[Kind, ...], BeforeValidator(_names)] = Field(
        default=KINDS, description="kinds of programs that this worker starts"
    )
    python_processes: int = Field(default=2, ge=1, le=256, description="pooled processes for Python functions")
    shutdown: Span = Field(
        default=10 * SECOND, description="how long attempts may go on after `tidegate up` was asked to stop"
    )


class SparkSettings(Section):
    """How Spark is started."""

    master: str = Field(default="local[*]", description="where Spark runs: `local[*]`, `spark://…`, `yarn`, `k8s://…`")
    conf: Annotated[dict[str, str], BeforeValidator(_pairs)] = Field(
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
    catalogs: Annotated[dict[str, dict[str, str]], BeforeValidator(_catalogs)] = Field(
        default_factory=dict,
        description="further Iceberg catalogs, `[lake.catalogs.NAME]`: `type` is `rest` (with its `uri`) or `jdbc` "
        "(with its PostgreSQL `url` and `schema`); all other keys are Iceberg's own. "
        "One of the name in spark.catalog adds keys to that catalog",
    )


class RetentionSettings(Section):
    """How long history is kept; whole days are dropped, never rows that are still open."""

    runs: Span = Field(default=90 * DAY, description="runs, attempts and missed stretches")
    events: Span = Field(default=30 * DAY, description="the event log")
    logs: Span = Field(default=30 * DAY, description="log files of attempts")


class LogSettings(Section):
    """What the processes say on standard error."""

    level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(lambda v: str(v).lower())] = Field(
        default="info", description="least severity that is shown"
    )
    format: Literal["text", "json"] = Field(default="text", description="lines for people, or one JSON object each")


class Settings(BaseSettings):
    """All of it, checked. Immutable; build it with `load`."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    home: Path
    database: DatabaseSettings = DatabaseSettings()
    api: ApiSettings = ApiSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    worker: WorkerSettings = WorkerSettings()
    spark: SparkSettings = SparkSettings()
    lake: LakeSettings = LakeSettings()
    probes: Annotated[dict[str, ProbeSpec], BeforeValidator(_probes)] = Field(default_factory=dict)
    retention: RetentionSettings = RetentionSettings()
    log: LogSettings = LogSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `load` gathered: it reads environment and file itself, so that nothing unknown is passed over."""
        assert isinstance(init_settings, InitSettingsSource)
        layers = init_settings.init_kwargs.pop("layers", [])
        return (init_settings, *(InitSettingsSource(settings_cls, layer) for layer in layers))


SECTIONS: dict[str, type[Section]] = {
    name: field.annotation
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
}


PROBES = "probes"


def default_home(environ: Mapping[str, str] = os.environ) -> Path:
    """TIDEGATE_HOME, else ~/.tidegate."""
    return Path(environ.get("TIDEGATE_HOME") or "~/.tidegate").expanduser().absolute()


def load(
    *,
    home: Path | None = None,
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """Gather and check. Flags that are None count as not given.

    Raises Invalid with every fault at once (each with its key and where it was found), and Refused for a file that
    cannot be read.
    """
    place = home.expanduser().absolute() if home is not None else default_home(environ)
    file = place / FILE
    layers = {
        "flag": {s: {k: v for k, v in keys.items() if v is not None} for s, keys in (flags or {}).items()},
        "environment": _from_environment(environ),
        str(file): _from_file(file),
    }
    faults = [fault for source, layer in layers.items() for fault in _unknown(layer, source)]
    if not faults:
        try:
            return Settings(home=place, layers=list(layers.values()))  # type: ignore[call-arg]
        except ValidationError as error:
            faults = [_fault(dict(one), layers) for one in error.errors()]
    raise Invalid(faults, what="the configuration")


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Every TIDEGATE_SECTION__KEY; other TIDEGATE_ names (home, URL, what a run is given) are not settings."""
    found: dict[str, Any] = {}
    for name, value in sorted(environ.items()):
        if name.startswith(PREFIX) and "__" in name:
            section, _, key = name.removeprefix(PREFIX).lower().partition("__")
            found.setdefault(section, {})[key] = value
    if url := environ.get("TIDEGATE_DATABASE_URL"):
        found.setdefault("database", {})["url"] = url
    return found


def _from_file(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except tomllib.TOMLDecodeError as error:
        raise Refused(f"{file} is not TOML: {error}.", remedy="Mend it or move it away.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{file} cannot be read: {error}.", remedy="Make it a readable UTF-8 file.") from None


def _unknown(layer: Mapping[str, Any], source: str) -> Iterator[Fault]:
    for section, keys in layer.items():
        if section == PROBES:  # its keys are names of people's own
            continue
        if section not in SECTIONS:
            yield Fault(section, f"there is no such section ({source}); {_nearest(section, [*SECTIONS, PROBES])}")
        elif not isinstance(keys, Mapping):
            yield Fault(section, f"is a section, not a value ({source}); its keys are {', '.join(_keys(section))}")
        else:
            for key in keys:
                if key not in _keys(section):
                    reason = f"there is no such setting ({source}); {_nearest(key, _keys(section))}"
                    yield Fault(f"{section}.{key}", reason)


def _keys(section: str) -> list[str]:
    return list(SECTIONS[section].model_fields)


def _nearest(word: str, known: Mapping[str, Any] | list[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"


SECRET = re.compile(r"url|uri|dsn|password|secret|token|credential|key$", re.IGNORECASE)
"""Names of settings whose values are not repeated in messages."""


def _fault(error: Mapping[str, Any], layers: Mapping[str, Mapping[str, Any]]) -> Fault:
    """One pydantic error in our words, with the layer that the value came from."""
    path = [str(part) for part in error["loc"]]
    if path == [PROBES]:
        return Fault(PROBES, str(error["msg"]).removeprefix("Value error, "))
    section, key = (path + ["", ""])[:2]
    source = next((name for name, layer in layers.items() if key in layer.get(section, {})), "")
    reason = str(error["msg"]).removeprefix("Value error, ")
    given = "not shown here" if SECRET.search(path[-1]) else repr(error.get("input"))
    return Fault(".".join(path[:2]), f"{reason}; given was {given} ({source})")


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine."""
    name = host.strip().strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


# ── the table ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _written(value: object, annotation: object) -> str:
    """A default as a person would write it in the file."""
    match value:
        case bool():
            return str(value).lower()
        case int() if "duration" in get_args(annotation) or annotation == "duration":
            return format_duration(value)
        case tuple():
            return ", ".join(map(str, value))
        case "" | {}:
            return ""
        case _:
            return str(value)


def table() -> str:
    """The one table of all settings, as docs/reference/settings.md."""
    lines = [
        "# Settings",
        "",
        "Read from `tidegate.toml` in the home (`--home` or `TIDEGATE_HOME`, default `~/.tidegate`), overridden by the",
        "environment variable named here, overridden by flags. `TIDEGATE_DATABASE_URL` is short for",
        "`TIDEGATE_DATABASE__URL`. An unknown section or key is an error. Durations are ISO 8601 (`PT30S`) or short",
        "(`30s`).",
        "This page is made by `python -m tidegate.settings`.",
        "",
        "| Section | Key | Environment | Default | Meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    for section, model in SECTIONS.items():
        for key, field in model.model_fields.items():
            kind = "duration" if "duration" in field.metadata else ""
            default = _written(field.get_default(call_default_factory=True), kind)
            env = f"{PREFIX}{section.upper()}__{key.upper()}"
            shown = f"`{default}`" if default else ""
            lines.append(f"| {section} | {key} | `{env}` | {shown} | {field.description} |")
    for one in dataclasses.fields(ProbeSpec):
        default = "" if one.default is dataclasses.MISSING else _written(one.default, "duration")
        shown = f"`{default}`" if default not in ("", "()") else ""
        lines.append(f"| probes.NAME | {one.name} | `{PREFIX}PROBES__NAME` (JSON) | {shown} | {PROBE_KEYS[one.name]} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
