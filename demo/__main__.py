"""`make demo`: flights land in Iceberg tables on time and start what is made of them, while the scheduler and the
worker are killed; the table that they land in is put in order meanwhile.

Exit 0 only if every promise that it shows was kept. About three minutes after set-up; on a slow machine it waits for
Spark and for the days that are due, within limits, and says so. `--seconds N` runs the schedules longer or shorter
(default 60), `--keep` leaves the home in place. Ctrl-C and SIGTERM end it and all that it started. Times of fires are
UTC.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import psycopg
from rich.console import Console
from rich.table import Table

from demo import arrivals, proof, upkeep
from demo.pace import Pace

ROOT = Path(__file__).resolve().parent.parent
JARS = ROOT / ".venv" / "jars"
TIDEGATE = [sys.executable, "-m", "tidegate.cli.main"]
sys.path.insert(0, str(ROOT / "examples"))

from flights_data import day_of  # noqa: E402 (the examples are no package)

FIRST_DAYS = 3
"""Days that have to be in the table before the kill, so that it hits a working lakehouse and not a starting one."""
FIRST_LIMIT = 180.0
"""Seconds that a slow machine has for them."""
BACKLOG_LIMIT = 180.0
"""Seconds that a slow machine has to land the days that are due when the schedules' time is over."""
CONSUMERS_LIMIT = 120.0
"""Seconds that a slow machine has until everything that landed has reached its consumers."""
OPEN = "waiting,ready,starting,running,stopping"

console = Console(highlight=False, width=min(100, shutil.get_terminal_size((80, 24)).columns))


class Story:
    """One demo: a home, a running Tidegate, and what happened, with the seconds since the start before each line."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.began = time.monotonic()
        self.seen: set[tuple[str, str]] = set()
        self.claims: list[proof.Claim] = []
        self.outcomes: Mapping[str, Counter[str]] = {}
        self.pace = Pace()
        self.ended: Counter[tuple[str, str]] = Counter()
        self.days_before_the_kill = 0
        self.newest: dict[str, int] = {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {**os.environ, "TIDEGATE_URL": self.url, "TIDEGATE_HOME": str(home)}
        self.environment["TIDEGATE_SPARK__JARS_DIR"] = str(JARS)
        self.environment["TIDEGATE_LAKE__POLL"] = "PT1S"
        self.environment["TIDEGATE_LAKE__MEASURE"] = "PT2S"
        self.environment["TIDEGATE_LAKE__MEASURE_REST"] = "PT5S"
        self.environment.pop("TIDEGATE_DATABASE_URL", None)
        self.api = httpx.Client(base_url=f"{self.url}/api/v1", timeout=10)
        self.up: subprocess.Popen[bytes] | None = None
        self.keeping = upkeep.Keeping(self)

    # ── telling ────────────────────────────────────────────────────────────────────────────────────────────────────

    def say(self, text: str) -> None:
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_column(justify="right", width=7, style="dim")
        line.add_column(overflow="fold")
        line.add_row(f"{time.monotonic() - self.began:5.1f} s", text)
        console.print(line)

    def claim(self, claim: proof.Claim) -> None:
        self.claims.append(claim)

    # ── doing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """`tidegate up`, and wait until database, scheduler, worker and API all work."""
        with open(self.home / "up.log", "ab") as log:
            self.up = subprocess.Popen(
                [*TIDEGATE, "up", "--home", str(self.home), "--port", str(self.port)],
                stdout=log, stderr=log, env=self.environment, start_new_session=True,
            )  # fmt: skip
        self.wait_ready(60)

    def wait_ready(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.up is not None
            if self.up.poll() is not None:
                break
            try:
                if httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        raise SystemExit(f"Tidegate did not become ready:\n{(self.home / 'up.log').read_text()[-3000:]}")

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*TIDEGATE, *arguments], env=self.environment, cwd=ROOT, text=True, capture_output=True, check=False
        )

    def runs(self, **query: Any) -> list[dict[str, Any]]:
        """The newest 200 that fit; none while the API does not answer."""
        try:
            answer = self.api.get("/namespaces/demo/runs", params={"limit": 200, **query})
            return list(answer.json()["items"]) if answer.status_code == 200 else []
        except (httpx.HTTPError, ValueError):
            return []

    def look(self) -> None:
        """Tell of each run that ended since the last look: those on Spark one by one, the small ones as a count."""
        for name in (*proof.PERIODS, *arrivals.CONSUMERS):
            for run in reversed(self.runs(schedule=name)):
                mark = (run["id"] or run["fire_time"], run["state"])
                if run["finished_at"] and mark not in self.seen:
                    self.seen.add(mark)
                    self.tell(run)
        self.keeping.look()

    def tell(self, run: dict[str, Any]) -> None:
        name, state, tries = run["schedule"], run["state"], len(run["attempts"])
        self.ended[name, state] += 1
        if state == "succeeded" and tries <= 1 and name in ("landing", "disk"):
            return
        colour = {"succeeded": "green", "missed": "yellow", "superseded": "yellow"}.get(state, "red")
        again = f"  [yellow]{tries} attempts[/yellow]" if tries > 1 else ""
        self.say(f"{name:7} {_about(run)}  [{colour}]{state}[/{colour}]{again}")

    def tell_where_it_stands(self) -> None:
        days, open_days = self.days(), len(self.runs(schedule="ingest", state=OPEN))
        text = f"so far: {days} days landed, {open_days} in the queue" if days else "so far: Spark is still coming up"
        small = ", ".join(f"{name} ran {self.ended[name, 'succeeded']} times" for name in ("landing", "disk"))
        self.say(f"[dim]{text}; {small}[/dim]")

    def days(self) -> int:
        """Days that have landed so far, as this demo saw them end."""
        return self.ended["ingest", "succeeded"]

    def watch(self, seconds: float) -> None:
        """Show what ends."""
        self.pace.during(seconds, look=self.look, tell=self.tell_where_it_stands)

    def watch_until(self, done: Callable[[], bool], limit: float) -> bool:
        """Show what ends until it is done; False when the limit came first."""
        return self.pace.until(done, limit, look=self.look, tell=self.tell_where_it_stands)

    def land_first_days(self) -> None:
        """A slow machine takes its time to bring Spark up: nothing is killed before days land."""
        if not self.watch_until(lambda: self.days() >= FIRST_DAYS, FIRST_LIMIT):
            self.say(f"[yellow]a slow machine: {self.days()} days landed in {FIRST_LIMIT:.0f} s; it goes on[/yellow]")

    def land_what_is_due(self) -> None:
        """Wait until days land as fast as they fall due: at most one of them waits or runs."""
        enough = self.days_before_the_kill + FIRST_DAYS

        def caught_up() -> bool:
            return self.days() >= enough and len(self.runs(schedule="ingest", state=OPEN)) <= 1

        if not self.watch_until(caught_up, BACKLOG_LIMIT):
            self.say(
                f"[yellow]a slow machine: after {BACKLOG_LIMIT:.0f} s days still wait; disabling drops those,"
                " and each is on record as superseded[/yellow]"
            )

    def kill_in_the_middle(self) -> None:
        """SIGKILL to the scheduler and the worker while a program runs; `up` starts them again."""
        for _ in range(200):
            running = [run for run in self.runs(state="running,starting") if run["schedule"] == "ingest"]
            if running:
                break
            time.sleep(0.1)
        victims = {i["role"]: i["pid"] for i in self.api.get("/instances").json()["items"] if i["role"] != "api"}
        self.look()
        self.days_before_the_kill = self.days()
        for pid in victims.values():
            os.kill(pid, signal.SIGKILL)
        names = " and ".join(f"{role} (pid {pid})" for role, pid in sorted(victims.items()))
        doing = f"while an ingest was {running[0]['state']}" if running else "with no ingest under way"
        self.say(f"[bold red]SIGKILL[/bold red] to {names}, {doing}")
        self.claim(
            proof.Claim(
                "scheduler and worker were killed with a program under way", len(victims) == 2 and bool(running), names
            )
        )
        again = self.wait_for_others(set(victims.values()))
        self.say(f"scheduler and worker are back (pids {again.get('scheduler')} and {again.get('worker')})")

    def wait_for_others(self, dead: set[int]) -> dict[str, int]:
        """Wait until scheduler and worker are processes other than these; role -> pid."""
        end = time.monotonic() + 30
        while True:
            roles = {i["role"]: i["pid"] for i in self.api.get("/instances").json()["items"] if i["pid"] not in dead}
            seen = (
                ", ".join(f"{role} pid {roles[role]}" for role in ("scheduler", "worker") if role in roles) or "nobody"
            )
            if {"scheduler", "worker"} <= roles.keys() or time.monotonic() > end:
                self.claim(proof.Claim("both were started again", {"scheduler", "worker"} <= roles.keys(), seen))
                return roles
            time.sleep(0.05)

    def disable(self, *names: str) -> None:
        """Disable schedules and wait until nothing of them is open any more."""
        for name in names:
            done = self.command("-n", "demo", "disable", name, "--reason", "end of the demo")
            if done.returncode:
                raise SystemExit(f"tidegate disable {name} failed: {done.stderr}")
        self.watch_until(lambda: not any(self.runs(schedule=name, state=OPEN) for name in names), 60)

    @contextmanager
    def catalog(self) -> Iterator[Any]:
        """The lake's catalog, opened beside Tidegate."""
        from tidegate.pipeline.session import iceberg_catalog
        from tidegate.ports.spark import DriverSpec, SparkSettings

        spec = DriverSpec(home=str(self.home), catalog_url=self.address, settings=SparkSettings())
        catalog = iceberg_catalog(spec)
        try:
            yield catalog
        finally:
            catalog.engine.dispose()

    @property
    def address(self) -> str:
        from tidegate.store.embedded import address_of

        return address_of(self.home)

    # ── the end ────────────────────────────────────────────────────────────────────────────────────────────────────

    def consumed(self) -> bool:
        """Whether all that landed has reached everything that waits for it, and nothing is under way."""
        if self.runs(state=OPEN) or not self.told("lake.raw.flights", self.days()):
            return False
        given: dict[str, Any] = {}
        for name in arrivals.CONSUMERS:
            runs = [run for run in self.runs(schedule=name) if run["started_at"]]
            if not runs:
                return False
            given |= {(name, one["dataset"]): one["to_snapshot"] for one in runs[0]["inputs"]}
        return all(int(to or 0) == self.newest.get(name[1], 0) for name, to in given.items())

    def told(self, dataset: str, days: int) -> bool:
        """Whether the commits of so many days are events; notes the newest snapshot of each table."""
        answer = self.api.get("/events", params={"type": "dataset.updated", "limit": 1000})
        items = answer.json()["items"] if answer.status_code == 200 else []
        for one in reversed(items):
            self.newest[one["key"]] = int(one["payload"]["snapshot"])
        return [one["key"] for one in items].count(dataset) >= days

    def settle(self) -> None:
        """Nothing lands any more: let what waits for it have it, then end."""
        self.disable("weather", "ingest", "landing", "disk")
        if not self.watch_until(self.consumed, CONSUMERS_LIMIT):
            self.say(f"[yellow]a slow machine: after {CONSUMERS_LIMIT:.0f} s not all has been consumed[/yellow]")
        self.disable(*arrivals.CONSUMERS)
        self.watch(0.6)

    def stop(self) -> None:
        if self.up is not None and self.up.poll() is None:
            self.up.terminate()
            try:
                self.up.wait(30)
            except subprocess.TimeoutExpired:
                self.up.kill()
                self.claim(proof.Claim("SIGTERM ends everything within 30 s", False, "it was still there"))


def _about(run: Mapping[str, Any]) -> str:
    """What a run stands for: the fire, and what landed or arrived."""
    name, done = run["schedule"], run["state"] == "succeeded"
    if name in proof.PERIODS:
        fire = datetime.fromisoformat(run["fire_time"])
        kind = {"ingest": "flights", "weather": "weather"}.get(name)
        what = f", {kind} of {day_of(fire, proof.PERIODS[name])}" if kind and done else ""
        return f"of {fire:%H:%M:%S}Z{what}"
    given = {one["dataset"].rpartition(".")[2]: one for one in run["inputs"] or ()}
    if name == "cleanup":
        return "since no flights came for 10 s"
    told = " and ".join(f"{one['rows']:,} new rows of {kind}" for kind, one in given.items())
    return f"with {told or 'nothing yet'}" + (", 30 s after the first" if run.get("timed_out_waiting") else "")


def provision(story: Story) -> None:
    """Java and the Spark jars, with progress; the same code that a Spark driver uses."""
    from tidegate.pipeline.provision import provision as make_sure
    from tidegate.ports.spark import SparkSettings

    story.say("Java and the jars of Spark's Iceberg runtime and of the PostgreSQL driver")
    make_sure(story.home, SparkSettings(jars_dir=str(JARS)), progress=story.say)


def prove(story: Story) -> None:
    """Everything that the demo claims, from the database and from the table itself."""
    from flights_data import rows_per_day

    audit = story.command("audit", "-n", "demo")
    said = audit.stdout.strip().splitlines()[-1:] or [audit.stderr.strip()]
    story.claim(proof.Claim("`tidegate audit` recomputes the same", audit.returncode == 0, said[0]))
    past = story.keeping.past
    assert past is not None
    with story.catalog() as catalog:
        names = ("raw.flights", "raw.weather", "mart.delays", "mart.report")
        tables = {f"lake.{name}": catalog.load_table(name) for name in names}
        rows = {name: table.scan().to_arrow() for name, table in tables.items()}
        after = upkeep.shape(tables[arrivals.FLIGHTS], past.days)
    with psycopg.connect(story.address) as connection:
        clocked = proof.ledger(connection, story.claim)
        days = proof.landed_days(connection, "ingest", day_of)
        later = len(days) - story.days_before_the_kill
        story.claim(
            proof.Claim(
                "days landed before the kill and after it",
                story.days_before_the_kill > 0 and later > 0,
                f"{story.days_before_the_kill} before, {later} after",
            )
        )
        past_days = {day.isoformat(): 0 for day in past.days}
        landed = proof.table("flights", rows[arrivals.FLIGHTS], days | past_days, rows_per_day(), story.claim)
        upkeep.prove(connection, past, after, proof.ends(connection, "ingest"), story.claim)
        hours = proof.landed_days(connection, "weather", day_of)
        proof.table("weather", rows[arrivals.WEATHER], hours, rows_per_day("weather"), story.claim)
        story.outcomes = {**clocked, **arrivals.outcomes(connection)}
        total = {name: rows[name].num_rows for name in (arrivals.FLIGHTS, arrivals.WEATHER)}
        total[arrivals.FLIGHTS] -= past.rows  # which nobody was to be started by
        arrivals.commits({name: tables[name] for name in total}, past.snapshots, connection, story.claim)
        for consumer, dataset in (
            ("delays", arrivals.FLIGHTS), ("report", arrivals.FLIGHTS), ("report", arrivals.WEATHER)
        ):  # fmt: skip
            runs, known = arrivals.started(connection, consumer), past.snapshots if dataset == arrivals.FLIGHTS else ()
            arrivals.ranges(runs, consumer, dataset, total[dataset], known, story.claim)
        arrivals.reasons(connection, story.claim)
    fresh = {day: count for day, count in landed.items() if day not in past_days}
    arrivals.results(rows["lake.mart.delays"], rows["lake.mart.report"], fresh, total[arrivals.WEATHER], story.claim)


def summary(story: Story) -> bool:
    """What a person enjoys reading at the end."""
    table = Table(title="What ran", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in ("schedule", "starts", "fires", "outcomes"):
        table.add_column(column)
    for name, outcome in story.outcomes.items():
        told = ", ".join(f"{count} {state}" for state, count in outcome.most_common() if count)
        starts = arrivals.CONSUMERS.get(name) or f"every {proof.PERIODS[name]} s"
        table.add_row(name, starts, str(outcome.total()), told)
    console.print()
    console.print(table)
    dropped = sum(outcome["superseded"] for outcome in story.outcomes.values())
    if dropped:
        console.print(f"\n[yellow]{dropped} superseded[/yellow]: still waiting when the schedules were disabled.")
    console.print()
    for claim in story.claims:
        mark = "[green]kept[/green]  " if claim.kept else "[bold red]BROKEN[/bold red]"
        console.print(f"{mark}  {claim.promise}\n        [dim]{claim.seen}[/dim]")
    return all(claim.kept for claim in story.claims)


def _asked_to_end(number: int, _: FrameType | None) -> None:
    """The way out of Ctrl-C; asked again, it goes on with that."""
    for one in _ENDS:
        signal.signal(one, signal.SIG_IGN)
    raise KeyboardInterrupt(number)


_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()

    for one in _ENDS:
        if signal.getsignal(one) is not signal.SIG_IGN:  # nohup stays
            signal.signal(one, _asked_to_end)
    home = Path(tempfile.mkdtemp(prefix="tidegate-demo-"))
    story = Story(home)
    console.print("[bold]Tidegate: flights and weather of 2013, day by day, through a kill -9 and a policy[/bold]\n")
    try:
        provision(story)
        story.start()
        story.say(f"tidegate up: database, scheduler, worker and API work; {story.url}/api/v1")
        with story.catalog() as catalog:
            story.keeping.write_past(catalog)
        applied = story.command("apply", "-f", "examples/flights.yaml")
        if applied.returncode:
            raise SystemExit(f"tidegate apply failed:\n{applied.stdout}{applied.stderr}")
        story.say("tidegate apply -f examples/flights.yaml: seven programs, seven schedules, enabled")
        half = options.seconds * 0.5
        story.watch(half)
        story.land_first_days()
        story.keeping.apply()
        story.kill_in_the_middle()
        story.watch(half)
        story.land_what_is_due()
        story.keeping.wait()
        story.say("nothing lands any more; what waits for arrivals gets the rest")
        story.settle()
        story.keeping.end()
        story.say("proving it, from the database and from the Iceberg tables")
        prove(story)
    except KeyboardInterrupt as asked:
        number = signal.Signals(asked.args[0])
        story.say(f"{number.name}: everything that it started is ended")
        story.stop()
        if not options.keep:
            shutil.rmtree(home, ignore_errors=True)
        return 128 + number
    finally:
        story.stop()
    kept = summary(story)
    console.print()
    if options.keep or not kept:
        console.print(f"The home is kept: tidegate up --home {home}")
    else:
        shutil.rmtree(home, ignore_errors=True)
    console.print(
        "[bold green]Every promise was kept.[/bold green]" if kept else "[bold red]A promise was broken.[/bold red]"
    )
    console.print(
        "\nYours next: change examples/flights.yaml, then\n"
        '    export PATH="$PWD/.venv/bin:$PATH"\n'
        "    tidegate up\n"
        "    tidegate apply -f examples/flights.yaml        in another terminal"
    )
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
