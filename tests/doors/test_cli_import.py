"""`tidegate import`: what another scheduler says becomes documents that apply takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidegate.documents import files

from .conftest import tidegate

POLICY = {
    "name": "nightly",
    "tablePattern": "lake.raw.*",
    "rewriteDataFiles": {"strategy": "BINPACK"},
    "rewriteDataFilesSchedule": {"cronExpression": "0 2 * * *", "windowStart": "02:00", "windowEnd": "06:00"},
}


@pytest.mark.requirement("CARE-1")
def test_what_is_imported_is_what_apply_reads(tmp_path: Path) -> None:
    file = tmp_path / "policies.json"
    file.write_text(json.dumps([POLICY, {**POLICY, "name": "second"}]))
    done = tidegate("import", "floe", str(file))
    assert done.status == 0 and "timezone" in done.err
    made = files.check(done.out, "stdin")
    assert [one.metadata.name for one in made] == ["nightly", "second"]
    assert [one["spec"] for one in tidegate("import", "floe", str(file), "-o", "json").json] == [
        one.document["spec"]
        for one in made  # type: ignore[union-attr]
    ]


@pytest.mark.requirement("CARE-2")
def test_what_cannot_be_imported_is_refused_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "policies.json"
    file.write_text(json.dumps([POLICY, {**POLICY, "compact": 1}]))
    refused = tidegate("import", "floe", str(file))
    assert refused.status == 1 and refused.out == "" and "policies.json[1] compact" in refused.err
    assert tidegate("import", "floe", str(tmp_path / "missing.json")).status == 1
    file.write_text("[" * 200_000)
    assert "nested too deeply" in tidegate("import", "floe", str(file)).err
    assert tidegate("import", "quartz", str(file)).status == 2
