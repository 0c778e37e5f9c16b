"""The table of outages names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.requirement("OPS-11", "CARE-11")
def test_every_outage_names_a_test_that_makes_it_happen() -> None:
    page = (ROOT / "docs" / "explanation" / "outages.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith(("| ---", "| What "))]
    assert len(rows) > 25
    assert (
        "| a webhook" in page and "| the database of a table sink" in page and "## While tables are maintained" in page
    )
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert named, f"no test is named: {row}"
        for path, name in named:
            assert re.search(rf"def {name}\(", (ROOT / path).read_text()), f"{path} has no {name}"
