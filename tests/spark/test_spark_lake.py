"""Catalogs and readers that need Java: the Iceberg project's own REST server, and many tables read by a Spark job."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from lake.conftest import BY_DAY, SCHEMA, TellingStore, Watching, rows
from pyiceberg.catalog import load_catalog

from tidegate.domain.errors import Unavailable
from tidegate.domain.lake import ABSENT, Place
from tidegate.domain.programs import PySpark
from tidegate.engine.watcher import Watcher
from tidegate.lake.catalogs import RestCatalog
from tidegate.lake.readers import ByNumber, LocalReader
from tidegate.lake.surveying import LocalSurveyor
from tidegate.pipeline.assess import SparkSurveyor
from tidegate.pipeline.provision import Jar, provision
from tidegate.pipeline.session import iceberg_catalog
from tidegate.pipeline.watch import SparkReader
from tidegate.ports.lake import CatalogSpec, Order
from tidegate.ports.spark import DriverSpec
from tidegate.ports.tables import SurveyOrder

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PROGRAMS = Path(__file__).with_name("programs.py")
SERVER = Jar(
    "org.apache.iceberg",
    "iceberg-open-api",
    "1.10.1",
    "09e6aef58984eaa58bf1e1bc5193ad023e929c6bfd38c82db7b83ffe825af724",
)
"""The REST catalog that Iceberg tests its own clients with, all in one jar (212 MB)."""


@dataclass
class Rest:
    """The server, which can be away for a while. Its tables stay: they are in a file."""

    java: Path
    jar: Path
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def spec(self) -> CatalogSpec:
        return CatalogSpec(name="prod", kind="rest", properties={"uri": f"http://127.0.0.1:{self.port}"})

    def start(self) -> None:
        given = {
            "CATALOG_URI": f"jdbc:sqlite:{self.folder / 'catalog.db'}",
            "CATALOG_WAREHOUSE": str(self.folder / "warehouse"),
            "CATALOG_CLIENTS": "1",
            "CATALOG_REST_PORT": str(self.port),
        }
        with (self.folder / "log").open("ab") as log:
            command = [str(self.java), "-Xmx256m", "-jar", str(self.jar)]
            self.process = subprocess.Popen(command, env=os.environ | given, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/config", timeout=5):
                    return
            except OSError:
                time.sleep(0.2)
        raise AssertionError((self.folder / "log").read_text()[-2000:])

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="module")
def rest(lake, jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rest]:
    there = provision(lake.home, lake.settings, jars=(SERVER,))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Rest(there.java.binary, there.jars[0], tmp_path_factory.mktemp("rest"), port)
    server.start()
    yield server
    server.stop()


@pytest.mark.anyio
@pytest.mark.requirement("LAKE-1", "LAKE-2")
async def test_a_rest_catalog_is_watched_also_when_it_was_away(rest: Rest, database_url: str) -> None:
    catalog = load_catalog("prod", type="rest", uri=rest.spec.properties["uri"])
    store = TellingStore(database_url)
    now = await store.now()
    fence = await store.register(role="scheduler", name="s", host="h", pid=1, now=now)
    watched = RestCatalog(rest.spec)
    watcher = Watcher(store, watched, LocalReader(), fence)
    watching = Watching(catalog, store, fence, now, rest.spec, [watcher])
    try:
        await watching.declare("prod.raw.flights", "prod.raw.later", "prod.none.at_all")
        assert await watching.told() == []
        catalog.create_namespace("raw")
        table = catalog.create_table("raw.flights", SCHEMA, partition_spec=BY_DAY)
        table.append(rows(("01", 1), ("02", 2)))
        [(kind, payload)] = await watching.told()
        assert (kind, payload["rows"]) == ("dataset.updated", 2)
        assert payload["partitions_added"] == ["day=01", "day=02"]
        assert await watching.told() == []

        rest.stop()
        outcome = await watching.pass_()
        assert "does not answer" in outcome.notes[0]
        assert len(await store.catalog_faults()) == 1
        await asyncio.to_thread(rest.start)
        table.append(rows(("02", 3)))
        watching.now += 60_000_000
        [(_, payload)] = await watching.told()
        assert (payload["partitions_added"], payload["partitions_changed"]) == ([], ["day=02"])
        assert list(await store.catalog_faults()) == []

        catalog.drop_table("raw.flights")
        assert await watching.told() == []
        assert {one.name: one.missing for one in await store.datasets()} == {
            "prod.none.at_all": True,
            "prod.raw.flights": True,
            "prod.raw.later": True,
        }
    finally:
        await watched.close()
        await store.close()


@pytest.mark.anyio
@pytest.mark.requirement("CARE-3", "LAKE-1")
async def test_a_rest_catalog_tells_every_table_that_it_has(rest: Rest) -> None:
    """Namespaces within namespaces too. One that is away says so; nothing counts as dropped for that."""
    catalog = load_catalog("prod", type="rest", uri=rest.spec.properties["uri"])
    for space in ("deep", "deep.er", "deep.er.still"):
        catalog.create_namespace(tuple(space.split(".")))
    made = [
        catalog.create_table((*space.split("."), f"t{number}"), SCHEMA)
        for number in range(2)
        for space in ("deep", "deep.er.still")
    ]
    catalog.create_table("deep.er.gone", SCHEMA)
    catalog.drop_table("deep.er.gone")
    watched = RestCatalog(rest.spec)
    try:
        found = {one.dataset: one.location for one in await watched.tables() if one.dataset.startswith("prod.deep.")}
        assert found == {f"prod.{'.'.join(one.name())}": one.metadata_location for one in made}
        rest.stop()
        with pytest.raises(Unavailable, match="'prod' does not answer"):
            await watched.tables()
        away = RestCatalog(rest.spec)
        with pytest.raises(Unavailable, match="'prod' does not answer"):
            await away.tables()
        await away.close()
    finally:
        await watched.close()
        await asyncio.to_thread(rest.start)


@pytest.mark.requirement("DATA-11")
def test_a_program_reads_its_input_from_a_rest_catalog(rest: Rest, lake, jars: Path) -> None:
    catalog = load_catalog("prod", type="rest", uri=rest.spec.properties["uri"])
    catalog.create_namespace_if_not_exists("raw")
    table = catalog.create_table("raw.input", SCHEMA)
    table.append(rows(("01", 1)))
    table.append(rows(("02", 2)))
    first, second = (one.snapshot_id for one in table.snapshots())
    there = type(lake)(lake.home, lake.url, jars)
    there.settings = replace(lake.settings, catalogs={"prod": {"type": "rest", **rest.spec.properties}})
    report, log = there.run(
        PySpark(entry=f"{PROGRAMS}:inputs", isolation="process"),
        inputs={"prod.raw.input": {"from_snapshot": first, "to_snapshot": second}},
    )
    assert report.outcome == "succeeded", log
    assert 'INPUTS [{"rows": [["02", 2]], "whole": 2' in log


@pytest.mark.anyio
@pytest.mark.requirement("LAKE-4")
async def test_a_spark_job_reads_watched_tables_as_they_are_read_one_by_one(lake) -> None:
    spec = DriverSpec(home=str(lake.home), catalog_url=lake.url, settings=lake.settings)
    catalog = iceberg_catalog(spec)
    catalog.create_namespace_if_not_exists("watched")
    orders = [Order(dataset="lake.watched.gone", location="file:///nowhere/1.metadata.json", place=ABSENT)]
    for number in range(6):
        table = catalog.create_table(f"watched.t{number}", SCHEMA, partition_spec=BY_DAY)
        for day in range(number):
            table.append(rows((f"0{day}", day), ("00", day)))
        first = table.snapshots()[0].snapshot_id if number else None
        place = (None, ABSENT, Place(table_uuid=str(table.metadata.table_uuid), snapshot=first, sequence=1))[number % 3]
        orders.append(Order(dataset=f"lake.watched.t{number}", location=table.metadata_location, place=place))
    catalog.engine.dispose()
    few = await LocalReader().read(orders)
    reader = ByNumber(LocalReader(), SparkReader(spec), 3)
    try:
        assert list(await reader.read(orders)) == list(few)
        assert sum(len(one.events) for one in few) == 1 + 1 + 4 + 4
        assert few[0].error
        assert list(await reader.read(orders[:5])) == list(few[:5])  # by the same process
    finally:
        await reader.close()


@pytest.mark.anyio
@pytest.mark.requirement("LAKE-4", "CARE-5")
async def test_a_spark_job_measures_tables_as_they_are_measured_one_by_one(lake) -> None:
    spec = DriverSpec(home=str(lake.home), catalog_url=lake.url, settings=lake.settings)
    catalog = iceberg_catalog(spec)
    catalog.create_namespace_if_not_exists("measured")
    orders = [SurveyOrder(table="lake.measured.gone", location="file:///nowhere/1.metadata.json", now=5)]
    for number in range(4):
        table = catalog.create_table(f"measured.t{number}", SCHEMA, partition_spec=BY_DAY)
        for day in range(number):
            table.append(rows((f"0{day}", day), ("00", day)))
        orders.append(SurveyOrder(table=f"lake.measured.t{number}", location=table.metadata_location, now=5))
    catalog.engine.dispose()
    few = await LocalSurveyor().survey(orders)
    surveyor = SparkSurveyor(spec)
    try:
        assert list(await surveyor.survey(orders)) == list(few)
    finally:
        await surveyor.close()
    assert few[0].error
    assert [one.health["data_files"] for one in few[1:] if one.health] == [0, 1, 3, 5]


@pytest.mark.anyio
async def test_a_spark_that_does_not_come_up_is_said(lake) -> None:
    wrong = replace(lake.settings, java_home="/nowhere")
    spec = DriverSpec(home=str(lake.home), catalog_url=lake.url, settings=wrong)
    reader = SparkReader(spec)
    with pytest.raises(Unavailable, match="nowhere"):
        await reader.read([Order(dataset="lake.watched.t", location="file:///x.metadata.json", place=ABSENT)])
    await reader.close()
