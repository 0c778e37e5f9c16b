"""`tidegate backfill`: create, list, show, pause, resume, cancel."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from tidegate.cli import output
from tidegate.cli.client import Client, by_options, segment
from tidegate.cli.look import path_of
from tidegate.cli.options import Namespace, Output, Schedule
from tidegate.cli.output import Form, facts, grid, span, when
from tidegate.domain.backfills import AGAIN, MOST_AT_ONCE, parse_identity
from tidegate.domain.errors import TidegateError
from tidegate.domain.instants import parse_duration, parse_instant
from tidegate.domain.naming import DEFAULT_NAMESPACE

app = typer.Typer(no_args_is_help=True, help="Past fire times that you ask to be run.")
LOOK = 0.5  # seconds between two looks at one that is followed
WIDTH = 40  # of a bar that nobody watches grow


class Order(StrEnum):
    OLDEST, NEWEST = "oldest", "newest"


class Reprocess(StrEnum):
    NONE, FAILED, ALL = "none", "failed", "all"


Backfill = Annotated[str, typer.Argument(help="Id of a backfill, as `tidegate backfill list` prints it.")]
Reason = Annotated[str, typer.Option("--reason", help="Kept with it.")]
Follow = Annotated[bool, typer.Option("-f", "--follow", help="Watch until it is over; Ctrl-C stops watching only.")]


@app.command()
def create(
    schedule: Schedule,
    start: Annotated[
        str | None, typer.Option("--start", help="The first instant, or day, of the range.", show_default=False)
    ] = None,
    end: Annotated[
        str | None, typer.Option("--end", help="The first instant, or day, after the range. [default: now]")
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", help="A fire time; may be given again. Instead of a range.")
    ] = None,
    order: Annotated[Order, typer.Option("--order", help="Which fire times go first.")] = Order.OLDEST,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, max=MOST_AT_ONCE, help="Runs of it at a time, at most.")
    ] = 1,
    reprocess: Annotated[
        Reprocess,
        typer.Option(
            "--reprocess",
            help="none: only what never got a run. failed: also what no run did. all: everything not under way.",
        ),
    ] = Reprocess.NONE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do.")] = False,
    follow: Follow = False,
    namespace: Namespace = DEFAULT_NAMESPACE,
    form: Output = Form.TABLE,
) -> None:
    """Run past fire times of a schedule; also of one that is disabled.

    Its runs come after everything else that waits for the same, and no instant is run twice."""
    if start is None and not key:
        why = "say from when on with --start, or name the fire times with --key."
        raise typer.BadParameter(why, param_hint="--start")
    said: dict[str, Any] = {
        "start": _instant(start, "--start"),
        "end": _instant(end, "--end"),
        "keys": [_instant(one, "--key") for one in key or ()] or None,
        "order": order.value,
        "concurrency": concurrency,
        "reprocess": reprocess.value,
        "dry_run": dry_run or None,
    }
    with Client() as client:
        path = f"{path_of('schedules', namespace, schedule)}:backfill"
        with by_options(**_OPTIONS):
            plan = client.call("POST", path, body={name: value for name, value in said.items() if value is not None})
        if not follow or dry_run:
            output.show(form, plan, lambda: _plan(plan))
            return
        if form is Form.TABLE:
            output.display(_plan(plan))
        _follow(client, plan["id"], form)


@app.command("list")
def list_backfills(
    schedule: Annotated[str | None, typer.Option("--schedule", help="Only of this schedule.")] = None,
    state: Annotated[
        str | None, typer.Option("--state", help="running, paused, finished, cancelled; several with commas.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many, newest first.")] = 20,
    namespace: Namespace = DEFAULT_NAMESPACE,
    form: Output = Form.TABLE,
) -> None:
    """Backfills, newest first."""
    with Client() as client:
        path = f"/namespaces/{segment(namespace)}/backfills"
        items = list(client.items(path, most=limit, schedule=schedule, state=state))
    rows = (
        (
            one["id"],
            one["schedule"],
            output.state(one["state"]),
            f"{one['progress']['percent']:g} %",
            one["total"],
            one["progress"]["failed"],
            when(one["start"]),
            when(one["end"]),
        )
        for one in items
    )
    columns = ("ID", "SCHEDULE", "STATE", "DONE", "FIRES", "FAILED", "START", "END")
    output.show(form, items, lambda: grid(columns, rows, empty="No backfills."))


@app.command()
def show(backfill: Backfill, follow: Follow = False, form: Output = Form.TABLE) -> None:
    """How far a backfill is, and what it has in hand. With -f and -o json: a line each time something changed."""
    with Client() as client:
        if follow:
            _follow(client, backfill, form)
            return
        found = client.get(_path(backfill))
    output.show(form, found, lambda: page_of(found))


@app.command()
def pause(backfill: Backfill, reason: Reason = "", form: Output = Form.TABLE) -> None:
    """Make no further run of it, and take back those that wait. What runs goes on."""
    _verb(backfill, "pause", reason, form)


@app.command()
def resume(backfill: Backfill, reason: Reason = "", form: Output = Form.TABLE) -> None:
    """Let it go on where it stood."""
    _verb(backfill, "resume", reason, form)


@app.command()
def cancel(backfill: Backfill, reason: Reason = "", form: Output = Form.TABLE) -> None:
    """End it for good, with its runs: what waits at once, what runs is asked to stop."""
    _verb(backfill, "cancel", reason, form)


def _verb(backfill: str, verb: str, reason: str, form: Form) -> None:
    with Client() as client:
        found = client.call("POST", f"{_path(backfill)}:{verb}", body={"reason": reason} if reason else {})
    live = found["progress"]["live"] - _unmade(found)
    runs = "1 of its runs is" if live == 1 else f"{live} of its runs are"
    rest = f"; {runs} still to end" if live > 0 and verb != "resume" else ""
    output.show(form, found, lambda: Text(f"Backfill {found['id']} is {found['state']}{rest}."))


def _path(backfill: str) -> str:
    try:
        parse_identity(backfill)
    except ValueError as error:
        raise TidegateError(f"{error}.") from None
    return f"/backfills/{segment(backfill)}"


_OPTIONS = {
    "start": "--start",
    "end": "--end",
    "keys": "--key",
    "order": "--order",
    "concurrency": "--concurrency",
    "reprocess": "--reprocess",
}


def _instant(text: str | None, option: str) -> str | None:
    """A day is its beginning in UTC. Wrong usage (exit 2) when it is neither a day nor an instant."""
    if text is None:
        return None
    whole = f"{text}T00:00:00Z" if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) else text
    try:
        parse_instant(whole)
    except ValueError as error:
        right = "write a day like 2026-11-01, or an instant like 2026-11-01T00:00:00Z"
        why = (
            f"has no zone, so it names no instant; {right}"
            if "zone" in str(error)
            else f"is no day or instant; {right}"
        )
        raise typer.BadParameter(f"{text!r} {why}.", param_hint=option) from None
    return whole


# ── shown ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _plan(plan: Mapping[str, Any]) -> Any:
    """What it will do."""
    left = plan["total"] - plan["count"]
    runs = f"{plan['count']:,} runs" + (f"; {left:,} fire times are left to the run they have" if left else "")
    each = plan["expected_run"]
    cost = "unknown: the schedule has never run"
    if each is not None:
        cost = f"at least about {span(parse_duration(plan['expected']))}, at {span(parse_duration(each))} a run, "
        cost += f"{plan['at_a_time']} at a time"
    rows = [(when(one["fire_time"]), one["local_time"], one["note"] or "") for one in plan["items"][:10]]
    head = facts(
        (
            ("BACKFILL", plan["id"] or "a dry run: nothing was changed"),
            ("SCHEDULE", f"{plan['namespace']}/{plan['schedule']}"),
            ("RANGE", f"{when(plan['start'])} up to {when(plan['end'])}, {plan['order']} first"),
            ("RUNS", runs),
            ("TIME", cost),
            ("FOLLOW", plan["id"] and f"tidegate backfill show -f {plan['id']}"),
        )
    )
    more = plan["count"] - len(rows)
    tail = Text(f"... and {more:,} more") if more > 0 else Text("")
    return Group(head, Text(""), grid(("FIRE TIME", "LOCAL TIME", "NOTE"), rows, empty="Nothing to run."), tail)


def page_of(found: Mapping[str, Any]) -> Any:
    """A backfill as it stands, for people."""
    progress = found["progress"]
    done = round(WIDTH * progress["settled"] / max(1, found["total"]))
    rest = found["expected"]
    rows = [(when(one["fire_time"]), one["run"], output.state(one["state"])) for one in found["items"]]
    head = facts(
        (
            ("BACKFILL", found["id"]),
            ("SCHEDULE", f"{found['namespace']}/{found['schedule']}"),
            ("STATE", output.state(found["state"])),
            ("REASON", found["reason"]),
            ("RANGE", f"{when(found['start'])} up to {when(found['end'])}, {found['order']} first"),
            ("ASKED BY", f"{found['by']}, {when(found['created_at'])}"),
            ("DONE", f"[{'#' * done}{'.' * (WIDTH - done)}] {progress['percent']:g} % of {found['total']:,}"),
            ("", _counts(found)),
            ("REST", None if rest is None else _rest(found)),
        )
    )
    if not rows:
        return head
    return Group(head, Text(""), grid(("FIRE TIME", "RUN", "STATE"), rows, empty=""))


def _rest(found: Mapping[str, Any]) -> str:
    """How long it will still take."""
    resumed = " once it is resumed" if found["state"] == "paused" else ""
    known = any(found["progress"][name] for name in ("succeeded", "failed", "cancelled"))  # else it has no pace yet
    return f"{'' if known else 'at least '}about {span(parse_duration(found['expected']))}{resumed}"


def _counts(found: Mapping[str, Any]) -> str:
    """Its fire times by what became of them. Those without a run that lives are not in hand, whatever they had."""
    progress, unmade = found["progress"], _unmade(found)
    names = ((progress["succeeded"], "succeeded"), (progress["failed"], "failed"), (progress["cancelled"], "cancelled"),
             (progress["live"] - unmade, "in hand"), (unmade, "to be run again"),
             (progress["passed"], "left to the run they have"))  # fmt: skip
    return ", ".join(f"{count:,} {word}" for count, word in names if count > 0) or "nothing yet"


def _unmade(found: Mapping[str, Any]) -> int:
    """Fire times that were taken up and have no run now: something took its place, for one a pause."""
    return sum(one["state"] in _WITHOUT_A_RUN for one in found["items"])


_WITHOUT_A_RUN = frozenset({"planned", *(state.value for state in AGAIN)})


def _follow(client: Client, backfill: str, form: Form) -> None:
    """Until it is over: a bar that grows where somebody watches, else a line whenever something changed."""
    looks = _looks(client, backfill)
    if form is Form.TABLE and output.out().is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>5.1f} %"),
                   TextColumn("{task.fields[counts]}"))  # fmt: skip
        with Progress(*columns, console=output.out()) as bar:
            task = bar.add_task(backfill, total=None, counts="")
            for one in looks:
                bar.update(task, total=one["total"], completed=one["progress"]["settled"], counts=_counts(one))
        output.say(f"Backfill {one['id']} is {one['state']}.")
        return
    for one in looks:
        match form:
            case Form.TABLE:
                output.say(f"{one['id']} {one['state']}: {one['progress']['percent']:g} %; {_counts(one)}")
            case Form.JSON:
                output.say(json.dumps(one, ensure_ascii=False))
            case Form.YAML:
                output.show(form, one, str)


def _looks(client: Client, backfill: str) -> Iterator[dict[str, Any]]:
    """The backfill whenever it has changed, until it is over."""
    before: Any = None
    while True:
        now = client.get(_path(backfill))
        if (seen := (now["state"], now["progress"])) != before:
            before = seen
            yield now
        if now["finished_at"] is not None:
            return
        time.sleep(LOOK)
