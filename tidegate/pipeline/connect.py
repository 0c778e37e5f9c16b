"""The Connect sessions of a warm driver: one per PySpark attempt, made and ended by the driver.

A child that is killed does not end what it asked Spark to do. So a child keeps its connection to the driver open as
long as it lives; when that ends, the driver closes the session, which ends its jobs, and closes the session's
catalog, which would else hold database connections for ever. Names inside the Connect server are Spark's own
(4.1.x, pinned); tests hold each of them.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tidegate.pipeline.sql_attempt import CANCEL_EVERY
from tidegate.pipeline.stamps import Stamp, stamp_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def connect_properties(token: str) -> dict[str, str]:
    """What makes a session serve Connect, on loopback only and for those who know the token."""
    return {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.connect.authenticate.token": token,
        # A program may think for hours between two queries; sessions are closed by us.
        "spark.connect.session.manager.defaultSessionTimeout": "365d",
    }


class ConnectSession:
    """The server's side of one attempt's session."""

    def __init__(self, spark: SparkSession, stamp: Stamp, conf: Mapping[str, str]) -> None:
        self.id = str(uuid.uuid4())
        self.user = f"tidegate-{stamp.attempt.identity}"
        """A user of its own, so that sessions which the program clones from this one can be found and ended too."""
        self.stamp = stamp
        self._spark = spark
        self._service = spark.sparkContext._jvm.org.apache.spark.sql.connect.service
        none = spark.sparkContext._jvm.scala.Option.empty()
        self._holder = self._service.SparkConnectService.getOrCreateIsolatedSession(self.user, self.id, none)
        self._classic = self._holder.session()
        self._gone = threading.Event()
        self._cancelling = False
        for name, value in ({k: str(v) for k, v in conf.items()} | stamp.session_stamp()).items():
            self._classic.conf().set(name, value)

    def sql(self, text: str, args: Any) -> str | None:
        """Run a statement in this session, in this thread, stamped; the name of a view of its result, if it has one."""
        from pyspark.sql import SparkSession

        context = self._spark.sparkContext
        tag = f"tidegate-{self.stamp.attempt.identity}"
        context.addJobTag(tag)
        stamp_thread(context._jvm, self.stamp.properties())
        try:
            result = SparkSession(context, self._classic).sql(text, args)
            if not result.columns:
                return None
            name = f"tidegate_result_{uuid.uuid4().hex}"
            result.createOrReplaceTempView(name)
            return name
        finally:
            stamp_thread(context._jvm, {})
            context.removeJobTag(tag)

    def cancel(self) -> None:
        """End its jobs, again and again until the child is gone. Safe to repeat; does not wait."""
        if not self._cancelling:
            self._cancelling = True
            threading.Thread(target=self._keep_cancelling, daemon=True).start()

    def close(self) -> None:
        """End its jobs and the session. Safe to repeat."""
        if self._gone.is_set():
            return
        self._gone.set()
        with suppress(Exception):
            self._interrupt()
        manager = getattr(getattr(self._service, "SparkConnectService$"), "MODULE$").sessionManager()
        with suppress(Exception):
            open_ones = manager.listActiveSessions()
            keys = [open_ones.apply(at).key() for at in range(open_ones.size())]
            mine = [key for key in keys if key.userId() == self.user]
            for key in mine:
                manager.closeSession(key, False)
        close_catalogs(self._spark, self._classic)

    def _keep_cancelling(self) -> None:
        while not self._gone.wait(CANCEL_EVERY):
            with suppress(Exception):
                self._interrupt()

    def _interrupt(self) -> None:
        self._spark.sparkContext.cancelJobsWithTag(f"tidegate-{self.stamp.attempt.identity}")
        self._holder.interruptAll()


def connect_port(spark: SparkSession) -> int:
    """Where the Connect server of this driver listens."""
    service = spark.sparkContext._jvm.org.apache.spark.sql.connect.service
    return int(getattr(getattr(service, "SparkConnectService$"), "MODULE$").localPort())


def close_catalogs(spark: SparkSession, classic: Any) -> None:
    """Close the Iceberg catalogs that a session (of the JVM's side) has opened, with their database connections."""
    with suppress(Exception):
        manager = classic.sessionState().catalogManager()
        opened = str(manager.listCatalogs(spark.sparkContext._jvm.scala.Option.empty()).mkString("\n"))
        for name in opened.splitlines():
            if name != "spark_catalog":
                with suppress(Exception):  # not an Iceberg catalog
                    manager.catalog(name).icebergCatalog().close()
