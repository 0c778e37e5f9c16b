"""Which columns an operation's options speak of, and what is said of one that there is not."""

from __future__ import annotations

import pytest

from tidegate.domain.maintenance.columns import without_columns
from tidegate.domain.maintenance.health import TableHealth
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.maintenance.value import predict

REWRITE, STATISTICS = Operation.REWRITE_DATA_FILES, Operation.COMPUTE_TABLE_STATS
COLUMNS = ("id", "day", "where.city", "größe", "odd name")


@pytest.mark.requirement("CARE-2")
@pytest.mark.parametrize(
    ("order", "missing"),
    [
        ("id", ""),
        ("id DESC NULLS FIRST, day asc nulls last,where.city", ""),
        ("days(day) ASC, bucket(16, id), truncate(where.city, 3)", ""),
        ("`odd name` desc, größe", ""),
        ("zorder(ID, Day)", ""),
        ("zorder(id, region)", "region"),
        ("hilbert(region)", "region"),
        ("ID", "ID"),
        ("id, where.town DESC", "where.town"),
        ("bucket(16, region)", "region"),
        ("!?", ""),
        ("bucket('x', id)", ""),
    ],
)
def test_a_column_that_is_not_there_is_named_and_what_cannot_be_read_is_left_to_iceberg(
    order: str, missing: str
) -> None:
    said = without_columns(REWRITE, {"sort_order": order}, COLUMNS, "lake.raw.t")
    assert said.startswith(f"there is no column {missing!r} in lake.raw.t") if missing else not said


def test_the_nearest_is_named_and_of_many_only_the_first() -> None:
    near = without_columns(REWRITE, {"sort_order": "where.cty"}, COLUMNS)
    assert near == (
        "there is no column 'where.cty'; did you mean 'where.city'? (it has: id, day, where.city, größe, odd name)"
    )
    many = without_columns(STATISTICS, {"columns": ("x",)}, [f"c{number}" for number in range(23)])
    assert many.endswith("c19 and 3 more)")
    assert not without_columns(STATISTICS, {"columns": ("id",)}, COLUMNS)


def test_where_the_columns_are_not_known_a_prediction_says_so() -> None:
    unmeasured = TableHealth(assessed_at=1, data_files=2, files=())
    assert not without_columns(REWRITE, {"sort_order": "nope"}, None)
    options = {"rewrite-all": True, "sort_order": "nope"}
    told = predict(REWRITE, TableHealth(assessed_at=1, data_files=2), options, 2)
    assert not told.impossible and "the columns that its options name is seen when it runs" in told.why
    assert "columns" not in predict(REWRITE, unmeasured, options, 2).why, "it has nothing to do"
