"""What an update does to what waits and to what was collected, through REST (LIFE-4, GATE-16; scenarios 4 to 6)."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import SALES, Rest

MINUTELY = {"type": "cron", "expression": "* * * * *"}
FIVE = {"type": "event", "event": "user.landed", "key": "x", "count": 5}
BUSY = [{"type": "concurrency", "max": 1}]
MANY = [{"type": "concurrency", "max": 9}]
URL = f"{SALES}/schedules/s"


def collected(rest: Rest) -> Any:
    return rest("GET", f"{URL}/progress")["tree"]["value"]


@pytest.mark.requirement("LIFE-4")
@pytest.mark.parametrize("looked", [True, False], ids=["matched", "not matched yet"])
def test_an_update_begins_anew_so_that_five_are_needed_again(rest: Rest, *, looked: bool) -> None:
    rest.put(trigger=FIVE, arguments={"a": 1})
    rest.publish(1)
    if looked:
        rest.works()
    rest.put(trigger=FIVE, arguments={"a": 2})
    rest.publish(4)
    rest.later("10s")
    assert (rest.states(), collected(rest)) == ([], 4)
    rest.publish(1)
    rest.works()
    (run,) = rest.runs()
    assert (run["state"], run["arguments"], run["revision"]) == ("ready", {"a": 2}, 2)


@pytest.mark.requirement("LIFE-4")
def test_an_update_that_keeps_goes_on_with_what_was_collected(rest: Rest) -> None:
    rest.put(trigger=FIVE, arguments={"a": 1})
    rest.publish(4)
    rest.put(trigger=FIVE, arguments={"a": 2}, on_update="keep")
    rest.publish(1)
    rest.works()
    (run,) = rest.runs()
    assert (run["state"], run["arguments"]) == ("ready", {"a": 2})


@pytest.mark.requirement("LIFE-4")
def test_a_changed_trigger_begins_anew_whatever_is_kept(rest: Rest) -> None:
    rest.put(trigger=FIVE)
    rest.publish(4)
    rest.put(trigger={**FIVE, "count": 3}, on_update="keep")
    rest.works()
    assert (rest.states(), collected(rest)) == ([], 0)


@pytest.mark.requirement("LIFE-4")
def test_an_update_ends_what_waits_and_leaves_what_is_admitted_alone(rest: Rest) -> None:
    rest.put(trigger=MINUTELY, constraints=MANY, arguments={"a": 1})
    rest.later("1m")
    rest.put(trigger=MINUTELY, constraints=BUSY, arguments={"a": 1})
    assert rest.states() == ["superseded"]  # ready, and no attempt has begun
    rest.later("1m")
    rest.later("1m")
    assert rest.states() == ["superseded", "ready", "waiting"]


@pytest.mark.requirement("LIFE-4")
def test_a_kept_run_takes_the_new_revision_when_it_starts(rest: Rest) -> None:
    rest.put(trigger=MINUTELY, constraints=BUSY, arguments={"a": 1})
    rest.later("1m")
    rest.later("1m")
    assert rest.states() == ["ready", "waiting"]
    rest.put(trigger=MINUTELY, constraints=MANY, arguments={"a": 2}, on_update="keep")
    rest.works()
    first, second = rest.runs()
    assert [(one["state"], one["arguments"]) for one in (first, second)] == [
        ("ready", {"a": 1}),  # it was admitted before the edit: closed, and never edited again
        ("ready", {"a": 2}),
    ]


@pytest.mark.requirement("LIFE-4", "CATCH-8")
def test_fires_that_nobody_decided_yet_stay_with_the_old_revision(rest: Rest) -> None:
    rest.put(trigger=MINUTELY, constraints=MANY, catch_up={"policy": "all"})
    rest.desk.later("3m")  # no scheduler looked meanwhile
    rest.put(trigger={"type": "cron", "expression": "0 5 * * *"}, constraints=MANY)
    rest.works()
    assert rest.states() == ["ready"] * 3
    assert rest("GET", URL)["status"]["next_fire"] == "2026-03-02T05:00:00Z"
    assert rest.holds()


@pytest.mark.requirement("LIFE-1", "LIFE-7")
def test_what_is_only_described_anew_or_is_equal_disturbs_nothing(rest: Rest) -> None:
    rest.put(trigger=FIVE)
    rest.publish(4)
    rest("PATCH", URL, {"metadata": {"owner": "core", "labels": {"team": "a"}, "description": "d"}})
    rest.put(trigger=FIVE)
    rest.put(trigger={**FIVE, "type": "event"}, priority=50, retry={"max_attempts": 1})
    assert rest("GET", URL)["status"]["revision"] == 1
    rest.publish(1)
    rest.works()
    assert rest.states() == ["ready"]


@pytest.mark.requirement("LIFE-4")
def test_a_programs_update_affects_later_launches_only(rest: Rest) -> None:
    rest.put(trigger=MINUTELY, constraints=BUSY)
    rest.later("1m")
    rest.later("1m")
    first, second = rest.runs()
    program = {"spec": {"type": "command", "argv": ["true"], "arguments": {"version": 2}}}
    rest("PUT", f"{SALES}/programs/load", program)
    assert rest.states() == ["ready", "waiting"]  # neither reset nor touched
    rest("POST", f"/runs/{first['id']}:cancel", {})
    rest.works()
    assert rest("GET", f"/runs/{first['id']}")["arguments"] == {}
    assert rest("GET", f"/runs/{second['id']}")["arguments"] == {"version": 2}


@pytest.mark.requirement("LIFE-4", "LIFE-2")
@pytest.mark.parametrize("mode", ["keep", "backlog", "hold"])
def test_an_update_leaves_a_schedule_in_the_mode_in_which_it_rests(rest: Rest, mode: str) -> None:
    rest.put(trigger=FIVE)
    rest.publish(7)
    rest.works()
    rest.disable(mode, reason="holidays")
    rest.put(trigger=FIVE, priority=60)
    status = rest("GET", URL)["status"]
    assert (status["mode"], status["reason"], status["revision"]) == (mode, "holidays", 3)
    assert rest.states() == ["superseded"]
    rest.publish(5)
    rest.works()
    assert rest.states() == ["superseded"] + (["waiting"] if mode != "keep" else [])
    rest.enable()
    rest.publish(5)
    rest.works()
    assert "ready" in rest.states()


@pytest.mark.requirement("LIFE-4")
def test_a_document_that_says_disabled_drops_and_keep_does_not_stop_it(rest: Rest) -> None:
    rest.put(trigger=FIVE)
    rest.publish(7)
    rest.works()
    rest.put(trigger=FIVE, enabled=False, on_update="keep")
    assert (rest.states(), rest("GET", URL)["status"]["mode"]) == (["superseded"], "drop")
    rest.put(trigger=FIVE, enabled=True)
    rest.works()
    assert collected(rest) == 0


@pytest.mark.requirement("LIFE-4")
def test_a_stale_change_is_refused_and_changes_nothing(rest: Rest) -> None:
    rest.put(trigger=FIVE)
    rest.publish(4)
    stale = {"if-match": '"1"'}
    rest.put(trigger=FIVE, priority=60, on_update="keep")
    body = {"spec": {"program": "load", "trigger": FIVE, "priority": 70}}
    for method, path in (("PUT", URL), ("PATCH", URL), ("POST", f"{URL}:disable"), ("DELETE", URL)):
        sent = None if method == "DELETE" else {} if path.endswith("disable") else body
        answer = rest.ask(method, path, json=sent, headers=stale)
        assert (answer.status_code, answer.json()["code"]) == (412, "stale")
    assert rest("GET", URL)["spec"]["priority"] == 60
    rest.publish(1)
    rest.works()
    assert rest.states() == ["ready"]


@pytest.mark.requirement("LIFE-5")
def test_a_deleted_schedule_takes_no_further_event(rest: Rest) -> None:
    rest.put(trigger=FIVE)
    rest.publish(4)
    rest("DELETE", URL)
    rest.publish(1)
    rest.later("10s")
    assert rest.states() == []
    rest.put(trigger=FIVE)  # a schedule made anew is a new one
    rest.publish(4)
    rest.works()
    assert rest.states() == []


@pytest.mark.requirement("GATE-16")
def test_input_of_a_run_that_never_started_reaches_the_next_one_unless_an_update_resets(rest: Rest) -> None:
    data = {"type": "partition", "dataset": "lake.raw.orders", "count": 1}
    rest.put(trigger=data, constraints=BUSY)

    def commit(snapshot: int) -> None:
        payload = {"snapshot": str(snapshot), "previous_snapshot": str(snapshot - 1)}
        payload |= {"partitions_added": [f"d={snapshot}"], "rows": 1}
        rest("POST", "/events", {"type": "dataset.updated", "key": "lake.raw.orders", "payload": payload})
        rest.desk.later("1s")
        rest.works()

    def input_of(run: Any) -> tuple[Any, Any]:
        (given,) = rest("GET", f"/runs/{run['id']}")["inputs"]
        return given["from_snapshot"], given["to_snapshot"]

    commit(1)
    commit(2)
    first, second = rest.runs()
    assert (first["state"], second["state"]) == ("ready", "waiting")
    rest("POST", f"/runs/{second['id']}:cancel", {})
    rest("POST", f"/runs/{first['id']}:cancel", {})
    commit(3)
    ready = next(one for one in rest.runs() if one["state"] == "ready")
    assert input_of(ready)[1] == "3"
    assert input_of(ready)[0] != "2"  # what the two that never started would have read is in it
    rest.put(trigger=data, constraints=BUSY, priority=60)
    commit(4)
    newest = next(one for one in rest.runs() if one["state"] == "ready")
    assert input_of(newest) == ("3", "4")  # only a reset moves the range to the present
