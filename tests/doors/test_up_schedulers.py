"""A second scheduler needs no setting, and whichever is killed or frozen, no fire is skipped or told twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from tidegate.cli.up import MARK, end_leftovers, mark_of

from .conftest import command
from .running import Up

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
LATE = timedelta(seconds=30)
"""Far beyond what a takeover takes, on the busiest of machines."""


def another(up: Up, place: Path) -> subprocess.Popen[bytes]:
    """A scheduler as it would be started on a second machine."""
    url = up.role("scheduler").environ()["TIDEGATE_DATABASE_URL"]
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("TIDEGATE_")}
    environ = {**inherited, "TIDEGATE_DATABASE_URL": url, "TIDEGATE_HOME": str(place), MARK: mark_of(place)}
    return subprocess.Popen([sys.executable, "-m", "tidegate.cli.main", "scheduler"], env=environ)


def schedulers(up: Up) -> set[int]:
    return {one["pid"] for one in up.get("/instances")["items"] if one["role"] == "scheduler"}


def runs(up: Up) -> list[dict[str, Any]]:
    found, token = [], ""
    while True:
        page = up.get(f"/runs?schedule=ticks&limit=200{token}")
        found += page["items"]
        if not page["next"]:
            return sorted(found, key=lambda one: str(one["fire_time"]))
        token = f"&cursor={page['next']}"


@pytest.mark.requirement("STORY-2", "HA-1", "HA-2", "HA-8")
def test_whichever_scheduler_is_killed_or_frozen_no_fire_is_skipped_or_comes_twice(up: Up, tmp_path: Path) -> None:
    ticks = up.home / "ticks"
    up.declare(
        "ticks",
        ["sh", "-c", f"echo $TIDEGATE_FIRE_TIME >> {ticks}"],
        trigger={"type": "interval", "every": "PT1S"},
        catch_up={"policy": "all", "max": 100},
        constraints=[{"type": "concurrency", "max": 8}],
    )
    second = another(up, tmp_path / "elsewhere")
    try:
        until(lambda: second.pid in schedulers(up) and len(schedulers(up)) == 2)
        until(lambda: len(runs(up)) >= 2)
        up.role("scheduler").kill()  # one of two, killed
        seen = len(runs(up))
        until(lambda: len(runs(up)) >= seen + 3)
        until(lambda: len(schedulers(up)) == 2)
        second.send_signal(signal.SIGSTOP)  # the other, frozen for longer than the patience of the first
        seen = len(runs(up))
        time.sleep(7)
        until(lambda: len(runs(up)) >= seen + 5)
        second.send_signal(signal.SIGCONT)
        second.kill()
        up.call("POST", "/namespaces/default/schedules/ticks:disable", {"reason": "enough"})
        until(lambda: all(one["state"] == "succeeded" for one in runs(up)), 60)
    finally:
        second.kill()
        second.wait()
        end_leftovers(tmp_path / "elsewhere")
    told = runs(up)
    fires = [datetime.fromisoformat(one["fire_time"]) for one in told]
    assert [later - earlier for earlier, later in zip(fires, fires[1:], strict=False)] == [timedelta(seconds=1)] * (
        len(fires) - 1
    )
    assert all(datetime.fromisoformat(one["created_at"]) - fire < LATE for one, fire in zip(told, fires, strict=True))
    assert sorted(ticks.read_text().split()) == [one["fire_time"] for one in told]
    proof = command("audit", url=up.url)
    assert proof.status == 0, proof.out
