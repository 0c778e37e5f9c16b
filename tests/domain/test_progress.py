"""What the lines of the semantics say about data, events and composition, one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tidegate.domain import plugins
from tidegate.domain.collected import (
    Advance,
    Amount,
    Arrival,
    Bulk,
    Deadline,
    Facts,
    Given,
    Need,
    Progress,
    Subscription,
    Tick,
    Topic,
)
from tidegate.domain.errors import Refused
from tidegate.domain.explaining import explain
from tidegate.domain.instants import DAY, HOUR, MINUTE
from tidegate.domain.looking import subscriptions
from tidegate.domain.progress import advance, begin
from tidegate.domain.triggers import (
    All,
    AnyOf,
    Cron,
    Custom,
    DataSize,
    Elapsed,
    Happened,
    NOf,
    Partition,
    ProgramStatus,
    Quiet,
    Since,
    Then,
    Trigger,
    WindowDays,
)

IDLE = Facts(enabled_at=0, last_start=None, busy=False)
A = Happened(event="user.a", key="n/a")
B = Happened(event="user.b", key="n/b")
LAST_RUN = Elapsed(since=Since.LAST_RUN, after=4 * HOUR)
GIGA = 10**9


def came(
    trigger: Trigger, type: str, at: int, *, pos: int = 0, bytes: int = 0, rows: int = 0, **payload: object
) -> Arrival:
    reached = tuple(one for one in subscriptions(trigger) if one.topic.type == type)
    return Arrival(
        pos=pos or at, at=at, subscriptions=reached, amount=Amount(n=1, bytes=bytes, rows=rows), payload=payload
    )


def a(trigger: Trigger, at: int) -> Arrival:
    return came(trigger, "user.a", at)


def b(trigger: Trigger, at: int) -> Arrival:
    return came(trigger, "user.b", at)


def data(trigger: Trigger, at: int, *, bytes: int = 0, rows: int = 0, **payload: Any) -> Arrival:
    return came(trigger, "dataset.updated", at, bytes=bytes, rows=rows, **payload)


def fed(trigger: Trigger, *given: Given, facts: Facts = IDLE) -> Advance:
    return advance(trigger, Progress(), (), given, facts)


def times(result: Advance) -> list[int]:
    return [one.at for one in result.fires]


def later(at: int) -> Deadline:
    return Deadline(at=at, node=0)


@pytest.mark.requirement("DATA-3")
def test_twelve_events_at_count_four_are_three_fires() -> None:
    trigger = Happened(event="user.a", key="n/a", count=4)
    events = [a(trigger, at) for at in range(1, 13)]
    assert times(fed(trigger, *events)) == [4, 8, 12]
    (one,) = subscriptions(trigger)
    bulk = Bulk(subscription=one, amount=Amount(n=3), first_at=1, last_at=3)
    assert times(advance(trigger, Progress(), [bulk], events[3:], IDLE)) == [4, 8, 12]


@pytest.mark.requirement("DATA-2")
def test_overshoot_inside_one_event_is_one_fire() -> None:
    trigger = DataSize(dataset="d", bytes=GIGA)
    result = fed(trigger, data(trigger, 1, bytes=3 * GIGA))
    assert times(result) == [1]
    assert list(result.needs.values()) == [Need(bytes=GIGA)]


@pytest.mark.requirement("DATA-2")
def test_bytes_and_rows_are_both_needed() -> None:
    trigger = DataSize(dataset="d", bytes=10, rows=5)
    result = fed(trigger, data(trigger, 1, bytes=10, rows=1))
    assert times(result) == []
    assert list(result.needs.values()) == [Need(rows=4)]
    assert times(fed(trigger, data(trigger, 1, bytes=10, rows=1), data(trigger, 2, rows=4))) == [2]


@pytest.mark.requirement("DATA-1")
def test_a_partition_counts_once() -> None:
    trigger = Partition(dataset="d", count=2)
    events = [data(trigger, at, partitions_added=names) for at, names in ((1, ["x"]), (2, ["x"]), (3, ["y", "z"]))]
    result = fed(trigger, *events, data(trigger, 4, partitions_changed=["q", "r"]))
    assert times(result) == [3]
    assert result.fires[0].tallies[0].names == ("x", "y")
    changed = Partition(dataset="d", count=2, changed=True)
    assert times(fed(changed, data(changed, 4, partitions_changed=["q", "r"]))) == [4]


@pytest.mark.requirement("DATA-4")
def test_any_of_the_outcomes_counts_and_backfills_only_if_asked() -> None:
    trigger = ProgramStatus(program="n/p", outcomes=("failed", "crashed"), count=5)
    assert {one.topic for one in subscriptions(trigger)} == {
        Topic("run.failed", "n/p", '{"backfill":false}'),
        Topic("run.crashed", "n/p", '{"backfill":false}'),
    }
    both = ProgramStatus(program="n/p", outcomes=("failed",), backfill=True)
    assert subscriptions(both)[0].topic.match is None
    result = begin(trigger, IDLE)
    assert set(result.needs.values()) == {Need(n=3)}  # one of two topics has three before both have five


@pytest.mark.requirement("DATA-5", "DATA-7")
def test_one_gigabyte_or_four_hours_consumes_both() -> None:
    trigger = AnyOf(triggers=(DataSize(dataset="d", bytes=GIGA), LAST_RUN))
    half = data(trigger, HOUR, bytes=GIGA // 2)
    result = fed(trigger, half, later(4 * HOUR))
    assert times(result) == [4 * HOUR]
    assert result.fires[0].tallies[1].amount.bytes == GIGA // 2
    again = advance(trigger, result.progress, (), [data(trigger, 5 * HOUR, bytes=GIGA // 2)], IDLE)
    assert times(again) == []  # the first half was consumed, and the four hours begin anew
    assert [one.at for one in again.deadlines] == [8 * HOUR]


@pytest.mark.requirement("DATA-7")
def test_elapsed_is_silent_while_a_run_waits_or_works_and_counts_from_its_start() -> None:
    busy = Facts(enabled_at=0, last_start=HOUR, busy=True)
    assert fed(LAST_RUN, later(9 * HOUR), facts=busy).fires == ()
    assert fed(LAST_RUN, later(9 * HOUR), facts=busy).deadlines == ()
    done = Facts(enabled_at=0, last_start=HOUR, busy=False, last_end=7 * HOUR)
    assert times(fed(LAST_RUN, later(9 * HOUR), facts=done)) == [7 * HOUR]
    quick = Facts(enabled_at=0, last_start=HOUR, busy=False, last_end=2 * HOUR)
    assert begin(LAST_RUN, quick).deadlines == (Deadline(at=5 * HOUR, node=0),)


@pytest.mark.requirement("DATA-7")
def test_a_silence_is_told_once() -> None:
    trigger = Elapsed(since=Since.LAST_EVENT, after=HOUR, event="user.a", key="n/a")
    result = fed(trigger, a(trigger, 1), later(9 * HOUR))
    assert times(result) == [HOUR + 1]
    assert result.deadlines == ()
    assert list(result.needs.values()) == [Need(n=1)]
    again = advance(trigger, result.progress, (), [a(trigger, 10 * HOUR), later(20 * HOUR)], IDLE)
    assert times(again) == [11 * HOUR]
    assert times(fed(trigger, later(9 * HOUR))) == [HOUR]  # never heard of: from enabling


@pytest.mark.requirement("DATA-7")
def test_fires_of_other_legs_put_off_no_silence() -> None:
    trigger = AnyOf(triggers=(Elapsed(since=Since.LAST_EVENT, after=HOUR, event="user.a", key="n/a"), B))
    result = fed(trigger, *(b(trigger, n * MINUTE) for n in range(7, 80, 7)))
    assert times(result)[7:11] == [56 * MINUTE, HOUR, 63 * MINUTE, 70 * MINUTE]


@pytest.mark.requirement("DATA-5")
def test_a_fire_consumes_every_leg() -> None:
    trigger = NOf(n=2, triggers=(A, B, Happened(event="user.c")))
    result = fed(trigger, a(trigger, 1), a(trigger, 2), b(trigger, 3), came(trigger, "user.c", 4))
    assert times(result) == [3]
    assert {node: tally.amount.n for node, tally in result.fires[0].tallies.items()} == {1: 2, 2: 1}
    assert set(result.progress.tallies) == {3}


@pytest.mark.requirement("DATA-6")
def test_all_waits_its_longest_from_the_first_arrival_then_runs_with_what_is_there() -> None:
    trigger = All(triggers=(A, B), max_wait=2 * HOUR)
    assert set(begin(trigger, IDLE).needs.values()) == {Need(n=1)}
    assert begin(trigger, IDLE).deadlines == ()
    result = fed(trigger, a(trigger, HOUR))
    assert result.deadlines == (Deadline(at=3 * HOUR, node=0),)
    done = advance(trigger, result.progress, (), result.deadlines, IDLE)
    assert times(done) == [3 * HOUR]
    assert done.fires[0].timed_out
    assert set(done.fires[0].tallies) == {1}
    assert not fed(trigger, a(trigger, 1), b(trigger, 2)).fires[0].timed_out


@pytest.mark.requirement("DATA-6")
def test_all_that_discards_begins_anew_and_resets_its_legs_only() -> None:
    inner = All(triggers=(A, B), max_wait=HOUR, then=Then.DISCARD)
    trigger = All(triggers=(inner, Happened(event="user.c")))
    result = fed(trigger, a(trigger, 1), came(trigger, "user.c", 2), b(trigger, 2 * HOUR), a(trigger, 3 * HOUR - 1))
    assert times(result) == [3 * HOUR - 1]
    assert set(result.fires[0].tallies) == {2, 3, 4}
    assert result.fires[0].tallies[2].first_at == 3 * HOUR - 1


@pytest.mark.requirement("DATA-6")
def test_an_inner_all_that_was_forced_stays_satisfied_until_the_tree_fires() -> None:
    trigger = All(triggers=(All(triggers=(A, B), max_wait=HOUR), Happened(event="user.c")))
    result = fed(trigger, a(trigger, 1), came(trigger, "user.c", DAY), a(trigger, DAY + 1))
    assert times(result) == [DAY]
    assert result.fires[0].timed_out
    assert result.progress.forced == frozenset()


@pytest.mark.requirement("DATA-6", "DATA-8")
def test_an_inner_all_that_was_complete_in_time_is_not_given_up_later() -> None:
    inner = All(triggers=(Quiet(trigger=A, silence=10 * MINUTE), B), max_wait=HOUR, then=Then.DISCARD)
    trigger = All(triggers=(inner, Happened(event="user.c")))
    came_late = a(trigger, 2 * HOUR), came(trigger, "user.c", 2 * HOUR + MINUTE)
    result = fed(trigger, a(trigger, 1), b(trigger, 2), *came_late)
    assert times(result) == [2 * HOUR + MINUTE]
    assert result.fires[0].tallies[3].amount.n == 2
    assert not result.fires[0].timed_out


@pytest.mark.requirement("DATA-8")
def test_quiet_fires_after_silence_and_restarts_with_each_event() -> None:
    trigger = Quiet(trigger=A, silence=10 * MINUTE)
    chunks = [a(trigger, at * MINUTE) for at in (1, 9, 18)]
    assert times(fed(trigger, *chunks, later(HOUR))) == [28 * MINUTE]
    first = fed(trigger, chunks[0])
    assert list(first.needs.values()) == [Need()]  # further ones are not looked at: the deadline finds them
    (one,) = subscriptions(trigger)
    bulk = Bulk(subscription=one, amount=Amount(n=2), first_at=9 * MINUTE, last_at=10 * MINUTE)
    rearmed = advance(trigger, first.progress, [bulk], [later(11 * MINUTE)], IDLE)
    assert times(rearmed) == []
    assert rearmed.deadlines == (Deadline(at=20 * MINUTE, node=0),)


@pytest.mark.requirement("DATA-8")
def test_quiet_waits_at_most_its_longest_from_when_its_trigger_was_satisfied() -> None:
    trigger = Quiet(trigger=Happened(event="user.a", key="n/a", count=2), silence=10 * MINUTE, max_wait=20 * MINUTE)
    assert times(fed(trigger, *(a(trigger, at * MINUTE) for at in range(1, 60, 5)))) == [26 * MINUTE, 56 * MINUTE]


@pytest.mark.requirement("DATA-8", "DATA-9")
def test_quiet_begins_to_wait_anew_when_its_trigger_ceased_to_be_satisfied() -> None:
    held = All(triggers=(Cron(expression="0 * * * *", latch=10 * MINUTE), A))
    trigger = Quiet(trigger=held, silence=5 * HOUR, max_wait=HOUR)
    assert times(fed(trigger, a(trigger, 65 * MINUTE), later(7 * HOUR))) == [6 * HOUR + 5 * MINUTE]


@pytest.mark.requirement("DATA-9")
def test_at_ten_if_there_is_new_data() -> None:
    ten = Cron(expression="0 22 * * *", latch=0)
    trigger = All(triggers=(ten, Partition(dataset="d")))
    late = data(trigger, 23 * HOUR, partitions_added=["x"])
    assert times(fed(trigger, late, later(2 * DAY))) == [DAY + 22 * HOUR]
    early = data(trigger, 22 * HOUR, partitions_added=["x"])  # an event of that very instant counts before the tick
    assert times(fed(trigger, early, later(2 * DAY))) == [22 * HOUR]
    assert fed(trigger, early, later(2 * DAY)).fires[0].fire_time == 22 * HOUR
    assert begin(trigger, IDLE).deadlines == (Deadline(at=22 * HOUR, node=1),)


@pytest.mark.requirement("DATA-9")
def test_a_tick_latches_until_the_tree_fires_or_as_long_as_it_says() -> None:
    always = All(triggers=(Cron(expression="0 22 * * *"), A))
    result = fed(always, a(always, 50 * HOUR))
    assert times(result) == [50 * HOUR]
    assert result.fires[0].fire_time == 46 * HOUR  # the newest tick
    assert fed(always, later(22 * HOUR)).deadlines == ()  # it holds: no tick needs to be looked at
    hour = All(triggers=(Cron(expression="0 22 * * *", latch=HOUR), A))
    assert times(fed(hour, a(hour, 23 * HOUR))) == [23 * HOUR]
    assert times(fed(hour, a(hour, 23 * HOUR + 1), later(46 * HOUR))) == [46 * HOUR]


@pytest.mark.requirement("DATA-9", "DATA-6")
def test_a_latched_tick_is_a_first_arrival() -> None:
    trigger = All(triggers=(Cron(expression="0 22 * * *"), A), max_wait=HOUR)
    result = fed(trigger, later(23 * HOUR))
    assert times(result) == [23 * HOUR]
    assert result.fires[0].timed_out


@pytest.mark.requirement("DATA-9")
def test_the_tick_of_a_window_holds_until_the_window_closes() -> None:
    trigger = All(triggers=(WindowDays(every_days=1, earliest=60, latest=120), A))
    assert times(fed(trigger, a(trigger, 2 * HOUR - 1))) == [2 * HOUR - 1]
    assert times(fed(trigger, a(trigger, 2 * HOUR), later(DAY + HOUR))) == [DAY + HOUR]


@pytest.mark.requirement("DATA-9")
def test_missed_ticks_do_not_count_where_the_policy_lets_them_go() -> None:
    trigger = All(triggers=(Cron(expression="0 22 * * *"), A))
    late = Facts(enabled_at=0, last_start=None, busy=False, ticks_from=23 * HOUR)
    assert times(fed(trigger, a(trigger, 1), later(24 * HOUR), facts=late)) == []
    assert times(fed(trigger, a(trigger, 1), later(46 * HOUR), facts=late)) == [46 * HOUR]


@pytest.mark.requirement("DATA-5", "DATA-9")
def test_a_tick_that_satisfies_the_tree_takes_along_what_was_collected() -> None:
    trigger = AnyOf(triggers=(Cron(expression="0 22 * * *"), Happened(event="user.a", key="n/a", count=3)))
    result = fed(trigger, a(trigger, 1), Tick(at=22 * HOUR, nodes=(1,)), a(trigger, 22 * HOUR))
    assert times(result) == [22 * HOUR]
    assert result.fires[0].fire_time == 22 * HOUR
    assert result.fires[0].tallies[2].amount.n == 2


@pytest.mark.requirement("DATA-5")
def test_what_cannot_change_the_tree_is_not_looked_at() -> None:
    many = Happened(event="user.b", key="n/b", count=1000)
    trigger = All(triggers=(AnyOf(triggers=(A, many)), Happened(event="user.c", count=7)))
    assert [one.n for one in fed(trigger, a(trigger, 1)).needs.values()] == [None, None, 7]
    assert [one.n for one in begin(trigger, IDLE).needs.values()] == [1, 1000, 7]


@pytest.mark.requirement("DATA-10")
def test_a_million_events_leave_small_progress() -> None:
    trigger = All(triggers=(Happened(event="user.a", key="n/a", count=2_000_000), B))
    one = subscriptions(trigger)[0]
    bulk = Bulk(subscription=one, amount=Amount(n=1_000_000, rows=10**12), first_at=1, last_at=10**9)
    assert len(repr(advance(trigger, Progress(), [bulk], (), IDLE).progress)) < 1000


@pytest.mark.requirement("DATA-9")
def test_years_of_missed_ticks_cost_little() -> None:
    trigger = All(triggers=(Cron(expression="* * * * *", latch=0), A))
    result = fed(trigger, later(3650 * DAY), a(trigger, 3650 * DAY + 30))
    assert times(result) == []
    assert times(advance(trigger, result.progress, (), [later(3650 * DAY + MINUTE)], IDLE)) == [3650 * DAY + MINUTE]


# ── plug-ins ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Total:
    """Satisfied when the `worth` of events adds up."""

    def faults(self, parameters: Mapping[str, Any]) -> Sequence[str]:
        return []

    def topics(self, parameters: Mapping[str, Any]) -> Sequence[Topic]:
        return [Topic("user.sold", parameters["key"])]

    def start(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"sum": 0}

    def add(self, parameters: Mapping[str, Any], state: Mapping[str, Any], event: Arrival) -> Mapping[str, Any]:
        return {"sum": state["sum"] + event.payload["worth"]}

    def satisfied(self, parameters: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
        return bool(state["sum"] >= parameters["most"])

    def why(self, parameters: Mapping[str, Any], state: Mapping[str, Any]) -> str:
        return f"{state['sum']} of {parameters['most']}"


@pytest.mark.requirement("DATA-13")
def test_a_plug_in_counts_what_it_likes() -> None:
    plugins.register("test_total", Total())
    trigger = Custom(plugin="test_total", parameters={"key": "n/a", "most": 10})
    events = [came(trigger, "user.sold", at, worth=4) for at in range(1, 5)]
    result = fed(trigger, *events)
    assert times(result) == [3]
    assert result.fires[0].tallies[0].state == {"sum": 12}
    assert explain(trigger, result.progress, IDLE, 9).why == "4 of 10"
    with pytest.raises(Refused, match="not installed"):
        subscriptions(Custom(plugin="unheard_of", parameters={}))


# ── explaining ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("DATA-10")
def test_explaining_says_what_came_what_is_missing_and_when_it_will_be_decided() -> None:
    trigger = AnyOf(triggers=(All(triggers=(DataSize(dataset="d", bytes=GIGA), A), max_wait=2 * HOUR), LAST_RUN))
    result = fed(trigger, data(trigger, HOUR, bytes=400))
    told = explain(trigger, result.progress, IDLE, 90 * MINUTE, result.deadlines)
    every, elapsed = told.children
    assert (told.satisfied, told.threshold, told.why) == (False, 1, "0 of 1 satisfied")
    assert every.decides_at == 3 * HOUR
    assert every.why == "0 of 2 satisfied; goes on with what there is at 1970-01-01T03:00:00Z"
    assert every.children[0].why == "400 of 1,000,000,000 new bytes of d; came at 1970-01-01T01:00:00Z"
    assert every.children[0].value == {"bytes": 400}
    assert (elapsed.value, elapsed.threshold, elapsed.decides_at) == (90 * MINUTE, 4 * HOUR, 4 * HOUR)


def test_what_is_explained_is_what_is_decided() -> None:
    trigger = Quiet(trigger=A, silence=10 * MINUTE)
    result = fed(trigger, a(trigger, MINUTE))
    for at in (2 * MINUTE, 11 * MINUTE - 1, 11 * MINUTE):
        fires = bool(advance(trigger, result.progress, (), [later(at)], IDLE).fires)
        assert explain(trigger, result.progress, IDLE, at).satisfied is fires


def test_subscriptions_name_their_leaf() -> None:
    trigger = All(triggers=(A, Happened(event="user.b", match={"y": 1, "x": [2]})))
    assert subscriptions(trigger) == (
        Subscription(node=1, topic=Topic("user.a", "n/a")),
        Subscription(node=2, topic=Topic("user.b", None, '{"x":[2],"y":1}')),
    )
