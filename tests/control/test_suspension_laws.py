"""The four ways to rest, through REST: what each keeps, what it lets start, and what enabling does (LIFE-2, LIFE-3)."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import SALES, Rest

MINUTELY = {"type": "cron", "expression": "* * * * *"}
FIVE = {"type": "event", "event": "user.landed", "key": "x", "count": 5}
MANY = [{"type": "concurrency", "max": 9}]
MODES = ("drop", "keep", "backlog", "hold")


def collected(rest: Rest) -> Any:
    """Events that its trigger has, of five."""
    tree = rest("GET", f"{SALES}/schedules/s/progress")["tree"]
    return None if tree is None else tree["value"]


# ── drop ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("LIFE-2")
def test_drop_ends_what_waits_and_forgets_what_was_collected(rest: Rest) -> None:
    rest.put(trigger=FIVE)
    rest.publish(3)
    rest.works()
    rest("POST", f"{SALES}/schedules/s:trigger", {})
    rest.disable("drop")
    assert rest.states() == ["superseded"]
    rest.publish(5)
    rest.later("1h")
    rest.enable()
    rest.publish(4)
    rest.works()
    assert (rest.states(), collected(rest)) == (["superseded"], 4)  # it needs five again
    rest.publish(1)
    rest.works()
    assert rest.states() == ["superseded", "ready"]


@pytest.mark.requirement("LIFE-2", "CATCH-3")
def test_drop_makes_no_runs_of_its_clock_and_none_are_caught_up(rest: Rest) -> None:
    rest.put(trigger=MINUTELY, catch_up={"policy": "all"})
    rest.later("1m")
    rest.disable("drop")
    rest.later("1h")
    rest.enable()
    rest.works()
    assert rest.states() == ["superseded"]
    assert rest.holds()


# ── keep ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("LIFE-3")
def test_under_keep_what_waits_starts_when_it_may(rest: Rest) -> None:
    rest.put(trigger=MINUTELY)
    rest.later("1m")
    rest.later("1m")
    first, second = rest.runs()
    assert [first["state"], second["state"]] == ["ready", "waiting"]
    rest.disable("keep")
    rest("POST", f"/runs/{first['id']}:cancel", {})
    rest.works()
    assert rest.states() == ["cancelled", "ready"]


@pytest.mark.requirement("LIFE-3", "CATCH-3")
def test_under_keep_the_clock_makes_nothing_and_none_is_caught_up(rest: Rest) -> None:
    rest.put(trigger=MINUTELY, catch_up={"policy": "all"}, constraints=MANY)
    rest.later("1m")
    rest.disable("keep")
    rest.later("1h")
    assert rest.states() == ["ready"]
    rest.enable()
    rest.works()
    assert rest.states() == ["ready"]
    rest.later("1m")
    assert rest.states() == ["ready", "ready"]
    assert rest.holds()


@pytest.mark.requirement("LIFE-3", "CATCH-3")
def test_under_keep_a_fire_that_was_due_before_is_still_decided(rest: Rest) -> None:
    rest.put(trigger=MINUTELY, constraints=MANY)
    rest.desk.later("1m")  # due, and no scheduler has looked yet
    rest.disable("keep")
    rest.later("5m")
    assert [one["fire_time"] for one in rest.runs() if one["state"] == "ready"] == ["2026-03-01T12:01:00Z"]
    assert rest.holds()


@pytest.mark.requirement("LIFE-3")
@pytest.mark.parametrize("looked", [True, False], ids=["matched", "not matched yet"])
def test_under_keep_progress_stays_and_what_comes_meanwhile_is_passed_by(rest: Rest, *, looked: bool) -> None:
    rest.put(trigger=FIVE)
    rest.publish(3)
    if looked:
        rest.works()
    rest.disable("keep")
    rest.publish(9)
    rest.works()
    assert rest.states() == []
    rest.enable()
    rest.works()
    assert (rest.states(), collected(rest)) == ([], 3)
    rest.publish(2)
    rest.works()
    assert rest.states() == ["ready"]


@pytest.mark.requirement("LIFE-3")
def test_what_was_acknowledged_before_keep_still_satisfies_the_trigger(rest: Rest) -> None:
    rest.put(trigger=FIVE)
    rest.publish(5)  # nobody has matched them yet
    rest.disable("keep")
    rest.works()
    assert rest.states() == ["ready"]


# ── backlog ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("LIFE-3", "CATCH-3")
def test_under_backlog_runs_are_made_and_none_starts_until_it_is_enabled(rest: Rest) -> None:
    rest.put(trigger=MINUTELY, constraints=MANY)
    rest.disable("backlog", reason="the cluster moves")
    for _ in range(3):
        rest.later("1m")
    assert rest.states() == ["waiting"] * 3
    for run in rest.runs():
        (waits,) = run["waiting_for"]
        assert (waits["constraint"], waits["verdict"]) == ("suspended", "wait")
    told = rest("GET", f"{SALES}/schedules/s/explain")
    assert (told["blocker"], told["release"]) == ("suspended", "tidegate enable s -n sales")
    rest.enable()
    rest.works()
    assert rest.states() == ["ready"] * 3
    assert rest.holds()


@pytest.mark.requirement("LIFE-3")
def test_under_backlog_the_trigger_goes_on_collecting(rest: Rest) -> None:
    rest.put(trigger=FIVE, waiting="all", constraints=MANY)
    rest.publish(3)
    rest.disable("backlog")
    rest.publish(9)
    rest.works()
    assert (rest.states(), collected(rest)) == (["waiting", "waiting"], 2)
    rest.enable()
    rest.works()
    assert (rest.states(), collected(rest)) == (["ready", "ready"], 2)


# ── hold ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("LIFE-3", "GATE-10")
def test_under_hold_everything_waits_in_one_run(rest: Rest) -> None:
    rest.put(trigger=MINUTELY, waiting="all", constraints=MANY)
    rest.disable("hold")
    for _ in range(3):
        rest.later("1m")
    assert rest.states() == ["waiting", "merged", "merged"]
    survivor = rest.runs()[0]["id"]
    assert {one["merged_into"] for one in rest.runs()[1:]} == {survivor}  # each fire has its own row
    rest.enable()
    rest.works()
    assert rest.states() == ["ready", "merged", "merged"]
    rest.later("1m")
    assert rest.states()[-1] == "ready"  # enabled, they no longer merge
    assert rest.holds()


@pytest.mark.requirement("LIFE-3", "GATE-10")
def test_under_hold_the_one_run_carries_all_the_events(rest: Rest) -> None:
    rest.put(trigger=FIVE, waiting="all")
    rest.disable("hold")
    rest.publish(12)
    rest.works()
    assert rest.states() == ["waiting"]
    rest.enable()
    rest.works()
    (run,) = rest.runs()
    assert (run["state"], run["cause"]["events"]["count"], collected(rest)) == ("ready", 10, 2)


# ── all of them ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("LIFE-3", "GATE-12")
@pytest.mark.parametrize("mode", ["backlog", "hold"])
def test_held_runs_expire_only_if_that_was_said(rest: Rest, mode: str) -> None:
    rest.put(trigger=MINUTELY, waiting={"timeout": "10m"})
    rest.later("1m")
    rest.later("1m")
    first, second = rest.runs()
    rest.later("3m")  # seven minutes are left to the second
    rest.disable(mode)
    rest.later("1h")
    assert rest("GET", f"/runs/{second['id']}")["state"] == "waiting"
    rest.enable()
    rest.later("6m")
    assert rest("GET", f"/runs/{second['id']}")["state"] == "waiting"  # its time stood still
    rest.disable(mode, expire=True)
    rest.later("2m")
    assert rest("GET", f"/runs/{second['id']}")["state"] == "expired"
    assert rest("GET", f"/runs/{first['id']}")["state"] == "ready"


@pytest.mark.requirement("LIFE-3")
@pytest.mark.parametrize("mode", MODES)
def test_what_is_asked_for_by_hand_starts_however_a_schedule_rests(rest: Rest, mode: str) -> None:
    rest.put(trigger=MINUTELY, constraints=MANY)
    rest.later("1m")
    assert rest.states() == ["ready"]
    rest.disable(mode)
    rest.later("1s")
    by_hand = rest("POST", f"{SALES}/schedules/s:trigger", {})["id"]
    rest.works()
    assert rest("GET", f"/runs/{by_hand}")["state"] == "ready"
    assert rest.states()[0] == ("superseded" if mode == "drop" else "ready")  # admitted is admitted, but for drop


@pytest.mark.requirement("LIFE-3", "LIFE-8")
@pytest.mark.parametrize("mode", MODES)
def test_how_it_rests_and_who_said_so_is_on_record(rest: Rest, mode: str) -> None:
    rest.put(trigger=MINUTELY)
    held = mode in ("backlog", "hold")
    body = {"mode": mode, "reason": "holidays", **({"expire": True} if held else {})}
    rest("POST", f"{SALES}/schedules/s:disable", body, headers={"tidegate-user": "bob"})
    status = rest("GET", f"{SALES}/schedules/s")["status"]
    assert (status["enabled"], status["mode"], status["reason"]) == (False, mode, "holidays")
    assert status["expire"] == (True if held else None)
    assert (status["next_fire"] is not None) == held  # its clock goes on
    newest = rest("GET", f"{SALES}/schedules/s/revisions")["items"][0]
    assert (newest["mode"], newest["author"], newest["expire"]) == (mode, "bob", True if held else None)
    change = rest("GET", "/audit?namespace=sales")["items"][0]
    assert (change["who"], change["action"], change["after"]["mode"]) == ("bob", "disabled", mode)


@pytest.mark.requirement("LIFE-3")
@pytest.mark.parametrize("first", ["keep", "backlog", "hold"])
def test_a_suspension_may_turn_into_drop_and_then_nothing_is_left(rest: Rest, first: str) -> None:
    rest.put(trigger=FIVE)
    rest.publish(7)
    rest.disable(first)
    rest.works()
    rest("POST", f"{SALES}/schedules/s:disable", {"mode": "drop"})
    assert not {"waiting", "ready"} & set(rest.states())
    rest.enable()
    rest.works()
    assert collected(rest) == 0


@pytest.mark.requirement("LIFE-3")
def test_backlog_may_turn_into_keep_and_then_what_was_held_starts(rest: Rest) -> None:
    rest.put(trigger=MINUTELY, constraints=MANY)
    rest.disable("backlog")
    rest.later("1m")
    assert rest.states() == ["waiting"]
    rest.disable("keep")
    rest.works()
    assert rest.states() == ["ready"]
    rest.later("1h")
    assert rest.states() == ["ready"]
    assert rest.holds()


@pytest.mark.requirement("LIFE-3")
def test_a_way_to_rest_that_is_none_is_refused_with_the_nearest(rest: Rest) -> None:
    rest.put(trigger=MINUTELY)
    for body, path in (
        ({"mode": "hodl"}, "mode"),
        ({"mode": "enabled"}, "mode"),
        ({"mode": ["hold"]}, "mode"),
        ({"mode": "drop", "expire": True}, "expire"),
        ({"mode": "hold", "expire": "yes"}, "expire"),
        ({"mood": "hold"}, "mood"),
    ):
        answer = rest.ask("POST", f"{SALES}/schedules/s:disable", json=body)
        assert answer.status_code == 422
        assert [one["path"] for one in answer.json()["errors"]] == [path]
    assert "did you mean 'hold'" in rest.ask("POST", f"{SALES}/schedules/s:disable", json={"mode": "hodl"}).text
    assert rest("GET", f"{SALES}/schedules/s")["status"]["enabled"]
