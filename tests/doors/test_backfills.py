"""Backfills through the doors: REST, the command line, and the whole of it on the real system."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from tidegate.cli import backfills as shown
from tidegate.cli import output

from .conftest import Served, tidegate
from .running import tidegate_up

NIGHTLY = "/namespaces/default/schedules/nightly"
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def day(ago: int) -> str:
    return f"{TODAY - timedelta(days=ago):%Y-%m-%d}"


def at(ago: int, hour: int = 0) -> str:
    return f"{day(ago)}T{hour:02}:00:00Z"


@pytest.fixture
def nightly(served_by: Served) -> Served:
    """A schedule at two o'clock that rests."""
    served_by.declare("nightly", enabled=False)
    return served_by


@pytest.mark.requirement("CATCH-6", "OPS-1")
def test_it_is_looked_at_asked_for_paused_resumed_and_cancelled(nightly: Served) -> None:
    body = {"start": at(9), "end": at(4), "order": "newest", "concurrency": 2}
    plan = nightly("POST", f"{NIGHTLY}:backfill", json={**body, "dry_run": True})
    assert plan.status_code == 202, plan.text
    assert (plan.json()["id"], plan.json()["count"], plan.json()["expected"]) == (None, 5, None)
    assert [one["fire_time"] for one in plan.json()["items"]] == [at(ago, 2) for ago in (5, 6, 7, 8, 9)]
    assert nightly("GET", "/backfills").json() == {"items": [], "next": None}

    asked = nightly("POST", f"{NIGHTLY}:backfill", json=body).json()
    assert {key: asked[key] for key in body} == body and asked["count"] == 5
    path = f"/backfills/{asked['id']}"
    found = nightly("GET", path).json()
    assert (found["state"], found["total"], found["progress"]["settled"], found["by"]) == ("running", 5, 0, "anonymous")
    paused = nightly("POST", f"{path}:pause", json={"reason": "lunch"})
    assert (paused.status_code, paused.json()["state"], paused.json()["reason"]) == (202, "paused", "lunch")
    assert nightly("POST", f"{path}:resume").json()["state"] == "running"
    ended = nightly("POST", f"{path}:cancel").json()
    assert ended["state"] == "cancelled" and ended["finished_at"] is not None
    again = nightly("POST", f"{path}:resume")
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    listed = nightly("GET", "/namespaces/default/backfills?schedule=nightly&state=cancelled").json()["items"]
    assert [one["id"] for one in listed] == [asked["id"]]
    told = [(one["action"], one["kind"]) for one in nightly("GET", "/audit").json()["items"]]
    assert told[:4] == [("cancelled", "Backfill"), ("resumed", "Backfill"), ("paused", "Backfill"),
                        ("backfilled", "Schedule")]  # fmt: skip


@pytest.mark.requirement("CATCH-6")
def test_what_is_wrong_is_422_with_every_place(nightly: Served) -> None:
    body: dict[str, Any] = {"start": "yesterday", "order": "latest", "concurrency": 0, "reprocess": 1, "strat": 1}
    answer = nightly("POST", f"{NIGHTLY}:backfill", json=body)
    assert answer.status_code == 422
    assert {one["path"] for one in answer.json()["errors"]} == set(body)
    for wrong, path in (
        ({}, "start"),
        ({"start": at(3), "end": at(3)}, "end"),
        ({"start": at(-3)}, "start"),
        ({"keys": [at(3, 2), at(3)]}, "keys[1]"),
        ({"keys": [at(3, 2)], "start": at(3)}, "keys"),
        ({"keys": []}, "keys"),
    ):
        answer = nightly("POST", f"{NIGHTLY}:backfill", json=wrong)
        assert (answer.status_code, [one["path"] for one in answer.json()["errors"]]) == (422, [path]), wrong
    nightly("PUT", "/namespaces/default/schedules/hand", json={"spec": {"program": "p", "trigger": {"type": "never"}}})
    answer = nightly("POST", "/namespaces/default/schedules/hand:backfill", json={"start": at(3)})
    assert answer.status_code == 422 and "no fire times" in answer.text
    assert nightly("POST", "/namespaces/default/schedules/nobody:backfill", json={}).status_code == 404
    for number in ("b7", "x", "b"):
        assert nightly("GET", f"/backfills/{number}").status_code == 404
    assert nightly("GET", "/backfills?state=runing").status_code == 422


@pytest.mark.requirement("CATCH-6", "OPS-2")
def test_the_command_says_what_it_will_do_and_how_far_it_is(served: Served) -> None:
    served.declare("nightly")
    url = served.url
    plan = tidegate("backfill", "create", "nightly", "--start", day(40), "--end", day(10), "--dry-run", url=url)
    assert plan.status == 0, plan.err
    assert "30 runs" in plan.out and "dry run" in plan.out and "never run" in plan.out and "20 more" in plan.out
    made = tidegate("backfill", "create", "nightly", "--key", at(3, 2), "--key", at(2, 2), "-o", "json", url=url)
    assert made.status == 0, made.err
    number = made.json["id"]
    assert (made.json["count"], made.json["keys"]) == (2, [at(3, 2), at(2, 2)])
    shown = tidegate("backfill", "show", number, url=url)
    assert "0 % of 2" in shown.out and "[" + "." * 40 + "]" in shown.out
    assert "paused" in tidegate("backfill", "pause", number, "--reason", "lunch", url=url).out
    assert "lunch" in tidegate("backfill", "show", number, url=url).out
    assert "running" in tidegate("backfill", "resume", number, url=url).out
    assert "cancelled" in tidegate("backfill", "cancel", number, url=url).out
    followed = tidegate("backfill", "show", "-f", number, "-o", "json", url=url)
    assert followed.json["state"] == "cancelled"
    assert [one["id"] for one in tidegate("backfill", "list", "-o", "json", url=url).json] == [number]
    assert number in tidegate("backfill", "list", url=url).out
    wrong = tidegate("backfill", "show", "seven", url=url)
    assert (wrong.status, "no" in wrong.err or "not" in wrong.err) == (1, True)
    assert tidegate("backfill", "create", "nightly", "--order", "latest", url=url).status == 2


@pytest.mark.requirement("CATCH-6", "OPS-2")
@pytest.mark.parametrize(
    ("said", "told"),
    [
        ((), ("--start", "--key")),
        (("--start", "2026-13-01"), ("--start", "'2026-13-01'", "2026-11-01T00:00:00Z")),
        (("--start", day(9), "--end", f"{day(4)}T04:00"), ("--end", f"'{day(4)}T04:00'", "zone")),
        (("--key", "soon"), ("--key", "'soon'")),
        (("--key", at(3, 1)), ("--key: ", "is no fire time")),
        (("--start", at(3), "--end", at(4)), ("--end: ", "after start")),
    ],
)
def test_what_is_wrong_is_told_by_the_option_and_its_value(
    served: Served, said: tuple[str, ...], told: tuple[str, ...]
) -> None:
    served.declare("nightly")
    wrong = tidegate("backfill", "create", "nightly", *said, url=served.url)
    assert wrong.status in (1, 2) and wrong.out == ""
    line = " ".join(wrong.err.replace("│", " ").split())
    assert all(one in line for one in told), line
    assert "keys" not in line


@pytest.mark.requirement("CATCH-6", "OPS-2")
@pytest.mark.parametrize("state", ["planned", "superseded", "waiting"])
def test_a_fire_time_without_a_run_is_not_in_hand(capsys: pytest.CaptureFixture[str], state: str) -> None:
    """A paused backfill took its waiting run back: nothing of it goes on."""
    names = ("settled", "percent", "passed", "live", "succeeded", "failed", "cancelled")
    found = {
        **dict.fromkeys(("id", "namespace", "schedule", "by", "order"), "x"),
        "state": "paused",
        "reason": "lunch",
        "total": 20,
        "expected": "PT32S",
        **dict.fromkeys(("start", "end", "created_at"), at(3)),
        "progress": {**dict.fromkeys(names, 0), "settled": 8, "succeeded": 8, "live": 1},
        "items": [{"fire_time": at(2), "run": None, "state": state}],
    }
    output.display(shown.page_of(found))
    page = capsys.readouterr().out
    assert ("1 in hand" in page) is (state == "waiting")
    assert ("1 to be run again" in page) is (state != "waiting")
    assert "32 s once it is resumed" in page


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.requirement("CATCH-6")
def test_a_week_is_run_once_each_while_the_schedule_rests(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with tidegate_up(tmp_path / "home") as up:
        script = f"echo $TIDEGATE_FIRE_TIME >> {journal}"
        up.declare("nightly", ["sh", "-c", script], trigger={"type": "cron", "expression": "0 2 * * *"})
        up.call("POST", f"{NIGHTLY}:disable", {})
        body = {"start": at(7), "end": at(0), "concurrency": 2}
        asked = up.call("POST", f"{NIGHTLY}:backfill", body)
        until(lambda: up.get(f"/backfills/{asked['id']}")["finished_at"])
        assert sorted(journal.read_text().split()) == [at(ago, 2) for ago in (7, 6, 5, 4, 3, 2, 1)]
        progress = up.get(f"/backfills/{asked['id']}")["progress"]
        assert (progress["succeeded"], progress["percent"]) == (7, 100.0)
        run = up.get("/namespaces/default/runs?schedule=nightly")["items"][0]
        assert (run["cause"]["type"], run["cause"]["by"], run["priority"]) == ("backfill", asked["id"], 0)
        assert f"Backfill {asked['id']} asked for it" in up.get(f"/runs/{run['id']}/explain")["summary"]
        again = up.call("POST", f"{NIGHTLY}:backfill", {**body, "dry_run": True})
        assert (again["count"], again["total"]) == (0, 7)
        assert up.get("/audit/ledger")["holds"]
