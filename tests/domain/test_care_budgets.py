"""What is spent on maintenance: never more than the budget, on what is worth it, and nothing starves."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.domain.instants import HOUR
from tidegate.domain.maintenance.budget import PATIENCE, Candidate, Room, Spend, select
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.maintenance.policy import Budget, Rank

NOW = 10**15


def candidate(n: int, size: int | None = 0, *, debt: float = 0, gain: float = 0, since: int = NOW) -> Candidate:
    name = f"lake.raw.t{n:04}"
    return Candidate(table=name, operation=Operation.REWRITE_DATA_FILES, bytes=size, since=since, debt=debt, gain=gain)


def room(spent: Sequence[Spend] = (), now: int = NOW, **budget: int) -> Room:
    return Room(Budget(**budget), spent, now)


def best(items: Sequence[Candidate], most: int) -> float:
    """The optimum, by trying every selection."""
    chosen = itertools.chain.from_iterable(itertools.combinations(items, n) for n in range(len(items) + 1))
    fits = (some for some in chosen if sum(one.bytes or 0 for one in some) <= most)
    return max(sum(one.gain for one in some) for some in fits)


def optimum(items: Sequence[Candidate], most: int) -> float:
    """The same by dynamic programming, for more items."""
    reached = [0.0] * (most + 1)
    for one in items:
        for size in range(most, (one.bytes or 0) - 1, -1):
            reached[size] = max(reached[size], reached[size - (one.bytes or 0)] + one.gain)
    return reached[most]


sizes, gains = st.integers(1, 60), st.integers(1, 100)


@pytest.mark.requirement("CARE-7")
@given(st.lists(st.tuples(sizes, gains), min_size=1, max_size=9), st.integers(1, 200))
@settings(deadline=None, max_examples=50)
def test_a_small_selection_by_value_is_the_optimum(drawn: list[tuple[int, int]], most: int) -> None:
    items = [candidate(n, size, gain=gain) for n, (size, gain) in enumerate(drawn)]
    chosen, _ = select(items, room(bytes=most), Rank.VALUE)
    assert sum(one.gain for one in chosen) == best(items, most)


@pytest.mark.requirement("CARE-7")
@given(st.randoms(use_true_random=False), st.integers(100, 400), st.integers(20, 1500))
@settings(deadline=None, max_examples=5)
def test_a_large_selection_by_value_reaches_95_percent_of_the_optimum(random, count: int, most: int) -> None:  # type: ignore[no-untyped-def]
    items = [candidate(n, random.randint(1, 60), gain=random.randint(1, 100)) for n in range(count)]
    chosen, _ = select(items, room(bytes=most), Rank.VALUE)
    assert sum(one.bytes or 0 for one in chosen) <= most
    assert sum(one.gain for one in chosen) >= 0.95 * optimum(items, most)


spends = st.builds(
    Spend,
    at=st.integers(NOW - 3 * HOUR, NOW),
    table=st.integers(0, 9).map(lambda n: f"lake.raw.t{n:04}"),
    bytes=st.integers(0, 50),
    open=st.booleans(),
)
limits = st.sampled_from([0, 1, 2, 5])


@pytest.mark.requirement("CARE-7")
@given(
    st.lists(spends, max_size=6),
    st.lists(st.tuples(st.none() | sizes, gains, st.integers(0, 20)), max_size=8),
    st.fixed_dictionaries({"tables": limits, "operations": limits, "bytes": st.sampled_from([0, 40, 120])}),
    st.sampled_from(Rank),
)
@settings(deadline=None)
def test_no_budget_is_ever_overshot_and_who_finds_no_room_is_told_why(spent, drawn, budget, rank) -> None:  # type: ignore[no-untyped-def]
    items = [
        candidate(n, size, debt=gain, gain=gain, since=NOW - age * HOUR) for n, (size, gain, age) in enumerate(drawn)
    ]
    before = room(spent, **budget)
    over = [before.bytes, before.operations, len(before.tables)]
    chosen, left = select(items, room(spent, **budget), rank)
    assert sorted(one.table for one in (*chosen, *(one for one, _ in left))) == sorted(one.table for one in items)
    counting = [one for one in spent if one.open or one.at > NOW - HOUR]
    size = sum(one.bytes for one in counting) + sum(one.bytes or 0 for one in chosen)
    operations = len(counting) + len(chosen)
    tables = len({one.table for one in counting} | {one.table for one in chosen})
    for used, limit, already in zip(
        (size, operations, tables), (budget["bytes"], budget["operations"], budget["tables"]), over, strict=True
    ):
        assert not limit or used <= max(limit, already)
    if budget["bytes"]:
        assert all(one.bytes is not None for one in chosen), "the unknown is not nothing"
    for _, refusal in left:
        assert refusal.why and (refusal.until is None or refusal.until > NOW)


@pytest.mark.requirement("CARE-7")
@given(
    st.lists(spends, max_size=7),
    sizes,
    st.integers(0, 9),
    st.fixed_dictionaries({"tables": limits, "operations": limits, "bytes": st.sampled_from([0, 60, 120])}),
)
def test_room_is_promised_for_the_first_instant_at_which_there_is_some(spent, size, table, budget) -> None:  # type: ignore[no-untyped-def]
    one = candidate(table, size)
    now_room = room(spent, **budget)
    if now_room.fits(one):
        return
    later = sorted(spend.at + HOUR for spend in spent if not spend.open and spend.at > NOW - HOUR)
    first = next((at for at in later if room(spent, at, **budget).fits(one)), None)
    assert now_room.refusal(one).until == first


@pytest.mark.requirement("CARE-7")
def test_a_table_that_counts_already_needs_no_room_for_a_table_even_where_more_count_than_may() -> None:
    """As after a budget was made smaller."""
    begun = NOW - HOUR
    first, later = Spend(at=begun + 1, table="lake.raw.t0000", bytes=46, open=False), begun + 2
    spent = [first, *(Spend(at=later, table=f"lake.raw.t000{n}", bytes=0, open=False) for n in (0, 1))]
    assert room(spent, tables=1, bytes=60).refusal(candidate(0, 15)).until == NOW + 1


@pytest.mark.requirement("CARE-7")
def test_the_span_rolls_and_what_is_under_way_keeps_its_reservation() -> None:
    ended = Spend(at=NOW - HOUR + 1, table="a", bytes=80, open=False)
    under_way = Spend(at=NOW - 9 * HOUR, table="b", bytes=10, open=True)
    one = candidate(1, 20)
    now_room = room([ended, under_way], bytes=100)
    assert not now_room.fits(one) and now_room.refusal(one).until == NOW + 1
    assert room([ended, under_way], NOW + 1, bytes=100).fits(one)
    assert room([under_way], bytes=25).refusal(one).until is None, "nobody knows when that ends"


@pytest.mark.requirement("CARE-7")
def test_a_budget_smaller_than_an_operation_is_shown_and_starves_nobody_else() -> None:
    large, small = candidate(1, 500, since=NOW - 99 * HOUR), candidate(2, 50)
    chosen, [(left, refusal)] = select([large, small], room(bytes=100), Rank.DEBT)
    assert chosen == [small] and left is large
    assert "raise budget.bytes" in refusal.why and refusal.until is None


@pytest.mark.requirement("CARE-7")
@pytest.mark.parametrize("rank", Rank)
@given(st.integers(1, 12), st.integers(1, 30))
def test_what_waited_long_leaves_half_of_the_room_to_what_is_best(rank: Rank, old: int, size: int) -> None:
    since = NOW - PATIENCE * HOUR
    waited = [candidate(number, size, gain=number, debt=number, since=since) for number in range(1, old + 1)]
    better = [candidate(number, 10, gain=900, debt=900) for number in range(100, 105)]
    chosen, _ = select([*better, *waited], room(bytes=100), rank)
    assert chosen[0] is waited[-1], "of those that waited as long, the best"
    aged = sum(one.bytes or 0 for one in chosen if one in waited)
    assert sum(one in chosen for one in better) == 5 or aged <= max(50, size)


@pytest.mark.requirement("CARE-7")
@pytest.mark.parametrize("rank", Rank)
def test_nothing_starves_however_much_better_the_others_are(rank: Rank) -> None:
    """A large table of little worth against small ones of great worth that come again every hour."""
    large = candidate(0, 90, debt=1, gain=1)
    spent: list[Spend] = []
    for hour in range(3 * PATIENCE):
        now = NOW + hour * HOUR
        better = [candidate(n, 30, debt=900, gain=900, since=now) for n in range(1, 9)]
        chosen, _ = select([large, *better], room(spent, now, bytes=100), rank)
        spent += [Spend(at=now, table=one.table, bytes=one.bytes or 0, open=False) for one in chosen]
        if large in chosen:
            assert hour >= PATIENCE
            return
    raise AssertionError("starved")


@pytest.mark.requirement("CARE-7")
def test_without_limits_everything_runs_and_ten_thousand_are_selected_at_once() -> None:
    items = [candidate(n, None) for n in range(100)]
    assert select(items, room(), Rank.VALUE) == (items, [])
    many = [candidate(n, 1 + n * 7919 % 1000, gain=1 + n * 104729 % 977) for n in range(10_000)]
    chosen, left = select(many, room(bytes=100_000), Rank.VALUE)
    assert len(chosen) + len(left) == 10_000 and sum(one.bytes or 0 for one in chosen) <= 100_000
