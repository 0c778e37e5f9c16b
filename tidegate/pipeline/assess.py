"""Measures many tables at once, as a PySpark job: one row is one table, measured where the row lies (LAKE-4).

    python -m tidegate.pipeline.assess

The scheduler asks a helper (`pipeline.helper`) for this when more tables are to be measured than it does by itself.
What was read of manifests is remembered in the scheduler's process, where the few tables that changed are measured; a
job's workers remember it as long as Spark keeps them, which nobody should count on.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from tidegate.pipeline.helper import IDLE, Helper, serve
from tidegate.ports.spark import DriverSpec
from tidegate.ports.tables import Survey, SurveyOrder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_ROWS_A_TASK = 50
_TASKS_A_CORE = 8
"""Tables are of very different sizes: with more tasks than cores nobody waits for the last one for long."""


def _survey(spark: SparkSession, lines: Sequence[str]) -> list[str]:
    tasks = max(1, min(spark.sparkContext.defaultParallelism * _TASKS_A_CORE, len(lines) // _ROWS_A_TASK))
    frame = spark.createDataFrame(list(enumerate(lines)), "number long, line string").repartition(tasks, "number")
    found = frame.mapInArrow(_survey_batches, "number long, line string").collect()
    return [row.line for row in sorted(found, key=lambda row: row.number)]


def _survey_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from tidegate.lake.surveying import survey_all

    for batch in batches:
        orders = [SurveyOrder(**json.loads(one.as_py())) for one in batch.column(1)]
        lines = [json.dumps(asdict(one)) for one in survey_all(orders)]
        yield pa.RecordBatch.from_arrays([batch.column(0), pa.array(lines, pa.string())], names=["number", "line"])


class SparkSurveyor:
    """`ports.tables.Surveyor` in a process of its own."""

    def __init__(self, spec: DriverSpec, *, idle: float = IDLE, patience: float = 600) -> None:
        what = "Tables could not be measured"
        self._helper = Helper(spec, "tidegate.pipeline.assess", what, idle=idle, patience=patience)

    async def survey(self, orders: Sequence[SurveyOrder]) -> Sequence[Survey]:
        """Raises Unavailable when Spark does not come up or does not answer."""
        done = await self._helper.ask([json.dumps(asdict(order)) for order in orders])
        return [Survey(**json.loads(line)) for line in done]

    async def close(self) -> None:
        """End the process and its JVM."""
        await self._helper.close()


if __name__ == "__main__":
    sys.exit(serve(_survey))
