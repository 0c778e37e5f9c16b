"""One attempt of a SQL program: its statements, one after the other, in a session of its own.

Used by warm drivers (a thread of the driver, `newSession`) and by processes of their own. The end is written beside
the attempt's log before anybody is told, so that whoever comes later reads it there.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.domain.errors import TidegateError
from tidegate.pipeline.committed import Commit, find_commits
from tidegate.pipeline.stamps import SESSION_PREFIX, STEP, Stamp, stamp_thread
from tidegate.pipeline.statements import Door, Statement, fill, split
from tidegate.pipeline.told import message_of, trace_of
from tidegate.ports.spark import DriverSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN_ROWS = 20
"""So many rows of a result stand in the log."""
CANCEL_EVERY = 0.1
"""Seconds between two requests to cancel: one may come before the next job has begun."""


@dataclass(frozen=True, slots=True)
class SqlOrder:
    """What is to be run. `since`: no earlier attempt of the run can have committed before this instant."""

    stamp: Stamp
    directory: Path
    sql: str
    conf: Mapping[str, str]
    arguments: Mapping[str, Any]
    since: int
    kind: str = "spark_sql"

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> SqlOrder:
        return cls(
            stamp=Stamp.of(given["identity"], int(given["fence"])),
            directory=Path(given["directory"]),
            sql=given["sql"] or "",
            conf=given.get("conf") or {},
            arguments=given.get("arguments") or {},
            since=int(given["since"]),
            kind=given.get("kind", "spark_sql"),
        )


class Cancelled(Exception):
    """Somebody asked this attempt to end."""


class AttemptLog:
    """Appends lines to the attempt's log."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def __call__(self, text: str) -> None:
        with suppress(OSError):  # a full disk must not turn a finished program into a failed one
            os.write(self._descriptor, (text.rstrip("\n") + "\n").encode())

    def close(self) -> None:
        os.close(self._descriptor)


class SqlAttempt:
    """Runs in the thread that calls `run`; `cancel` comes from another."""

    def __init__(self, order: SqlOrder, spec: DriverSpec, log: Callable[[str], None]) -> None:
        self.order = order
        self.spec = spec
        self.log = log
        self.tag = f"tidegate-{order.stamp.attempt.identity}"
        self._cancelled = threading.Event()
        self._over = threading.Event()

    def run(self, session: SparkSession, *, own_jvm: bool = False) -> dict[str, Any]:
        """The verdict: `{outcome, error}`. Never raises for a fault of the program."""
        try:
            note = self._run(session, own_jvm)
            return {"outcome": "succeeded", "error": note}
        except Exception as fault:
            if self._cancelled.is_set():
                self.log("cancelled")
                note = {"code": "cancelled", "message": "It was asked to end."}
                return {"outcome": "cancelled", "error": note | self._also(fault)}
            error = self._error(fault) | self._also(fault)
            self.log(f"{error['code']}: {error['message']}")
            if trace := trace_of(fault):
                self.log(trace)
            return {"outcome": "failed", "error": error}
        finally:
            self._over.set()

    def cancel(self, context: Any) -> None:
        """Cancel its jobs by their tag, again and again until it has ended. Safe to repeat; does not wait."""
        if self._cancelled.is_set():
            return
        self._cancelled.set()
        threading.Thread(target=self._keep_cancelling, args=(context,), daemon=True).start()

    def _keep_cancelling(self, context: Any) -> None:
        while not self._over.is_set():
            with suppress(Exception):  # the driver may be going down, which ends the jobs too
                context.cancelJobsWithTag(self.tag)
            self._over.wait(CANCEL_EVERY)

    def _run(self, session: SparkSession, own_jvm: bool) -> dict[str, Any] | None:
        statements = split(fill(self.order.sql, self.order.arguments))
        self._refuse_unstampable(statements, own_jvm)
        done = self._committed(statements)
        if done and all(step in done for step, one in enumerate(statements, 1) if one.writes):
            return already_committed(done.values(), self.log)
        context = session.sparkContext
        context.addJobTag(self.tag)
        for name, value in self.order.conf.items():
            session.conf.set(name, str(value))
        for step, statement in enumerate(statements, 1):
            self._check_cancelled()
            if step in done:
                self.log(f"[{step}/{len(statements)}] already committed in {done[step]}: passed over")
                continue
            self._mark(session, step, own_jvm)
            self._execute(session, statement, f"[{step}/{len(statements)}]")
        # A cancelled procedure can return as if nothing had happened: our own flag decides.
        self._check_cancelled()
        return None

    def _error(self, fault: BaseException) -> dict[str, Any]:
        return error_of(fault)

    def _also(self, fault: BaseException) -> dict[str, Any]:
        """What else there is to say of an attempt that was cancelled or failed."""
        return {}

    def _execute(self, session: SparkSession, statement: Statement, label: str) -> None:
        self.log(f"{label} {statement.title}")
        begun = time.monotonic()
        result = session.sql(statement.text)
        if table := _shown(result):
            self.log(table)
        self.log(f"{label} done in {time.monotonic() - begun:.2f} s")

    def _mark(self, session: SparkSession, step: int, own_jvm: bool) -> None:
        jvm = session.sparkContext._jvm
        if own_jvm:
            jvm.org.apache.iceberg.EnvironmentContext.put(STEP, str(step))
            return
        if step == 1:
            for name, value in self.order.stamp.session_stamp().items():
                session.conf.set(name, value)
        session.conf.set(SESSION_PREFIX + STEP, str(step))
        stamp_thread(jvm, self.order.stamp.properties(step))

    def _committed(self, statements: Sequence[Statement]) -> dict[int, Commit]:
        if self.order.stamp.attempt.number < 2 or not any(one.writes for one in statements):
            return {}
        commits = find_commits(self.spec, self.order.stamp.attempt, since=self.order.since)
        return {commit.step or 1: commit for commit in commits}

    def _refuse_unstampable(self, statements: Sequence[Statement], own_jvm: bool) -> None:
        if not own_jvm and any(one.door is Door.OWN_JVM for one in statements):
            raise TidegateError(
                "CALL needs a JVM of its own, so that what it commits carries the run's key.",
                remedy="Set isolation: process.",
                code="spark.isolation",
            )

    def _check_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled


def already_committed(commits: Any, log: Callable[[str], None]) -> dict[str, Any]:
    """The note of an attempt that need not run."""
    named = ", ".join(str(commit) for commit in commits)
    message = f"already committed in {named}; the program was not run again"
    log(message)
    return {"code": "spark.already_committed", "message": message}


def error_of(fault: BaseException) -> dict[str, Any]:
    """An exception as `{code, message}`, short enough to read in a table; the trace of Java is not in it."""
    if isinstance(fault, TidegateError):
        return {"code": fault.code, "message": str(fault)}
    return {"code": "program.error", "message": message_of(fault)}


def _shown(result: DataFrame) -> str:
    """A result as a small table, "" when the statement has none. This is what runs a SELECT."""
    if not result.columns:
        return ""
    return str(result._jdf.showString(SHOWN_ROWS, 60, False))
