"""The JSON that every door answers with has the keys of the interface, whatever the record holds."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tidegate.control.nodes import Explanation, Node
from tidegate.documents import parse, shapes
from tidegate.documents.kinds import MODELS
from tidegate.domain.ids import AttemptKey, ProgramId, RunKey, ScheduleId
from tidegate.domain.instants import SECOND, parse_instant
from tidegate.domain.programs import Command, ProgramRef
from tidegate.domain.runs import Cause, State
from tidegate.domain.schedules import Mode, ScheduleSpec
from tidegate.domain.triggers import Cron
from tidegate.ports.records import AttemptRecord, Metadata, RunRecord, ScheduleRecord, Stats

NOON = parse_instant("2026-03-01T12:00:00Z")
KEY = RunKey(NOON, ScheduleId(7), 0)

RUN_KEYS = [
    "id",
    "namespace",
    "schedule",
    "revision",
    "program",
    "state",
    "reason",
    "fire_time",
    "fire_time_to",
    "count",
    "cause",
    "arguments",
    "priority",
    "created_at",
    "ready_at",
    "started_at",
    "finished_at",
    "expires_at",
    "merged_into",
    "inputs",
    "waiting_for",
    "attempts",
]


def a_run() -> RunRecord:
    attempt = AttemptRecord(
        key=AttemptKey(KEY, 1),
        state="failed",
        backend="command",
        backend_id="12",
        fence=3,
        host="h",
        created_at=NOON,
        started_at=NOON,
        finished_at=NOON + SECOND,
        error={"code": "program.exit", "message": "exit status 2", "exit_status": 2},
    )
    return RunRecord(
        key=KEY,
        namespace="sales",
        schedule="orders",
        rev=2,
        program="load",
        state=State.FAILED,
        reason="",
        fire_time=NOON,
        fire_time_to=None,
        previous_fire=None,
        count=1,
        cause=Cause.FIRE,
        caused_by="",
        given=None,
        arguments={"a": 1},
        priority=50,
        created_at=NOON,
        ready_at=NOON,
        started_at=NOON,
        finished_at=NOON + SECOND,
        expires_at=None,
        wake_at=None,
        wake_key=None,
        waiting_for=(),
        merged_into=None,
        stop=None,
        attempts=(attempt,),
    )


def a_schedule() -> ScheduleRecord:
    program = ProgramRef(id=ProgramId(1), rev=1, namespace="sales", name="load", spec=Command(argv=("true",)))
    return ScheduleRecord(
        id=ScheduleId(7),
        metadata=Metadata(namespace="sales", name="orders", labels={"team": "core"}),
        created_at=NOON,
        rev=3,
        valid_from=NOON,
        mode=Mode.ENABLED,
        reason="",
        document={"program": "load", "trigger": {"type": "cron", "expression": "@hourly"}},
        spec=ScheduleSpec(program="load", trigger=Cron(expression="@hourly")),
        program=program,
        cursor=NOON,
        cursor_rev=3,
        next_due=NOON + 5 * SECOND,
        last_fire=NOON,
    )


@pytest.mark.requirement("OPS-1")
def test_a_run_has_every_key_of_the_interface() -> None:
    told = shapes.run(a_run())
    assert set(RUN_KEYS) <= set(told)
    assert (told["id"], told["state"], told["fire_time"]) == (str(KEY), "failed", "2026-03-01T12:00:00Z")
    assert told["cause"] == {
        "type": "fire",
        "by": None,
        "fire_time": "2026-03-01T12:00:00Z",
        "events": {"count": 0, "first": [], "last": []},
    }
    assert told["attempts"][0]["error"] == {"code": "program.exit", "message": "exit status 2", "exit_status": 2}
    json.dumps(told)


def test_a_schedule_can_be_edited_and_sent_back() -> None:
    told = shapes.schedule(a_schedule(), Stats(), next_fire=NOON)
    status = [
        "enabled",
        "mode",
        "reason",
        "revision",
        "next_fire",
        "last_run",
        "streak",
        "next_start",
        "unsatisfiable",
    ]
    assert set(status) <= set(told["status"])
    assert (told["status"]["next_fire"], told["status"]["next_start"]) == (
        "2026-03-01T12:00:00Z",
        "2026-03-01T12:00:05Z",
    )
    parse(json.loads(json.dumps(told)))  # the status is read over


@pytest.mark.requirement("FAIL-6")
def test_statistics_have_every_key_of_the_interface() -> None:
    told = shapes.stats(Stats(total_runs=2, total_duration=90 * SECOND), next_start=None)
    assert list(told) == [
        "last_start",
        "last_finish",
        "last_success",
        "last_run_success",
        "next_start",
        "total_runs",
        "total_successes",
        "total_failures",
        "total_crashes",
        "total_timeouts",
        "total_duration",
        "consecutive_failures",
        "consecutive_crashes",
        "consecutive_unchanged",
    ]
    assert (told["total_runs"], told["total_duration"], told["last_start"]) == (2, "PT1M30S", None)


def test_an_explanation_is_a_tree() -> None:
    leaf = Node(node="b", satisfied=False, value=1, threshold=2, why="w")
    tree = Node(node="a", satisfied=None, value=None, threshold=None, why="", children=(leaf,))
    told = shapes.explain(
        Explanation(verdict="waiting", summary="s", blocker="b", earliest=NOON, release=None, tree=tree)
    )
    assert list(told) == ["verdict", "summary", "blocker", "earliest", "release", "tree"]
    assert list(told["tree"]["children"][0]) == ["node", "satisfied", "value", "threshold", "why", "children"]


@pytest.mark.requirement("OPS-1")
@pytest.mark.parametrize("kind", MODELS)
def test_every_kind_has_a_schema_with_tidy_names(kind: str) -> None:
    schema = MODELS[kind].model_json_schema(mode="validation")
    assert schema["title"] == kind
    assert all(name.isidentifier() for name in schema.get("$defs", {}))


def test_a_run_between_two_attempts_tells_when_the_next_one_is() -> None:
    run = replace(a_run(), state=State.WAITING, wake_at=NOON + 90 * SECOND + 1)
    (told,) = shapes.run(run)["waiting_for"]
    assert (told["constraint"], told["verdict"], told["until"]) == ("retry", "wait", "2026-03-01T12:01:30.000001Z")
    assert told["why"] == ("Attempt 2 starts no earlier than 2026-03-01T12:01:31Z; attempt 1 failed (exit status 2).")
    assert shapes.queue_item(run, position=1)["waiting_for"] == [told]
    assert shapes.run(replace(run, state=State.RUNNING))["waiting_for"] == []
