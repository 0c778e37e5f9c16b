"""Tables are measured when they change, and maintained when that is due: once at a time, within budgets."""

from __future__ import annotations

from typing import Any

import pytest
from engine.care import COMPACT, FLIGHTS, CareWorld
from engine.worlds import crank

from tidegate.control import care, policies, runs, schedules, tables
from tidegate.control.common import OnUpdate
from tidegate.documents import parsing
from tidegate.documents.declared import Schedule
from tidegate.documents.table_sentences import why
from tidegate.domain.errors import Conflict, Invalid, NotFound, Refused
from tidegate.domain.ids import RunKey
from tidegate.domain.instants import HOUR, MINUTE
from tidegate.domain.lake import Place
from tidegate.domain.maintenance.decision import Because
from tidegate.domain.maintenance.handover import AFTER, KEEP
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.runs import State
from tidegate.engine.assessor import Assessor
from tidegate.engine.caretaker import Caretaker
from tidegate.ports.lake import Move


@pytest.fixture
def world() -> CareWorld:
    return CareWorld()


@pytest.mark.requirement("CARE-5")
def test_a_table_is_measured_once_for_each_change(world: CareWorld) -> None:
    world.write()
    world.look()
    assert world.lake.measured == []  # no policy speaks for it
    world.policy(operations={"expire_snapshots": {}})
    for _ in range(3):
        world.look()
    assert world.lake.measured == [FLIGHTS]
    world.write()
    world.look()
    assert world.lake.measured == [FLIGHTS] * 2
    assert [score for _, _, score in crank(world.store.table_history(FLIGHTS, None, 9))] != []


@pytest.mark.requirement("CARE-5")
def test_a_policy_says_what_a_small_file_is_and_need_not_wait_for_another_measurement(world: CareWorld) -> None:
    """Ten files of 1 MiB and one of 500."""
    world.policy(operations={"expire_snapshots": {}})
    world.write()
    world.look()
    bounds = {("512 KiB", "1 GiB"): (0, 0), ("2 MiB", "400 MiB"): (10, 1), ("1 TiB", "2 TiB"): (11, 0)}
    for (small, large), said in bounds.items():
        world.policy(operations={"expire_snapshots": {}}, thresholds={"small_file": small, "large_file": large})
        health = crank(tables.get(world.store, FLIGHTS)).health
        assert health is not None and (health.small_files, health.large_files) == said
    assert world.lake.measured == [FLIGHTS]


@pytest.mark.requirement("CARE-5")
def test_a_broken_table_holds_up_no_other_and_says_why(world: CareWorld) -> None:
    world.policy()
    world.lake.broken["lake.raw.broken"] = "its manifest list is gone"
    world.write(table="lake.raw.broken")
    world.write()
    world.look()
    assert [one.order.table for one in world.open()] == [FLIGHTS]
    broken = crank(tables.get(world.store, "lake.raw.broken"))
    assert broken.record.error == "its manifest list is gone"
    (decision,) = world.status("lake.raw.broken").decisions
    assert Because.UNREADABLE in [block.because for block in decision.blocks]
    for _ in range(20):
        world.look()
    assert world.lake.measured.count("lake.raw.broken") < 8


def test_a_catalog_that_is_away_leaves_everything_as_it_was(world: CareWorld) -> None:
    world.policy(operations={"expire_snapshots": {}})
    world.write()
    world.look()
    world.lake.away = "no answer"
    world.look()
    (record,) = crank(world.store.tables())
    assert record.location is not None
    world.lake.away = ""
    del world.lake.commits[FLIGHTS]
    world.look()
    (record,) = crank(world.store.tables())
    assert record.location is None and world.status().decisions == ()


@pytest.mark.requirement("CARE-3", "CARE-13")
def test_what_is_due_runs_as_a_run_of_the_ledger_and_is_settled(world: CareWorld) -> None:
    world.policy()
    world.write()
    world.look()
    (one,) = world.open()
    assert (one.state, one.order.operation, one.order.policy) == (State.WAITING, "rewrite_data_files", "nightly")
    run = world.run(one.order.run)
    assert run.given["table"] == FLIGHTS and run.given["policy_version"] == 1
    (key,) = world.launch()
    world.lake.compact(FLIGHTS)
    world.end(key, changed=True, bytes_rewritten=7, data_files_before=11, data_files_after=2)
    world.look()
    assert world.open() == []
    (record,) = world.history()
    assert (record.outcome, record.bytes, record.result["data_files_after"]) == ("succeeded", 7, 2)
    assert world.verdicts() == {"rewrite_data_files": "wait"}
    for _ in range(3):
        world.look()
    assert len(world.history()) == 1


@pytest.mark.requirement("CARE-1", "HA-1")
def test_while_spark_measures_many_tables_for_minutes_no_other_measures_them_too(world: CareWorld) -> None:
    world.policy()
    world.write()
    fence = crank(world.store.register(role="scheduler", name="b", host="h", pid=2, now=world.now))
    other = Assessor(world.store, world.lake, world.lake, fence)
    world.step(world.assessor)
    world.lake.measured.clear()
    world.write()
    world.pass_time(6 * MINUTE)  # in which the lease was not renewed

    async def ten_minutes() -> None:
        await other.step(world.now + 10 * MINUTE)

    world.lake.meanwhile = ten_minutes
    world.step(world.assessor)
    assert world.lake.measured == [FLIGHTS]


@pytest.mark.requirement("CARE-9")
def test_a_table_has_one_maintenance_at_a_time_whoever_asks(world: CareWorld) -> None:
    world.policy(operations={**COMPACT, "expire_snapshots": {"when": {"snapshot_count": 1}}})
    world.write()
    world.look()
    (started,) = crank(tables.maintain(world.store, FLIGHTS, who="ann", operation="rewrite_manifests"))
    assert started.run is not None
    assert len(world.launch()) == 1
    world.look()
    assert len(world.launch()) == 1 and len(world.open()) == 2
    (busy,) = [one for one in world.status().decisions if one.operation.value == "expire_snapshots"]
    assert Because.BUSY in [block.because for block in busy.blocks]


@pytest.mark.requirement("CARE-9", "CARE-14")
def test_by_hand_it_starts_also_when_maintenance_is_switched_off(world: CareWorld) -> None:
    world.policy()
    world.write()
    crank(policies.switch(world.store, on=False, who="ann", reason="migration"))
    for _ in range(3):
        world.look()
    assert world.open() == [] and world.verdicts() == {"rewrite_data_files": "wait"}
    crank(tables.maintain(world.store, FLIGHTS, who="ann"))
    assert [one.order.manual for one in world.open()] == [True]
    crank(policies.switch(world.store, on=True, who="ann"))
    world.end(*world.launch(), changed=False)
    world.look()
    world.look()
    assert len(world.history()) == 2


@pytest.mark.requirement("CARE-7", "CARE-11")
def test_maintenance_is_neither_repeated_nor_triggered_nor_scheduled_past_its_plan(world: CareWorld) -> None:
    """Who reads from the table now, the budget and the history of the table would have no say."""
    world.policy()
    world.write()
    world.look()
    (run,) = world.launch()
    world.end(run, changed=True)
    world.look()
    name = care.schedule_of(FLIGHTS, Operation.REWRITE_DATA_FILES)
    remedy = f"tidegate tables maintain {FLIGHTS} --operation rewrite_data_files"
    for asked in (
        runs.rerun(world.store, str(run), who="ann"),
        runs.trigger(world.store, care.NAMESPACE, name, who="ann", arguments={"options": {"max_share": 1.0}}),
    ):
        with pytest.raises(Refused, match="planned anew") as refused:
            crank(asked)
        assert remedy in str(refused.value.remedy)
    nightly = {"program": care.PROGRAM, "trigger": {"type": "cron", "expression": "0 3 * * *"}, "enabled": True}
    metadata = {"name": "mine", "namespace": care.NAMESPACE}
    declared = parsing.parse({"apiVersion": "tidegate/v1", "kind": "Schedule", "metadata": metadata, "spec": nightly})
    assert isinstance(declared, Schedule)
    with pytest.raises(Invalid, match=r"spec\.trigger: .*MaintenancePolicy"):
        crank(schedules.put(world.store, declared, who="ann", on_update=OnUpdate.RESET))
    assert world.open() == []


@pytest.mark.requirement("CARE-10")
def test_a_dry_run_starts_nothing_and_says_what_it_would_do(world: CareWorld) -> None:
    world.write(10)
    world.policy(operations={"rewrite_data_files": {}})
    world.look()
    (would,) = crank(tables.maintain(world.store, FLIGHTS, who="ann", dry_run=True))
    assert would.run is None and would.prediction.removes == 9
    assert world.history() == []


@pytest.mark.requirement("CARE-8", "CARE-10")
@pytest.mark.parametrize("order", ["nope ASC NULLS LAST", "id, bucket(4, nope)", "zorder(ID, nope)", "`nope`"])
def test_a_sort_by_a_column_that_is_not_there_is_refused_before_anything_starts(world: CareWorld, order: str) -> None:
    world.policy(
        operations={"rewrite_data_files": {"when": {"small_file_percent": 20}, "options": {"sort_order": order}}}
    )
    world.write()
    world.look()
    said = "there is no column 'nope' (it has: id, day, where.city)"
    (would,) = crank(tables.maintain(world.store, FLIGHTS, who="ann", dry_run=True))
    assert said in would.prediction.why and would.prediction.removes is None
    with pytest.raises(Refused, match="there is no column 'nope'") as refused:
        crank(tables.maintain(world.store, FLIGHTS, who="ann"))
    assert refused.value.code == "maintenance.no_column"
    (decision,) = world.status().decisions
    assert decision.verdict.value == "wait" and said in why(decision)
    assert not world.open()
    world.policy(
        operations={"rewrite_data_files": {"when": {"small_file_percent": 20}, "options": {"sort_order": "day"}}}
    )
    assert crank(tables.maintain(world.store, FLIGHTS, who="ann"))


@pytest.mark.requirement("CARE-2")
def test_what_cannot_be_asked_for_is_refused_by_name(world: CareWorld) -> None:
    world.write()
    with pytest.raises(NotFound):
        crank(tables.maintain(world.store, "lake.raw.flight", who="ann"))
    world.policy("other", tables="lake.x.*", operations={"expire_snapshots": {}})
    world.look()
    with pytest.raises(NotFound, match="did you mean 'lake.raw.flights'"):
        crank(tables.maintain(world.store, "lake.raw.flight", who="ann"))
    with pytest.raises(Refused, match="no policy speaks"):
        crank(tables.maintain(world.store, FLIGHTS, who="ann"))
    with pytest.raises(Invalid, match="did you mean 'expire_snapshots'"):
        crank(tables.maintain(world.store, FLIGHTS, who="ann", operation="expire_snapshot"))
    with pytest.raises(Invalid, match="did you mean 'other'"):
        crank(tables.maintain(world.store, FLIGHTS, who="ann", policy="othr"))


@pytest.mark.requirement("CARE-7")
def test_a_budget_is_never_overshot_and_the_worst_goes_first(world: CareWorld) -> None:
    world.policy(budget={"operations": 2, "per": "PT1H"})
    names = [f"lake.raw.t{number}" for number in range(5)]
    for number, name in enumerate(names):
        world.write(6 + number, name)
    world.pass_time(10 * MINUTE)
    world.look()
    assert len(world.open()) == 2
    for run in world.launch():
        world.lake.compact(world.run(run).given["table"])
        world.end(run, changed=True, bytes_rewritten=1)
    for _ in range(30):
        world.look()
    assert sum(len(world.history(name)) for name in names) == 2
    waiting = [name for name in names if not world.history(name)]
    (decision,) = world.status(waiting[0]).decisions
    assert [block.because for block in decision.blocks] == [Because.NO_ROOM] and decision.next_eligible is not None
    with pytest.raises(Conflict, match="budget of policy 'nightly' has no room"):
        crank(tables.maintain(world.store, waiting[0], who="ann"))
    world.pass_time(HOUR)
    world.look()
    assert sum(len(world.history(name)) for name in names) == 4


@pytest.mark.requirement("CARE-12")
def test_a_predicted_noop_is_put_on_record_and_not_launched(world: CareWorld) -> None:
    world.policy(
        operations={"rewrite_data_files": {"schedule": {"trigger": {"type": "cron", "expression": "0 * * * *"}}}}
    )
    world.write(2)
    for _ in range(90):
        world.look()
    assert world.open() == [] and world.history() == []
    kept = crank(world.store.care())[FLIGHTS]["rewrite_data_files"]
    assert kept["skipped_snapshot"] == 1
    world.write(10)
    for _ in range(70):
        world.look()
    assert len(world.open()) == 1


@pytest.mark.requirement("FAIL-7")
def test_failures_slow_an_operation_down_and_count_in_the_debt(world: CareWorld) -> None:
    world.policy()
    world.write()
    for _ in range(3):
        world.look()
        (run,) = world.launch()
        world.end(run, "failed")
        world.lake.commits[FLIGHTS] += 1
        world.look()
        world.look()
    assert len(world.history()) == 3
    (decision,) = world.status().decisions
    assert [block.because for block in decision.blocks] == [Because.FAILING]
    terms = {term.name: term.points for term in world.status().table.debt.terms}
    assert (terms["failure_streak"], terms["failure_rate"]) == (60, 100)
    world.pass_time(6 * HOUR)
    world.look()
    assert len(world.history()) == 4


def test_a_policys_update_decides_from_then_on(world: CareWorld) -> None:
    world.policy(operations={"rewrite_data_files": {"when": {"small_file_percent": 99}}})
    world.write()
    world.look()
    assert world.open() == []
    world.policy(operations=COMPACT)
    world.look()
    (one,) = world.open()
    assert one.order.policy_rev == 2


def test_the_run_of_a_dead_caretaker_is_settled_by_the_next(world: CareWorld) -> None:
    world.policy()
    world.write()
    world.look()
    (run,) = world.launch()
    world.end(run, changed=True, bytes_rewritten=3)
    crank(world.store.leave(world.fence, world.now))
    fence = crank(world.store.register(role="scheduler", name="s2", host="h", pid=2, now=world.now))
    world.caretaker = Caretaker(world.store, care.begin, fence)
    world.pass_time(MINUTE)
    world.step(world.caretaker)
    (record,) = world.history()
    assert record.outcome == "succeeded"


def test_a_cancelled_maintenance_is_neither_success_nor_failure(world: CareWorld) -> None:
    world.policy()
    world.write()
    world.look()
    (one,) = world.open()
    world.cancel(one.order.run)
    world.pass_time(MINUTE)
    world.step(world.caretaker)
    (record,) = [one for one in world.history() if one.outcome is not None]
    assert (record.outcome, record.bytes) == ("cancelled", 0)
    assert crank(world.store.care())[FLIGHTS]["rewrite_data_files"].get("failures", 0) == 0


def test_snapshots_that_somebody_reads_from_are_told_to_the_run(world: CareWorld) -> None:
    async def watch() -> None:
        async with world.store.transaction(world.fence) as tx:
            place = Place(table_uuid="u", snapshot=77, sequence=1)
            await tx.move([Move(dataset=FLIGHTS, version=0, pointer="a", place=place)], world.now)

    crank(watch())
    world.policy()
    world.write()
    world.look()
    (one,) = world.open()
    assert world.run(one.order.run).given[KEEP] == ["77"]


@pytest.mark.requirement("CARE-10", "CARE-11")
def test_who_comes_after_a_run_that_died_is_told_of_it_until_one_came_through(world: CareWorld) -> None:
    world.policy()
    world.write()

    def next_run() -> RunKey:
        for _ in range(400):
            world.look()
            if keys := world.launch():
                return keys[0]
        raise AssertionError("it was never tried again")

    died = []
    for _ in range(2):
        run = next_run()
        assert [one["run"] for one in world.run(run).given.get(AFTER, ())] == died[::-1]
        died.append(str(run))
        begun = world.now
        world.lose(run)
        world.look()
    third = next_run()
    first, second = reversed(world.run(third).given[AFTER])
    assert (first["run"], second["run"]) == tuple(died) and first["begun"] <= first["ended"] <= begun <= second["ended"]
    world.lake.compact(FLIGHTS)
    world.end(third, changed=True, bytes_rewritten=7)
    world.write(30)
    assert AFTER not in world.run(next_run()).given


@pytest.mark.requirement("CARE-5", "EVENT-6")
def test_what_is_the_matter_with_a_table_is_told_when_it_becomes_something_else(world: CareWorld) -> None:
    def told() -> list[Any]:
        found, _ = crank(world.store.events(type="table.health", key=FLIGHTS, since=None, before=None, limit=9))
        return [one.payload for one in reversed(found)]

    world.policy(operations={"expire_snapshots": {}}, thresholds={"snapshot_count": {"warning": 3, "critical": 4}})
    world.write(files=0)
    world.look()
    assert told() == []  # nothing is, and nothing was
    for _ in range(2):
        world.write(files=0)
        world.look()
    [first] = told()
    assert (first["severity"], first["previous"], first["issues"]) == ("WARNING", None, {"snapshot_count": "WARNING"})
    world.write(files=0)
    world.look()
    world.write(files=0)
    world.look()
    assert [(one["previous"], one["severity"]) for one in told()] == [(None, "WARNING"), ("WARNING", "CRITICAL")]
    assert told()[1]["score"] >= 100


def test_what_a_person_asked_for_at_once_is_all_there_page_by_page(world: CareWorld) -> None:
    world.policy(operations={**COMPACT, "rewrite_manifests": {}, "compute_table_stats": {}})
    world.write()
    world.pass_time(MINUTE)
    world.step(world.assessor)
    asked = {one.run for one in crank(tables.maintain(world.store, FLIGHTS, who="ann"))}
    read, cursor = [], None
    while True:
        page = crank(tables.runs(world.store, FLIGHTS, cursor=cursor, limit=1))
        read += [one.order.run for one in page.items]
        if (cursor := page.next) is None:
            break
    assert len(read) == len(asked) == 3 and set(read) == asked
