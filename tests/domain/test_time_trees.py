"""Time leaves in trees: which of them fire by themselves, and what may be declared."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

from tidegate.domain.fires import (
    count_fires,
    due,
    fires_between,
    first_due,
    newest_fire,
    next_fire,
    nth_newest,
    preview,
    ticking,
)
from tidegate.domain.instants import DAY, HOUR, MINUTE, SECOND, parse_instant
from tidegate.domain.trees import tree_of
from tidegate.domain.triggers import (
    AfterFinish,
    All,
    AnyOf,
    At,
    Cron,
    Custom,
    DataSize,
    Elapsed,
    Happened,
    Interval,
    Never,
    NOf,
    Partition,
    Quiet,
    Since,
    TimeTrigger,
    Trigger,
    WindowDays,
)
from tidegate.domain.validation import validate

T0 = parse_instant("2026-03-28T12:00:00Z")
DATA = Partition(dataset="d")
CLOCKS: st.SearchStrategy[TimeTrigger] = st.one_of(
    st.builds(
        Interval, every=st.sampled_from(["PT7M", "PT30M", "1h", "P1D"]), jitter=st.sampled_from([0, MINUTE, HOUR])
    ),
    st.builds(Cron, expression=st.sampled_from(["0 * * * *", "*/20 3 * * *", "30 2 * * SUN"])),
    st.builds(At, time=st.integers(0, 48).map(lambda n: T0 + n * HOUR)),
)
INSTANTS = st.integers(T0 - DAY, T0 + 2 * DAY)


@pytest.mark.requirement("DATA-5", "TIME-6")
@settings(deadline=None, max_examples=examples(60))
@given(st.lists(CLOCKS, min_size=1, max_size=4), INSTANTS, st.integers(0, 3 * DAY))
def test_the_fires_of_a_tree_are_the_union_of_its_clocks(leaves: list[TimeTrigger], after: int, span: int) -> None:
    tree = AnyOf(triggers=(DATA, AnyOf(triggers=tuple(leaves)), All(triggers=(Cron(expression="* * * * *"), DATA))))
    until = after + span
    fires = sorted({fire for leaf in leaves for fire in fires_between(leaf, after, until)})
    assert list(fires_between(tree, after, until)) == fires
    assert count_fires(tree, after, until) == len(fires)
    for number in (1, 2, len(fires), len(fires) + 1):
        expected = fires[-number] if 0 < number <= len(fires) else None
        assert nth_newest(tree, after, until, number) == expected
    if fires:
        assert newest_fire(tree, until) == fires[-1]
        assert next_fire(tree, after) == fires[0]
    dues = [due("n/s", tree, fire) for fire in fires]
    assert dues == sorted(set(dues))
    assert all(at >= fire for at, fire in zip(dues, fires, strict=True))
    for fire in fires[:5]:
        assert {place - 3 for place in ticking(tree, fire)} == {
            place for place, leaf in enumerate(leaves) if next_fire(leaf, fire - 1) == fire
        }


@pytest.mark.requirement("DATA-5")
@pytest.mark.parametrize(
    "tree",
    [
        DATA,
        Never(),
        All(triggers=(Cron(expression="* * * * *"), DATA)),
        NOf(n=1, triggers=(Cron(expression="* * * * *"), DATA)),
        Quiet(trigger=Cron(expression="* * * * *"), silence=MINUTE),
        AnyOf(triggers=(DATA, Never())),
    ],
)
def test_a_tree_without_a_clock_of_its_own_has_no_fires(tree: Trigger) -> None:
    assert next_fire(tree, T0) is newest_fire(tree, T0) is first_due("n/s", tree, T0) is None
    assert count_fires(tree, T0, T0 + DAY) == 0
    assert nth_newest(tree, T0, T0 + DAY, 1) is None
    assert preview(tree, T0, 5) == ()


@pytest.mark.requirement("DATA-9")
def test_ticks_that_only_latch_are_told_apart() -> None:
    hourly, daily = Cron(expression="0 * * * *"), Cron(expression="0 0 * * *", latch=0)
    tree = AnyOf(triggers=(Cron(expression="* * * * *"), All(triggers=(hourly, daily, DATA))))
    assert tree_of(tree).latching == ((3, hourly), (4, daily))
    assert [node for node, _ in tree_of(tree).alone] == [1]


def test_a_preview_of_a_tree_shows_each_fire_in_its_own_zone_once() -> None:
    berlin = Cron(expression="0 3 * * *", timezone="Europe/Berlin")
    tree = AnyOf(triggers=(berlin, Cron(expression="0 2 * * *"), Cron(expression="30 1 * * *"), DATA))
    shown = [one.local_time for one in preview(tree, T0, 4)]
    assert shown == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-29T01:30:00+00:00",
        "2026-03-29T02:00:00+00:00",
        "2026-03-30T03:00:00+02:00",
    ]


def deep(levels: int) -> Trigger:
    tree: Trigger = DATA
    for _ in range(levels - 1):
        tree = AnyOf(triggers=(tree,))
    return tree


@pytest.mark.requirement("DATA-5")
@pytest.mark.parametrize(
    ("tree", "paths"),
    [
        (AnyOf(triggers=(DATA, DataSize(dataset="d", bytes=0))), ["triggers[1].bytes"]),
        (AnyOf(triggers=(DATA, DataSize(dataset="d"))), ["triggers[1]"]),
        (All(triggers=(DATA, All(triggers=()))), ["triggers[1].triggers"]),
        (NOf(n=3, triggers=(DATA, DATA)), ["n"]),
        (NOf(n=0, triggers=(DATA, DATA)), ["n"]),
        (Quiet(trigger=Happened(event="user.x", count=0), silence=0), ["for", "trigger.count"]),
        (All(triggers=(DATA,), max_wait=0), ["max_wait"]),
        (AnyOf(triggers=(AfterFinish(delay=0), DATA)), ["triggers[0]"]),
        (AnyOf(triggers=(Cron(expression="0 0 * * *", latch=0), DATA)), ["triggers[0].latch"]),
        (All(triggers=(Cron(expression="0 0 31 2 *"), DATA)), ["triggers[0].expression"]),
        (All(triggers=(Cron(expression="0 0 * * *", jitter=SECOND), DATA)), ["triggers[0].jitter"]),
        (Cron(expression="0 0 * * *", latch=0), ["latch"]),
        (Elapsed(since=Since.LAST_EVENT, after=HOUR), ["event"]),
        (Elapsed(since=Since.LAST_RUN, after=0), ["after"]),
        (Custom(plugin="unheard_of", parameters={}), ["type"]),
        (AnyOf(triggers=(WindowDays(every_days=1), Cron(expression="0 0 * * *"))), ["triggers[0]"]),
        (deep(21), [""]),
        (deep(3000), [""]),
        (AnyOf(triggers=(DATA,) * 1000), [""]),
        (deep(20), []),
        (AnyOf(triggers=(DATA,) * 999), []),
        (All(triggers=(Cron(expression="0 22 * * *", latch=0), DATA)), []),
        (AnyOf(triggers=(WindowDays(every_days=1), DATA)), []),
    ],
    ids=range(23),
)
def test_what_cannot_work_is_refused_where_it_stands(tree: Trigger, paths: list[str]) -> None:
    assert [fault.path for fault in validate(tree)] == paths
