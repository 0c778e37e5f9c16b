"""Commands that declare: apply, diff, deploy."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from tidegate.cli import output
from tidegate.cli.client import Client, Problem, segment
from tidegate.cli.options import File, Namespace, Output
from tidegate.cli.output import Form, grid
from tidegate.domain.errors import Invalid, Refused, TidegateError
from tidegate.domain.naming import DEFAULT_NAMESPACE, command

if TYPE_CHECKING:
    from tidegate.documents.files import Documents

Strict = Annotated[bool, typer.Option("--strict", help="Refuse what contradicts itself, instead of warning.")]
SIGNS = {"created": ("+", "green"), "updated": ("~", "yellow"), "deleted": ("-", "red"), "unchanged": ("=", "dim")}


def documents_of(file: str, namespace: str) -> Documents:
    """Every document of a file, or of standard input for `-`, checked. Raises Invalid with every fault and its line."""
    from tidegate.documents import files

    if file != "-":
        return files.raw_documents(Path(file), default_namespace=namespace)
    return files.of_text(sys.stdin.read(), "stdin", Path.cwd(), default_namespace=namespace)


def _sent(client: Client, path: str, documents: Documents, namespace: str, **params: Any) -> list[dict[str, Any]]:
    """The items of the answer. Raises Invalid with the lines of what the server found, Problem, Unavailable."""
    try:
        body = {"documents": documents.values, "namespace": namespace}
        items: list[dict[str, Any]] = client.call("POST", path, body=body, **params)["items"]
        return items
    except Problem as error:
        if not error.errors:
            raise
        raise Invalid(documents.placed(error.errors), what=documents.name) from None


def apply(
    file: File,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")] = False,
    keep_pending: Annotated[
        bool, typer.Option("--keep-pending", help="Waiting runs of what changes stay and take the new revision.")
    ] = False,
    strict: Strict = False,
    namespace: Namespace = DEFAULT_NAMESPACE,
    form: Output = Form.TABLE,
) -> None:
    """Write the documents of a file: all of them, or none."""
    documents = documents_of(file, namespace)
    how = {"on_update": "keep" if keep_pending else "reset", "dry_run": dry_run or None}
    with Client() as client:
        if strict:  # first what would be done, so that warnings can be shown with their lines
            planned = _sent(client, "/apply", documents, namespace, **{**how, "dry_run": True})
            _refuse([told for item in planned for told in _warnings(item, documents)])
        items = _sent(client, "/apply", documents, namespace, **how, strict=strict or None)
    output.show(form, items, lambda: _applied(items, dry_run=dry_run))
    for told in documents.notes:
        output.note(told)
    for told in (told for item in items for told in _warnings(item, documents)):
        output.note(f"warning: {told}")
    if form is Form.TABLE:
        for hint in (item["hint"] for item in items if item.get("hint")):
            output.say(hint)


def _warnings(item: Mapping[str, Any], documents: Documents) -> list[str]:
    """What contradicts itself in a document of a file, each with its line."""
    about = item["kind"], item.get("namespace") or "", item["name"]
    return [f"{documents.place(*about, one['path'])}: {one['reason']}" for one in item.get("warnings") or ()]


def _refuse(warnings: Sequence[str]) -> None:
    """Under --strict a warning is an error."""
    if warnings:
        told = "\n".join(f"  {one}" for one in warnings)
        raise Refused(f"Nothing was written, since --strict makes errors of warnings:\n{told}", code="strict")


def _applied(items: Sequence[Mapping[str, Any]], *, dry_run: bool) -> Any:
    def row(item: Mapping[str, Any]) -> Sequence[Any]:
        sign, style = SIGNS[item["result"]]
        result = f"would be {item['result']}" if dry_run and item["result"] != "unchanged" else item["result"]
        name = f"{item['namespace']}/{item['name']}" if item.get("namespace") else item["name"]
        return Text(sign, style=style), item["kind"], name, Text(result, style=style)

    return grid(("", "KIND", "NAME", "RESULT"), map(row, items), empty="Nothing to do.")


def diff(file: File, namespace: Namespace = DEFAULT_NAMESPACE, form: Output = Form.TABLE) -> None:
    """How a file differs from what is stored: exit 0 same, 1 differs, 2 error."""
    try:
        documents = documents_of(file, namespace)
        with Client() as client:
            items = _sent(client, "/diff", documents, namespace)
    except TidegateError as error:
        output.fail(error, 2)
    output.show(form, items, lambda: _differences(items))
    if not all(item["same"] for item in items):
        raise typer.Exit(1)


def _differences(items: Sequence[Mapping[str, Any]]) -> Text:
    text = Text()
    for item in items:
        name = f"{item['namespace']}/{item['name']}" if item.get("namespace") else item["name"]
        if not item["exists"]:
            text.append(f"+ {item['kind']} {name}\n", style="green")
        elif item["fields"]:
            text.append(f"~ {item['kind']} {name}\n", style="yellow")
            for field in item["fields"]:
                text.append(f"    {field['path']}: {_value(field['stored'])} -> {_value(field['given'])}\n")
        if item.get("note"):
            text.append(f"  {item['kind']} {name}: {item['note']}\n", style="dim")
    if all(item["same"] for item in items):
        text.append("No differences.\n")
    text.rstrip()
    return text


def _value(value: Any) -> str:
    return "nothing" if value is None else output.inline(value)


# ── deploy ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def deploy(
    target: Annotated[str, typer.Argument(help="A Python file or module that declares an App.", show_default=False)],
    update_schedules: Annotated[
        bool | None,
        typer.Option("--update-schedules/--no-update-schedules", help="Also create, replace and delete schedules."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before deleting.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the plan.")] = False,
    strict: Strict = False,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", help="For applications that name none.", show_default=False)
    ] = None,
    form: Output = Form.TABLE,
) -> None:
    """Deploy the applications of a Python file: programs and schedules together, then their maintenance policies."""
    from tidegate.sdk.loading import load_apps

    done = []
    with Client() as client:
        for app in load_apps(target):
            declared = _placed(app.application(), namespace)
            body = {key: declared[key] for key in ("programs", "schedules")}
            path = f"/namespaces/{segment(declared['namespace'])}/applications/{segment(declared['name'])}"
            policies = {"documents": app.policies()}
            care = client.call("POST", "/apply", body=policies, dry_run=True)["items"] if policies["documents"] else []
            plan = client.call("PUT", path, body=body, update_schedules=update_schedules, dry_run=True)
            whole = f"{declared['namespace']}/{declared['name']}"
            if form is Form.TABLE:
                output.display(_plan(whole, plan, care))
            told = [
                f"{name}: {one['path']}: {one['reason']}" for name, some in plan["warnings"].items() for one in some
            ]
            if strict:
                _refuse(told)
            for one in told:
                output.note(f"warning: schedule {one}")
            if dry_run:
                done.append(plan)
                continue
            _ask(whole, plan, yes=yes)
            done.append(client.call("PUT", path, body=body, update_schedules=update_schedules))
            if care:
                client.call("POST", "/apply", body=policies)
            if form is Form.TABLE:
                output.say(f"Application {whole} is deployed.")
                for name in done[-1].get("disabled") or ():
                    output.say(
                        f"Schedule {name} is new and disabled: {command(f'enable {name}', declared['namespace'])}"
                    )
    if form is not Form.TABLE:
        output.show(form, done[0] if len(done) == 1 else done, lambda: None)


def _placed(declared: dict[str, Any], namespace: str | None) -> dict[str, Any]:
    """The application in the namespace that was asked for; one that names its own stays there."""
    if namespace is None or declared["namespace"] == namespace:
        return declared
    if declared["namespace"] != DEFAULT_NAMESPACE:
        raise Refused(
            f"Application {declared['name']!r} says namespace {declared['namespace']!r}, -n says {namespace!r}.",
            remedy="Make them agree, or leave one of them out.",
            code="namespace",
        )
    return {**declared, "namespace": namespace}


def _plan(name: str, plan: Mapping[str, Any], care: Sequence[Mapping[str, Any]] = ()) -> Text:
    text = Text(f"Application {name}\n", style="bold")
    for kind, part in (("Program", plan["programs"]), ("Schedule", plan)):
        for result, (sign, style) in SIGNS.items():
            for one in part[result]:
                text.append(f"  {sign} {kind} {one}\n", style=style)
    for item in care:
        sign, style = SIGNS[item["result"]]
        text.append(f"  {sign} {item['kind']} {item['name']}\n", style=style)
    if text.plain.count("\n") == 1:
        text.append("  nothing\n")
    text.rstrip()
    return text


def _ask(name: str, plan: Mapping[str, Any], *, yes: bool) -> None:
    """Deleting needs a yes, from a person or by --yes."""
    programs, schedules = len(plan["programs"]["deleted"]), len(plan["deleted"])
    if yes or not (programs or schedules):
        return
    what = f"{programs} programs and {schedules} schedules of {name} will be deleted"
    if not sys.stdin.isatty():
        raise Refused(f"{what}, and nobody can be asked.", remedy="Add --yes if that is meant.", code="unconfirmed")
    if not typer.confirm(f"{what}. Go on?"):
        raise Refused("Nothing was deployed.", code="unconfirmed")
