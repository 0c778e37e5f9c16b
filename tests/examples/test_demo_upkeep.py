"""What the demo writes beforehand: the airline's rows, on days that never meet those that land."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo import upkeep

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


@given(st.integers(0, 364), st.integers(0, 58))
def test_past_days_never_meet_those_that_land(newest: int, landed: int) -> None:
    day = date(2013, 1, 1) + timedelta(days=newest)
    past = {upkeep._back(day, upkeep.BEFORE + number) for number in range(upkeep.DAYS)}
    assert len(past) == upkeep.DAYS and all(one.year == 2013 for one in past)
    assert upkeep._back(day, -landed) not in past


@pytest.mark.slow
def test_the_past_is_the_airlines_in_small_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(upkeep, "DAYS", 2)
    monkeypatch.setattr(upkeep, "PIECES", 3)
    from flights_data import file_of, rows_per_day

    catalog = SqlCatalog("lake", uri="sqlite:///:memory:", warehouse=tmp_path.as_uri())
    told: list[int] = []
    past = upkeep.write_past(catalog, file_of, date(2013, 1, 10), told.append)
    rows = catalog.load_table(upkeep.TABLE).scan().to_arrow()
    catalog.engine.dispose()
    per_day = Counter(one.isoformat() for one in rows["flight_date"].to_pylist())
    assert per_day == {day.isoformat(): rows_per_day()[day.isoformat()] for day in past.days}
    assert (len(past.snapshots), past.shape.files, past.rows, told) == (6, 6, rows.num_rows, [1, 2])
    sys.modules.pop("flights_data", None)
