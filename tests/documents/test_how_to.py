"""What the how-to pages show can be declared as it stands there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tidegate.documents import files, parse, yaml
from tidegate.ports.probing import ProbeSpec

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"
OF_PACKAGES = ("workday",)


def test_the_page_on_holding_runs_back_shows_what_can_be_declared(tmp_path: Path) -> None:
    page = (HOW_TO / "hold-runs-back.md").read_text()
    shown = re.findall(r"`(\{type: \w+[^`]*\})`", page)
    assert len(shown) > 10
    for text in shown:
        [document], faults = yaml.read(text, "page")
        assert not faults
        if document.value["type"] not in OF_PACKAGES:
            spec = {"program": "p", "trigger": {"type": "never"}, "constraints": [document.value]}
            parse({"spec": spec}, kind="Schedule", name="s")
    constraints, pool, calendar = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    [document], _ = yaml.read(constraints, "page")
    parse({"spec": {"program": "p", "trigger": {"type": "never"}, **document.value}}, kind="Schedule", name="s")
    (tmp_path / "public-holidays.ics").write_text("BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\nEND:VCALENDAR\n")
    files.check(calendar, "page", folder=tmp_path)
    files.check(pool, "page")
    [probes] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert {name: ProbeSpec.of(name, given).type for name, given in tomllib.loads(probes)["probes"].items()} == {
        "cluster": "spark",
        "queue": "http",
        "licences": "command",
    }
