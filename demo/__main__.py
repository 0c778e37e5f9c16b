"""`make demo`: flights land in an Iceberg table on time, while the scheduler and the worker are killed.

Exit 0 only if every promise that it shows was kept. About two minutes after set-up. `--seconds N` runs the schedules
longer or shorter (default 75), `--keep` leaves the home in place.
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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import psycopg
from rich.console import Console
from rich.table import Table

from demo import proof

ROOT = Path(__file__).resolve().parent.parent
JARS = ROOT / ".venv" / "jars"
TIDEGATE = [sys.executable, "-m", "tidegate.cli.main"]
sys.path.insert(0, str(ROOT / "examples"))

console = Console(highlight=False, width=min(100, shutil.get_terminal_size((80, 24)).columns))


class Story:
    """One demo: a home, a running Tidegate, and what happened, with the seconds since the start before each line."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.began = time.monotonic()
        self.seen: set[tuple[str, str]] = set()
        self.claims: list[proof.Claim] = []
        self.outcomes: Mapping[str, Counter[str]] = {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {**os.environ, "TIDEGATE_URL": self.url, "TIDEGATE_HOME": str(home)}
        self.environment["TIDEGATE_SPARK__JARS_DIR"] = str(JARS)
        self.environment.pop("TIDEGATE_DATABASE_URL", None)
        self.api = httpx.Client(base_url=f"{self.url}/api/v1", timeout=10)
        self.up: subprocess.Popen[bytes] | None = None

    # ── telling ────────────────────────────────────────────────────────────────────────────────────────────────────

    def say(self, text: str) -> None:
        console.print(f"[dim]{time.monotonic() - self.began:5.1f} s[/dim]  {text}")

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
        try:
            answer = self.api.get("/namespaces/demo/runs", params={"limit": 200, **query})
            return list(answer.json()["items"]) if answer.status_code == 200 else []
        except (httpx.HTTPError, ValueError):
            return []

    def watch(self, seconds: float) -> None:
        """Show each run as it ends."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for run in reversed(self.runs()):
                mark = (run["id"], run["state"])
                if run["finished_at"] and mark not in self.seen:
                    self.seen.add(mark)
                    self.tell(run)
            time.sleep(0.5)

    def tell(self, run: dict[str, Any]) -> None:
        colour = {"succeeded": "green", "missed": "yellow", "superseded": "yellow"}.get(run["state"], "red")
        fire = (run["fire_time"] or "")[11:19]
        tries = len(run["attempts"])
        again = f"  [yellow]{tries} attempts[/yellow]" if tries > 1 else ""
        self.say(f"{run['schedule']:8} of {fire}  [{colour}]{run['state']}[/{colour}]{again}")

    def kill_in_the_middle(self) -> None:
        """SIGKILL to the scheduler and the worker while a program runs; `up` starts them again."""
        for _ in range(100):
            running = [run for run in self.runs(state="running,starting") if run["schedule"] == "ingest"]
            if running:
                break
            time.sleep(0.1)
        victims = {i["role"]: i["pid"] for i in self.api.get("/instances").json()["items"] if i["role"] != "api"}
        for pid in victims.values():
            os.kill(pid, signal.SIGKILL)
        names = " and ".join(f"{role} (pid {pid})" for role, pid in sorted(victims.items()))
        self.say(f"[bold red]SIGKILL[/bold red] to {names}, with {len(running)} PySpark program running")
        self.claim(
            proof.Claim(
                "scheduler and worker were killed while a program ran", len(victims) == 2 and bool(running), names
            )
        )
        again = self.wait_for_others(set(victims.values()))
        self.say(f"scheduler and worker are back (pids {again.get('scheduler')} and {again.get('worker')})")

    def wait_for_others(self, dead: set[int]) -> dict[str, int]:
        """Wait until scheduler and worker are processes other than these; role -> pid."""
        end = time.monotonic() + 30
        while True:
            roles = {i["role"]: i["pid"] for i in self.api.get("/instances").json()["items"] if i["pid"] not in dead}
            if {"scheduler", "worker"} <= roles.keys() or time.monotonic() > end:
                self.claim(proof.Claim("both were started again", {"scheduler", "worker"} <= roles.keys(), str(roles)))
                return roles
            time.sleep(0.05)

    def settle(self) -> None:
        """Disable the schedules and wait until nothing is open any more."""
        for name in proof.PERIODS:
            done = self.command("-n", "demo", "disable", name, "--reason", "end of the demo")
            if done.returncode:
                raise SystemExit(f"tidegate disable {name} failed: {done.stderr}")
        end = time.monotonic() + 60
        while time.monotonic() < end and self.runs(state="waiting,ready,starting,running,stopping"):
            self.watch(0.5)
        self.watch(0.6)

    def stop(self) -> None:
        if self.up is not None and self.up.poll() is None:
            self.up.terminate()
            try:
                self.up.wait(30)
            except subprocess.TimeoutExpired:
                self.up.kill()
                self.claim(proof.Claim("SIGTERM ends everything within 30 s", False, "it was still there"))


def provision(story: Story) -> None:
    """Java and the Spark jars, with progress; the same code that a Spark driver uses."""
    from tidegate.pipeline.provision import provision as make_sure
    from tidegate.ports.spark import SparkSettings

    story.say("Java and the jars of Spark's Iceberg runtime and of the PostgreSQL driver")
    make_sure(story.home, SparkSettings(jars_dir=str(JARS)), progress=story.say)


def prove(story: Story) -> None:
    """Everything that the demo claims, from the database and from the table itself."""
    from flights_data import day_of, rows_per_day

    from tidegate.pipeline.session import iceberg_catalog
    from tidegate.ports.spark import DriverSpec, SparkSettings
    from tidegate.store.embedded import address_of

    audit = story.command("audit", "-n", "demo")
    said = audit.stdout.strip().splitlines()[-1:] or [audit.stderr.strip()]
    story.claim(proof.Claim("`tidegate audit` recomputes the same", audit.returncode == 0, said[0]))
    address = address_of(story.home)
    with psycopg.connect(address) as connection:
        story.outcomes = proof.ledger(connection, story.claim)
        days = proof.landed_days(connection, day_of)
    spec = DriverSpec(home=str(story.home), catalog_url=address, settings=SparkSettings())
    catalog = iceberg_catalog(spec)
    try:
        rows = catalog.load_table("raw.flights").scan().to_arrow()
    finally:
        catalog.engine.dispose()
    proof.table(rows, days, rows_per_day(), story.claim)


def summary(story: Story) -> bool:
    """What a person enjoys reading at the end."""
    table = Table(title="What ran", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in ("schedule", "every", "fires", "outcomes"):
        table.add_column(column)
    for name, outcome in story.outcomes.items():
        told = ", ".join(f"{count} {state}" for state, count in outcome.most_common() if count)
        table.add_row(name, f"{proof.PERIODS[name]} s", str(outcome.total()), told)
    console.print()
    console.print(table)
    console.print()
    for claim in story.claims:
        mark = "[green]kept[/green]  " if claim.kept else "[bold red]BROKEN[/bold red]"
        console.print(f"{mark}  {claim.promise}\n        [dim]{claim.seen}[/dim]")
    return all(claim.kept for claim in story.claims)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--seconds", type=float, default=75.0)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()

    home = Path(tempfile.mkdtemp(prefix="tidegate-demo-"))
    story = Story(home)
    console.print("[bold]Tidegate: flights of 2013, day by day, through a kill -9[/bold]\n")
    try:
        provision(story)
        story.start()
        story.say(f"tidegate up: database, scheduler, worker and API work; {story.url}/api/v1")
        applied = story.command("apply", "-f", "examples/flights.yaml")
        if applied.returncode:
            raise SystemExit(f"tidegate apply failed:\n{applied.stdout}{applied.stderr}")
        story.say("tidegate apply -f examples/flights.yaml: four programs, four schedules, enabled")
        story.watch(options.seconds * 0.5)
        story.kill_in_the_middle()
        story.watch(options.seconds * 0.5)
        story.say("the schedules are disabled; what runs may end")
        story.settle()
        story.say("proving it, from the database and from the Iceberg table")
        prove(story)
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
        "Yours next: change examples/flights.yaml, then tidegate up and tidegate apply -f examples/flights.yaml"
    )
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
