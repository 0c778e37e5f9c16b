"""A trigger type that a package adds (examples/plugin): built, installed, and used through the doors."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doors.test_up import Up, free_port, until

PLUGIN = Path(__file__).resolve().parents[2] / "examples" / "plugin"
DISTINCT = {"type": "distinct", "event": "user.store_closed", "field": "store", "count": 3}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the package was installed, by its own build backend and without a network."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    done = subprocess.run(
        [*pip, "--no-deps", "--no-build-isolation", "--target", str(folder), str(PLUGIN)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return folder


def python(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    """Run some Python in a process of its own, with these folders on its path."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environ, capture_output=True, text=True, timeout=60
    )


@pytest.mark.requirement("DATA-13")
def test_an_installed_type_fires_in_a_world_and_one_that_is_not_installed_is_named(installed: Path) -> None:
    code = f"""
        from tidegate import Event
        from tidegate.sim.testing import World

        world = World()
        world.deploy([
            {{"kind": "Program", "metadata": {{"name": "close"}}, "spec": {{"type": "command", "argv": ["true"]}}}},
            {{"kind": "Schedule", "metadata": {{"name": "books"}},
              "spec": {{"program": "close", "enabled": True, "trigger": {DISTINCT!r}}}}},
        ])
        for store in ("berlin", "berlin", "paris", "paris", "rome", "oslo"):
            world.publish(Event("user.store_closed", "all", {{"store": store}}))
            print(store, len(world.runs("books")))
    """
    done = python(code, installed)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == ["berlin 0", "berlin 0", "paris 0", "paris 0", "rome 1", "oslo 1"]
    without = python(code)
    assert without.returncode != 0
    assert "distinct" in without.stderr


@pytest.fixture
def up(installed: Path, tmp_path: Path) -> Iterator[Up]:
    running = Up(tmp_path / "home", free_port(), PYTHONPATH=str(installed))
    try:
        until(running.ready, 60)
        yield running
    finally:
        running.clean()


def declared(**parameters: Any) -> dict[str, Any]:
    return {"spec": {"program": "close", "enabled": True, "trigger": {**DISTINCT, **parameters}}}


def close(up: Up, *stores: str) -> None:
    for store in stores:
        event = {"type": "user.store_closed", "key": "default/all", "payload": {"store": store}}
        up.call("POST", "/events", event)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.requirement("DATA-13", "DATA-14")
def test_an_installed_type_fires_on_the_real_system(up: Up) -> None:
    up.declare("close", ["true"])
    place = "/namespaces/default/schedules/books"
    with pytest.raises(AssertionError, match="whole number from 1 to 1000"):  # its own sentence, at the door
        up.call("PUT", place, declared(count=0))
    made = up.call("PUT", place, declared())
    assert made["spec"]["trigger"] == DISTINCT, "it is shown as it was written"
    close(up, "berlin", "paris", "berlin")

    def tree() -> Any:
        return up.get(f"{place}/progress")["tree"]

    until(lambda: "2 of 3 different values" in str(tree()))
    assert not tree()["satisfied"]
    assert up.get("/namespaces/default/runs?schedule=books")["items"] == []
    close(up, "rome")
    [run] = until(lambda: up.get("/namespaces/default/runs?schedule=books")["items"])
    until(lambda: up.ended(run["id"]))
    assert run["cause"]["events"]["count"] == 4, "everything that came is its evidence"
    assert "0 of 3 different values" in str(tree()), "and it begins anew"
    close(up, "rome", "paris")
    up.role("scheduler").kill()  # what it has seen outlives every process
    until(up.ready, 60)
    close(up, "berlin")
    until(lambda: len(up.get("/namespaces/default/runs?schedule=books")["items"]) == 2)
    time.sleep(0.5)
    assert len(up.get("/namespaces/default/runs?schedule=books")["items"]) == 2
