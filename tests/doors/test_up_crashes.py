"""A run whose machine went down with it: a person sees why it waits and until when, and it starts again by then."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
from waiting import until

from .conftest import command
from .running import Up, tidegate_up

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    with tidegate_up(tmp_path / "home", TIDEGATE_SCHEDULER__CRASH_WAIT="PT20S") as running:
        yield running


def as_if_the_machine_went_down(up: Up, program: int) -> None:
    """Kill the worker, and before its successor is there the program with the one that watches over it."""
    watcher = psutil.Process(program).parent()
    assert watcher is not None
    up.role("worker").kill()
    watcher.kill()
    psutil.Process(program).kill()


@pytest.mark.requirement("FAIL-4", "FAIL-3", "OPS-7")
def test_a_crashed_run_waits_for_the_scheduler_to_have_been_up_and_says_so(up: Up) -> None:
    began = up.home / "began"
    script = f"echo $$ >> {began}; [ $TIDEGATE_ATTEMPT = 2 ] || exec sleep 60"
    up.declare("work", ["sh", "-c", script], retry={"max_attempts": 2, "delay": "PT0.1S"})
    run = up.trigger("work")
    until(lambda: up.state(run) == "running" and began.exists())
    as_if_the_machine_went_down(up, int(began.read_text()))
    until(lambda: up.state(run) == "waiting")
    told = until(lambda: (said := up.get(f"/runs/{run}/explain"))["blocker"] == "crash_wait" and said)
    [node] = [one for one in told["tree"]["children"] if one["node"] == "crash_wait"]
    assert not node["satisfied"] and node["threshold"] == told["earliest"]
    text = " ".join(command("explain", run, url=up.url).out.split())
    assert told["earliest"][:19].replace("T", " ") in text and "scheduler.crash_wait" in text
    assert [one["waiting_for"][0]["constraint"] for one in up.get("/queue")["items"]] == ["crash_wait"]
    up.role("scheduler").kill()  # does not push it on
    until(partial(up.ended, run))
    [first, second] = up.get(f"/runs/{run}")["attempts"]
    assert first["state"] == "crashed"
    assert told["earliest"] <= second["created_at"] < told["earliest"][:17] + "99"
