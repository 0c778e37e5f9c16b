"""Types of triggers and constraints that a package adds (examples/plugin): built, installed, used through the doors."""

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
from doors.running import Up, tidegate_up
from waiting import until

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


@pytest.mark.slow
@pytest.mark.requirement("GATE-13", "GATE-15")
def test_an_installed_constraint_holds_back_in_a_world_until_its_day(installed: Path) -> None:
    workday = {"type": "workday", "n": 3, "timezone": "Europe/Berlin"}
    code = f"""
        from tidegate.domain.errors import Invalid
        from tidegate.sim.testing import World

        def documents(constraint):
            spec = {{"program": "close", "enabled": True, "trigger": {{"type": "cron", "expression": "0 12 1 * *"}},
                    "constraints": [constraint]}}
            return [
                {{"kind": "Program", "metadata": {{"name": "close"}}, "spec": {{"type": "command", "argv": ["true"]}}}},
                {{"kind": "Schedule", "metadata": {{"name": "books"}}, "spec": spec}},
            ]

        world = World()
        try:
            world.deploy(documents({{**{workday!r}, "n": 40}}))
        except Invalid as invalid:
            print(invalid.faults[0].path, invalid.faults[0].reason)
        world.deploy(documents({workday!r}), at="2026-08-01T00:00Z")
        for span in ("1d", "2d", "21h", "61m"):
            world.advance(span)
            [run] = world.runs("books")
            print(world.now, run.state, *(one["why"] for one in run.waiting_for))
    """
    done = python(code, installed)
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert told[0] == "spec.constraints[0] `n` must be a whole number from 1 to 20: every month has 20 working days"
    waits = "waiting Working day 3 is Wednesday, 05 August 2026."
    assert told[1:] == [
        f"2026-08-02 00:00:00+00:00 {waits}",
        f"2026-08-04 00:00:00+00:00 {waits}",
        f"2026-08-04 21:00:00+00:00 {waits}",
        "2026-08-04 22:01:00+00:00 succeeded",
    ]
    without = python(code)
    assert "spec.constraints[0]: 'workday' is not a type of constraint" in without.stdout + without.stderr


@pytest.fixture
def up(installed: Path, tmp_path: Path) -> Iterator[Up]:
    with tidegate_up(tmp_path / "home", PYTHONPATH=str(installed)) as running:
        yield running


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
