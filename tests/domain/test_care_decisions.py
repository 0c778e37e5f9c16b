"""Run or not, and every reason: schedules, windows, conditions, throttles, force, order, budgets."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.documents.table_sentences import why
from tidegate.domain.collector import collector_resting
from tidegate.domain.fires import next_fire
from tidegate.domain.instants import DAY, HOUR, MINUTE, Instant, parse_instant
from tidegate.domain.maintenance.choosing import decide_all
from tidegate.domain.maintenance.clock import Clock
from tidegate.domain.maintenance.debt import Debt
from tidegate.domain.maintenance.decision import (
    Blocker,
    Decision,
    Switches,
    Table,
    Terms,
    Verdict,
    decide,
)
from tidegate.domain.maintenance.health import Metric, TableHealth
from tidegate.domain.maintenance.operations import ORDER, Operation
from tidegate.domain.maintenance.patterns import TablePattern
from tidegate.domain.maintenance.policy import Budget, Conditions, Logic, Policy, Rule, Schedule
from tidegate.domain.maintenance.state import History, Prediction, TableState, began, ended, held, skipped
from tidegate.domain.maintenance.throttle import Throttles
from tidegate.domain.triggers import Cron, Interval, WindowDays
from tidegate.domain.windows import Span

NOW = parse_instant("2026-11-21T14:30:00Z")  # a Saturday
COMPACT, EXPIRE = Operation.REWRITE_DATA_FILES, Operation.EXPIRE_SNAPSHOTS
DAILY = Schedule(trigger=Cron(expression="0 2 * * *"))
SMALL = Conditions(limits={Metric.SMALL_FILE_PERCENT: 20})
HEALTH = TableHealth(assessed_at=NOW - HOUR, snapshot=7, data_files=100, small_files=35, delete_files=0)
NOTHING = Prediction(removes=0, files=0, bytes=0, why="nothing")


def table(*rules: Rule, name: str = "lake.raw.t", budget: Budget = Budget(), debt: float = 0.0, **state: Any) -> Table:
    policy = Policy(
        name="p", tables=TablePattern("**"), operations={rule.operation: rule for rule in rules}, budget=budget
    )
    known: dict[str, Any] = {"table": name, "since": NOW - 30 * DAY, "health": HEALTH, **state}
    return Table(state=TableState(**known), policy=policy, debt=Debt(score=debt, terms=()))


def one(given: Table, now: Instant = NOW, **terms: Any) -> Decision:
    [decision] = decide(given, Terms(clock=Clock(now), **terms))
    return decision


def blockers(decision: Decision) -> list[str]:
    return [block.by.value for block in decision.blocks]


def rule(operation: Operation = COMPACT, **given: Any) -> Rule:
    return Rule(operation=operation, **given)


def after(history: History) -> dict[Operation, History]:
    return {COMPACT: history}


RAN = History(started_at=NOW - HOUR, finished_at=NOW - HOUR, succeeded_at=NOW - HOUR)


@pytest.mark.requirement("CARE-3", "CARE-13")
def test_only_what_is_due_runs_and_a_fire_is_spent_once() -> None:
    found = one(table(rule(schedule=DAILY)))
    assert found.verdict is Verdict.RUN
    found = one(table(rule(schedule=DAILY), histories=after(RAN)))
    assert blockers(found) == ["schedule"] and found.next_eligible == parse_instant("2026-11-22T02:00:00Z")
    assert one(table(rule(schedule=DAILY), histories=after(RAN)), NOW + 12 * HOUR).verdict is Verdict.RUN
    assert one(table(rule(schedule=DAILY), since=NOW - HOUR)).verdict is Verdict.WAIT, (
        "fires before it spoke are not its"
    )
    assert blockers(one(table(rule()))) == ["schedule"], "by hand only"
    assert blockers(one(table(rule(schedule=replace(DAILY, enabled=False))))) == ["schedule"]


@pytest.mark.requirement("CARE-3", "CARE-13")
def test_what_is_due_outside_its_window_or_days_stays_due_until_it_opens() -> None:
    weekdays = Span(start=60, end=300, days=tuple(one for one in WindowDays(every_days=1).days if one.value[0] != "S"))
    found = one(table(rule(schedule=replace(DAILY, window=weekdays)), since=NOW - 3 * DAY))
    monday = parse_instant("2026-11-23T01:00:00Z")
    assert blockers(found) == ["window"] and found.next_eligible == monday
    assert found.due_since == parse_instant("2026-11-19T02:00:00Z"), "the first of the fires that merged"
    assert one(table(rule(schedule=replace(DAILY, window=weekdays))), monday).verdict is Verdict.RUN


@pytest.mark.requirement("CARE-3")
def test_an_interval_of_days_counts_from_the_last_run_and_keeps_its_window() -> None:
    schedule = Schedule(trigger=WindowDays(every_days=2, earliest=120, latest=300))
    ran = History(started_at=parse_instant("2026-11-20T02:30:00Z"))
    found = one(table(rule(schedule=schedule), histories=after(ran)))
    assert set(blockers(found)) == {"schedule", "window"}
    assert found.next_eligible == parse_instant("2026-11-22T02:00:00Z")
    at = parse_instant("2026-11-22T03:00:00Z")
    assert one(table(rule(schedule=schedule), histories=after(ran)), at).verdict is Verdict.RUN


@pytest.mark.requirement("CARE-4")
def test_conditions_are_met_from_their_limit_on_any_or_all() -> None:
    both = {Metric.SMALL_FILE_PERCENT: 35, Metric.DELETE_FILE_COUNT: 1}
    found = one(table(rule(when=Conditions(limits=both))))
    assert found.verdict is Verdict.RUN
    assert [(one.metric.value, one.value) for one in found.met] == [("small_file_percent", 35)]
    assert [(one.metric.value, one.value, one.limit) for one in found.unmet] == [("delete_file_count", 0, 1)]
    found = one(table(rule(when=Conditions(limits=both, logic=Logic.ALL))))
    assert found.verdict is Verdict.WAIT and not found.blocks and found.next_eligible is None


@pytest.mark.requirement("CARE-4")
def test_where_conditions_do_not_count_schedules_decide_and_it_is_told() -> None:
    never = Conditions(limits={Metric.DELETE_FILE_COUNT: 99})
    off = Switches(conditions=False)
    found = one(table(rule(schedule=DAILY, when=never)), switches=off)
    assert found.verdict is Verdict.RUN and found.ignored
    assert [(each.metric.value, each.value, each.limit) for each in found.unmet] == [("delete_file_count", 0, 99)]
    assert why(found) == (
        "It is due by its schedule. Conditions do not count (setting maintenance.conditions): "
        "delete_file_count is 0, not yet 99."
    )
    alone = one(table(rule(when=Conditions(limits={Metric.SMALL_FILE_PERCENT: 1}))), switches=off)
    assert alone.verdict is Verdict.WAIT and blockers(alone) == ["schedule"]
    assert why(alone).startswith("It has no schedule, so it runs by hand only while conditions do not count.")
    assert not one(table(rule(schedule=DAILY)), switches=off).ignored


@pytest.mark.requirement("CARE-4")
def test_the_least_interval_of_all_holds_where_a_policy_says_less() -> None:
    for own, least, expected in ((0, 2 * HOUR, NOW + HOUR), (2 * HOUR, HOUR, NOW + HOUR), (0, HOUR, None)):
        throttles = Throttles(min_interval=least)
        found = one(table(rule(when=SMALL, min_interval=own), histories=after(RAN)), throttles=throttles)
        assert found.next_eligible == expected and (found.verdict is Verdict.RUN) == (expected is None)


@pytest.mark.requirement("CARE-4", "FAIL-7")
@pytest.mark.parametrize("logic", Logic)
def test_what_is_unknown_is_not_met(logic: Logic) -> None:
    for health in (None, replace(HEALTH, small_files=None)):
        found = one(table(rule(when=replace(SMALL, logic=logic)), health=health))
        assert found.verdict is Verdict.WAIT and found.unmet[0].value is None


@pytest.mark.requirement("CARE-4")
def test_a_minimum_interval_holds_from_the_last_start() -> None:
    found = one(table(rule(when=SMALL, min_interval=2 * HOUR), histories=after(RAN)))
    assert blockers(found) == ["constraint"] and found.next_eligible == NOW + HOUR
    assert one(table(rule(when=SMALL, min_interval=HOUR), histories=after(RAN))).verdict is Verdict.RUN


@pytest.mark.requirement("CARE-4")
def test_a_critical_pipeline_is_forced_over_everything_that_waits_also_the_first_time() -> None:
    window = Span(start=60, end=61)
    throttled = History(started_at=NOW - 2 * DAY, failures=9, failed_at=NOW, unchanged=9)
    strict = rule(
        schedule=replace(DAILY, window=window),
        when=Conditions(limits={Metric.DELETE_FILE_COUNT: 99}),
        max_delay=2 * DAY,
    )
    found = one(table(strict, histories=after(throttled), predictions={COMPACT: NOTHING}))
    assert found.verdict is Verdict.RUN and found.forced
    assert one(table(strict, since=NOW - 2 * DAY)).forced
    assert not one(table(strict, since=NOW - 2 * DAY + 1)).forced
    assert one(table(strict, busy="r1")).verdict is Verdict.WAIT, "never over another maintenance of the table"
    assert one(table(strict), switches=Switches(automatic=False)).verdict is Verdict.WAIT


@pytest.mark.requirement("CARE-14")
def test_nothing_starts_by_itself_when_maintenance_is_switched_off() -> None:
    found = one(table(rule(schedule=DAILY)), switches=Switches(automatic=False))
    assert found.verdict is Verdict.WAIT and blockers(found) == ["constraint"]
    assert one(table(rule(schedule=DAILY, enabled=False))).verdict is Verdict.WAIT


@pytest.mark.requirement("FAIL-7")
def test_after_three_failures_an_operation_gets_one_try_in_six_hours() -> None:
    history = RAN
    for count in range(1, 4):
        assert one(table(rule(when=SMALL), histories=after(history))).verdict is Verdict.RUN, count
        history = ended(history, outcome="failed", succeeded=False, changed=None, at=NOW - MINUTE)
    found = one(table(rule(when=SMALL), histories=after(history)))
    assert blockers(found) == ["throttle"] and found.next_eligible == NOW - MINUTE + 6 * HOUR
    assert one(table(rule(when=SMALL), histories=after(history)), NOW + 6 * HOUR).verdict is Verdict.RUN
    assert (
        one(table(rule(when=SMALL), histories=after(history)), throttles=Throttles(failures=0)).verdict is Verdict.RUN
    )


@pytest.mark.requirement("FAIL-7")
def test_after_five_runs_without_change_the_interval_doubles_and_new_data_lifts_that_at_once() -> None:
    hourly = rule(schedule=Schedule(trigger=Interval(every="PT12H")))
    history = replace(RAN, started_at=NOW - 13 * HOUR, unchanged=4)
    assert one(table(hourly, histories=after(history))).verdict is Verdict.RUN
    history = replace(history, unchanged=5)
    found = one(table(hourly, histories=after(history)))
    assert blockers(found) == ["throttle"] and found.next_eligible == NOW - 13 * HOUR + 24 * HOUR
    assert one(table(hourly, histories=after(history)), NOW + 11 * HOUR).verdict is Verdict.RUN, "it always runs again"
    assert one(table(hourly, histories=after(history), changed_at=NOW)).verdict is Verdict.RUN
    often = rule(schedule=Schedule(trigger=Interval(every="PT1M")))
    found = one(table(often, histories=after(replace(history, started_at=NOW - HOUR))))
    assert found.next_eligible == NOW + 5 * HOUR, "at least six hours"


@pytest.mark.requirement("FAIL-7")
def test_what_nobody_measured_is_not_without_change() -> None:
    history = replace(RAN, unchanged=4)
    unknown = ended(history, outcome="succeeded", succeeded=True, changed=None, at=NOW)
    assert unknown.unchanged == 0
    assert ended(history, outcome="succeeded", succeeded=True, changed=False, at=NOW).unchanged == 5
    assert ended(history, outcome="cancelled", succeeded=None, changed=None, at=NOW).unchanged == 4


@pytest.mark.requirement("CARE-12")
def test_a_predicted_no_op_is_skipped_once_and_judged_anew_at_the_next_fire() -> None:
    idle = table(rule(schedule=DAILY), predictions={COMPACT: NOTHING})
    found = one(idle)
    assert found.verdict is Verdict.SKIP and blockers(found) == ["predicted_noop"]
    recorded = after(skipped(History(), 7, NOW))
    again = table(rule(schedule=DAILY), predictions={COMPACT: NOTHING}, histories=recorded)
    assert one(again).verdict is Verdict.WAIT
    assert one(again, NOW + DAY).verdict is Verdict.SKIP
    assert one(table(rule(schedule=DAILY), histories=recorded), NOW + DAY).verdict is Verdict.RUN
    by_condition = table(rule(when=SMALL), predictions={COMPACT: NOTHING}, histories=recorded)
    assert one(by_condition).verdict is Verdict.WAIT, "on record at this snapshot"
    changed = replace(HEALTH, snapshot=8)
    assert one(replace(by_condition, state=replace(by_condition.state, health=changed))).verdict is Verdict.SKIP


@pytest.mark.requirement("CARE-5")
def test_figures_from_before_a_run_that_changed_the_table_do_not_start_the_next() -> None:
    ran = ended(RAN, outcome="succeeded", succeeded=True, changed=True, at=NOW - MINUTE)
    assert one(table(rule(when=SMALL), histories=after(ran))).verdict is Verdict.WAIT
    fresh = replace(HEALTH, assessed_at=NOW)
    assert one(table(rule(when=SMALL), histories=after(ran), health=fresh)).verdict is Verdict.RUN


@pytest.mark.requirement("CARE-9")
def test_operations_of_one_table_go_one_at_a_time_in_their_order_and_each_has_its_turn() -> None:
    rules = [rule(EXPIRE, schedule=DAILY), rule(COMPACT, when=SMALL)]
    first, second = decide(table(*rules), Terms(clock=Clock(NOW)))
    assert (first.operation, first.verdict) == (COMPACT, Verdict.RUN)
    assert (second.operation, second.verdict) == (EXPIRE, Verdict.WAIT) and blockers(second) == ["constraint"]
    ran = {COMPACT: replace(RAN, started_at=NOW - HOUR, succeeded_at=None)}
    first, second = decide(table(*rules, histories=ran), Terms(clock=Clock(NOW)))
    assert (first.verdict, second.verdict) == (Verdict.WAIT, Verdict.RUN), "it ran since the other became due"


@pytest.mark.requirement("CARE-7")
def test_under_a_budget_the_worst_debt_goes_first_and_a_held_one_says_so() -> None:
    budget = Budget(operations=2)
    tables = [
        table(rule(when=SMALL), name=f"lake.raw.t{n}", budget=budget, debt=float(score))
        for n, score in enumerate((5, 50, 20))
    ]
    found = decide_all(tables, Terms(clock=Clock(NOW)))
    assert [found[f"lake.raw.t{n}"][0].verdict for n in range(3)] == [Verdict.HOLD, Verdict.RUN, Verdict.RUN]
    assert blockers(found["lake.raw.t0"][0]) == ["budget"]
    tables[0] = replace(tables[0], state=replace(tables[0].state, histories=after(held(History(), NOW))))
    assert decide_all(tables, Terms(clock=Clock(NOW)))["lake.raw.t0"][0].verdict is Verdict.WAIT, "on record already"
    waited = after(held(History(), NOW - 9 * HOUR))
    tables[0] = replace(tables[0], state=replace(tables[0].state, histories=waited))
    assert decide_all(tables, Terms(clock=Clock(NOW)))["lake.raw.t0"][0].verdict is Verdict.RUN, "nothing starves"
    assert began(waited[COMPACT], "r", NOW).held_at is None


# ── at random, against what the words say ──────────────────────────────────────────────────────────────────────────

instants = st.integers(0, 20 * DAY // HOUR).map(lambda hours: NOW - hours * HOUR)
histories = st.builds(
    History,
    started_at=st.none() | instants,
    failed_at=st.none() | instants,
    failures=st.integers(0, 4),
    unchanged=st.integers(0, 6),
    skipped_at=st.none() | instants,
)
schedules = st.none() | st.builds(
    Schedule,
    trigger=st.sampled_from([Cron(expression="0 2 * * *"), Interval(every="PT5H"), WindowDays(every_days=3)]),
    window=st.none() | st.builds(Span, start=st.integers(0, 719), end=st.integers(720, 1440)),
)
whens = st.none() | st.builds(
    Conditions,
    limits=st.dictionaries(
        st.sampled_from([Metric.SMALL_FILE_PERCENT, Metric.MANIFEST_COUNT]), st.sampled_from([1, 90])
    ),
    logic=st.sampled_from(Logic),
)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    rules = [
        rule(
            operation,
            enabled=draw(st.sampled_from([True, True, True, False])),
            schedule=draw(schedules),
            when=draw(whens),
            min_interval=draw(st.sampled_from([0, DAY])),
            max_delay=draw(st.sampled_from([None, None, 5 * DAY])),
        )
        for operation in draw(st.sets(st.sampled_from(Operation), min_size=1, max_size=4))
    ]
    return table(
        *rules,
        since=draw(instants),
        health=draw(st.sampled_from([None, HEALTH, HEALTH])),
        histories={one.operation: draw(histories) for one in rules},
        predictions={one.operation: draw(st.sampled_from([Prediction(), NOTHING])) for one in rules},
        busy=draw(st.sampled_from([None, None, None, "r1"])),
    )


@pytest.mark.requirement("CARE-8")
@given(tables(), st.booleans())
def test_every_decision_has_a_reason_and_every_reason_holds(given: Table, automatic: bool) -> None:
    found = decide(given, Terms(clock=Clock(NOW), switches=Switches(automatic=automatic)))
    assert [ORDER[one.operation] for one in found] == sorted(ORDER[one.operation] for one in found)
    assert sum(one.verdict is Verdict.RUN for one in found) <= 1
    for one in found:
        asked = given.policy.operations[one.operation]
        met_enough = not one.unmet or (asked.when is not None and asked.when.logic is Logic.ANY and bool(one.met))
        if one.verdict is Verdict.RUN:
            assert not one.blocks and (one.forced or met_enough) and one.due_since is not None
            assert automatic and asked.enabled and given.state.busy is None
        elif one.verdict is Verdict.WAIT:
            assert one.blocks or not met_enough
        for block in one.blocks:
            assert block.until is None or block.until > NOW
            assert isinstance(block.by, Blocker)


@pytest.mark.requirement("CARE-8")
@given(tables())
def test_what_is_eligible_by_time_alone_is_so_at_that_instant_and_not_before(given: Table) -> None:
    for one in decide(given, Terms(clock=Clock(NOW))):
        at = one.next_eligible
        if at is None or one.forced or (asked := given.policy.operations[one.operation]).max_delay is not None:
            continue
        alone = replace(given, policy=replace(given.policy, operations={one.operation: asked}))
        [then] = decide(alone, Terms(clock=Clock(at)))
        assert not [block for block in then.blocks if block.until is not None and block.by is not Blocker.WINDOW]
        [before] = decide(alone, Terms(clock=Clock(at - 1)))
        assert before.verdict is Verdict.WAIT


@given(
    st.sampled_from((Cron(expression="0 2 * * *"), Cron(expression="*/7 * * * *"), Interval(every="PT6H"))),
    st.integers(0, 90 * DAY),
)
def test_fires_looked_up_once_are_those_that_the_trigger_has(trigger: Cron | Interval, ago: int) -> None:
    clock, schedule = Clock(NOW), Schedule(trigger=trigger)
    for base in (NOW - ago, NOW - ago // 100, NOW - ago - 3 * DAY):
        assert clock.first_after(schedule, base) == next_fire(trigger, base)


def test_the_collector_rests_while_very_much_is_decided_and_then_goes_on() -> None:
    seen = []
    with pytest.raises(KeyError), collector_resting():
        with collector_resting():
            seen.append(gc.isenabled())
        seen.append(gc.isenabled())
        raise KeyError
    assert seen == [False, False] and gc.isenabled()
