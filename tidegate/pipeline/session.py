"""The one way a SparkSession is built, in warm drivers and in processes of their own.

The catalog is Iceberg's JDBC catalog in a schema of its own (`lake`) of Tidegate's PostgreSQL; PyIceberg reads and
writes the same tables (`iceberg_catalog`). The password goes through a properties file (0600) in the session's own
folder, since what stands on a command line is visible to every user of the machine. Programs that run in the session
can read it (`spark.conf`): they are trusted with the lake.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier

from tidegate.domain.errors import Refused
from tidegate.pipeline.provision import Provisioned
from tidegate.ports.spark import DriverSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


@dataclass(frozen=True, slots=True)
class CatalogAddress:
    """Where the catalog's tables are, taken apart."""

    host: str
    port: int
    database: str
    user: str
    password: str
    schema: str
    options: Mapping[str, str]

    @classmethod
    def parse(cls, url: str, schema: str) -> CatalogAddress:
        """From a libpq URL or connection string. Raises Refused when Java could not connect by it."""
        given: dict[str, Any] = conninfo_to_dict(url)
        host = str(given.get("hostaddr") or given.get("host") or "localhost").split(",")[0]
        if host.startswith(("/", "@")):
            raise Refused(
                "Spark's catalog needs PostgreSQL by TCP; the database URL names a Unix socket.",
                remedy="Name a host and port in the database URL.",
                code="spark.catalog_url",
            )
        return cls(
            host=host,
            port=int(str(given.get("port") or 5432).split(",")[0]),
            database=str(given.get("dbname") or given.get("user") or "postgres"),
            user=str(given.get("user") or ""),
            password=str(given.get("password") or os.environ.get("PGPASSWORD", "")),
            schema=schema,
            options={name: str(given[name]) for name in ("sslmode", "sslrootcert") if given.get(name)},
        )

    @property
    def jdbc(self) -> str:
        extra = "".join(f"&{name}={quote(value, safe='')}" for name, value in self.options.items())
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"jdbc:postgresql://{host}:{self.port}/{quote(self.database)}?currentSchema={quote(self.schema)}{extra}"

    @property
    def sqlalchemy(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}@" if self.user else ""
        search = quote(f"-csearch_path={self.schema}", safe="")
        extra = "".join(f"&{name}={quote(value, safe='')}" for name, value in self.options.items())
        return f"postgresql+psycopg://{login}{host}:{self.port}/{quote(self.database)}?options={search}{extra}"


def catalog_address(spec: DriverSpec) -> CatalogAddress:
    return CatalogAddress.parse(spec.catalog_url, spec.settings.catalog_schema)


def warehouse(spec: DriverSpec) -> str:
    """Where new tables go, as a URI."""
    given = spec.settings.warehouse
    return given if "://" in given else (Path(given) if given else Path(spec.home) / "warehouse").resolve().as_uri()


def prepare_catalog(spec: DriverSpec) -> None:
    """Make the schema that the catalog's tables go into. Safe to repeat and at once."""
    with Connection.connect(spec.catalog_url, autocommit=True, connect_timeout=10) as connection:
        with connection.transaction():
            # Two sessions that create one schema at once would fail in the catalog's unique index.
            connection.execute("SELECT pg_advisory_xact_lock(7420001)")
            connection.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(spec.settings.catalog_schema)))


def iceberg_catalog(spec: DriverSpec) -> Any:
    """PyIceberg's view of the same catalog: the same tables, without a JVM."""
    from pyiceberg.catalog.sql import SqlCatalog

    prepare_catalog(spec)
    return SqlCatalog(
        spec.settings.catalog, uri=catalog_address(spec).sqlalchemy, warehouse=warehouse(spec), pool_pre_ping="true"
    )


def session_properties(
    spec: DriverSpec, provisioned: Provisioned, folder: Path, *, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Every Spark property of a session. `extra` is ours (the Connect server) and wins over the user's."""
    settings = spec.settings
    address = catalog_address(spec)
    lake = f"spark.sql.catalog.{settings.catalog}"
    scratch = folder / "tmp"
    ours = {
        "spark.app.name": "tidegate",
        "spark.master": settings.master,
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": f'-Djava.io.tmpdir="{scratch}"',
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": settings.log_level,
        "spark.local.dir": str(scratch),
        "spark.driver.bindAddress": "127.0.0.1" if settings.master.startswith("local") else "0.0.0.0",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8" if settings.master.startswith("local") else "200",
        "spark.sql.warehouse.dir": (Path(spec.home) / "warehouse").resolve().as_uri(),
        "spark.sql.catalogImplementation": "in-memory",
    }
    if settings.master.startswith("local"):
        ours["spark.driver.host"] = "localhost"
    catalog = {
        "spark.sql.extensions": _EXTENSIONS,
        lake: "org.apache.iceberg.spark.SparkCatalog",
        f"{lake}.type": "jdbc",
        f"{lake}.uri": address.jdbc,
        f"{lake}.jdbc.user": address.user,
        f"{lake}.jdbc.password": address.password,
        f"{lake}.jdbc.schema-version": "V1",
        f"{lake}.warehouse": warehouse(spec),
        # Others commit too (other drivers, PyIceberg): a cached table would hide that for half a minute.
        f"{lake}.cache-enabled": "false",
    }
    catalog |= {
        f"{lake}.{name}": value for name, value in settings.catalogs.get(settings.catalog, {}).items() if name != "type"
    }
    for name, properties in spec.further_catalogs().items():
        catalog |= _further(spec, name, properties)
    given = {name: str(value) for name, value in settings.conf.items()}
    jars = [str(jar) for jar in provisioned.jars]
    if "spark.sql.extensions" in given:
        catalog["spark.sql.extensions"] += "," + given.pop("spark.sql.extensions")
    if "spark.jars" in given:
        jars.append(given.pop("spark.jars"))
    return ours | given | catalog | {"spark.jars": ",".join(jars)} | dict(extra or {})


def _further(spec: DriverSpec, name: str, given: Mapping[str, str]) -> dict[str, str]:
    """Spark's properties of a catalog of the settings. Iceberg's own are passed on as they are."""
    prefix = f"spark.sql.catalog.{name}"
    found = {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": given["type"],
        f"{prefix}.cache-enabled": "false",
    }
    if given["type"] != "jdbc":
        return found | {f"{prefix}.{key}": value for key, value in given.items() if key != "type"}
    address = CatalogAddress.parse(given.get("url") or spec.catalog_url, given.get("schema") or name)
    ours = {
        "uri": address.jdbc,
        "jdbc.user": address.user,
        "jdbc.password": address.password,
        "jdbc.schema-version": "V1",
        "warehouse": warehouse(spec),
    }
    own = {key: value for key, value in given.items() if key not in ("type", "url", "schema")}
    return found | {f"{prefix}.{key}": value for key, value in (ours | own).items()}


def open_session(
    spec: DriverSpec, provisioned: Provisioned, folder: Path, *, extra: Mapping[str, str] | None = None
) -> SparkSession:
    """Start a JVM and the session in it. `folder` is the session's own: properties and scratch files go there.

    Raises Unavailable or Refused before the JVM is started where that is possible.
    """
    prepare_catalog(spec)
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    properties = folder / "spark.properties"
    _write_secret(properties, session_properties(spec, provisioned, folder, extra=extra))
    pyspark = importlib.util.find_spec("pyspark")
    assert pyspark is not None and pyspark.origin is not None
    os.environ |= {
        "SPARK_HOME": str(Path(pyspark.origin).parent),
        "JAVA_HOME": str(provisioned.java.home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_PIN_THREAD": "true",
        "SPARK_LOCAL_DIRS": str(folder / "tmp"),
        "PYSPARK_SUBMIT_ARGS": f"--properties-file {_quoted(properties)} pyspark-shell",
    }
    if spec.settings.master.startswith("local"):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE"):
        os.environ.pop(name, None)
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def _write_secret(path: Path, properties: Mapping[str, str]) -> None:
    lines = [f"{_escape(name, ' =:#!')}={_escape(value, '')}" for name, value in sorted(properties.items())]
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write("\n".join(lines) + "\n")


def _escape(text: str, special: str) -> str:
    """As java.util.Properties reads it."""
    out = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    for mark in special:
        out = out.replace(mark, "\\" + mark)
    return "\\" + out if out[:1] == " " else out


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"
