"""A warm driver: a Spark session that is up before it is needed, in a process that outlives the worker.

    python -m tidegate.pipeline.driver FOLDER --spec FILE --listen FD

Who owns what. A worker starts it, with the listening socket already made, so that everybody can connect at once and
wait; from then on it belongs to nobody. SQL attempts run in it, each in a thread and session of its own. PySpark
attempts are children of their own that speak Spark Connect to it; each holds a connection to the driver's socket as
long as it lives. It ends when it has had nothing to do for a while, or when told.

What if it hangs: workers ask it how it is, it asks its JVM, and who gets no answer for `spark.patience` kills it.

What if it dies: the JVM reads its standard input and ends with it. SQL attempts whose claim names it are crashed;
children see the connection end. Nothing else is hurt. What if the JVM dies: so does the driver, at once. What if a
worker dies: nothing happens here; the next one reads each end from the attempt's directory, and connects to hear of
more.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import secrets
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.domain.errors import TidegateError
from tidegate.domain.instants import SECOND
from tidegate.domain.programs import Maintenance
from tidegate.pipeline.claims import process_name, take_claim
from tidegate.pipeline.committed import find_commits
from tidegate.pipeline.connect import ConnectSession, close_catalogs, connect_port, connect_properties
from tidegate.pipeline.files import write_whole
from tidegate.pipeline.provision import provision
from tidegate.pipeline.session import open_session
from tidegate.pipeline.sql_attempt import AttemptLog, SqlAttempt, SqlOrder, error_of
from tidegate.pipeline.stamps import Stamp
from tidegate.pipeline.wire import Line, Message
from tidegate.ports.spark import STATUS, VERDICT, DriverSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("tidegate.driver")
WATCH_EVERY = 0.25
ASK_EVERY = 2.0


class Driver:
    """The state of the process. `ready` is set when the session is up or has failed to come up (`fault`)."""

    def __init__(self, folder: Path, spec: DriverSpec) -> None:
        self.folder = folder
        self.spec = spec
        self.ready = threading.Event()
        self.ending = threading.Event()
        self.fault: dict[str, Any] | None = None
        self.spark: SparkSession | None = None
        self.token = secrets.token_urlsafe(24)
        self.port = 0
        self._lock = threading.Lock()
        self._sql: dict[str, SqlAttempt] = {}
        self._children: dict[str, ConnectSession] = {}
        self._workers: set[Line] = set()
        self._busy_at = time.monotonic()
        self._unheard = 0
        """Turns of the watch since the JVM last answered. (No seconds: who was frozen itself has waited for nobody.)"""

    # ── coming up and going down ────────────────────────────────────────────────────────────────────────────────────

    def come_up(self) -> None:
        try:
            self._say("provisioning")
            provisioned = provision(Path(self.spec.home), self.spec.settings, progress=self._progress)
            self._say("starting")
            self.spark = open_session(self.spec, provisioned, self.folder, extra=connect_properties(self.token))
            self.spark.sql("SELECT 1").collect()
            self.port = connect_port(self.spark)
            self._unheard = 0
            threading.Thread(target=self._ask_the_jvm, name="tidegate-ask", daemon=True).start()
            self._say("ready")
        except Exception as fault:
            logger.exception("the session did not come up")
            self.fault = error_of(fault)
            if self.fault["code"] == "program.error":
                self.fault["code"] = "spark.driver"
                self.fault["message"] = f"Spark did not start: {self.fault['message']} (see {self.folder / 'log'})"
            self._say("failed", self.fault["message"])
        self._busy_at = time.monotonic()
        self.ready.set()

    def watch(self) -> None:
        """Until there is a reason to end."""
        idle = self.spec.settings.idle / SECOND
        while not self.ending.wait(WATCH_EVERY):
            if self.ready.is_set() and self.fault is not None:
                self.ending.wait(5)  # whoever waits is being told why
                return
            if self._jvm_died():
                logger.error("the JVM has died")
                os._exit(70)
            self._unheard += 1
            if self.ready.is_set() and self._unheard * WATCH_EVERY > self.spec.settings.patience / SECOND:
                logger.error("the JVM does not answer")
                self._jvm().kill()
                os._exit(70)
            with self._lock:
                if self._sql or self._children or not self.ready.is_set():
                    self._busy_at = time.monotonic()
                elif time.monotonic() - self._busy_at > idle:
                    logger.info("idle for %.0f s", idle)
                    self.ending.set()

    def go_down(self) -> None:
        self._say("ended")
        with self._lock:
            sql, children = list(self._sql.values()), list(self._children.values())
        if self.spark is not None:
            for attempt in sql:
                attempt.cancel(self.spark.sparkContext)
            for child in children:
                child.close()
            deadline = time.monotonic() + 5
            while self._sql and time.monotonic() < deadline:
                time.sleep(0.05)
            with suppress(Exception):
                self.spark.stop()

    def _jvm(self) -> Any:
        """The process of the JVM; None before it is known."""
        return None if self.spark is None else getattr(self.spark.sparkContext._gateway, "proc", None)

    def _jvm_died(self) -> bool:
        process = self._jvm()
        return process is not None and process.poll() is not None

    def _ask_the_jvm(self) -> None:
        """Again and again; an answer is an answer, also where it is an error."""
        while not self.ending.wait(min(ASK_EVERY, self.spec.settings.patience / SECOND / 4)):
            with suppress(Exception):
                assert self.spark is not None
                self.spark.sparkContext._gateway.jvm.java.lang.System.nanoTime()
            self._unheard = 0

    def _progress(self, line: str) -> None:
        self._say("provisioning", line)

    def _say(self, phase: str, message: str = "") -> None:
        logger.info("%s %s", phase, message)
        status = process_name() | {"phase": phase, "message": message, "spec": self.spec.digest}
        with suppress(OSError):
            write_whole(self.folder / STATUS, json.dumps(status))
        self.tell_workers({"event": "driver", "phase": phase, "message": message})

    # ── those who are connected ─────────────────────────────────────────────────────────────────────────────────────

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._attend, args=(Line(connection),), daemon=True).start()

    def tell_workers(self, event: Message) -> None:
        with self._lock:
            workers = list(self._workers)
        for line in workers:
            line.send(event)

    def _attend(self, line: Line) -> None:
        """One connection, until its other end is gone; whatever it alone had here ends with it."""
        attached: list[str] = []
        try:
            for message in line.receive():
                try:
                    answer = self._answer(message, line, attached)
                except Exception as fault:
                    logger.exception("request %s", message.get("op"))
                    answer = {"ok": False} | error_of(fault)
                if answer is not None:
                    line.send({"id": message.get("id"), **answer})
        finally:
            with self._lock:
                self._workers.discard(line)
            for identity in attached:
                self._detach(identity)
            line.close()

    def _answer(self, message: Message, line: Line, attached: list[str]) -> Message | None:
        match message["op"]:
            case "hello":
                with self._lock:
                    self._workers.add(line)
                return {"ok": True}
            case "load":
                with self._lock:
                    return {"ok": True, "attempts": len(self._sql) + len(self._children)}
            case "run":
                threading.Thread(target=self._begin_sql, args=(message, line), daemon=True).start()
                return None
            case "stop":
                self._stop(message["identity"])
                return {"ok": True}
            case "attach":
                return self._attach(message, attached)
            case "sql":
                threading.Thread(target=self._child_sql, args=(message, line, attached), daemon=True).start()
                return None
            case "end":
                self.ending.set()
                return {"ok": True}
            case other:
                return {"ok": False, "code": "spark.protocol", "message": f"there is no request {other!r}"}

    def _wait_ready(self) -> Message | None:
        self.ready.wait(self.spec.settings.start_timeout / SECOND)
        if self.fault is not None:
            return {"ok": False, **self.fault}
        if self.spark is None:
            return {"ok": False, "code": "spark.driver", "message": "Spark did not start in time."}
        return {"ok": False, "code": "spark.ending", "message": "the driver ends"} if self.ending.is_set() else None

    # ── SQL attempts ────────────────────────────────────────────────────────────────────────────────────────────────

    def _begin_sql(self, message: Message, line: Line) -> None:
        answer = self._wait_ready()
        if answer is None:
            try:
                answer = self._claim_sql(SqlOrder.from_json(message["order"]))
            except Exception as fault:
                logger.exception("a SQL attempt could not begin")
                answer = {"ok": False} | error_of(fault)
        line.send({"id": message.get("id"), **answer})

    def _claim_sql(self, order: SqlOrder) -> Message:
        from pyspark.util import InheritableThread

        identity = order.stamp.attempt.identity
        log = AttemptLog(order.directory)
        attempt = self._attempt(order, log)
        with self._lock:
            if self.ending.is_set():
                return {"ok": False, "code": "spark.ending", "message": "the driver ends"}
            if identity in self._sql:
                return {"ok": True}
            claim = take_claim(order.directory)
            if claim is None:
                return {"ok": False, "code": "spark.taken", "message": f"{identity} has begun or was sealed"}
            self._sql[identity] = attempt
        self._fence_older(order.stamp)

        def work() -> None:
            verdict: dict[str, Any] = {"outcome": "failed", "error": None}
            session: SparkSession | None = None
            try:
                assert self.spark is not None
                session = self.spark.newSession()
                verdict = attempt.run(session)
            except Exception as fault:
                log(f"the session could not be made: {fault}")
                verdict = {"outcome": "lost", "error": error_of(fault)}
            finally:
                with suppress(OSError):  # a full disk: the claim's end needs no space
                    write_whole(order.directory / VERDICT, json.dumps(verdict))
                stop = "polite" if verdict["outcome"] == "cancelled" else None
                claim.end(status=0 if verdict["outcome"] == "succeeded" else 1, stop=stop)
                log.close()
                with self._lock:
                    self._sql.pop(identity, None)
                self.tell_workers({"event": "ended", "identity": identity})
                if session is not None and self.spark is not None:
                    close_catalogs(self.spark, session._jsparkSession)

        assert self.spark is not None
        InheritableThread(target=work, daemon=True, session=self.spark).start()
        return {"ok": True}

    def _attempt(self, order: SqlOrder, log: AttemptLog) -> SqlAttempt:
        if order.kind != Maintenance.TYPE:
            return SqlAttempt(order, self.spec, log)
        from tidegate.pipeline.care import CareAttempt  # with PyIceberg, which a driver should not wait for

        return CareAttempt(order, self.spec, log)

    def _fence_older(self, stamp: Stamp) -> None:
        """Earlier attempts of the same run that are still at work here have been given up on: end them first."""
        with self._lock:
            sql = [one for one in self._sql.values() if _is_older(one.order.stamp, stamp)]
            children = [one for one in self._children.values() if _is_older(one.stamp, stamp)]
        for attempt in sql:
            assert self.spark is not None
            attempt.cancel(self.spark.sparkContext)
        for child in children:
            child.close()

    def _stop(self, identity: str) -> None:
        with self._lock:
            attempt, child = self._sql.get(identity), self._children.get(identity)
        if attempt is not None and self.spark is not None:
            attempt.cancel(self.spark.sparkContext)
        if child is not None:
            child.cancel()

    # ── children ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _attach(self, message: Message, attached: list[str]) -> Message:
        if (refusal := self._wait_ready()) is not None:
            return refusal
        assert self.spark is not None
        identity = message["identity"]
        stamp = Stamp.of(identity, int(message["fence"]))
        self._fence_older(stamp)
        if stamp.attempt.number > 1:
            commits = find_commits(self.spec, stamp.attempt, since=int(message["since"]))
            if commits:
                return {"ok": True, "committed": [str(commit) for commit in commits]}
        session = ConnectSession(self.spark, stamp, message.get("conf") or {})
        with self._lock:
            self._children[identity] = session
            ending = self.ending.is_set()
        attached.append(identity)
        if ending:
            return {"ok": False, "code": "spark.ending", "message": "the driver ends"}
        self.tell_workers({"event": "running", "identity": identity})
        return {"ok": True, "user": session.user, "port": self.port, "token": self.token, "session": session.id}

    def _detach(self, identity: str) -> None:
        with self._lock:
            session = self._children.pop(identity, None)
        if session is not None:
            session.close()

    def _child_sql(self, message: Message, line: Line, attached: list[str]) -> None:
        with self._lock:
            session = self._children.get(attached[0]) if attached else None
        try:
            if session is None:
                raise TidegateError("attach first", code="spark.protocol")
            answer = {"ok": True, "view": session.sql(message["text"], message.get("args"))}
        except Exception as fault:
            answer = {"ok": False, "condition": getattr(fault, "getCondition", lambda: None)(), **error_of(fault)}
        line.send({"id": message.get("id"), **answer})


def _is_older(one: Stamp, than: Stamp) -> bool:
    return one.attempt.run == than.attempt.run and one.attempt.number < than.attempt.number


def main() -> int:
    parser = argparse.ArgumentParser(prog="tidegate.pipeline.driver", description="A warm Spark driver.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--spec", type=Path, required=True)
    parser.add_argument("--listen", type=int, required=True, help="descriptor of the listening socket")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.ERROR)
    driver = Driver(given.folder, DriverSpec.load(given.spec.read_text()))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    listener = socket.socket(fileno=given.listen)
    threading.Thread(target=driver.serve, args=(listener,), daemon=True).start()
    # In a thread, so that this one can be told to end while Spark is coming up.
    coming = threading.Thread(target=driver.come_up, name="tidegate-come-up", daemon=True)
    coming.start()
    signal.signal(signal.SIGTERM, lambda *_: driver.ending.set())
    driver.watch()
    listener.close()
    driver.go_down()
    os._exit(1 if driver.fault else 0)


if __name__ == "__main__":
    main()
