"""What is new in a table, over histories made at random: each commit of the line is told once, or there is a gap."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.lake import (
    ABSENT,
    MOST_NAMES,
    GapReason,
    History,
    Place,
    Snapshot,
    Walk,
    updated_payloads,
    walk,
)


class Table:
    """A table as Iceberg keeps one."""

    def __init__(self, uuid: str = "a") -> None:
        self.uuid, self.known, self.current, self.sequence = uuid, dict[int, Snapshot](), None, 0

    current: int | None

    def commit(
        self, operation: str = "append", *, parent: int | None | str = "current", maintenance: bool = False
    ) -> int:
        self.sequence += 1
        before = self.current if parent == "current" else parent
        assert before is None or isinstance(before, int)
        number = self.sequence * 100
        self.known[number] = Snapshot(
            id=number, parent=before, sequence=self.sequence, operation=operation, rows=1, maintenance=maintenance
        )
        self.current = number
        return number

    def line(self) -> list[int]:
        found, at = [], self.current
        while at is not None and at in self.known:
            found.append(at)
            at = self.known[at].parent
        return found[::-1]

    def expire(self, keep: int, *, cut: bool = False) -> None:
        """As expire_snapshots: what is not among the newest of the line goes. PyIceberg also cuts their parents."""
        left = set(self.line()[-keep:])
        self.known = {number: one for number, one in self.known.items() if number in left}
        for number, one in self.known.items():
            if cut and one.parent not in left:
                self.known[number] = replace(one, parent=None)

    @property
    def history(self) -> History:
        return History(table_uuid=self.uuid, current=self.current, snapshots=dict(self.known))

    def look(self, place: Place | None, most: int = 1000) -> Walk:
        return walk(place, self.history, most)


def ids(found: Walk) -> list[int]:
    return [one.id for one in found.news]


def test_a_first_look_tells_nothing_of_the_past() -> None:
    table = Table()
    table.commit()
    last = table.commit()
    found = table.look(None)
    assert (ids(found), found.gap, found.place.snapshot) == ([], None, last)


@pytest.mark.requirement("LAKE-1")
def test_a_table_that_appears_is_new_from_its_first_snapshot() -> None:
    table = Table()
    made = [table.commit(), table.commit()]
    found = table.look(ABSENT)
    assert (ids(found), found.gap) == (made, None)


@pytest.mark.requirement("LAKE-1")
def test_compaction_and_maintenance_are_no_news_but_move_the_cursor() -> None:
    table = Table()
    table.commit()
    place = table.look(None).place
    table.commit("replace")
    table.commit("delete", maintenance=True)
    found = table.look(place)
    assert (ids(found), found.gap) == ([], None)
    assert found.place.snapshot == table.current
    new = table.commit("overwrite")
    assert ids(table.look(found.place)) == [new]


@pytest.mark.requirement("LAKE-1")
def test_a_rollback_is_no_news_and_what_follows_is() -> None:
    table = Table()
    first, _, place = table.commit(), table.commit(), table.look(None).place
    table.current = first
    back = table.look(place)
    assert (ids(back), back.gap, back.place.snapshot) == ([], None, first)
    new = table.commit()
    assert ids(table.look(back.place)) == [new]


@pytest.mark.requirement("LAKE-1")
def test_a_rollback_whose_snapshot_expired_is_no_news_either() -> None:
    table = Table()
    first, _, place = table.commit(), table.commit(), table.look(None).place
    table.current = first
    table.expire(5)
    assert (ids(table.look(place)), table.look(place).gap) == ([], None)


@pytest.mark.requirement("LAKE-3")
def test_a_rewritten_history_is_a_gap_and_what_is_new_in_it_is_told() -> None:
    table = Table()
    first, second, place = table.commit(), table.commit(), table.look(None).place
    table.current = first
    new = table.commit()
    found = table.look(place)
    assert found.gap is not None and found.gap.reason is GapReason.REWRITTEN
    assert (found.gap.previous_snapshot, found.gap.snapshot) == (second, new)
    assert ids(found) == [new]


@pytest.mark.requirement("LAKE-3")
def test_a_replaced_table_is_a_rewritten_history() -> None:
    table = Table()
    table.commit()
    place = table.look(None).place
    new = table.commit(parent=None)
    found = table.look(place)
    assert found.gap is not None and found.gap.reason is GapReason.REWRITTEN
    assert ids(found) == [new]


@pytest.mark.requirement("LAKE-3")
def test_a_table_made_anew_is_a_gap_and_wholly_new() -> None:
    old = Table("a")
    old.commit()
    place, table = old.look(None).place, Table("b")
    new = table.commit()
    found = table.look(place)
    assert found.gap is not None and found.gap.reason is GapReason.RECREATED
    assert ids(found) == [new]
    assert found.place.table_uuid == "b"


@pytest.mark.requirement("LAKE-3")
def test_a_cursor_that_fell_off_history_is_a_gap_and_what_is_left_is_told() -> None:
    table = Table()
    table.commit()
    place = table.look(None).place
    for _ in range(5):
        table.commit()
    table.expire(2)
    found = table.look(place)
    assert found.gap is not None and found.gap.reason is GapReason.EXPIRED
    assert ids(found) == table.line()


@pytest.mark.parametrize("cut", [False, True])
def test_the_expiry_of_what_was_told_loses_nothing(cut: bool) -> None:
    table = Table()
    table.commit()
    place = table.look(None).place
    new = [table.commit(), table.commit()]
    table.expire(2, cut=cut)
    found = table.look(place)
    assert (ids(found), found.gap, found.news[0].parent) == (new, None, place.snapshot)


OPERATIONS = st.sampled_from(["append", "overwrite", "delete", "replace", "look", "rollback", "expire", "cut"])


@given(st.lists(OPERATIONS, max_size=40), st.integers(1, 3))
def test_each_commit_is_told_once_or_lies_behind_a_gap(steps: list[str], most: int) -> None:
    """The oracle: of all data commits ever, those that were told, twice never; those never told are gone from the
    line (rolled back before they were seen), or a gap was said."""
    table = Table()
    table.commit()
    place = table.look(None).place
    told: list[int] = []
    made: list[int] = []
    gaps = 0

    def look() -> None:
        nonlocal place, gaps
        while True:
            found = table.look(place, most)
            told.extend(ids(found))
            gaps += found.gap is not None
            place = found.place
            if not found.left:
                return

    for step in steps:
        match step:
            case "look":
                look()
            case "rollback" if len(table.line()) > 1:
                table.current = table.line()[-2]
            case "expire" | "cut":
                table.expire(2, cut=step == "cut")
            case "append" | "overwrite" | "delete":
                made.append(table.commit(step))
            case "replace":
                table.commit(step)
    look()
    assert len(told) == len(set(told))
    assert set(told) <= set(made)
    if not gaps:
        line = set(table.line())
        assert {one for one in made if one in line} <= set(told)
    assert place.snapshot == table.current


def test_a_long_history_comes_in_pieces_and_whole() -> None:
    table = Table()
    table.commit()
    place = table.look(None).place
    made = [table.commit() for _ in range(10)]
    told: list[int] = []
    left = True
    while left:
        found = table.look(place, 3)
        told += ids(found)
        place, left = found.place, found.left
    assert told == made


def test_a_commit_of_very_many_partitions_counts_its_amounts_once() -> None:
    snapshot = Snapshot(id=1, parent=None, sequence=1, operation="append", rows=7, bytes=8, files=9)
    names = tuple(f"day={number}" for number in range(2 * MOST_NAMES + 1))
    payloads = updated_payloads(snapshot, "a", names, ("x=1",))
    assert [one["rows"] for one in payloads] == [7, 0, 0]
    assert [name for one in payloads for name in one["partitions_added"]] == list(names)
    assert payloads[-1]["partitions_changed"] == ["x=1"]
