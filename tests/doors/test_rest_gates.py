"""Calendars, the freeze and constraints over REST."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Served

HOLIDAYS = "/calendars/holidays"
NS = "/namespaces/default"


@pytest.fixture
def served(served_by: Served) -> Served:
    """All of this holds over both stores."""
    return served_by


@pytest.mark.requirement("GATE-8", "OPS-1")
def test_a_calendar_is_made_read_changed_and_deleted(served: Served) -> None:
    made = served("PUT", HOLIDAYS, json={"metadata": {"owner": "core"}, "spec": {"days": ["2026-12-25"]}})
    assert made.status_code == 201, made.text
    assert made.json() == {
        "apiVersion": "tidegate/v1",
        "kind": "Calendar",
        "metadata": {"name": "holidays", "owner": "core"},
        "spec": {"days": ["2026-12-25"]},
        "status": {"closed_until": None},
    }
    assert served("GET", HOLIDAYS).json() == made.json()
    assert served("PUT", HOLIDAYS, json=made.json()).status_code == 200, "an answer can be sent back"
    changed = served("PATCH", HOLIDAYS, json={"spec": {"timezone": "Europe/Berlin", "rules": ["0 0 * * *"]}}).json()
    assert changed["spec"]["days"] == ["2026-12-25"] and changed["status"]["closed_until"] is not None
    assert [one["metadata"]["name"] for one in served("GET", "/calendars").json()["items"]] == ["holidays"]
    assert served("POST", "/calendars", json={"metadata": {"name": "holidays"}, "spec": {}}).status_code == 409
    assert served("POST", "/calendars", json={"metadata": {"name": "other"}, "spec": {}}).status_code == 201
    assert served("DELETE", HOLIDAYS).status_code == 204
    assert served("DELETE", HOLIDAYS).status_code == served("GET", HOLIDAYS).status_code == 404
    told = [
        (one["action"], one["name"]) for one in served("GET", "/audit").json()["items"] if one["kind"] == "Calendar"
    ]
    assert told == [("deleted", "holidays"), ("created", "other"), ("updated", "holidays"), ("created", "holidays")]


@pytest.mark.requirement("GATE-15")
def test_what_is_no_calendar_is_422_with_its_place(served: Served) -> None:
    answer = served("PUT", HOLIDAYS, json={"spec": {"days": ["Christmas"], "ics": "holidays.ics"}})
    assert answer.status_code == 422
    assert {fault["path"] for fault in answer.json()["errors"]} == {"spec.days[0]", "spec.ics"}


@pytest.mark.requirement("GATE-8")
def test_a_freeze_is_set_told_and_lifted_and_is_on_record(served: Served) -> None:
    assert served("GET", "/freeze").json() == {"frozen": False, "who": None, "since": None, "reason": None}
    first = served("PUT", "/freeze", json={"reason": "upgrade"}, headers={"Tidegate-User": "ada"}).json()
    assert (first["frozen"], first["who"], first["reason"]) == (True, "ada", "upgrade")
    assert served("PUT", "/freeze", json={"reason": "another"}).json() == first, "who came first stays"
    assert served("GET", "/freeze").json() == first
    assert served("DELETE", "/freeze").status_code == 204
    assert served("DELETE", "/freeze").status_code == 204, "asked for again it is lifted all the same"
    assert served("GET", "/freeze").json()["frozen"] is False
    told = [(one["action"], one["who"]) for one in served("GET", "/audit").json()["items"] if one["kind"] == "Freeze"]
    assert told == [("unfrozen", "anonymous"), ("frozen", "ada")]
    assert served("PUT", "/freeze", json={"reasons": "x"}).status_code == 422
    for given, told in (("x" * 5000, "5,000"), (7, "the number 7")):
        (fault,) = served("PUT", "/freeze", json={"reason": given}).json()["errors"]
        assert fault == {"path": "reason", "reason": f"must be text of at most 1000 characters, not {told}"}


@pytest.mark.requirement("GATE-8", "OPS-4")
def test_calendars_are_applied_with_everything_else_or_not_at_all(served: Served) -> None:
    head = {"apiVersion": "tidegate/v1"}
    calendar = {**head, "kind": "Calendar", "metadata": {"name": "holidays"}, "spec": {"days": ["2026-12-25"]}}
    program = {**head, "kind": "Program", "metadata": {"name": "p"}, "spec": {"type": "command", "argv": ["true"]}}
    spec = {
        "program": "p",
        "trigger": {"type": "never"},
        "constraints": [{"type": "blackout", "calendar": "holidays"}],
    }
    schedule = {**head, "kind": "Schedule", "metadata": {"name": "s"}, "spec": spec}
    wrong = {**schedule, "metadata": {"name": "t"}, "spec": {**spec, "program": "q"}}
    assert served("POST", "/apply", json={"documents": [calendar, program, schedule, wrong]}).status_code == 422
    assert served("GET", HOLIDAYS).status_code == 404
    for result in ("created", "unchanged"):
        items = served("POST", "/apply", json={"documents": [calendar, program, schedule]}).json()["items"]
        assert [one["result"] for one in items] == [result] * 3
    diff = served("POST", "/diff", json={"documents": [{**calendar, "spec": {"days": ["2026-12-26"]}}]}).json()
    assert diff["items"][0]["fields"] == [
        {"path": "spec.days[0]", "stored": "2026-12-25", "given": "2026-12-26"},
    ]


CONSTRAINTS: list[dict[str, Any]] = [
    {"type": "concurrency", "max": 3, "scope": "group:nightly"},
    {"type": "delay", "duration": "PT5M"},
    {
        "type": "window",
        "start": "22:00",
        "end": "06:00",
        "timezone": "Europe/Berlin",
        "days": ["MON"],
        "stop_at_end": True,
        "unmet": "skip",
    },
    {"type": "min_interval", "duration": "PT1H"},
    {"type": "rate", "max": 100, "per": "PT1H", "scope": "program"},
    {"type": "load", "resource": "pool:spark", "below": 80},
    {"type": "blackout", "calendar": "holidays"},
]


@pytest.mark.requirement("GATE-1", "GATE-3", "GATE-4", "GATE-5", "GATE-6", "GATE-7", "GATE-8", "GATE-9")
def test_constraints_are_shown_as_they_were_written(served: Served) -> None:
    deadline = {"start": "PT30M", "finish": "PT3H", "from": "arrival"}
    waiting = {"timeout": "P1D", "then": "run"}
    made = served.declare(constraints=CONSTRAINTS, deadline=deadline, waiting=waiting, groups=["nightly"])
    assert made["spec"]["constraints"] == CONSTRAINTS
    assert (made["spec"]["deadline"], made["spec"]["waiting"]) == (deadline, waiting)
    assert served("GET", f"{NS}/schedules/s").json()["spec"] == made["spec"]
    assert [list(one)[0] for one in made["spec"]["constraints"]] == ["type"] * len(CONSTRAINTS)


@pytest.mark.requirement("GATE-14", "OPS-1")
def test_a_pool_borrows_of_one_that_there_is(served: Served) -> None:
    wrong = served("PUT", "/pools/reports", json={"spec": {"slots": 2, "borrow": {"from": "defalt", "max": 3}}})
    assert wrong.status_code == 422
    [error] = wrong.json()["errors"]
    assert error["path"] == "spec.borrow.from" and "did you mean 'default'?" in error["reason"]
    itself = served("PUT", "/pools/reports", json={"spec": {"slots": 2, "borrow": {"from": "reports", "max": 3}}})
    assert itself.status_code == 422 and "itself" in itself.text
    made = served("PUT", "/pools/reports", json={"spec": {"slots": 2, "borrow": {"from": "default", "max": 3}}})
    assert made.status_code == 201
    assert made.json()["status"] == {"used": 0, "free": 2, "borrowed": 0, "lent": 0}
    assert served("PUT", "/pools/reports", json=made.json()).json() == made.json(), "an answer can be sent back"
    served("PUT", "/pools/lender", json={"spec": {"slots": 1}})
    served("PATCH", "/pools/reports", json={"spec": {"borrow": {"from": "lender"}}})
    assert served("GET", "/pools/reports").json()["spec"]["borrow"] == {"from": "lender", "max": 3}
    refused = served("DELETE", "/pools/lender")
    assert refused.status_code == 409 and "reports" in refused.text
    served("PATCH", "/pools/reports", json={"spec": {"borrow": None}})
    assert "borrow" not in served("GET", "/pools/reports").json()["spec"]
    assert served("DELETE", "/pools/lender").status_code == 204
