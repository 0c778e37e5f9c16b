"""The health of ten thousand tables: all of them measured on Spark, and one in a hundred that changed."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from bench.figures import Figure, Say, at_most, median
from bench.generated_lake import COMMITS, generate
from bench.ground import cpu_of, ground
from tidegate.domain.instants import SECOND
from tidegate.lake.surveying import LocalSurveyor
from tidegate.pipeline.assess import SparkSurveyor
from tidegate.ports.spark import DriverSpec, SparkSettings
from tidegate.ports.tables import Survey, SurveyOrder

ROUNDS = 3
NOW = 1_900_000_000 * SECOND


def measure(say: Say, tables: int = 10_000, changed: int = 100) -> list[Figure]:
    """Raises AssertionError when a table could not be measured, or was measured wrongly."""
    with ground() as base, tempfile.TemporaryDirectory(prefix="tidegate-lake-") as folder:
        say(f"{tables:,} tables of {COMMITS} manifests are generated")
        lake = generate(Path(folder), tables, changed)
        jars = os.environ.get("TIDEGATE_BENCH_JARS", "")
        spec = DriverSpec(home=str(base.home), catalog_url=base.server.tcp_url, settings=SparkSettings(jars_dir=jars))
        full, cpu, told = asyncio.run(_measure(spec, lake.first, lake.second, say))
    how = f"after the session is up; {COMMITS} manifests each, none remembered"
    few = f"median; {changed} tables in the scheduler's process, one manifest of nine is new"
    return [
        at_most(f"health of {tables:,} tables, measured on Spark", full, "s", 60, how),
        at_most("the same, processor time", cpu, "s", None, f"{how}; Spark's processes together"),
        at_most(f"{changed} of {tables:,} tables changed, measured", told, "s", 2, few),
    ]


async def _measure(spec: DriverSpec, first: list[str], second: list[str], say: Say) -> tuple[float, float, float]:
    surveyor = SparkSurveyor(spec)
    try:
        _check(await surveyor.survey(_orders(first[:10])), COMMITS)  # the session comes up
        process = surveyor._helper._process
        assert process is not None
        before, began = cpu_of(process.pid), perf_counter()
        found = await surveyor.survey(_orders(first))
        full, cpu = perf_counter() - began, cpu_of(process.pid) - before
        _check(found, COMMITS)
        say(f"all in {full:.1f} s, of which {cpu:.1f} s of processor time")
    finally:
        await surveyor.close()
    local = LocalSurveyor()
    part = max(1, len(second) // ROUNDS)
    _check(await local.survey(_orders(first[: len(second)])), COMMITS)
    took = []
    for number in range(ROUNDS):
        orders = _orders(second[number * part : (number + 1) * part])
        began = perf_counter()
        _check(await local.survey(orders), COMMITS + 1)
        took.append((perf_counter() - began) / len(orders) * len(second))
        say(f"{len(second)} changed in {took[-1]:.2f} s")
    return full, cpu, median(took)


def _orders(locations: Sequence[str]) -> list[SurveyOrder]:
    return [SurveyOrder(table=f"lake.raw.t{at}", location=one, now=NOW) for at, one in enumerate(locations)]


def _check(found: Sequence[Survey], manifests: int) -> None:
    for one in found:
        assert not one.error and one.health is not None, one.error
        assert one.health["manifests"] == manifests and one.health["data_files"] >= manifests
