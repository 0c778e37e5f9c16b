"""One application on a cluster, by Spark's own `spark-submit`: `python -m tidegate.pipeline.submit ORDER [--kill]`.

Settings go by a properties file (0600) and not by the command line, which every user of the machine can read; it is
removed once the end is on record. Values `env:NAME` are read from the worker's environment.

Client mode: this process becomes `spark-submit`, so the shim sees the driver itself: its end, its output, its tree.
Cluster mode: this process waits for the driver, whose name in the cluster is written down (`remote.json`) as soon as
the cluster has said it. Stopped, it has the cluster end the driver. A driver of an earlier attempt that never said how
it ended is ended first: two of one run never work at once.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.domain.errors import TidegateError
from tidegate.domain.variables import looked_up
from tidegate.pipeline.files import write_whole
from tidegate.pipeline.java import find_java
from tidegate.pipeline.stamps import Stamp

PROPERTIES, REMOTE, VERDICT, LOG = "spark.properties", "remote.json", "verdict.json", "log"
LOOK_EVERY = 0.3
"""Seconds between two looks at what spark-submit says."""
STOPPED = 143
NAMES = (
    re.compile(r"Driver successfully submitted as (driver-[\w-]+)"),  # standalone
    re.compile(r"Submitted application (application_\d+_\d+)"),  # YARN
    re.compile(r"\bpod name: ([\w.-]+-driver)\b"),  # Kubernetes
)
LAST_WORD = re.compile(
    r"State of (?:driver )?driver-[\w-]+ is (FINISHED|FAILED|ERROR|KILLED)|\bphase: (Succeeded|Failed)\b"
)
GIVEN = ("RUN_ID", "RUN_KEY", "ATTEMPT", "FENCE", "NAMESPACE", "SCHEDULE", "FIRE_TIME", "ARGUMENTS")


@dataclass(frozen=True, slots=True)
class Submission:
    """What is run, and the settings in its properties file."""

    argv: tuple[str, ...]
    properties: Mapping[str, str]


def compose(order: Mapping[str, Any], spark_home: str, environment: Mapping[str, str]) -> Submission:
    """The command line and the settings; the program's own settings win, but for what names the attempt. Raises Refused
    for a setting in a variable that is not set."""
    identity, master, mode = order["identity"], str(order["master"]), order["deploy_mode"]
    argv = [f"{spark_home}/bin/spark-submit", "--master", master, "--deploy-mode", mode]
    argv += ["--name", f"tidegate-{identity}", "--load-spark-defaults"]
    argv += ["--properties-file", f"{order['directory']}/{PROPERTIES}"]
    if order["main_class"]:
        argv += ["--class", order["main_class"]]
    properties = {name: _value(name, value, environment) for name, value in order["conf"].items()}
    if mode == "client":
        properties.setdefault("spark.pyspark.driver.python", sys.executable)
        if master.startswith("local"):
            properties.setdefault("spark.pyspark.python", sys.executable)
    stamp = Stamp.of(identity, int(order["run"]["fence"]))
    properties |= stamp.session_stamp()
    properties |= {f"spark.{name}": value for name, value in stamp.properties().items()}
    told = {f"TIDEGATE_{name}": environment[f"TIDEGATE_{name}"] for name in GIVEN if f"TIDEGATE_{name}" in environment}
    if master.startswith("yarn"):
        tags = [tag for tag in (properties.get("spark.yarn.tags"), f"tidegate-{identity}") if tag]
        properties |= {"spark.yarn.tags": ",".join(tags), "spark.yarn.submit.waitAppCompletion": "true"}
        properties |= {f"spark.yarn.appMasterEnv.{name}": value for name, value in told.items()}
    elif master.startswith("k8s"):
        label = re.sub(r"[^A-Za-z0-9_.-]", "-", identity)
        properties["spark.kubernetes.driver.label.tidegate-attempt"] = label
        properties["spark.kubernetes.submission.waitAppCompletion"] = "true"
        properties |= {f"spark.kubernetes.driverEnv.{name}": value for name, value in told.items()}
    elif mode == "cluster":
        properties["spark.standalone.submit.waitAppCompletion"] = "true"
    return Submission((*argv, order["application"], *order["args"]), properties)


def kill_command(
    spark_home: str, master: str, driver: str, conf: Mapping[str, Any], environment: Mapping[str, str]
) -> tuple[str, ...]:
    """What ends a driver in its cluster. Raises Refused as `compose` does."""
    if master.startswith("yarn"):
        return ("yarn", "application", "-kill", driver)
    if master.startswith("k8s"):
        name = "spark.kubernetes.namespace"
        namespace = _value(name, conf.get(name, "default"), environment)
        return (f"{spark_home}/bin/spark-submit", "--master", master, "--kill", f"{namespace}:{driver}")
    return (f"{spark_home}/bin/spark-class", "org.apache.spark.deploy.Client", "kill", master, driver)


class Attempt:
    """One attempt, from its order to its verdict."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self.order = order
        self.directory = Path(order["directory"])
        self.stopped = False
        self.environment = dict(os.environ)
        self.spark_home = os.environ.get("SPARK_HOME") or _packaged()
        self.environment["SPARK_HOME"] = self.spark_home
        java = find_java(Path(order["home"]), java_home=order["java_home"])
        self.environment["JAVA_HOME"] = str(java.home)

    def run(self) -> int:
        """Submit it, and wait for its end; the exit status. In client mode it does not return."""
        for earlier in self.order["earlier"]:
            self._end_earlier(Path(earlier))
        submission = compose(self.order, self.spark_home, self.environment)
        write_whole(self.directory / PROPERTIES, properties_text(submission.properties))
        say("tidegate: " + " ".join(submission.argv))
        if self.order["deploy_mode"] == "client":
            os.execve(submission.argv[0], submission.argv, self.environment)
        signal.signal(signal.SIGTERM, self._asked_to_end)
        start = (self.directory / LOG).stat().st_size
        process = subprocess.Popen(submission.argv, stdin=subprocess.DEVNULL, env=self.environment)
        driver = ""
        while process.poll() is None:
            time.sleep(LOOK_EVERY)
            driver = driver or self._note_name(start)
        return self._ended(process.returncode, driver or self._note_name(start), start)

    def kill(self) -> int:
        """Have the cluster end the driver of this attempt; the exit status of what told it."""
        remote = read(self.directory / REMOTE)
        return self._kill(remote["master"], remote["driver"]) if remote.get("driver") else 0

    def _ended(self, status: int, driver: str, start: int) -> int:
        if self.stopped:
            if driver:
                self._kill(self.order["master"], driver)
            return self._verdict(STOPPED, "cancelled", {"code": "cancelled", "message": "It was asked to end."})
        word = last_word(self._said(start))
        if status == 0 and word in ("FINISHED", "Succeeded", ""):
            return self._verdict(0, "succeeded", None)
        if not driver:
            return status or 1  # never taken: the launcher looks at the log
        state = word or f"exit status {status} of spark-submit"
        message = f"The driver {driver} ended in the cluster: {state}. Its output is kept there."
        return self._verdict(status or 1, "failed", {"code": "spark.driver", "message": message})

    def _note_name(self, start: int) -> str:
        """The driver's name in the cluster, written down once it is known."""
        driver = name_in(self._said(start))
        if driver:
            write_whole(self.directory / REMOTE, json.dumps({"driver": driver, "master": self.order["master"]}))
        return driver

    def _said(self, start: int) -> str:
        with suppress(OSError), (self.directory / LOG).open("rb") as log:
            log.seek(start)
            return log.read().decode("utf-8", "replace")
        return ""

    def _end_earlier(self, directory: Path) -> None:
        remote = read(directory / REMOTE)
        if remote.get("driver") and not (directory / VERDICT).exists():
            say(f"tidegate: ending {remote['driver']} of an earlier attempt first")
            self._kill(remote["master"], remote["driver"])

    def _kill(self, master: str, driver: str) -> int:
        argv = kill_command(self.spark_home, master, driver, self.order["conf"], self.environment)
        say("tidegate: " + " ".join(argv))
        try:
            told = subprocess.run(argv, stdin=subprocess.DEVNULL, env=self.environment, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired) as fault:
            say(f"tidegate: {driver} could not be ended: {fault}")
            return 1
        return told.returncode

    def _asked_to_end(self, *_: object) -> None:
        self.stopped = True

    def _verdict(self, status: int, outcome: str, error: Mapping[str, Any] | None) -> int:
        with suppress(OSError):
            write_whole(self.directory / VERDICT, json.dumps({"outcome": outcome, "error": error}))
        return status


def name_in(said: str) -> str:
    """The name that the cluster gave the driver; empty while it has not."""
    return next((found[1] for pattern in NAMES if (found := pattern.search(said))), "")


def last_word(said: str) -> str:
    """The last state of the driver that spark-submit told."""
    words = [match[1] or match[2] for match in LAST_WORD.finditer(said)]
    return words[-1] if words else ""


def properties_text(properties: Mapping[str, str]) -> str:
    """As java.util.Properties reads them."""
    return "".join(f"{_escaped(name, ' :=#!')} {_escaped(value, '')}\n" for name, value in sorted(properties.items()))


def _escaped(text: str, special: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    escaped = "".join(f"\\{char}" if char in special else char for char in escaped)
    escaped = "".join(
        char if ord(char) < 127 else "".join(f"\\u{unit:04x}" for unit in _units(char)) for char in escaped
    )
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


def _units(char: str) -> list[int]:
    data = char.encode("utf-16-be")
    return [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]


def _value(name: str, value: Any, environment: Mapping[str, str]) -> str:
    if isinstance(value, str):
        return looked_up(value, environment, f"The setting {name}", "the application")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _packaged() -> str:
    """The Spark that comes with PySpark."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    return str(Path(spec.origin).parent)


def read(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def say(text: str) -> None:
    print(text, flush=True)


def main(argv: Sequence[str]) -> int:
    try:
        attempt = Attempt(json.loads(Path(argv[0]).read_text()))
        return attempt.kill() if argv[1:] == ["--kill"] else attempt.run()
    except (TidegateError, OSError) as fault:
        print(f"tidegate: {fault}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
