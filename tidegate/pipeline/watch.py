"""Reads many changed tables at once, as a PySpark job: one row is one table, read where the row lies.

    python -m tidegate.pipeline.watch

The watcher asks a helper (`pipeline.helper`) for this when more tables changed than it reads by itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tidegate.domain.lake import Place
from tidegate.pipeline.helper import IDLE, Helper, serve
from tidegate.ports.lake import News, Order
from tidegate.ports.spark import DriverSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_ROWS_A_TASK = 50


def _read(spark: SparkSession, lines: Sequence[str]) -> list[str]:
    tasks = max(1, min(spark.sparkContext.defaultParallelism * 4, len(lines) // _ROWS_A_TASK))
    frame = spark.createDataFrame(list(enumerate(lines)), "number long, line string").repartition(tasks)
    found = frame.mapInArrow(_read_batches, "number long, line string").collect()
    return [row.line for row in sorted(found, key=lambda row: row.number)]


def _read_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from tidegate.lake.reading import read

    for batch in batches:
        lines = [json.dumps(asdict(read(order_of(json.loads(one.as_py()))))) for one in batch.column(1)]
        yield pa.RecordBatch.from_arrays([batch.column(0), pa.array(lines, pa.string())], names=["number", "line"])


def order_of(given: dict[str, Any]) -> Order:
    place = given["place"]
    return Order(**{**given, "place": None if place is None else Place(**place)})


def news_of(given: dict[str, Any]) -> News:
    events = tuple((kind, payload) for kind, payload in given["events"])
    return News(**{**given, "place": Place(**given["place"]), "events": events})


class SparkReader:
    """`ports.lake.Reader` in a process of its own."""

    def __init__(self, spec: DriverSpec, *, idle: float = IDLE, patience: float = 600) -> None:
        what = "Changed tables could not be read"
        self._helper = Helper(spec, "tidegate.pipeline.watch", what, idle=idle, patience=patience)

    async def read(self, orders: Sequence[Order]) -> Sequence[News]:
        """Raises Unavailable when Spark does not come up or does not answer."""
        done = await self._helper.ask([json.dumps(asdict(order)) for order in orders])
        return [news_of(json.loads(line)) for line in done]

    async def close(self) -> None:
        """End the process and its JVM."""
        await self._helper.close()


if __name__ == "__main__":
    sys.exit(serve(_read))
