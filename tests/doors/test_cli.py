"""The command as a person meets it: exit status, standard output for the answer, standard error for the rest."""

import json
import socket
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import AsyncMock

import pytest
from ruamel.yaml import YAML

from tidegate.cli import output
from tidegate.cli.client import Client
from tidegate.cli.look import in_words, table_of
from tidegate.domain.instants import HOUR, MINUTE

from .conftest import Served, command, tidegate

pytestmark = pytest.mark.requirement("OPS-2")


def test_the_whole_way_of_a_schedule(served_by: Served, flights: Path) -> None:
    served, url = served_by, served_by.url
    said = tidegate("apply", "-f", str(flights), url=url)
    assert said.status == 0, said.err
    assert "created" in said.out
    assert "tidegate enable nightly" in said.out, "apply says how to enable what is new and disabled"
    assert tidegate("get", "schedules", url=url).out.splitlines()[0].split()[0] == "NAME"
    assert "Europe/Berlin" in tidegate("get", "schedule", "nightly", url=url).out
    said = tidegate("preview", "nightly", "--count", "2", "--after", "2026-01-01T00:00:00Z", url=url)
    assert "2026-01-01 01:00:00Z" in said.out
    assert "2026-01-01T02:00:00+01:00" in said.out
    assert "next fire" in tidegate("enable", "nightly", url=url).out
    assert tidegate("disable", "nightly", "--reason", "holiday", url=url).status == 0
    assert "holiday" in tidegate("describe", "schedule", "nightly", url=url).out
    run = tidegate("trigger", "nightly", "--arg", "day=3", "--arg", "who=ada", "-o", "json", url=url).json
    assert served("GET", f"/runs/{run['id']}").json()["cause"]["type"] == "manual"
    for words in (("runs",), ("queue",), ("get", "runs"), ("describe", "run", run["id"])):
        assert run["id"] in tidegate(*words, url=url).out
    assert tidegate("explain", run["id"], url=url).out.startswith("Verdict")
    assert "disabled" in tidegate("explain", "nightly", url=url).out
    assert tidegate("logs", run["id"], url=url).status == 0
    assert "cancelled" in tidegate("cancel", run["id"], url=url).out
    assert tidegate("rerun", run["id"], url=url).status == 0
    assert "The ledger holds" in tidegate("audit", url=url).out
    assert tidegate("delete", "schedule", "nightly", url=url).status == 0
    assert tidegate("get", "schedule", "nightly", url=url).status == 1


def test_values_of_arguments_are_json_when_they_are(served: Served) -> None:
    served.declare()
    said = tidegate(
        "trigger", "s", "--arg", "n=3", "--arg", "t=x=y", "--arg", 'j={"a": [1]}', "-o", "json", url=served.url
    )
    run = served("GET", f"/runs/{said.json['id']}").json()
    given = run["arguments"] if run["arguments"] is not None else {}
    assert given in ({}, {"n": 3, "t": "x=y", "j": {"a": [1]}})


@pytest.mark.requirement("GATE-8")
def test_a_freeze_is_set_and_lifted_and_says_by_whom_and_why(served: Served) -> None:
    served.declare()
    said = tidegate("freeze", "--reason", "year's end", url=served.url)
    assert said.status == 0 and "year's end" in said.out and "unfreeze" in said.out
    assert tidegate("trigger", "s", url=served.url).status == 0
    assert "year's end" in tidegate("freeze", "--reason", "another", url=served.url).out, "who came first stays"
    assert served("GET", "/freeze").json()["frozen"] is True
    assert tidegate("unfreeze", url=served.url).out == "The freeze is lifted.\n"
    assert tidegate("unfreeze", url=served.url).out == "Nothing was frozen.\n"
    assert tidegate("freeze", "-o", "json", url=served.url).json["frozen"] is True


@pytest.mark.requirement("GATE-8", "OPS-4")
def test_a_calendar_is_applied_with_the_file_that_it_names(served: Served, tmp_path: Path) -> None:
    event = "BEGIN:VEVENT\nUID:1\nDTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY\nEND:VEVENT\n"
    (tmp_path / "x.ics").write_text(f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\n{event}END:VCALENDAR\n")
    file = tmp_path / "calendar.yaml"
    text = "apiVersion: tidegate/v1\nkind: Calendar\nmetadata: {name: holidays, owner: core}\nspec: {ics: x.ics}\n"
    file.write_text(text)
    assert tidegate("diff", "-f", str(file), url=served.url).status == 1
    said = tidegate("apply", "-f", str(file), url=served.url)
    assert said.status == 0 and "created" in said.out, said.err
    assert tidegate("diff", "-f", str(file), url=served.url).status == 0
    assert (
        "unchanged"
        in tidegate("apply", "-f", "-", url=served.url, given=text.replace("x.ics", f"{tmp_path}/x.ics")).out
    )
    assert "holidays" in tidegate("get", "calendars", url=served.url).out
    assert "owner: core" in tidegate("describe", "calendar", "holidays", url=served.url).out
    assert tidegate("delete", "calendar", "holidays", url=served.url).status == 0
    assert tidegate("get", "calendar", "holidays", url=served.url).status == 1


@pytest.mark.requirement("LIFE-3")
def test_a_schedule_rests_in_the_way_that_is_asked_for(served: Served) -> None:
    served.declare()
    for mode in ("drop", "keep", "backlog", "hold"):
        said = tidegate("disable", "s", "--mode", mode, "-o", "json", url=served.url)
        assert said.json["status"]["mode"] == mode, said.err
    said = tidegate("disable", "s", "--mode", "hold", "--expire", url=served.url)
    assert said.status == 0, said.err


def test_a_schedule_shows_the_fires_that_it_will_make_and_none_while_it_makes_none(served: Served) -> None:
    served.declare("nightly")
    for words, shown in (
        (("enable", "nightly"), True),
        (("disable", "nightly"), False),
        (("disable", "nightly", "--mode", "backlog"), True),
    ):
        assert tidegate(*words, url=served.url).status == 0
        page = tidegate("describe", "schedule", "nightly", url=served.url).out
        [fires] = [line for line in page.splitlines() if line.startswith("Next fires")]
        assert ("T02:00:00" in fires) is shown, fires
        assert (" -" in tidegate("get", "schedules", url=served.url).out) is not shown


def test_what_is_described_can_be_copied_as_yaml_in_a_narrow_window(served: Served) -> None:
    """A window of 80 columns folds no line of it."""
    where = "https://pager.example.org/" + "a-long-way/" * 9
    spec = {"type": "webhook", "url": where, "topics": ["run.failed"]}
    assert served("PUT", "/sinks/alerts", json={"spec": spec}).is_success
    assert YAML(typ="safe", pure=True).load(tidegate("describe", "sink", "alerts", url=served.url).out)["spec"] == {
        **served("GET", "/sinks/alerts").json()["spec"]
    }
    served.declare("nightly", arguments={"where": where})
    page = tidegate("describe", "schedule", "nightly", url=served.url).out
    spec = YAML(typ="safe", pure=True).load(page.partition("\nSpec\n")[2].partition("\nLast runs\n")[0])
    assert spec["arguments"]["where"] == where


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        ({"type": "data_size", "dataset": "lake.raw.x", "bytes": "1 GB"}, "1 GB of lake.raw.x"),
        ({"type": "data_size", "dataset": "lake.raw.x", "bytes": 5, "rows": 7}, "5 bytes and 7 rows of lake.raw.x"),
    ],
)
def test_an_amount_of_data_is_told_with_one_unit(trigger: dict[str, Any], words: str) -> None:
    assert in_words(trigger) == words


def test_a_run_that_no_clock_made_has_no_fire_time(served: Served) -> None:
    served.declare("nightly")
    run = tidegate("trigger", "nightly", "-o", "json", url=served.url).json
    assert run["fire_time"] is None
    [_, line] = tidegate("runs", url=served.url).out.splitlines()[:2]
    assert " made 20" in line
    page = tidegate("describe", "run", run["id"], url=served.url).out
    assert "Fire time" not in page and "Created" in page


def test_a_lease_that_lapsed_is_nobodys(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns() // 1000
    rows = [
        {"duty": "janitor", "instance_id": 7, "token": 3, "expires": now - MINUTE},
        {"duty": "pauser", "instance_id": 8, "token": 4, "expires": now + HOUR},
    ]
    monkeypatch.setattr(type(served.doors.store), "leases", AsyncMock(return_value=rows))
    found = {one["duty"]: one for one in tidegate("get", "leases", "-o", "json", url=served.url).json}
    assert (found["janitor"]["lapsed"], found["janitor"]["instance_id"]) == (True, "7")
    assert (found["pauser"]["lapsed"], found["pauser"]["instance_id"]) == (False, "8")
    _, lapsed, held = tidegate("get", "leases", url=served.url).out.splitlines()
    assert lapsed.split()[1] == "-" and "lapsed" in lapsed
    assert held.split()[1] == "8" and "lapsed" not in held


@pytest.mark.requirement("EVENT-9")
def test_what_lies_before_a_sink_is_not_said_to_be_for_it(served: Served) -> None:
    """`behind` counts events that its topics leave out, too."""
    spec = {"type": "webhook", "url": "http://127.0.0.1:9/hook", "topics": ["run.failed"]}
    assert served("PUT", "/sinks/alerts", json={"spec": spec}).is_success
    heading, _ = tidegate("get", "sinks", url=served.url).out.splitlines()
    assert "TO LOOK AT" in heading and "BEHIND" not in heading


@pytest.mark.requirement("OPS-4")
def test_diff_says_by_its_status_whether_a_file_differs(served: Served, flights: Path) -> None:
    url = served.url
    assert tidegate("diff", "-f", str(flights), url=url).status == 1
    tidegate("apply", "-f", str(flights), url=url)
    assert tidegate("diff", "-f", str(flights), url=url).status == 0
    flights.write_text(flights.read_text() + "  priority: 70\n")
    said = tidegate("diff", "-f", str(flights), url=url)
    assert (said.status, "spec.priority: nothing -> 70" in said.out) == (1, True)
    flights.write_text("kind: [")
    assert tidegate("diff", "-f", str(flights), url=url).status == 2
    assert tidegate("diff", "-f", str(flights) + "x", url=url).status == 2


@pytest.mark.requirement("OPS-4")
def test_a_file_with_a_fault_writes_nothing_and_names_every_fault_with_its_line(served: Served, flights: Path) -> None:
    flights.write_text(flights.read_text().replace("Europe/Berlin", "Europe/Berlyn") + "  priorty: 70\n")
    said = tidegate("apply", "-f", str(flights), url=served.url)
    assert said.status == 1
    assert "flights.yaml:11" in said.err
    assert "Europe/Berlin" in said.err
    assert "did you mean 'priority'" in said.err
    assert served("GET", "/namespaces/default/programs").json()["items"] == []


@pytest.mark.requirement("OPS-4")
def test_a_dry_run_and_standard_input(served: Served, flights: Path) -> None:
    said = tidegate("apply", "-f", "-", "--dry-run", given=flights.read_text(), url=served.url)
    assert (said.status, "would be created" in said.out) == (0, True)
    assert served("GET", "/namespaces/default/programs").json()["items"] == []
    assert tidegate("apply", "-f", "-", "-n", "sales", given=flights.read_text(), url=served.url).status == 0
    assert len(served("GET", "/namespaces/sales/schedules").json()["items"]) == 1


def test_a_file_is_previewed_before_it_is_applied(served: Served, flights: Path) -> None:
    said = tidegate("preview", "-f", str(flights), "--count", "1", "-o", "json", url=served.url)
    assert set(said.json) == {"nightly"}
    assert tidegate("preview", url=served.url).status == 2


def test_json_and_yaml_are_what_rest_answers(served: Served) -> None:
    served.declare()
    answer = served("GET", "/namespaces/default/schedules").json()["items"]
    assert tidegate("get", "schedules", "-o", "json", url=served.url).json == answer
    said = tidegate("get", "schedules", "-o", "yaml", url=served.url)
    assert YAML(typ="safe", pure=True).load(said.out) == json.loads(json.dumps(answer))


def test_tables_fit_eighty_columns_and_have_no_colour_where_nobody_looks(served: Served) -> None:
    served.declare("a-schedule-with-a-rather-long-name-for-its-owner")
    for kind in (
        "schedules",
        "programs",
        "pools",
        "calendars",
        "namespaces",
        "applications",
        "runs",
        "instances",
        "leases",
    ):
        said = tidegate("get", kind, url=served.url)
        assert said.status == 0, said.err
        assert max(map(len, said.out.splitlines())) <= 80
        assert "\x1b" not in said.out


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        pytest.param(("get", "nonsense"), 2, "is no kind", id="unknown_kind"),
        pytest.param(("delete", "schedul", "s"), 2, "policies.", id="only_what_can_be_deleted"),
        pytest.param(("describe", "lease", "janitor"), 2, "tidegate get leases", id="only_listed"),
        pytest.param(("get", "schedules", "-o", "xml"), 2, "'--output': 'xml' is not one of", id="unknown_form"),
        pytest.param(("-o", "xml", "get", "schedules"), 2, "'--output': 'xml' is not one of", id="unknown_form_first"),
        pytest.param(("frobnicate",), 2, "No such command", id="unknown_command"),
        pytest.param(("trigger", "s", "--arg", "x"), 2, "NAME=VALUE", id="argument_without_value"),
        pytest.param(("runs", "--limit", "0"), 2, "greater than or equal to 1", id="limit_too_small"),
        pytest.param(("get", "schedule", "s"), 1, "does not exist", id="not_there"),
        pytest.param(("cancel", "s"), 1, "is not a run id", id="no_run_id"),
        pytest.param(("apply", "-f", "nowhere.yaml"), 1, "there is no file", id="no_file"),
        pytest.param(("deploy", "nowhere.py"), 1, "there is no file", id="no_python_file"),
        pytest.param(("disable", "s", "--mode", "hodl"), 2, "hodl", id="unknown_mode"),
        pytest.param(("disable", "s", "--expire"), 1, "holds no runs that could expire", id="nothing_to_expire"),
        pytest.param(("runs", "--state", "done"), 1, "is not a state", id="unknown_state"),
    ],
)
def test_a_mistake_is_one_clear_message_and_never_a_trace(
    served: Served, arguments: tuple[str, ...], status: int, says: str
) -> None:
    said = tidegate(*arguments, url=served.url)
    assert said.status == status, said.err
    assert says in " ".join(said.err.split())
    assert "Traceback" not in said.err
    assert said.out == ""


def test_the_kinds_that_a_command_names_are_those_that_it_takes() -> None:
    kinds = {word: " ".join(tidegate(word, "--help").out.replace("│", " ").split()) for word in ("get", "delete")}
    for one in ("schedule", "run", "instance", "lease", "table"):
        assert f"{one}," in kinds["get"] or f"{one} or" in kinds["get"] or f"or {one}." in kinds["get"], one
    for one in ("run,", "instance", "lease", "or table."):
        assert one not in kinds["delete"], one


def test_a_server_that_is_not_there_is_named_with_the_remedy() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        said = tidegate("get", "schedules", url=url)
    assert said.status == 1
    assert url in said.err
    assert "tidegate up" in said.err
    assert tidegate("get", "schedules", url="not an address").status == 1


APP = """
from tidegate import App, cron
app = App("etl", namespace="sales")

@app.python
def load(region: str) -> None: ...

app.schedule("load-eu", load.bind(region="eu"), when=cron("0 2 * * *"))
app.schedule("load-us", load.bind(region="us"), when=cron("0 3 * * *"))
"""


@pytest.mark.requirement("OPS-3", "LIFE-6")
def test_deploy_prints_its_plan_first_and_deletes_only_with_a_yes(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "etl.py"
    file.write_text(APP)
    said = tidegate("deploy", str(file), url=served.url)
    assert said.status == 0, said.err
    assert "+ Schedule load-eu" in said.out
    assert said.out.index("+ Program load") < said.out.index("is deployed")
    assert "tidegate enable load-eu -n sales" in said.out
    file.write_text(APP.replace('app.schedule("load-us"', '0 and app.schedule("load-us"'))
    said = tidegate("deploy", str(file), url=served.url)
    assert (said.status, "--yes" in said.err, "- Schedule load-us" in said.out) == (1, True, True)
    assert len(served("GET", "/namespaces/sales/schedules").json()["items"]) == 2
    assert tidegate("deploy", str(file), "--no-update-schedules", url=served.url).status == 0
    assert len(served("GET", "/namespaces/sales/schedules").json()["items"]) == 2
    assert tidegate("deploy", str(file), "--yes", url=served.url).status == 0
    assert len(served("GET", "/namespaces/sales/schedules").json()["items"]) == 1


def test_a_module_that_cannot_be_imported_is_a_message(served: Served, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import nothing_of_that_name\n")
    said = tidegate("deploy", str(tmp_path / "bad.py"), url=served.url)
    assert (said.status, "nothing_of_that_name" in said.err) == (1, True)


def test_every_command_explains_itself() -> None:
    said = tidegate("--help")
    assert said.status == 0
    for name in ("up", "scheduler", "worker", "api", "db", "apply", "diff", "deploy", "get", "describe", "delete"):
        assert f" {name} " in said.out
    assert "forecast" not in said.out, "what belongs to a later version is absent"
    assert tidegate("--version").out.startswith("tidegate ")


@pytest.mark.slow
def test_the_command_is_a_process_that_says_the_same(served: Served, flights: Path) -> None:
    said = command("apply", "-f", "-", url=served.url, given=flights.read_text())
    assert (said.status, said.err) == (0, "")
    again = command("get", "schedules", url=served.url)
    assert (again.status, again.out) == (0, tidegate("get", "schedules", url=served.url).out)
    wrong = command("get", "schedule", "nightlly", url=served.url)
    assert (wrong.status, wrong.out) == (1, "")
    assert "did you mean 'nightly'" in wrong.err
    assert command("get").status == 2


def test_namespace_and_form_may_also_stand_before_the_command(served: Served) -> None:
    served.declare(namespace="sales")
    said = tidegate("-n", "sales", "-o", "json", "get", "schedules", url=served.url)
    assert [one["metadata"]["name"] for one in said.json] == ["s"]
    assert tidegate("-n", "sales", "get", "schedules", "-n", "other", "-o", "json", url=served.url).json == []


def test_the_id_of_a_run_is_never_folded_and_a_long_reason_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    run = {
        "id": "rhod07ptoro-e-1",
        "schedule": "a-schedule-with-a-name-that-takes-its-place",
        "state": "failed",
        "fire_time": "2026-11-21T07:09:32.366000Z",
        "reason": "one run of this schedule is admitted and not yet ended " + "/a/folder/of/the/path:" * 30,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        output.display(table_of("runs", [run]))
    said = capsys.readouterr().out
    assert run["id"] in said
    assert all(len(line) <= 80 for line in said.splitlines())
    shown = "".join(said.split())
    assert all(word in shown for word in ("schedule", "admitted", "ended", "...")), "folded, and never cropped"
    assert len(said.splitlines()) < 12


def test_a_state_with_a_typing_error_gets_a_suggestion_that_can_be_typed(served: Served) -> None:
    said = tidegate("runs", "--state", "faild", url=served.url)
    assert (said.status, "did you mean 'failed'?" in said.err) == (1, True)


def test_a_file_given_to_the_wrong_command_is_sent_to_the_right_one(served: Served, tmp_path: Path) -> None:
    code, documents = tmp_path / "app.py", tmp_path / "app.yaml"
    code.write_text("x: int = 1\n")
    documents.write_text("kind: Program\n")
    said = tidegate("apply", "-f", str(code), url=served.url)
    assert (said.status, f"tidegate deploy {code}" in said.err) == (1, True)
    said = tidegate("deploy", str(documents), url=served.url)
    assert (said.status, f"tidegate apply -f {documents}" in said.err) == (1, True)


def test_triggering_a_schedule_with_a_typing_error_names_the_nearest(served: Served) -> None:
    served.declare(name="nightly")
    said = tidegate("trigger", "nightl", url=served.url)
    assert (said.status, "did you mean 'nightly'?" in said.err) == (1, True)


def test_deploy_puts_what_names_no_namespace_where_n_says(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text("from tidegate import App\napp = App('etl')\napp.command('load', 'true')\n")
    assert tidegate("deploy", str(file), "-n", "sales", url=served.url).status == 0
    assert tidegate("get", "program", "load", "-n", "sales", url=served.url).status == 0
    file.write_text("from tidegate import App\napp = App('etl', namespace='other')\napp.command('load', 'true')\n")
    said = tidegate("deploy", str(file), "-n", "sales", url=served.url)
    assert (said.status, "says namespace 'other', -n says 'sales'" in said.err) == (1, True)
    assert tidegate("get", "programs", "-n", "other", "-o", "json", url=served.url).json == []


def test_logs_are_pieces_as_json(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {0: "one\n", 4: "two\n", 8: ""}

    def get(self: Client, path: str, **given: Any) -> Any:
        if not path.endswith("logs"):
            return {"attempts": [{"number": 1}], "state": "succeeded"}
        at, text = given["offset"], texts[given["offset"]]
        return {"attempt": 1, "offset": at, "text": text, "next_offset": at + len(text), "complete": at >= 4}

    monkeypatch.setattr(Client, "get", get)
    pieces = [{"attempt": 1, "offset": 0, "text": "one\n"}, {"attempt": 1, "offset": 4, "text": "two\n"}]
    asked = ("rhod07ptoro-e-1", "-o", "json")
    assert tidegate("logs", "rhod07ptoro-e-1", url=served.url).out == "one\ntwo\n"
    assert tidegate("logs", *asked, url=served.url).json == pieces
    lines = tidegate("logs", "-f", *asked, url=served.url).out.splitlines()
    assert [json.loads(line) for line in lines] == pieces


def test_what_goes_along_with_a_program_is_named(served: Served) -> None:
    served.declare("nightly")
    served.declare("hourly")
    said = tidegate("delete", "program", "p", url=served.url)
    assert (said.status, said.out) == (0, "Program p is deleted, and with it the schedules hourly, nightly.\n")


# ── what a person mistypes, or expects ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("OPS-4")
def test_what_the_server_finds_in_a_file_is_told_with_its_line(served: Served, flights: Path) -> None:
    flights.write_text(flights.read_text().replace("program: land", "program: lnd"))
    for words in (("apply",), ("apply", "--dry-run")):
        said = tidegate(*words, "-f", str(flights), url=served.url)
        assert said.status == 1
        assert "flights.yaml:10 spec.program: there is no program 'lnd'" in said.err
        assert "documents[" not in said.err
    assert served("GET", "/namespaces/default/programs").json()["items"] == []


PROGRAM = """\
apiVersion: tidegate/v1
kind: Program
metadata: {name: load}
spec:
  type: python
  entry: "%s:main"
"""


@pytest.mark.requirement("OPS-4")
def test_a_program_whose_file_is_not_there_is_told_before_it_is_due(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "load.yaml"
    file.write_text(PROGRAM % "load.py")
    said = tidegate("apply", "-f", str(file), url=served.url)
    assert said.status == 1
    assert f"load.yaml:6 spec.entry: there is no file '{tmp_path / 'load.py'}'" in said.err
    assert served("GET", "/namespaces/default/programs").json()["items"] == []
    (tmp_path / "load.py").write_text("def main(): ...\n")
    assert tidegate("apply", "-f", str(file), url=served.url).status == 0
    entry = served("GET", "/namespaces/default/programs/load").json()["spec"]["entry"]
    assert entry == f"{tmp_path / 'load.py'}:main"


def test_a_whole_path_that_only_another_machine_may_have_is_accepted_with_a_note(
    served: Served, tmp_path: Path
) -> None:
    file = tmp_path / "load.yaml"
    file.write_text(PROGRAM % (tmp_path / "there.py"))
    said = tidegate("apply", "-f", str(file), url=served.url)
    assert said.status == 0
    assert "load.yaml:6 there is no file" in said.err


def test_programs_inside_an_application_are_looked_up_beside_its_file_too(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "app.yaml"
    program = '{metadata: {name: load}, spec: {type: python, entry: "load.py:main"}}'
    file.write_text(
        f"apiVersion: tidegate/v1\nkind: Application\nmetadata: {{name: a}}\nspec:\n  programs:\n    - {program}\n"
    )
    said = tidegate("apply", "-f", str(file), url=served.url)
    assert (said.status, "app.yaml:6 spec.programs[0].spec.entry: there is no file" in said.err) == (1, True)
    (tmp_path / "load.py").write_text("def main(): ...\n")
    assert tidegate("apply", "-f", str(file), url=served.url).status == 0
    entry = served("GET", "/namespaces/default/programs/load").json()["spec"]["entry"]
    assert entry == f"{tmp_path / 'load.py'}:main"


@pytest.mark.parametrize("words", [("runs",), ("get", "schedules"), ("get", "programs"), ("queue",), ("get", "runs")])
def test_a_namespace_that_is_not_there_is_no_empty_one(served: Served, words: tuple[str, ...]) -> None:
    served.declare(namespace="sales")
    said = tidegate("-n", "salse", *words, url=served.url)
    assert said.status == 0
    assert "namespace 'salse' does not exist; did you mean 'sales'?" in said.err
    assert tidegate("-n", "sales", *words, url=served.url).err == ""
    assert tidegate("-n", "default", *words, url=served.url).err == "", "the first write makes it"
    assert tidegate("-n", "salse", *words, "-o", "json", url=served.url).json == []


def test_runs_of_a_schedule_that_is_not_there(served: Served) -> None:
    served.declare("nightly")
    said = tidegate("runs", "--schedule", "nightl", url=served.url)
    assert "did you mean 'nightly'?" in said.err
    assert tidegate("runs", "--schedule", "nightly", url=served.url).err == ""


@pytest.mark.requirement("CATCH-8")
def test_a_namespace_that_is_not_there_is_not_proven(served: Served) -> None:
    served.declare(namespace="sales")
    said = tidegate("audit", "-n", "salse", url=served.url)
    assert (said.status, "did you mean 'sales'" in said.err) == (1, True)
    assert tidegate("audit", "-n", "sales", url=served.url).status == 0


@pytest.mark.parametrize("words", [("get", "schedule"), ("events", "publish", "user.x"), ("runs", "-n")])
def test_an_argument_that_is_no_text_is_wrong_usage(served: Served, words: tuple[str, ...]) -> None:
    said = tidegate(*words, "a\udcff", url=served.url)
    assert (said.status, "is not UTF-8 text" in said.err) == (2, True)


@pytest.mark.requirement("OPS-7")
def test_an_explanation_says_each_figure_once(served: Served) -> None:
    events = [{"type": "event", "event": "user.x", "key": f"a/k{n}", "count": 3} for n in range(2)]
    served.declare(enabled=True, trigger={"type": "all", "triggers": events})
    served("POST", "/events", json={"type": "user.x", "key": "a/k0"})
    said = tidegate("explain", "s", url=served.url).out
    assert "no  trigger: all  0 of 2 satisfied" in said
    assert "yes enabled  It is enabled." in said
    assert " of true" not in said
    served.declare("o", constraints=[{"type": "concurrency", "max": 1, "scope": "schedule", "unmet": "wait"}])
    run = tidegate("trigger", "o", "-o", "json", url=served.url).json["id"]
    said = tidegate("explain", run, url=served.url).out
    assert "yes concurrency of the schedule  0 of 1  There is room" in said
    assert " of 1  8 slots" not in said


def test_a_trigger_with_many_legs_takes_a_few_lines_of_a_list(served: Served) -> None:
    legs = [{"type": "event", "event": "user.x", "key": f"a/k{n}"} for n in range(500)]
    served.declare(trigger={"type": "any", "triggers": legs})
    assert len(tidegate("get", "schedules", url=served.url).out.splitlines()) < 12


@pytest.mark.requirement("OPS-7")
def test_a_schedule_that_cannot_be_satisfied_is_seen_in_the_list_and_on_its_page(served: Served) -> None:
    served.declare(enabled=True, trigger={"type": "program_status", "program": "gone", "outcomes": ["succeeded"]})
    assert " unsatisfiable " in tidegate("get", "schedules", url=served.url).out
    for words in (("describe", "schedule"), ("explain",)):
        assert "there is no program default/gone" in " ".join(tidegate(*words, "s", url=served.url).out.split())
    served("PUT", "/namespaces/default/programs/gone", json={"spec": {"type": "command", "argv": ["true"]}})
    assert " enabled " in tidegate("get", "schedules", url=served.url).out


@pytest.mark.parametrize("url", ["http://[::1", "http://localhost:99999", "http://localhost:port", "http://", "x"])
def test_an_address_that_is_none_is_a_message(url: str) -> None:
    said = tidegate("runs", url=url)
    assert (said.status, "is no address. Write it like" in said.err) == (1, True)


def test_another_server_that_answers_is_not_taken_for_tidegate() -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<p>hello")

        def log_message(self, *said: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        said = tidegate("runs", url=f"http://127.0.0.1:{server.server_port}")
        thread.join()
    assert (said.status, "is not Tidegate" in said.err) == (1, True)


@pytest.mark.requirement("OPS-7")
def test_a_summary_is_a_sentence_that_does_not_repeat_itself(served: Served) -> None:
    event = {"type": "event", "event": "user.x", "key": "a/b"}
    served.declare(enabled=True, trigger={"type": "quiet", "trigger": event, "for": "PT1M"})
    summary = tidegate("explain", "s", "-o", "json", url=served.url).json["summary"]
    assert summary == "Its trigger is not satisfied: there is nothing yet that could fall silent."


@pytest.mark.requirement("OPS-3")
def test_the_example_goes_as_the_readme_says(served: Served) -> None:
    root = Path(__file__).resolve().parents[2]
    assert "tidegate -n demo delete application flights" in (root / "README.md").read_text()
    assert tidegate("apply", "-f", str(root / "examples" / "flights.yaml"), url=served.url).status == 0
    full = tidegate("delete", "namespace", "demo", url=served.url)
    assert full.status and "and 9 more" in full.err and "delete application" in full.err
    assert tidegate("-n", "demo", "delete", "application", "flights", url=served.url).status == 0
    assert tidegate("delete", "namespace", "demo", url=served.url).status == 0
