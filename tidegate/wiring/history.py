"""Archives of history, written by a Spark session of this process."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path

from tidegate import history
from tidegate.domain.history import TABLES
from tidegate.pipeline.provision import provision
from tidegate.pipeline.session import open_session
from tidegate.ports.spark import DriverSpec
from tidegate.settings import Settings
from tidegate.store import home as homes
from tidegate.wiring.lake import catalog_url, spark_settings


def archive_history(
    settings: Settings, url: str, to: str, *, tables: Sequence[str] = (), first: date | None, last: date | None
) -> list[history.Archived]:
    """`history.archive` from a database, by the settings' Spark. Raises Refused, Unavailable; what is wrong with the
    words is said before Spark is started."""
    history.check(to, tables, first, last)
    home = homes.prepare(settings.home)
    spec = DriverSpec(home=str(home), catalog_url=catalog_url(url), settings=spark_settings(settings))
    provisioned = provision(home, spec.settings)
    folder = Path(tempfile.mkdtemp(prefix="spark-", dir=home))
    os.environ["TIDEGATE_HISTORY_URL"] = catalog_url(url)  # where Spark's Python processes look for it
    try:
        spark = open_session(spec, provisioned, folder)
        spark.sparkContext.setLogLevel("ERROR")  # else Spark tells of each folder that is not there yet, at length
        try:
            return history.archive(spark, to, tables=tables or TABLES, first=first, last=last, url=catalog_url(url))
        finally:
            with suppress(Exception):
                spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
