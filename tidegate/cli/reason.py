"""Commands that answer why and when: preview, explain, audit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text
from rich.tree import Tree

from tidegate.cli import output
from tidegate.cli.client import Client, segment
from tidegate.cli.declare import documents_of
from tidegate.cli.look import path_of
from tidegate.cli.options import Namespace, Output, is_run_id
from tidegate.cli.output import Form, facts, grid, plain, when
from tidegate.domain.errors import TidegateError
from tidegate.domain.naming import DEFAULT_NAMESPACE

SIGNS: dict[bool | None, tuple[str, str]] = {True: ("yes", "green"), False: ("no ", "red"), None: ("-  ", "dim")}
QUIET = 3.0  # seconds before progress is told where nobody looks
AUDIT_PATIENCE = 3600.0  # seconds; a long ledger takes its time


def preview(
    schedule: Annotated[str | None, typer.Argument(help="Name of a schedule.", show_default=False)] = None,
    file: Annotated[
        str | None, typer.Option("-f", "--file", help="Preview the schedules of a file that is not applied.")
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, max=1000, help="How many fires.")] = 10,
    after: Annotated[str | None, typer.Option("--after", help="Fires after this instant (RFC 3339), not now.")] = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    form: Output = Form.TABLE,
) -> None:
    """The next fires of a schedule, declared or not. Changes nothing."""
    if (schedule is None) == (file is None):
        raise typer.BadParameter("name a schedule or a file with -f, one of the two.", param_hint="SCHEDULE")
    with Client() as client:
        if schedule is not None:
            path = f"{path_of('schedules', namespace, schedule)}/preview"
            found = {schedule: client.get(path, count=count, after=after)["items"]}
        else:
            assert file is not None
            found = {}
            for document in documents_of(file, namespace).values:
                if document.get("kind") == "Schedule":
                    body = {"trigger": document["spec"]["trigger"], "count": count, "after": after}
                    told = {key: value for key, value in body.items() if value is not None}
                    found[document["metadata"]["name"]] = client.call("POST", "/preview", body=told)["items"]
    value: Any = next(iter(found.values())) if schedule is not None else found
    output.show(form, value, lambda: Group(*(_fires(name, fires) for name, fires in found.items())))


def _fires(name: str, fires: list[Mapping[str, Any]]) -> Any:
    rows = [(when(one["fire_time"]), one["local_time"], one.get("note") or "") for one in fires]
    return grid(("FIRE TIME", "LOCAL TIME", "NOTE"), rows, empty=f"{name} never fires again by itself.")


def explain(
    name: Annotated[str, typer.Argument(help="A schedule, or the id of a run.", show_default=False)],
    namespace: Namespace = DEFAULT_NAMESPACE,
    form: Output = Form.TABLE,
) -> None:
    """Why a schedule has not run, or why a run did or did not."""
    path = f"/runs/{segment(name)}" if is_run_id(name) else path_of("schedules", namespace, name)
    with Client() as client:
        answer = client.get(f"{path}/explain")
    output.show(form, answer, lambda: _explanation(answer))


def _explanation(answer: Mapping[str, Any]) -> Group:
    head = facts(
        [
            ("Verdict", answer["verdict"]),
            ("Because", plain(answer["summary"])),
            ("Blocker", answer.get("blocker")),
            ("Earliest", when(answer["earliest"]) if answer.get("earliest") else None),
            ("Released by", answer.get("release")),
        ]
    )
    root = Tree(_node(answer["tree"]), guide_style="dim")
    _grow(root, answer["tree"])
    return Group(head, Text(""), root)


def _grow(branch: Tree, node: Mapping[str, Any]) -> None:
    for child in node.get("children") or ():
        _grow(branch.add(_node(child)), child)


def _node(node: Mapping[str, Any]) -> Text:
    sign, style = SIGNS[node.get("satisfied")]
    text = Text.assemble((sign, style), " ", (str(node["node"]), "bold"))
    for told in (_measure(node), node.get("why")):
        if told:
            text.append(f"  {plain(str(told))}")
    return text


def _measure(node: Mapping[str, Any]) -> str:
    """How far it is, where `why` does not say it already."""
    value, threshold, why = node.get("value"), node.get("threshold"), str(node.get("why") or "")
    if isinstance(value, bool) or not isinstance(value, int | str):
        return ""
    if isinstance(value, int) and isinstance(threshold, int):
        return "" if why.startswith(f"{value:,} ") else f"{value:,} of {threshold:,}"
    return "" if why and (threshold is not None or why.startswith(str(value))) else str(value)


def audit(
    since: Annotated[str | None, typer.Option("--since", help="From this instant on (RFC 3339).")] = None,
    namespace: Annotated[str | None, typer.Option("-n", "--namespace", help="Only of this namespace.")] = None,
    form: Output = Form.TABLE,
) -> None:
    """Prove that each fire that was due is in the ledger exactly once; exit 1 if it does not hold."""
    with Client(timeout=AUDIT_PATIENCE) as client:
        if namespace is not None:
            client.get(f"/namespaces/{segment(namespace)}")  # of one that is not there everything would hold
        answer = _audited(client, since, namespace)
    output.show(form, answer, lambda: _proof(answer))
    if not answer["holds"]:
        raise typer.Exit(1)


def _audited(client: Client, since: str | None, namespace: str | None) -> Any:
    """The proof; meanwhile how far it is, on standard error."""
    console, began = output.err(), time.monotonic()
    with console.status("Reading the ledger") as status:
        for line in client.lines("/audit/ledger", since=since, namespace=namespace, progress=True):
            if (told := line.get("progress")) is None:
                return line["audit"]
            text = f"{told['schedules']} schedules, {told['fires']} fires up to {when(told['at'])}"
            status.update(text)
            if not console.is_terminal and time.monotonic() - began > QUIET:
                output.note(text)
    raise TidegateError("The server ended before the audit did.", remedy="See its log, and try again.")


def _proof(answer: Mapping[str, Any]) -> Group:
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(answer["outcomes"].items()))
    head = facts(
        [
            ("Span", f"{when(answer['since'])} to {when(answer['until'])}"),
            ("Schedules", answer["schedules"]),
            ("Fires due", answer["owed"]),
            ("In the ledger", f"{answer['recorded']}" + (f" ({outcomes})" if outcomes else "")),
            ("Not decided yet", answer["not_yet_decided"]),
            ("Of those late", answer["late"]),
            ("Lost", answer["lost"]),
            ("Doubled", answer["doubled"]),
            ("Unexplained", answer["unexplained"]),
        ]
    )
    rows = [
        (one["kind"], f"{one['namespace']}/{one['schedule']}", when(one["first"]), one["count"], one["why"])
        for one in answer["findings"]
    ]
    verdict = (
        Text("The ledger holds: each fire that was due is in it exactly once.", style="bold green")
        if answer["holds"]
        else Text("The ledger does not hold.", style="bold red")
    )
    if not rows:
        return Group(head, Text(""), verdict)
    return Group(head, Text(""), grid(("FINDING", "SCHEDULE", "FIRST", "COUNT", "WHY"), rows, empty=""), verdict)
