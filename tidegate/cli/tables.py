"""`tidegate tables`: list, health, status, runs, maintain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from tidegate.cli import output
from tidegate.cli.client import Client, by_options, segment
from tidegate.cli.look import tables_of
from tidegate.cli.options import Output
from tidegate.cli.output import Form, facts, grid, when
from tidegate.domain.maintenance.health import SIZES, size

app = typer.Typer(invoke_without_command=True, help="Tables: how they are, what is done about it, and why (not).")
Table = Annotated[str, typer.Argument(help="Path of a table: catalog.namespace.table.", show_default=False)]
Document = Mapping[str, Any]
SEVERITIES = {"CRITICAL": "red", "WARNING": "yellow", "INFO": "dim"}
VERDICTS = {True: Text("runs", style="green"), False: Text("waits", style="yellow")}


@app.callback()
def whole(context: typer.Context, form: Output = Form.TABLE) -> None:
    """Tables: how they are, what is done about it, and why (not)."""
    if context.invoked_subcommand is None:
        list_tables(form=form)


@app.command("list")
def list_tables(form: Output = Form.TABLE) -> None:
    """Every table of every catalog, with its debt and the policy that speaks for it."""
    with Client() as client:
        items = list(client.items("/tables"))
    output.show(form, items, lambda: tables_of(items))


@app.command()
def health(
    table: Table,
    history: Annotated[
        int, typer.Option("--history", min=0, help="Show so many earlier measurements, too.", show_default=False)
    ] = 0,
    form: Output = Form.TABLE,
) -> None:
    """The figures of a table, what is the matter with it, and its debt term by term."""
    path = f"/tables/{segment(table)}"
    with Client() as client:
        item = client.get(f"{path}/health")
        earlier = list(client.items(f"{path}/history", most=history)) if history else []
    shown = {**item, "history": earlier} if history else item
    output.show(form, shown, lambda: _health_page(item, earlier))


@app.command()
def status(table: Table, form: Output = Form.TABLE) -> None:
    """Which operation is due, and of each every reason why it runs or does not."""
    with Client() as client:
        item = client.get(f"/tables/{segment(table)}/trigger-status")
    output.show(form, item, lambda: _status_page(item))


@app.command()
def runs(
    table: Table,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many, newest first.")] = 20,
    form: Output = Form.TABLE,
) -> None:
    """The maintenance of a table, newest first, with what each really changed."""
    with Client() as client:
        items = list(client.items(f"/tables/{segment(table)}/runs", most=limit))

    def row(one: Document) -> Sequence[Any]:
        by = "by hand" if one["manual"] else one["policy"]
        outcome = output.state(one["outcome"]) if one["outcome"] else Text("under way")
        return one["run"], one["operation"], by, outcome, when(one["started_at"]), _changed(one["result"])

    columns = ("RUN", "OPERATION", "BY", "OUTCOME", "STARTED", "CHANGED")
    output.show(form, items, lambda: grid(columns, map(row, items), empty="It was never maintained."))


@app.command()
def maintain(
    table: Table,
    operation: Annotated[
        str | None, typer.Option("--operation", help="E.g. rewrite_data_files. [default: all of its policy]")
    ] = None,
    policy: Annotated[str | None, typer.Option("--policy", help="Whose options. [default: its own policy's]")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do.")] = False,
    form: Output = Form.TABLE,
) -> None:
    """Maintain a table now, whatever schedules and conditions say; after what maintains it already."""
    given = (("operation", operation), ("policy", policy), ("dry_run", dry_run or None))
    body = {key: value for key, value in given if value is not None}
    with Client() as client, by_options(operation="--operation", policy="--policy"):
        answer = client.call("POST", f"/tables/{segment(table)}:maintain", body=body)
    items = answer["items"]
    rows = [(one["operation"], one["run"] or "-", one["prediction"]["why"]) for one in items]
    output.show(
        form,
        items,
        lambda: grid(("OPERATION", "RUN", "EXPECTED"), rows, empty="Its policy enables no operation."),
    )
    if not dry_run and items and form is Form.TABLE:
        output.note(f"Follow it: tidegate logs -f {items[0]['run']}")


# ── pages ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _health_page(item: Document, earlier: Sequence[Document]) -> Group:
    head = facts(
        [
            ("Table", item["table"]),
            ("Snapshot", item.get("snapshot")),
            ("Measured", when(item.get("assessed_at"))),
            ("Trouble", item.get("error")),
            ("Debt", f"{output.points(item['debt']['score'])} of 1000"),
            *(
                (f"  {term['name']}", f"{output.points(term['points'])}: {output.plain(term['why'])}")
                for term in item["debt"]["terms"]
            ),
        ]
    )
    issues = [
        (Text(one["severity"], style=SEVERITIES.get(one["severity"], "")), output.plain(one["why"]))
        for one in item["issues"]
    ]
    figures = facts([(name, _figure(name, value)) for name, value in item["metrics"].items() if name not in _TWINS])
    parts: list[Any] = [head, Text("")]
    if item["assessed_at"] is None:
        parts.append(Text("It was not measured yet: that is done once a policy speaks for it.", style="dim"))
    else:
        parts += [grid(("ISSUE", ""), issues, empty="Nothing is the matter."), Text(""), figures]
    if earlier:
        columns = ("MEASURED", "DEBT", "FILES", "SMALL", "SNAPSHOTS", "MANIFESTS")
        names = ("file_count", "small_file_count", "snapshot_count", "manifest_count")
        lines = [
            (
                when(one["assessed_at"]),
                None if one["score"] is None else output.points(one["score"]),
                *(one["metrics"].get(name, "-") for name in names),
            )
            for one in earlier
        ]
        parts += [Text(""), grid(columns, lines, empty="")]
    return Group(*parts)


_TWINS = frozenset(
    {
        "small_files",
        "data_files",
        "data_bytes",
        "delete_files",
        "snapshots",
        "oldest_snapshot_at",
        "newest_snapshot_at",
        "manifests",
        "manifest_bytes",
        "partitions",
    }
)
"""Figures that stand there under the name by which conditions compare them, too."""
_SIZES = frozenset({*SIZES, "smallest_file", "largest_file"})


def _figure(name: str, value: Any) -> str:
    """A figure with its unit."""
    if isinstance(value, str):
        return output.plain(value)
    if name in _SIZES or name.endswith("_bytes"):
        return size(value)
    if name == "max_snapshot_age":
        return output.span(value)
    text = f"{value:,.2f}".rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}"
    return f"{text} %" if name.endswith("_percent") else text


def _status_page(item: Document) -> Group:
    if item["policy"] is None:
        return Group(Text(f"No policy speaks for {item['catalog']}.{item['namespace']}.{item['table']}."))
    rows = [
        (
            one["operation"],
            Text("forced", style="red") if one["forced"] else VERDICTS[bool(one["should_run"])],
            output.plain(one["why"]),
            when(one["next_eligible_time"]),
            when(one["last_run"]),
        )
        for one in item["operations"]
    ]
    columns = ("OPERATION", "", "WHY", "NOT BEFORE", "LAST RUN")
    return Group(Text(f"Policy {item['policy']}"), Text(""), grid(columns, rows, empty="It asks for no operation."))


def _changed(result: Document | None) -> str:
    """What a maintenance changed, in words."""
    if not result:
        return "-"
    return str(result.get("message") or ("something" if result.get("changed") else "nothing"))
