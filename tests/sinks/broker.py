"""A Kafka broker of our own: a process in KRaft mode on free ports, with what it keeps in a directory of the test's.

Its jars are named by coordinates and fetched by the Ivy inside PySpark, once, into a directory beside the repository's
(TIDEGATE_TEST_KAFKA, else in the temporary directory).
"""

from __future__ import annotations

import base64
import fcntl
import os
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from waiting import free_port

from tidegate.pipeline.java import find_java
from tidegate.pipeline.provision import ivy_jar

VERSION = "4.3.1"
MODULES = (("org.apache.kafka", "kafka_2.13", VERSION), ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.5"))
_IVY = """<ivy-module version="2.0"><info organisation="tests" module="kafka"/><configurations><conf name="default"/>
</configurations><dependencies>{}</dependencies></ivy-module>"""


class NoBroker(Exception):
    """The jars cannot be had; why."""


def jars() -> Path:
    """The directory with the jars. Raises NoBroker."""
    place = os.environ.get("TIDEGATE_TEST_KAFKA") or Path(tempfile.gettempdir()) / f"tidegate-kafka-{os.getuid()}"
    folder = Path(place)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    libs, done = folder / f"libs-{VERSION}", folder / f"fetched-{VERSION}"
    with (folder / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            wanted = "".join(
                f'<dependency org="{group}" name="{name}" rev="{version}" conf="default->default"/>'
                for group, name, version in MODULES
            )
            (folder / "ivy.xml").write_text(_IVY.format(wanted))
            settings = os.environ.get("TIDEGATE_SPARK__IVY_SETTINGS", "")
            command = [
                *(str(find_java(folder).binary), "-jar", str(ivy_jar()), "-warn", "-confs", "default"),
                *(("-settings", settings) if settings else ()),
                *("-ivy", str(folder / "ivy.xml"), "-cache", str(folder / "cache"), "-types", "jar", "bundle"),
                *("-retrieve", str(libs / "[artifact]-[revision].[ext]")),
            ]
            said = subprocess.run(command, capture_output=True, text=True, timeout=300)
            if said.returncode or not (libs / f"kafka_2.13-{VERSION}.jar").exists():
                raise NoBroker(f"Kafka {VERSION} cannot be fetched: {(said.stdout + said.stderr)[-400:]}")
            done.touch()
    return libs


def _id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


class Broker:
    """One node that is broker and controller. Stopped and started again it has what it had."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, controller = free_port(), free_port()
        self.servers = f"127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        logs = folder / "data"
        logs.mkdir(parents=True)
        (logs / "meta.properties").write_text(f"version=1\ncluster.id={_id()}\nnode.id=1\ndirectory.id={_id()}\n")
        (folder / "server.properties").write_text(
            "\n".join(
                (
                    "process.roles=broker,controller",
                    "node.id=1",
                    f"controller.quorum.voters=1@127.0.0.1:{controller}",
                    f"listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
                    "controller.listener.names=CONTROLLER",
                    f"log.dirs={logs}",
                    "offsets.topic.replication.factor=1",
                    "offsets.topic.num.partitions=1",
                    "transaction.state.log.replication.factor=1",
                    "transaction.state.log.min.isr=1",
                    "group.initial.rebalance.delay.ms=0",
                    "auto.create.topics.enable=false",
                )
            )
        )

    def start(self) -> None:
        libs = jars()
        command = [
            *(str(find_java(self.folder).binary), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-cp", f"{libs}/*", "kafka.Kafka", str(self.folder / "server.properties")),
        ]
        with (self.folder / "broker.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        try:
            self._answers(self.process)
        except BaseException:
            self.kill()
            raise

    def _answers(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until it does. Raises NoBroker."""
        until = time.monotonic() + 90
        while True:
            try:
                self.admin().list_topics(timeout=2)
                return
            except KafkaException as fault:
                if process.poll() is not None or time.monotonic() > until:
                    raise NoBroker(f"it does not come up: {fault}; {self._log()}") from None

    def _log(self) -> str:
        return (self.folder / "broker.log").read_text()[-600:]

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def create(self, topic: str, *, partitions: int = 3, config: Mapping[str, str] | None = None) -> None:
        admin = self.admin()  # must outlive what it is asked
        made = admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))])
        for each in made.values():
            each.result(20)

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(20)
            self.process = None
