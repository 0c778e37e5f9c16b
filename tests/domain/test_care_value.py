"""What is the matter with a table, how much that is, and what doing something about it would change."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.instants import DAY, HOUR, SECOND
from tidegate.domain.maintenance.debt import Weights, debt
from tidegate.domain.maintenance.health import MEASURES, MIB, Metric, PartitionFiles, TableHealth
from tidegate.domain.maintenance.issues import DEFAULT_LEVELS, DEFAULT_THRESHOLDS, Issue, Severity, issues
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.maintenance.options import check
from tidegate.domain.maintenance.planning import Planner, expected_files, groups
from tidegate.domain.maintenance.state import History, Prediction, ended
from tidegate.domain.maintenance.value import HOT, cost, predict, value

NOW = 2_000 * DAY
REWRITE, EXPIRE = Operation.REWRITE_DATA_FILES, Operation.EXPIRE_SNAPSHOTS


def health(**given: object) -> TableHealth:
    known: dict[str, object] = {"assessed_at": NOW, "snapshot": 7, "data_files": 10, **given}
    return TableHealth(**known)  # type: ignore[arg-type]


def issue(severity: Severity) -> Issue:
    return Issue(severity=severity, kind=severity.value.lower())


# ── debt ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("CARE-6")
def test_the_scores_of_the_text() -> None:
    assert debt(health(newest_snapshot_at=NOW), (), (), 0, NOW).score == 0
    ten_days = health(newest_snapshot_at=NOW - 10 * DAY)
    assert debt(ten_days, [issue(Severity.WARNING)], (), 0, NOW).score == 55
    fresh = health(newest_snapshot_at=NOW)
    assert debt(fresh, [issue(Severity.CRITICAL)], (), 3, NOW).score == 160, "before the failure rate"
    all_failed = debt(fresh, [issue(Severity.CRITICAL)], (False, False, False), 3, NOW)
    assert all_failed.score == 260 and [term.points for term in all_failed.terms] == [100, 100, 60]
    several = [issue(Severity.CRITICAL), issue(Severity.CRITICAL), issue(Severity.INFO)]
    assert debt(fresh, several, (True, False), 0, NOW).score == 260


@pytest.mark.requirement("CARE-6")
@given(
    st.lists(st.sampled_from(Severity), max_size=30),
    st.lists(st.booleans(), max_size=20),
    st.integers(0, 60),
    st.none() | st.integers(0, 4000 * DAY),
)
def test_the_score_is_the_sum_of_terms_that_say_why_and_at_most_1000(
    severities: list[Severity], recent: list[bool], failures: int, age: int | None
) -> None:
    known = health(newest_snapshot_at=None if age is None else NOW - age)
    found = debt(known, [issue(one) for one in severities], recent, failures, NOW)
    assert found.score == min(1000, sum(term.points for term in found.terms))
    assert all(term.why and term.points > 0 for term in found.terms)
    last = recent[:10]
    naive = {Severity.CRITICAL: 100, Severity.WARNING: 50, Severity.INFO: 10}
    expected = sum(naive[one] for one in severities) + 20 * failures + (0 if age is None else age / DAY / 2)
    expected += 100 * last.count(False) / len(last) if last else 0
    assert math.isclose(found.score, min(1000, expected))


@pytest.mark.requirement("CARE-6")
def test_weights_can_be_set() -> None:
    weights = Weights(warning=7, stale_day=0, failure_in_row=1)
    found = debt(health(newest_snapshot_at=0), [issue(Severity.WARNING)], (), 2, NOW, weights)
    assert found.score == 9 and [term.name for term in found.terms] == ["warning_issues", "failure_streak"]


# ── issues ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("CARE-5")
def test_a_figure_warns_and_alarms_from_its_level_on() -> None:
    for percent, severity in ((19, None), (20, Severity.WARNING), (49, Severity.WARNING), (50, Severity.CRITICAL)):
        found = issues(health(data_files=100, small_files=percent), DEFAULT_THRESHOLDS, NOW)
        assert [one.severity for one in found] == ([] if severity is None else [severity])
    worst, other = issues(health(data_files=20_000, small_files=20_000), DEFAULT_THRESHOLDS, NOW)
    assert (worst.kind, other.kind) == ("small_file_percent", "file_count")
    assert worst.threshold == 50 and "100 %" in worst.why


@pytest.mark.requirement("CARE-5")
def test_what_is_unknown_is_no_issue_and_an_empty_table_has_no_other() -> None:
    assert issues(TableHealth(assessed_at=NOW), DEFAULT_THRESHOLDS, NOW) == ()
    [empty] = issues(health(data_files=0, snapshots=900), DEFAULT_THRESHOLDS, NOW)
    assert (empty.severity, empty.kind) == (Severity.INFO, "table_empty")
    [broken] = issues(health(fault="no such file"), DEFAULT_THRESHOLDS, NOW)
    assert (broken.severity, broken.kind) == (Severity.CRITICAL, "unreadable")


@pytest.mark.requirement("CARE-5")
def test_every_figure_is_known_by_name_or_left_out() -> None:
    whole = health(
        data_files=8, small_files=2, large_files=1, data_bytes=80, delete_files=4, snapshots=3, partitions=4,
        oldest_snapshot_at=NOW - DAY, newest_snapshot_at=NOW - HOUR, manifests=5, manifest_bytes=50,
        most_files_in_partition=6,
    )  # fmt: skip
    told = whole.metrics(NOW)
    assert set(told) == {metric.value for metric in Metric} == {metric.value for metric in MEASURES}
    assert (told["small_file_percent"], told["delete_file_ratio"], told["partition_skew"]) == (25, 0.5, 3)
    assert (told["snapshot_age"], told["staleness"]) == (DAY, HOUR)
    assert TableHealth(assessed_at=NOW).metrics(NOW) == {}
    assert set(DEFAULT_LEVELS) < set(Metric)


# ── what a rewrite would do ────────────────────────────────────────────────────────────────────────────────────────

PLANNER = Planner(target=100 * MIB, least=75 * MIB, most=180 * MIB)


def partition(*sizes: int, spec: int = 0, **deletes: dict[int, float]) -> PartitionFiles:
    """Sizes in MiB."""
    return PartitionFiles(partition="p", sizes=tuple(size * MIB for size in sizes), spec=spec, **deletes)  # type: ignore[arg-type]


@pytest.mark.requirement("CARE-7")
@pytest.mark.parametrize(
    ("sizes", "files", "written"),
    [
        ((10, 10, 10, 10), 0, 0),  # four small files: fewer than five, less than the target
        ((10, 10, 10, 10, 10), 5, 1),
        ((60, 60), 2, 2),  # more than the target, but two of them do not fit into one split
        ((40, 70), 2, 1),  # up to a tenth more than the target is one file
        ((40, 71), 2, 2),
        ((30, 30, 30, 21), 4, 2),
        ((80, 100, 170), 0, 0),  # all of a good size
        ((400,), 1, 3),  # too large: written anew as files of at most 140
        ((80, 10, 10, 10, 10, 10), 5, 1),
    ],
)
def test_a_partition_is_planned_as_iceberg_plans_it(sizes: tuple[int, ...], files: int, written: int) -> None:
    planned = groups([partition(*sizes)], PLANNER, 0)
    assert (sum(one.files for one in planned), sum(one.written for one in planned)) == (files, written)


@pytest.mark.requirement("CARE-7")
def test_partitions_are_planned_apart_and_files_of_older_specs_together() -> None:
    three = partition(10, 10, 10)
    assert groups([three, three, three], PLANNER, 0) == []
    [group] = groups([replace(three, spec=1), replace(three, spec=2), three], PLANNER, 0)
    assert (group.files, group.written) == (6, 1)


@pytest.mark.requirement("CARE-7")
def test_deletes_and_settings_choose_files_too() -> None:
    one = partition(100, 100, deletes={0: 3}, deleted={0: 0.4})
    [group] = groups([one], PLANNER, 0)
    assert (group.files, group.others) == (1, 1)
    assert groups([partition(100, deletes={0: 3}, deleted={0: 0.2})], PLANNER, 0) == []
    assert len(groups([partition(100, deletes={0: 3})], replace(PLANNER, delete_files=3), 0)) == 1
    assert groups([partition(100)], replace(PLANNER, everything=True), 0)[0].others == 1
    ten = partition(*[10] * 10)
    assert [one.files for one in groups([ten], replace(PLANNER, group_files=5), 0)] == [5, 5]
    assert [one.files for one in groups([ten], replace(PLANNER, group_bytes=50 * MIB), 0)] == [5, 5]
    assert sum(one.files for one in groups([ten], replace(PLANNER, most_files=6), 0)) == 6


@pytest.mark.requirement("CARE-7")
@given(st.lists(st.integers(1, 400), max_size=40), st.booleans())
def test_no_byte_is_lost_and_no_file_is_planned_twice(sizes: list[int], shuffles: bool) -> None:
    planner = replace(PLANNER, shuffles=shuffles)
    planned = groups([partition(*sizes)], planner, 0)
    chosen = [size for size in sizes if not 75 <= size <= 180]
    assert sum(one.bytes for one in planned) in (0, sum(chosen) * MIB)
    for one in planned:
        assert one.written >= one.bytes / planner.largest_written
    assert all(expected_files(size, PLANNER) >= size // PLANNER.most for size in sizes)


@pytest.mark.requirement("CARE-7")
def test_a_file_is_divided_between_its_row_groups_and_nowhere_else() -> None:
    whole = partition(300)
    assert [one.written for one in groups([whole], PLANNER, 0)] == [3], "one task, that writes on in a new file"
    cut = replace(whole, pieces={0: (60 * MIB,) * 5})
    assert [one.written for one in groups([cut], PLANNER, 0)] == [5], "two of them are more than a split"
    cut = replace(whole, pieces={0: (50 * MIB,) * 6})
    assert [one.written for one in groups([cut], PLANNER, 0)] == [3]
    anywhere = replace(whole, pieces={0: ()})
    assert [one.written for one in groups([anywhere], PLANNER, 0)] == [3]


@pytest.mark.requirement("CARE-7")
def test_deletes_weigh_when_tasks_are_packed_and_files_without_a_row_left_are_gone() -> None:
    two = partition(60, 40, deletes={0: 1}, deleted={0: 0.5})
    assert [one.written for one in groups([two], PLANNER, 0)] == [1]
    heavy = replace(two, delete_bytes={0: MIB})
    assert [one.written for one in groups([heavy], PLANNER, 0)] == [2]
    gone = partition(60, 50, deletes={0: 1, 1: 1}, deleted={0: 1.0, 1: 1.0})
    assert [one.written for one in groups([gone], PLANNER, 0)] == [0]


@pytest.mark.requirement("CARE-7")
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 3)), min_size=5, max_size=9))
def test_files_of_an_older_spec_become_one_for_each_partition_that_their_rows_go_to(
    found: list[tuple[int, int, int]],
) -> None:
    boxes = {at: ((day, day + span), (bucket, bucket)) for at, (day, bucket, span) in enumerate(found)}
    older = replace(partition(*[1] * len(found), spec=0), boxes=boxes)
    cells = {(day + more, bucket) for day, bucket, span in found for more in range(span + 1)}
    [group] = groups([older], PLANNER, 1)
    assert group.written == len(cells)
    [unknown] = groups([replace(older, boxes={0: boxes[0]})], PLANNER, 1)
    assert unknown.written is None
    said = predict(REWRITE, health(files=(replace(older, boxes={}),), spec=1), {}, NOW)
    assert said.removes is None and said.files == len(found) and not said.noop


@pytest.mark.requirement("CARE-12")
def test_what_would_change_nothing_is_known_beforehand_and_the_unknown_is_not_nothing() -> None:
    few = health(files=(partition(*[1] * 4),))
    assert predict(REWRITE, few, {}, NOW).noop
    found = predict(REWRITE, health(files=(partition(*[1] * 9),)), {}, NOW)
    assert (found.removes, found.files, found.bytes, found.noop) == (8, 9, 9 * MIB, False)
    assert predict(REWRITE, health(data_files=0), {}, NOW).noop
    for unknown in (None, health(), health(fault="gone", files=())):
        assert not predict(REWRITE, unknown, {}, NOW).noop
    some = predict(REWRITE, health(files=(partition(*[1] * 9),)), {"where": "a = 1"}, NOW)
    assert some.removes is None and some.bytes == 9 * MIB, "at most"
    assert predict(Operation.REWRITE_MANIFESTS, health(manifests=1, manifest_bytes=9), {}, NOW).noop
    assert predict(Operation.REWRITE_MANIFESTS, health(manifests=40, manifest_bytes=9 * MIB), {}, NOW).removes == 38
    assert predict(Operation.REWRITE_POSITION_DELETE_FILES, health(position_delete_files=0), {}, NOW).noop
    assert not predict(Operation.REWRITE_POSITION_DELETE_FILES, health(), {}, NOW).noop
    assert not predict(Operation.REMOVE_ORPHAN_FILES, health(), {}, NOW).noop
    assert predict(Operation.COMPUTE_TABLE_STATS, health(stats_snapshot=7), {}, NOW).noop
    assert not predict(Operation.COMPUTE_TABLE_STATS, health(stats_snapshot=6), {}, NOW).noop


@pytest.mark.requirement("CARE-12")
@given(st.lists(st.integers(0, 20 * DAY), max_size=12), st.integers(0, 20 * DAY), st.integers(1, 5))
def test_expiry_is_predicted_by_age_and_number(ages: list[int], older: int, keep: int) -> None:
    times = tuple(sorted(NOW - age for age in ages))
    found = predict(EXPIRE, health(snapshot_times=times), {"older_than": older, "retain_last": keep}, NOW)
    kept = [at for place, at in enumerate(times) if place >= len(times) - keep or NOW - at <= older]
    assert found.removes == len(times) - len(kept)
    if older:
        table_says = health(snapshot_times=times, max_snapshot_age=older, min_snapshots=keep)
        assert predict(EXPIRE, table_says, {}, NOW).removes == found.removes


@pytest.mark.requirement("CARE-2", "CARE-12")
def test_options_change_what_is_predicted() -> None:
    table = health(files=(partition(*[10] * 4),))
    options, faults = check(REWRITE, {"min-input-files": 2, "target-file-size-bytes": "20 MiB"})
    assert not faults
    assert predict(REWRITE, table, options, NOW).removes == 2
    assert predict(REWRITE, replace(table, target_file_bytes=12 * MIB), {}, NOW).noop, "the table's own target"


# ── what it is worth ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("CARE-7")
def test_gain_falls_with_the_chance_of_a_conflict_and_cost_comes_from_history() -> None:
    done = Prediction(removes=100, files=110, bytes=80 * MIB)
    calm = value(REWRITE, done, History(), health(row_delete_commits=0))
    assert calm.gain == 100 and calm.conflict == 0
    long = replace(done, bytes=20_000 * MIB)
    busy = value(REWRITE, long, History(), health(row_delete_commits=HOT - 1))
    assert busy.conflict > 0.2 and (busy.gain or 0) < 80 and (busy.per_second or 0) < (calm.per_second or 0)
    stepwise = value(REWRITE, long, History(), health(row_delete_commits=24 * 60))
    assert 0 < stepwise.conflict < 0.05, "only a step is lost"
    deleted = value(REWRITE, replace(done, deletes=40), History(), health())
    assert deleted.gain == 140, "delete files are opened, too"
    slow = ended(
        History(), outcome="succeeded", succeeded=True, changed=True, at=NOW, took=100 * SECOND, bytes=100 * MIB
    )
    assert slow.bytes_per_second == MIB
    assert value(REWRITE, done, slow, health()).seconds > 80
    assert value(EXPIRE, Prediction(removes=None), History(), health()).gain is None


@pytest.mark.requirement("CARE-7")
def test_what_must_be_reserved_is_never_guessed_too_small() -> None:
    assert cost(REWRITE, Prediction(bytes=5), health(data_bytes=99)) == 5
    assert cost(REWRITE, Prediction(), health(data_bytes=99)) == 99
    assert cost(REWRITE, Prediction(), None) is None
    assert cost(EXPIRE, Prediction(), None) == 0
