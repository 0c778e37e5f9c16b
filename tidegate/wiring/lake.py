"""The parts that look at lakes, and how Spark is reached."""

from __future__ import annotations

from contextlib import AsyncExitStack

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tidegate.control import care
from tidegate.domain.ids import Fence
from tidegate.engine.assessor import Assessor, AssessorSettings
from tidegate.engine.caretaker import Caretaker, CaretakerSettings
from tidegate.engine.outcome import Part
from tidegate.engine.watcher import Watcher, WatcherSettings
from tidegate.lake import surveying
from tidegate.lake.catalogs import open_catalog
from tidegate.lake.readers import ByNumber, LocalReader
from tidegate.pipeline.assess import SparkSurveyor
from tidegate.pipeline.watch import SparkReader
from tidegate.ports.lake import CatalogSpec
from tidegate.ports.spark import DriverSpec, SparkSettings
from tidegate.ports.tables import Surveyor
from tidegate.settings import Settings
from tidegate.store.store import PostgresStore


def watchers(store: PostgresStore, fence: Fence, settings: Settings, stack: AsyncExitStack) -> list[Part]:
    """A watcher for each catalog. They share what reads many tables at once, a Spark session of their own."""
    url, spark = settings.database.url, spark_settings(settings)
    spec = DriverSpec(home=str(settings.home), catalog_url=catalog_url(url), settings=spark)
    reader = ByNumber(LocalReader(), SparkReader(spec), settings.lake.spark_above)
    stack.push_async_callback(reader.close)
    found: list[Part] = []
    for each in catalogs_of(spark, url):
        catalog = open_catalog(each)
        stack.push_async_callback(catalog.close)
        found.append(Watcher(store, catalog, reader, fence, WatcherSettings(every=settings.lake.poll)))
    return found


def caretakers(store: PostgresStore, fence: Fence, settings: Settings, stack: AsyncExitStack) -> list[Part]:
    """An assessor for each catalog, and who starts maintenance."""
    url, spark, chosen = settings.database.url, spark_settings(settings), settings.lake
    surveyor = surveyor_of(settings)
    stack.push_async_callback(surveyor.close)
    decides = CaretakerSettings(every=chosen.maintain, ruling=settings.maintenance.ruling)
    found: list[Part] = [Caretaker(store, care.begin, fence, decides)]
    for each in catalogs_of(spark, url):
        catalog = open_catalog(each)
        stack.push_async_callback(catalog.close)
        pace = AssessorSettings(every=chosen.measure, rest=chosen.measure_rest)
        found.append(Assessor(store, catalog, surveyor, fence, pace))
    return found


def surveyor_of(settings: Settings) -> Surveyor:
    """Few tables are measured in this process, many by a Spark job."""
    url, spark = settings.database.url, spark_settings(settings)
    spec = DriverSpec(home=str(settings.home), catalog_url=catalog_url(url), settings=spark)
    return surveying.ByNumber(surveying.LocalSurveyor(), SparkSurveyor(spec), settings.lake.spark_above)


def catalogs_of(spark: SparkSettings, url: str) -> list[CatalogSpec]:
    """The catalog of Tidegate's own database, and those of the settings."""
    own = {name: value for name, value in spark.catalogs.get(spark.catalog, {}).items() if name != "type"}
    found = [CatalogSpec(name=spark.catalog, kind="jdbc", url=url, schema=spark.catalog_schema, properties=own)]
    for name, given in spark.catalogs.items():
        if name != spark.catalog:
            rest = {key: value for key, value in given.items() if key not in ("type", "url", "schema")}
            place = {"url": given.get("url", url), "schema": given.get("schema", name)}
            found.append(CatalogSpec(name=name, kind=given["type"], properties=rest, **place))
    return found


def spark_settings(settings: Settings) -> SparkSettings:
    return SparkSettings(**settings.spark.model_dump(), catalogs=settings.lake.catalogs)  # the port's, field by field


def catalog_url(url: str) -> str:
    """The same database over TCP, for Spark's JDBC catalog. The embedded server listens on both with one port."""
    parts = conninfo_to_dict(url)
    host = str(parts.get("host") or "")
    if host.startswith("/") or not host:
        parts["host"] = "127.0.0.1"
    return make_conninfo("", **parts)
