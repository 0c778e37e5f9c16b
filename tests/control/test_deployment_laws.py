"""The rules of deploying an application, each through REST (LIFE-6; scenarios 2 and 3)."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import SALES, Rest

from tidegate.api.context import Doors

COMMAND = {"type": "command", "argv": ["true"]}
FIVE = {"type": "event", "event": "user.landed", "key": "x", "count": 5}
ETL = f"{SALES}/applications/etl"
pytestmark = pytest.mark.requirement("LIFE-6")


def item(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def body(programs: dict[str, Any], schedules: dict[str, Any]) -> dict[str, Any]:
    """Schedules of `p1`, enabled, of five events, unless they say otherwise."""
    return {
        "programs": [item(name, **{**COMMAND, **spec}) for name, spec in programs.items()],
        "schedules": [
            item(name, **{"program": "p1", "enabled": True, "trigger": FIVE, **spec})
            for name, spec in schedules.items()
        ],
    }


def deploy(rest: Rest, programs: dict[str, Any], schedules: dict[str, Any], **how: Any) -> Any:
    return rest("PUT", ETL, body(programs, schedules), params=how)


def names(rest: Rest) -> list[str]:
    return sorted(one["metadata"]["name"] for one in rest("GET", f"{SALES}/schedules")["items"])


def test_undeclared_go_missing_come_differing_are_replaced_and_equal_keep_their_state(rest: Rest) -> None:
    deploy(rest, {"p1": {}}, {"a": {}, "b": {}, "c": {}})
    rest.publish(4)
    done = deploy(rest, {"p1": {}}, {"a": {}, "b": {"priority": 9}, "d": {}})
    assert {key: done[key] for key in ("created", "updated", "deleted", "unchanged")} == {
        "created": ["d"],
        "updated": ["b"],
        "deleted": ["c"],
        "unchanged": ["a"],
    }
    rest.publish(1)
    rest.works()
    assert {name: rest.states(name) for name in "abd"} == {"a": ["ready"], "b": [], "d": []}
    assert names(rest) == ["a", "b", "d"]


def test_without_update_schedules_none_is_created_changed_or_deleted(rest: Rest) -> None:
    deploy(rest, {"p1": {}}, {"a": {}, "b": {}})
    before = {name: rest("GET", f"{SALES}/schedules/{name}") for name in names(rest)}
    done = deploy(rest, {"p1": {"argv": ["false"]}}, {"b": {"priority": 9}, "new": {}}, update_schedules=False)
    assert (done["created"], done["updated"], done["deleted"]) == ([], [], [])
    assert done["programs"]["updated"] == ["p1"]
    assert {name: rest("GET", f"{SALES}/schedules/{name}") for name in names(rest)} == before
    rest.publish(5)
    rest.works()
    assert rest.states("a") == ["ready"]
    assert rest.ask("POST", f"{SALES}/schedules/new:trigger", json={}).status_code == 404


def test_a_deployment_may_override_the_setting_of_the_site(rest: Rest) -> None:
    rest.app.state.doors = Doors(store=rest.desk.store, logs=rest.app.state.doors.logs, update_schedules=False)
    assert deploy(rest, {"p1": {}}, {"a": {}})["created"] == []
    assert deploy(rest, {"p1": {}}, {"a": {}}, update_schedules=True)["created"] == ["a"]
    assert deploy(rest, {"p1": {}}, {})["deleted"] == []
    rest.app.state.doors = Doors(store=rest.desk.store, logs=rest.app.state.doors.logs)
    assert deploy(rest, {"p1": {}}, {}, update_schedules=False)["deleted"] == []
    assert deploy(rest, {"p1": {}}, {})["deleted"] == ["a"]


@pytest.mark.parametrize("update_schedules", [True, False])
def test_a_removed_program_takes_every_schedule_that_names_it_along(rest: Rest, *, update_schedules: bool) -> None:
    deploy(rest, {"p1": {}, "p2": {}}, {"a": {}, "b": {"program": "p2"}})
    rest.put("free", program="p2", trigger=FIVE)
    done = deploy(rest, {"p1": {}}, {"a": {}}, update_schedules=update_schedules)
    assert (done["deleted"], done["programs"]["deleted"]) == (["b", "free"], ["p2"])
    assert names(rest) == ["a"]


def test_a_removed_application_takes_its_programs_and_schedules_along(rest: Rest) -> None:
    deploy(rest, {"p1": {}}, {"a": {}})
    rest.put("free", trigger=FIVE)
    rest("DELETE", ETL)
    assert names(rest) == ["free"]
    assert rest.ask("GET", f"{SALES}/programs/p1").status_code == 404
    assert rest.ask("GET", ETL).status_code == 404


def test_a_deployment_owns_what_was_made_for_its_application_by_hand(rest: Rest) -> None:
    deploy(rest, {"p1": {}}, {"a": {}})
    made = {"metadata": {"application": "etl"}, "spec": {"program": "p1", "trigger": FIVE}}
    rest("PUT", f"{SALES}/schedules/by-hand", made)
    rest.put("free", trigger=FIVE)
    assert deploy(rest, {"p1": {}}, {"a": {}})["deleted"] == ["by-hand"]
    assert names(rest) == ["a", "free"]  # what belongs to no application is never touched


def test_a_name_that_another_application_owns_is_a_conflict_and_nothing_is_written(rest: Rest) -> None:
    deploy(rest, {"p1": {}}, {"a": {}})
    other = body({"p9": {}}, {"a": {"program": "p9"}, "z": {"program": "p9"}})
    answer = rest.ask("PUT", f"{SALES}/applications/other", json=other)
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert names(rest) == ["a"]
    assert rest.ask("GET", f"{SALES}/programs/p9").status_code == 404


def test_what_a_person_switched_stays_switched(rest: Rest) -> None:
    deploy(rest, {"p1": {}}, {"a": {}, "b": {"enabled": False}})
    rest.disable("hold", "a", reason="by hand")
    rest.enable("b")
    deploy(rest, {"p1": {}}, {"a": {"priority": 9}, "b": {"priority": 9, "enabled": False}})
    status = {name: rest("GET", f"{SALES}/schedules/{name}")["status"] for name in "ab"}
    assert (status["a"]["mode"], status["a"]["reason"], status["b"]["enabled"]) == ("hold", "by hand", True)
    documents = [{"kind": "Schedule", **one} for one in body({}, {"a": {"priority": 9}})["schedules"]]
    told = rest("POST", "/diff", {"documents": [{"apiVersion": "tidegate/v1", **documents[0]}], "namespace": "sales"})
    assert "a person disabled it (by hand)" in told["items"][0]["note"]  # and the drift is shown


def test_a_deployment_with_a_fault_leaves_everything_as_it_was(rest: Rest) -> None:
    deploy(rest, {"p1": {}}, {"a": {}})
    rest.publish(4)
    bad = body({"p1": {"argv": ["false"]}}, {"a": {"priority": 9}, "b": {"program": "p9"}})
    answer = rest.ask("PUT", ETL, json=bad)
    assert answer.status_code == 422
    assert [one["path"] for one in answer.json()["errors"]] == ["schedules[1].spec.program"]
    assert rest("GET", f"{SALES}/programs/p1")["status"]["revision"] == 1
    rest.publish(1)
    rest.works()
    assert rest.states("a") == ["ready"]


def test_a_plan_says_what_would_happen_and_changes_nothing(rest: Rest) -> None:
    deploy(rest, {"p1": {}}, {"a": {}})
    plan = deploy(rest, {"p2": {}}, {"b": {"program": "p2"}}, dry_run=True)
    assert (plan["created"], plan["deleted"], plan["programs"]["deleted"]) == (["b"], ["a"], ["p1"])
    assert names(rest) == ["a"]
    assert {**deploy(rest, {"p2": {}}, {"b": {"program": "p2"}})} == plan


@pytest.mark.requirement("LIFE-8")
def test_every_change_of_a_deployment_is_on_record(rest: Rest) -> None:
    deploy(rest, {"p1": {}}, {"a": {}, "b": {}})
    rest("PUT", ETL, body({"p1": {}}, {"a": {"priority": 9}}), headers={"tidegate-user": "eve"})
    told = [
        (one["action"], one["name"]) for one in rest("GET", "/audit?namespace=sales")["items"] if one["who"] == "eve"
    ]
    assert sorted(told) == [("deleted", "b"), ("updated", "a")]


@pytest.mark.requirement("GATE-15")
def test_contradictions_are_warnings_and_under_strict_faults(rest: Rest) -> None:
    late = {"catch_up": {"policy": "all"}, "trigger": {"type": "interval", "every": "P1W"}}
    done = deploy(rest, {"p1": {}}, {"a": late})
    assert [one["path"] for one in done["warnings"]["a"]] == ["spec.catch_up.window"]
    answer = rest.ask("PUT", ETL, json=body({"p1": {}}, {"a": {}, "b": late}), params={"strict": True})
    assert answer.status_code == 422
    assert [one["path"] for one in answer.json()["errors"]] == ["schedules[1].spec.catch_up.window"]
    assert names(rest) == ["a"]
    put = rest.put("c", **late)
    assert [one["path"] for one in put["status"]["warnings"]] == ["spec.catch_up.window"]
    url = f"{SALES}/schedules/d"
    refused = rest.ask("PUT", url, json={"spec": {"program": "load", **late}}, params={"strict": True})
    assert refused.status_code == 422 and rest.ask("GET", url).status_code == 404
    documents = [{"apiVersion": "tidegate/v1", "kind": "Schedule", **item("e", program="load", **late)}]
    said = {"documents": documents, "namespace": "sales"}
    (applied,) = rest("POST", "/apply", said)["items"]
    assert applied["warnings"] == put["status"]["warnings"]
    assert rest.ask("POST", "/apply", json=said, params={"strict": True}).status_code == 422
