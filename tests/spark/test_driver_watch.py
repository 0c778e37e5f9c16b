"""A driver watches over its JVM. No Spark here: a session that answers, or does not, as one would."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.domain.instants import SECOND
from tidegate.pipeline import driver as module
from tidegate.pipeline.driver import Driver
from tidegate.ports.spark import DriverSpec, SparkSettings

pytestmark = [pytest.mark.slow]


class Ended(Exception):
    """The process would have ended."""


class Jvm:
    """A process with `java.lang.System.nanoTime`, which may never come back."""

    def __init__(self) -> None:
        self.frozen, self.killed, self.asked = threading.Event(), False, 0
        self.java = SimpleNamespace(lang=SimpleNamespace(System=self))

    def nanoTime(self) -> int:
        self.asked += 1
        if self.frozen.is_set():
            threading.Event().wait(30)
        return 1

    def poll(self) -> None:
        return None

    def kill(self) -> None:
        self.killed = True


@pytest.fixture
def jvm() -> Jvm:
    return Jvm()


@pytest.fixture
def driver(jvm: Jvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    def leave(status: int) -> None:
        raise Ended(status)

    monkeypatch.setattr(module, "os", SimpleNamespace(_exit=leave))
    settings = SparkSettings(patience=SECOND)
    made: Any = Driver(tmp_path, DriverSpec(home=str(tmp_path), catalog_url="", settings=settings))
    made.spark = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(jvm=jvm, proc=jvm)))
    made.ready.set()
    threading.Thread(target=made._ask_the_jvm, daemon=True).start()
    found: Driver = made
    return found


@pytest.mark.requirement("OPS-11")
def test_a_jvm_that_answers_no_more_is_killed_and_its_driver_ends(driver: Driver, jvm: Jvm) -> None:
    jvm.frozen.set()
    with pytest.raises(Ended):
        driver.watch()
    assert jvm.killed


@pytest.mark.requirement("OPS-11")
def test_a_jvm_that_answers_is_left_alone(driver: Driver, jvm: Jvm) -> None:
    threading.Timer(2.5, driver.ending.set).start()
    driver.watch()
    assert jvm.asked > 4 and not jvm.killed
