"""Reads many changed tables at once, as a PySpark job: one row is one table, read where the row lies.

    python -m tidegate.pipeline.watch

The watcher starts this process when more tables changed than it reads by itself, hands it, by lines on standard input,
what sessions are built from and then files of orders, and keeps it for a while, since a JVM takes seconds to come up.
It runs wherever the sessions of
programs run (`spark.master`); the workers there need tidegate and PyIceberg installed, as PySpark programs do that
import them. It ends when its input does, so it never outlives the watcher.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.domain.errors import Unavailable
from tidegate.domain.instants import MINUTE, SECOND
from tidegate.domain.lake import Place
from tidegate.pipeline.provision import provision
from tidegate.pipeline.session import open_session
from tidegate.ports.lake import News, Order
from tidegate.ports.spark import DriverSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

IDLE = 10 * MINUTE / SECOND
"""Seconds that the process is kept without work."""
_ROWS_A_TASK = 50


def read_on_spark(spark: SparkSession, orders: Sequence[Order]) -> list[News]:
    """The same as reading them one by one, by the executors of this session."""
    rows = [(number, json.dumps(asdict(order))) for number, order in enumerate(orders)]
    tasks = max(1, min(spark.sparkContext.defaultParallelism * 4, len(rows) // _ROWS_A_TASK))
    frame = spark.createDataFrame(rows, "number long, line string").repartition(tasks)
    found = frame.mapInArrow(_read_batches, "number long, line string").collect()
    return [news_of(json.loads(row.line)) for row in sorted(found, key=lambda row: row.number)]


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
        self._spec = spec
        self._idle, self._patience = idle, patience
        self._process: asyncio.subprocess.Process | None = None
        self._resting: asyncio.TimerHandle | None = None

    async def read(self, orders: Sequence[Order]) -> Sequence[News]:
        """Raises Unavailable when Spark does not come up or does not answer."""
        if self._resting is not None:
            self._resting.cancel()
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="tidegate-watch-"))
        try:
            return await asyncio.wait_for(self._ask(orders, folder), self._patience)
        except (TimeoutError, OSError, ValueError) as fault:
            await self.close()
            raise Unavailable(f"Changed tables could not be read on Spark: {fault!r}", code="lake.spark") from fault
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            self._resting = asyncio.get_running_loop().call_later(self._idle, self._end)

    async def _ask(self, orders: Sequence[Order], folder: Path) -> list[News]:
        process = self._process
        if process is None or process.stdin is None or process.stdin.is_closing() or process.returncode is not None:
            await self.close()
            self._process = process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tidegate.pipeline.watch"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            assert process.stdin is not None
            process.stdin.write(f"{self._spec.dump()}\n".encode())
        assert process.stdout is not None
        asked = folder / "orders"  # a file of ours alone: properties may hold secrets
        asked.write_text("\n".join(json.dumps(asdict(order)) for order in orders))
        process.stdin.write(f"{asked}\n".encode())
        await process.stdin.drain()
        answer = json.loads(await process.stdout.readline() or b'{"error": "the process ended"}')
        if "error" in answer:
            raise ValueError(answer["error"])
        return [news_of(json.loads(line)) for line in (folder / "orders.news").read_text().splitlines()]

    def _end(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def close(self) -> None:
        """End the process and its JVM."""
        if self._resting is not None:
            self._resting.cancel()
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def main() -> int:
    spec = DriverSpec.load(sys.stdin.readline())
    folder = Path(tempfile.mkdtemp(prefix="spark-", dir=spec.home))
    spark: SparkSession | None = None
    answers, sys.stdout = sys.stdout, sys.stderr
    try:
        for line in sys.stdin:
            asked = Path(line.strip())
            try:
                if spark is None:
                    provisioned = provision(Path(spec.home), spec.settings)
                    spark = open_session(spec, provisioned, folder)
                orders = [order_of(json.loads(one)) for one in asked.read_text().splitlines()]
                news = read_on_spark(spark, orders)
                asked.with_suffix(".news").write_text("\n".join(json.dumps(asdict(one)) for one in news))
                answer: dict[str, Any] = {"read": len(news)}
            except Exception as fault:
                answer = {"error": f"{type(fault).__name__}: {str(fault)[:500]}"}
            print(json.dumps(answer), file=answers, flush=True)
    finally:
        if spark is not None:
            with suppress(Exception):
                spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
