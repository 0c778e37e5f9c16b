"""Probes, calendars and the freeze on the real system: nothing starts before it may, and soon after."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from .running import Up, tidegate_up

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture
def reading(tmp_path: Path) -> Path:
    """What the probe `cores` reads."""
    return tmp_path / "reading"


@pytest.fixture
def up(tmp_path: Path, reading: Path) -> Iterator[Up]:
    argv = [sys.executable, "-S", "-c", f"print(open({str(reading)!r}).read())"]
    probe = {"type": "command", "argv": argv, "every": "PT1S"}
    with tidegate_up(tmp_path / "home", TIDEGATE_PROBES__CORES=json.dumps(probe)) as running:
        yield running


def waiting_for(up: Up, name: str) -> list[dict[str, Any]]:
    """What the only run of a schedule waits for, once the admitter has said so."""
    [run] = until(lambda: up.get(f"/namespaces/default/runs?schedule={name}")["items"])
    found: list[dict[str, Any]] = until(lambda: up.get(f"/runs/{run['id']}")["waiting_for"])
    return found


def starts(up: Up, name: str) -> bool:
    [run] = up.get(f"/namespaces/default/runs?schedule={name}")["items"]
    return up.ended(run["id"])


@pytest.mark.requirement("GATE-7", "GATE-8", "GATE-13")
def test_a_probe_a_calendar_and_the_freeze_hold_back_and_let_go(up: Up, reading: Path) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=3)).isoformat()
    trigger = {"type": "at", "time": soon}
    today = [(datetime.now(UTC) + timedelta(days=days)).date().isoformat() for days in (0, 1)]
    up.call("PUT", "/calendars/closed", {"spec": {"days": today}})
    up.declare("loaded", ["true"], trigger=trigger, constraints=[{"type": "load", "resource": "cores", "below": 50}])
    up.declare("holiday", ["true"], trigger=trigger, constraints=[{"type": "blackout", "calendar": "closed"}])

    [why] = waiting_for(up, "loaded")
    assert why["constraint"] == "load" and "cannot be read" in why["why"], "there is nothing to read yet"
    [why] = waiting_for(up, "holiday")
    assert why["constraint"] == "blackout" and why["until"] is not None
    reading.write_text("80")
    until(lambda: "80" in waiting_for(up, "loaded")[0]["why"])

    up.call("PUT", "/freeze", {"reason": "upgrade"})
    reading.write_text("20")
    up.call("PUT", "/calendars/closed", {"spec": {"days": []}})
    for name in ("loaded", "holiday"):
        until(lambda name=name: "upgrade" in waiting_for(up, name)[0]["why"])  # type: ignore[misc]
    asked = up.trigger("loaded")
    until(lambda: up.get(f"/runs/{asked}")["waiting_for"])
    assert up.state(asked) == "waiting", "nobody is above the freeze"
    up.call("DELETE", "/freeze")
    until(lambda: starts(up, "holiday"))
    until(lambda: up.ended(asked))
    path = "/namespaces/default/runs?schedule=loaded"
    until(lambda: [run["state"] for run in up.get(path)["items"]] == ["succeeded"] * 2)
