"""A Spark session in a process of its own, for work of the scheduler's that is too much for one process.

    python -m tidegate.pipeline.watch        (or another module that calls `serve`)

The scheduler starts it when there is that much to do, hands it, by lines on standard input, what sessions are built
from and then files of work, one line for each piece, and keeps it for a while, since a JVM takes seconds to come up.
It runs wherever the sessions of programs run (`spark.master`); the workers there need tidegate and PyIceberg installed,
as PySpark programs do that import them. It ends when its input does, so it never outlives the scheduler.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.domain.errors import Unavailable
from tidegate.domain.instants import MINUTE, SECOND
from tidegate.pipeline.provision import provision
from tidegate.pipeline.session import open_session
from tidegate.ports.spark import DriverSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IDLE = 10 * MINUTE / SECOND
"""Seconds that the process is kept without work."""


class Helper:
    """The scheduler's end of it. `what` names the work in a fault, as in "Changed tables could not be read"."""

    def __init__(self, spec: DriverSpec, module: str, what: str, *, idle: float = IDLE, patience: float = 600) -> None:
        self._spec, self._module, self._what = spec, module, what
        self._idle, self._patience = idle, patience
        self._process: asyncio.subprocess.Process | None = None
        self._resting: asyncio.TimerHandle | None = None

    async def ask(self, lines: Sequence[str]) -> list[str]:
        """A line of answer for each line. Raises Unavailable when Spark does not come up or does not answer."""
        if self._resting is not None:
            self._resting.cancel()
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="tidegate-spark-"))
        try:
            return await asyncio.wait_for(self._ask(lines, folder), self._patience)
        except (TimeoutError, OSError, ValueError) as fault:
            await self.close()
            raise Unavailable(f"{self._what} on Spark: {fault!r}", code="lake.spark") from fault
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            self._resting = asyncio.get_running_loop().call_later(self._idle, self._end)

    async def _ask(self, lines: Sequence[str], folder: Path) -> list[str]:
        process = self._process
        if process is None or process.stdin is None or process.stdin.is_closing() or process.returncode is not None:
            await self.close()
            self._process = process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", self._module),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            assert process.stdin is not None
            process.stdin.write(f"{self._spec.dump()}\n".encode())
        assert process.stdout is not None
        work = folder / "work"  # a file of ours alone: properties may hold secrets
        work.write_text("\n".join(lines))
        process.stdin.write(f"{work}\n".encode())
        await process.stdin.drain()
        answer = json.loads(await process.stdout.readline() or b'{"error": "the process ended"}')
        if "error" in answer:
            raise ValueError(answer["error"])
        return work.with_suffix(".done").read_text().splitlines()

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


def serve(work: Callable[[SparkSession, list[str]], list[str]]) -> int:
    """The process's end of it, until its input ends."""
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
                done = work(spark, asked.read_text().splitlines())
                asked.with_suffix(".done").write_text("\n".join(done))
                answer: dict[str, Any] = {"done": len(done)}
            except Exception as fault:
                answer = {"error": f"{type(fault).__name__}: {str(fault)[:500]}"}
            print(json.dumps(answer), file=answers, flush=True)
    finally:
        if spark is not None:
            with suppress(Exception):
                spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 0
