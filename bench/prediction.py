"""Predicted against real: by how much rewrites by Spark make the data files of two hundred tables fewer.

Each table is predicted by its metadata as the product does it, then rewritten by the statement that the product makes
of its options; what was there before and after is counted from the metadata.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.figures import Figure, Say, at_least, at_most, median
from bench.ground import ground
from bench.worked_lake import Worked, make
from tidegate.domain.instants import SECOND
from tidegate.domain.maintenance.operations import Operation
from tidegate.lake.assessing import open_table
from tidegate.lake.estimating import asked, plan
from tidegate.pipeline.provision import provision
from tidegate.pipeline.session import iceberg_catalog, open_session
from tidegate.ports.spark import DriverSpec, SparkSettings

NOW = 1_900_000_000 * SECOND
WITHIN = 0.05


@dataclass(frozen=True)
class Outcome:
    """`said` None: the prediction was that nobody knows."""

    table: Worked
    said: int | None
    real: int
    files: int
    seconds: float

    @property
    def near(self) -> bool:
        """Whether it was predicted within 5 % of what came of it."""
        return self.said is not None and abs(self.said - self.real) <= WITHIN * abs(self.real)


def measure(say: Say, tables: int = 200, seed: int = 11) -> list[Figure]:
    """Raises AssertionError when a rewrite lost or doubled rows."""
    with ground() as base, tempfile.TemporaryDirectory(prefix="tidegate-spark-") as folder:
        jars = os.environ.get("TIDEGATE_BENCH_JARS", "")
        conf = {"spark.sql.shuffle.partitions": "4"}
        settings = SparkSettings(jars_dir=jars, conf=conf, log_level="ERROR")
        spec = DriverSpec(home=str(base.home), catalog_url=base.server.tcp_url, settings=settings)
        session = open_session(spec, provision(base.home, settings), Path(folder))
        catalog = iceberg_catalog(spec)
        try:
            began = perf_counter()
            lake = list(make(catalog, session, tables, seed, progress=say))
            say(f"{tables} tables in {perf_counter() - began:.0f} s")
            with ThreadPoolExecutor(2) as pool:
                found = list(pool.map(lambda one: _rewritten(session, catalog, one), lake))
        finally:
            catalog.engine.dispose()
            session.stop()
    return _told(found, say)


def _rewritten(session: Any, catalog: Any, table: Worked) -> Outcome:
    arguments = {"table": table.path, "operation": "rewrite_data_files", "options": table.options}
    path, operation, options = asked(arguments)
    assert operation is Operation.REWRITE_DATA_FILES
    name = path.removeprefix("lake.")
    made = plan(path, operation, options, open_table(catalog.load_table(name).metadata_location, {}), keep=(), now=NOW)
    began = perf_counter()
    session.sql(made.statement).collect()
    seconds = perf_counter() - began
    after = plan(path, operation, options, open_table(catalog.load_table(name).metadata_location, {}), keep=(), now=NOW)
    before, left = made.health.data_files or 0, after.health.data_files or 0
    assert _live(made.health) >= (after.health.rows or 0), f"{path} has more rows than before"
    return Outcome(table, made.prediction.removes, before - left, before, seconds)


def _live(health: Any) -> int:
    return int(health.rows or 0)


def _told(found: list[Outcome], say: Say) -> list[Figure]:
    far = [one for one in found if not one.near]
    for one in far:
        say(
            f"{one.table.path} ({one.table.shape}, {one.table.options}): {one.files} files, said {one.said}, {one.real}"
        )
    shapes = Counter(one.table.shape for one in found)
    missed = Counter(one.table.shape for one in far)
    say(", ".join(f"{shape} {count - missed[shape]} of {count}" for shape, count in shapes.items()))
    errors = sorted(abs(one.said - one.real) / max(1, abs(one.real)) for one in found if one.said is not None)
    files, removed = sum(one.files for one in found), sum(one.real for one in found)
    said = sum(one.said or 0 for one in found)
    noop = [one for one in found if one.said == 0]
    say(f"predicted to do nothing: {len(noop)}, of which {sum(one.real != 0 for one in noop)} did something")
    how = f"{len(found)} tables of {files:,} files, of which Spark's rewrites removed {removed:,}; {len(shapes)} shapes"
    return [
        at_least("predicted within 5 %", 100 * (1 - len(far) / len(found)), "% of tables", 95, how),
        at_most("file reduction, all tables", 100 * abs(said - removed) / max(1, removed), "% off", None, how),
        at_most("median error", 100 * median(errors), "%", None, how),
    ]
