"""Which policy speaks for a table, what options are accepted, and what JSON of health says."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.instants import DAY
from tidegate.domain.maintenance import options
from tidegate.domain.maintenance.health import PartitionFiles, TableHealth
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.maintenance.patterns import TablePattern
from tidegate.domain.maintenance.policy import Policy, resolve, tie_warning
from tidegate.domain.maintenance.wire import health_json, health_of, pack, unpack

LEVELS = st.sampled_from(["lake", "raw", "sub", "orders", "order_items", "o"])
PATHS = st.lists(LEVELS, min_size=3, max_size=5).map(".".join)
PARTS = st.sampled_from(["*", "**", "lake", "raw", "o*", "?rders", "ord*", "/ord.*/", "/(raw|sub)/", "/.*/"])
PATTERNS = st.lists(PARTS, min_size=3, max_size=5).map(".".join)


def policy(name: str, tables: str, priority: int = 0, enabled: bool = True) -> Policy:
    return Policy(name=name, tables=TablePattern(tables), operations={}, priority=priority, enabled=enabled)


def naive(pattern: list[str], path: list[str]) -> bool:
    """By definition, with no thought of speed."""
    if not pattern or not path:
        return not path and all(one == "**" for one in pattern)
    if pattern[0] == "**":
        return naive(pattern[1:], path) or naive(pattern, path[1:])
    level = pattern[0]
    expression = level[1:-1] if level.startswith("/") else level.replace("*", ".*").replace("?", ".")
    return re.fullmatch(expression, path[0]) is not None and naive(pattern[1:], path[1:])


@pytest.mark.requirement("CARE-1")
@given(st.lists(PARTS, min_size=3, max_size=5), PATHS)
def test_a_pattern_is_matched_level_by_level(pattern: list[str], path: str) -> None:
    assert TablePattern(".".join(pattern)).matches(path) == naive(pattern, path.split("."))


@pytest.mark.requirement("CARE-1")
def test_a_dot_between_slashes_belongs_to_the_expression() -> None:
    pattern = TablePattern(r"/prod.\d+/.raw./orders_.*/")
    assert pattern.matches("prod_17.raw.orders_eu")
    assert not pattern.matches("prod_17.raw.customers") and not pattern.matches("prod_17.raw.orders_eu.x")


@pytest.mark.requirement("CARE-1")
@pytest.mark.parametrize(
    "text", ["", "orders", "raw.orders", "*", "lake..x", "lake.raw.", "a.b./(/", "a.b./(x+)+/", "a.b.x**"]
)
def test_what_is_no_pattern_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(ValueError):
        TablePattern(text)


@pytest.mark.requirement("CARE-1")
def test_priority_goes_before_specificity_and_specificity_before_the_name() -> None:
    wide, narrow, exact = policy("b", "**"), policy("c", "lake.raw.*"), policy("d", "lake.raw.orders")
    chosen = resolve([wide, narrow, exact], "lake.raw.orders")
    assert chosen.policy == exact and chosen.others == ("c", "b") and not chosen.tied
    strong = policy("a", "**", priority=1)
    assert resolve([exact, strong], "lake.raw.orders").policy == strong
    assert resolve([policy("x", "lake.raw.*", 9, enabled=False), narrow], "lake.raw.t").policy == narrow
    assert resolve([narrow], "lake.mart.t").policy is None


@pytest.mark.requirement("CARE-1")
@given(st.permutations(["b", "a", "c"]))
def test_of_equals_the_first_name_speaks_and_people_are_warned(names: list[str]) -> None:
    chosen = resolve([policy(name, "lake.raw.*") for name in names], "lake.raw.t")
    assert chosen.policy is not None and chosen.policy.name == "a" and chosen.tied == ("b", "c")
    assert "higher priority" in tie_warning(chosen)


@pytest.mark.requirement("CARE-1")
@given(st.lists(st.tuples(st.integers(0, 2), PATTERNS), max_size=6), PATHS, st.randoms())
def test_the_answer_does_not_depend_on_the_order_in_which_policies_are_listed(drawn, path, random) -> None:  # type: ignore[no-untyped-def]
    listed = [policy(f"p{number}", text, priority) for number, (priority, text) in enumerate(drawn)]
    mixed = list(listed)
    random.shuffle(mixed)
    assert resolve(listed, path) == resolve(mixed, path)


@pytest.mark.requirement("CARE-2")
def test_options_are_typed_and_an_unknown_one_is_refused_by_name() -> None:
    values, faults = options.check(
        Operation.REWRITE_DATA_FILES, {"strategy": "BINPACK", "target-file-size-bytes": "128 MiB", "min-input-files": 2}
    )
    assert not faults and values == {"strategy": "binpack", "target-file-size-bytes": 128 << 20, "min-input-files": 2}
    _, faults = options.check(Operation.REWRITE_DATA_FILES, {"target_file_size_bytes": 1, "olderThan": "P1D"})
    assert [fault.path for fault in faults] == ["target_file_size_bytes", "olderThan"]
    assert "did you mean 'target-file-size-bytes'?" in faults[0].reason
    values, _ = options.check(Operation.EXPIRE_SNAPSHOTS, {"older_than": "7d", "retain_last": 10})
    assert values == {"older_than": 7 * DAY, "retain_last": 10}


@pytest.mark.requirement("CARE-2")
@pytest.mark.parametrize(
    ("operation", "given", "path"),
    [
        ("rewrite_data_files", {"strategy": "zip"}, "strategy"),
        ("rewrite_data_files", {"min-input-files": 0}, "min-input-files"),
        ("rewrite_data_files", {"min-input-files": True}, "min-input-files"),
        ("rewrite_data_files", {"strategy": "binpack", "sort_order": "a"}, "sort_order"),
        ("rewrite_data_files", {"compression-factor": 2}, "compression-factor"),
        ("rewrite_data_files", {"sort_order": "a", "var-length-contribution": 4}, "var-length-contribution"),
        ("rewrite_data_files", {"target-file-size-bytes": 10, "min-file-size-bytes": 10}, "min-file-size-bytes"),
        ("rewrite_data_files", {"target-file-size-bytes": "big"}, "target-file-size-bytes"),
        ("remove_orphan_files", {"older_than": "P2D"}, "older_than"),
        ("remove_orphan_files", {"prefix_mismatch_mode": "DELETE"}, "prefix_mismatch_mode"),
        ("expire_snapshots", {"snapshot_ids": []}, "snapshot_ids"),
        ("compute_table_stats", {"columns": "a"}, "columns"),
        ("rewrite_position_delete_files", {"delete-ratio-threshold": 0.5}, "delete-ratio-threshold"),
    ],
)
def test_what_does_not_fit_an_option_is_refused(operation: str, given: dict[str, object], path: str) -> None:
    _, faults = options.check(Operation(operation), given)
    assert [fault.path for fault in faults] == [path]


@pytest.mark.requirement("CARE-2")
@pytest.mark.parametrize("operation", list(Operation))
def test_options_are_read_back_as_they_are_written(operation: Operation) -> None:
    given = {
        "older_than": "P30D", "retain_last": 3, "snapshot_ids": [5, 7], "equal_schemes": {"s3a": "s3"},
        "sort_order": "zorder(a, b)", "target-file-size-bytes": "1 GiB", "sort_by": ["day"], "columns": ["a"],
        "snapshot_id": 5,
    }  # fmt: skip
    values, faults = options.check(operation, {k: v for k, v in given.items() if k in options.OPTIONS[operation]})
    assert not faults and values
    assert options.check(operation, options.written(operation, values)) == (values, [])


@pytest.mark.requirement("CARE-5")
@given(st.lists(st.integers(-(1 << 62), 1 << 62)))
def test_packed_numbers_come_back(numbers: list[int]) -> None:
    assert unpack(pack(numbers)) == tuple(numbers)


@pytest.mark.requirement("CARE-5")
def test_health_comes_back_from_its_json_and_what_is_unknown_is_left_out() -> None:
    files = (PartitionFiles(partition="day=1", sizes=(1, 2, 3), deletes={1: 2}, deleted={1: 0.5}, changed_at=9),)
    files += (PartitionFiles(partition="", sizes=(9, 9), delete_bytes={1: 7}, pieces={0: (4, 5), 1: ()}, boxes={}),)
    files += (PartitionFiles(partition="", sizes=(9, 9), boxes={0: ((1, 2), (-3, 3)), 1: ((0, 0), (5, 5))}),)
    health = TableHealth(assessed_at=5, snapshot=7, data_files=3, snapshots=0, snapshot_times=(1, 2), files=files)
    said = health_json(health)
    assert health_of(said) == health and health_of({**said, "later": 1}) == health
    assert "manifests" not in said and said["snapshots"] == 0
