"""What contradicts itself is told where it stands: as a warning with its line, and as an error under --strict."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Served, tidegate

pytestmark = pytest.mark.requirement("GATE-15")

WEEKLY = """\
apiVersion: tidegate/v1
kind: Program
metadata: {name: land}
spec: {type: command, argv: ["true"]}
---
apiVersion: tidegate/v1
kind: Schedule
metadata: {name: weekly}
spec:
  program: land
  trigger: {type: interval, every: P1W}
  catch_up:
    policy: all
    window: P1D
---
apiVersion: tidegate/v1
kind: Schedule
metadata: {name: fine}
spec: {program: land, trigger: {type: interval, every: P1D}}
"""

APP = """\
from tidegate import App, every

app = App("etl")
land = app.command("land", "true")
app.schedule("weekly", land, when=every("P1W"), catch_up={"policy": "all"})
"""


def test_apply_warns_with_the_line_and_strict_refuses(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "weekly.yaml"
    file.write_text(WEEKLY)
    refused = tidegate("apply", "-f", str(file), "--strict", url=served.url)
    assert refused.status == 1
    assert "weekly.yaml:14 spec.catch_up.window: P1D is shorter than the P7D between fires" in refused.err
    assert served("GET", "/namespaces/default/schedules").json()["items"] == []
    done = tidegate("apply", "-f", str(file), url=served.url)
    assert done.status == 0
    assert "warning: weekly.yaml:14 spec.catch_up.window:" in done.err
    assert done.err.count("warning") == 1
    told = tidegate("apply", "-f", str(file), "-o", "json", url=served.url)
    assert [[one["path"] for one in item["warnings"]] for item in told.json] == [[], ["spec.catch_up.window"], []]


def test_deploy_warns_and_strict_refuses(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "etl.py"
    file.write_text(APP)
    refused = tidegate("deploy", str(file), "--strict", "--yes", url=served.url)
    assert refused.status == 1 and "weekly: spec.catch_up.window" in refused.err
    assert served("GET", "/namespaces/default/schedules").json()["items"] == []
    done = tidegate("deploy", str(file), "--yes", url=served.url)
    assert done.status == 0 and "warning: schedule weekly: spec.catch_up.window" in done.err
