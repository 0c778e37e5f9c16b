"""Backfills, decided: any walk, however it is sliced and whatever becomes of its runs, does each instant once."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.domain.backfills import (
    Asked,
    Backfill,
    BackfillState,
    Counts,
    Item,
    Order,
    Reprocess,
    Standing,
    decide,
    identity,
    parse_identity,
    reach,
    standing,
    total,
    upcoming,
    wanted,
)
from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import DAY, HOUR, parse_instant
from tidegate.domain.runs import State
from tidegate.domain.triggers import AnyOf, Cron, Interval, Trigger, WindowDays

pytestmark = pytest.mark.requirement("CATCH-6")
START = parse_instant("2026-03-28T22:00:00Z")  # Europe's clocks change within
ENDS = [State.SUCCEEDED, State.FAILED, State.CANCELLED, State.SUPERSEDED, State.EXPIRED]
TRIGGERS: list[Trigger] = [
    Cron(expression="*/7 * * * *", timezone="Europe/Berlin"),
    Cron(expression="30 2 * * *", timezone="Europe/Berlin"),
    Interval(every="PT13M"),
    AnyOf(triggers=(Cron(expression="0 * * * *"), Interval(every="PT20M"))),
]


@settings(deadline=None, max_examples=25)
@given(
    trigger=st.sampled_from(TRIGGERS),
    order=st.sampled_from(Order),
    reprocess=st.sampled_from(Reprocess),
    concurrency=st.integers(1, 5),
    share=st.integers(1, 9),
    fate=st.integers(0, 1 << 30),
)
def test_every_instant_is_run_or_passed_and_none_twice(
    trigger: Trigger, order: Order, reprocess: Reprocess, concurrency: int, share: int, fate: int
) -> None:
    rng = Random(fate)
    asked = Asked(start=START, end=START + 4 * HOUR, order=order, reprocess=reprocess, concurrency=concurrency)
    fires = sorted(set(upcoming(trigger, replace(asked, order=Order.OLDEST), START - 1)))
    there = {fire: rng.choice(list(Standing)) for fire in fires if rng.random() < 0.4}
    one = Backfill(
        id=1, schedule_id=ScheduleId(1), trigger=trigger, asked=asked, state=BackfillState.RUNNING,
        cursor=asked.beginning, counts=Counts(), items=(), deleted=False,
    )  # fmt: skip
    done: list[int] = []
    for number in range(500):
        reached = reach(one, share)
        move = decide(one, reached, {fire: there[fire] for fire in reached.fires if fire in there})
        items = {item.fire_time: item for item in one.items if item.fire_time not in move.close}
        for made in move.make:
            items[made.fire_time] = Item(made.fire_time, RunKey(number, ScheduleId(1), 1), State.WAITING)
        assert len(items) <= concurrency
        assert move.counts.considered == move.counts.settled + len(items)
        if move.over:
            break
        hand = [item._replace(state=rng.choice([State.WAITING, *ENDS])) for _, item in sorted(items.items())]
        done += [item.fire_time for item in hand if item.state in ENDS[:3]]
        one = replace(one, cursor=move.cursor, counts=move.counts, state=move.state, items=tuple(hand))
    assert move.state is BackfillState.FINISHED
    expected = [fire for fire in fires if wanted(reprocess, there.get(fire))]
    assert sorted(done) == expected
    assert move.counts.passed == len(fires) - len(expected)
    assert total(trigger, asked) == len(fires)


@pytest.mark.parametrize("order", Order)
def test_the_walk_is_in_the_order_that_was_asked_for_over_a_change_of_the_clocks(order: Order) -> None:
    daily = Cron(expression="30 2 * * *", timezone="Europe/Berlin")
    asked = Asked(start=START - 2 * DAY, end=START + 3 * DAY, order=order)
    found = list(upcoming(daily, asked, asked.beginning))
    assert found == sorted(found, reverse=order is Order.NEWEST) and len(found) == 5
    assert list(upcoming(daily, asked, found[1])) == found[2:]


def test_window_days_are_walked_as_if_each_ran() -> None:
    trigger = WindowDays(every_days=3, earliest=22 * 60, latest=23 * 60)
    asked = Asked(start=START, end=START + 10 * DAY)
    found = list(upcoming(trigger, asked, asked.beginning))
    assert [after - before for before, after in zip(found, found[1:], strict=False)] == [3 * DAY] * (len(found) - 1)
    assert total(trigger, asked) == len(found)


@pytest.mark.parametrize(
    ("states", "there"),
    [
        ([], None),
        ([State.MISSED, State.RUNNING], Standing.LIVE),
        ([State.FAILED, State.SUCCEEDED], Standing.DONE),
        ([State.MERGED], Standing.DONE),
        ([State.FAILED, State.SKIPPED], Standing.UNDONE),
    ],
)
def test_what_is_on_record_of_an_instant(states: list[State], there: Standing | None) -> None:
    assert standing(states) is there
    assert wanted(Reprocess.NONE, there) is (there is None)
    assert wanted(Reprocess.ALL, there) is (there is not Standing.LIVE)


def test_ids_are_read_as_they_are_written() -> None:
    assert parse_identity(identity(17)) == 17
    for wrong in ("17", "b", "b-1", "b1.", "B1", "b" + "9" * 30, "b١"):
        with pytest.raises(ValueError, match="backfill list"):
            parse_identity(wrong)
