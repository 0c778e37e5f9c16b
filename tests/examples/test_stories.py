"""The stories of data triggers, end to end on the real system: one `tidegate up`, real Spark and Iceberg for tables.

The examples stay as a user would write them; only their durations are shortened on the way to the server.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tidegate.sdk.loading import load_apps

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.xdist_group("stories")]
STORIES = Path(__file__).resolve().parents[2] / "examples" / "stories"
NS = "/api/v1/namespaces/stories"
SHORT = {"2h": "4s", "4h": "6s", "10m": "2s"}
"""What a duration of a story becomes here."""


class System:
    """A running `tidegate up`."""

    def __init__(self, home: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        jars = os.environ.get("TIDEGATE_TEST_JARS", str(Path(tempfile.gettempdir()) / f"tidegate-jars-{os.getuid()}"))
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("TIDEGATE_")}
        with (home.parent / "up.log").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tidegate.cli.main", "up", "--home", str(home), "--port", str(port)],
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={**inherited, "TIDEGATE_SPARK__JARS_DIR": jars, "TIDEGATE_LAKE__POLL": "PT0.5S"},
                start_new_session=True,
            )
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30)
        self.until(self._ready, 60)

    def _ready(self) -> bool:
        assert self.process.poll() is None
        try:
            return self.http.get("/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def end(self) -> None:
        self.http.close()
        self.process.terminate()
        self.process.wait(60)

    def until(self, holds: Callable[[], Any], seconds: float = 60.0) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := holds()):
            assert time.monotonic() < deadline, "it did not come to hold in time"
            time.sleep(0.1)
        return found

    def deploy(self, story: str) -> None:
        """A story's application, with its durations shortened."""
        [app] = load_apps(str(STORIES / f"{story}.py"))
        document = shortened(app.application())
        body = {key: document[key] for key in ("programs", "schedules")}
        answer = self.http.put(f"{NS}/applications/{app.name}", json=body)
        assert answer.is_success, answer.text

    def declare(self, name: str, program: Mapping[str, Any]) -> None:
        """A program, and a schedule of the same name by hand."""
        assert self.http.put(f"{NS}/programs/{name}", json={"spec": program}).is_success
        spec = {"program": name, "trigger": {"type": "never"}}
        assert self.http.put(f"{NS}/schedules/{name}", json={"spec": spec}).is_success

    def sql(self, name: str, text: str) -> None:
        """Run Spark SQL to its end."""
        self.declare(name, {"type": "spark_sql", "sql": text})
        assert self.run(name)["state"] == "succeeded"

    def run(self, schedule: str, **arguments: Any) -> dict[str, Any]:
        """A manual run, at its end."""
        started = self.http.post(f"{NS}/schedules/{schedule}:trigger", json={"arguments": arguments}).json()
        return self.ended(started["id"])

    def ended(self, run: str) -> dict[str, Any]:
        def end() -> Any:
            found = self.http.get(f"/api/v1/runs/{run}").json()
            return found if found["finished_at"] else None

        found: dict[str, Any] = self.until(end, 120)
        return found

    def runs(self, schedule: str) -> list[dict[str, Any]]:
        """Its runs, oldest first."""
        found: list[dict[str, Any]] = self.http.get(f"{NS}/runs", params={"schedule": schedule}).json()["items"]
        return found[::-1]

    def nth(self, schedule: str, number: int, seconds: float = 60.0) -> dict[str, Any]:
        """The run with this number, from 1 on, at its end."""
        self.until(lambda: len(self.runs(schedule)) >= number, seconds)
        return self.ended(self.runs(schedule)[number - 1]["id"])

    def log(self, run: Mapping[str, Any]) -> str:
        return str(self.http.get(f"/api/v1/runs/{run['id']}/logs").json()["text"])

    def publish(self, dataset: str, **payload: Any) -> None:
        event = {"type": "dataset.updated", "key": dataset, "payload": payload}
        assert self.http.post("/api/v1/events", json=event).status_code == 202

    def progress(self, schedule: str) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(f"{NS}/schedules/{schedule}/progress").json()
        return found

    def watched(self, dataset: str) -> None:
        """Wait until the watcher has looked at a table: what was there before is the past."""

        def looked() -> bool:
            answer = self.http.get(f"/api/v1/datasets/{dataset}")
            status = answer.json()["status"] if answer.is_success else {}
            return bool(status.get("looked_at")) and not status["missing"]

        self.until(looked)


def shortened(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: shortened(value) for key, value in document.items()}
    if isinstance(document, list):
        return [shortened(value) for value in document]
    return SHORT.get(document, document) if isinstance(document, str) else document


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    one = System(tmp_path_factory.mktemp("stories") / "home")
    try:
        yield one
    finally:
        one.end()


@pytest.mark.requirement("STORY-1", "TIME-7", "CATCH-8")
def test_thousands_of_workflows_run_at_their_times_and_none_is_skipped(system: System) -> None:
    """An hour of the story is a minute here: each of 5,000 is due once in it."""
    [app] = load_apps(str(STORIES / "story_01.py"))
    document = shortened(app.application())
    assert len(document["schedules"]) == 5000
    for one in document["schedules"]:
        trigger = one["spec"]["trigger"]
        trigger.update(expression=f"{trigger['expression'].split()[0]} * * * * *", seconds=True)
    body = {key: document[key] for key in ("programs", "schedules")}
    address = f"{NS}/applications/{app.name}"
    assert system.http.put(address, json=body, timeout=120).is_success
    begun = time.time()
    try:

        def all_ran() -> bool:
            answer = system.http.get("/api/v1/audit/ledger", params={"namespace": "stories"}, timeout=60)
            found = answer.json()
            assert answer.is_success and found["holds"], found
            return time.time() > begun + 65

        time.sleep(62)
        system.until(all_ran, 60)
        names = {one["metadata"]["name"] for one in document["schedules"]}

        def ran() -> set[str]:
            found: set[str] = set()
            given: dict[str, Any] = {"limit": 1000, "state": "succeeded"}
            while names - found:
                page = system.http.get(f"{NS}/runs", params=given).json()
                found |= {run["schedule"] for run in page["items"] if run["fire_time"]}
                if page["next"] is None:
                    break
                given["cursor"] = page["next"]
            return found

        system.until(lambda: not names - ran(), 120)  # what was due in the minute may run later on a slow machine
    finally:
        assert system.http.delete(address, timeout=120).is_success


@pytest.mark.requirement("STORY-6", "GATE-14", "GATE-8", "FAIL-8")
def test_under_overload_the_important_go_first_and_the_others_catch_up(system: System) -> None:
    assert system.http.put("/api/v1/pools/narrow", json={"spec": {"slots": 1}}).is_success
    system.deploy("story_06")
    assert system.http.put("/api/v1/freeze", json={"reason": "to have an overload"}).is_success
    feeds = ("archive-06", "clicks-06", "orders-06")
    for feed in feeds:
        for number in range(4):
            system.publish(feed, rows=number)

    def judged(feed: str) -> bool:
        return len([run for run in system.runs(f"process-{feed}") if run["waiting_for"]]) == 4

    system.until(lambda: all(map(judged, feeds)))
    waiting = [run for feed in feeds for run in system.runs(f"process-{feed}")]
    assert {run["state"] for run in waiting} == {"waiting"}
    assert all("frozen" in run["waiting_for"][0]["why"] for run in waiting), waiting[0]["waiting_for"]
    assert system.http.delete("/api/v1/freeze").is_success
    ended = [system.ended(run["id"]) for run in waiting]
    assert {run["state"] for run in ended} == {"succeeded"}
    order = [run["priority"] for run in sorted(ended, key=lambda run: str(run["started_at"]))]
    assert order == sorted(order, reverse=True)


@pytest.mark.requirement("STORY-7", "GATE-5", "GATE-6", "GATE-10")
def test_maintenance_runs_in_its_window_and_once_for_all_that_came(system: System) -> None:
    system.deploy("story_07")
    name = "tidy-if-there-is-news"
    spec = system.http.get(f"{NS}/schedules/{name}").json()["spec"]
    assert [one["type"] for one in spec["constraints"]] == ["window", "min_interval"]
    now = time.time()
    if now % 60 > 50:  # leave time to publish before the window opens
        time.sleep(60 - now % 60 + 1)
    opens = int(time.time()) // 60 * 60 + 60
    start, end = (time.strftime("%H:%M", time.gmtime(at)) for at in (opens, opens + 120))
    window = {"type": "window", "start": start, "end": end, "timezone": "UTC"}
    patch = {"spec": {"constraints": [window, spec["constraints"][1]]}}
    assert system.http.patch(f"{NS}/schedules/{name}", json=patch).is_success
    for rows in (1, 2, 3):
        system.publish("feed-07", rows=rows)
    system.until(lambda: [run for run in system.runs(name) if run["waiting_for"]])  # it was judged
    [held] = system.runs(name)
    assert held["state"] == "waiting" and held["waiting_for"][0]["constraint"] == "window"
    assert held["waiting_for"][0]["until"].startswith(time.strftime("%Y-%m-%dT%H:%M:00", time.gmtime(opens)))
    done = system.nth(name, 1, seconds=90)
    assert (done["state"], done["inputs"][0]["rows"]) == ("succeeded", 6)
    system.publish("feed-07", rows=4)  # the same night: the next waits for 20 hours
    system.until(lambda: [run for run in system.runs(name) if run["waiting_for"]])
    [_, next_night] = system.runs(name)
    assert next_night["waiting_for"][0]["constraint"] == "min_interval"


@pytest.mark.requirement("STORY-3", "LAKE-1", "DATA-11", "EVENT-6")
def test_a_feed_is_processed_when_it_arrives(system: System) -> None:
    tables = "; ".join(f"CREATE TABLE lake.stories.{name} (n INT) USING iceberg" for name in ("feed_03", "mart_03"))
    system.sql("make-03", f"CREATE NAMESPACE IF NOT EXISTS lake.stories; {tables}")
    system.deploy("story_03")
    system.watched("lake.stories.feed_03")
    system.sql("arrive-03", "INSERT INTO lake.stories.feed_03 VALUES (1), (2), (3)")
    first = system.nth("process-the-feed", 1)
    system.sql("again-03", "INSERT INTO lake.stories.feed_03 VALUES (4)")
    second = system.nth("process-the-feed", 2)
    assert [run["state"] for run in (first, second)] == ["succeeded", "succeeded"]
    assert [run["inputs"][0]["rows"] for run in (first, second)] == [3, 1]
    assert second["inputs"][0]["from_snapshot"] == first["inputs"][0]["to_snapshot"]
    system.sql("check-03", "SELECT assert_true(sum(n) = 10 AND count(*) = 4) FROM lake.stories.mart_03")


@pytest.mark.requirement("STORY-4", "DATA-4", "DATA-11")
def test_b_follows_a_success_of_a_and_not_a_failure(system: System) -> None:
    system.deploy("story_04")
    assert system.run("a-by-hand", fail=True)["state"] == "failed"
    assert system.run("a-by-hand", day="2026-12-24")["state"] == "succeeded"
    followed = system.nth("b-after-a", 1)
    assert (followed["state"], len(system.runs("b-after-a"))) == ("succeeded", 1)
    assert "reading 2026-12-24" in system.log(followed)


@pytest.mark.requirement("STORY-5", "DATA-9", "DATA-12")
def test_of_many_feeds_those_with_news_run_once_a_day(system: System) -> None:
    system.deploy("story_05")
    schedule = system.http.get(f"{NS}/schedules/daily-feed-007").json()
    assert [leg["type"] for leg in schedule["spec"]["trigger"]["triggers"]] == ["cron", "event"]
    for _ in range(3):
        system.publish("feed-007", rows=10)
    reached = system.http.get("/api/v1/events/subscribers", params={"type": "dataset.updated", "key": "feed-007"})
    assert [one["schedule"] for one in reached.json()["items"]] == ["daily-feed-007"]
    legs = {leg["node"]: leg for leg in system.progress("daily-feed-007")["tree"]["children"]}
    assert (legs["event"]["satisfied"], legs["cron"]["satisfied"]) == (True, False)
    soon = {"type": "cron", "expression": "*/2 * * * * *", "seconds": True, "latch": "0s"}
    patch = {"spec": {"trigger": {"triggers": [soon, schedule["spec"]["trigger"]["triggers"][1]]}}}
    for name in ("daily-feed-007", "daily-feed-008"):  # their moment of the day comes soon
        event = {**schedule["spec"]["trigger"]["triggers"][1], "key": name.removeprefix("daily-")}
        patch["spec"]["trigger"]["triggers"][1] = event
        assert system.http.patch(f"{NS}/schedules/{name}", json=patch).is_success
    system.publish("feed-007", rows=5)
    system.publish("feed-007", rows=6)
    ran = system.nth("daily-feed-007", 1)
    time.sleep(4.5)
    assert (ran["state"], ran["inputs"][0]["rows"]) == ("succeeded", 11)
    assert ran["fire_time"] is not None
    assert len(system.runs("daily-feed-007")) == 1 and not system.runs("daily-feed-008")


@pytest.mark.requirement("STORY-8", "DATA-5", "DATA-6")
def test_a_join_runs_with_all_inputs_or_after_a_while_with_what_there_is(system: System) -> None:
    system.sql(
        "make-08",
        "CREATE NAMESPACE IF NOT EXISTS lake.stories;"
        "CREATE TABLE lake.stories.orders_08 (`order` INT, customer INT) USING iceberg;"
        "CREATE TABLE lake.stories.customers_08 (customer INT, name STRING) USING iceberg;"
        "CREATE TABLE lake.stories.joined_08 (`order` INT, customer INT, name STRING, partial BOOLEAN) USING iceberg",
    )
    system.deploy("story_08")
    system.watched("lake.stories.orders_08")
    system.watched("lake.stories.customers_08")
    system.sql(
        "both-08",
        "INSERT INTO lake.stories.orders_08 VALUES (1, 7);INSERT INTO lake.stories.customers_08 VALUES (7, 'Ada')",
    )
    whole = system.nth("join", 1)
    system.sql("orders-08", "INSERT INTO lake.stories.orders_08 VALUES (2, 7)")
    partial = system.nth("join", 2)
    assert [run["state"] for run in (whole, partial)] == ["succeeded", "succeeded"]
    assert [run["timed_out_waiting"] for run in (whole, partial)] == [False, True]
    rows = {one["dataset"]: one["rows"] for one in partial["inputs"]}
    assert rows == {"lake.stories.orders_08": 1, "lake.stories.customers_08": 0}
    system.sql(
        "check-08",
        "SELECT assert_true(count_if(name = 'Ada') = 2 AND count_if(partial) = 1 AND count(*) = 2) "
        "FROM lake.stories.joined_08",
    )


@pytest.mark.requirement("STORY-9", "DATA-1", "DATA-8")
def test_chunks_are_processed_when_all_have_come(system: System) -> None:
    system.deploy("story_09")
    for number in range(4):
        system.publish("chunks-09", rows=100, partitions_added=[f"chunk={number}"])
        time.sleep(0.4)
        assert not system.runs("when-it-falls-quiet"), "more was coming"
    counted, quiet = system.nth("when-all-four-are-there", 1), system.nth("when-it-falls-quiet", 1)
    assert [run["inputs"][0]["rows"] for run in (counted, quiet)] == [400, 400]
    assert counted["inputs"][0]["partitions"] == [f"chunk={number}" for number in range(4)]


@pytest.mark.requirement("STORY-10", "DATA-2", "DATA-10")
def test_a_stream_accumulates_until_it_is_enough_or_a_while_has_passed(system: System) -> None:
    system.deploy("story_10")
    for _ in range(10):
        system.publish("stream-10", bytes=10_000_000)
    enough = system.nth("enough-or-a-while", 1)
    assert enough["inputs"][0]["bytes"] == 100_000_000
    system.publish("stream-10", bytes=1)
    waited = system.nth("enough-or-a-while", 2)
    assert (waited["inputs"][0]["bytes"], waited["timed_out_waiting"]) == (1, True)


@pytest.mark.requirement("STORY-11", "DATA-7")
def test_it_runs_every_so_often_and_sooner_when_much_has_come(system: System) -> None:
    system.deploy("story_11")
    idle = system.nth("often-enough", 1)
    assert idle["inputs"][0]["bytes"] == 0
    system.publish("bursts-11", bytes=100_000_000_000)
    sooner = system.nth("often-enough", 2, seconds=5)
    assert sooner["inputs"][0]["bytes"] == 100_000_000_000
    third = system.nth("often-enough", 3)
    assert third["inputs"][0]["bytes"] == 0
    elapsed = system.http.get(f"{NS}/schedules/often-enough").json()["spec"]["trigger"]["triggers"][1]["after"]
    assert elapsed == SHORT["4h"]
