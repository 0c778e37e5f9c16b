"""Commands that only look: get, describe, runs, queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from tidegate.cli import output
from tidegate.cli.client import Client, nothing_there, segment
from tidegate.cli.options import NAMESPACED, DescribedKind, Kind, Namespace, Output, collection, one_of, run_id
from tidegate.cli.output import Form, facts, grid, took, when
from tidegate.domain.naming import DEFAULT_NAMESPACE

Document = Mapping[str, Any]


def get(
    kind: Kind,
    name: Annotated[str | None, typer.Argument(help="One of them; all when left out.", show_default=False)] = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    form: Output = Form.TABLE,
) -> None:
    """List things of a kind, or show one."""
    what = collection(kind) if name is None else one_of(kind)
    with Client() as client:
        if name is None:
            items = list(client.items(path_of(what, namespace), most=1000 if what == "runs" else None))
            if not items and what in NAMESPACED:
                _tell(nothing_there(client, namespace))
            output.show(form, items, lambda: table_of(what, items))
        else:
            item = client.get(path_of(what, namespace, name))
            output.show(form, item, lambda: table_of(what, [item]))


def describe(
    kind: DescribedKind,
    name: Annotated[str, typer.Argument(help="Its name, or the id of a run.", show_default=False)],
    namespace: Namespace = DEFAULT_NAMESPACE,
    form: Output = Form.TABLE,
) -> None:
    """Everything that is known of one thing."""
    what = one_of(kind)
    with Client() as client:
        path = path_of(what, namespace, name)
        item = client.get(path)
        if what == "schedules" and form is Form.TABLE:
            stats = client.get(f"{path}/stats")
            fires = [] if _at_rest(item) else client.get(f"{path}/preview", count=3)["items"]
            last = list(client.items(f"/namespaces/{segment(namespace)}/runs", schedule=name, most=5))
            output.display(_schedule_head(item, stats, fires))
            output.say(output.as_yaml(item["spec"]).rstrip())
            output.display(Group(Text("\nLast runs", style="bold"), table_of("runs", last)))
        elif what == "runs" and form is Form.TABLE:
            output.display(_run_page(item))
        else:
            output.show(Form.YAML if form is Form.TABLE else form, item, str)


def runs(
    schedule: Annotated[str | None, typer.Option("--schedule", "-s", help="Only of this schedule.")] = None,
    state: Annotated[str | None, typer.Option("--state", help="Only in these states, e.g. failed,crashed.")] = None,
    since: Annotated[str | None, typer.Option("--since", help="Only from this instant on (RFC 3339).")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many, newest first.")] = 20,
    namespace: Namespace = DEFAULT_NAMESPACE,
    form: Output = Form.TABLE,
) -> None:
    """Runs, newest first, those that never started included."""
    with Client() as client:
        path = f"/namespaces/{segment(namespace)}/runs"
        items = list(client.items(path, most=limit, schedule=schedule, state=state, since=since))
        if not items:
            _tell(nothing_there(client, namespace, schedule))
    output.show(form, items, lambda: table_of("runs", items))


def queue(
    namespace: Annotated[str | None, typer.Option("-n", "--namespace", help="Only of this namespace.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 100,
    form: Output = Form.TABLE,
) -> None:
    """Runs that wait, the next to start first, what they wait for and until when at the earliest."""
    with Client() as client:
        items = list(client.items("/queue", most=limit, namespace=namespace))
        if not items:
            _tell(nothing_there(client, namespace))

    def row(item: Document) -> Sequence[Any]:
        return (
            item.get("position"),
            item["schedule"],
            item.get("run") or "its trigger",
            item.get("priority"),
            why_waiting(item.get("waiting_for"))
            or ("the time of its next attempt" if item.get("next_check_at") else None),
            when(item.get("earliest") or item.get("next_check_at")),
        )

    columns = ("", "SCHEDULE", "RUN", "PRIORITY", "WAITS FOR", "NOT BEFORE")
    output.show(form, items, lambda: grid(columns, map(row, items), empty="Nothing waits."))


def _tell(why: str | None) -> None:
    """Beside an empty list."""
    if why is not None:
        output.note(f"Note: {why}.")


# ── where things are, and their tables ─────────────────────────────────────────────────────────────────────────────


def path_of(what: str, namespace: str, name: str | None = None) -> str:
    """The path of a collection, or of one thing in it."""
    if what == "runs" and name is not None:
        return f"/runs/{segment(run_id(name))}"
    prefix = f"/namespaces/{segment(namespace)}" if what in NAMESPACED else ""
    return f"{prefix}/{what}" + (f"/{segment(name)}" if name is not None else "")


def table_of(what: str, items: Sequence[Document]) -> Any:
    """The table of a kind."""
    match what:
        case "schedules":
            columns = ("NAME", "STATE", "PROGRAM", "TRIGGER", "NEXT FIRE")
            return grid(columns, map(_schedule_row, items), empty="No schedules. Declare some: tidegate apply -f FILE")
        case "programs":
            columns = ("NAME", "TYPE", "WHAT", "POOL", "APPLICATION")
            return grid(columns, map(_program_row, items), empty="No programs.")
        case "runs":
            headings = ("ID", "SCHEDULE", "STATE", "FIRE TIME", "TOOK", "REASON")
            return grid(headings, map(_run_row, items), empty="No runs.")
        case "pools":
            pools = [
                (name_of(one), *(_spec(one).get(key) for key in ("slots", "used", "lent")), _loan(one), _rate(one))
                for one in items
            ]
            return grid(("NAME", "SLOTS", "USED", "LENT", "BORROWED", "LAUNCH RATE"), pools, empty="No pools.")
        case "calendars":
            closed = [(name_of(one), _days_of(one), _closed(one)) for one in items]
            return grid(("NAME", "CLOSES", "NOW"), closed, empty="No calendars. Declare one: tidegate apply -f FILE")
        case "datasets":
            found = [(name_of(one), *map(_spec(one).get, ("kind", "snapshot")), _trouble(one)) for one in items]
            return grid(("NAME", "KIND", "SNAPSHOT", ""), found, empty="No datasets are declared or waited for.")
        case "sinks":
            titles = ("NAME", "TYPE", "TO", "DELIVERED", "TO LOOK AT", "SET ASIDE", "")
            return grid(titles, map(_sink_row, items), empty="No sinks. Declare one: tidegate apply -f FILE")
        case "sources":
            heads = ("NAME", "TOPICS", "RECEIVED", "BEHIND", "SET ASIDE", "MISSED", "")
            return grid(heads, map(_source_row, items), empty="No sources. Declare one: tidegate apply -f FILE")
        case "instances":
            keys = ("id", "role", "name", "pid", "epoch")
            lines = [(*(one.get(key) for key in keys), when(one.get("heartbeat"))) for one in items]
            return grid(("ID", "ROLE", "NAME", "PID", "EPOCH", "HEARTBEAT"), lines, empty="Nobody is here.")
        case "leases":
            duties = [
                (
                    one.get("duty"),
                    None if one.get("lapsed") else one.get("instance_id"),
                    one.get("token"),
                    ("lapsed " if one.get("lapsed") else "") + when(one.get("expires")),
                )
                for one in items
            ]
            return grid(("DUTY", "INSTANCE", "TOKEN", "EXPIRES"), duties, empty="No leases.")
        case "policies":
            rules = [(name_of(one), *_policy_row(one)) for one in items]
            return grid(
                ("NAME", "PATTERN", "TABLES", "OPERATIONS", "REVISION"),
                rules,
                empty="No policies. Declare one: tidegate apply -f FILE",
            )
        case "tables":
            return tables_of(items)
        case "applications":
            apps = [(name_of(one), _count(one, "programs"), _count(one, "schedules")) for one in items]
            return grid(("NAME", "PROGRAMS", "SCHEDULES"), apps, empty="No applications.")
        case _:
            return grid(("NAME",), [(name_of(one),) for one in items], empty=f"No {what}.")


def _policy_row(item: Document) -> Sequence[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    enabled = "" if spec.get("enabled", True) else " (disabled)"
    operations = ", ".join(spec.get("operations") or ())
    return f"{spec.get('tables')}{enabled}", status.get("tables"), operations, status.get("revision")


def tables_of(items: Sequence[Document]) -> Any:
    """Tables with their debt."""
    rows = []
    for one in items:
        issues = one.get("issues")
        matter = one.get("error") or (", ".join(issues) if issues else "-" if issues is None else "nothing")
        score = "-" if one.get("score") is None else output.points(one["score"])
        rows.append(
            (
                one["table"],
                one.get("policy") or "-",
                score,
                output.brief(output.plain(matter)),
                when(one.get("assessed_at")),
            )
        )
    columns = ("TABLE", "POLICY", "DEBT", "ISSUES", "MEASURED")
    return grid(columns, rows, empty="No tables are known yet: they are looked for once there is a policy.")


def name_of(item: Document) -> str:
    return str((item.get("metadata") or item).get("name", ""))


def _spec(item: Document) -> Document:
    return {**item, **(item.get("spec") or {}), **(item.get("status") or {})}


def _count(item: Document, key: str) -> int | None:
    """How many there are of it; None where the answer does not say."""
    found = _spec(item).get(key)
    return len(found) if isinstance(found, list | tuple | dict) else found


def _trouble(item: Document) -> str:
    status = item.get("status") or {}
    return "there is no such table" if status.get("missing") else status.get("error") or ""


def _sink_row(item: Document) -> Sequence[Any]:
    spec, status = item["spec"], item.get("status") or {}
    target = {"kafka": f"{spec.get('topic')} at {spec.get('servers')}", "table": spec.get("table")}
    error = status.get("error")
    trouble = Text(f"{error} (since {when(status.get('error_since'))})", style="red") if error else ""
    counts = (status.get(key) for key in ("delivered", "behind", "set_aside"))
    return name_of(item), spec["type"], target.get(spec["type"], spec.get("url")), *counts, trouble


def _source_row(item: Document) -> Sequence[Any]:
    spec, status = item["spec"], item.get("status") or {}
    error = status.get("error")
    trouble = Text(f"{error} (since {when(status.get('error_since'))})", style="red") if error else ""
    behind = sum(max(0, one["end_offset"] - one["next_offset"]) for one in status.get("partitions") or ())
    counts = (status.get("received"), behind, status.get("set_aside"), status.get("missed"))
    return name_of(item), f"{', '.join(spec['topics'])} at {spec['servers']}", *counts, trouble


def _days_of(item: Document) -> str:
    """What a calendar is made of, in words."""
    spec = item.get("spec") or {}
    days, rules = len(spec.get("days") or ()), spec.get("rules") or ()
    parts = [f"{days} days"] * bool(days) + [f"by {rule}" for rule in rules] + ["events"] * bool(spec.get("ics"))
    return f"{', '.join(parts) or 'nothing'} ({spec.get('timezone', 'UTC')})"


def _closed(item: Document) -> Text:
    until = (item.get("status") or {}).get("closed_until")
    return Text(f"closed until {when(until)}", style="yellow") if until else Text("open", style="green")


def _rate(item: Document) -> str:
    rate = _spec(item).get("rate")
    return f"{rate['max']} per {rate['per']}, burst {rate['burst']}" if rate else "-"


def _loan(item: Document) -> str:
    """What its runs have of another pool's slots."""
    borrow = _spec(item).get("borrow")
    return f"{_spec(item).get('borrowed', 0)} of {borrow['max']} from {borrow['from']}" if borrow else "-"


def _schedule_row(item: Document) -> Sequence[Any]:
    spec, status = item["spec"], item.get("status") or {}
    enabled = status.get("enabled", spec.get("enabled"))
    mode = Text("enabled", style="green") if enabled else Text(_rests(status), style="dim")
    if enabled and status.get("unsatisfiable"):
        mode = Text("unsatisfiable", style="yellow")
    trigger = output.brief(in_words(spec["trigger"]))
    return name_of(item), mode, spec.get("program"), trigger, when(status.get("next_fire"))


def _rests(status: Document) -> str:
    """`disabled`, or how else it rests."""
    mode = status.get("mode") or "drop"
    return "disabled" if mode == "drop" else f"disabled ({mode})"


def _program_row(item: Document) -> Sequence[Any]:
    spec = item["spec"]
    what = spec.get("entry") or spec.get("sql") or " ".join(spec.get("argv", ()))
    short = what if len(what) <= 60 else what[:57] + "..."
    return (
        name_of(item),
        spec.get("type"),
        " ".join(short.split()),
        spec.get("pool"),
        item["metadata"].get("application"),
    )


def _run_row(item: Document) -> Sequence[Any]:
    count = item.get("count") or 1
    reason = item.get("reason") or ""
    if item.get("state") in ("waiting",):
        reason = why_waiting(item.get("waiting_for")) or reason
    fire = when(item["fire_time"]) if item.get("fire_time") else f"made {when(item.get('created_at'))}"
    return (
        item.get("id") or "-",
        item["schedule"],
        output.state(item["state"]),
        f"{fire} (and {count - 1} more)" if count > 1 else fire,
        took(item.get("started_at"), item.get("finished_at")),
        output.brief(output.plain(reason)),
    )


def why_waiting(reasons: Sequence[Document] | None) -> str:
    """What a run waits for, in one line."""
    return "; ".join(output.plain(str(one.get("why") or one.get("constraint"))) for one in reasons or ())


def in_words(trigger: Document) -> str:
    """A trigger in a few words, for a table."""
    zone = trigger.get("timezone") or ""
    zone = f" {zone}" if zone and zone != "UTC" else ""
    match trigger.get("type"):
        case "cron":
            return f"{trigger['expression']}{zone}"
        case "interval":
            return f"every {trigger['every']}{zone}"
        case "after_finish":
            return f"{trigger['delay']} after finish"
        case "at":
            return f"at {trigger['time']}"
        case "window_days":
            hours = f"{trigger.get('earliest', '00:00')}-{trigger.get('latest', '24:00')}"
            return f"every {trigger['every_days']} d {hours}{zone}"
        case "never":
            return "by hand"
        case "event" if trigger["event"] == "dataset.updated":
            return f"new data in {trigger.get('key', 'anything')}"
        case "event":
            return f"{_times(trigger)}{trigger['event']} {trigger.get('key') or ''}".rstrip()
        case "partition":
            return f"{trigger.get('count', 1)} partitions of {trigger['dataset']}"
        case "data_size":
            size, rows = trigger.get("bytes"), trigger.get("rows")
            amounts = [] if size is None else [f"{size} bytes" if str(size).isdecimal() else str(size)]
            amounts += [] if rows is None else [f"{rows} rows"]
            return f"{' and '.join(amounts)} of {trigger['dataset']}"
        case "program_status":
            return f"{trigger['program']} {' or '.join(trigger['outcomes'])}{_count_of(trigger)}"
        case "elapsed":
            return f"{trigger['after']} since {trigger.get('event') or 'the last run'}"
        case "quiet":
            return f"{in_words(trigger['trigger'])}, quiet for {trigger['for']}"
        case "all" | "any" | "n_of" as kind:
            joint = {"all": " and ", "any": " or "}.get(kind, ", ")
            legs = joint.join(in_words(leg) for leg in trigger["triggers"])
            most = f", at most {trigger['max_wait']}" if trigger.get("max_wait") else ""
            return f"{trigger['n']} of: {legs}" if kind == "n_of" else f"{legs}{most}"
        case other:
            return str(other)


def _times(trigger: Document) -> str:
    return f"{trigger['count']} x " if trigger.get("count", 1) != 1 else ""


def _count_of(trigger: Document) -> str:
    return f", {trigger['count']} times" if trigger.get("count", 1) != 1 else ""


# ── pages of one thing ─────────────────────────────────────────────────────────────────────────────────────────────


def _schedule_head(item: Document, stats: Document, fires: Sequence[Document]) -> Group:
    """Above its spec, which is never folded: it is to be copied."""
    meta, status = item["metadata"], item.get("status") or {}
    ended = [f"{stats[key]} {word}" for key, word in _TOTALS if stats.get(key)]
    head = facts(
        [
            ("Schedule", f"{meta.get('namespace')}/{meta['name']}"),
            ("Description", meta.get("description")),
            ("Application", meta.get("application")),
            ("Owner", meta.get("owner")),
            ("State", ("enabled" if status.get("enabled") else _rests(status)) + _because(status.get("reason"))),
            ("Unsatisfiable", status.get("unsatisfiable")),
            ("Revision", status.get("revision")),
            ("Next fires", ", ".join(f"{one['local_time']}" for one in fires) or _no_fires(item)),
            ("Runs ended", stats.get("total_runs") or "none yet"),
            ("Attempts", ", ".join(ended)),
        ]
    )
    return Group(head, Text("\nSpec", style="bold"))


def _at_rest(item: Document) -> bool:
    """Whether it makes no runs: disabled, and not in a way that goes on making some."""
    status = item.get("status") or {}
    return not status.get("enabled") and status.get("next_fire") is None


def _no_fires(item: Document) -> str:
    return "none while it is disabled" if _at_rest(item) else "none"


_TOTALS = (
    ("total_successes", "succeeded"),
    ("total_failures", "failed"),
    ("total_timeouts", "timed out"),
    ("total_crashes", "crashed"),
)


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _run_page(item: Document) -> Group:
    cause = item.get("cause") or {}
    head = facts(
        [
            ("Run", item["id"]),
            ("Schedule", f"{item['namespace']}/{item['schedule']} (revision {item.get('revision')})"),
            ("Program", item.get("program")),
            ("State", output.state(item["state"])),
            ("Reason", output.plain(item.get("reason") or "")),
            ("Cause", cause.get("type", "") + (f" by {cause['by']}" if cause.get("by") else "")),
            ("Fire time", when(item["fire_time"]) if item.get("fire_time") else None),
            ("Created", when(item.get("created_at"))),
            ("Started", when(item.get("started_at"))),
            ("Finished", when(item.get("finished_at"))),
            ("Waits for", why_waiting(item.get("waiting_for"))),
            ("Arguments", item.get("arguments") or None),
            ("Merged into", item.get("merged_into")),
        ]
    )
    columns = ("ATTEMPT", "STATE", "BACKEND", "STARTED", "TOOK", "ERROR")
    attempts = grid(columns, map(_attempt_row, item.get("attempts") or ()), empty="No attempt yet.")
    return Group(head, Text(""), attempts)


def _attempt_row(one: Document) -> Sequence[Any]:
    error = one.get("error") or {}
    said = f"{error.get('code')}: {error.get('message')}" if error else "-"
    where = f"{one.get('backend')} {one.get('backend_id') or ''}".strip()
    started, finished = one.get("started_at"), one.get("finished_at")
    return one["number"], output.state(one["state"]), where, when(started), took(started, finished), said
