"""The process of one attempt: a PySpark program, or a SQL program that needs a JVM of its own.

    python -m tidegate.pipeline.child ORDER

It runs under the shim that every process of Tidegate runs under, so it outlives the worker and its end is known. With
`isolation: shared` it speaks Spark Connect to a warm driver and waits while that one is coming up; with `process` it
starts a JVM, which ends with it. Beside its exit status it leaves `verdict.json`, where it can say more.

What if the driver dies: this process ends at once and says so; the run is crashed. What if it is told to stop: Spark's
jobs are cancelled, and `TidegateCancelled` is raised in the program, so that its `finally` runs.

A run that was tried before is not run again when one of its commits is found in the lake. What is not prevented: an
earlier attempt on another machine, frozen between its last check and its commit, can still commit when it wakes up.
Its snapshot then carries its own attempt number and fence, which are smaller than those of the attempt after it.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tidegate.domain.errors import Fenced, TidegateError
from tidegate.domain.instants import SECOND
from tidegate.pipeline.entry import call, load
from tidegate.pipeline.files import write_whole
from tidegate.pipeline.stamps import Stamp
from tidegate.pipeline.told import message_of
from tidegate.pipeline.wire import Caller
from tidegate.ports.spark import PROGRESS, VERDICT, DriverSpec
from tidegate.sdk.run import Cancellation, Run, TidegateCancelled

CONNECT_WITHIN = 60.0
"""Seconds for the first answer of a driver that is up; a wrong address hangs in gRPC for ever."""
CRASHED = 70
STOPPED = 143


class Attempt:
    """One attempt in this process, from its order to its verdict."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self.order = order
        self.directory = Path(order["directory"])
        self.stamp = Stamp.of(order["identity"], int(order["fence"]))
        self.cancellation = Cancellation()
        self.on_cancel: Callable[[], None] = lambda: None
        self.over = threading.Event()
        self._spark: Any = None
        self._release: Callable[[], None] = lambda: None
        self._scratch: Path | None = None
        signal.signal(signal.SIGTERM, self._asked_to_end)

    def run(self) -> int:
        """Run it; the exit status."""
        try:
            work = self._sql if self.order["kind"] == "spark_sql" else self._pyspark
            note = work(self._spec())
            return self._end(0, "succeeded", note)
        except TidegateCancelled:
            print("cancelled", file=sys.stderr)
            return self._end(STOPPED, "cancelled", {"code": "cancelled", "message": "It was asked to end."})
        except SystemExit as asked:
            return self._exited(asked.code)
        except BaseException as fault:
            if self.cancellation.requested:
                return self._end(STOPPED, "cancelled", {"code": "cancelled", "message": "It was asked to end."})
            return self._failed(fault)
        finally:
            self.over.set()
            self._release()
            self._end_jvm()

    def _pyspark(self, spec: DriverSpec) -> dict[str, Any] | None:
        shared = self.order["isolation"] == "shared"
        attach = self._remote if self.order.get("remote") else self._attach if shared else self._own_session
        spark_or_note = attach(spec)
        if isinstance(spark_or_note, dict):
            return spark_or_note
        self._check_not_taken_over()
        run = Run.from_context(os.environ["TIDEGATE_CONTEXT"], self.cancellation)
        program = load(self.order["entry"])
        self._running()
        call(program, run=run, spark=spark_or_note, arguments=self.order["arguments"])
        if self.cancellation.requested:
            raise TidegateCancelled
        return None

    # ── shared: over Connect to a warm driver ───────────────────────────────────────────────────────────────────────

    def _attach(self, spec: DriverSpec) -> Any:
        """The session; or the note of an attempt that need not run."""
        driver = Caller(self.order["socket"], self._driver_died)

        def cancel() -> None:
            driver.call("stop", wait=False, identity=self.order["identity"])

        self.on_cancel = cancel
        preload = threading.Thread(target=_import_connect, daemon=True)
        preload.start()
        answer = driver.call(
            "attach",
            identity=self.order["identity"],
            fence=self.stamp.fence,
            since=self.order["since"],
            conf=self.order["conf"],
            timeout=spec.settings.start_timeout / SECOND + 10,
        )
        if not answer["ok"]:
            raise _Lost(answer["message"], code=answer["code"])
        if committed := answer.get("committed"):
            return self._already(committed)
        preload.join()
        watchdog = threading.Timer(CONNECT_WITHIN, self._no_answer)
        watchdog.daemon = True
        watchdog.start()
        address = (
            f"sc://localhost:{answer['port']}/;token={answer['token']};"
            f"session_id={answer['session']};user_id={answer['user']}"
        )
        # For programs that build their session themselves: getOrCreate gives them this one.
        os.environ |= {"SPARK_REMOTE": address, "SPARK_CONNECT_MODE_ENABLED": "1"}
        from pyspark.sql.connect.session import SparkSession

        from tidegate.pipeline.guard import install

        install(driver)
        spark = SparkSession.builder.remote(address).getOrCreate()
        spark.addTag(f"tidegate-{self.order['identity']}")
        watchdog.cancel()
        return spark

    # ── elsewhere: over Connect to a server of somebody else's ──────────────────────────────────────────────────────

    def _remote(self, spec: DriverSpec) -> Any:
        """A session at the server that the program names."""
        from tidegate.pipeline.remote import keep_interrupting, open_remote, release

        watchdog = threading.Timer(CONNECT_WITHIN, self._no_answer)
        watchdog.daemon = True
        watchdog.start()
        try:
            spark = open_remote(self.order, self.stamp)
        except TidegateError:
            raise
        except Exception as fault:
            raise _Lost(f"The Spark Connect server cannot be reached: {fault}"[:1000], code="spark.connect") from fault
        finally:
            watchdog.cancel()
        self.on_cancel = lambda: keep_interrupting(spark, self.over)
        self._release = lambda: release(spark)
        return spark

    def _driver_died(self) -> None:
        if self.over.is_set() or self.cancellation.requested:
            return
        print("tidegate: the Spark driver died; this attempt ends with it", file=sys.stderr, flush=True)
        self._write("crashed", {"code": "spark.driver_died", "message": "The Spark driver that served it died."})
        os._exit(CRASHED)

    def _no_answer(self) -> None:
        self._write(
            "lost", {"code": "spark.connect", "message": f"The driver gave no answer in {CONNECT_WITHIN:.0f} s."}
        )
        os._exit(CRASHED)

    # ── process: a JVM of its own ───────────────────────────────────────────────────────────────────────────────────

    def _own_session(self, spec: DriverSpec) -> Any:
        """A session in a JVM of its own, which stamps all that it commits; or the note of one that need not run."""
        from tidegate.pipeline.committed import find_commits
        from tidegate.pipeline.stamps import stamp_jvm

        if self.stamp.attempt.number > 1 and self.order["kind"] == "pyspark":
            commits = find_commits(spec, self.stamp.attempt, since=int(self.order["since"]))
            if commits:
                return self._already([str(commit) for commit in commits])
        try:
            spark = self._start_jvm(spec)
        except TidegateError as fault:
            raise _Lost(str(fault), code=fault.code) from fault
        stamp_jvm(spark.sparkContext._jvm, self.stamp.properties())
        context = spark.sparkContext

        def cancel() -> None:
            while not self.over.wait(0.1):
                with suppress(Exception):
                    context.cancelAllJobs()

        self.on_cancel = cancel
        return spark

    def _start_jvm(self, spec: DriverSpec) -> Any:
        from tidegate.pipeline.provision import provision
        from tidegate.pipeline.session import open_session

        provisioned = provision(Path(spec.home), spec.settings, progress=lambda line: print(line, file=sys.stderr))
        folder = self._scratch = Path(tempfile.mkdtemp(prefix="spark-", dir=self.directory))
        conf = {name: str(value) for name, value in self.order["conf"].items()}
        self._spark = open_session(spec, provisioned, folder, extra=conf)
        return self._spark

    def _end_jvm(self) -> None:
        if self._spark is not None:
            with suppress(Exception):
                self._spark.stop()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _sql(self, spec: DriverSpec) -> dict[str, Any] | None:
        from tidegate.pipeline.sql_attempt import SqlAttempt, SqlOrder

        spark = self._own_session(spec)
        attempt = SqlAttempt(SqlOrder.from_json(self.order), spec, lambda text: print(text, flush=True))
        self.on_cancel = lambda: attempt.cancel(spark.sparkContext)
        self._check_not_taken_over()
        self._running()
        verdict = attempt.run(spark, own_jvm=True)
        match verdict["outcome"]:
            case "succeeded":
                return verdict["error"]  # type: ignore[no-any-return]
            case "cancelled":
                raise TidegateCancelled
            case _:
                raise _Said(verdict["error"])

    # ── how it goes and ends ────────────────────────────────────────────────────────────────────────────────────────

    def _asked_to_end(self, *_: Any) -> None:
        if self.cancellation.requested or self.over.is_set():
            return
        self.cancellation.requested = True
        # In a thread: it may talk to Spark, and this is the middle of whatever the program is doing.
        threading.Thread(target=self.on_cancel, daemon=True).start()
        raise TidegateCancelled

    def _check_not_taken_over(self) -> None:
        if Path(self.order["next"]).exists():
            raise Fenced("A later attempt of this run has begun; this one must not commit any more.")

    def _already(self, committed: list[str]) -> dict[str, Any]:
        message = f"already committed in {', '.join(committed)}; the program was not run again"
        print(message, flush=True)
        return {"code": "spark.already_committed", "message": message}

    def _running(self) -> None:
        with suppress(OSError):
            (self.directory / PROGRESS).write_text('{"phase": "running"}')

    def _spec(self) -> DriverSpec:
        return DriverSpec.load(Path(self.order["spec"]).read_text())

    def _exited(self, code: Any) -> int:
        """A script's own exit."""
        if code is None or code == 0:
            return self._end(0, "succeeded", None)
        if not isinstance(code, int):
            print(code, file=sys.stderr)
        status = code if isinstance(code, int) else 1
        error = {"code": "program.exit", "message": f"It ended with exit status {status}.", "exit_status": status}
        return self._end(status, "failed", error)

    def _failed(self, fault: BaseException) -> int:
        match fault:
            case _Lost():
                print(f"tidegate: {fault}", file=sys.stderr)
                return self._end(CRASHED, "lost", {"code": fault.code, "message": str(fault)})
            case _Said():
                return self._end(1, "failed", fault.error)
            case TidegateError():
                print(f"{fault.code}: {fault}", file=sys.stderr)
                return self._end(1, "failed", {"code": fault.code, "message": str(fault)})
            case _:
                traceback.print_exception(fault)
                return self._end(1, "failed", {"code": "program.error", "message": message_of(fault)[:2000]})

    def _end(self, status: int, outcome: str, error: Mapping[str, Any] | None) -> int:
        self.over.set()
        self._write(outcome, error)
        return status

    def _write(self, outcome: str, error: Mapping[str, Any] | None) -> None:
        """What more there is to say than an exit status. A full disk leaves only that."""
        with suppress(OSError):
            write_whole(self.directory / VERDICT, json.dumps({"outcome": outcome, "error": error}))


class _Lost(TidegateError):
    """Not the program's doing: there was no Spark for it."""


class _Said(Exception):
    """A failure that is told in full already."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(error["message"])
        self.error = error


def _import_connect() -> None:
    """The slow imports, while the driver prepares the session."""
    import pyspark.sql.connect.session  # noqa: F401


def main() -> int:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s", stream=sys.stderr)
    logging.getLogger("tidegate.run").setLevel(logging.INFO)
    attempt = Attempt(json.loads(Path(sys.argv[1]).read_text()))
    status = attempt.run()
    with suppress(OSError):
        sys.stdout.flush()
    return status


if __name__ == "__main__":
    sys.exit(main())
